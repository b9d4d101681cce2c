/* /proc/TID/syscall, stat and sched: any text gives a moment whose words fit, and what it says of registers it says once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/waits/wall_proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = malloc(size ? size : 1), state[96], call[96];
        struct infp_wall_moment moment = { 0 };
        struct infp_wall_turns turns = { 0 };
        int r;

        expect(text != NULL);
        if (size)
                memcpy(text, data, size); /* of its own, so that a byte too far is seen */
        r = infp_wall_parse_call(text, size, &moment);
        expect(r <= 0);
        expect(!moment.has_registers ||
               (moment.has_call && moment.registers[INFP_RSP] > UINT32_MAX && !(moment.unknown >> INFP_RSP & 1) &&
                !(moment.unknown >> INFP_RIP & 1) && (moment.unknown >> INFP_RBP & 1)));
        expect(r == 0 || (!moment.has_call && !moment.has_registers));
        expect(infp_wall_parse_turns(text, size, &turns) <= 0);
        if (!moment.letter)
                moment.letter = infp_wall_parse_letter(text, size);
        if (size)
                memcpy(moment.wchan, text, size < sizeof(moment.wchan) - 1 ? size : sizeof(moment.wchan) - 1);
        infp_wall_state(&moment, state, sizeof(state));
        infp_wall_call_name(&moment, call, sizeof(call));
        expect(*state && strlen(state) < sizeof(state) && strlen(call) < sizeof(call));
        free(text);
        return 0;
}

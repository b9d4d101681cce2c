#include "sampler/python/codes.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "unwind/python/checks.h"
#include "unwind/python/code.h"

enum {
        FRAMES = 8192,         /* cached frames, a power of two */
        MOST_CODES = 65536,    /* then all are forgotten, and read again */
        MOST_BYTES = 16 << 20, /* of line tables: the same */
};

/* What is kept of a code object. */
struct code {
        const char *file, *function; /* function NULL: it could not be read */
        struct infp_python_lines lines;
        uint8_t line_table[];
};

struct infp_python_codes {
        struct infp_python_names *names;
        struct infp_map by_key; /* by process, address and check; to struct code */
        size_t bytes;
        uint64_t n_unread;
        struct cached {
                uint64_t process, code, instruction, id; /* id 0: nothing */
                uint32_t check;
        } frames[FRAMES];
        struct infp_python_checks checks;
        struct infp_python_code scratch; /* as large as the largest line table */
};

static void forget(struct infp_python_codes *codes)
{
        for (size_t i = 0; i < codes->by_key.cap; i++)
                if (codes->by_key.slots[i].key)
                        free((void *) (uintptr_t) codes->by_key.slots[i].value);
        infp_map_done(&codes->by_key);
        codes->by_key = (struct infp_map){ 0 };
        codes->bytes = 0;
}

struct infp_python_codes *infp_python_codes_new(struct infp_python_names *names)
{
        struct infp_python_codes *codes = calloc(1, sizeof(*codes));

        if (codes)
                codes->names = names;
        return codes;
}

struct infp_python_codes *infp_python_codes_free(struct infp_python_codes *codes)
{
        if (codes)
                forget(codes);
        free(codes);
        return NULL;
}

/* Into scratch. False: it is not there any more. The sample says which one it was: address and check. */
static bool read_code(struct infp_python_codes *codes, const struct infp_python_process *process,
                      const struct infp_frames_one *frame)
{
        const struct infp_python_memory memory = infp_python_process_memory(process->pid);
        const struct infp_python *python = process->python;

        codes->checks.gather = infp_python_process_gather;
        codes->checks.context = memory.context;
        codes->checks.n = 1;
        codes->checks.codes[0] = frame->code;
        return infp_python_code_read(&python->layout, &memory, python->code_type, frame->code, &codes->scratch) == 0 &&
               infp_python_checks_make(&codes->checks, &process->frames->layout, &process->frames->check) == 1 &&
               codes->checks.ret[0] == frame->check;
}

static struct code *keep(struct infp_python_codes *codes, bool was_read)
{
        const struct infp_python_code *from = &codes->scratch;
        const uint32_t size = was_read ? from->lines.table_size : 0;
        struct code *code = calloc(1, sizeof(*code) + size);

        if (!code)
                return NULL;
        codes->bytes += sizeof(*code) + size;
        if (!was_read)
                return code;
        code->file = infp_python_names_text(codes->names, from->file);
        code->function = code->file ? infp_python_names_text(codes->names, from->function) : NULL;
        code->lines = from->lines;
        code->lines.table = from->lines.table ? memcpy(code->line_table, from->line_table, size) : NULL;
        return code;
}

static const struct code *code_of(struct infp_python_codes *codes, const struct infp_python_process *process,
                                  const struct infp_frames_one *frame, uint64_t key)
{
        const uint64_t *at = infp_map_get(&codes->by_key, key);
        struct code *code;
        bool was_read;

        if (at)
                return (const struct code *) (uintptr_t) *at;
        if (codes->by_key.n >= MOST_CODES || codes->bytes >= MOST_BYTES)
                forget(codes);
        was_read = read_code(codes, process, frame);
        codes->n_unread += !was_read;
        code = keep(codes, was_read);
        if (code && infp_map_put(&codes->by_key, key, (uintptr_t) code) < 0) {
                free(code);
                code = NULL;
        }
        return code;
}

uint64_t infp_python_codes_frame(struct infp_python_codes *codes, const struct infp_python_process *process,
                                 const struct infp_frames_one *frame)
{
        const uint64_t mixed = (frame->code ^ frame->instruction << 20) * UINT64_C(0x9e3779b97f4a7c15);
        struct cached *cached = &codes->frames[mixed >> 32 & (FRAMES - 1)];
        const uint64_t parts[] = { process->id, frame->code, frame->check };
        const struct code *code;

        if (cached->id && cached->code == frame->code && cached->instruction == frame->instruction &&
            cached->check == frame->check && cached->process == process->id)
                return cached->id;
        code = code_of(codes, process, frame, infp_hash64(parts, sizeof(parts), 0) | 1);
        if (!code)
                return 0;
        *cached = (struct cached){
                .process = process->id, .code = frame->code, .instruction = frame->instruction, .check = frame->check
        };
        if (code->function) {
                const struct infp_python_name name = { .function = code->function,
                                                       .file = code->file,
                                                       .line = infp_python_code_line(&process->python->layout,
                                                                                     &code->lines, frame->instruction),
                                                       .first_line = code->lines.first_line };

                cached->id = infp_python_names_add(codes->names, &name);
        } else {
                cached->id = infp_python_names_add_unnamed(codes->names, process->id, frame->code);
        }
        return cached->id;
}

uint64_t infp_python_codes_unread(const struct infp_python_codes *codes)
{
        return codes->n_unread;
}

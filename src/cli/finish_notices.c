#include "cli/finish_notices.h"

#include "cli/command.h"

static void say(void *context, const char *text)
{
        (void) context;
        infp_say("%s", text);
}

const struct infp_finish_notices infp_said_notices = { .say = say };

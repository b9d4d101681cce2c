/* Ends a test as skipped with its reason, which tools/check prints. */
#pragma once

#define SKIP_BECAUSE(reason)                   \
        do {                                   \
                print_message("%s\n", reason); \
                skip();                        \
        } while (0)

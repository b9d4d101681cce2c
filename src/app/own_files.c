#include "app/own_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/own_directory.h"

int infp_own_folder(const char *name, char *ret, size_t cap, struct infp_err *err)
{
        static const char *const places[] = { "", "/" INFP_AGENT_DIRECTORY };
        char own[PATH_MAX], file[PATH_MAX + 64];

        infp_own_directory(own, sizeof(own));
        for (size_t i = 0; i < INFP_COUNT(places); i++) {
                if ((size_t) snprintf(ret, cap, "%s%s", own, places[i]) >= cap ||
                    (size_t) snprintf(file, sizeof(file), "%s/%s", ret, name) >= sizeof(file))
                        continue;
                if (own[0] && access(file, R_OK) == 0)
                        return 0;
        }
        return infp_fail(err, -ENOENT, "%s is missing: install infprof again", name);
}

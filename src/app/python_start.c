#include "app/python_start.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/own_files.h"

static const char start_folder[] = "python/infprof/start", extension[] = "python/infprof/_native.abi3.so";

int infp_python_start_find(char *ret, size_t cap, bool *ret_has_extension, struct infp_err *err)
{
        char file[PATH_MAX + 64];

        INFP_TRY(infp_own_folder("python/infprof/start/sitecustomize.py", ret, cap, err));
        snprintf(file, sizeof(file), "%s/%s", ret, extension);
        *ret_has_extension = access(file, R_OK) == 0;
        return 0;
}

int infp_python_start_variables(const char *torch, const char *budget, struct infp_python_start *ret,
                                const char **variables, struct infp_err *err)
{
        const char *before = getenv("PYTHONPATH");
        char folder[PATH_MAX];
        bool has_extension;
        int n = 0;

        *ret = (struct infp_python_start){ 0 };
        INFP_TRY(infp_python_start_find(folder, sizeof(folder), &has_extension, err));
        if (strchr(folder, ':'))
                return infp_fail(err, -EINVAL,
                                 "%s has a colon, at which PYTHONPATH ends a name; install infprof elsewhere", folder);
        infp_str_printf(&ret->path, "PYTHONPATH=%s/%s%s%s", folder, start_folder, before && *before ? ":" : "",
                        before ? before : "");
        if (torch)
                infp_str_printf(&ret->torch, "INFPROF_TORCH=%s%s%s", *torch ? torch : "on", budget ? ",budget=" : "",
                                budget ? budget : "");
        if (ret->path.failed || ret->torch.failed)
                return infp_fail(err, -ENOMEM, "not enough memory");
        variables[n++] = ret->path.data;
        if (torch)
                variables[n++] = ret->torch.data;
        return n;
}

void infp_python_start_done(struct infp_python_start *start)
{
        infp_str_done(&start->path);
        infp_str_done(&start->torch);
}

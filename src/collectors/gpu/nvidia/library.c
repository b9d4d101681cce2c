/* Loads the driver's library and starts it. The bare name libnvidia-ml.so is not tried: CUDA's toolkit has a stub with that
 * name that loads and then fails. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "collectors/gpu/nvidia/nvidia.h"

static const char *const names[] = { "libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1" };

const char *infp_nvml_path(const struct infp_env *env)
{
        const char *path = infp_env_setting(env, "nvidia-library");

        if (path)
                return path;
        if (!env->is_live)
                return NULL;
        path = secure_getenv("INFPROF_NVML_LIBRARY");
        return path ? path : "";
}

/* dlerror is about one file; most machines simply have no such GPU. */
static int no_library(const char *path, const char *why, struct infp_err *err)
{
        if (*path)
                return infp_fail(err, -ENODEV, "the library %s cannot be loaded: %s", path, why);
        if (!strstr(why, "No such file"))
                return infp_fail(err, -ENODEV, "NVIDIA's library cannot be loaded: %s", why);
        return infp_fail(err, -ENODEV,
                         "no NVIDIA GPU: %s is not here; it comes with the driver, and into a container with "
                         "docker run --gpus all (NVIDIA_DRIVER_CAPABILITIES must have utility)",
                         names[0]);
}

static void *load(const char *path, struct infp_err *err, int *ret)
{
        char why[512] = ""; /* dlerror's text lasts until the next try */
        void *library;

        if (*path) {
                library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
                if (!library)
                        *ret = no_library(path, dlerror(), err);
                return library;
        }
        for (size_t i = 0; i < INFP_COUNT(names); i++) {
                library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
                if (library)
                        return library;
                if (i)
                        continue;
                /* For the second place only the first one's error is reported. */
                snprintf(why, sizeof(why), "%s", dlerror());
                if (!strstr(why, "No such file"))
                        break;
        }
        *ret = no_library("", why, err);
        return NULL;
}

/* POSIX gives the addresses of functions as pointers to data. */
static void *symbol(void *library, const char *name)
{
        return dlsym(library, name);
}

#define FIND(type, name, arguments)                        \
        do {                                               \
                void *at_ = symbol(library, "nvml" #name); \
                memcpy(&ret->name, &at_, sizeof(at_));     \
        } while (0);
#define CHECK(type, name, arguments) \
        if (!ret->name && !missing)  \
                missing = "nvml" #name;

/* The first required symbol that is missing; NULL: all are there. */
static const char *find_symbols(void *library, struct nvml *ret)
{
        const char *missing = NULL;

        *ret = (struct nvml){ .library = library };
        NVML_REQUIRED(FIND)
        NVML_OPTIONAL(FIND)
        NVML_REQUIRED(CHECK)
        return missing;
}

/* Without the device files the library starts a set-uid helper that makes them, which a container or a missing helper prevents. */
static const char device_file[] = "/dev/nvidiactl";

static int not_started(int result, const char *path, struct infp_err *err)
{
        const char *fix = infp_nvidia_fix(result);
        int r = -EIO;

        if (result == NVML_DRIVER_NOT_LOADED || result == NVML_LIBRARY_NOT_FOUND)
                r = -ENODEV;
        else if (result == NVML_NO_PERMISSION || result == NVML_OPERATING_SYSTEM)
                r = -EACCES;
        else if (!infp_nvidia_is_known(result) && !*path && access(device_file, F_OK) < 0)
                fix = "/dev/nvidiactl is not there: running nvidia-smi once makes it, docker run --gpus all brings it "
                      "into a container; dmesg | grep NVRM says more";
        return infp_fail(err, r, "NVIDIA's library does not start (error %d): %s%s%s", result,
                         infp_nvidia_reason(result), fix ? "; " : "", fix ? fix : "");
}

int infp_nvml_load(struct nvml *nvml, const char *path, struct infp_err *err)
{
        struct nvml loaded;
        const char *missing;
        int r = -ENODEV;
        void *library = load(path, err, &r);

        if (!library)
                return r;
        missing = find_symbols(library, &loaded);
        if (missing) {
                infp_fail(err, -ENODEV, "NVIDIA's library has no %s: it is damaged, or a stub of CUDA's toolkit",
                          missing);
                dlclose(library);
                return -ENODEV;
        }
        r = loaded.Init_v2();
        if (r != NVML_SUCCESS) {
                r = not_started(r, path, err);
                dlclose(library);
                return r;
        }
        *nvml = loaded;
        return 0;
}

void infp_nvml_unload(struct nvml *nvml)
{
        if (!nvml->library)
                return;
        nvml->Shutdown();
        dlclose(nvml->library);
        *nvml = (struct nvml){ 0 };
}

#include "base/rights.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/procfile.h"

static const struct {
        unsigned capability;
        const char *user, *root, *refused_anyway;
} rights[] = {
        [INFP_MAY_TRACE] = { CAP_SYS_PTRACE,
                             "run infprof as the user of that process or as root, or allow it once as root: setcap "
                             "cap_sys_ptrace,cap_dac_read_search+ep $(command -v infprof)",
                             "root lacks CAP_SYS_PTRACE here: docker run --cap-add SYS_PTRACE",
                             "root has CAP_SYS_PTRACE here, and the kernel refuses it all the same: run infprof where "
                             "the process's user namespace is, or look for a security module (dmesg | grep denied)" },
        [INFP_MAY_SAMPLE] = { 38 /* CAP_PERFMON, which headers older than Linux 5.8 do not have */,
                              "run infprof as the user of that process or as root, or allow it once as root: setcap "
                              "cap_perfmon,cap_sys_ptrace+ep $(command -v infprof)",
                              "root lacks CAP_PERFMON here: docker run --cap-add PERFMON --cap-add SYS_PTRACE",
                              "root has CAP_PERFMON here, and the kernel refuses it all the same: look for a security "
                              "module (dmesg | grep denied)" },
        [INFP_MAY_BPF] = { 39 /* CAP_BPF, as old as that */,
                           "run infprof as root, or allow it once as root: setcap "
                           "cap_bpf,cap_perfmon,cap_sys_ptrace+ep "
                           "$(command -v infprof)",
                           "root lacks CAP_BPF here: docker run --cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE",
                           "root has CAP_BPF here, and the kernel refuses it all the same: look for a security module "
                           "(dmesg | grep denied)" },
        [INFP_MAY_GPU] = { CAP_SYS_ADMIN,
                           "run infprof as root, or let the container have the GPU's device file (docker run --gpus "
                           "all)",
                           "root lacks CAP_SYS_ADMIN here: docker run --cap-add SYS_ADMIN, or let the container have "
                           "the GPU's device file (docker run --gpus all)",
                           "let the container have the GPU's device file (docker run --gpus all)" },
};

bool infp_has_capability(unsigned number)
{
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

        return number < 64 && syscall(SYS_capget, &head, data) == 0 && data[number / 32].effective >> number % 32 & 1;
}

bool infp_rights_has(enum infp_right right)
{
        /* The kernel split the others off CAP_SYS_ADMIN, which still includes them. */
        return infp_has_capability(rights[right].capability) ||
               (right != INFP_MAY_TRACE && infp_has_capability(CAP_SYS_ADMIN));
}

const char *infp_rights_fix(enum infp_right right)
{
        if (geteuid() != 0)
                return rights[right].user;
        return infp_rights_has(right) ? rights[right].refused_anyway : rights[right].root;
}

const char *infp_rights_stop_fix(int root_fd, pid_t pid, pid_t tid, const char *command, char *ret, size_t cap)
{
        static const char containers[] =
                "in a container: docker run --cap-add SYS_PTRACE; on Kubernetes: kubectl debug "
                "--profile=sysadmin --target=CONTAINER";
        char path[48], text[32] = "";
        struct stat owner;
        uint64_t tracer;
        int scope;

        infp_read_at(root_fd, "proc/sys/kernel/yama/ptrace_scope", text, sizeof(text));
        scope = text[0] >= '0' && text[0] <= '3' ? text[0] - '0' : 0;
        snprintf(path, sizeof(path), "proc/%d/status", (int) tid);
        if (infp_proc_number(root_fd, path, "TracerPid:", INFP_PROC_LAST, &tracer) && tracer) {
                snprintf(ret, cap, "process %d traces it already (a debugger, strace): that has to let it go first",
                         (int) tracer);
                return ret;
        }
        snprintf(path, sizeof(path), "proc/%d", (int) pid);
        if (scope == 3)
                snprintf(ret, cap, "kernel.yama.ptrace_scope is 3, which forbids it to everybody until the next boot");
        else if (scope && geteuid() != 0 && fstatat(root_fd, path, &owner, 0) == 0 && owner.st_uid == geteuid())
                snprintf(ret, cap,
                         "kernel.yama.ptrace_scope is %d: sudo infprof %s %d, or as root: sysctl "
                         "kernel.yama.ptrace_scope=0; %s",
                         scope, command, (int) pid, containers);
        else
                snprintf(ret, cap, "%s; %s", infp_rights_fix(INFP_MAY_TRACE), containers);
        return ret;
}

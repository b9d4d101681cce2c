/* Which container a cgroup's path names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "collectors/container/name.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID "11112222-3333-4444-5555-666677778888"
#define UID_ "11112222_3333_4444_5555_666677778888"

static bool is(struct infp_span s, const char *text)
{
        return s.size == strlen(text) && !memcmp(s.at, text, s.size);
}

static void test_paths(void **state)
{
        static const struct {
                const char *path, *id, *runtime, *pod, *qos,
                        *own; /* id NULL: no container; own: the part that is its own */
        } all[] = {
                { "/docker/" ID, ID, "docker", "", "", "/docker/" ID },
                { "/system.slice/docker-" ID ".scope", ID, "docker", "", "", "/system.slice/docker-" ID ".scope" },
                { "/system.slice/docker-" ID ".scope/init.scope", ID, "docker", "", "",
                  "/system.slice/docker-" ID ".scope" },
                { "/docker/" ID "/docker/" ID2, ID2, "docker", "", "", "/docker/" ID "/docker/" ID2 },
                { "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID
                  ".scope",
                  ID, "containerd", UID_, "burstable", NULL },
                { "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope", ID, "cri-o", UID_, "guaranteed",
                  NULL },
                { "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-conmon-" ID ".scope", NULL, NULL, NULL, NULL, NULL },
                { "/kubepods/besteffort/pod" UID "/" ID, ID, "kubernetes", UID, "besteffort", NULL },
                { "/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID, ID,
                  "containerd", UID_, "burstable", NULL },
                { "/machine.slice/libpod-" ID ".scope/container", ID, "podman", "", "",
                  "/machine.slice/libpod-" ID ".scope" },
                { "/machine.slice/libpod-conmon-" ID ".scope", NULL, NULL, NULL, NULL, NULL },
                { "/default/" ID, ID, "containerd", "", "", NULL },
                { "/lxc/web server", "web server", "lxc", "", "", NULL },
                { "/lxc.payload.t\xC3\xA4st\xFF/init.scope", "t\xC3\xA4st\xFF", "lxc", "", "",
                  "/lxc.payload.t\xC3\xA4st\xFF" },
                { "/lxc.monitor.web", NULL, NULL, NULL, NULL, NULL },
                { "/machine.slice/machine-deb12.scope/payload", "deb12", "nspawn", "", "", NULL },
                { "/machine.slice/systemd-nspawn@deb12.service", "deb12", "nspawn", "", "", NULL },
                { "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope", "1\\x2dvm", "libvirt", "", "", NULL },
                { "/ecs/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-1234567890",
                  "0123456789abcdef0123456789abcdef-1234567890", "ecs", "", "", NULL },
                { "/system.slice/vllm.service", NULL, NULL, NULL, NULL, NULL },
                { "/", NULL, NULL, NULL, NULL, NULL },
                { "", NULL, NULL, NULL, NULL, NULL },
                { "/docker/0123456789abcdef", NULL, NULL, NULL, NULL, NULL },
                { "/docker/x" ID, NULL, NULL, NULL, NULL, NULL },
                { "/machine.slice/machine-.scope", NULL, NULL, NULL, NULL, NULL },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(all); i++) {
                struct infp_span path = { all[i].path, strlen(all[i].path) };
                struct infp_container_name name = { .runtime = NULL };
                bool found = infp_container_name(path, &name);

                if (found != (all[i].id != NULL))
                        fail_msg("%s: %s", all[i].path, found ? "found" : "not found");
                if (!found)
                        continue;
                if (!is(name.id, all[i].id) || !name.runtime || strcmp(name.runtime, all[i].runtime) ||
                    !is(name.pod, all[i].pod) || !is(name.qos, all[i].qos))
                        fail_msg("%s: %.*s %s pod %.*s %.*s", all[i].path, (int) name.id.size, name.id.at,
                                 name.runtime ? name.runtime : "-", (int) name.pod.size, name.pod.at,
                                 (int) name.qos.size, name.qos.at);
                if (all[i].own)
                        assert_int_equal(name.size, strlen(all[i].own));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_paths) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "collectors/container/name.h"

#include <string.h>

#include "base/mem.h"

enum { ID_SIZE = 64, UID_SIZE = 36, FARGATE_SIZE = 32 };

static bool is_hex(const char *s, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
                        return false;
        return true;
}

bool infp_is_container_id(struct infp_span s)
{
        return s.size == ID_SIZE && is_hex(s.at, ID_SIZE);
}

static bool ends_with(struct infp_span s, const char *end)
{
        size_t n = strlen(end);

        return s.size >= n && !memcmp(s.at + s.size - n, end, n);
}

static struct infp_span without_end(struct infp_span s, const char *end)
{
        if (ends_with(s, end))
                s.size -= strlen(end);
        return s;
}

static struct infp_span skip(struct infp_span s, size_t n)
{
        return (struct infp_span){ s.at + n, s.size - n };
}

struct walk {
        struct infp_span parent;
        bool in_kubernetes, in_ecs;
        struct infp_span pod, qos;
};

/* "kubepods-burstable-pod<uid, _ for ->.slice", "pod<uid>", "burstable". */
static void note_pod(struct walk *walk, struct infp_span name)
{
        static const char *const classes[] = { "burstable", "besteffort" };
        struct infp_span after = { "", 0 };
        struct infp_span rest =
                without_end(infp_span_cut(name, ':', &after), ".slice"); /* "<slice>:cri-containerd:<id>" */

        for (size_t i = 0; i + 3 + UID_SIZE <= rest.size; i++)
                if (!memcmp(rest.at + i, "pod", 3) && i + 3 + UID_SIZE == rest.size &&
                    (i == 0 || rest.at[i - 1] == '-'))
                        walk->pod = skip(rest, i + 3);
        for (size_t k = 0; k < INFP_COUNT(classes); k++)
                for (size_t i = 0; i + strlen(classes[k]) <= rest.size; i++)
                        if (!memcmp(rest.at + i, classes[k], strlen(classes[k])))
                                walk->qos = (struct infp_span){ rest.at + i, strlen(classes[k]) };
}

static const char *runtime_of_parent(const struct walk *walk)
{
        static const struct {
                const char *parent, *runtime;
        } known[] = {
                { "docker", "docker" },        { "buildkit", "docker" },      { "actions_job", "docker" },
                { "default", "containerd" },   { "k8s.io", "containerd" },    { "moby", "docker" },
                { "libpod_parent", "podman" }, { "machine.slice", "podman" },
        };

        if (walk->in_kubernetes)
                return "kubernetes";
        if (walk->in_ecs)
                return "ecs";
        for (size_t i = 0; i < INFP_COUNT(known); i++)
                if (infp_span_is(walk->parent, known[i].parent))
                        return known[i].runtime;
        return NULL;
}

/* "<runtime>-<id>.scope", "<parent>:cri-containerd:<id>", "<id>". */
static bool by_id(const struct walk *walk, struct infp_span name, struct infp_container_name *ret)
{
        static const struct {
                const char *prefix, *runtime;
        } known[] = {
                { "docker-", "docker" },   { "cri-containerd-", "containerd" }, { "crio-", "cri-o" },
                { "libpod-", "podman" },   { "nerdctl-", "containerd" },        { "containerd-", "containerd" },
                { "buildkit-", "docker" },
        };
        static const char *const helpers[] = { "crio-conmon-", "libpod-conmon-" };
        struct infp_span s = without_end(name, ".scope"), before;

        if (s.size < ID_SIZE || !is_hex(s.at + s.size - ID_SIZE, ID_SIZE))
                return false;
        before = (struct infp_span){ s.at, s.size - ID_SIZE };
        for (size_t i = 0; i < INFP_COUNT(helpers); i++)
                if (infp_span_starts(before, helpers[i]))
                        return false;
        if (before.size && before.at[before.size - 1] != '-' && before.at[before.size - 1] != ':')
                return false;
        ret->id = skip(s, before.size);
        ret->runtime = before.size ? NULL : runtime_of_parent(walk);
        for (size_t i = 0; i < INFP_COUNT(known); i++)
                if (infp_span_starts(before, known[i].prefix))
                        ret->runtime = known[i].runtime;
        if (ends_with(before, ":cri-containerd:"))
                ret->runtime = "containerd";
        return true;
}

/* "<32 hexadecimal digits>-<number>" below /ecs: a task of AWS Fargate. */
static bool by_ecs(const struct walk *walk, struct infp_span name, struct infp_container_name *ret)
{
        if (!walk->in_ecs || name.size < FARGATE_SIZE + 2 || !is_hex(name.at, FARGATE_SIZE) ||
            name.at[FARGATE_SIZE] != '-')
                return false;
        for (size_t i = FARGATE_SIZE + 1; i < name.size; i++)
                if (name.at[i] < '0' || name.at[i] > '9')
                        return false;
        ret->id = name;
        ret->runtime = "ecs";
        return true;
}

static bool by_name(const struct walk *walk, struct infp_span name, struct infp_container_name *ret)
{
        static const struct {
                const char *prefix, *end, *runtime;
        } known[] = {
                { "lxc.payload.", "", "lxc" },
                { "systemd-nspawn@", ".service", "nspawn" },
                { "machine-qemu\\x2d", ".scope", "libvirt" },
                { "machine-lxc\\x2d", ".scope", "libvirt" },
                { "machine-", ".scope", "nspawn" },
        };

        for (size_t i = 0; i < INFP_COUNT(known); i++)
                if (infp_span_starts(name, known[i].prefix) && ends_with(name, known[i].end) &&
                    name.size > strlen(known[i].prefix) + strlen(known[i].end)) {
                        ret->id = without_end(skip(name, strlen(known[i].prefix)), known[i].end);
                        ret->runtime = known[i].runtime;
                        return true;
                }
        if (!infp_span_is(walk->parent, "lxc") && !infp_span_is(walk->parent, "lxc.payload"))
                return false;
        ret->id = name;
        ret->runtime = "lxc";
        return true;
}

bool infp_container_name(struct infp_span path, struct infp_container_name *ret)
{
        struct walk walk = { .parent = { "", 0 }, .pod = { "", 0 }, .qos = { "", 0 } };
        bool found = false;

        for (size_t at = 0; at < path.size;) {
                struct infp_span name = skip(path, at);
                struct infp_container_name here = { .id = { "", 0 } };
                const char *slash = memchr(name.at, '/', name.size);

                if (slash)
                        name.size = (size_t) (slash - name.at);
                at += name.size + 1;
                if (!name.size)
                        continue;
                if (infp_span_starts(name, "kubepods") || infp_span_starts(name, "kubelet-kubepods"))
                        walk.in_kubernetes = true;
                if (infp_span_is(name, "ecs"))
                        walk.in_ecs = true;
                if (walk.in_kubernetes)
                        note_pod(&walk, name);
                if (by_id(&walk, name, &here) || by_ecs(&walk, name, &here) || by_name(&walk, name, &here)) {
                        *ret = here;
                        ret->pod = walk.pod;
                        ret->qos = walk.qos;
                        if (walk.pod.size && !walk.qos.size)
                                ret->qos = (struct infp_span){ "guaranteed", 10 };
                        ret->size = (size_t) (name.at + name.size - path.at);
                        found = true;
                }
                walk.parent = name;
        }
        return found;
}

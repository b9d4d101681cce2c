/* Which server is of the run, in fixture trees: a process of the target listens there, or one that it has started since. */
#include "process_tree.h"

#include "record/session_parts.h"

struct world {
        struct machine *m;
        struct infp_target *target;
        struct infp_session session;
        struct infp_session_options options;
        char top[64];
};

static void put_socket(const struct world *w, int pid, unsigned inode)
{
        tree_command("mkdir -p '%s/proc/%d/fd' && ln -s 'socket:[%u]' '%s/proc/%d/fd/3'", w->top, pid, inode, w->top,
                     pid);
}

/* 10 is the target and has started 11, and that 12 after the last refresh; 20 is somebody else's. */
static void open_world(struct world *w)
{
        memset(w, 0, sizeof(*w));
        put_process(tree_new(w->top), (struct fake_process){ .pid = 10, .ppid = 1 });
        put_process(w->top, (struct fake_process){ .pid = 20, .ppid = 1 });
        tree_put(w->top, "proc/net/tcp",
                 "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
                 "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 512 1\n"
                 "   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 520 1\n");
        put_socket(w, 20, 520);
        w->m = machine_open(w->top);
        w->m->env.target = w->target = new_target(INFP_MODE_PID, false, 10);
        refresh(w->target, &w->m->env);
        put_process(w->top, (struct fake_process){ .pid = 11, .ppid = 10 });
        put_process(w->top, (struct fake_process){ .pid = 12, .ppid = 11 });
        put_socket(w, 12, 512);
        w->options.env = &w->m->env;
        w->session.options = &w->options;
}

static void close_world(struct world *w)
{
        infp_target_free(w->target);
        machine_close(w->m);
        tree_remove(w->top);
}

static void check(struct world *w, const char *url, int want, const char *want_text)
{
        struct infp_err err = { "" };

        assert_int_equal(infp_session_serves(&w->session, url, &err), want);
        assert_string_equal(err.text, want_text);
}

static void of_what_the_target_has_started(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        check(&w, "http://127.0.0.1:8080/v1", 0, "");
        check(&w, "http://127.0.0.1:8081", -ENOENT, "no process of the target listens at http://127.0.0.1:8081");
        check(&w, "http://192.0.2.1:8080", -ENOENT, "http://192.0.2.1:8080 is on another machine");
        tree_command("rm '%s/proc/12/fd/3'", w.top);
        put_socket(&w, 10, 512);
        check(&w, "localhost:8080", 0, "");
        close_world(&w);
}

/* A container: its ports and addresses are not ours. */
static void in_a_network_of_its_own(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        tree_command("mkdir -p '%s/proc/self/ns' '%s/proc/10/ns' && ln -s 'net:[1]' '%s/proc/self/ns/net' && "
                     "ln -s 'net:[2]' '%s/proc/10/ns/net'",
                     w.top, w.top, w.top, w.top);
        tree_put(w.top, "proc/10/net/tcp",
                 "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
                 "   0: 00000000:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 530 1\n"
                 "   1: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 531 1\n");
        tree_put(w.top, "proc/10/net/fib_trie",
                 "Main:\n        |-- 10.1.2.0\n           /24 link UNICAST\n"
                 "        |-- 10.1.2.3\n           /32 host LOCAL\n");
        tree_put(w.top, "proc/10/net/if_inet6", "fd000000000000000000000000000002 04 40 00 82     eth0\n");
        tree_command("mkdir -p '%s/proc/10/fd' && ln -s 'socket:[530]' '%s/proc/10/fd/3' && "
                     "ln -s 'socket:[531]' '%s/proc/10/fd/4'",
                     w.top, w.top, w.top);
        check(&w, "http://10.1.2.3:8082/v1", 0, "");
        check(&w, "http://[fd00::2]:8082", 0, "");
        check(&w, "http://127.0.0.1:8082", 0, "");
        check(&w, "http://10.1.2.3:8083", -ENOENT, "no process of the target listens at http://10.1.2.3:8083");
        check(&w, "http://10.1.2.0:8082", -ENOENT, "http://10.1.2.0:8082 is on another machine");
        /* Somebody else has this port in our network: that one is asked for. */
        check(&w, "http://127.0.0.1:8081", -ENOENT, "no process of the target listens at http://127.0.0.1:8081");
        close_world(&w);
}

static uint64_t slow_clock(const struct infp_env *env)
{
        return *(uint64_t *) env->clock_context += 60 * INFP_NS_PER_MS;
}

static uint64_t still_clock(const struct infp_env *env)
{
        return *(uint64_t *) env->clock_context;
}

/* The recorder's thread looks for 100 ms a second at most, however many ask. */
static void within_a_bound(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        w.m->env.now_ns = slow_clock;
        check(&w, "http://127.0.0.1:8080", -EAGAIN,
              "100 ms were not enough to find out whether a process of the target listens at http://127.0.0.1:8080");
        w.m->env.now_ns = still_clock;
        check(&w, "http://127.0.0.1:8080", -EAGAIN,
              "100 ms were not enough to find out whether a process of the target listens at http://127.0.0.1:8080");
        *(uint64_t *) w.m->env.clock_context += INFP_NS_PER_S;
        check(&w, "http://127.0.0.1:8080", 0, "");
        close_world(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(of_what_the_target_has_started),
                cmocka_unit_test(in_a_network_of_its_own),
                cmocka_unit_test(within_a_bound),
        };

        return cmocka_run_group_tests_name("session_serves", tests, NULL, NULL);
}

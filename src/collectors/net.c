/* Network interfaces: /proc/net/dev of the network namespace that infprof runs in. */
#include <errno.h>

#include "base/mem.h"
#include "collect/collector.h"
#include "collectors/fields.h"

/* A smaller value is not a restart here: the sum falls whenever an interface goes away, as those of containers often do, and
 * taking the rest for an increase would invent traffic. */
// clang-format off
static const struct infp_column net_columns[] = {
        INFP_COLUMN(vNetworkBytesRecvd, I64, COUNTER, bytes, MEASURED, NONE, "dev:0", 0, "infprof_host_network_received_bytes_total", "Bytes received."),
        INFP_COLUMN(vNetworkBytesSent, I64, COUNTER, bytes, MEASURED, NONE, "dev:8", 0, "infprof_host_network_sent_bytes_total", "Bytes sent."),
        INFP_COLUMN(vNetworkPacketsRecvd, I64, COUNTER, count, MEASURED, NONE, "dev:1", 0, "infprof_host_network_received_packets_total", "Packets received."),
        INFP_COLUMN(vNetworkPacketsSent, I64, COUNTER, count, MEASURED, NONE, "dev:9", 0, "infprof_host_network_sent_packets_total", "Packets sent."),
        INFP_COLUMN(vNetworkErrorsRecvd, I64, COUNTER, count, MEASURED, NONE, "dev:2", 0, "infprof_host_network_receive_errors_total", "Packets received with an error."),
        INFP_COLUMN(vNetworkErrorsSent, I64, COUNTER, count, MEASURED, NONE, "dev:10", 0, "infprof_host_network_send_errors_total", "Packets that could not be sent."),
        INFP_COLUMN(vNetworkDropsRecvd, I64, COUNTER, count, MEASURED, NONE, "dev:3", 0, "infprof_host_network_receive_drops_total", "Packets received and dropped."),
        INFP_COLUMN(vNetworkDropsSent, I64, COUNTER, count, MEASURED, NONE, "dev:11", 0, "infprof_host_network_send_drops_total", "Packets dropped before they were sent."),
        INFP_COLUMN(vNetworkFifoRecvd, I64, COUNTER, count, MEASURED, NONE, "dev:4", 0, "infprof_host_network_receive_fifo_errors_total", "Packets lost because the receive queue was full."),
        INFP_COLUMN(vNetworkFrameErrors, I64, COUNTER, count, MEASURED, NONE, "dev:5", 0, "infprof_host_network_frame_errors_total", "Packets received with a length, checksum or frame error."),
        INFP_COLUMN(vNetworkMulticastRecvd, I64, COUNTER, count, MEASURED, NONE, "dev:7", 0, "infprof_host_network_received_multicast_total", "Multicast packets received."),
        INFP_COLUMN(vNetworkFifoSent, I64, COUNTER, count, MEASURED, NONE, "dev:12", 0, "infprof_host_network_send_fifo_errors_total", "Packets lost because the send queue was full."),
        INFP_COLUMN(vNetworkCollisions, I64, COUNTER, count, MEASURED, NONE, "dev:13", 0, "infprof_host_network_collisions_total", "Collisions while sending."),
        INFP_COLUMN(vNetworkCarrierErrors, I64, COUNTER, count, MEASURED, NONE, "dev:14", 0, "infprof_host_network_carrier_errors_total", "Losses of the carrier while sending."),
};

static const struct infp_column interface_keys[] = {
        INFP_COLUMN(interface, STR, LABEL, none, MEASURED, NO, "dev", 0, NULL, "Name of the interface."),
};
// clang-format on

static const struct infp_table net_table = {
        .name = "net",
        .help = "Sums over all interfaces but lo; a bridge and the interfaces below it both count.",
        .columns = net_columns,
        .n_columns = INFP_COUNT(net_columns),
        .section = "net",
        .series = "",
};

static const struct infp_table interface_table = {
        .name = "net_interface",
        .help = "Each network interface, lo included.",
        .keys = interface_keys,
        .n_keys = 1,
        .columns = net_columns,
        .n_columns = INFP_COUNT(net_columns),
        .section = "net_interface",
};

enum { FEWEST_WORDS = 16 };

struct net {
        struct infp_procfile file;
        struct infp_fields sum_fields, interface_fields;
        struct infp_sums sums;
        struct infp_span words[INFP_FIELD_WORDS];
};

static int net_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct net *net = state;
        int r;

        net->file = (struct infp_procfile) INFP_PROCFILE_INIT;
        infp_fields_init(&net->sum_fields, &net_table, "dev", "/proc/net/dev", 0);
        infp_fields_init(&net->interface_fields, &interface_table, "dev", "/proc/net/dev", 0);
        r = infp_procfile_open(&net->file, env->root_fd, "proc/net/dev", !env->is_live);
        if (r < 0)
                return infp_fail_errno(err, r == -ENOENT ? -ENODEV : r, "/proc/net/dev cannot be opened");
        return 0;
}

static void emit_interface(struct net *net, struct infp_emit *emit, struct infp_span name, size_t n, uint64_t t_ns)
{
        struct infp_row *row = infp_emit_begin(emit, &interface_table, t_ns);

        infp_row_bytes(row, 0, name.at, name.size);
        infp_fields_words(&net->interface_fields, row, net->words, n);
        infp_emit_commit(emit);
}

/* "  eth0: 12 ...", or "eth0:12 ..." on old kernels; the two lines of the heading have no colon. The name of an interface may
 * contain colons ("eth0.7:1"), numbers do not. */
static void take_line(struct net *net, struct infp_emit *emit, struct infp_span line, uint64_t t_ns)
{
        struct infp_span rest = { "", 0 }, name = infp_span_cut_last(line, ':', &rest);
        size_t n;

        n = infp_span_words(rest, net->words, INFP_FIELD_WORDS);
        infp_sums_line(&net->sums, n);
        name = infp_span_trim(name);
        if (!name.size || !n)
                return;
        emit_interface(net, emit, name, n, t_ns);
        if (!infp_span_is(name, "lo"))
                infp_sums_add(&net->sums, &net->sum_fields, net->words, n);
}

static int net_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct net *net = state;
        uint64_t t_ns = env->now_ns(env);
        int r = infp_procfile_read(&net->file, env->root_fd, "proc/net/dev");
        struct infp_span text = infp_whole_words(infp_procfile_text(&net->file)), line;
        struct infp_row *row;
        bool is_cut;

        if (r < 0)
                return infp_fail_errno(err, r, "/proc/net/dev cannot be read");
        net->sums = (struct infp_sums){ 0 };
        while (infp_span_line(&text, &line))
                take_line(net, emit, line, t_ns);
        if (!net->sums.n) {
                infp_emit_source(emit, &net_table, -1, NULL, INFP_ABSENT, "/proc/net/dev shows no interface but lo",
                                 NULL);
                return 0;
        }
        infp_emit_source(emit, &net_table, -1, NULL, INFP_OK, NULL, NULL);
        row = infp_emit_begin(emit, &net_table, t_ns);
        is_cut = infp_sums_is_cut(&net->sums, infp_procfile_text(&net->file), FEWEST_WORDS);
        infp_sums_row(&net->sums, &net->sum_fields, is_cut, row);
        infp_fields_explain(&net->sum_fields, emit, 0);
        infp_emit_commit(emit);
        return 0;
}

static void net_close(void *state)
{
        infp_procfile_done(&((struct net *) state)->file);
}

static const struct infp_table *const net_tables[] = { &net_table, &interface_table, NULL };

const struct infp_collector infp_collector_net = {
        .name = "net",
        .help = "Traffic, errors and drops of network interfaces.",
        .tables = net_tables,
        .state_size = sizeof(struct net),
        .open = net_open,
        .sample = net_sample,
        .close = net_close,
};

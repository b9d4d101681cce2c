/* The recorder's side of the registry: the entry, the socket, its clients. */
#include "store/live.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "base/number.h"
#include "base/str.h"
#include "base/time.h"
#include "store/live_registry.h"
#include "store/run.h"

/* Senders are on this machine and share its clock, except for the constant offset of a time namespace. A value further away is
 * not of that clock, and its time would overflow. */
static const uint64_t ahead_ns = 366 * UINT64_C(86400) * INFP_NS_PER_S;

static int refuse(struct infp_err *err, const struct infp_table *table, const char *column, const char *want)
{
        return infp_fail(err, -EBADMSG, "column '%.64s' of %s must be %s", column, table->name, want);
}

static bool get_i64(const json_t *value, int64_t *ret)
{
        if (json_is_integer(value)) {
                *ret = json_integer_value(value);
                return true;
        }
        return json_is_string(value) && infp_parse_i64(json_string_value(value), json_string_length(value), ret) == 0;
}

static bool get_u64(const json_t *value, uint64_t *ret)
{
        if (json_is_integer(value) && json_integer_value(value) >= 0) {
                *ret = (uint64_t) json_integer_value(value);
                return true;
        }
        return json_is_string(value) && infp_parse_u64(json_string_value(value), json_string_length(value), ret) == 0;
}

/* Unix ms, optionally with a fraction; as text Unix ns, since not every JSON writer preserves ns. */
static bool get_time(const json_t *value, int64_t *ret)
{
        double ms, whole;

        if (json_is_string(value))
                return get_i64(value, ret);
        if (json_is_integer(value))
                return !__builtin_mul_overflow((int64_t) json_integer_value(value), 1000000, ret);
        ms = json_is_real(value) ? json_real_value(value) : NAN;
        if (!(ms > -9.2e12 && ms < 9.2e12))
                return false;
        whole = floor(ms); /* separately: today's ns do not fit a double */
        *ret = (int64_t) whole * 1000000 + (int64_t) ((ms - whole) * 1e6);
        return true;
}

static int set_text(struct infp_row *row, unsigned cell, const struct infp_column *column, const json_t *value,
                    struct infp_err *err)
{
        if (!json_is_string(value))
                return refuse(err, row->table, column->name, "a text");
        if (json_string_length(value) > row->text_cap - row->text_size)
                return infp_fail(err, -EBADMSG, "the texts of one row of %s are longer than %u bytes", row->table->name,
                                 (unsigned) row->text_cap);
        infp_row_str(row, cell, json_string_value(value));
        return 0;
}

static int set_cell(struct infp_row *row, unsigned cell, const struct infp_column *column, const json_t *value,
                    struct infp_err *err)
{
        uint64_t u;
        int64_t i;

        switch (column->type) {
        case INFP_I64:
                if (!get_i64(value, &i))
                        return refuse(err, row->table, column->name, "an integer");
                infp_row_i64(row, cell, i);
                return 0;
        case INFP_U64:
        case INFP_ID64:
                if (!get_u64(value, &u))
                        return refuse(err, row->table, column->name, "a non-negative integer (above 2^53 as a text)");
                if (column->type == INFP_U64)
                        infp_row_u64(row, cell, u);
                else
                        infp_row_id(row, cell, u);
                return 0;
        case INFP_F64:
                if (!json_is_number(value))
                        return refuse(err, row->table, column->name, "a number");
                infp_row_f64(row, cell, json_number_value(value));
                return 0;
        case INFP_BOOL:
                if (!json_is_boolean(value))
                        return refuse(err, row->table, column->name, "true or false");
                infp_row_bool(row, cell, json_is_true(value));
                return 0;
        case INFP_TS_NS:
                if (!get_time(value, &i))
                        return refuse(err, row->table, column->name, "a time in Unix ms, or in ns as a text");
                infp_row_ts(row, cell, i);
                return 0;
        case INFP_STR:
                return set_text(row, cell, column, value, err);
        }
        return -EBADMSG;
}

static int set_member(struct infp_row *row, const char *name, const json_t *value, struct infp_err *err)
{
        int index = infp_table_find(row->table, name);

        if (strcmp(name, "t_ns") == 0)
                return 0;
        if (index < INFP_FIXED_COLUMNS)
                return infp_fail(err, -EBADMSG, "table %s has no column '%.64s' to write", row->table->name, name);
        if (json_is_null(value))
                return 0;
        return set_cell(row, (unsigned) index - INFP_FIXED_COLUMNS, infp_table_column(row->table, (unsigned) index),
                        value, err);
}

static int fill_row(struct infp_row *row, const struct infp_table *table, json_t *object, struct infp_err *err)
{
        const char *name;
        json_t *value;
        int64_t t_ns;

        if (!json_is_object(object))
                return infp_fail(err, -EBADMSG, "\"rows\" must be a list of objects");
        if (!get_i64(json_object_get(object, "t_ns"), &t_ns) || t_ns <= 0)
                return infp_fail(err, -EBADMSG, "each row needs t_ns, its CLOCK_MONOTONIC in ns");
        if ((uint64_t) t_ns > infp_clock_ns(CLOCK_MONOTONIC) + ahead_ns)
                return infp_fail(err, -EBADMSG, "t_ns of a row lies in the future: it is CLOCK_MONOTONIC in ns");
        infp_row_begin(row, table, (uint64_t) t_ns);
        json_object_foreach(object, name, value) INFP_TRY(set_member(row, name, value, err));
        return 0;
}

static const struct infp_table *find_table(const struct infp_live_taker *taker, const char *name)
{
        for (const struct infp_table *const *t = taker->tables; name && *t; t++)
                if (strcmp((*t)->name, name) == 0)
                        return *t;
        return NULL;
}

static int take(json_t *root, const struct infp_live_taker *taker, struct infp_row *row, unsigned *ret_rows,
                struct infp_err *err)
{
        const char *name = json_string_value(json_object_get(root, "table")),
                   *url = json_string_value(json_object_get(root, "serves"));
        const struct infp_table *table = find_table(taker, name);
        json_t *rows = json_object_get(root, "rows"), *one;
        size_t i;

        if (url && taker->serves)
                return taker->serves(taker->serves_context, url, err);
        if (!table)
                return infp_fail(err, -EBADMSG, "table '%.64s' takes no rows from other programs", name ? name : "");
        if (!json_is_array(rows))
                return infp_fail(err, -EBADMSG, "\"rows\" must be a list of objects");
        json_array_foreach(rows, i, one) INFP_TRY(fill_row(row, table, one, err));
        json_array_foreach(rows, i, one)
        {
                int r;

                INFP_TRY(fill_row(row, table, one, err));
                r = taker->row(taker->context, row);
                if (r < 0)
                        return infp_fail(err, r, "%u of %zu rows were taken: %s", *ret_rows, json_array_size(rows),
                                         strerror(-r));
                ++*ret_rows;
        }
        return 0;
}

int infp_live_message_take(const char *message, size_t size, const struct infp_live_taker *taker, struct infp_row *row,
                           unsigned *ret_rows, struct infp_err *err)
{
        json_error_t error;
        json_t *root = json_loadb(message, size, JSON_REJECT_DUPLICATES, &error);
        int r;

        *ret_rows = 0;
        if (!root)
                return infp_fail(err, -EBADMSG, "not JSON: line %d: %s", error.line, error.text);
        if (json_is_object(root))
                r = take(root, taker, row, ret_rows, err);
        else
                r = infp_fail(err, -EBADMSG, "a message must be one JSON object");
        json_decref(root);
        return r;
}

struct client {
        int fd; /* -1: free */
        bool is_waiting;
        unsigned n_rows;
        uint64_t heard; /* when its last message came, counted in messages */
};

struct infp_live {
        char directory[PATH_MAX], uuid[37];
        int dir_fd, entry_fd, reader_fd, socket;
        struct client clients[INFP_LIVE_CLIENTS];
        uint64_t n_heard;
        char *buffer; /* one message and a byte more; made for the first */
        struct infp_row row;
};

static int put_entry(struct infp_live *live, const char *output, struct infp_err *err)
{
        infp_autofree char *real = realpath(output, NULL);
        infp_autostr struct infp_str text = { 0 };
        infp_cleanup(infp_new_file_done) struct infp_new_file file = INFP_NEW_FILE_INIT;
        char name[64];
        struct infp_json json;
        int r;

        if (!real)
                return infp_fail_errno(err, -errno, "cannot find %s", output);
        infp_json_begin(&json, &text, 0);
        infp_json_object(&json);
        infp_json_key(&json, "uuid");
        infp_json_str(&json, live->uuid);
        infp_json_key(&json, "output");
        infp_json_str(&json, real);
        infp_json_key(&json, "pid");
        infp_json_i64(&json, getpid());
        infp_json_key(&json, "started");
        infp_json_i64(&json, (int64_t) (infp_clock_ns(CLOCK_REALTIME) / INFP_NS_PER_MS));
        infp_json_object_end(&json);
        infp_str_putc(&text, '\n');
        if (text.failed)
                return infp_fail(err, -ENOMEM, "not enough memory");
        snprintf(name, sizeof(name), "%s.json", live->uuid);
        /* Locked before it has its name: a live entry is never seen without its lock. */
        r = infp_new_file_at(&file, live->dir_fd, name, 0600);
        if (r == 0)
                r = infp_lock(file.fd, LOCK_EX, 0);
        if (r == 0)
                r = infp_write_all(file.fd, text.data, text.size, NULL);
        if (r == 0)
                r = infp_new_file_commit(&file, false);
        if (r < 0)
                return infp_fail_errno(err, r, "cannot write %s/%s", live->directory, name);
        live->entry_fd = file.fd;
        file.fd = -1;
        return 0;
}

static int open_socket(struct infp_live *live, struct infp_err *err)
{
        struct sockaddr_un address;
        socklen_t size = infp_live_address(live->dir_fd, live->directory, live->uuid, &address);

        live->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (live->socket < 0 || bind(live->socket, (const struct sockaddr *) &address, size) < 0 ||
            listen(live->socket, INFP_LIVE_CLIENTS) < 0)
                return infp_fail_errno(err, -errno, "cannot listen on %s/%s.sock", live->directory, live->uuid);
        return 0;
}

static int open_reader_lock(struct infp_live *live, struct infp_err *err)
{
        char name[64];

        snprintf(name, sizeof(name), "%s.reader", live->uuid);
        live->reader_fd = infp_make_file_at(live->dir_fd, name, O_RDWR, 0600);
        if (live->reader_fd < 0)
                return infp_fail_errno(err, live->reader_fd, "cannot write %s/%s", live->directory, name);
        return 0;
}

static int forget(void *context, const char *uuid, const char *output)
{
        (void) context, (void) uuid, (void) output;
        return 0;
}

static int publish(struct infp_live *live, const char *output, struct infp_err *err)
{
        live->dir_fd = infp_live_open_directory(live->directory, sizeof(live->directory), err);
        if (live->dir_fd < 0)
                return live->dir_fd;
        infp_live_each(live->dir_fd, forget, NULL, NULL); /* remove what dead recorders left */
        INFP_TRY(open_socket(live, err));
        INFP_TRY(open_reader_lock(live, err));
        return put_entry(live, output, err); /* last: whatever finds the entry must find the rest */
}

int infp_live_publish(const char *uuid, const char *output, struct infp_live **ret, struct infp_err *err)
{
        struct infp_live *live;
        int r;

        if (!infp_uuid_check(uuid))
                return infp_fail(err, -EINVAL, "'%.40s' is not a uuid", uuid);
        live = calloc(1, sizeof(*live));
        if (!live)
                return infp_fail(err, -ENOMEM, "not enough memory");
        memcpy(live->uuid, uuid, sizeof(live->uuid));
        live->dir_fd = live->entry_fd = live->reader_fd = live->socket = -1;
        for (unsigned i = 0; i < INFP_LIVE_CLIENTS; i++)
                live->clients[i].fd = -1;
        r = publish(live, output, err);
        if (r < 0) {
                infp_live_withdraw(live);
                return r;
        }
        *ret = live;
        return 0;
}

struct infp_live *infp_live_withdraw(struct infp_live *live)
{
        if (!live)
                return NULL;
        if (live->dir_fd >= 0)
                infp_live_remove(live->dir_fd, live->uuid);
        for (unsigned i = 0; i < INFP_LIVE_CLIENTS; i++)
                infp_close(live->clients[i].fd);
        infp_close(live->socket);
        infp_close(live->reader_fd);
        infp_close(live->entry_fd);
        infp_close(live->dir_fd);
        free(live->row.text);
        free(live->buffer);
        free(live);
        return NULL;
}

int infp_live_fd(const struct infp_live *live)
{
        return live->socket;
}

/* A reader holds a shared lock: an exclusive one is granted only when there is none. */
bool infp_live_has_reader(struct infp_live *live)
{
        if (flock(live->reader_fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK;
        flock(live->reader_fd, LOCK_UN);
        return false;
}

unsigned infp_live_pollfds(const struct infp_live *live, struct pollfd ret[INFP_LIVE_CLIENTS + 1])
{
        unsigned n = 0;

        ret[n++] = (struct pollfd){ .fd = live->socket, .events = POLLIN };
        for (unsigned i = 0; i < INFP_LIVE_CLIENTS; i++)
                if (live->clients[i].fd >= 0 && !live->clients[i].is_waiting)
                        ret[n++] = (struct pollfd){ .fd = live->clients[i].fd, .events = POLLIN };
        return n;
}

/* A client that cannot even take its answer is dropped. */
static void answer(struct client *client, int r, const char *error)
{
        infp_autostr struct infp_str text = { 0 };
        struct infp_json json;

        infp_json_begin(&json, &text, 0);
        infp_json_object(&json);
        infp_json_key(&json, "ok");
        infp_json_bool(&json, r >= 0);
        infp_json_key(&json, "rows");
        infp_json_u64(&json, client->n_rows);
        if (r < 0) {
                infp_json_key(&json, "error");
                infp_json_str(&json, error && *error ? error : strerror(-r));
                infp_json_key(&json, "again");
                infp_json_bool(&json, r == -EAGAIN);
        }
        infp_json_object_end(&json);
        client->is_waiting = false;
        client->n_rows = 0;
        if (text.failed || send(client->fd, text.data, text.size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                client->fd = infp_close(client->fd);
}

/* A free place, else that of the client that has been silent longest. NULL when all wait for a flush. */
static struct client *find_place(struct infp_live *live)
{
        struct client *oldest = NULL;

        for (unsigned i = 0; i < INFP_LIVE_CLIENTS; i++) {
                struct client *client = &live->clients[i];

                if (client->fd < 0)
                        return client;
                if (!client->is_waiting && (!oldest || client->heard < oldest->heard))
                        oldest = client;
        }
        if (oldest)
                oldest->fd = infp_close(oldest->fd);
        return oldest;
}

static void accept_one(struct infp_live *live, int fd)
{
        struct ucred peer = { .uid = (uid_t) -1 };
        socklen_t size = sizeof(peer);
        struct client *place = find_place(live), turned_away = { .fd = fd };

        if (!place) {
                answer(&turned_away, -EBUSY, "too many clients are waiting: try again");
                infp_close(turned_away.fd);
                return;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || (peer.uid != geteuid() && peer.uid != 0)) {
                answer(&turned_away, -EPERM, "only the user of the run and root may write into it");
                infp_close(turned_away.fd);
                return;
        }
        *place = (struct client){ .fd = fd, .heard = ++live->n_heard };
}

static bool make_buffers(struct infp_live *live)
{
        if (!live->buffer)
                live->buffer = malloc(INFP_LIVE_MESSAGE_MAX + 1);
        if (!live->row.text) {
                live->row.text = malloc(INFP_ROW_TEXT);
                live->row.text_cap = live->row.text ? INFP_ROW_TEXT : 0;
        }
        return live->buffer && live->row.text;
}

/* True when rows were taken: the client waits now. */
static bool hear(struct infp_live *live, struct client *client, const struct infp_live_taker *taker)
{
        struct infp_err err = { "" };
        ssize_t n;
        int r;

        if (!make_buffers(live))
                return false;
        n = recv(client->fd, live->buffer, INFP_LIVE_MESSAGE_MAX + 1, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return false;
        if (n <= 0) {
                client->fd = infp_close(client->fd);
                return false;
        }
        client->heard = ++live->n_heard;
        if (n > INFP_LIVE_MESSAGE_MAX)
                r = infp_fail(&err, -EMSGSIZE, "a message is at most %d bytes", INFP_LIVE_MESSAGE_MAX);
        else
                r = infp_live_message_take(live->buffer, (size_t) n, taker, &live->row, &client->n_rows, &err);
        if (r < 0)
                answer(client, r, err.text);
        else
                client->is_waiting = true;
        return r >= 0;
}

unsigned infp_live_serve(struct infp_live *live, const struct infp_live_taker *taker)
{
        unsigned n = 0;
        int fd;

        for (unsigned i = 0; i < INFP_LIVE_CLIENTS; i++) {
                fd = accept4(live->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0)
                        break;
                accept_one(live, fd);
        }
        for (unsigned i = 0; i < INFP_LIVE_CLIENTS; i++)
                if (live->clients[i].fd >= 0 && !live->clients[i].is_waiting)
                        n += hear(live, &live->clients[i], taker);
        return n;
}

unsigned infp_live_waiting(const struct infp_live *live)
{
        unsigned n = 0;

        for (unsigned i = 0; i < INFP_LIVE_CLIENTS; i++)
                n += live->clients[i].fd >= 0 && live->clients[i].is_waiting;
        return n;
}

void infp_live_answer(struct infp_live *live, int r, const char *error)
{
        for (unsigned i = 0; i < INFP_LIVE_CLIENTS; i++)
                if (live->clients[i].fd >= 0 && live->clients[i].is_waiting)
                        answer(&live->clients[i], r, error);
}

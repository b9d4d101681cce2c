#include "store/run_json.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/time.h"

void infp_run_info_done(struct infp_run_info *info)
{
        free(info->command);
        free(info->target_name);
        free(info->target_pids);
        free(info->target_command);
        free(info->mode);
        free(info->format);
        free(info->version);
        free(info->hostname);
        for (unsigned i = 0; i < info->n_collectors; i++) {
                free(info->collectors[i].name);
                free(info->collectors[i].tables);
        }
        free(info->collectors);
        *info = (struct infp_run_info){ 0 };
}

static bool copy_text(char **ret, const char *text)
{
        *ret = strdup(text ? text : "");
        return *ret != NULL;
}

static bool is_listed(const char *list, const char *table)
{
        const size_t size = strlen(table);

        for (; *list; list += strcspn(list, " "), list += *list == ' ')
                if (strcspn(list, " ") == size && !memcmp(list, table, size))
                        return true;
        return false;
}

uint64_t infp_run_period_ns(const struct infp_run_info *info, const char *table)
{
        uint32_t period_ms = info->period_ms ? info->period_ms : 1000;

        for (unsigned i = 0; i < info->n_collectors; i++) {
                const struct infp_run_collector *c = &info->collectors[i];

                if (c->period_ms > period_ms && c->tables && is_listed(c->tables, table))
                        period_ms = c->period_ms;
        }
        return period_ms * INFP_NS_PER_MS;
}

static bool copy_collectors(const struct infp_run_info *from, struct infp_run_info *ret)
{
        ret->collectors = calloc(from->n_collectors + 1, sizeof(*ret->collectors));
        if (!ret->collectors)
                return false;
        for (unsigned i = 0; i < from->n_collectors; i++) {
                ret->n_collectors = i + 1;
                ret->collectors[i].period_ms = from->collectors[i].period_ms;
                if (!copy_text(&ret->collectors[i].name, from->collectors[i].name) ||
                    !copy_text(&ret->collectors[i].tables, from->collectors[i].tables))
                        return false;
        }
        return true;
}

static bool copy_target(const struct infp_run_info *from, struct infp_run_info *ret)
{
        ret->target_pids = calloc(from->n_target_pids + 1, sizeof(*ret->target_pids));
        if (!ret->target_pids)
                return false;
        ret->n_target_pids = from->n_target_pids;
        for (unsigned i = 0; i < from->n_target_pids; i++)
                ret->target_pids[i] = from->target_pids[i];
        return copy_text(&ret->target_name, from->target_name) && copy_text(&ret->target_command, from->target_command);
}

int infp_run_info_copy(const struct infp_run_info *from, struct infp_run_info *ret)
{
        *ret = *from;
        ret->command = ret->mode = ret->format = ret->version = ret->hostname = NULL;
        ret->target_name = ret->target_command = NULL;
        ret->target_pids = NULL;
        ret->collectors = NULL;
        ret->n_target_pids = ret->n_collectors = 0;
        if (copy_text(&ret->command, from->command) && copy_text(&ret->mode, from->mode) &&
            copy_text(&ret->format, from->format) && copy_text(&ret->version, from->version) &&
            copy_text(&ret->hostname, from->hostname) && copy_target(from, ret) && copy_collectors(from, ret))
                return 0;
        infp_run_info_done(ret);
        return -ENOMEM;
}

static void put_text(struct infp_json *json, const char *key, const char *text)
{
        infp_json_member_str(json, key, text ? text : "");
}

/* Nanoseconds since 1970 exceed 2^53, where many JSON readers round: they are text. */
static void put_ns(struct infp_json *json, const char *key, uint64_t v)
{
        char text[24];

        snprintf(text, sizeof(text), "%llu", (unsigned long long) v);
        put_text(json, key, text);
}

static void put_ms(struct infp_json *json, const char *key, int64_t unix_ns)
{
        infp_json_key(json, key);
        if (unix_ns)
                infp_json_i64(json, unix_ns / 1000000);
        else
                infp_json_null(json);
}

static void put_tables(struct infp_json *json, const char *tables)
{
        infp_json_key(json, "tables");
        infp_json_array(json);
        while (tables && *tables) {
                size_t size = strcspn(tables, " ");

                if (size > 0)
                        infp_json_strn(json, tables, size);
                tables += size + (tables[size] == ' ');
        }
        infp_json_array_end(json);
}

static void put_collectors(struct infp_json *json, const struct infp_run_info *info)
{
        infp_json_key(json, "collectors");
        infp_json_array(json);
        for (unsigned i = 0; i < info->n_collectors; i++) {
                infp_json_object(json);
                put_text(json, "name", info->collectors[i].name);
                infp_json_member_u64(json, "period_ms", info->collectors[i].period_ms);
                put_tables(json, info->collectors[i].tables);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_sampling(struct infp_json *json, const struct infp_run_sampling *sampling)
{
        if (!sampling->stack_bytes)
                return;
        infp_json_key(json, "sampling");
        infp_json_object(json);
        infp_json_member_f64(json, "cpu_hz", sampling->cpu_hz);
        infp_json_member_f64(json, "wall_hz", sampling->wall_hz);
        infp_json_member_bool(json, "off_cpu", sampling->off_cpu);
        infp_json_member_u64(json, "stack_bytes", sampling->stack_bytes);
        infp_json_member_u64(json, "max_depth", sampling->max_depth);
        infp_json_object_end(json);
}

/* The target of an attached run: what the user named, and which process that was. */
static void put_target(struct infp_json *json, const struct infp_run_info *info)
{
        bool has_name = info->target_name && *info->target_name;

        if (!has_name && !info->target_port && !info->n_target_pids)
                return;
        infp_json_key(json, "target");
        infp_json_object(json);
        if (has_name) {
                put_text(json, "name", info->target_name);
        } else if (info->target_port) {
                infp_json_member_u64(json, "port", info->target_port);
        } else {
                infp_json_key(json, "pid");
                infp_json_array(json);
                for (unsigned i = 0; i < info->n_target_pids; i++)
                        infp_json_i64(json, info->target_pids[i]);
                infp_json_array_end(json);
        }
        infp_json_object_end(json);
        put_text(json, "target_command", info->target_command);
}

void infp_run_json_write(struct infp_str *out, const struct infp_run_info *info, bool is_finished)
{
        struct infp_json json;

        infp_json_begin(&json, out, 2);
        infp_json_object(&json);
        put_text(&json, "uuid", info->uuid);
        put_text(&json, "version", info->version);
        put_text(&json, "command", info->command);
        put_text(&json, "mode", info->mode);
        put_target(&json, info);
        put_text(&json, "format", info->format);
        put_text(&json, "hostname", info->hostname);
        put_ms(&json, "started", info->started_unix_ns);
        put_ms(&json, "ended", info->ended_unix_ns);
        infp_json_member_bool(&json, "finished", is_finished);
        infp_json_key(&json, "exit_code");
        if (info->exit_code >= 0)
                infp_json_i64(&json, info->exit_code);
        else
                infp_json_null(&json);
        infp_json_key(&json, "exit_signal");
        if (info->exit_signal > 0)
                infp_json_i64(&json, info->exit_signal);
        else
                infp_json_null(&json);
        infp_json_member_u64(&json, "period_ms", info->period_ms);
        put_ns(&json, "started_unix_ns", (uint64_t) info->started_unix_ns);
        put_ns(&json, "ended_unix_ns", (uint64_t) info->ended_unix_ns);
        put_ns(&json, "started_t_ns", info->started_t_ns);
        put_ns(&json, "ended_t_ns", info->ended_t_ns);
        put_text(&json, "boot_id", info->boot_id);
        infp_json_member_i64(&json, "recorder_pid", info->recorder_pid);
        infp_json_member_u64(&json, "recorder_start_ticks", info->recorder_start_ticks);
        infp_json_member_u64(&json, "last_seq", info->last_seq);
        put_collectors(&json, info);
        put_sampling(&json, &info->sampling);
        infp_json_object_end(&json);
        infp_str_putc(out, '\n');
}

struct reader {
        const json_t *object;
        const char *fault; /* the first member that was not what it should be */
        bool failed;       /* no memory */
};

static char *get_text(struct reader *r, const char *key)
{
        const json_t *value = json_object_get(r->object, key);
        char *copy;

        if (value && !json_is_string(value) && !json_is_null(value) && !r->fault)
                r->fault = key;
        copy = strdup(json_is_string(value) ? json_string_value(value) : "");
        r->failed |= !copy;
        return copy;
}

/* An integer, or one written as text; `otherwise` if absent or null. */
static int64_t get_number(struct reader *r, const char *key, int64_t low, int64_t high, int64_t otherwise)
{
        const json_t *value = json_object_get(r->object, key);
        int64_t v = 0;
        bool is_number = true;

        if (!value || json_is_null(value))
                return otherwise;
        if (json_is_integer(value))
                v = json_integer_value(value);
        else
                is_number = json_is_string(value) &&
                            infp_parse_i64(json_string_value(value), json_string_length(value), &v) == 0;
        if (is_number && v >= low && v <= high)
                return v;
        if (!r->fault)
                r->fault = key;
        return otherwise;
}

static void get_fixed(struct reader *r, const char *key, char *ret, size_t cap)
{
        const json_t *value = json_object_get(r->object, key);

        if (value && (!json_is_string(value) || json_string_length(value) >= cap) && !r->fault)
                r->fault = key;
        else
                snprintf(ret, cap, "%s", json_is_string(value) ? json_string_value(value) : "");
}

static char *get_tables(struct reader *r)
{
        const json_t *tables = json_object_get(r->object, "tables"), *name;
        infp_autostr struct infp_str text = { 0 };
        char *ret;
        size_t i;

        json_array_foreach(tables, i, name)
        {
                if (!json_is_string(name))
                        continue;
                if (text.size > 0)
                        infp_str_putc(&text, ' ');
                infp_str_puts(&text, json_string_value(name));
        }
        ret = infp_str_take(&text);
        r->failed |= !ret;
        return ret;
}

static void get_collectors(struct reader *r, struct infp_run_info *ret)
{
        const json_t *list = json_object_get(r->object, "collectors"), *one;
        size_t i;

        ret->collectors = calloc(json_array_size(list) + 1, sizeof(*ret->collectors));
        if (!ret->collectors) {
                r->failed = true;
                return;
        }
        json_array_foreach(list, i, one)
        {
                struct infp_run_collector *collector = &ret->collectors[ret->n_collectors++];
                struct reader inner = { .object = one };

                collector->name = get_text(&inner, "name");
                collector->period_ms = (uint32_t) get_number(&inner, "period_ms", 0, UINT32_MAX, 0);
                collector->tables = get_tables(&inner);
                r->failed |= inner.failed;
                if (inner.fault && !r->fault)
                        r->fault = "collectors";
        }
}

static void get_pids(struct reader *r, const json_t *list, struct infp_run_info *ret)
{
        const json_t *one;
        size_t i;

        ret->target_pids = calloc(json_array_size(list) + 1, sizeof(*ret->target_pids));
        if (!ret->target_pids) {
                r->failed = true;
                return;
        }
        json_array_foreach(list, i, one)
        {
                json_int_t pid = json_integer_value(one);

                if (pid > 0 && pid <= INT32_MAX)
                        ret->target_pids[ret->n_target_pids++] = (int32_t) pid;
                else
                        r->fault = r->fault ? r->fault : "pid";
        }
}

static void get_target(struct reader *r, struct infp_run_info *ret)
{
        struct reader inner = { .object = json_object_get(r->object, "target") };

        ret->target_command = get_text(r, "target_command");
        ret->target_name = get_text(&inner, "name");
        ret->target_port = (uint32_t) get_number(&inner, "port", 0, UINT16_MAX, 0);
        get_pids(&inner, json_object_get(inner.object, "pid"), ret);
        r->failed |= inner.failed;
        if (inner.fault && !r->fault)
                r->fault = "target";
}

static double get_rate(struct reader *r, const char *key)
{
        const json_t *value = json_object_get(r->object, key);

        if (value && !json_is_number(value) && !r->fault)
                r->fault = key;
        return json_number_value(value);
}

static void get_sampling(struct reader *r, struct infp_run_sampling *ret)
{
        struct reader inner = { .object = json_object_get(r->object, "sampling") };

        ret->cpu_hz = get_rate(&inner, "cpu_hz");
        ret->wall_hz = get_rate(&inner, "wall_hz");
        ret->off_cpu = json_is_true(json_object_get(inner.object, "off_cpu"));
        ret->stack_bytes = (uint32_t) get_number(&inner, "stack_bytes", 0, UINT32_MAX, 0);
        ret->max_depth = (uint32_t) get_number(&inner, "max_depth", 0, UINT32_MAX, 0);
        if (inner.fault && !r->fault)
                r->fault = "sampling";
}

static void get_all(struct reader *r, struct infp_run_info *ret, bool *ret_finished)
{
        get_fixed(r, "uuid", ret->uuid, sizeof(ret->uuid));
        get_fixed(r, "boot_id", ret->boot_id, sizeof(ret->boot_id));
        ret->command = get_text(r, "command");
        ret->mode = get_text(r, "mode");
        get_target(r, ret);
        ret->format = get_text(r, "format");
        ret->version = get_text(r, "version");
        ret->hostname = get_text(r, "hostname");
        ret->recorder_pid = (int32_t) get_number(r, "recorder_pid", 0, INT32_MAX, 0);
        ret->recorder_start_ticks = (uint64_t) get_number(r, "recorder_start_ticks", 0, INT64_MAX, 0);
        ret->period_ms = (uint32_t) get_number(r, "period_ms", 0, UINT32_MAX, 0);
        ret->started_unix_ns = get_number(r, "started_unix_ns", 0, INT64_MAX, 0);
        ret->ended_unix_ns = get_number(r, "ended_unix_ns", 0, INT64_MAX, 0);
        ret->started_t_ns = (uint64_t) get_number(r, "started_t_ns", 0, INT64_MAX, 0);
        ret->ended_t_ns = (uint64_t) get_number(r, "ended_t_ns", 0, INT64_MAX, 0);
        ret->exit_code = (int) get_number(r, "exit_code", -1, INT_MAX, -1);
        ret->exit_signal = (int) get_number(r, "exit_signal", 0, INT_MAX, 0);
        ret->last_seq = (uint32_t) get_number(r, "last_seq", 0, UINT32_MAX, 0);
        get_collectors(r, ret);
        get_sampling(r, &ret->sampling);
        *ret_finished = json_is_true(json_object_get(r->object, "finished"));
}

int infp_run_json_read(const char *text, size_t size, struct infp_run_info *ret, bool *ret_finished,
                       struct infp_err *err)
{
        json_error_t error;
        json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
        struct reader r = { .object = root };
        int q = 0;

        *ret = (struct infp_run_info){ 0 };
        *ret_finished = false;
        if (!root)
                return infp_fail(err, -EBADMSG, "line %d: %s", error.line, error.text);
        if (!json_is_object(root))
                q = infp_fail(err, -EBADMSG, "it is not a JSON object");
        else
                get_all(&r, ret, ret_finished);
        if (r.failed)
                q = infp_fail(err, -ENOMEM, "not enough memory");
        else if (r.fault)
                q = infp_fail(err, -EBADMSG, "member \"%s\" has a wrong type or value", r.fault);
        json_decref(root);
        if (q < 0)
                infp_run_info_done(ret);
        return q;
}

#include "load/target.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "fetch/http.h"
#include "model/mask.h"

enum { LOOK_MS = 5000, PAUSE_MS = 200, LIST_MAX = 8 << 20, MODEL_MAX = 1024 };

void infp_load_target_done(struct infp_load_target *target)
{
        free(target->endpoint);
        free(target->api);
        free(target->root);
        free(target->query);
        free(target->shown);
        *target = (struct infp_load_target){ 0 };
}

static bool cut_end(struct infp_str *url, const char *end)
{
        const size_t n = strlen(end);

        if (url->size < n || memcmp(url->data + url->size - n, end, n))
                return false;
        url->size -= n;
        url->data[url->size] = 0;
        return true;
}

static char *join(const struct infp_str *url, const char *more, const char *query)
{
        infp_autostr struct infp_str text = { 0 };

        infp_str_put(&text, url->data, url->size);
        infp_str_puts(&text, more);
        infp_str_puts(&text, query);
        return infp_str_take(&text);
}

/* A scheme where there is none; for a socket in the file system the ':' after its path. Without a query, which stands after
 * what is added to the path, and without a fragment, which no server sees. */
static void put_url(struct infp_str *url, const char *given)
{
        static const char socket[] = "unix://";

        if (!strstr(given, "://"))
                infp_str_puts(url, "http://");
        infp_str_put(url, given, strcspn(given, "?#"));
        while (!url->failed && cut_end(url, "/"))
                ;
        if (!url->failed && !strncmp(url->data, socket, sizeof(socket) - 1) &&
            !strchr(url->data + sizeof(socket) - 1, ':'))
                infp_str_putc(url, ':');
}

static char *show(const char *url)
{
        const size_t size = url ? strlen(url) : 0, cap = 2 * size + 64;
        char *ret = url ? malloc(cap + 1) : NULL;

        if (ret)
                ret[infp_mask_cmdline(url, size, false, ret, cap)] = 0;
        return ret;
}

static int take_words(struct infp_load_target *target, struct infp_str *url, const char *endpoint, bool is_chat,
                      struct infp_err *err)
{
        static const char chat[] = "/chat/completions", plain[] = "/completions";
        const bool names_chat = cut_end(url, chat), names_plain = !names_chat && cut_end(url, plain);
        const bool is_v1 = cut_end(url, "/v1");

        target->is_chat = endpoint ? !strcmp(endpoint, "chat") : names_chat || (is_chat && !names_plain);
        if ((names_chat && !target->is_chat) || (names_plain && target->is_chat))
                return infp_fail(err, -EINVAL, "--endpoint %s and the URL name different endpoints: give one of them",
                                 endpoint ? endpoint : "chat");
        if (is_v1 || !(names_chat || names_plain))
                target->root = join(url, "", "");
        if (target->root)
                infp_str_puts(url, "/v1");
        target->api = join(url, "", "");
        target->shown = show(target->api);
        target->endpoint = join(url, target->is_chat ? chat : plain, target->query);
        if (!target->api || !target->endpoint || !target->shown)
                return infp_fail(err, -ENOMEM, "not enough memory");
        return infp_http_check_url(target->endpoint, err);
}

int infp_load_target_init(struct infp_load_target *target, const char *given, const char *endpoint, bool is_chat,
                          struct infp_err *err)
{
        infp_autostr struct infp_str url = { 0 };
        int r;

        *target = (struct infp_load_target){ 0 };
        put_url(&url, given);
        given += strcspn(given, "?#");
        target->query = strndup(given, strcspn(given, "#"));
        if (url.failed || !target->query)
                return infp_fail(err, -ENOMEM, "not enough memory");
        r = take_words(target, &url, endpoint, is_chat, err);
        if (r < 0)
                infp_load_target_done(target);
        return r;
}

struct look {
        struct infp_http *http;
        const struct infp_load_access *access;
        struct infp_err err; /* why it is not ready */
};

/* Status, or a negative errno with the sentence in look->err. */
static long get(struct look *look, const char *base, const char *path, const char *query, char **ret_body,
                size_t *ret_size)
{
        infp_autostr struct infp_str url = { 0 };
        struct infp_http_request request = {
                .headers = look->access->headers,
                .token_file = look->access->token_file,
                .timeout_ms = LOOK_MS,
                .max_bytes = LIST_MAX,
                .is_stop = look->access->is_stop,
                .stop_context = look->access->context,
        };
        long status = 0;
        int r;

        infp_str_puts(&url, base);
        infp_str_puts(&url, path);
        infp_str_puts(&url, query);
        if (url.failed)
                return infp_fail(&look->err, -ENOMEM, "not enough memory");
        request.url = url.data;
        r = infp_http_get(look->http, &request, ret_body, ret_size, &status, &look->err);
        return r < 0 ? r : status;
}

/* 0: ready; 1: not yet; a negative errno: it never will be. What knows no /health is taken for ready as soon as it answers. */
static int is_ready(struct look *look, const struct infp_load_target *target)
{
        infp_autofree char *body = NULL;
        size_t size;
        long status = target->root ? get(look, target->root, "/health", target->query, &body, &size)
                                   : get(look, target->api, "/models", target->query, &body, &size);

        if (status == -EINVAL || status == -ENOMEM || status == -EACCES)
                return (int) status;
        if (status == 503) {
                infp_fail(&look->err, -EAGAIN, "%s is not ready: it answers 503 (loading its model)", target->shown);
                return 1;
        }
        return status < 0 && status != -ETIMEDOUT;
}

static int wait_until_ready(struct look *look, const struct infp_load_target *target, struct infp_err *err)
{
        const struct infp_load_access *access = look->access;
        const uint64_t end = infp_clock_ns(CLOCK_MONOTONIC) + access->wait_ns;
        const struct timespec pause = infp_timespec(PAUSE_MS * INFP_NS_PER_MS);

        for (;;) {
                int r = is_ready(look, target);

                if (r == 0)
                        return 0;
                if (r < 0)
                        return infp_fail(err, r, "%s", look->err.text);
                if (access->is_stop && access->is_stop(access->context))
                        return infp_fail(err, -ECANCELED, "stopped while waiting for %s", target->shown);
                if (infp_clock_ns(CLOCK_MONOTONIC) >= end)
                        return infp_fail(err, -ECONNREFUSED,
                                         "%.300s; is the server started, and is this its address? "
                                         "(--wait 60s waits for it)",
                                         look->err.text);
                nanosleep(&pause, NULL);
        }
}

/* Each row holds the name: one that leaves no room for the rest is not taken. */
static int take_models(const char *body, size_t size, char **ret_model, unsigned *ret_models)
{
        json_t *root = json_loadb(body, size, 0, NULL), *data = json_object_get(root, "data");
        const char *id = json_string_value(json_object_get(json_array_get(data, 0), "id"));
        const int r = id && strlen(id) > MODEL_MAX ? -EMSGSIZE : 0;

        *ret_models = (unsigned) json_array_size(data);
        if (r == 0 && id && *id)
                *ret_model = strdup(id);
        json_decref(root);
        return r;
}

int infp_load_target_look(const struct infp_load_target *target, const struct infp_load_access *access,
                          char **ret_model, unsigned *ret_models, struct infp_err *err)
{
        struct look look = { .access = access };
        infp_autofree char *body = NULL;
        size_t size = 0;
        long status;
        int r;

        /* Waiting makes no file. */
        if (access->token_file && faccessat(AT_FDCWD, access->token_file, R_OK, AT_EACCESS) < 0)
                return infp_fail_errno(err, -errno, "token file %s cannot be read", access->token_file);
        r = infp_http_new(&look.http, err);
        if (r >= 0)
                r = wait_until_ready(&look, target, err);
        if (r >= 0 && ret_model) {
                *ret_model = NULL;
                *ret_models = 0;
                status = get(&look, target->api, "/models", target->query, &body, &size);
                if (status == -ECANCELED)
                        r = infp_fail(err, -ECANCELED, "stopped while waiting for %s", target->shown);
                else if (status < 0)
                        r = infp_fail(err, (int) status, "%.300s; with --model NAME infprof does not ask",
                                      look.err.text);
                else if (status == 200 && take_models(body, size, ret_model, ret_models) < 0)
                        r = infp_fail(err, -EMSGSIZE,
                                      "the first model that %s/models lists has a name of more than %d bytes: "
                                      "--model NAME chooses another",
                                      target->shown, MODEL_MAX);
                else if (status == 401 || status == 403)
                        r = infp_fail(err, -EACCES,
                                      "%s/models needs authentication (status %ld): give a --token-file or a --header",
                                      target->shown, status);
        }
        infp_http_free(look.http);
        return r;
}

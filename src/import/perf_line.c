#include "import/perf_line.h"

#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/time.h"

enum { MAX_WORDS = 64 };

static const uint64_t most_seconds = UINT64_C(9000000000); /* in ns they fit 63 bits */

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
        return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static unsigned split(struct infp_import_text line, struct infp_import_text ret[MAX_WORDS])
{
        const char *at = line.data, *end = line.data + line.size;
        unsigned n = 0;

        while (n < MAX_WORDS) {
                const char *word;

                while (at < end && infp_import_is_blank(*at))
                        at++;
                if (at == end)
                        break;
                word = at;
                while (at < end && !infp_import_is_blank(*at))
                        at++;
                ret[n++] = (struct infp_import_text){ word, (size_t) (at - word) };
        }
        return n;
}

/* SECONDS.FRACTION: with its colon. */
static bool is_time(struct infp_import_text word, uint64_t *ret_ns)
{
        uint64_t seconds, fraction, unit = INFP_NS_PER_S;
        const char *point;

        if (!infp_import_cut(&word, ":"))
                return false;
        point = word.size ? memchr(word.data, '.', word.size) : NULL;
        if (!point || infp_parse_u64(word.data, (size_t) (point - word.data), &seconds) < 0 || seconds > most_seconds)
                return false;
        word = infp_import_from(word, point + 1);
        if (!word.size || word.size > 9 || infp_parse_u64(word.data, word.size, &fraction) < 0)
                return false;
        for (size_t i = 0; i < word.size; i++)
                unit /= 10;
        *ret_ns = seconds * INFP_NS_PER_S + fraction * unit;
        return true;
}

static bool is_cpu(struct infp_import_text word, int32_t *ret)
{
        uint64_t v;

        if (word.size < 3 || word.data[0] != '[' || word.data[word.size - 1] != ']' ||
            infp_parse_u64(word.data + 1, word.size - 2, &v) < 0 || v > INT32_MAX)
                return false;
        *ret = (int32_t) v;
        return true;
}

static bool is_id(struct infp_import_text word, int32_t *ret)
{
        int64_t v;

        if (infp_parse_i64(word.data, word.size, &v) < 0 || v > INT32_MAX || v < -1)
                return false;
        *ret = v > 0 ? (int32_t) v : 0;
        return true;
}

/* TID as perf prints it by default, or PID/TID. */
static bool is_thread(struct infp_import_text word, struct infp_perf_head *ret)
{
        const char *slash = word.size ? memchr(word.data, '/', word.size) : NULL;
        int32_t pid = 0, tid;

        if (slash ? !is_id(infp_import_upto(word, slash), &pid) || !is_id(infp_import_from(word, slash + 1), &tid)
                  : !is_id(word, &tid))
                return false;
        ret->pid = pid;
        ret->tid = tid;
        return true;
}

/* Letters after an event's last colon or slash are modifiers: "cycles:u", "cpu_core/cycles/P". */
static struct infp_import_text without_modifiers(struct infp_import_text event)
{
        size_t n = event.size;

        while (n && strchr("ukhGHpPSDIWeb", event.data[n - 1]))
                n--;
        if (n < 2 || n == event.size || (event.data[n - 1] != ':' && event.data[n - 1] != '/'))
                return event;
        event.size = event.data[n - 1] == ':' ? n - 1 : n;
        return event;
}

static bool is_event(struct infp_import_text word)
{
        return word.size > 1 && word.data[word.size - 1] == ':' && word.data[0] != '(';
}

/* Words `first` and on: [PERIOD] EVENT: and what follows. */
static void take_event(struct infp_import_text line, const struct infp_import_text *words, unsigned n, unsigned first,
                       struct infp_perf_head *ret)
{
        if (first + 1 < n && is_event(words[first + 1]) &&
            infp_parse_u64(words[first].data, words[first].size, &ret->period) == 0) {
                ret->has_period = true;
                first++;
        }
        if (first < n && is_event(words[first])) {
                ret->event = words[first];
                ret->event.size--;
                ret->event = without_modifiers(ret->event);
                first++;
        }
        ret->rest = first < n ? infp_import_trim(infp_import_from(line, words[first].data)) : infp_import_text("");
}

/* The thread's name is everything before its number; it may contain blanks and numbers. */
static void take_comm(struct infp_import_text line, const struct infp_import_text *word, struct infp_perf_head *ret)
{
        ret->comm = infp_import_trim(infp_import_upto(line, word->data));
}

/* With a time: COMM [TID] [CPU] TIME:. The first such time whose words before it fit. */
static bool head_by_time(struct infp_import_text line, const struct infp_import_text *words, unsigned n,
                         struct infp_perf_head *ret)
{
        for (unsigned i = 0; i < n; i++) {
                unsigned before = i;

                if (!is_time(words[i], &ret->t_ns))
                        continue;
                ret->has_time = true;
                if (before && is_cpu(words[before - 1], &ret->cpu))
                        before--;
                if (before && is_thread(words[before - 1], ret))
                        before--;
                take_comm(line, &words[before], ret);
                take_event(line, words, n, i + 1, ret);
                return true;
        }
        return false;
}

/* Without: COMM TID [CPU], where a CPU shows the place. */
static bool head_by_cpu(struct infp_import_text line, const struct infp_import_text *words, unsigned n,
                        struct infp_perf_head *ret)
{
        for (unsigned i = 1; i < n; i++) {
                if (!is_cpu(words[i], &ret->cpu) || !is_thread(words[i - 1], ret))
                        continue;
                take_comm(line, &words[i - 1], ret);
                take_event(line, words, n, i + 1, ret);
                return true;
        }
        return false;
}

/* Without both: COMM TID [PERIOD] EVENT:. */
static bool head_by_event(struct infp_import_text line, const struct infp_import_text *words, unsigned n,
                          struct infp_perf_head *ret)
{
        uint64_t period;

        for (unsigned i = 1; i < n; i++) {
                unsigned thread = i - 1;

                if (!is_event(words[i]) || !is_digit(words[thread].data[0]))
                        continue;
                if (thread > 1 && infp_parse_u64(words[thread].data, words[thread].size, &period) == 0 &&
                    is_thread(words[thread - 1], ret))
                        thread--;
                if (!thread || !is_thread(words[thread], ret))
                        return false;
                take_comm(line, &words[thread], ret);
                take_event(line, words, n, thread + 1, ret);
                return true;
        }
        return false;
}

bool infp_perf_head(struct infp_import_text line, struct infp_perf_head *ret)
{
        struct infp_import_text words[MAX_WORDS];
        unsigned n = split(line, words);

        *ret = (struct infp_perf_head){ .cpu = -1 };
        if (n < 2)
                return false;
        if (head_by_time(line, words, n, ret))
                return true;
        *ret = (struct infp_perf_head){ .cpu = -1 };
        return head_by_cpu(line, words, n, ret) || head_by_event(line, words, n, ret);
}

/* Cuts "+0x1f" off an end. */
static bool take_offset(struct infp_import_text *text)
{
        size_t n = text->size;

        while (n && is_hex(text->data[n - 1]))
                n--;
        if (n == text->size || n < 3 || memcmp(text->data + n - 3, "+0x", 3) != 0)
                return false;
        text->size = n - 3;
        return true;
}

/* Where the object begins, at its bracket: after "+0x1f ", else the bracket that the last one closes, with a blank before it. NULL:
 * there is none. */
static const char *find_object(struct infp_import_text text)
{
        const char *end = text.data + text.size;
        unsigned depth = 0;

        if (!text.size || end[-1] != ')')
                return NULL;
        for (const char *at = end - 1; at >= text.data; at--) {
                if (*at == '(' && at > text.data + 1 && at[-1] == ' ') {
                        struct infp_import_text name = infp_import_upto(text, at - 1);

                        if (take_offset(&name))
                                return at;
                }
        }
        for (const char *at = end; at > text.data;) {
                at--;
                if (*at == ')')
                        depth++;
                else if (*at == '(' && depth && !--depth)
                        return at == text.data || at[-1] == ' ' ? at : NULL;
        }
        return NULL;
}

static void take_object(struct infp_import_text text, struct infp_perf_frame *ret)
{
        text.data++; /* its brackets */
        text.size -= 2;
        if (infp_import_is(text, "inlined")) {
                ret->is_inlined = true;
                return;
        }
        take_offset(&text); /* -F +dsoff */
        ret->is_deleted = infp_import_cut(&text, " (deleted)");
        if (!infp_import_is(text, "[unknown]"))
                ret->object = text;
}

bool infp_perf_frame(struct infp_import_text line, struct infp_perf_frame *ret)
{
        const char *object;

        *ret = (struct infp_perf_frame){ 0 };
        if (!infp_import_hex(&line, &ret->address) || (line.size && !infp_import_is_blank(*line.data)))
                return false;
        line = infp_import_trim(line);
        object = find_object(line);
        if (object) {
                take_object(infp_import_from(line, object), ret);
                line = infp_import_trim(infp_import_upto(line, object));
        }
        take_offset(&line);
        if (!infp_import_is(line, "[unknown]"))
                ret->name = line;
        return true;
}

bool infp_perf_source(struct infp_import_text line, struct infp_import_text *ret_file, int64_t *ret_line,
                      bool *ret_is_inlined)
{
        const char *colon;

        if (line.size < 3 || line.data[0] != ' ')
                return false;
        line = infp_import_trim(line);
        if (infp_import_cut(&line, " (inlined)"))
                *ret_is_inlined = true;
        *ret_file = infp_import_text(NULL);
        *ret_line = 0;
        colon = infp_import_last(line, ':');
        if (!colon) /* "[kernel.kallsyms][ffff...]": not known */
                return line.size && line.data[0] == '[';
        if (infp_parse_i64(colon + 1, (size_t) (line.data + line.size - (colon + 1)), ret_line) < 0 || *ret_line < 0)
                return false;
        if (!infp_import_is(infp_import_upto(line, colon), "??"))
                *ret_file = infp_import_upto(line, colon);
        return true;
}

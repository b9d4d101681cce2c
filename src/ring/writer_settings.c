/* Settings that `infprof config` changes while the program runs (wire.h): those of the ring itself, and those that the program, or a library in
 * it, has registered. They live in memory of the process; each file that it opens, after fork too, gets them as they are then. Of what is
 * asked for nothing is believed: a text of at most 63 printable characters is compared, or parsed as a number. */
#include "ring/writer_parts.h"

#include <string.h>

#include "ring/where.h"

enum { RECORDING, RING_BYTES, RING_RECORDS, OURS };
enum { RECORD_BYTES = 89, SPINS = 1000, DIGITS = 10 }; /* RECORD_BYTES: a row of 7 cells; 10,000 in the first file */

/* As struct infp_wire_said. */
struct said {
        char key[32], value[INFP_WRITER_VALUE], source[16], refused[96], may_be[96];
};
_Static_assert(sizeof(struct said) == sizeof(struct infp_wire_said), "it is copied in whole words");

struct setting {
        _Alignas(8) struct said is;
        uint32_t taken, answered; /* wishes in the present file */
};
static struct setting settings[INFP_WIRE_SETTINGS] = {
        [RECORDING] = { .is = { .key = "recording", .may_be = "on, off" } },
        [RING_BYTES] = { .is = { .key = "ring.bytes",
                                 .may_be = "1M to 16M, or to INFPROF_RING_BYTES; it does not shrink" } },
        [RING_RECORDS] = { .is = { .key = "ring.records",
                                   .may_be = "10000 to 180000, about: of 89 bytes each; it does not shrink" } },
};
static _Atomic uint32_t n_settings = OURS;

static _Atomic uint32_t nobody_asks;
_Atomic uint32_t *_Atomic infp_writer_asked = &nobody_asks;
_Atomic uint32_t infp_writer_heard;
_Atomic uint32_t infp_writer_limit_bytes;

static struct infp_writer_page *page_of_file(void) /* NULL: there is no file that is ours */
{
        struct infp_writer_page *page = atomic_load(&infp_writer_page);

        return atomic_load_explicit(&page->epoch, memory_order_acquire) ? page : NULL;
}

static void fill(char *to, size_t cap, const char *text)
{
        size_t size = 0;

        for (; size < cap - 1 && text[size]; size++)
                to[size] = text[size];
        memset(to + size, 0, cap - size);
}

/* Each store is a release, so that who sees one of them sees that `said` is odd. */
static void publish(uint32_t i)
{
        struct infp_wire_setting *at = &infp_writer_file.settings->setting[i];
        uint64_t *to = (uint64_t *) &at->is;
        uint32_t said = atomic_load_explicit(&at->said, memory_order_relaxed) | 1;

        atomic_store_explicit(&at->said, said, memory_order_relaxed);
        for (size_t k = 0; k < sizeof(struct said) / 8; k++) {
                uint64_t word;

                memcpy(&word, (const char *) &settings[i].is + k * 8, 8);
                __atomic_store_n(to + k, word, __ATOMIC_RELEASE);
        }
        atomic_store_explicit(&at->said, said + 1, memory_order_release);
        atomic_store_explicit(&at->answered, settings[i].answered, memory_order_release);
}

/* All that follows, under settings_lock. */

static void set(uint32_t i, const char *value, const char *source)
{
        fill(settings[i].is.value, sizeof settings[i].is.value, value);
        fill(settings[i].is.source, sizeof settings[i].is.source, source);
}

static void set_number(uint32_t i, uint64_t number, const char *source)
{
        char text[24];

        infp_ring_append_number(text, sizeof text, 0, number);
        set(i, text, source);
}

static void answer(uint32_t i, const char *refused)
{
        settings[i].answered = settings[i].taken;
        fill(settings[i].is.refused, sizeof settings[i].is.refused, refused ? refused : "");
        publish(i);
}

/* The wish that has not been answered yet. infprof counts the page's `asked` after it has written one, so that one which is being
 * written now is seen later. */
static bool take(uint32_t i, char ret[INFP_WRITER_VALUE])
{
        struct infp_wire_setting *at = &infp_writer_file.settings->setting[i];
        const uint32_t asked = atomic_load_explicit(&at->asked, memory_order_acquire);

        if (asked == settings[i].answered || asked & 1)
                return false;
        for (size_t k = 0; k < INFP_WRITER_VALUE / 8; k++) {
                uint64_t word = __atomic_load_n(&at->wanted[k], __ATOMIC_ACQUIRE);

                memcpy(ret + k * 8, &word, 8);
        }
        if (atomic_load_explicit(&at->asked, memory_order_relaxed) != asked)
                return false;
        settings[i].taken = asked;
        ret[INFP_WRITER_VALUE - 1] = 0;
        for (char *c = ret; *c; c++)
                if (*c < ' ' || *c > '~') {
                        answer(i, "a value is made of printable ASCII");
                        return false;
                }
        return true;
}

static const char *set_recording(const char *text)
{
        const bool is_on = strcmp(text, "on") == 0 || strcmp(text, "1") == 0 || strcmp(text, "true") == 0;

        if (!is_on && strcmp(text, "off") != 0 && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
                return "it is on or off";
        if (!infp_writer_pause(!is_on))
                return "the program itself has stopped recording";
        set(RECORDING, is_on ? "on" : "off", "config");
        return NULL;
}

/* 4096, 64k, 4M; 0: it is not a number. */
static uint64_t parse(const char *text, bool has_units)
{
        const char *at = text;
        uint64_t number = infp_writer_parse(&at);

        if (at == text || at - text > DIGITS)
                return 0;
        if (has_units && (*at == 'k' || *at == 'K'))
                number *= 1024, at++;
        else if (has_units && (*at == 'm' || *at == 'M'))
                number *= 1024 * 1024, at++;
        return *at ? 0 : number;
}

static uint64_t records_in(uint64_t bytes)
{
        return (bytes - INFP_WRITER_CHUNKS_AT) / INFP_WIRE_CHUNK * INFP_WRITER_ROOM / RECORD_BYTES / 1000 * 1000;
}

static const char *set_limit(uint64_t bytes)
{
        struct infp_writer_file *file = &infp_writer_file;

        if (bytes > file->mapped)
                return "it is more than this process can have: start it with more in INFPROF_RING_BYTES (at most 16M)";
        if (bytes < INFP_WRITER_CHUNKS_AT + (uint64_t) atomic_load(&file->n_chunks) * INFP_WIRE_CHUNK)
                return "the file is larger already, and does not shrink";
        atomic_store(&infp_writer_limit_bytes, (uint32_t) bytes);
        atomic_store(&file->max_chunks, (uint32_t) ((bytes - INFP_WRITER_CHUNKS_AT) / INFP_WIRE_CHUNK));
        set_number(RING_BYTES, bytes, "config");
        set_number(RING_RECORDS, records_in(bytes), "config");
        return NULL;
}

static const char *set_bytes(const char *text)
{
        const uint64_t bytes = parse(text, true);
        const char *refused = bytes ? set_limit(bytes) : "it is a number of bytes: 4194304, 4096k, 4M";

        if (!refused)
                publish(RING_RECORDS);
        return refused;
}

static const char *set_records(const char *text)
{
        const uint64_t n = parse(text, false), chunks = (n * RECORD_BYTES + INFP_WRITER_ROOM - 1) / INFP_WRITER_ROOM;
        const char *refused =
                n ? set_limit(INFP_WRITER_CHUNKS_AT + chunks * INFP_WIRE_CHUNK) : "it is a number of records";

        if (!refused) {
                set_number(RING_RECORDS, n, "config");
                publish(RING_BYTES);
        }
        return refused;
}

void infp_writer_settings_look(void)
{
        static const char *(*const setters[OURS])(const char *text) = { set_recording, set_bytes, set_records };
        struct infp_writer_page *page = page_of_file();
        char text[INFP_WRITER_VALUE];
        uint32_t asked;

        if (!infp_writer_is_asked() || !page || !infp_writer_try_lock(&page->settings_lock, 1))
                return; /* another thread does it */
        asked = atomic_load_explicit(atomic_load(&infp_writer_asked), memory_order_acquire);
        for (uint32_t i = 0; i < OURS; i++)
                if (take(i, text))
                        answer(i, setters[i](text));
        atomic_store_explicit(&infp_writer_heard, asked, memory_order_relaxed);
        infp_writer_unlock(&page->settings_lock);
}

void infp_writer_settings_switch(bool is_on)
{
        struct infp_writer_page *page = page_of_file();

        if (!page || !infp_writer_try_lock(&page->settings_lock, SPINS))
                return;
        set(RECORDING, is_on ? "on" : "off", "program");
        publish(RECORDING);
        infp_writer_unlock(&page->settings_lock);
}

void infp_writer_settings_all(void)
{
        const uint32_t limit = atomic_load(&infp_writer_limit_bytes), given = infp_writer_config.bytes;
        const uint32_t bytes = limit ? limit : given ? given : INFP_WRITER_FIRST_BYTES;
        const char *source = limit ? "config" : given ? "environment" : "default";
        struct infp_writer_page *page = atomic_load(&infp_writer_page);

        if (!infp_writer_file.head->settings_at || !infp_writer_wait_lock(&page->settings_lock))
                return;
        if (!settings[RECORDING].is.value[0])
                set(RECORDING, "on", atomic_load(&infp_writer_state) == INFP_WRITER_DUE ? "environment" : "program");
        set_number(RING_BYTES, bytes, source);
        set_number(RING_RECORDS, records_in(bytes), source);
        for (uint32_t i = 0; i < atomic_load(&n_settings); i++) {
                settings[i].taken = settings[i].answered = 0;
                publish(i);
        }
        atomic_store(&infp_writer_heard, 0);
        atomic_store(&infp_writer_asked, &infp_writer_file.settings->asked);
        infp_writer_unlock(&page->settings_lock);
}

static uint32_t find(const char *key)
{
        const uint32_t n = atomic_load_explicit(&n_settings, memory_order_acquire);

        for (uint32_t i = 0; i < n; i++)
                if (strcmp(settings[i].is.key, key) == 0)
                        return i + 1;
        return 0;
}

static uint32_t add(const char *key, const char *value, const char *may_be)
{
        const uint32_t n = atomic_load(&n_settings), size = (uint32_t) strnlen(key, sizeof settings[0].is.key);

        if (n == INFP_WIRE_SETTINGS || !size || size == sizeof settings[0].is.key)
                return 0;
        fill(settings[n].is.key, sizeof settings[n].is.key, key);
        fill(settings[n].is.may_be, sizeof settings[n].is.may_be, may_be);
        set(n, value, "default");
        atomic_store_explicit(&n_settings, n + 1, memory_order_release);
        if (page_of_file())
                publish(n);
        return n + 1;
}

/* The page whose lock is held now; NULL: it cannot be had. */
static struct infp_writer_page *lock(void)
{
        struct infp_writer_quiet quiet = infp_writer_quiet_begin();
        struct infp_writer_page *page = infp_writer_make_page() < 0 ? NULL : atomic_load(&infp_writer_page);

        if (page && !infp_writer_wait_lock(&page->settings_lock))
                page = NULL;
        infp_writer_quiet_end(quiet);
        return page;
}

uint32_t infp_writer_setting(const char *key, const char *value, const char *may_be)
{
        uint32_t found = find(key);
        struct infp_writer_page *page;

        if (!found && (page = lock())) {
                found = find(key);
                if (!found)
                        found = add(key, value, may_be);
                infp_writer_unlock(&page->settings_lock);
        }
        return found > OURS ? found : 0;
}

static bool is_theirs(uint32_t number)
{
        return number >= OURS && number < atomic_load_explicit(&n_settings, memory_order_acquire);
}

bool infp_writer_setting_asked(uint32_t number, char *ret, size_t cap)
{
        struct infp_writer_page *page = is_theirs(number) && page_of_file() ? lock() : NULL;
        char text[INFP_WRITER_VALUE];
        bool is_asked;

        if (!page)
                return false;
        is_asked = page_of_file() && infp_writer_file.head->settings_at && take(number, text);
        infp_writer_unlock(&page->settings_lock);
        if (is_asked && cap)
                fill(ret, cap, text);
        return is_asked;
}

void infp_writer_setting_is(uint32_t number, const char *value, const char *source)
{
        struct infp_writer_page *page = is_theirs(number) ? lock() : NULL;

        if (!page)
                return;
        set(number, value, source);
        if (page_of_file())
                publish(number);
        infp_writer_unlock(&page->settings_lock);
}

void infp_writer_setting_answer(uint32_t number, const char *refused)
{
        struct infp_writer_page *page = is_theirs(number) && page_of_file() ? lock() : NULL;

        if (!page)
                return;
        answer(number, refused);
        infp_writer_unlock(&page->settings_lock);
}

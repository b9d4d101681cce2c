#include "unwind/python/walk.h"

#include <errno.h>
#include <string.h>

enum {
        WINDOW = 8192, /* of the stack of frames, read at once */
        CHUNK = 16384, /* of that stack, as a rule */
        MOST_INTERPRETERS = 4096,
        GLIBC_NUMBER = 0x2d0, /* of struct pthread: the thread's number; x86-64, all versions since 2.10 */
        /* From the GIL's holder on: whether it is locked, a counter, and twice a condition variable (48) and its mutex (40). */
        GIL_BYTES = 200,
};

static uint64_t word_at(const uint8_t *bytes, unsigned offset)
{
        uint64_t word;

        memcpy(&word, bytes + offset, sizeof(word));
        return word;
}

static int read_word(const struct infp_python_memory *memory, uint64_t address, uint64_t *ret)
{
        return memory->read(memory->context, address, ret, sizeof(*ret));
}

/* Brent's way to find a list that runs in a circle: one address is kept, twice as long each time. */
struct cycle {
        uint64_t kept;
        uint32_t n, until;
};

static bool is_cycle(struct cycle *cycle, uint64_t address)
{
        if (cycle->n && cycle->kept == address)
                return true;
        if (cycle->n++ == cycle->until) {
                cycle->kept = address;
                cycle->until = 2 * cycle->until + 1;
        }
        return false;
}

/* ---- one stack ---- */

/* Of the stack of frames. */
struct chunk {
        uint64_t begin, end, previous;
        bool is_read; /* its head; before, its end is the usual one */
};

struct stack {
        const struct infp_python_layout *layout;
        const struct infp_python_memory *memory;
        uint64_t thread;
        uint64_t base; /* the thread state's own frame; 0: this version has no such */
        struct chunk newest, older;
        uint64_t window_begin, window_end;
        uint8_t window[WINDOW];
        uint8_t single[INFP_PYTHON_MAX_FRAME];
};

static void read_chunk(const struct infp_python_memory *memory, struct chunk *chunk)
{
        uint64_t head[2] = { 0 }; /* previous, size */

        if (chunk->begin && memory->read(memory->context, chunk->begin, head, sizeof(head)) < 0)
                head[0] = head[1] = 0;
        chunk->previous = head[0];
        chunk->end = chunk->begin + head[1] > chunk->begin ? chunk->begin + head[1] : chunk->begin;
        chunk->is_read = true;
}

/* Where the thread's innermost frame is, now. */
static int read_first(struct stack *s, uint64_t *ret)
{
        const struct infp_python_layout *l = s->layout;
        int r = read_word(s->memory, s->thread + l->thread_frame, ret);

        if (r == 0 && *ret && l->cframe_frame != INFP_PYTHON_ABSENT)
                r = read_word(s->memory, *ret + l->cframe_frame, ret);
        return r;
}

static int begin(struct stack *s, uint64_t *ret_first)
{
        const struct infp_python_layout *l = s->layout;
        uint8_t bytes[INFP_PYTHON_MAX_THREAD];

        if (s->memory->read(s->memory->context, s->thread, bytes, l->thread_size) < 0)
                return -EFAULT;
        if (l->thread_base != INFP_PYTHON_ABSENT)
                s->base = word_at(bytes, l->thread_base);
        if (l->thread_data_chunk != INFP_PYTHON_ABSENT) {
                s->newest.begin = word_at(bytes, l->thread_data_chunk);
                s->newest.end = s->newest.begin + CHUNK;
        }
        *ret_first = word_at(bytes, l->thread_frame);
        if (*ret_first && l->cframe_frame != INFP_PYTHON_ABSENT)
                return read_word(s->memory, *ret_first + l->cframe_frame, ret_first);
        return 0;
}

static bool is_in(const struct chunk *chunk, uint64_t address, unsigned size)
{
        return address >= chunk->begin && address < chunk->end && size <= chunk->end - address;
}

/* Whether the newest chunk that frames lie in, from here outwards, has that one. Others are a generator's, or lie on the C stack. */
static bool find_chunk(struct stack *s, uint64_t address)
{
        const unsigned size = s->layout->frame_size;

        if (is_in(&s->newest, address, size))
                return true;
        if (!s->newest.is_read) {
                read_chunk(s->memory, &s->newest);
                s->older.begin = s->newest.previous;
                if (is_in(&s->newest, address, size))
                        return true;
        }
        if (!s->older.is_read)
                read_chunk(s->memory, &s->older);
        if (!is_in(&s->older, address, size))
                return false;
        s->newest = s->older;
        s->older = (struct chunk){ .begin = s->newest.previous };
        return true;
}

/* The bytes of a frame. Callers' frames lie before it in the chunk: they are read with it. NULL: they cannot be read. */
static const uint8_t *frame_at(struct stack *s, uint64_t address)
{
        const unsigned size = s->layout->frame_size;
        const uint64_t end = address + size;
        uint64_t begin;

        if (address >= s->window_begin && end <= s->window_end && end > address)
                return s->window + (address - s->window_begin);
        if (s->layout->thread_data_chunk != INFP_PYTHON_ABSENT && find_chunk(s, address)) {
                begin = end - s->newest.begin > WINDOW ? end - WINDOW : s->newest.begin;
                s->window_begin = s->window_end = 0;
                if (s->memory->read(s->memory->context, begin, s->window, end - begin) == 0) {
                        s->window_begin = begin;
                        s->window_end = end;
                        return s->window + (address - begin);
                }
        }
        return s->memory->read(s->memory->context, address, s->single, size) == 0 ? s->single : NULL;
}

static uint64_t instruction_of(const struct infp_python_layout *l, const uint8_t *bytes)
{
        int32_t index;

        if (!l->instruction_unit)
                return word_at(bytes, l->frame_instruction);
        memcpy(&index, bytes + l->frame_instruction, sizeof(index)); /* -1: it has not begun */
        return (uint64_t) (int64_t) index;
}

/* A thread of a free-threaded build runs a copy of the byte code: its instruction as it is in the code object. */
static void move_to_object(const struct stack *s, struct infp_python_frame *frame)
{
        uint64_t copies, copy;

        if (frame->bytecode_index && frame->code &&
            read_word(s->memory, frame->code + s->layout->code_per_thread, &copies) == 0 &&
            read_word(s->memory, copies + 8 + 8 * (uint64_t) frame->bytecode_index, &copy) == 0)
                frame->instruction += frame->code + s->layout->code_bytes - copy;
}

static void decode(const struct stack *s, uint64_t address, const uint8_t *bytes, struct infp_python_frame *ret)
{
        const struct infp_python_layout *l = s->layout;

        *ret = (struct infp_python_frame){ .address = address, .is_entry = true };
        if (l->frame_owner != INFP_PYTHON_ABSENT) {
                ret->owner = address == s->base ? INFP_PYTHON_OWNER_C_STACK : bytes[l->frame_owner];
                ret->is_entry = ret->owner == INFP_PYTHON_OWNER_SHIM;
        }
        if (l->frame_is_entry != INFP_PYTHON_ABSENT)
                ret->is_entry = bytes[l->frame_is_entry] != 0;
        if (ret->owner == INFP_PYTHON_OWNER_SHIM || ret->owner == INFP_PYTHON_OWNER_C_STACK)
                return;
        ret->code = word_at(bytes, l->frame_code) & ~(uint64_t) l->code_tag_mask;
        ret->instruction = instruction_of(l, bytes);
        if (l->frame_bytecode_index != INFP_PYTHON_ABSENT) {
                memcpy(&ret->bytecode_index, bytes + l->frame_bytecode_index, sizeof(ret->bytecode_index));
                move_to_object(s, ret);
        }
}

/* Whether the innermost frame still is the one that was read, and runs the same code. Its instruction may be another one. */
static bool is_still(struct stack *s, uint64_t first, bool is_read, uint64_t code, uint64_t previous)
{
        uint8_t now[INFP_PYTHON_MAX_FRAME];
        uint64_t first_now;

        if (read_first(s, &first_now) < 0 || first_now != first)
                return false;
        return !is_read ||
               (s->memory->read(s->memory->context, first, now, s->layout->frame_size) == 0 &&
                word_at(now, s->layout->frame_code) == code && word_at(now, s->layout->frame_previous) == previous);
}

static uint32_t walk(struct stack *s, struct infp_python_frame *ret, uint32_t max, enum infp_python_end *ret_end)
{
        uint64_t first, at, code = 0, previous = 0;
        struct cycle cycle = { 0 };
        uint32_t n = 0;

        *ret_end = INFP_PYTHON_TORN;
        if (begin(s, &first) < 0)
                return 0;
        for (at = first; at && n < max; n++) {
                const uint8_t *bytes;

                if (is_cycle(&cycle, at)) {
                        *ret_end = INFP_PYTHON_CYCLE;
                        return n;
                }
                bytes = frame_at(s, at);
                if (!bytes)
                        return n;
                decode(s, at, bytes, &ret[n]);
                at = word_at(bytes, s->layout->frame_previous);
                if (n == 0) {
                        code = word_at(bytes, s->layout->frame_code);
                        previous = at;
                }
        }
        if (!is_still(s, first, n > 0, code, previous))
                *ret_end = INFP_PYTHON_MOVED;
        else
                *ret_end = at ? INFP_PYTHON_TOO_DEEP : INFP_PYTHON_WHOLE;
        return n;
}

uint32_t infp_python_walk(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                          uint64_t thread, struct infp_python_frame *ret, uint32_t max, enum infp_python_end *ret_end)
{
        struct stack s;

        /* Not the window: it would take longer than the walk. */
        s.layout = layout;
        s.memory = memory;
        s.thread = thread;
        s.base = s.window_begin = s.window_end = 0;
        s.newest = s.older = (struct chunk){ 0 };
        return walk(&s, ret, max, ret_end);
}

/* ---- all threads ---- */

struct threads {
        const struct infp_python_layout *layout;
        const struct infp_python_memory *memory;
        struct infp_python_thread *ret;
        uint32_t n, max;
        bool is_whole;
};

/* With a GIL for each interpreter, those that have none of their own point to the first one's. */
bool infp_python_gil_read(const struct infp_python_layout *l, const struct infp_python_memory *memory, uint64_t runtime,
                          uint64_t interpreter, struct infp_python_gil *ret)
{
        uint64_t gil, locked;
        int32_t is_locked, is_on;

        ret->is_off = false;
        if (l->interp_gil == INFP_PYTHON_ABSENT) {
                ret->begin = runtime + l->runtime_gil_holder;
                locked = runtime + l->runtime_gil_locked;
        } else {
                if (read_word(memory, interpreter + l->interp_gil, &gil) < 0 || !gil)
                        return false;
                if (l->is_free_threaded) { /* its first member counts who wants it on */
                        if (memory->read(memory->context, gil, &is_on, sizeof(is_on)) < 0)
                                return false;
                        ret->is_off = !is_on;
                        if (ret->is_off)
                                return false;
                }
                ret->begin = gil + l->gil_holder;
                locked = gil + l->gil_locked;
        }
        ret->end = ret->begin + GIL_BYTES;
        ret->holder = 0;
        if (memory->read(memory->context, locked, &is_locked, sizeof(is_locked)) < 0)
                return false;
        return is_locked != 1 || read_word(memory, ret->begin, &ret->holder) == 0;
}

enum { FIRST_WITH_CODES = 0x30b, MOST_CODES = 6, MOST_CODE_BYTES = 1 << 24 };
/* JUMP_BACKWARD and RESUME of 3.11 to 3.15, with what they are specialised to; 0: no more. From the module `opcode` of each. */
static const uint8_t giving_codes[][MOST_CODES] = {
        { 140, 38, 151, 150 },           { 140, 151 }, { 77, 149, 207 }, { 75, 175, 176, 128, 196 },
        { 74, 181, 182, 128, 200, 201 },
};

bool infp_python_wants_gil(const struct infp_python_layout *l, const struct infp_python_memory *memory,
                           const struct infp_python_frame *frame)
{
        const unsigned version = (unsigned) l->version - FIRST_WITH_CODES;
        uint8_t code;

        if (!frame->code || version >= sizeof(giving_codes) / sizeof(*giving_codes) ||
            frame->instruction - (frame->code + l->code_bytes) >= MOST_CODE_BYTES ||
            memory->read(memory->context, frame->instruction, &code, sizeof(code)) < 0)
                return false;
        for (unsigned i = 0; i < MOST_CODES && giving_codes[version][i]; i++)
                if (giving_codes[version][i] == code)
                        return true;
        return false;
}

uint64_t infp_python_gil_holder(const struct infp_python_layout *l, const struct infp_python_memory *memory,
                                uint64_t runtime, uint64_t interpreter)
{
        struct infp_python_gil gil;

        return infp_python_gil_read(l, memory, runtime, interpreter, &gil) ? gil.holder : 0;
}

static void list_threads(struct threads *all, uint64_t interpreter, int64_t id, uint64_t holder, uint64_t first)
{
        const struct infp_python_layout *l = all->layout;
        uint8_t bytes[INFP_PYTHON_MAX_THREAD];
        struct cycle cycle = { 0 };

        for (uint64_t at = first; at; at = word_at(bytes, l->thread_next)) {
                struct infp_python_thread thread = { .state = at, .interpreter = interpreter, .interpreter_id = id };

                if (all->n == all->max || is_cycle(&cycle, at) ||
                    all->memory->read(all->memory->context, at, bytes, l->thread_size) < 0 ||
                    word_at(bytes, l->thread_interp) != interpreter) {
                        all->is_whole = false;
                        return;
                }
                thread.pthread = word_at(bytes, l->thread_pthread);
                if (l->thread_native_id != INFP_PYTHON_ABSENT)
                        thread.native_id = (uint32_t) word_at(bytes, l->thread_native_id);
                thread.holds_gil = at == holder;
                all->ret[all->n++] = thread;
        }
}

uint32_t infp_python_threads(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                             uint64_t runtime, struct infp_python_thread *ret, uint32_t max, bool *ret_is_whole)
{
        struct threads all = { layout, memory, ret, 0, max, true };
        struct cycle cycle = { 0 };
        uint64_t at, next, id, first;

        if (read_word(memory, runtime + layout->runtime_interpreters, &at) < 0)
                at = 0, all.is_whole = false;
        for (unsigned i = 0; at && all.is_whole; i++, at = next) {
                if (i == MOST_INTERPRETERS || is_cycle(&cycle, at) ||
                    read_word(memory, at + layout->interp_next, &next) < 0 ||
                    read_word(memory, at + layout->interp_id, &id) < 0 ||
                    read_word(memory, at + layout->interp_threads, &first) < 0) {
                        all.is_whole = false;
                        break;
                }
                list_threads(&all, at, (int64_t) id, infp_python_gil_holder(layout, memory, runtime, at), first);
        }
        *ret_is_whole = all.is_whole;
        return all.n;
}

static bool is_word(const struct infp_python_memory *memory, uint64_t address, uint64_t wanted)
{
        uint64_t now;

        return read_word(memory, address, &now) == 0 && now == wanted;
}

bool infp_python_thread_is_there(const struct infp_python_layout *l, const struct infp_python_memory *memory,
                                 const struct infp_python_thread *thread)
{
        return is_word(memory, thread->state + l->thread_pthread, thread->pthread) &&
               is_word(memory, thread->state + l->thread_interp, thread->interpreter);
}

/* Each version puts new ones, and new interpreters, before all others. */
bool infp_python_threads_are_newest(const struct infp_python_layout *l, const struct infp_python_memory *memory,
                                    uint64_t runtime, const struct infp_python_thread *threads, uint32_t n)
{
        if (!n || !is_word(memory, runtime + l->runtime_interpreters, threads[0].interpreter))
                return false;
        for (uint32_t i = 0; i < n; i++)
                if ((!i || threads[i].interpreter != threads[i - 1].interpreter) &&
                    (!is_word(memory, threads[i].interpreter + l->interp_threads, threads[i].state) ||
                     !infp_python_thread_is_there(l, memory, &threads[i])))
                        return false;
        return true;
}

int32_t infp_python_thread_number(const struct infp_python_memory *memory, const struct infp_python_thread *thread)
{
        int32_t number = 0;

        return memory->read(memory->context, thread->pthread + GLIBC_NUMBER, &number, sizeof(number)) < 0 ? 0 : number;
}

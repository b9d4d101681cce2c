#include "unwind/python/layout.h"

#include <string.h>

/* ---- by table: 3.8 to 3.12 ---- */

static const struct infp_python_layout before_11 = {
        .runtime_interpreters = 32,
        .interp_next = 0,
        .interp_threads = 8,
        .interp_gil = INFP_PYTHON_ABSENT,
        .thread_size = 184,
        .thread_next = 8,
        .thread_interp = 16,
        .thread_frame = 24,
        .cframe_frame = INFP_PYTHON_ABSENT,
        .thread_base = INFP_PYTHON_ABSENT,
        .thread_pthread = 176,
        .thread_native_id = INFP_PYTHON_ABSENT,
        .thread_data_chunk = INFP_PYTHON_ABSENT,
        .frame_size = 108,
        .frame_previous = 24,
        .frame_code = 32,
        .frame_owner = INFP_PYTHON_ABSENT,
        .frame_is_entry = INFP_PYTHON_ABSENT,
        .frame_locals = 360,
        .frame_bytecode_index = INFP_PYTHON_ABSENT,
        .code_size = 128,
        .code_file = 104,
        .code_name = 112,
        .code_qualname = INFP_PYTHON_ABSENT,
        .code_first_line = 40,
        .code_line_table = 120,
        .code_version = INFP_PYTHON_ABSENT,
        .code_bytes = 48,
        .code_units = INFP_PYTHON_ABSENT,
        .code_per_thread = INFP_PYTHON_ABSENT,
        .code_local_names = 72,
        .code_cell_names = 88,
        .code_free_names = 80,
        .code_local_kinds = INFP_PYTHON_ABSENT,
        .object_type = 8,
        .str_length = 16,
        .str_state = 32,
        .str_ascii = 48,
        .str_compact = 72,
        .str_kind_shift = 2,
        .bytes_size = 16,
        .bytes_data = 32,
        .tuple_items = 24,
};

static void change_for_11(struct infp_python_layout *l)
{
        l->runtime_interpreters = 40;
        l->runtime_gil_holder = 368;
        l->runtime_gil_locked = 376;
        l->interp_id = 48;
        l->interp_threads = 16;
        l->thread_size = 304;
        l->thread_frame = 56;
        l->cframe_frame = 8;
        l->thread_pthread = 152;
        l->thread_native_id = 160;
        l->thread_data_chunk = 296;
        l->frame_size = 72;
        l->frame_previous = 48;
        l->frame_instruction = 56;
        l->frame_owner = 69;
        l->frame_is_entry = 68;
        l->frame_locals = 72;
        l->code_local_names = 96;
        l->code_local_kinds = 104;
        l->instruction_unit = 0;
        l->code_size = 144;
        l->code_file = 112;
        l->code_name = 120;
        l->code_qualname = 128;
        l->code_first_line = 72;
        l->code_line_table = 136;
        l->code_bytes = 184;
        l->code_units = 16;
        l->line_table_form = INFP_PYTHON_LOCATIONS;
}

static void change_for_12(struct infp_python_layout *l)
{
        l->runtime_gil_holder = INFP_PYTHON_ABSENT;
        l->runtime_gil_locked = INFP_PYTHON_ABSENT;
        l->interp_id = 8;
        l->interp_threads = 72;
        l->interp_gil = 384;
        l->gil_holder = 8;
        l->gil_locked = 16;
        l->thread_size = 240;
        l->cframe_frame = 0;
        l->thread_pthread = 136;
        l->thread_native_id = 144;
        l->thread_data_chunk = 232;
        l->frame_previous = 8;
        l->frame_code = 0;
        l->frame_owner = 70;
        l->frame_is_entry = INFP_PYTHON_ABSENT;
        l->code_first_line = 68;
        l->code_version = 92;
        l->code_bytes = 192;
        l->str_ascii = 40;
        l->str_compact = 56;
}

bool infp_python_layout_of(uint16_t version, struct infp_python_layout *ret)
{
        const unsigned minor = version & 0xff;
        struct infp_python_layout l = before_11;

        if (version < 0x308 || version > 0x30c)
                return false;
        l.version = version;
        l.runtime_gil_holder = minor == 8 ? 1160 : 360;
        l.runtime_gil_locked = minor == 8 ? 1168 : 368;
        l.interp_id = minor == 8 ? 16 : 24;
        l.frame_instruction = minor == 10 ? 96 : 104;
        l.frame_locals = minor == 10 ? 352 : 360;
        l.instruction_unit = minor == 10 ? 2 : 1;
        l.line_table_form = minor == 10 ? INFP_PYTHON_PAIRS : INFP_PYTHON_LNOTAB;
        if (minor >= 11)
                change_for_11(&l);
        if (minor >= 12)
                change_for_12(&l);
        *ret = l;
        return true;
}

/* ---- by _Py_DebugOffsets: 3.13 and later ---- */

/* Which word of 8 bytes has what: each minor version inserts some. 0: this version has no such word. */
struct words {
        uint16_t version;
        uint8_t n;
        uint8_t interp_gil, gil, gil_locked, gil_holder;
        uint8_t thread_base, thread_pthread, thread_native_id, thread_data_chunk;
        uint8_t frame_previous; /* then: code, instruction, locals, owner, stack pointer, index of the byte code */
        uint8_t code_file; /* then: name, qualified name, line table, first line, number of arguments, names and kinds of
                              variables */
        uint8_t code_bytes, code_per_thread;
        uint8_t object_type, tuple_items, bytes_size, str_state; /* then: length, size of the head of ASCII texts */
};
enum {
        VERSION = 1,
        FREE_THREADED,
        RUNTIME_INTERPRETERS = 5,
        INTERP_ID = 7,
        INTERP_NEXT,
        INTERP_THREADS,
};

static const struct words all_words[] = {
        { 0x30d, 73, 14, 15, 17, 18, 0, 24, 25, 26, 29, 35, 43, 0, 45, 51, 65, 68 },
        { 0x30e, 81, 15, 16, 18, 19, 0, 27, 28, 29, 32, 40, 48, 49, 51, 57, 75, 78 },
        { 0x30f, 94, 15, 16, 18, 19, 27, 30, 31, 32, 40, 48, 56, 57, 59, 69, 87, 90 },
};

/* Of the thread state: its words before the first that versions differ in. */
static unsigned thread_word(const struct words *w, unsigned i)
{
        return (w->thread_base ? w->thread_base : w->thread_pthread) - 3 + i;
}

struct debug_offsets {
        uint64_t words[96];
        bool is_bad; /* some offset cannot be one */
};

static uint16_t take(struct debug_offsets *offsets, unsigned word, uint64_t most)
{
        const uint64_t value = offsets->words[word];

        if (value > most)
                offsets->is_bad = true;
        return (uint16_t) value;
}

/* Makes `size` reach to the end of a member of 8 bytes, if there is such. */
static void cover(uint16_t *size, uint16_t member)
{
        if (member != INFP_PYTHON_ABSENT && member + 8 > *size)
                *size = (uint16_t) (member + 8);
}

static void take_thread(struct debug_offsets *o, const struct words *w, struct infp_python_layout *l)
{
        const unsigned most = INFP_PYTHON_MAX_THREAD - 8;

        l->thread_next = take(o, thread_word(w, 0), most);
        l->thread_interp = take(o, thread_word(w, 1), most);
        l->thread_frame = take(o, thread_word(w, 2), most);
        l->cframe_frame = INFP_PYTHON_ABSENT;
        l->thread_base = w->thread_base ? take(o, w->thread_base, most) : INFP_PYTHON_ABSENT;
        l->thread_pthread = take(o, w->thread_pthread, most);
        l->thread_native_id = take(o, w->thread_native_id, most);
        l->thread_data_chunk = take(o, w->thread_data_chunk, most);
        cover(&l->thread_size, l->thread_next);
        cover(&l->thread_size, l->thread_interp);
        cover(&l->thread_size, l->thread_frame);
        cover(&l->thread_size, l->thread_base);
        cover(&l->thread_size, l->thread_pthread);
        cover(&l->thread_size, l->thread_native_id);
        cover(&l->thread_size, l->thread_data_chunk);
}

static void take_frame(struct debug_offsets *o, const struct words *w, struct infp_python_layout *l)
{
        const unsigned most = INFP_PYTHON_MAX_FRAME - 8;

        l->frame_previous = take(o, w->frame_previous, most);
        l->frame_code = take(o, w->frame_previous + 1, most);
        l->frame_instruction = take(o, w->frame_previous + 2, most);
        l->frame_locals = take(o, w->frame_previous + 3, most);
        l->frame_owner = take(o, w->frame_previous + 4, most);
        l->frame_is_entry = INFP_PYTHON_ABSENT;
        l->frame_bytecode_index =
                l->is_free_threaded && w->code_per_thread ? take(o, w->frame_previous + 6, most) : INFP_PYTHON_ABSENT;
        cover(&l->frame_size, l->frame_previous);
        cover(&l->frame_size, l->frame_code);
        cover(&l->frame_size, l->frame_instruction);
        cover(&l->frame_size, l->frame_owner);
        cover(&l->frame_size, l->frame_bytecode_index);
        l->code_tag_mask = w->version >= 0x30e ? 3 : 0;
}

static void take_code(struct debug_offsets *o, const struct words *w, struct infp_python_layout *l)
{
        const unsigned most = INFP_PYTHON_MAX_CODE - 8;

        l->code_file = take(o, w->code_file, most);
        l->code_name = take(o, w->code_file + 1, most);
        l->code_qualname = take(o, w->code_file + 2, most);
        l->code_line_table = take(o, w->code_file + 3, most);
        l->code_first_line = take(o, w->code_file + 4, most);
        l->code_local_names = take(o, w->code_file + 6, most);
        if (l->code_local_names < 4)
                o->is_bad = true;
        l->code_version = (uint16_t) (l->code_local_names - 4); /* no word says where: it stands before them */
        l->code_local_kinds = take(o, w->code_file + 7, most);
        l->code_bytes = take(o, w->code_bytes, most);
        l->code_units = take(o, w->bytes_size, most); /* both count their items after the object's head */
        l->code_per_thread =
                l->frame_bytecode_index != INFP_PYTHON_ABSENT ? take(o, w->code_per_thread, most) : INFP_PYTHON_ABSENT;
        cover(&l->code_size, l->code_file);
        cover(&l->code_size, l->code_name);
        cover(&l->code_size, l->code_qualname);
        cover(&l->code_size, l->code_line_table);
        cover(&l->code_size, l->code_first_line);
        cover(&l->code_size, l->code_units);
        cover(&l->code_size, l->code_per_thread);
        l->line_table_form = INFP_PYTHON_LOCATIONS;
}

static void take_objects(struct debug_offsets *o, const struct words *w, struct infp_python_layout *l)
{
        const unsigned most = INFP_PYTHON_MAX_HEAD - 24;

        l->object_type = take(o, w->object_type, most);
        l->bytes_size = take(o, w->bytes_size, most);
        l->bytes_data = take(o, w->bytes_size + 1, most);
        l->tuple_items = take(o, w->tuple_items, most);
        l->str_state = take(o, w->str_state, most);
        l->str_length = take(o, w->str_state + 1, most);
        l->str_ascii = take(o, w->str_state + 2, most);
        l->str_compact = (uint16_t) (l->str_ascii + 16); /* the UTF-8 form, and its length */
        /* From 3.14 on free-threaded builds keep a byte of its own before the kind. */
        l->str_kind_shift = l->is_free_threaded && w->version >= 0x30e ? 8 : 2;
}

static void take_interpreter(struct debug_offsets *o, const struct words *w, struct infp_python_layout *l)
{
        const unsigned most = INFP_PYTHON_ABSENT - 8;
        const uint64_t gil = o->words[w->gil], holder = o->words[w->gil_holder], locked = o->words[w->gil_locked];

        l->runtime_interpreters = take(o, RUNTIME_INTERPRETERS, most);
        l->runtime_gil_holder = INFP_PYTHON_ABSENT;
        l->runtime_gil_locked = INFP_PYTHON_ABSENT;
        l->interp_id = take(o, INTERP_ID, most);
        l->interp_next = take(o, INTERP_NEXT, most);
        l->interp_threads = take(o, INTERP_THREADS, most);
        l->interp_gil = take(o, w->interp_gil, most);
        if (holder < gil || locked < gil || holder - gil > INFP_PYTHON_MAX_HEAD || locked - gil > INFP_PYTHON_MAX_HEAD)
                o->is_bad = true;
        l->gil_holder = (uint16_t) (holder - gil);
        l->gil_locked = (uint16_t) (locked - gil);
}

bool infp_python_layout_of_runtime(const uint8_t *bytes, size_t size, struct infp_python_layout *ret,
                                   uint32_t *ret_version)
{
        struct infp_python_layout l = { 0 };
        struct debug_offsets o = { 0 };
        const struct words *w = NULL;
        uint64_t version;

        *ret_version = 0;
        if (size < sizeof(uint64_t) * (FREE_THREADED + 1) || memcmp(bytes, INFP_PYTHON_COOKIE, 8) != 0)
                return false;
        memcpy(o.words, bytes, size < sizeof(o.words) ? size : sizeof(o.words));
        version = o.words[VERSION];
        if (version > UINT32_MAX || version >> 24 != 3)
                return false;
        *ret_version = (uint32_t) version;
        for (unsigned i = 0; i < sizeof(all_words) / sizeof(*all_words); i++)
                if (all_words[i].version == version >> 16)
                        w = &all_words[i];
        if (!w || size < w->n * sizeof(uint64_t))
                return false;
        l.version = w->version;
        l.is_free_threaded = o.words[FREE_THREADED] != 0;
        take_interpreter(&o, w, &l);
        take_thread(&o, w, &l);
        take_frame(&o, w, &l);
        take_code(&o, w, &l);
        take_objects(&o, w, &l);
        if (o.is_bad)
                return false;
        *ret = l;
        return true;
}

/* Settings that may be changed while the program runs. */
#include "infprof/infprof.h"

#include "ring/writer.h"

_Static_assert(INFP_SETTING_BYTES == (int) INFP_WRITER_VALUE, "the longest value is the same");

static uint32_t number_of(const infp_setting *setting)
{
        return (uint32_t) (uintptr_t) setting - 1;
}

INFP_API infp_setting *infp_setting_open(const char *key, const char *value, const char *may_be)
{
        return (infp_setting *) (uintptr_t) infp_writer_setting(key ? key : "", value ? value : "",
                                                                may_be ? may_be : "");
}

INFP_API uint32_t infp_settings_asked(void)
{
        if (infp_writer_is_asked() && infp_writer_begin()) /* for those of the ring itself */
                infp_writer_end();
        return atomic_load_explicit(atomic_load_explicit(&infp_writer_asked, memory_order_relaxed),
                                    memory_order_acquire);
}

INFP_API int infp_setting_asked(infp_setting *setting, char *ret, size_t cap)
{
        return setting && ret && infp_writer_setting_asked(number_of(setting), ret, cap);
}

INFP_API void infp_setting_is(infp_setting *setting, const char *value, const char *source)
{
        if (setting)
                infp_writer_setting_is(number_of(setting), value ? value : "", source ? source : "program");
}

INFP_API void infp_setting_answer(infp_setting *setting, const char *refused)
{
        if (setting)
                infp_writer_setting_answer(number_of(setting), refused);
}

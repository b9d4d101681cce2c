/* Places of the program in which something took its time. */
#include "base/text.h"
#include "view/report/parts.h"

const char *infp_report_string(const struct infp_strings *strings, uint32_t string)
{
        const char *text = infp_strings_get(strings, string);

        return text ? text : "-";
}

void infp_report_place(struct infp_str *out, const struct infp_strings *strings, const struct infp_profile_place *place)
{
        const char *function = infp_strings_get(strings, place->function),
                   *file = infp_strings_get(strings, place->file);

        infp_str_puts(out, function ? function : "[unknown]");
        if (file)
                infp_str_printf(out, "  %s", infp_base_name(file));
        if (file && place->line)
                infp_str_printf(out, ":%lld", (long long) place->line);
}

static void put_json_place(struct infp_json *json, const struct infp_strings *strings,
                           const struct infp_profile_place *place)
{
        infp_json_object(json);
        infp_json_member_str(json, "function", infp_strings_get(strings, place->function));
        infp_json_member_str(json, "file", infp_strings_get(strings, place->file));
        infp_json_key(json, "line");
        if (place->line)
                infp_json_i64(json, place->line);
        else
                infp_json_null(json);
        infp_json_member_f64(json, "total_s", place->seconds);
        infp_json_object_end(json);
}

void infp_report_json_places(struct infp_json *json, const struct infp_strings *strings,
                             const struct infp_profile_places *places)
{
        infp_json_key(json, "places");
        infp_json_array(json);
        for (uint32_t i = 0; i < places->n; i++)
                put_json_place(json, strings, &places->list[i]);
        infp_json_array_end(json);
}

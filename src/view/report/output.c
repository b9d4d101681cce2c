/* What a captured command wrote, and what is gone of it: a line of the report's head, a member of its JSON. */
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "view/report/parts.h"

void infp_report_output(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_report_output *output = &report->output;
        char of[96] = "", removed[96] = "";

        if (!output->has)
                return;
        if (report->is_part)
                snprintf(of, sizeof(of), ", %s of them here", infp_report_bytes((double) output->range_bytes).text);
        if (output->removed)
                snprintf(removed, sizeof(removed), "; its first %s are removed",
                         infp_report_bytes((double) output->removed).text);
        infp_report_line(out, "output", "%s in %s_output.txt%s%s", infp_report_bytes((double) output->bytes).text,
                         report->run->info.uuid, of, removed);
}

void infp_report_json_output(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_report_output *output = &report->output;

        if (!output->has)
                return;
        infp_json_key(json, "output");
        infp_json_object(json);
        infp_json_member_u64(json, "bytes", output->bytes);
        infp_json_member_u64(json, "bytes_in_range", output->range_bytes);
        infp_json_member_u64(json, "removed_bytes", output->removed);
        infp_json_object_end(json);
}

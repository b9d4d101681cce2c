#include "view/cell_json.h"

#include "base/json/text.h"
#include "view/format.h"

void infp_cell_json(struct infp_json *json, const struct infp_batch *batch, unsigned column, uint32_t row)
{
        const struct infp_column *c = infp_table_column(batch->table, column);
        size_t size;
        const char *text;

        if (!infp_batch_has(batch, column, row)) {
                infp_json_null(json);
                return;
        }
        switch (c->type) {
        case INFP_I64:
                infp_json_i64(json, infp_batch_i64(batch, column, row));
                return;
        case INFP_U64:
        case INFP_ID64:
                infp_json_u64(json, infp_batch_u64(batch, column, row));
                return;
        case INFP_F64:
                infp_json_f64(json, infp_batch_f64(batch, column, row));
                return;
        case INFP_BOOL:
                infp_json_bool(json, infp_batch_bool(batch, column, row));
                return;
        case INFP_TS_NS:
                infp_json_i64(json, infp_unix_ms(infp_batch_i64(batch, column, row)));
                return;
        case INFP_STR:
                text = infp_batch_str(batch, column, row, &size);
                if (c->unit == &infp_unit_json)
                        infp_json_text(json, text, size);
                else
                        infp_json_strn(json, text, size);
                return;
        }
}

#include "model/prom_name.h"

#include <string.h>

/* "disk_read_bytes" of disk_device: "read_bytes"; "network_sent" of net_interface: "sent". */
static const char *without_repeated_word(const char *name, const char *table)
{
        const size_t word = strcspn(table, "_");
        const char *rest = name + strcspn(name, "_");

        return strncmp(name, table, word) == 0 && *rest ? rest + 1 : name;
}

bool infp_prom_name(struct infp_str *out, const struct infp_table *table, const struct infp_column *column)
{
        static const char house[] = "infprof_", host[] = "infprof_host_";

        if (!column->prom)
                return false;
        if (!table->n_keys || strncmp(column->prom, host, sizeof(host) - 1) != 0) {
                infp_str_puts(out, column->prom);
                return true;
        }
        infp_str_puts(out, house);
        infp_str_puts(out, table->name);
        infp_str_putc(out, '_');
        infp_str_puts(out, without_repeated_word(column->prom + sizeof(host) - 1, table->name));
        return true;
}

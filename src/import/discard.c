/* An import that failed leaves nothing: what it has written into its run is removed. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "import/import.h"

static void remove_table(struct infp_run *run, const char *table)
{
        char **segments;
        int n = infp_run_segments(run, table, &segments, NULL);

        for (int i = 0; i < n; i++) {
                unlinkat(run->fd, segments[i], 0);
                free(segments[i]);
        }
        if (n >= 0)
                free(segments);
        unlinkat(run->fd, table, AT_REMOVEDIR);
}

void infp_import_discard(struct infp_run *run)
{
        char **tables;
        int n = infp_run_tables(run, &tables, NULL);

        for (int i = 0; i < n; i++) {
                remove_table(run, tables[i]);
                free(tables[i]);
        }
        if (n >= 0)
                free(tables);
}

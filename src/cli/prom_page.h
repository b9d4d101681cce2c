/* A page of Prometheus text: what `snapshot --prom` and `export -f prom` print. */
#pragma once

#include "model/last.h"
#include "view/format.h"

int infp_prom_page(struct infp_out *out, const struct infp_last *last);

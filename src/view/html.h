/* report --html: one self-contained page. C writes a frame (head, meta CSP with the hashes of script and style, the headline and
 * figures as plain HTML that reads without script, <noscript>), the data as one JSON object in
 * <script type="application/json" id="data">, and the embedded web/report/{report.css,*.js}. Everything that comes from a run is
 * text: `<` is \u003c in the JSON, & < > " ' are escaped in HTML, control characters and invalid UTF-8 are replaced; the page makes
 * nodes by textContent alone. No http(s):// in any src or href, no request, no eval, no inline handler.
 *
 * Shape of the data (docs of each member: web/report/README.md). Numbers are in base units (s, bytes, W, ratio where the unit is %:
 * 0..100); absent is null, never 0. Times are ms since `start_ms`.
 *
 * { "version": 1, "made_by": "infprof 0.1.0", "made_ms": 1795861859756,
 *   "report": { ... as `report --json`: headline and limits, metrics, machine, engines, requests, containers, energy, gpus, processes, absences, self, ticks },
 *   "start_ms": unix ms of the grid's begin, "step_ms": width of a bucket, "n": buckets,
 *   "sampled_ms": the run's period, "is_downsampled": false when each bucket holds one sample at most,
 *   "panels": [ { "id": "cpu", "group": "host|tree|engine|container|gpu|energy|pressure|process|io|net|program", "title": "CPU of the target",
 *                 "unit": "%", "kind": "line|area|stack", "note": text or null, "max": 100 or null,
 *                 "limits": [ { "name": "quota", "value": 200 } ],
 *                 "series": [ { "name": "user", "metric": "tree_cpu_ns", "table": "tree", "instance": null or "gpu 0 NVIDIA H100",
 *                               "quality": "measured|derived|estimated", "is_rate": true, "help": text,
 *                               "v": [..n..] (one sample a bucket) or "min": [..], "max": [..], "mean": [..] } ] } ],
 *   "cores": { "names": ["cpu0", ...], "v": [[0..100 or null, n], ... one a core] } or null,
 *   "processes": [ { "pid": 1, "ppid": 0, "parent": index or null, "name": "", "cmdline": "", "start": ms, "end": ms or null,
 *                    "cpu_s": 1.5, "rss_max": bytes, "cpu": [..m..] % of a core, "rss": [..m..] } ], "processes_left_out": 0, "spark_step_ms": 1000,
 *   "requests": [ { "t": arrival, "ttft": s, "e2e": s, "tokens": 12, "ok": true, "load": "name", "failure": null } ], "requests_left_out": 0,
 *   "marks": [ { "t": ms, "tag": "", "source": "api", "process": "name or null" } ], "marks_left_out": 0,
 *   "lanes": [ { "name": "serve (12) · worker 1" } ],
 *   "spans": [ { "t": ms, "d": ms or null (open), "name": "", "lane": 0, "depth": 0, "status": "ok", "id": 1, "parent": null, "attributes": {} } ],
 *   "spans_left_out": 0 (the shortest are), 
 *   "gaps": [ { "from": ms, "to": ms, "reason": "no samples: ..." } ] }  */
#pragma once

#include "analyze/report.h"
#include "view/format.h"

struct infp_timeline; /* analyze/timeline.h */

/* 0 or a negative errno of the output. */
int infp_report_html(struct infp_out *out, const struct infp_report *report, const struct infp_timeline *timeline);

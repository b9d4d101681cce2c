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
 *   "start_ms": unix ms of the grid's begin, "step_ms": width of a bucket, "n": buckets. Bucket i is start_ms + i step_ms up to
 *   start_ms + (i + 1) step_ms; a point is drawn in its middle. A null is a gap: no line across it,
 *   "sampled_ms": the run's period, "is_downsampled": false when each bucket holds one sample at most,
 *   "panels": [ { "id": "cpu", "group": "tree|host|pressure|container|engine|gpu|energy|io|net|process|program|all", "title": "CPU of the target",
 *                 "unit": "%", "kind": "line|area|stack", "note": text or null, "max": 100 or null, "left_out": series that there is no room for,
 *                 "limits": [ { "name": "quota", "value": 200 } ],
 *                 "series": [ { "name": "user", "metric": "tree_cpu_ns", "table_name": "tree", "instance": null or "gpu 0 NVIDIA H100",
 *                               "quality": "measured|derived|estimated", "is_rate": true, "help": text,
 *                               "v": [..n..] (one sample a bucket, or equal ones) or "min": [..], "max": [..], "mean": [..] } ] } ],
 *   Unit: "%" (0..100), "bytes", "bytes/s", "s", "W", "J", "C", "Hz", "/s", "tokens/s", "" (plain numbers).
 *   "cores": { "names": ["cpu0", ... or "cpu0-3"], "n": columns, "step_ms": (from start_ms; a multiple of the step), "note": text or null,
 *              "v": [[0..100 or null, n], ... one a core] } or null,
 *   "processes": [ { "pid": 1, "ppid": 0, "parent": index or null, "name": "", "cmdline": "", "start": ms, "end": ms or null,
 *                    "cpu_s": 1.5, "rss_max": bytes, "cpu": [..m..] % of a core, "rss": [..m..] } ], "processes_left_out": 0,
 *   "spark_step_ms": 1000, "spark_n": m (from start_ms),
 *   "requests": { "t": [arrival, ms], "ttft": [s or null], "e2e": [s or null], "tokens": [n or null], "ok": [1 or 0 or null: cut off by the end of the load],
 *                 "load": [index into loads], "failure": [index into failures or null], "loads": [names], "failures": [texts] } or null,
 *   "requests_left_out": 0 (evenly thinned; the slowest of each stay),
 *   "marks": [ { "t": ms, "tag": "", "source": "api", "process": "name or null" } ], "marks_left_out": 0,
 *   "lanes": [ { "name": "serve (12) · worker 1" } ],
 *   "spans": { "t": [ms], "d": [ms or null: open], "lane": [], "depth": [], "id": [], "parent": [id or null], "name": [index into names],
 *              "status": [index into states], "attributes": [object or null], "names": [texts], "states": [texts] } or null,
 *   "spans_left_out": 0 (the shortest are),
 *   "gaps": [ { "from": ms, "to": ms, "reason": "no samples: ..." } ],
 *   "notes": [ texts: what was left out of this page, and that it was downsampled ] }
 *
 * Times of events (start, end, t, d, from, to) are ms since start_ms, with a fraction where need be.
 *
 * The frame is that of web/report/README.md. tools/embed joins the *.js there in the order of the alphabet, main.js last, into one
 * <script>, wrapped into one function with "use strict"; report.css is the <style>. */
#pragma once

#include "analyze/report.h"
#include "view/format.h"

struct infp_timeline; /* analyze/timeline/timeline.h */

/* 0 or a negative errno. The timeline's buckets are joined where the page would become too large. */
int infp_report_html(struct infp_out *out, const struct infp_report *report, struct infp_timeline *timeline);

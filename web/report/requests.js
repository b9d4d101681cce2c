/* Each request at the time of its arrival; failed ones in another shape and colour. */

/* A load without a name of its own is named by the Unix time, in ms, at which it began. */
const loadName = (name) => (/^\d{13}$/.test(name) ? `load of ${clock(Number(name), 1000)}` : name || 'requests');

class RequestScatter extends Plot {
  /* options.key: ttft or e2e */
  constructor(data, options) {
    super(data, { unit: 's', height: 220, ...options });
    this.requests = data.requests.map((request, i) => ({ ...request, i })).sort((a, b) => a.t - b.t);
    this.loads = [...new Set(this.requests.map((request) => request.load ?? ''))].map((name, i) => ({ name, color: i, is_hidden: false }));
    this.load_of = new Map(this.loads.map((load) => [load.name, load]));
    this.chosen = null;
    this.legend.append(...this.loads.map((load) => this.keyOf(load, loadName(load.name))));
    if (this.requests.some((request) => !request.ok)) this.legend.append(h('span', { class: 'failed-key' }, '✕ failed or cut off'));
  }

  keyOf(load, name) {
    const n = this.requests.filter((request) => (request.load ?? '') === load.name).length;
    return append(toggle('', true, (is_on) => {
      load.is_hidden = !is_on;
      this.changed();
    }, { class: 'key', css: { '--color': `var(--c${load.color % 8})` } }), [h('span', { class: 'swatch dot' }), h('span', { class: 'name' }, name), h('span', { class: 'value' }, number(n))]);
  }

  shown() { return this.requests.filter((r) => !this.load_of.get(r.load ?? '').is_hidden && r.t >= view.from && r.t <= view.to); }

  /* A failed request that never had this time stands at the foot of the chart. */
  valueOf(request) { return request[this.options.key] ?? null; }

  paint(c, box) {
    const shown = this.shown();
    const high = Math.max(0, ...shown.map((request) => this.valueOf(request) ?? 0));
    const range = valueAxis(0, high || 1, 's', Math.max(2, Math.round(box.height / 38)));
    this.unit.textContent = range.scale.name;
    this.last_range = range;
    drawBand(c, box);
    drawValueAxis(c, box, range);
    drawTimeAxis(c, box);
    this.clipped(c, { ...box, left: box.left - 5, width: box.width + 10 }, () => {
      drawGaps(c, box, this.data.gaps);
      drawMarks(c, box, this.data.marks, true);
      for (const request of shown) if (request.ok) this.paintDot(c, box, range, request);
      for (const request of shown) if (!request.ok) this.paintCross(c, box, range, request);
      if (this.chosen) this.paintRing(c, box, range, this.chosen);
    });
  }

  placeOf(box, range, request) { return [xOf(box, request.t), yOf(box, range, this.valueOf(request) ?? 0)]; }

  paintDot(c, box, range, request) {
    if (this.valueOf(request) === null) return;
    const [x, y] = this.placeOf(box, range, request);
    c.globalAlpha = 0.65;
    c.fillStyle = colorOf(this.load_of.get(request.load ?? '').color);
    c.beginPath();
    c.arc(x, y, 3, 0, 7);
    c.fill();
    c.globalAlpha = 1;
  }

  paintCross(c, box, range, request) {
    const [x, y] = this.placeOf(box, range, request);
    c.strokeStyle = palette.bad;
    c.lineWidth = 2;
    line(c, x - 4, y - 4, x + 4, y + 4);
    line(c, x - 4, y + 4, x + 4, y - 4);
  }

  paintRing(c, box, range, request) {
    const [x, y] = this.placeOf(box, range, request);
    c.strokeStyle = palette.text;
    c.lineWidth = 1.5;
    c.beginPath();
    c.arc(x, y, 6, 0, 7);
    c.stroke();
  }

  near(x, y) {
    let best = null, least = 18 * 18;
    for (const request of this.shown()) {
      const [px, py] = this.placeOf(this.box, this.last_range, request);
      const away = (px - x) ** 2 + (py - y) ** 2;
      if (away < least) [best, least] = [request, away];
    }
    return best;
  }

  facts(request) {
    return [momentText(request.t), request.load && loadName(request.load), request.ok ? null : `not completed: ${request.failure || 'unknown'}`,
      `first token ${show(request.ttft, 's')}`, `end to end ${show(request.e2e, 's')}`, `${number(request.tokens)} tokens`].filter(Boolean);
  }

  cursorMoved() {
    const found = this.is_pointed && view.cursor !== null && this.pointer && this.box ? this.near(this.pointer.x, this.pointer.y) : this.is_key ? this.chosen : null;
    if (found !== this.chosen) {
      this.chosen = found;
      this.is_stale = true;
      if (this.is_in_sight) this.draw();
    }
    super.cursorMoved();
  }

  tagText(t) { return this.chosen ? this.facts(this.chosen) : super.tagText(t); }
  moved(event) { this.is_key = false; super.moved(event); }

  doKey(key, is_fast) {
    if ((key !== 'ArrowLeft' && key !== 'ArrowRight') || is_fast) return super.doKey(key, is_fast);
    const shown = this.shown();
    if (!shown.length) return true;
    const at = shown.indexOf(this.chosen);
    const next = at < 0 ? (key === 'ArrowRight' ? 0 : shown.length - 1) : at + (key === 'ArrowRight' ? 1 : -1);
    this.chosen = shown[Math.min(shown.length - 1, Math.max(0, next))];
    this.is_key = true;
    this.draw();
    setCursor(this.chosen.t);
    say(this.facts(this.chosen).join(', '));
    return true;
  }

  has_own_time = true;
  tableRows() { return this.requests.filter((request) => request.t >= view.from && request.t <= view.to); }
  columns() {
    return [textColumn('arrival', (r) => clock(view.start + r.t, 1)), { name: 'since start', unit: 's', of: (r) => r.t / 1000 },
      textColumn('load', (r) => r.load), { name: 'first token', unit: 's', of: (r) => r.ttft }, { name: 'whole', unit: 's', of: (r) => r.e2e },
      { name: 'tokens', of: (r) => r.tokens }, textColumn('result', (r) => (r.ok ? 'ok' : r.failure || 'failed'))];
  }
}

/* Client-side figures of the loads, as `report` has them. */
function requestsCard(requests) {
  const kinds = [['ttft', 'Time to first token'], ['tpot', 'Time per output token'], ['itl', 'Between tokens'], ['e2el', 'End to end']];
  const rows = kinds.filter(([key]) => requests[`mean_${key}_ms`] !== null && requests[`mean_${key}_ms`] !== undefined)
    .map(([key, name]) => ({ name, of: (what) => requests[`${what}_${key}_ms`] }));
  const column = (name, what) => ({ name, unit: 'ms', of: (row) => row.of(what) });
  const failures = Object.entries(requests.failures || {}).map(([kind, n]) => `${n} ${kind}`).join(', ');
  return wideCard('Client-side',
    smallPrint([`${number(requests.requests)} requests, ${number(requests.completed)} completed`, failures ? `not completed: ${failures}` : null,
      requests.output_throughput ? show(requests.output_throughput, 'tokens/s') : null, requests.percentiles ? `percentiles ${requests.percentiles}` : null]),
    tableOf('Latencies of requests', [textColumn('time', (row) => row.name), column('mean', 'mean'), column('p50', 'p50'), column('p90', 'p90'),
      column('p95', 'p95'), column('p99', 'p99'), column('max', 'max')], rows));
}

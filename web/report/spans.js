/* Spans as bands in the lanes of their threads, nested; marks as lines with their tags. A click shows the span alone and shades it in
 * all charts. */

const ROW = 18;
const LANE_HEAD = 16;
const LANES_AT_ONCE = 40;
const TALLEST = 12000; /* no browser draws much higher canvases */

class SpanLanes extends Plot {
  constructor(data) {
    super(data, { id: 'spans-chart', title: 'Spans', note: spansNote(data), height: 60, wide: true });
    this.spans = data.spans.map((span) => ({ ...span, end: span.t + (span.d ?? data.total_ms - span.t) }))
      .sort((a, b) => a.t - b.t || a.depth - b.depth);
    this.lanes_shown = LANES_AT_ONCE;
    this.chosen = null;
    this.detail = h('div', { class: 'detail' });
    this.more = h('p', {});
    this.stage.after(this.more, this.detail);
    this.place();
  }

  /* Rows of each lane, one below the other. */
  place() {
    const deepest = this.data.lanes.map(() => -1);
    for (const span of this.spans) deepest[span.lane] = Math.max(deepest[span.lane] ?? -1, span.depth);
    let top = 0;
    this.lanes = [];
    this.data.lanes.forEach((lane, i) => {
      if (deepest[i] < 0 || this.lanes.length >= this.lanes_shown || top > TALLEST) return;
      this.lanes.push({ i, name: lane.name, top });
      top += LANE_HEAD + (deepest[i] + 1) * ROW + 6;
    });
    this.lane_of = new Map(this.lanes.map((lane) => [lane.i, lane]));
    const left = deepest.filter((d) => d >= 0).length - this.lanes.length;
    this.more.replaceChildren(...(left > 0 ? [top > TALLEST ? `${number(left)} more lanes are in the table alone.` : button(`Show ${left} more lanes`, {}, () => {
      this.lanes_shown += LANES_AT_ONCE * 2;
      this.place();
    })] : []));
    this.stage.style.height = `${Math.max(40, top) + 48}px`;
    this.changed();
  }

  boxOf(width, height) { return { ...super.boxOf(width, height), left: 12, width: width - 24, top: 22, height: Math.max(10, height - 46) }; }

  rectOf(box, span) {
    const lane = this.lane_of.get(span.lane);
    if (!lane) return null;
    const [x0, x1] = [xOf(box, span.t), xOf(box, span.end)];
    return { x0, x1, left: Math.max(box.left, x0), width: Math.max(1.5, Math.min(box.left + box.width, x1) - Math.max(box.left, x0)),
      y: box.top + lane.top + LANE_HEAD + span.depth * ROW };
  }

  paint(c, box) {
    drawBand(c, box);
    drawTimeAxis(c, box);
    this.clipped(c, { ...box, top: 2, height: box.height + box.top }, () => {
      drawGaps(c, box, this.data.gaps);
      drawMarks(c, { ...box, top: 2, height: box.height + box.top - 2 }, this.data.marks, true);
      const drawn = new Map(); /* the right edge of each row: what is thinner than a pixel is drawn once */
      for (const span of this.spans) {
        if (span.end < view.from || span.t > view.to) continue;
        const rect = this.rectOf(box, span);
        if (!rect) continue;
        const key = rect.y;
        if (rect.x1 - rect.x0 < 0.5 && rect.left < (drawn.get(key) ?? -1)) continue;
        drawn.set(key, rect.left + 1);
        this.paintSpan(c, span, rect);
      }
      textStyle(c, 'left', 'top', palette.bold);
      for (const lane of this.lanes) {
        c.fillStyle = palette.soft;
        outlined(c, shorten(c, lane.name, box.width - 10), box.left, box.top + lane.top + 1);
      }
    });
  }

  paintSpan(c, span, rect) {
    const color = span.status === 'error' ? palette.bad : colorOf(hashOf(span.name));
    c.globalAlpha = 0.38;
    c.fillStyle = color;
    c.fillRect(rect.left, rect.y, rect.width, ROW - 2);
    c.globalAlpha = 1;
    c.fillRect(rect.left, rect.y, Math.min(2, rect.width), ROW - 2);
    if (span.d === null) { /* it was open at the end */
      c.strokeStyle = color;
      c.setLineDash([3, 3]);
      c.lineWidth = 1;
      c.strokeRect(rect.left + 0.5, rect.y + 0.5, rect.width - 1, ROW - 3);
      c.setLineDash([]);
    }
    if (span === this.chosen) {
      c.strokeStyle = palette.text;
      c.lineWidth = 1.5;
      c.strokeRect(rect.left + 0.75, rect.y + 0.75, Math.max(1, rect.width - 1.5), ROW - 3.5);
    }
    if (rect.width < 26) return;
    textStyle(c, 'left', 'middle');
    c.fillStyle = palette.text;
    c.fillText(shorten(c, span.status === 'error' ? `✕ ${span.name}` : span.name, rect.width - 10), rect.left + 6, rect.y + ROW / 2 - 0.5);
  }

  /* The smallest span under the pointer. */
  spanAt(x, y) {
    const t = tOf(this.box, x);
    const slack = ((view.to - view.from) / this.box.width) * 3;
    let best = null;
    for (const span of this.spans) {
      if (span.t - slack > t) break;
      if (span.end + slack < t) continue;
      const rect = this.rectOf(this.box, span);
      if (rect && y >= rect.y && y < rect.y + ROW && (!best || span.end - span.t < best.end - best.t)) best = span;
    }
    return best;
  }

  tagText(t) {
    const span = this.pointer && this.spanAt(this.pointer.x, this.pointer.y);
    return span ? [...spanWords(span), ...Object.entries(span.attributes || {}).slice(0, 8).map(([k, v]) => `${k} = ${textOfAttribute(v)}`)] : super.tagText(t);
  }

  clicked() {
    const span = this.spanAt(this.pointer.x, this.pointer.y);
    if (span) this.choose(span, true);
    else if (view.band) this.choose(null);
  }

  choose(span, is_zoom) {
    this.chosen = span;
    this.showDetail(span);
    if (span && is_zoom) {
      const margin = Math.max((span.end - span.t) * 0.08, view.smallest);
      setRange(span.t - margin, span.end + margin);
    }
    setBand(span && is_zoom ? { from: span.t, to: span.end } : null);
    if (span) say(spanWords(span).join(', '));
  }

  showDetail(span) {
    if (!span) return this.detail.replaceChildren();
    const entries = Object.entries(span.attributes || {});
    this.detail.replaceChildren(h('p', {}, h('strong', {}, span.name), ` ${spanWords(span).slice(1).join(' · ')} · ${this.data.lanes[span.lane]?.name ?? ''}`),
      entries.length ? h('dl', { class: 'facts' }, entries.map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, textOfAttribute(v))))) : null);
  }

  /* Arrows go from span to span: left and right in the row, up to the outer one, down to the inner one or the next lane. */
  doKey(key, is_fast) {
    if (key === 'Enter' && this.chosen) {
      this.choose(this.chosen, true);
      return true;
    }
    if (!key.startsWith('Arrow') || is_fast || !this.spans.length) return super.doKey(key, is_fast);
    const now = this.chosen || this.spans.find((span) => span.end >= view.from) || this.spans[0];
    const next = this.chosen ? this.neighbour(now, key) : now;
    if (!next) return true;
    this.choose(next, false);
    if (next.t < view.from || next.t > view.to) panBy(next.t - (view.from + view.to) / 2);
    setCursor(next.t);
    return true;
  }

  neighbour(now, key) {
    const row = (span) => span.lane === now.lane && span.depth === now.depth;
    const at = this.spans.indexOf(now);
    if (key === 'ArrowRight') return this.spans.find((span, i) => i > at && row(span));
    if (key === 'ArrowLeft') return this.spans.findLast((span, i) => i < at && row(span));
    const by = key === 'ArrowDown' ? 1 : -1;
    const inner = this.spans.find((span) => span.lane === now.lane && span.depth === now.depth + by && span.t <= now.end && span.end >= now.t);
    if (inner) return inner;
    const lanes = this.lanes.map((lane) => lane.i);
    const lane = lanes[lanes.indexOf(now.lane) + by];
    return this.spans.find((span) => span.lane === lane && span.end >= now.t) ?? this.spans.find((span) => span.lane === lane);
  }

  has_own_time = true;
  tableRows() { return this.spans.filter((span) => span.end >= view.from && span.t <= view.to); }
  columns() {
    return [
      textColumn('span', (s) => s.name), textColumn('start', (s) => clock(view.start + s.t, 1)),
      { name: 'since start', unit: 's', of: (s) => s.t / 1000 }, { name: 'duration', unit: 's', of: (s) => (s.d === null ? null : s.d / 1000), show: (v) => show(v, 's') },
      textColumn('status', (s) => (s.d === null ? 'open' : s.status)), textColumn('lane', (s) => this.data.lanes[s.lane]?.name),
      { name: 'depth', of: (s) => s.depth },
      textColumn('attributes', (s) => Object.entries(s.attributes || {}).map(([k, v]) => `${k}=${textOfAttribute(v)}`).join('; ')),
    ];
  }
}

const textOfAttribute = (v) => (typeof v === 'string' ? v : JSON.stringify(v));
const spanWords = (span) => [span.name, span.d === null ? 'open at the end' : duration(span.d), ...(span.status && span.status !== 'ok' ? [span.status] : []),
  `from ${clock(view.start + span.t, 1)}`];

function spansNote(data) {
  const words = ['Click a span to select it and shade it in all charts (Escape clears it).'];
  if (data.spans_left_out) words.push(`${number(data.spans_left_out)} shorter spans are not in this page.`);
  return words.join(' ');
}

function hashOf(text) {
  let hash = 5381;
  for (let i = 0; i < text.length; i++) hash = (hash * 33 + text.charCodeAt(i)) >>> 0;
  return hash;
}

/* Marks as a table: their lines are in every chart. */
function marksCard(data) {
  const columns = [
    textColumn('mark', (m) => m.tag), textColumn('time', (m) => clock(view.start + m.t, 1)),
    { name: 'since start', unit: 's', of: (m) => m.t / 1000, show: (v) => elapsed(v * 1000, 1) },
    textColumn('from', (m) => m.source), textColumn('process', (m) => m.process),
    textColumn('in the charts', (m) => button('Go to', { 'aria-label': `Go to mark ${m.tag}` }, () => {
      const width = Math.min(view.to - view.from, view.total / 5);
      setRange(m.t - width / 2, m.t + width / 2);
      setCursor(m.t);
    })),
  ];
  const note = data.marks_left_out ? `${number(data.marks_left_out)} more marks are not in this page.` : null;
  return h('div', { class: 'card wide', id: 'marks-table' }, h('h3', {}, 'Marks'), smallPrint(note),
    tableOf('Marks', columns, data.marks));
}

/* Plot: a card with a canvas over the shared time axis, its pointer, wheel and keys. SeriesChart: a panel of the data in one.
 * A plot is drawn when it comes into sight, not before. */

const plotsInSight = new IntersectionObserver((entries) => {
  for (const entry of entries) entry.target.plot.setInSight(entry.isIntersecting);
}, { rootMargin: '300px 0px' });
const plotSizes = new ResizeObserver((entries) => { for (const entry of entries) entry.target.plot.changed(); });

class Plot {
  /* options: id, title, unit, note, height, wide, compact, level (of the heading), help */
  constructor(data, options) {
    this.data = data;
    this.options = { height: 190, level: 3, ...options };
    this.is_stale = true;
    this.is_in_sight = false;
    this.build();
    view.plots.push(this);
  }

  build() {
    const { title, unit, note, level, wide, compact } = this.options;
    this.canvas = h('canvas', {
      tabindex: 0, role: 'application', 'aria-roledescription': 'chart over time', 'aria-label': title, 'aria-describedby': 'chart-help', class: 'canvas',
    });
    this.cross = h('div', { class: 'cross' });
    this.tag = h('div', { class: 'tag' });
    this.brush = h('div', { class: 'brush' });
    this.stage = h('div', { class: 'stage', css: { height: `${this.options.height}px` } }, this.canvas, this.brush, this.cross, this.tag);
    this.legend = h('div', { class: 'legend' });
    this.tools = h('div', { class: 'tools' });
    this.unit = h('span', { class: 'unit' }, unit || '');
    this.card = h('figure', { class: `card plot${wide ? ' wide' : ''}${compact ? ' compact' : ''}`, id: this.options.id || null },
      h('figcaption', {}, h(`h${level}`, {}, title), this.unit, this.tools),
      smallPrint(note), this.legend, this.stage);
    this.twin = new Twin(this);
    this.stage.plot = this;
    this.listen();
    plotsInSight.observe(this.stage);
    plotSizes.observe(this.stage);
  }

  /* Call when the card leaves the page. */
  end() {
    view.plots.splice(view.plots.indexOf(this), 1);
    plotsInSight.unobserve(this.stage);
    plotSizes.unobserve(this.stage);
  }

  setInSight(is_in_sight) {
    this.is_in_sight = is_in_sight;
    if (is_in_sight && this.is_stale) this.draw();
    this.cursorMoved();
  }

  changed() {
    this.is_stale = true;
    if (this.is_in_sight) this.draw();
    this.cursorMoved();
    this.twin.changed();
  }

  /* The part of the canvas that the axes leave. */
  boxOf(width, height) {
    const left = this.options.compact ? 38 : 52;
    const right = 12;
    return { left, right, top: 6, width: Math.max(10, width - left - right), height: Math.max(10, height - 6 - 24) };
  }

  draw(ratio = devicePixelRatio || 1, width = this.stage.clientWidth, height = this.stage.clientHeight) {
    if (!width || !height) return;
    this.is_stale = false;
    const c = beginCanvas(this.canvas, width, height, ratio);
    this.box = this.boxOf(width, height);
    this.paint(c, this.box);
  }

  clipped(c, box, f) {
    c.save();
    c.beginPath();
    c.rect(box.left, box.top - 2, box.width, box.height + 3);
    c.clip();
    f();
    c.restore();
  }

  cursorMoved() {
    if (!this.is_in_sight || !this.box) return;
    const t = view.cursor;
    const is_shown = t !== null && t >= view.from && t <= view.to;
    this.cross.classList.toggle('on', is_shown);
    if (is_shown) {
      this.cross.style.transform = `translateX(${Math.round(xOf(this.box, t))}px)`;
      this.cross.style.height = `${this.box.height}px`;
    }
    this.tag.classList.toggle('on', is_shown && Boolean(this.is_pointed));
    if (is_shown && this.is_pointed) this.placeTag(this.tagText(t), xOf(this.box, t));
    this.showValues(is_shown ? t : null);
  }

  placeTag(text, x) {
    this.tag.replaceChildren(...[text].flat().map((row) => h('div', {}, row)));
    const width = this.tag.offsetWidth;
    const left = x + 12 + width > this.stage.clientWidth ? Math.max(0, x - width - 12) : x + 12;
    const top = this.stage.clientHeight > 260 ? this.pointer.y + 14 : this.options.compact ? 0 : 8;
    this.tag.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  /* The moment, and what lies there: marks within some pixels, a gap. */
  tagText(t) {
    const near = ((view.to - view.from) / this.box.width) * 5;
    const rows = [momentText(t)];
    for (const mark of this.data.marks.filter((m) => Math.abs(m.t - t) <= near).slice(0, 4)) rows.push(`mark ${mark.tag}`);
    for (const gap of this.data.gaps) if (gap.from <= t && t <= gap.to) rows.push(gap.reason);
    return rows;
  }

  /* Subclasses: paint(c, box), showValues(t or null), words(t) for screen readers, columns() and rows for the table. */
  showValues() {}
  words(t) { return momentText(t); }

  listen() {
    setAttributes(this.stage, {
      onpointermove: (event) => this.moved(event), onpointerdown: (event) => this.pressed(event), onpointerup: (event) => this.released(event),
      onpointercancel: () => this.dropped(), ondblclick: resetRange, onwheel: (event) => this.wheeled(event),
      onpointerleave: () => {
        this.is_pointed = false;
        if (!this.drag) setCursor(null);
      },
    });
    setAttributes(this.canvas, { onkeydown: (event) => this.pressedKey(event), onblur: () => { if (!this.is_pointed) setCursor(null); } });
    this.fingers = new Map();
  }

  timeOf(event) {
    const x = event.clientX - this.stage.getBoundingClientRect().left;
    return Math.min(view.to, Math.max(view.from, tOf(this.box, x)));
  }

  pressed(event) {
    if (!this.box || (event.pointerType === 'mouse' && event.button !== 0)) return;
    this.fingers.set(event.pointerId, event.clientX);
    if (event.pointerType !== 'mouse') {
      this.drag = this.fingers.size === 2 ? { kind: 'pinch', ...this.pinch() } : null;
      this.moved(event);
      return;
    }
    const y = event.clientY - this.stage.getBoundingClientRect().top;
    const is_pan = event.shiftKey || y > this.box.top + this.box.height;
    this.drag = { kind: is_pan ? 'pan' : 'zoom', t: this.timeOf(event), x: event.clientX, from: view.from, to: view.to };
    this.stage.setPointerCapture(event.pointerId);
  }

  /* Both fingers: the moments under them. */
  pinch() {
    const [a, b] = [...this.fingers.values()].sort((p, q) => p - q);
    const left = this.stage.getBoundingClientRect().left;
    return { a: tOf(this.box, a - left), b: tOf(this.box, Math.max(b, a + 10) - left) };
  }

  moved(event) {
    if (!this.box) return;
    this.is_pointed = true;
    this.pointer = { x: event.clientX - this.stage.getBoundingClientRect().left, y: event.clientY - this.stage.getBoundingClientRect().top };
    if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, event.clientX);
    const drag = this.drag;
    if (drag?.kind === 'pan') {
      const by = ((drag.x - event.clientX) / this.box.width) * (drag.to - drag.from);
      const start = Math.min(view.total - (drag.to - drag.from), Math.max(0, drag.from + by));
      setRange(start, start + drag.to - drag.from);
      return;
    }
    if (drag?.kind === 'pinch' && this.fingers.size === 2) {
      const now = this.pinch();
      const factor = (drag.b - drag.a) / (now.b - now.a);
      const from = drag.a - (now.a - view.from) * factor;
      setRange(from, from + (view.to - view.from) * factor);
      return;
    }
    setCursor(this.timeOf(event));
    if (drag?.kind === 'zoom') this.showBrush(drag.t, this.timeOf(event));
  }

  showBrush(a, b) {
    const [x0, x1] = [xOf(this.box, Math.min(a, b)), xOf(this.box, Math.max(a, b))];
    this.brush.classList.toggle('on', x1 - x0 > 3);
    this.brush.style.transform = `translateX(${x0}px)`;
    this.brush.style.width = `${x1 - x0}px`;
    this.brush.style.height = `${this.box.height}px`;
  }

  released(event) {
    const drag = this.drag;
    this.dropped(event);
    if (!drag || drag.kind !== 'zoom') return;
    const t = this.timeOf(event);
    if (Math.abs(event.clientX - drag.x) > 5) {
      setRange(Math.min(t, drag.t), Math.max(t, drag.t));
      say(`Shows ${rangeText()}`);
    } else this.clicked(event);
  }

  dropped(event) {
    if (event) this.fingers.delete(event.pointerId);
    else this.fingers.clear();
    this.drag = null;
    this.brush.classList.remove('on');
  }

  clicked() {}

  wheeled(event) {
    if (!this.box) return;
    if (event.ctrlKey || event.metaKey || event.altKey) {
      event.preventDefault();
      zoomBy(1.0015 ** Math.max(-400, Math.min(400, event.deltaY * (event.deltaMode ? 30 : event.ctrlKey ? 2 : 1))), this.timeOf(event));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      panBy(((event.deltaX || event.deltaY) / this.box.width) * (view.to - view.from));
    }
  }

  pressedKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.doKey(event.key, event.shiftKey)) event.preventDefault();
  }

  /* true: the chart used the key */
  doKey(key, is_fast) {
    const move = Math.max(view.step, (view.to - view.from) / this.boxWidth()) * (is_fast ? 10 : 1);
    const at = view.cursor ?? (view.from + view.to) / 2;
    const keys = {
      ArrowLeft: () => this.keyCursor(at - move), ArrowRight: () => this.keyCursor(at + move), Home: () => this.keyCursor(view.from), End: () => this.keyCursor(view.to),
      Escape: () => this.escape(), t: () => this.twin.toggle(), T: () => this.twin.toggle(),
    };
    if (!keys[key]) return doRangeKey(key);
    keys[key]();
    return true;
  }

  /* Cancels one thing: the drag, the band, the zoom. */
  escape() {
    if (this.drag) this.dropped();
    else if (view.band) setBand(null);
    else doRangeKey('0');
  }

  boxWidth() { return this.box ? this.box.width : 600; }

  keyCursor(t) {
    setCursor(t);
    if (view.cursor < view.from) panBy(view.cursor - view.from);
    if (view.cursor > view.to) panBy(view.cursor - view.to);
    say(this.words(view.cursor));
  }
}

const noteOf = (panel) => [panel.note, panel.kind === 'stack' && panel.series.some((series) => series.is_band) && 'Stacked by the means of the steps', panel.left_out && `${number(panel.left_out)} more are not in this page`].filter(Boolean).join('. ');

class SeriesChart extends Plot {
  /* also in options: panel; axis, an object shared by charts that must have the same scale */
  constructor(data, options) {
    super(data, { title: options.panel.title, note: noteOf(options.panel), ...options });
    this.panel = options.panel;
    this.keys = this.panel.series.map((series) => this.makeKey(series));
    this.when = h('span', { class: 'legend-when' });
    if (this.keys.length > 1) this.legend.classList.add('many');
    append(this.legend, [this.when, this.keys.map((key) => key.button)]);
    if (this.options.compact) append(this.legend, this.panel.limits.filter((limit) => limit.value !== null).map((limit) => h('span', { class: 'note' }, limitText(limit, this.panel.unit))));
    this.options.axis?.charts.push(this);
    this.showValues(null);
  }

  makeKey(series) {
    const value = h('span', { class: 'value' });
    const key = { series, value };
    key.button = toggle('', true, (is_on) => {
      series.is_hidden = !is_on;
      this.changed();
    }, { class: `key${isEstimated(series) ? ' estimated' : ''}`, css: { '--color': `var(--c${series.color % 8})` }, title: this.helpOf(series) });
    append(key.button, [h('span', { class: 'swatch' }), h('span', { class: 'name' }, series.name),
      isEstimated(series) ? h('span', { class: 'badge' }, 'estimated') : null, value]);
    return key;
  }

  helpOf(series) {
    const parts = [series.help, series.metric && series.table_name ? `${series.table_name}.${series.metric}` : null,
      series.quality, series.is_rate ? 'rate of a counter' : null];
    return parts.filter(Boolean).join(' · ');
  }

  shown() { return this.panel.series.filter((series) => !series.is_hidden); }

  /* Lowest and highest that the range shows. */
  extent() {
    let low = 0, high = -Infinity;
    if (this.panel.kind === 'stack') high = stackHigh(this.shown());
    else {
      for (const series of this.shown()) {
        const found = summary(series, view.from, view.to, view.step);
        if (found) [low, high] = [Math.min(low, found.low), Math.max(high, found.high)];
      }
    }
    return { low, high };
  }

  range(box) {
    let { low, high } = this.extent();
    for (const other of this.options.axis?.charts || []) high = Math.max(high, other.extent().high);
    for (const limit of this.panel.limits)
      if (limit.value !== null && limit.value <= 3 * high && limit.value * 1.1 > high) high = limit.value * 1.1;
    const max = this.panel.max ?? null;
    if (!Number.isFinite(high)) high = max ?? 1;
    const lines = Math.max(2, Math.round(box.height / 38));
    if (max !== null && high <= max * 1.1) return valueAxis(low, max, this.panel.unit, lines, Math.max(high, max));
    return valueAxis(low, high, this.panel.unit, lines);
  }

  paint(c, box) {
    const range = this.range(box);
    this.scale = range.scale;
    this.unit.textContent = range.scale.name;
    drawBand(c, box);
    drawValueAxis(c, box, range);
    drawTimeAxis(c, box);
    this.clipped(c, box, () => {
      drawGaps(c, box, this.data.gaps);
      if (this.panel.kind === 'stack') drawStack(c, box, range, this.shown());
      else for (const series of this.shown()) drawSeries(c, box, range, series, this.panel.kind);
      drawMarks(c, box, this.data.marks, !this.options.compact);
      drawLimits(c, box, range, this.panel.limits, this.panel.unit, !this.options.compact);
    });
    if (!this.panel.series.some((series) => summary(series, view.from, view.to, view.step))) this.paintNothing(c, box);
  }

  paintNothing(c, box) {
    textStyle(c, 'center', 'middle');
    c.fillStyle = palette.soft;
    outlined(c, 'no value in this range', box.left + box.width / 2, box.top + box.height / 2);
  }

  /* At the cursor the value; without one the mean of what is shown. */
  showValues(t) {
    if (!this.when) return;
    this.when.textContent = t === null ? 'mean' : clock(view.start + t, Math.min(view.step, 1000));
    for (const key of this.keys) key.value.textContent = this.textOf(key.series, t);
  }

  textOf(series, t) {
    const unit = this.panel.unit;
    if (t === null) {
      const found = summary(series, view.from, view.to, view.step);
      return found ? show(found.mean, unit) : '–';
    }
    const at = bucketAt(series, t, view.step);
    return at < 0 ? '–' : series.is_band ? showRange(series.low[at], series.high[at], unit) : show(series.middle[at], unit);
  }

  words(t) {
    return `${momentText(t)}: ${this.shown().map((series) => `${series.name} ${this.textOf(series, t)}`).join(', ')}`;
  }

  tagText(t) {
    const rows = super.tagText(t);
    if (!this.options.compact && this.shown().length <= 10)
      for (const series of this.shown()) rows.push(`${series.name} ${this.textOf(series, t)}`);
    else for (const series of this.shown().slice(0, 3)) rows.push(this.textOf(series, t));
    return rows;
  }

  columns() {
    return this.panel.series.flatMap((series) => {
      const unit = this.panel.unit;
      const name = `${series.name}${isEstimated(series) ? ' (estimated)' : ''}`;
      if (!series.is_band) return [{ name, unit, of: (i) => series.middle[i] ?? null }];
      return [{ name: `${name} min`, unit, of: (i) => series.low[i] ?? null },
        { name: `${name} mean`, unit, of: (i) => series.middle[i] ?? null },
        { name: `${name} max`, unit, of: (i) => series.high[i] ?? null }];
    });
  }

  /* Buckets of the range: what the table shows. */
  tableRows() {
    const first = Math.max(0, Math.floor(view.from / view.step));
    const end = Math.min(this.data.n, Math.ceil(view.to / view.step));
    return Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);
  }
}

function stackHigh(all) {
  const first = Math.max(0, Math.floor(view.from / view.step));
  const end = Math.ceil(view.to / view.step);
  let high = -Infinity;
  for (let i = first; i < end; i++) {
    let sum = 0, n = 0;
    for (const series of all) if (typeof series.middle[i] === 'number') [sum, n] = [sum + series.middle[i], n + 1];
    if (n) high = Math.max(high, sum);
  }
  return high;
}

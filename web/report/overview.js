/* The strip that stays visible: the whole recording with the shown range, marks and gaps, and buttons for all charts. */

class Overview {
  constructor(data) {
    this.data = data;
    this.canvas = h('canvas', {
      class: 'canvas', tabindex: 0, role: 'slider', 'aria-label': 'Shown range of the recording. Arrow keys move it, plus and minus zoom, 0 shows all.',
      'aria-valuemin': 0, 'aria-valuemax': Math.round(data.total_ms / 1000),
    });
    this.stage = h('div', { class: 'strip' }, this.canvas);
    this.text = h('p', { class: 'range' });
    this.reset = button('Show all', {}, resetRange);
    this.node = h('div', { class: 'timebar', role: 'group', 'aria-label': 'Time range of all charts' }, this.text, this.stage,
      h('div', { class: 'buttons' },
        button('−', { 'aria-label': 'Zoom out', title: 'Zoom out (−)' }, () => zoomBy(2)),
        button('+', { 'aria-label': 'Zoom in', title: 'Zoom in (+)' }, () => zoomBy(0.5)), this.reset,
        toggle('Elapsed', view.is_elapsed, (is_on) => {
          view.is_elapsed = is_on;
          writeHash();
          rangeChanged();
        }, { title: 'Axes show the time since the start instead of the time of day' })));
    this.series = overviewSeries(data);
    view.onrange.push(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.stage);
    this.listen();
  }

  listen() {
    const end = () => { this.drag = null; };
    setAttributes(this.stage, {
      onpointerdown: (event) => this.pressed(event), onpointermove: (event) => this.moved(event), onpointerup: end, onpointercancel: end, ondblclick: resetRange,
    });
    this.canvas.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const moves = { ArrowLeft: -0.1, ArrowRight: 0.1, Home: -Infinity, End: Infinity };
      if (moves[event.key]) panBy(moves[event.key] * (view.to - view.from));
      else if (!doRangeKey(event.key === 'Escape' ? '0' : event.key)) return;
      event.preventDefault();
    });
  }

  timeOf(event) {
    const box = this.stage.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * view.total;
  }

  /* On an edge of the range: moves the edge; within it: the range; elsewhere: a new one. */
  pressed(event) {
    if (event.button) return;
    this.stage.setPointerCapture(event.pointerId);
    const t = this.timeOf(event);
    const near = (8 / this.stage.clientWidth) * view.total;
    let kind = 'new';
    if (isZoomed() && Math.abs(t - view.from) < near) kind = 'from';
    else if (isZoomed() && Math.abs(t - view.to) < near) kind = 'to';
    else if (isZoomed() && t > view.from && t < view.to) kind = 'pan';
    this.drag = { kind, t, from: view.from, to: view.to };
  }

  moved(event) {
    const drag = this.drag;
    if (!drag) return;
    const t = this.timeOf(event);
    if (drag.kind === 'pan') {
      const width = drag.to - drag.from;
      const from = Math.min(view.total - width, Math.max(0, drag.from + t - drag.t));
      setRange(from, from + width);
    } else if (drag.kind === 'from') setRange(Math.min(t, drag.to - view.smallest), drag.to);
    else if (drag.kind === 'to') setRange(drag.from, Math.max(t, drag.from + view.smallest));
    else if (Math.abs(t - drag.t) > view.total / 200) setRange(Math.min(t, drag.t), Math.max(t, drag.t));
  }

  draw() {
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    if (!width) return;
    const c = beginCanvas(this.canvas, width, height, devicePixelRatio || 1);
    const whole = { from: view.from, to: view.to };
    const box = { left: 0, right: 0, top: 2, width, height: height - 4 };
    [view.from, view.to] = [0, view.total];
    drawGaps(c, box, this.data.gaps.map((gap) => ({ ...gap, reason: '' })));
    for (const series of this.series) {
      const high = summary(series, 0, view.total, view.step)?.high || 1;
      drawSeries(c, box, { low: 0, high }, series, 'area');
    }
    drawMarks(c, box, this.data.marks, false);
    [view.from, view.to] = [whole.from, whole.to];
    const [x0, x1] = [(view.from / view.total) * width, (view.to / view.total) * width];
    c.globalAlpha = 0.6;
    c.fillStyle = palette.card;
    c.fillRect(0, 0, x0, height);
    c.fillRect(x1, 0, width - x1, height);
    c.globalAlpha = 1;
    c.strokeStyle = palette.accent;
    c.lineWidth = 1.5;
    c.strokeRect(x0 + 0.75, 0.75, Math.max(2, x1 - x0 - 1.5), height - 1.5);
    if (isZoomed()) {
      c.fillStyle = palette.accent;
      for (const x of [x0, x1]) c.fillRect(Math.min(width - 4, Math.max(0, x - 2)), height / 2 - 8, 4, 16);
    }
    this.text.textContent = `${rangeText()}${isZoomed() ? '' : ' (all)'}`;
    this.canvas.setAttribute('aria-valuenow', String(Math.round(view.from / 1000)));
    this.canvas.setAttribute('aria-valuetext', rangeText());
    this.reset.disabled = !isZoomed();
  }
}

/* What the strip shows as its shape: the CPU of the target, else the first panel. */
function overviewSeries(data) {
  const panel = data.panels.find((p) => p.group === 'tree' && p.series.length) || data.panels.find((p) => p.series.length);
  return panel ? [{ ...panel.series[0], color: 0 }] : [];
}

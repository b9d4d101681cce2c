/* Load of each core over time: a row a core, brighter for more. */

class HeatMap extends Plot {
  constructor(data) {
    const rows = data.cores.names.length;
    super(data, { id: 'cores', title: 'Load of each core', unit: '%', height: Math.max(70, Math.min(Math.max(rows * 16, rows * 4), 460)) + 30, wide: true,
      note: data.cores.note });
    this.step = data.cores.step_ms || data.step_ms;
    this.row = null;
    this.legend.append(this.scaleNode());
    this.value = h('span', { class: 'heat-value' });
    this.legend.append(this.value);
  }

  scaleNode() {
    const swatches = palette.heat.map((_, i) => h('span', { class: 'heat', css: { background: `var(--heat${i})` } }));
    return h('span', { class: 'heat-scale' }, '0 %', swatches, '100 %', h('span', { class: 'heat none' }), 'not measured');
  }

  paint(c, box) {
    const { names, v } = this.data.cores;
    const width = Math.max(1, Math.round(box.width));
    const image = new ImageData(width, names.length);
    for (let row = 0; row < names.length; row++) this.paintRow(image, row, v[row], width);
    const small = document.createElement('canvas');
    [small.width, small.height] = [width, names.length];
    small.getContext('2d').putImageData(image, 0, 0);
    drawGaps(c, box, [{ from: 0, to: view.total, reason: '' }]); /* what is not covered was not measured */
    c.imageSmoothingEnabled = false;
    c.drawImage(small, box.left, box.top, box.width, box.height);
    this.paintNames(c, box, names);
    drawTimeAxis(c, { ...box, top: box.top + box.height, height: 0 });
    this.clipped(c, box, () => drawMarks(c, box, this.data.marks, false));
  }

  /* A pixel shows the mean of its buckets. */
  paintRow(image, row, values, width) {
    const ms = (view.to - view.from) / width;
    for (let x = 0; x < width; x++) {
      const first = Math.floor((view.from + x * ms) / this.step);
      const end = Math.max(first + 1, Math.floor((view.from + (x + 1) * ms) / this.step));
      let sum = 0, n = 0;
      for (let i = first; i < end; i++) if (typeof values[i] === 'number') [sum, n] = [sum + values[i], n + 1];
      if (!n) continue;
      image.data.set([...heatColor(sum / n / 100), 255], (row * width + x) * 4);
    }
  }

  paintNames(c, box, names) {
    const size = box.height / names.length;
    const every = Math.max(1, Math.ceil(12 / size));
    textStyle(c, 'right', 'middle');
    names.forEach((name, i) => {
      if (i % every) return;
      c.fillStyle = i === this.row ? palette.text : palette.soft;
      c.fillText(shorten(c, name, box.left - 8), box.left - 6, box.top + (i + 0.5) * size);
    });
    if (this.row === null) return;
    c.strokeStyle = palette.text;
    c.lineWidth = 1.5;
    c.strokeRect(box.left, box.top + this.row * size, box.width, size);
  }

  rowAt(y) {
    const n = this.data.cores.names.length;
    return Math.min(n - 1, Math.max(0, Math.floor(((y - this.box.top) / this.box.height) * n)));
  }

  textOf(row, t) {
    const v = this.data.cores.v[row]?.[Math.floor(t / this.step)];
    return `${this.data.cores.names[row]} ${typeof v === 'number' ? show(v, '%') : 'not measured'}`;
  }

  tagText(t) { return [...super.tagText(t), this.textOf(this.rowAt(this.pointer?.y ?? 0), t)]; }
  words(t) { return this.row === null ? `${momentText(t)}: ${this.spread(t)}` : `${momentText(t)}: ${this.textOf(this.row, t)}`; }

  /* 'busiest cpu3 98 %, idlest cpu0 4 %' */
  spread(t) {
    const i = Math.floor(t / this.step);
    const found = this.data.cores.v.map((values, row) => ({ row, v: values[i] })).filter((cell) => typeof cell.v === 'number').sort((a, b) => b.v - a.v);
    if (!found.length) return 'not measured';
    return `busiest ${this.textOf(found[0].row, t)}, idlest ${this.textOf(found.at(-1).row, t)}`;
  }

  showValues(t) { if (this.value) this.value.textContent = t === null ? '' : this.spread(t); }

  doKey(key, is_fast) {
    const n = this.data.cores.names.length;
    if (key !== 'ArrowUp' && key !== 'ArrowDown') return super.doKey(key, is_fast);
    this.row = this.row === null ? 0 : Math.min(n - 1, Math.max(0, this.row + (key === 'ArrowDown' ? 1 : -1)));
    this.draw();
    say(this.words(view.cursor ?? (view.from + view.to) / 2));
    return true;
  }

  has_own_time = true;
  tableRows() { return this.data.cores.names.map((_, i) => i); }
  columns() {
    const of = (key) => (row) => summary({ middle: this.data.cores.v[row], low: this.data.cores.v[row], high: this.data.cores.v[row] }, view.from, view.to, this.step)?.[key] ?? null;
    return [textColumn('core', (row) => this.data.cores.names[row]), { name: 'mean', unit: '%', of: of('mean') },
      { name: 'min', unit: '%', of: of('low') }, { name: 'max', unit: '%', of: of('high') }];
  }
}

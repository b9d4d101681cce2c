/* The strip of time: samples in each bucket, what matches the search among them; drag to look at a part of the time alone. */

class Strip {
  constructor() {
    this.canvas = h('canvas', {});
    this.box = h('div', { class: 'strip', id: 'strip', tabindex: 0, role: 'application', 'aria-roledescription': 'selector of time',
      'aria-label': 'Samples over time: arrows move the selected time, with shift its end, Escape selects all' }, this.canvas);
    this.text = h('span', { class: 'strip-text' });
    this.all = button('All', { title: 'Show the whole time', hidden: true }, () => change({ times: null }, true));
    this.node = h('section', { class: 'time', 'aria-label': 'Time' }, this.box, h('p', {}, this.text, this.all));
    this.sums = new Float64Array(facts.buckets);
    const { start, samples } = model.moments;
    for (let b = 0; b < facts.buckets; b++) for (let i = start[b]; i < start[b + 1]; i++) this.sums[b] += samples[i];
    this.addHands();
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  bucketAt(clientX) {
    const box = this.canvas.getBoundingClientRect();
    return Math.min(facts.buckets, Math.max(0, ((clientX - box.left) / box.width) * facts.buckets));
  }

  addHands() {
    let begin = null;
    const times = (a, b) => [Math.floor(Math.min(a, b)), Math.max(Math.floor(Math.min(a, b)) + 1, Math.ceil(Math.max(a, b)))].map((v) => Math.min(facts.buckets, v));
    this.box.addEventListener('pointerdown', (event) => {
      if (event.button) return;
      begin = event.clientX;
      this.box.setPointerCapture(event.pointerId);
    });
    this.box.addEventListener('pointermove', (event) => {
      if (begin === null) { this.hover = Math.min(facts.buckets - 1, Math.floor(this.bucketAt(event.clientX))); this.describe(); return; }
      if (Math.abs(event.clientX - begin) < 3) return;
      this.draft = times(this.bucketAt(begin), this.bucketAt(event.clientX));
      this.draw();
      this.describe();
    });
    this.box.addEventListener('pointerup', () => {
      if (begin === null) return;
      begin = null;
      this.hover = null;
      const { draft } = this;
      this.draft = null;
      this.select(draft); /* a press without a drag selects all */
    });
    this.box.addEventListener('pointercancel', () => { begin = null; this.draft = null; this.draw(); });
    this.box.addEventListener('pointerleave', () => { this.hover = null; this.describe(); });
    this.box.addEventListener('keydown', (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === 'Escape') this.select(null);
      else if (step) this.move(step, event.shiftKey);
      else return;
      event.preventDefault();
    });
  }

  move(step, isEnd) {
    const n = facts.buckets, [from, to] = view.times ?? [0, Math.max(1, Math.round(n / 10)) - (step > 0 ? step : 0)];
    if (isEnd) this.select([from, Math.min(n, Math.max(from + 1, to + step))]);
    else if (from + step >= 0 && to + step <= n) this.select([from + step, to + step].map((v) => Math.max(0, v)));
    say(this.words(...(view.times ?? [0, n])));
  }

  select(times) {
    const wanted = times && (times[0] > 0 || times[1] < facts.buckets) ? times : null;
    if (String(wanted) === String(view.times)) { this.draw(); return; }
    /* Nodes are the same for all times: the zoom stays, unless the node is empty. */
    change({ times: wanted, ...(view.zoom ? keptZoom(wanted) : {}) }, true);
  }

  words(from, to, what = ' selected') {
    const each = facts.seconds / facts.buckets, sum = this.sums.slice(from, to).reduce((a, b) => a + b, 0);
    return `${show(from * each, 's')} to ${show(to * each, 's')} of ${show(facts.seconds, 's')}${what}, ${samplesText(sum)}`;
  }

  describe() {
    const [from, to] = this.draft ?? view.times ?? [0, facts.buckets];
    const isHovered = this.hover !== null && this.hover !== undefined && !this.draft;
    this.text.textContent = isHovered ? this.words(this.hover, this.hover + 1, '') : `${this.words(from, to)}${this.draft || view.times ? '' : '. Drag to select a part'}`;
    this.all.hidden = !view.times;
  }

  /* Samples of a bucket that match the search, each once. */
  matches() {
    if (!search.matched) return null;
    if (this.matchesOf === search.query) return this.matchSums;
    const { tree, moments } = model, within = new Uint8Array(tree.n);
    for (let i = 1; i < tree.n; i++) within[i] = within[tree.parent[i]] || search.matched[tree.fn[i]];
    this.matchesOf = search.query;
    this.matchSums = new Float64Array(facts.buckets);
    for (let b = 0; b < facts.buckets; b++)
      for (let i = moments.start[b]; i < moments.start[b + 1]; i++) if (within[moments.node[i]]) this.matchSums[b] += moments.samples[i];
    return this.matchSums;
  }

  draw() {
    const { canvas, box } = this, width = box.clientWidth, height = box.clientHeight;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1, context = canvas.getContext('2d');
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const n = facts.buckets, most = Math.max(1, ...this.sums), each = width / n, matches = this.matches();
    const bars = (sums, color) => {
      context.fillStyle = color;
      for (let b = 0; b < n; b++) {
        const tall = (sums[b] / most) * (height - 4);
        const x0 = Math.floor(b * each), x1 = Math.max(x0 + 1, Math.floor((b + 1) * each) - (each > 3 ? 1 : 0));
        if (sums[b]) context.fillRect(x0, height - tall, x1 - x0, tall);
      }
    };
    bars(this.sums, palette.bar);
    if (matches) bars(matches, palette.match);
    const times = this.draft ?? view.times;
    if (!times) return;
    context.fillStyle = palette.veil;
    context.fillRect(0, 0, times[0] * each, height);
    context.fillRect(times[1] * each, 0, width - times[1] * each, height);
    context.fillStyle = palette.accent;
    for (const at of times) context.fillRect(Math.min(width - 2, Math.max(0, at * each - 1)), 0, 2, height);
  }

  update() { this.draw(); this.describe(); }
}

/* The range of the zoomed frame in the tree of another time. */
function keptZoom(times) {
  const whole = { pane: 0, zoom: 0, from: 0, to: 1 };
  if (view.page !== 'graph' || view.recursion || view.isReversed) return whole;
  const some = times ? treeOfTime(model.tree, model.moments, ...times) : model.tree;
  const tree = layOut(some, measureOf(some, 'total'));
  const value = tree.value[view.zoom];
  return value ? { from: tree.x[view.zoom] / tree.value[0], to: (tree.x[view.zoom] + value) / tree.value[0] } : whole;
}

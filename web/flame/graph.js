/* The graph: a canvas as large as the window part that it is seen through (a tall one would pass the browsers' bound), in a box that
   scrolls as far as there are rows. */

class Graph {
  constructor() {
    this.canvas = h('canvas', { 'aria-hidden': 'true' });
    this.mark = h('div', { class: 'mark' });
    this.filler = h('div', { class: 'filler' }, this.canvas, this.mark);
    this.stage = h('div', { class: 'stage', id: 'graph', tabindex: 0, role: 'application', 'aria-roledescription': 'flame graph', 'aria-describedby': 'keys' }, this.filler);
    this.tip = h('div', { class: 'tip', 'aria-hidden': 'true' });
    this.context = this.canvas.getContext('2d', { alpha: true });
    this.panes = [];
    this.shown = [[0, 1], [0, 1]];
    this.focus = null;
    this.redraw = coalesce(() => this.draw());
    this.stage.addEventListener('scroll', () => { this.hideTip(); this.redraw(); });
    new ResizeObserver(() => { this.known = null; this.draw(); }).observe(this.stage);
    new ResizeObserver(coalesce(() => { this.isResized = true; if (this.panes.length && view.page !== 'table') render(); })).observe(at.page);
    addPointers(this);
    this.stage.addEventListener('keydown', (event) => { if (graphKey(this, event)) event.preventDefault(); });
    this.stage.addEventListener('focus', () => { if (!this.focus) this.setFocus(this.panes.length - 1, view.zoom); });
  }

  /* Call after the state changed. */
  update() {
    const panes = shownPanes();
    if (panes !== this.panes) {
      this.panes = panes;
      this.focus = null;
      this.hideTip();
      if (panes.length === 2) {
        const above = panes[0].tree.height;
        panes[0].rowOf = (depth) => above - depth;
        panes[1].rowOf = (depth) => above + depth;
        panes[0].firstRow = 1;
        this.rows = above + 1 + panes[1].tree.height;
      } else {
        this.rows = panes[0].tree.height + 1;
        panes[0].rowOf = view.isBelow ? (depth) => this.rows - 1 - depth : (depth) => depth;
      }
    }
    if (panes.length === 1) { panes[0].isUp = view.isBelow; panes[0].rowOf = view.isBelow ? (depth) => this.rows - 1 - depth : (depth) => depth; }
    if (view.pane >= panes.length) view.pane = 0;
    if (!(view.zoom < panes[view.pane].tree.n)) Object.assign(view, { zoom: 0, from: 0, to: 1 });
    const layout = [made.tree, view.isBelow].join();
    /* Reading sizes forces a layout: only when they may have changed. */
    if (this.layout !== layout || this.isResized) this.spare = this.fit();
    this.isResized = false;
    if (this.layout !== layout) {
      this.layout = layout;
      const root = panes.length === 2 ? panes[0].tree.height : view.isBelow ? this.rows - 1 : 0;
      this.stage.scrollTop = panes.length === 2 ? (root + 0.5) * ROW - this.stage.clientHeight / 2 : root * ROW;
    }
    this.moveTo();
  }

  /* As tall as its rows, which grow if there is room, within the window. Returns the free height. */
  fit() {
    const { page } = at, box = parts.graphBox;
    const whole = Math.max(160, page.clientHeight - (box.offsetTop - page.offsetTop) - parts.details.offsetHeight - 2);
    const room = Math.max(160, whole - at.tableHeight);
    ROW = Math.max(18, Math.min(24, Math.floor((room - 4) / this.rows)));
    this.filler.style.setProperty('height', `${this.rows * ROW}px`);
    this.stage.style.setProperty('height', `${Math.min(room, this.rows * ROW + 2)}px`);
    this.known = null;
    return whole - Math.min(room, this.rows * ROW);
  }

  rangesWanted() { return this.panes.map((_, p) => (p === view.pane || this.panes.length === 1 ? [view.from, view.to] : [0, 1])); }

  /* Moves to the range of the state; animated unless the reader prefers reduced motion. */
  moveTo() {
    const wanted = this.rangesWanted(), begin = this.shown.map((range) => [...range]), begun = performance.now();
    cancelAnimationFrame(this.motion);
    const isStill = matchMedia('(prefers-reduced-motion: reduce)').matches || !this.hasDrawn || model.tree.n > 300000;
    const step = (now) => {
      const share = isStill ? 1 : Math.min(1, Math.max(0, (now - begun) / 160)), eased = 1 - (1 - share) ** 3;
      this.shown = wanted.map((range, p) => range.map((v, k) => (share === 1 || !begin[p] ? v : begin[p][k] + (v - begin[p][k]) * eased)));
      this.draw();
      if (share < 1) this.motion = requestAnimationFrame(step);
    };
    step(begun);
  }

  draw() {
    const { stage, canvas, context } = this;
    const { width, height } = this.size();
    if (!width || !height || !this.panes.length) return;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
      canvas.style.setProperty('width', `${width}px`);
      canvas.style.setProperty('height', `${height}px`);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint(context, this.panes, this.shown, width, height, stage.scrollTop, this.focus);
    this.hasDrawn = true;
  }

  /* Of the canvas; known until the box changes. */
  size() {
    if (!this.known) this.known = { width: this.stage.clientWidth, height: this.stage.clientHeight };
    return this.known;
  }

  /* { pane, node } under a point of the stage, or null. */
  at(px, py) {
    const row = Math.floor((py + this.stage.scrollTop) / ROW), width = this.stage.clientWidth;
    for (let p = this.panes.length - 1; p >= 0; p--) {
      const { tree, rowOf } = this.panes[p];
      const depth = Math.abs(row - rowOf(0)), [from, to] = this.shown[p];
      if (rowOf(depth) !== row || depth > tree.height) continue;
      const at = (from + (px / width) * (to - from)) * tree.value[0];
      let node = 0;
      for (let d = 0; d < depth && node >= 0; d++) {
        let child = node + 1;
        while (child < tree.end[node] && !(at < tree.x[child] + tree.value[child])) child = tree.end[child];
        node = child < tree.end[node] && at >= tree.x[child] ? child : -1;
      }
      if (node >= 0) return { pane: p, node };
    }
    return null;
  }

  zoomTo(p, node, isStep = true) {
    const { tree } = this.panes[p], whole = tree.value[0] || 1;
    const value = tree.value[node];
    if (!value) return;
    this.setFocus(p, node, false);
    change({ pane: p, zoom: node, from: tree.x[node] / whole, to: node ? (tree.x[node] + value) / whole : 1 }, isStep);
    this.bringIntoSight(p, node, node ? 2 : 0);
    sayNode(this.panes[p], node, node ? 'Zoomed to ' : 'All: ');
  }

  resetZoom() {
    if (view.zoom || view.from !== 0 || view.to !== 1) this.zoomTo(view.pane, 0);
  }

  /* Around a share of what is in sight. */
  zoomBy(factor, share) {
    const width = view.to - view.from, next = Math.min(1, Math.max(1e-9, width * factor));
    this.setRange(view.from + (width - next) * share, next);
  }

  panBy(share) { this.setRange(view.from + share * (view.to - view.from), view.to - view.from); }

  setRange(from, width) {
    const begin = Math.min(1 - width, Math.max(0, from));
    const { tree } = this.panes[view.pane], whole = tree.value[0] || 1;
    /* The zoom is the innermost frame that still fills the width. */
    let zoom = 0;
    for (let child = 1; child < tree.end[zoom];) {
      if (tree.x[child] <= begin * whole * (1 + 1e-12) && tree.x[child] + tree.value[child] >= (begin + width) * whole * (1 - 1e-12) && width < 1) { zoom = child; child = zoom + 1; } else child = tree.end[child];
    }
    Object.assign(view, { from: begin, to: begin + width, zoom });
    this.shown[view.pane] = [view.from, view.to];
    this.hideTip();
    this.redraw();
    writeHash(false);
    renderStatus();
  }

  bringIntoSight(p, node, above = 0) {
    const { stage } = this, y = this.panes[p].rowOf(this.panes[p].tree.depth[node]) * ROW;
    const { height } = this.size(), margin = Math.min(above * ROW + 4, height / 3);
    if (this.rows * ROW <= height) return;
    if (y - margin < stage.scrollTop) stage.scrollTop = y - margin;
    else if (y + ROW + margin > stage.scrollTop + height) stage.scrollTop = y + ROW + margin - height;
  }

  setFocus(p, node, isSaid = true) {
    this.focus = { pane: p, node };
    renderDetails(this.panes[p], node);
    if (isSaid) { this.bringIntoSight(p, node); sayNode(this.panes[p], node); this.redraw(); }
  }

  /* The frame in focus must be wide enough to be seen. */
  seek(p, node) {
    const { tree } = this.panes[p], whole = tree.value[0] || 1;
    const width = (tree.value[node] / whole / (view.to - view.from)) * this.stage.clientWidth;
    const isOutside = tree.x[node] / whole < view.from - 1e-12 || (tree.x[node] + tree.value[node]) / whole > view.to + 1e-12 || p !== view.pane;
    if (width < 4 || isOutside) {
      let up = node;
      while (up && tree.value[tree.parent[up]] * 30 < tree.value[node] * this.stage.clientWidth) up = tree.parent[up];
      change({ pane: p, zoom: up, from: tree.x[up] / whole, to: up ? (tree.x[up] + tree.value[up]) / whole : 1 }, true);
    }
    this.setFocus(p, node);
  }

  showTip(found, x, y) {
    if (!found) { this.hideTip(); return; }
    const pane = this.panes[found.pane], { tree } = pane, fn = tree.fn[found.node];
    if (this.tipOf !== found.pane * 1e9 + found.node) {
      this.tipOf = found.pane * 1e9 + found.node;
      const name = nameOf(tree, found.node);
      this.tip.replaceChildren(h('p', { class: 'tip-name', dir: 'ltr' }, name.length > 400 ? `${name.slice(0, 400)}… (${number(name.length)} characters)` : name), fn >= 0 ? h('p', { class: 'tip-where' }, [model.functions.object[fn], whereOf(fn)].filter(Boolean).join(' · '), h('br'), kindText(fn)) : '',
        h('dl', {}, factsOf(tree, found.node, found.pane === view.pane ? view.zoom : 0).map(([label, text]) => [h('dt', {}, label), h('dd', {}, text)])));
    }
    this.showMark(found);
    const { style } = this.tip, box = this.tip.getBoundingClientRect();
    this.tip.classList.add('on');
    style.setProperty('left', `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`);
    style.setProperty('top', `${y + 18 + box.height > innerHeight - 4 ? Math.max(4, y - box.height - 12) : y + 18}px`);
  }

  /* Marks the frame under the pointer, without redrawing. */
  showMark({ pane: p, node }) {
    const { tree, rowOf } = this.panes[p], [from, to] = this.shown[p], { width } = this.size();
    const whole = tree.value[0] || 1, scale = width / ((to - from) * whole);
    const x0 = Math.max(0, (tree.x[node] - from * whole) * scale), x1 = Math.min(width, (tree.x[node] + tree.value[node] - from * whole) * scale);
    const { style } = this.mark;
    style.setProperty('transform', `translate(${x0}px, ${rowOf(tree.depth[node]) * ROW}px)`);
    style.setProperty('width', `${Math.max(2, x1 - x0 - (x1 - x0 > 3 ? 1 : 0))}px`);
    style.setProperty('height', `${ROW - 1}px`);
    this.mark.classList.add('on');
  }

  hideTip() { this.tip.classList.remove('on'); this.mark.classList.remove('on'); }
}

function sayNode(pane, i, before = '') {
  const { tree } = pane, all = sourceTree();
  say(`${before}${nameOf(tree, i).slice(0, 300)}: ${samplesText(tree.total[i])}, ${percent(tree.total[i], all.total[0])}; of itself ${percent(tree.self[i], all.total[0])}`);
}

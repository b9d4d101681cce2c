/* Draws a pane's frames on a canvas: only those in sight, a pixel's worth of narrower ones as one sliver. */

let ROW = 18; /* the height of a row: more where there is room */
const painted = { frames: 0, texts: 0, slivers: 0, ms: 0 };

/* Adjacent slivers of a row are joined up to a gap. */
class Slivers {
  constructor(rows) {
    this.from = new Int32Array(rows).fill(-1);
    this.to = new Int32Array(rows);
    this.runs = [];
  }

  add(row, x0, x1) {
    const from = Math.floor(x0), to = Math.max(from + 1, Math.ceil(x1));
    if (this.from[row] >= 0 && from <= this.to[row]) { if (to > this.to[row]) this.to[row] = to; return; }
    this.flush(row);
    this.from[row] = from;
    this.to[row] = to;
  }

  flush(row) {
    if (this.from[row] >= 0) { this.runs.push(row, this.from[row], this.to[row]); painted.slivers++; }
    this.from[row] = -1;
  }

  draw(context, color, yOf) {
    for (let row = 0; row < this.from.length; row++) this.flush(row);
    context.fillStyle = color;
    for (let k = 0; k < this.runs.length; k += 3) context.fillRect(this.runs[k + 1], yOf(this.runs[k]), this.runs[k + 2] - this.runs[k + 1], ROW - 1);
  }
}

/* Frames in sight: { byColor: [[x, y, width, ...], ...], frames: [node, x, width, row, ...], slivers, matches, veiled }. */
function collect(pane, width, rows, from, to) {
  const { tree, rowOf, firstRow = 0 } = pane;
  const { n, x, value, end, depth, fn } = tree;
  const whole = value[0] || 1, start = from * whole, scale = width / ((to - from) * whole);
  const least = Math.max(1, (view.least / 100) * width);
  const matched = search.matched;
  const found = { frames: [], slivers: new Slivers(rows), matchSlivers: new Slivers(rows) };
  for (let i = firstRow ? 1 : 0; i < n;) {
    const w = value[i] * scale, x0 = (x[i] - start) * scale;
    if (w <= 0 || x0 + w <= 0 || x0 >= width) { i = end[i]; continue; }
    const row = rowOf(depth[i]);
    const isMatch = matched && fn[i] >= 0 && matched[fn[i]];
    if (w < least) {
      if (view.least && w < (view.least / 100) * width) { i = end[i]; continue; }
      if (row >= 0 && row < rows) (isMatch ? found.matchSlivers : found.slivers).add(row, x0, x0 + w);
      i++;
      continue;
    }
    if (row >= 0 && row < rows) found.frames.push(i, Math.max(0, x0), Math.min(width, x0 + w) - Math.max(0, x0), row, isMatch ? 1 : 0);
    i++;
  }
  return found;
}

function fillFrames(context, pane, found, yOf, colors) {
  const { frames } = found;
  const lists = new Map();
  for (let k = 0; k < frames.length; k += 5) {
    const color = frames[k + 4] ? MATCH : colorOf(pane.tree, frames[k]);
    let list = lists.get(color);
    if (!list) lists.set(color, list = []);
    /* A gap between neighbours, where there is room for one. */
    list.push(frames[k + 1], yOf(frames[k + 3]), frames[k + 2] > 3 ? frames[k + 2] - 1 : frames[k + 2]);
    painted.frames++;
  }
  for (const [color, list] of lists) {
    context.globalAlpha = search.matched && color !== MATCH ? 0.3 : 1;
    context.fillStyle = color === MATCH ? palette.match : color === ROOT ? palette.root : colors[color];
    for (let k = 0; k < list.length; k += 3) context.fillRect(list[k], list[k + 1], list[k + 2], ROW - 1);
  }
  context.globalAlpha = 1;
}

/* Frames above the zoomed one fill the width; paler, since they are only context. */
function veil(context, pane, found, yOf, zoom) {
  if (!zoom) return;
  context.fillStyle = palette.veil;
  for (let k = 0; k < found.frames.length; k += 5)
    if (pane.tree.depth[found.frames[k]] < pane.tree.depth[zoom]) context.fillRect(found.frames[k + 1], yOf(found.frames[k + 3]), found.frames[k + 2], ROW - 1);
}

function writeNames(context, pane, found, yOf) {
  const { frames } = found;
  context.textBaseline = 'middle';
  for (let pass = 0; pass < 2; pass++) {
    context.fillStyle = pass ? palette['on-match'] : search.matched ? palette.text : palette['on-frame'];
    for (let k = 0; k < frames.length; k += 5) {
      if (frames[k + 2] < 22 || frames[k + 4] !== pass) continue;
      const text = fitText(context, labelOf(pane, frames[k]), frames[k + 2] - 8);
      if (!text) continue;
      context.fillText(text, frames[k + 1] + 4, yOf(frames[k + 3]) + ROW / 2);
      painted.texts++;
    }
  }
}

function labelOf(pane, i) {
  if (pane.tree.fn[i] >= 0) return model.functions.name[pane.tree.fn[i]];
  return `all: ${view.measure === 'weight' ? weightText(pane.tree.totalWeight[0]) : samplesText(pane.tree.total[0])}`;
}

/* Draws the panes; top: how many pixels are scrolled away. `ranges`: from and to of each pane. */
function paint(context, panes, ranges, width, height, top, focus) {
  const begun = performance.now();
  Object.assign(painted, { frames: 0, texts: 0, slivers: 0 });
  measureFont(context);
  context.font = palette.font;
  context.clearRect(0, 0, width, height);
  const skipped = Math.floor(top / ROW), rows = Math.ceil(height / ROW) + 1;
  const yOf = (row) => (row + skipped) * ROW - top;
  panes.forEach((pane, p) => {
    const local = { ...pane, rowOf: (depth) => pane.rowOf(depth) - skipped };
    const found = collect(local, width, rows, ...ranges[p]);
    found.slivers.draw(context, palette.sliver, yOf);
    found.matchSlivers.draw(context, palette.match, yOf);
    fillFrames(context, pane, found, yOf, colorList());
    veil(context, pane, found, yOf, p === view.pane || panes.length === 1 ? view.zoom : 0);
    writeNames(context, pane, found, yOf);
  });
  if (panes.length === 2) outline(context, panes[1], ranges[1], width, 0, top, palette.text);
  if (focus) outline(context, panes[focus.pane], ranges[focus.pane], width, focus.node, top);
  painted.ms = performance.now() - begun;
}

function outline(context, pane, [from, to], width, node, top, color = palette.accent) {
  const { x, value, depth } = pane.tree;
  const whole = value[0] || 1, scale = width / ((to - from) * whole);
  const x0 = Math.max(0, (x[node] - from * whole) * scale), x1 = Math.min(width, (x[node] + value[node] - from * whole) * scale);
  if (x1 < 0 || x0 > width) return;
  context.strokeStyle = color;
  context.lineWidth = 2;
  context.strokeRect(x0 + 1, pane.rowOf(depth[node]) * ROW - top + 1, Math.max(2, x1 - x0 - 3), ROW - 3);
}

/* Input on the graph: mouse, touch, wheel, keys. */

function addPointers(graph) {
  const { stage } = graph;
  const pointers = new Map();
  let hold = null; /* where a press began */
  const place = (event) => { const box = stage.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };

  stage.addEventListener('pointerdown', (event) => {
    if (event.button) return;
    const [x, y] = place(event);
    if (x >= stage.clientWidth) return; /* the scroll bar */
    pointers.set(event.pointerId, x);
    const found = graph.at(x, y);
    if (found && found.pane !== view.pane && pointers.size === 1) hold = { x, y, found, isDrag: false, isOther: true };
    else hold = { x, y, from: view.from, to: view.to, top: stage.scrollTop, found, isDrag: false };
    if (pointers.size === 2) hold.pinch = [...pointers.values()];
  });
  stage.addEventListener('pointermove', (event) => {
    const [x, y] = place(event);
    if (pointers.has(event.pointerId)) pointers.set(event.pointerId, x);
    if (hold && pointers.size === 2 && hold.pinch) { pinch(graph, hold, [...pointers.values()]); return; }
    if (hold && !hold.isDrag && Math.hypot(x - hold.x, y - hold.y) > (event.pointerType === 'mouse' ? 4 : 10)) { hold.isDrag = true; stage.setPointerCapture(event.pointerId); }
    if (hold?.isDrag && !hold.isOther) {
      const width = hold.to - hold.from;
      if (width < 1) graph.setRange(hold.from - ((x - hold.x) / stage.clientWidth) * width, width);
      if (event.pointerType === 'mouse') stage.scrollTop = hold.top - (y - hold.y);
      return;
    }
    if (event.pointerType === 'mouse') graph.showTip(x < stage.clientWidth ? graph.at(x, y) : null, event.clientX, event.clientY);
  });
  const release = (event) => {
    pointers.delete(event.pointerId);
    const held = hold;
    hold = null;
    if (!held || held.isDrag || held.pinch || event.type === 'pointercancel' || !held.found) return;
    graph.zoomTo(held.found.pane, held.found.node);
  };
  stage.addEventListener('pointerup', release);
  stage.addEventListener('pointercancel', release);
  stage.addEventListener('pointerleave', () => graph.hideTip());
  stage.addEventListener('dblclick', () => graph.resetZoom());
  stage.addEventListener('wheel', (event) => {
    const canScroll = stage.scrollHeight > stage.clientHeight + 1;
    const isSide = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (isSide && !event.ctrlKey && !event.metaKey) {
      if (view.to - view.from < 1) { graph.panBy(((event.deltaX || event.deltaY) / stage.clientWidth)); event.preventDefault(); }
      return;
    }
    if (canScroll && !event.ctrlKey && !event.metaKey && !event.altKey) return;
    event.preventDefault();
    graph.zoomBy(Math.exp(Math.max(-1, Math.min(1, event.deltaY / (event.deltaMode ? 6 : 240)))), place(event)[0] / stage.clientWidth);
  }, { passive: false });
}

/* The frames under both fingers stay under them. */
function pinch(graph, hold, now) {
  const width = graph.stage.clientWidth, range = hold.to - hold.from;
  const [a0, b0] = hold.pinch, [a1, b1] = now;
  const factor = Math.abs(b0 - a0) / Math.max(8, Math.abs(b1 - a1)), next = Math.min(1, Math.max(1e-9, range * factor));
  const middle = hold.from + ((a0 + b0) / 2 / width) * range;
  graph.setRange(middle - ((a1 + b1) / 2 / width) * next, next);
}

/* Children, parent and siblings as they stand on the screen; narrow ones too. */
function neighbour(pane, node, key) {
  const { tree } = pane, { parent, end, value } = tree;
  if (key === (pane.isUp ? 'ArrowDown' : 'ArrowUp')) return node ? parent[node] : -1;
  if (key === (pane.isUp ? 'ArrowUp' : 'ArrowDown')) {
    let widest = -1;
    for (let child = node + 1; child < end[node]; child = end[child]) if (value[child] > 0 && (widest < 0 || value[child] > value[widest])) widest = child;
    return widest;
  }
  if (!node) return -1;
  let before = -1;
  for (let child = parent[node] + 1; child < end[parent[node]]; child = end[child]) {
    if (!value[child]) continue;
    if (key === 'ArrowLeft' && child === node) return before;
    if (key === 'ArrowRight' && child > node) return child;
    before = child;
  }
  return -1;
}

function moveFocus(graph, key) {
  const focus = graph.focus ?? { pane: graph.panes.length - 1, node: view.zoom };
  let { pane } = focus, node = neighbour(graph.panes[pane], focus.node, key);
  /* Moves from the function of a sandwich to the other side. */
  if (node < 0 && focus.node === 0 && graph.panes.length === 2 && (key === 'ArrowUp' || key === 'ArrowDown')) {
    pane = key === 'ArrowUp' ? 0 : 1;
    node = neighbour(graph.panes[pane], 0, key);
  }
  if (node < 0) { say('No more frames there'); return; }
  const { tree } = graph.panes[pane];
  const isWithin = (tree.x[node] + tree.value[node]) / (tree.value[0] || 1) > view.from - 1e-12 && tree.x[node] / (tree.value[0] || 1) < view.to + 1e-12;
  if (pane === view.pane && !isWithin) graph.seek(pane, node); else graph.setFocus(pane, node);
}

/* true: the graph used the key. */
function graphKey(graph, event) {
  const { key } = event;
  if (event.altKey || ((event.ctrlKey || event.metaKey) && key !== '+' && key !== '-' && key !== '=')) return false;
  if (event.ctrlKey || event.metaKey) return false;
  const focus = graph.focus;
  switch (key) {
    case 'ArrowUp': case 'ArrowDown': case 'ArrowLeft': case 'ArrowRight': moveFocus(graph, key); return true;
    case 'Enter': case ' ': if (focus) graph.zoomTo(focus.pane, focus.node); return true;
    case 'Escape': case '0': graph.resetZoom(); return true;
    case 'Backspace': if (view.zoom) graph.zoomTo(view.pane, graph.panes[view.pane].tree.parent[view.zoom]); else graph.resetZoom(); return true;
    case '+': case '=': graph.zoomBy(0.5, focusShare(graph)); return true;
    case '-': case '_': graph.zoomBy(2, focusShare(graph)); return true;
    case 'n': case 'N': nextMatch(graph, key === 'n' ? 1 : -1); return true;
    case 's': if (focus) openSandwich(graph.panes[focus.pane].tree.fn[focus.node]); return true;
    case 'c': if (focus) copyText(stackOf(graph.panes[focus.pane], focus.node), 'the stack'); return true;
    case 'i': change({ isBelow: !view.isBelow }); return true;
    default: return false;
  }
}

function focusShare(graph) {
  if (!graph.focus || graph.focus.pane !== view.pane) return 0.5;
  const { tree } = graph.panes[view.pane];
  const middle = (tree.x[graph.focus.node] + tree.value[graph.focus.node] / 2) / (tree.value[0] || 1);
  return Math.min(1, Math.max(0, (middle - view.from) / (view.to - view.from)));
}

function openSandwich(fn) {
  if (fn < 0) { say('The root is no function'); return; }
  change({ page: 'sandwich', fn, pane: 0, zoom: 0, from: 0, to: 1 }, true);
  notify(`Callers above, callees below: ${model.functions.name[fn].slice(0, 80)}`);
}

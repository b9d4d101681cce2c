/* The process tree, with CPU and memory of each process over the whole recording. */

const CHILDREN_AT_ONCE = 30;
const sparksInSight = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    sparksInSight.unobserve(entry.target);
    entry.target.is_seen = true;
    drawSpark(entry.target);
  }
}, { rootMargin: '200px' });

function processTree(data) {
  const nodes = data.processes.map((process, i) => ({ ...process, i, children: [] }));
  const roots = [];
  for (const node of nodes) (nodes[node.parent] && node.parent !== node.i ? nodes[node.parent].children : roots).push(node);
  const byCpu = (a, b) => (b.cpu_s ?? -1) - (a.cpu_s ?? -1);
  for (const node of nodes) node.children.sort(byCpu);
  roots.sort(byCpu);
  const most = (key) => Math.max(0, ...nodes.flatMap((node) => [Math.max(0, ...(node[key] || []).filter((v) => v !== null))]));
  const tree = { data, tops: { cpu: most('cpu'), rss: most('rss') } };
  const body = h('tbody', {});
  append(body, rowsOf(tree, roots, 0));
  const words = ['CPU and memory over the whole recording; all rows have the same scale.'];
  if (data.processes_left_out) words.push(`${number(data.processes_left_out)} less busy processes are not in this page.`);
  return h('div', { class: 'card wide', id: 'process-tree' }, h('h3', {}, 'Processes'), smallPrint(words.join(' ')),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table: processes' },
      h('table', { class: 'processes' }, h('caption', { class: 'hidden' }, 'Process tree'),
        h('thead', {}, h('tr', {}, ['Process', 'CPU time', `CPU, up to ${show(tree.tops.cpu, '%')}`, 'Peak memory', `Memory, up to ${show(tree.tops.rss, 'bytes')}`, 'Lived']
          .map((name, i) => h('th', { scope: 'col', class: i === 1 || i === 3 ? 'number' : null }, name)))), body)));
}

function rowsOf(tree, nodes, depth, limit = CHILDREN_AT_ONCE, parent = {}) {
  const rows = nodes.slice(0, limit).flatMap((node) => [rowOf(tree, node, depth), rowsOf(tree, node.children, depth + 1, CHILDREN_AT_ONCE, node)]);
  if (nodes.length > limit) {
    const row = parent.more = h('tr', {}, h('td', { colspan: 6 }, button(`Show ${nodes.length - limit} more`, { css: { 'margin-left': `${depth * 16}px` } }, () => {
      row.replaceWith(...rowsOf(tree, nodes.slice(limit), depth, Infinity).flat(Infinity));
    })));
    rows.push(row);
  }
  return rows;
}

const isOpen = (node) => !node.is_closed;

/* Shows the children of a node, except below closed ones. */
function refresh(node) {
  const is_hidden = node.row.hidden || !isOpen(node);
  if (node.more) node.more.hidden = is_hidden;
  for (const child of node.children) {
    if (!child.row) continue;
    child.row.hidden = is_hidden;
    refresh(child);
  }
}

function rowOf(tree, node, depth) {
  const { data } = tree;
  const has_children = node.children.length > 0;
  const name = h('span', { class: 'process-name' }, node.name || '(no name)', h('span', { class: 'pid' }, ` ${node.pid ?? ''}`));
  const twisty = has_children ? button(isOpen(node) ? '▾' : '▸', {
    class: 'twisty', 'aria-expanded': String(isOpen(node)), 'aria-label': `Children of ${node.name} ${node.pid}`,
  }, () => {
    node.is_closed = !node.is_closed;
    twisty.textContent = isOpen(node) ? '▾' : '▸';
    twisty.setAttribute('aria-expanded', String(isOpen(node)));
    refresh(node);
  }) : h('span', { class: 'twisty' });
  const step = view.total < 60000 ? 100 : 1000;
  const lived = node.start <= 0 && (node.end === null || node.end >= data.total_ms) ? 'throughout'
    : `${elapsed(Math.max(0, node.start), step)} to ${node.end === null ? 'the end' : elapsed(node.end, step)}`;
  node.row = h('tr', {},
    h('th', { scope: 'row' }, h('div', { class: 'process', css: { 'padding-left': `${Math.min(depth, 12) * 16}px` } }, twisty,
      h('div', {}, name, node.cmdline && node.cmdline !== node.name ? h('div', { class: 'cmdline', title: node.cmdline }, node.cmdline) : null))),
    h('td', { class: 'number' }, show(node.cpu_s, 's')), h('td', {}, spark(node.cpu, tree.tops.cpu, 0, `CPU of ${node.name}: ${sparkWords(node.cpu, '%')}`)),
    h('td', { class: 'number' }, show(node.rss_max, 'bytes')), h('td', {}, spark(node.rss, tree.tops.rss, 1, `Memory of ${node.name}: ${sparkWords(node.rss, 'bytes')}`)),
    h('td', { class: 'lived' }, lived));
  return node.row;
}

function sparkWords(values, unit) {
  const found = (values || []).filter((v) => v !== null);
  return found.length ? `${show(Math.min(...found), unit)} to ${show(Math.max(...found), unit)}` : 'not measured';
}

function spark(values, top, color, label) {
  const canvas = h('canvas', { class: 'spark', role: 'img', 'aria-label': label, title: label });
  Object.assign(canvas, { values: values || [], top, color });
  sparksInSight.observe(canvas);
  view.sparks.push(canvas);
  return canvas;
}

function drawSpark(canvas, ratio = devicePixelRatio || 1) {
  const [width, height] = [120, 26];
  const c = beginCanvas(canvas, width, height, ratio);
  const { values } = canvas;
  const x = (i) => 1 + (values.length > 1 ? (i / (values.length - 1)) * (width - 2) : (width - 2) / 2);
  const y = (v) => height - 2 - (canvas.top > 0 ? v / canvas.top : 0) * (height - 5);
  const points = values.map((v, i) => (v === null ? null : { x: x(i), middle: v }));
  c.strokeStyle = palette.grid;
  line(c, 0, height - 1.5, width, height - 1.5);
  for (const run of runsOf(points)) {
    c.globalAlpha = 0.2;
    c.fillStyle = colorOf(canvas.color);
    c.beginPath();
    c.moveTo(run[0].x, height - 2);
    for (const p of run) c.lineTo(p.x, y(p.middle));
    c.lineTo(run.at(-1).x, height - 2);
    c.fill();
    c.globalAlpha = 1;
    strokeRun(c, run, (p) => y(p.middle), colorOf(canvas.color), false);
  }
}

/* The state of the page. All of it is in the hash of the address, so that a link shows the same view. */

const view = {
  page: 'graph', /* graph, table, sandwich */
  fn: -1, /* of the sandwich */
  zoom: 0, /* node of the shown tree */
  from: 0, to: 1, /* of the shown tree's width */
  pane: 0, /* whose node and range that is: of the sandwich, 0: callers, 1: callees */
  query: '',
  times: null, /* [from, to): buckets */
  theme: 'kind', scheme: '', isBelow: false, isReversed: false, recursion: '', measure: 'samples', width: 'now', normalised: false, least: 0,
  sort: 'self', isUp: false,
};
const defaults = {};

/* key in the hash: [member, to text, from text]; defaults are left out. */
const number36 = [(v) => v.toString(36), (t) => (/^[0-9a-z]{1,8}$/.test(t) ? parseInt(t, 36) : 0)];
const flag = [(v) => (v ? '1' : '0'), (t) => t === '1'];
const oneOf = (...names) => [(v) => v, (t) => (names.includes(t) ? t : names[0])];
const KEYS = {
  v: ['page', ...oneOf('graph', 'table', 'sandwich')], f: ['fn', (v) => v.toString(36), (t) => (/^[0-9a-z]{1,8}$/.test(t) ? parseInt(t, 36) : -1)],
  z: ['zoom', ...number36], a: ['from', (v) => v.toPrecision(7), (t) => Number(t) || 0], b: ['to', (v) => v.toPrecision(7), (t) => Number(t) || 1],
  q: ['query', encodeURIComponent, (t) => { try { return decodeURIComponent(t); } catch { return ''; } }],
  p: ['pane', ...number36],
  t: ['times', (v) => (v ? v.join('-') : ''), (t) => (/^\d+-\d+$/.test(t) ? t.split('-').map(Number) : null)],
  theme: ['theme', ...oneOf(...Object.keys(THEMES))], scheme: ['scheme', ...oneOf('', 'light', 'dark')], below: ['isBelow', ...flag], leaf: ['isReversed', ...flag],
  rec: ['recursion', ...oneOf('', 'direct', 'all')], m: ['measure', ...oneOf('samples', 'weight')], w: ['width', ...oneOf('now', 'before')], norm: ['normalised', ...flag],
  min: ['least', String, (t) => Math.min(100, Math.max(0, Number(t) || 0))], s: ['sort', (v) => v, (t) => (/^[a-zA-Z]{1,12}$/.test(t) ? t : 'self')], up: ['isUp', ...flag],
};

const hashText = () => Object.entries(KEYS).filter(([, [member]]) => String(view[member]) !== String(defaults[member])).map(([key, [member, write]]) => `${key}=${write(view[member])}`).join('&');

function readHash() {
  const found = Object.fromEntries(location.hash.slice(1).split('&').map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
  for (const [key, [member, , read]] of Object.entries(KEYS)) view[member] = Object.hasOwn(found, key) ? read(found[key]) : defaults[member];
  if (!(view.to > view.from)) [view.from, view.to] = [0, 1];
  if (!(view.fn < model.functions.n)) view.fn = -1;
  if (view.page === 'sandwich' && view.fn < 0) view.page = 'graph';
  if (view.times && !(model.moments && view.times[0] < view.times[1] && view.times[1] <= facts.buckets)) view.times = null;
}

let written = '', writeTimer = 0;
/* isStep: the Back button returns here. */
function writeHash(isStep) {
  clearTimeout(writeTimer);
  const text = hashText();
  if (text === written || !isAlone) return;
  const write = () => {
    written = text;
    const url = `${location.pathname}${location.search}${text ? `#${text}` : ''}`;
    if (isStep && text) location.hash = text;
    else if (isStep) history.pushState(null, '', url);
    else history.replaceState(null, '', url);
  };
  if (isStep) write(); else writeTimer = setTimeout(write, 120);
}

/* Changes members and redraws. `isStep`: with an entry in the history. */
function change(members, isStep = false) {
  clearTimeout(writeTimer);
  Object.assign(view, members);
  writeHash(isStep);
  render();
}

const isNormalised = () => view.normalised || Boolean(view.times);
const measureOf = (tree, what) => (view.measure === 'weight' && tree.totalWeight ? tree[`${what}Weight`] : tree[what]);

/* The tree to draw, made again only when its inputs changed. */
const made = { source: '', tree: '', sandwich: '' };
function sourceTree() {
  const key = String(view.times);
  if (made.source !== key) { made.source = key; made.sourceTree = view.times ? treeOfTime(model.tree, model.moments, ...view.times) : model.tree; made.sums = null; }
  return made.sourceTree;
}

function valuesOf(tree) {
  const total = view.width === 'before' && tree.before ? measureOf(tree, 'beforeTotal') : measureOf(tree, 'total');
  return layOut(tree, total);
}

/* [{ tree, isUp }]: one pane, or callers above callees. */
function shownPanes() {
  const tree = sourceTree();
  const key = [made.source, view.page === 'sandwich' ? view.fn : '', view.isReversed, view.recursion, view.measure, view.width].join();
  if (made.tree === key) return made.panes;
  made.tree = key;
  const merged = view.recursion ? mergeRecursion(tree, view.recursion) : tree;
  if (view.page === 'sandwich') made.panes = [{ tree: valuesOf(callersOf(merged, view.fn)), isUp: true }, { tree: valuesOf(calleesOf(merged, view.fn)), isUp: false }];
  else made.panes = [{ tree: valuesOf(view.isReversed && !facts.reversed ? reversed(merged) : merged), isUp: view.isBelow }];
  return made.panes;
}

function functionSums() {
  const tree = sourceTree();
  if (!made.sums) made.sums = sumFunctions(tree);
  return made.sums;
}

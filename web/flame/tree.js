/* Trees of stacks by column: nodes depth first, a parent before its children, a subtree without gaps: [i, end[i]).
 *   fn      function; -1: the root
 *   isWait  of nodes whose own samples waited in the kernel; null: none did
 *   self, total, before, beforeTotal: samples of now and of the older run
 *   selfWeight, totalWeight, beforeWeight, beforeTotalWeight: null where each sample weighs the same */

function newTree(n, hasBase, hasWeights) {
  const column = (is) => (is ? new Float64Array(n) : null);
  return {
    n, isWait: null, fn: new Int32Array(n), parent: new Int32Array(n), depth: new Uint16Array(n), end: new Int32Array(n),
    self: column(true), selfWeight: column(hasWeights), before: column(hasBase), beforeWeight: column(hasBase && hasWeights),
    total: null, totalWeight: null, beforeTotal: null, beforeTotalWeight: null, height: 0,
  };
}

function sumUp(tree, self) {
  if (!self) return null;
  const total = Float64Array.from(self);
  for (let i = tree.n - 1; i > 0; i--) total[tree.parent[i]] += total[i];
  return total;
}

/* Computes depths, ends and totals from parents and self values. */
function finishTree(tree) {
  const { n, parent, depth, end } = tree;
  tree.height = 0;
  for (let i = 1; i < n; i++) {
    depth[i] = depth[parent[i]] + 1;
    if (depth[i] > tree.height) tree.height = depth[i];
  }
  for (let i = n - 1; i >= 0; i--) {
    if (!end[i]) end[i] = i + 1;
    if (i && end[parent[i]] < end[i]) end[parent[i]] = end[i];
  }
  tree.total = sumUp(tree, tree.self);
  tree.totalWeight = sumUp(tree, tree.selfWeight);
  tree.beforeTotal = sumUp(tree, tree.before);
  tree.beforeTotalWeight = sumUp(tree, tree.beforeWeight);
  return tree;
}

/* The left edges of nodes: children side by side, then the parent's self part. */
function layOut(tree, value) {
  const { n, parent } = tree;
  const x = new Float64Array(n), next = new Float64Array(n);
  for (let i = 1; i < n; i++) {
    const p = parent[i];
    x[i] = next[i] = next[p];
    next[p] += value[i];
  }
  tree.value = value;
  tree.x = x;
  return tree;
}

/* Merges stacks into a new tree: child(parent, fn) gives the node, siblings in the end by name. */
class Builder {
  constructor(source, rootFn = -1) {
    this.source = source;
    this.width = model.functions.n + 1;
    this.known = new Map();
    this.fn = [rootFn];
    this.parent = [0];
    this.sums = { self: [0], selfWeight: [0], before: [0], beforeWeight: [0] };
  }

  child(parent, fn) {
    const key = parent * this.width + fn;
    let node = this.known.get(key);
    if (node === undefined) {
      node = this.fn.length;
      this.known.set(key, node);
      this.fn.push(fn);
      this.parent.push(parent);
      for (const sum of Object.values(this.sums)) sum.push(0);
    }
    return node;
  }

  /* Adds what node i of the source has: `own` of itself, else in all. */
  add(node, i, own) {
    const { source, sums } = this;
    sums.self[node] += (own ? source.self : source.total)[i];
    if (source.selfWeight) sums.selfWeight[node] += (own ? source.selfWeight : source.totalWeight)[i];
    if (source.before) sums.before[node] += (own ? source.before : source.beforeTotal)[i];
    if (source.beforeWeight) sums.beforeWeight[node] += (own ? source.beforeWeight : source.beforeTotalWeight)[i];
  }

  finish() {
    const n = this.fn.length, ranks = nameRanks();
    const first = new Int32Array(n), next = new Int32Array(n);
    const order = Array.from({ length: n - 1 }, (_, i) => i + 1).sort((a, b) => ranks[this.fn[b]] - ranks[this.fn[a]]);
    for (const i of order) { next[i] = first[this.parent[i]]; first[this.parent[i]] = i; }
    const tree = newTree(n, Boolean(this.source.before), Boolean(this.source.selfWeight));
    const place = new Int32Array(n);
    for (let at = 0, node = 0; ;) {
      place[node] = at;
      tree.fn[at] = this.fn[node];
      tree.parent[at] = place[this.parent[node]];
      for (const [name, sum] of Object.entries(this.sums)) if (tree[name]) tree[name][at] = sum[node];
      at++;
      if (first[node]) { node = first[node]; continue; }
      while (node && !next[node]) node = this.parent[node];
      if (!node) break;
      node = next[node];
    }
    return finishTree(tree);
  }
}

/* Places of functions in order of their names, made once. */
function nameRanks() {
  if (!model.ranks) {
    const { name, n } = model.functions;
    const order = Array.from({ length: n }, (_, i) => i).sort((a, b) => (name[a] < name[b] ? -1 : name[a] > name[b] ? 1 : a - b));
    model.ranks = new Int32Array(n);
    order.forEach((fn, rank) => { model.ranks[fn] = rank; });
  }
  return model.ranks;
}

/* The same tree with only the samples of buckets [from, to). */
function treeOfTime(tree, moments, from, to) {
  const some = { ...newTree(tree.n, Boolean(tree.before), Boolean(tree.selfWeight)), fn: tree.fn, parent: tree.parent, isWait: tree.isWait };
  for (let i = moments.start[from]; i < moments.start[to]; i++) {
    some.self[moments.node[i]] += moments.samples[i];
    if (some.selfWeight) some.selfWeight[moments.node[i]] += moments.weight[i];
  }
  /* The older run has no time buckets: it stays whole, and shares are compared. */
  if (some.before) some.before.set(tree.before);
  if (some.beforeWeight) some.beforeWeight.set(tree.beforeWeight);
  return finishTree(some);
}

/* 'direct': a function that calls itself is one frame; 'all': what lies between two calls of a function is left out. */
function mergeRecursion(tree, how) {
  const builder = new Builder(tree);
  const to = new Int32Array(tree.n);
  builder.add(0, 0, true);
  for (let i = 1; i < tree.n; i++) {
    const above = to[tree.parent[i]];
    let same = above;
    if (how === 'all') while (same && builder.fn[same] !== tree.fn[i]) same = builder.parent[same];
    to[i] = same && builder.fn[same] === tree.fn[i] ? same : builder.child(above, tree.fn[i]);
    builder.add(to[i], i, true);
  }
  return builder.finish();
}

/* Leaf first: each stack with its leaf's self values. */
function reversed(tree) {
  const builder = new Builder(tree);
  builder.add(0, 0, true);
  for (let i = 1; i < tree.n; i++) {
    if (!tree.self[i] && !(tree.before && tree.before[i])) continue;
    let node = 0;
    for (let p = i; p; p = tree.parent[p]) node = builder.child(node, tree.fn[p]);
    builder.add(node, i, true);
  }
  return builder.finish();
}

/* Calls f with each outermost node of a function, so that no sample counts twice. */
function eachOutermost(tree, fn, f) {
  for (let i = 1; i < tree.n;)
    if (tree.fn[i] === fn) { f(i); i = tree.end[i]; } else i++;
}

function calleesOf(tree, fn) {
  const builder = new Builder(tree, fn);
  const to = new Int32Array(tree.n);
  eachOutermost(tree, fn, (top) => {
    to[top] = 0;
    builder.add(0, top, true);
    for (let i = top + 1; i < tree.end[top]; i++) {
      to[i] = builder.child(to[tree.parent[i]], tree.fn[i]);
      builder.add(to[i], i, true);
    }
  });
  return builder.finish();
}

function callersOf(tree, fn) {
  const builder = new Builder(tree, fn);
  eachOutermost(tree, fn, (top) => {
    let node = 0;
    for (let p = tree.parent[top]; p; p = tree.parent[p]) node = builder.child(node, tree.fn[p]);
    builder.add(node, top, false);
  });
  return builder.finish();
}

/* The node whose function node i's own samples count for: the innermost, of waits the innermost outside the kernel, as owner_of of
 * src/analyze/profile/flame.c. Both are tested with tests/fixtures/flame/waits.tsv. */
function ownerOf(tree, functions, i, isLeafFirst) {
  const isWait = tree.isWait?.[i];
  if (!isWait && !isLeafFirst) return i;
  let innermost = 0, outside = 0;
  for (let p = i; p > 0; p = tree.parent[p]) {
    const fn = tree.fn[p];
    if (functions.isGroup[fn]) continue;
    if (isLeafFirst || !innermost) innermost = p;
    if (!functions.isKernel[fn] && (isLeafFirst || !outside)) outside = p;
  }
  return (isWait && outside) || innermost || i;
}

/* Self and total of each function; recursion does not count a sample twice. */
function sumFunctions(tree) {
  const n = model.functions.n;
  const sums = { self: new Float64Array(n), total: new Float64Array(n), before: tree.before ? new Float64Array(n) : null, beforeTotal: tree.before ? new Float64Array(n) : null,
    selfWeight: tree.selfWeight ? new Float64Array(n) : null, totalWeight: tree.selfWeight ? new Float64Array(n) : null };
  const leave = new Int32Array(n); /* the end of the current outermost call */
  for (let i = 1; i < tree.n; i++) {
    const fn = tree.fn[i], own = tree.fn[ownerOf(tree, model.functions, i, facts.reversed)];
    sums.self[own] += tree.self[i];
    if (sums.before) sums.before[own] += tree.before[i];
    if (sums.selfWeight) sums.selfWeight[own] += tree.selfWeight[i];
    if (i < leave[fn]) continue;
    leave[fn] = tree.end[i];
    sums.total[fn] += tree.total[i];
    if (sums.before) sums.beforeTotal[fn] += tree.beforeTotal[i];
    if (sums.totalWeight) sums.totalWeight[fn] += tree.totalWeight[i];
  }
  return sums;
}

/* Wilson's score interval of a share k of n, 95 %, in percent. */
function interval(k, n) {
  if (!(n > 0)) return [0, 100];
  const z = 1.959963984540054, p = Math.min(1, k / n);
  const middle = p + (z * z) / (2 * n), half = z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n)), whole = 1 + (z * z) / n;
  return [Math.max(0, (middle - half) / whole) * 100, Math.min(1, (middle + half) / whole) * 100];
}

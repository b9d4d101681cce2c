/* Search: by text, or /by regular expression/, in names and objects. */

const search = { matched: null, query: null, error: '', functions: 0, frames: 0, samples: 0, share: '', order: null, at: -1 };

/* Marks the functions that match; only when the query has changed. */
function applyQuery() {
  if (search.query === view.query) return;
  Object.assign(search, { query: view.query, matched: null, error: '', functions: 0, order: null, at: -1 });
  const text = view.query.trim();
  if (!text) return;
  let matches;
  const pattern = text.length > 1 && /^\/(.+?)\/?(i?)$/s.exec(text);
  if (pattern) {
    try {
      const expression = new RegExp(pattern[1], pattern[2]);
      matches = (name) => expression.test(name);
    } catch {
      search.error = 'not a regular expression';
      return;
    }
  } else {
    const low = text.toLowerCase();
    matches = (name) => name.toLowerCase().includes(low);
  }
  const { n, name, object } = model.functions;
  search.matched = new Uint8Array(n);
  const objects = new Map();
  for (let fn = 0; fn < n; fn++) {
    if (!objects.has(object[fn])) objects.set(object[fn], object[fn] !== '' && matches(object[fn]));
    search.matched[fn] = matches(name[fn]) || objects.get(object[fn]) ? 1 : 0;
    search.functions += search.matched[fn];
  }
}

/* The share that matches within the zoomed frame: a match within a match is not counted again. */
function countMatches(pane) {
  const { tree } = pane, values = measureOf(tree, 'total');
  const zoom = graph.panes.indexOf(pane) === view.pane ? view.zoom : 0;
  Object.assign(search, { frames: 0, samples: 0, value: 0 });
  if (!search.matched) return;
  for (let p = zoom; p > 0; p = tree.parent[p]) if (search.matched[tree.fn[p]]) search.value = values[zoom];
  const isAll = search.value > 0;
  for (let i = Math.max(1, zoom), skip = 0; i < tree.end[zoom]; i++) {
    if (!search.matched[tree.fn[i]]) continue;
    search.frames++;
    if (i < skip || isAll) continue;
    search.value += values[i];
    skip = tree.end[i];
  }
  search.share = percent(search.value, values[0]);
  search.shareOfZoom = zoom ? percent(search.value, values[zoom]) : '';
}

function searchText() {
  if (search.error) return search.error;
  if (!search.matched) return '';
  if (!search.functions) return 'no match';
  const within = search.shareOfZoom ? `, ${search.shareOfZoom} of the zoomed frame` : '';
  return `${number(search.functions)} ${search.functions === 1 ? 'function' : 'functions'}, ${number(search.frames)} ${search.frames === 1 ? 'frame' : 'frames'}: ${search.share} of all${within}`;
}

/* The next frame that matches, left to right and down; -1: the one before. */
function nextMatch(graph, step) {
  if (!search.matched || !search.functions) { say(search.matched ? 'No match' : 'Nothing is searched for'); return; }
  const p = graph.panes.length - 1, { tree } = graph.panes[p];
  if (!search.order || search.orderOf !== tree) {
    search.order = [];
    search.orderOf = tree;
    for (let i = 1; i < tree.n; i++) if (search.matched[tree.fn[i]] && tree.value[i] > 0) search.order.push(i);
    search.at = step > 0 ? -1 : 0;
  }
  if (!search.order.length) { say('No match here'); return; }
  search.at = (search.at + step + search.order.length) % search.order.length;
  graph.seek(p, search.order[search.at]);
  renderStatus();
}

/* The page from top to bottom. */

let model = null; /* { functions, tree, moments } */
let graph, table, strip;

function render() {
  if (view.scheme !== render.scheme) { render.scheme = view.scheme; setScheme(view.scheme); }
  applyQuery();
  const isTable = view.page === 'table';
  parts.graphBox.hidden = isTable;
  if (isTable) graph.isResized = true; else graph.update();
  /* Below a small graph there is room for the functions. */
  table.node.hidden = !isTable && graph.spare < 190;
  if (!table.node.hidden) table.update();
  if (!graph.focus && parts.hintOf !== made.source) renderHint();
  renderStatus();
  renderControls();
  strip?.update();
  const about = view.page === 'sandwich' ? `callers and callees of ${model.functions.name[view.fn].slice(0, 200)}` : 'all stacks';
  graph.stage.setAttribute('aria-label', `Flame graph of ${about}: ${samplesText(sourceTree().total[0])}, ${number(model.tree.n - 1)} frames. The table has the same numbers.`);
}

/* Keys that work wherever the focus is, except while typing. */
function pageKeys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea, dialog')) return;
  if (event.key === '/') { parts.input.focus(); parts.input.select(); }
  else if (event.key === '?') parts.keys.showModal();
  else if (event.key === 't' && event.target.closest('#graph, #table')) { change({ page: view.page === 'table' ? 'graph' : 'table', pane: 0, zoom: 0, from: 0, to: 1 }, true); if (view.page !== 'table') graph.stage.focus(); else table.node.querySelector('.scroll').focus(); }
  else return;
  event.preventDefault();
}

function makePage() {
  graph = new Graph();
  table = new Table();
  strip = isAlone && model.moments ? new Strip() : null;
  parts.details = h('div', { class: 'details' });
  renderHint();
  parts.graphBox = h('section', { class: 'graph-box', 'aria-label': 'Graph' }, graph.stage, parts.details);
  at.page.replaceChildren();
  append(at.page, [makeControls(graph), strip?.node, parts.graphBox, table.node, graph.tip, makeKeys(), h('div', { id: 'notice', class: 'notice', 'aria-hidden': 'true' }), isAlone ? live : null,
    h('p', { id: 'keys', class: 'hidden' }, 'Arrows go from frame to frame, Enter zooms, Escape shows all, slash searches, question mark shows all keys.')]);
  at.styled.classList.add('scripted');
}

async function main() {
  const { page } = at;
  if (facts.nodes < 2 || !(facts.samples || facts.base_samples)) return; /* the sentence of the page's frame stays */
  if (typeof DecompressionStream === 'undefined') {
    page.prepend(h('p', { class: 'sentence' }, 'This browser cannot unpack the picture: it needs DecompressionStream (Chrome 103, Safari 16.4, Firefox 113). The functions with the most samples are below.'));
    return;
  }
  readPalette();
  try {
    model = await unpack(at.packed, facts);
  } catch (error) {
    page.prepend(h('p', { class: 'sentence' }, `The data of this page is damaged: ${error.message}. The functions with the most samples are below.`));
    return;
  }
  Object.assign(view, { theme: facts.theme, isBelow: facts.root_below, normalised: facts.normalised, least: facts.min_width_percent, measure: facts.has_weights && hasUnit() ? 'weight' : 'samples' });
  Object.assign(defaults, view);
  if (isAlone) readHash();
  written = location.hash.slice(1);
  if (!isAlone) view.scheme = at.scheme;
  makePage();
  (isAlone ? window : page).addEventListener('keydown', pageKeys);
  const back = () => { if (location.hash.slice(1) === written) return; written = location.hash.slice(1); readHash(); render(); };
  if (isAlone) addEventListener('hashchange', back);
  if (isAlone) addEventListener('popstate', back);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readPalette(); render(); });
  beginPrint();
  /* Another screen or the browser's zoom: no box changes its size. */
  const watch = () => matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`).addEventListener('change', () => { watch(); graph.draw(); strip?.draw(); }, { once: true });
  watch();
  render();
  performance.mark('drawn');
  return { facts, samples: () => sourceTree().total[0], show: (times, scheme) => change({ times, scheme, ...(view.zoom ? keptZoom(times) : {}) }) };
}

return main();

/* Around the graph: the bar of tools, the legend, options, keys, details of the focus. */

const parts = {};

function segmented(label, choices, get, set) {
  const buttons = Object.entries(choices).map(([id, [text, title]]) => {
    const node = button(text, { title, 'data-id': id }, () => set(id));
    return node;
  });
  const node = h('div', { class: 'segments', role: 'group', 'aria-label': label }, buttons);
  node.update = () => buttons.forEach((one) => one.setAttribute('aria-pressed', String(get() === one.dataset.id)));
  return node;
}

function select(label, choices, member, extra = {}) {
  const list = h('select', {}, Object.entries(choices).map(([id, text]) => h('option', { value: id }, text)));
  list.addEventListener('change', () => change({ [member]: list.value, ...(extra.isNewTree ? { pane: 0, zoom: 0, from: 0, to: 1 } : {}) }));
  const node = h('label', {}, h('span', {}, label), list);
  node.update = () => { list.value = view[member]; };
  return node;
}

function check(label, member, extra = {}) {
  const box = h('input', { type: 'checkbox' });
  box.addEventListener('change', () => change({ [member]: box.checked, ...(extra.isNewTree ? { pane: 0, zoom: 0, from: 0, to: 1 } : {}) }));
  const node = h('label', { class: 'check', title: extra.title }, box, h('span', {}, label));
  node.update = () => { box.checked = view[member]; };
  return node;
}

function optionParts() {
  const least = h('input', { type: 'number', min: 0, max: 100, step: 0.05 });
  least.addEventListener('change', () => change({ least: Math.min(100, Math.max(0, Number(least.value) || 0)) }));
  const narrowest = h('label', {}, h('span', {}, 'Hide frames below this share of the view (%)'), least);
  narrowest.update = () => { least.value = view.least; };
  return [
    facts.has_base ? null : select('Colours', THEMES, 'theme'),
    facts.has_base ? check('Compare shares, not numbers', 'normalised', { title: 'As if both runs had the same number of samples' }) : null,
    facts.has_base ? select('Width by', { now: 'after (the newer run)', before: 'before (the older run): shows what is gone' }, 'width', { isNewTree: true }) : null,
    facts.has_weights && hasUnit() ? select('Width is', { samples: 'samples', weight: facts.unit }, 'measure', { isNewTree: true }) : null,
    select('Recursion', { '': 'as it was', direct: 'merge recursive calls', all: 'merge all between two calls of one' }, 'recursion', { isNewTree: true }),
    facts.reversed ? null : check('Leaf first: who calls it', 'isReversed', { isNewTree: true }),
    check('Root at the bottom', 'isBelow'),
    narrowest,
  ].filter(Boolean);
}

function makeControls(graph) {
  parts.pages = segmented('View', { graph: ['Graph', 'The flame graph'], table: ['Table', 'Functions by their share'], sandwich: ['Sandwich', 'Callers and callees of one function: select a frame first'] },
    () => view.page, (id) => {
      if (id === 'sandwich' && view.fn < 0) { openSandwich(graph.focus ? graph.panes[graph.focus.pane].tree.fn[graph.focus.node] : -1); return; }
      change({ page: id, pane: 0, zoom: 0, from: 0, to: 1 }, true);
    });
  parts.input = h('input', { type: 'search', id: 'search', placeholder: 'Search, or /regex/', 'aria-label': 'Search functions and objects', spellcheck: 'false', autocomplete: 'off', maxlength: 300 });
  let timer = 0;
  parts.input.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(() => change({ query: parts.input.value }), 60); });
  parts.input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') { clearTimeout(timer); if (view.query !== parts.input.value) change({ query: parts.input.value }); nextMatch(graph, event.shiftKey ? -1 : 1); }
    else if (event.key === 'Escape') { clearTimeout(timer); parts.input.value = ''; change({ query: '' }); (view.page === 'table' ? parts.input : graph.stage).focus(); }
    else return;
    event.preventDefault();
  });
  parts.previous = button('‹', { title: 'Previous match (Shift N)', 'aria-label': 'Previous match' }, () => nextMatch(graph, -1));
  parts.next = button('›', { title: 'Next match (N)', 'aria-label': 'Next match' }, () => nextMatch(graph, 1));
  parts.status = h('span', { class: 'status', role: 'status' });
  parts.reset = button('Reset zoom', { title: 'Escape or a double click' }, () => graph.resetZoom());
  parts.options = h('details', { class: 'options' }, h('summary', {}, 'Options'), h('div', { class: 'options-box' }, parts.optionParts = optionParts()));
  parts.scheme = button('', { title: 'Light or dark' }, () => change({ scheme: isDark() ? 'light' : 'dark' }));
  parts.help = button('?', { title: 'Keys', 'aria-label': 'Keyboard and mouse' }, () => parts.keys.showModal());
  document.addEventListener('pointerdown', (event) => { if (!event.composedPath().includes(parts.options)) parts.options.open = false; });
  parts.options.addEventListener('keydown', (event) => { if (event.key === 'Escape') { parts.options.open = false; parts.options.querySelector('summary').focus(); } });
  parts.legend = h('ul', { class: 'legend', 'aria-label': 'What the colours mean' });
  return [h('div', { class: 'tools', role: 'toolbar', 'aria-label': 'Tools' }, parts.pages, h('span', { class: 'find' }, parts.input, parts.previous, parts.next), parts.status, h('span', { class: 'right' }, parts.reset, parts.options, isAlone ? parts.scheme : null, parts.help)), parts.legend];
}

function makeKeys() {
  const rows = [['Click, Enter', 'zoom to a frame'], ['Double click, Escape, 0', 'show all'], ['Backspace', 'one frame out; the browser’s Back button works too'], ['Arrows', 'from frame to frame'],
    ['Ctrl and wheel, two fingers, + −', 'zoom at the pointer or the focus'], ['Drag, shift and wheel', 'move sideways when zoomed'], ['/', 'search; Enter and N: next match, Shift N: previous'],
    ['S', 'callers and callees of the frame in focus'], ['C', 'copy its stack'], ['I', 'root above or below'], ['T', 'table and back'], ['?', 'this help']];
  parts.keys = h('dialog', { class: 'keys', 'aria-label': 'Keyboard and mouse' }, h('h2', {}, 'Keyboard and mouse'), h('dl', {}, rows.map(([key, text]) => [h('dt', {}, key), h('dd', {}, text)])),
    h('form', { method: 'dialog' }, h('button', {}, 'Close')));
  parts.keys.querySelector('form').addEventListener('submit', (event) => { event.preventDefault(); parts.keys.close(); });
  return parts.keys;
}

/* Shortcuts to the functions with the highest self time. */
function mostSelf() {
  const self = measureOf(functionSums(), 'self'), all = measureOf(sourceTree(), 'total')[0];
  const top = Array.from(self.keys()).sort((a, b) => self[b] - self[a]).slice(0, 8).filter((fn) => self[fn] > 0 && !model.functions.isGroup[fn]).slice(0, 6);
  return h('p', { class: 'detail-acts most' }, h('span', {}, 'Highest self time:'), top.map((fn) => button(`${shortName(model.functions.name[fn]).slice(0, 60)} ${percent(self[fn], all)}`, { title: 'Callers and callees' }, () => openSandwich(fn))));
}

/* Below the graph while no frame is in focus. */
function renderHint() {
  parts.details.replaceChildren(h('p', { class: 'hint' }, 'Click a frame to zoom, double click to see all. ? shows the keys.'), mostSelf());
  parts.hintOf = made.source;
}

/* The frame in focus, in a line below the graph: a tooltip for devices without a pointer. */
function renderDetails(pane, i) {
  parts.hintOf = null;
  const { tree } = pane, fn = tree.fn[i], name = nameOf(tree, i);
  const act = (text, title, f) => button(text, { title }, f);
  parts.details.replaceChildren(h('p', { class: 'detail-name' }, h('b', { dir: 'ltr' }, name.length > 300 ? `${name.slice(0, 300)}…` : name), fn >= 0 ? h('span', {}, [model.functions.object[fn], whereOf(fn), kindText(fn)].filter(Boolean).join(' · ')) : null),
    h('p', { class: 'detail-facts' }, factsOf(tree, i, graph.panes[view.pane] === pane ? view.zoom : 0).map(([label, text]) => h('span', {}, h('i', {}, `${label} `), text))),
    fn >= 0 ? h('p', { class: 'detail-acts' }, act('Callers and callees', 'S', () => openSandwich(fn)), act('Copy name', '', () => copyText(name, 'the name')), act('Copy stack', 'C', () => copyText(stackOf(pane, i), 'the stack'))) : '');
}

function renderStatus() {
  const pane = graph.panes[graph.panes.length - 1];
  if (pane) countMatches(pane);
  parts.status.textContent = searchText();
  parts.status.classList.toggle('error', Boolean(search.error));
  parts.previous.disabled = parts.next.disabled = !search.functions || view.page === 'table';
  parts.reset.hidden = view.page === 'table' || (!view.zoom && view.from === 0 && view.to === 1);
}

function renderControls() {
  parts.pages.update();
  for (const part of parts.optionParts) part.update();
  if (parts.input.value !== view.query && document.activeElement !== parts.input) parts.input.value = view.query;
  parts.scheme.textContent = isDark() ? 'Light' : 'Dark';
  const key = [made.source, view.theme, view.measure, isDark(), view.least].join();
  if (parts.legendKey === key) return;
  parts.legendKey = key;
  parts.legend.replaceChildren(facts.has_base ? h('li', { class: 'lead' }, 'Samples, after compared with before:') : '', ...legendOf(sourceTree()).map(([text, color, title]) => h('li', { title }, h('span', { class: 'swatch', css: { '--color': color } }), text)),
    ...(view.least ? [h('li', {}, `frames below ${number(view.least)} % of what is shown are hidden (options)`)] : []));
}

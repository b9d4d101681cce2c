/* The page from top to bottom. */

/* Panels of these groups under these headings; a group without panels has none. */
const SECTIONS = [
  { id: 'engine', title: 'Engine', groups: ['engine'], make: (data) => (data.report.engines || []).flatMap(engineCards) },
  { id: 'requests', title: 'Requests', make: requestsSection },
  { id: 'torch', title: 'PyTorch', groups: ['torch'], is_first: true },
  { id: 'target', title: 'Target', groups: ['tree', 'process'], make: (data) => (data.processes.length ? [processTree(data)] : []) },
  { id: 'spans', title: 'Spans and marks', make: spansSection },
  { id: 'gpus', title: 'GPUs', groups: ['gpu'], make: (data) => gpuCards(data.report.gpus || []), is_first: true },
  { id: 'containers', title: 'Container', groups: ['container'], make: (data) => (data.report.containers || []).slice(0, 12).map(containerCard), is_first: true },
  { id: 'host', title: 'Host', groups: ['host'], make: (data) => (data.cores?.names?.length ? [new HeatMap(data).card] : []) },
  { id: 'pressure', title: 'Pressure', groups: ['pressure'] },
  { id: 'io', title: 'Disk and network', groups: ['io', 'net'] },
  { id: 'energy', title: 'Energy', groups: ['energy'], make: (data) => [data.report.energy ? energyCard(data.report.energy) : null] },
  { id: 'program', title: 'Counters of the program', groups: ['program'] },
  { id: 'more', title: 'All other metrics', make: moreSection },
  { id: 'absent', title: 'What was absent, and why', make: absencesSection },
  { id: 'run', title: 'The recording', make: (data) => [runCard(data), costCard(data), data.report.machine ? machineCard(data.report.machine) : null] },
];
const MANY = 4; /* series of as many instances in one chart; more become small charts side by side */

function spansSection(data) {
  return [data.spans.length ? new SpanLanes(data).card : null, data.marks.length ? marksCard(data) : null];
}

function requestsSection(data) {
  const left = data.requests_left_out ? `${number(data.requests_left_out)} requests are not in this page.` : null;
  return [data.report.requests ? requestsCard(data.report.requests) : null,
    data.requests.some((r) => r.ttft !== null) ? new RequestScatter(data, { id: 'ttft', key: 'ttft', title: 'Time to first token, by arrival', note: left }).card : null,
    data.requests.some((r) => r.e2e !== null) ? new RequestScatter(data, { id: 'e2e', key: 'e2e', title: 'End to end, by arrival', note: left }).card : null];
}

/* One chart, or small ones for many instances with one scale. */
function panelCards(data, panel) {
  const instances = [...new Set(panel.series.map((series) => series.instance).filter((name) => name !== null && name !== undefined))];
  if (instances.length <= MANY) return new SeriesChart(data, { id: `panel-${panel.id}`, panel }).card;
  const axis = { charts: [] };
  const charts = instances.map((name) => {
    const series = panel.series.filter((one) => one.instance === name).map((one, i) => ({ ...one, color: i, name: one.name === name ? panel.title : one.name }));
    return new SeriesChart(data, { axis, compact: true, level: 4, height: 104, panel: { ...panel, title: name, note: null, series } }).card;
  });
  return h('div', { class: 'card wide multiples', id: `panel-${panel.id}` }, h('h3', {}, panel.title), smallPrint(noteOf(panel), 'All have the same scale'),
    h('div', { class: 'small-charts' }, charts));
}

/* All zeros, or no values: a sentence instead of a chart. */
const isEmpty = (panel) => panel.series.every((series) => series.low.every((v) => !v) && series.high.every((v) => !v));

function emptyNote(panels) {
  const names = (has) => panels.filter((panel) => panel.series.some((series) => series.middle.some((v) => v !== null)) === has).map((panel) => panel.title).join(', ');
  const [zero, none] = [names(true), names(false)];
  return smallPrint([zero ? `Zero throughout: ${zero}` : null, none ? `Without a value: ${none}` : null]);
}

function makeSection(data, section) {
  const written = document.getElementById(section.id); /* by C, for readers without script: its cards come here */
  const own = [...(written?.querySelectorAll(':scope > .card') ?? []), ...(section.make?.(data) || [])].filter(Boolean);
  const panels = (section.groups || []).flatMap((group) => data.panels.filter((panel) => panel.group === group && panel.series.length));
  const charts = panels.filter((panel) => !isEmpty(panel)).map((panel) => panelCards(data, panel));
  const cards = section.is_first ? [...own, ...charts] : [...charts, ...own];
  const note = emptyNote(panels.filter(isEmpty));
  if (!cards.length && !note) return null;
  written?.remove();
  fillRows(cards);
  if (note) cards.push(h('div', { class: 'wide' }, note));
  return h('section', { id: section.id, 'aria-labelledby': `${section.id}-title` }, h('h2', { id: `${section.id}-title`, tabindex: -1 }, section.title), h('div', { class: 'grid' }, cards));
}

/* Two cards per row: a single one takes the whole row. */
function fillRows(cards) {
  let alone = null;
  for (const card of [...cards, null]) {
    const is_wide = !card || card.classList.contains('wide');
    if (alone && is_wide) alone.classList.add('wide');
    alone = is_wide || alone ? null : card;
  }
}

function goTo(id) {
  const node = document.getElementById(id);
  if (!node) return;
  node.scrollIntoView({ behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
  (node.querySelector('h2') || node).focus({ preventScroll: true });
}

function makeNavigation(sections) {
  const links = sections.map((section) => h('li', {}, h('a', { href: `#${section.id}` }, section.querySelector('h2').textContent)));
  return h('nav', { 'aria-label': 'Sections', class: 'sections' }, h('ul', {}, links));
}

/* The hash holds the range: links within the page must not overwrite it. */
function catchLinks() {
  document.addEventListener('click', (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (!link) return;
    event.preventDefault();
    goTo(link.getAttribute('href').slice(1));
  });
}

function makeButtons(data) {
  const scheme = button('', { title: 'Light or dark' }, () => {
    setTheme(isDark() ? 'light' : 'dark');
    name();
    writeHash();
    redrawAll();
  });
  const name = () => { scheme.textContent = isDark() ? 'Light' : 'Dark'; };
  name();
  const file = `infprof-${(data.report.run || 'run').slice(0, 13)}.json`;
  return h('div', { class: 'top-buttons' }, scheme, button('Raw data', { title: `Save all figures of this page as ${file}` },
    () => saveText(document.getElementById('data').textContent, file, 'application/json')));
}

function main() {
  readPalette();
  const data = readData();
  beginView(data);
  catchLinks();
  const page = document.getElementById('page');
  const overview = new Overview(data);
  const functions = document.getElementById('functions');
  const sections = SECTIONS.map((section) => makeSection(data, section)).filter(Boolean);
  document.querySelector('header.top')?.append(makeButtons(data));
  document.querySelector('header.top')?.after(makeNavigation([...document.querySelectorAll('main > section:not(#functions)'), functions, ...sections].filter(Boolean)));
  const help = h('details', { class: 'help' }, h('summary', {}, 'How to move in the charts'), h('p', { id: 'chart-help' },
    'Drag to zoom; drag with shift, or on the time axis, to move; double click shows all. Ctrl and wheel, or two fingers, zoom. Keys: arrows move the cursor (shift: faster), + and − zoom, page up and down move, 0 or Escape shows all, T opens the table. The address keeps the range.'));
  append(page, [overview.node, data.is_downsampled ? h('p', { class: 'sampled' }, `${number(data.n)} steps of ${duration(data.step_ms)}, out of samples each ${duration(data.sampled_ms)}: lines are means, bands show minimum to maximum.`) : null,
    (data.notes || []).map((note) => h('p', { class: 'sampled' }, note)), help, functions, sections, live]); /* functions: beside the strip of time */
  makeFunctions(functions);
  document.documentElement.classList.add('scripted');
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readPalette(); redrawAll(); });
  beginPrint();
  rangeChanged();
}

main();

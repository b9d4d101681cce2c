/* Everything that no other section shows: a small chart of each metric that moved, and the table of all. Made when it is opened. */

function moreSection(data) {
  const panels = data.panels.filter((panel) => panel.group === 'all' && panel.series.length);
  const metrics = Object.entries(data.report.metrics || {}).map(([name, metric]) => ({ name, ...metric }));
  return [panels.length ? folded(`${panels.length} more charts`, (words) => h('div', { class: 'small-charts' }, panels.filter((panel) => matches(panel.title, words)).map((panel) =>
    new SeriesChart(data, { panel, compact: true, level: 4, height: 104 }).card))) : null,
  metrics.length ? folded(`Table of all ${metrics.length} metrics`, (words) => metricsTable(metrics.filter((metric) => matches(metric.name, words)))) : null];
}

const matches = (name, words) => words.every((word) => name.toLowerCase().includes(word));

/* A part that is closed at first, with a field to filter by name. */
function folded(title, make) {
  const body = h('div', {});
  const fill = () => {
    for (const stage of body.querySelectorAll('.stage')) stage.plot.end();
    body.replaceChildren(make(field.value.toLowerCase().split(/\s+/).filter(Boolean)));
  };
  const field = h('input', { type: 'search', placeholder: 'part of a name', 'aria-label': `${title}: part of a name`, oninput: fill });
  const node = h('details', { class: 'card wide folded', ontoggle: () => { if (node.open && !body.hasChildNodes()) fill(); } }, h('summary', {}, h('h3', {}, title)), field, body);
  return node;
}

function metricsTable(metrics) {
  const value = (name, key) => ({ name, unit: '', of: (metric) => metric[key] ?? null, show: (v, metric) => show(v, metric.unit === 'ratio' && !metric.is_share ? '' : metric.unit) });
  return tableOf('All metrics', [textColumn('metric', (metric) => metric.name), value('mean', 'mean'), value('std', 'std'), value('min', 'min'), value('max', 'max'),
    { name: 'total', unit: '', of: (metric) => metric.total ?? null, show: (v, metric) => (v === null ? '–' : show(v, metric.unit.replace(/\/s$/, ''))) },
    { name: 'samples', of: (metric) => metric.n, show: (v) => number(v) }, textColumn('quality', (metric) => metric.quality)], metrics);
}

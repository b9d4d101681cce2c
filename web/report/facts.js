/* Facts in words: what was absent and why, the cost of recording, machine and command. */

/* Folds a long list of names. */
function reasonText(text) {
  const end = text.length > 320 ? text.lastIndexOf(' ', 240) : -1;
  return end < 0 ? text : h('div', {}, text.slice(0, end), h('details', {}, h('summary', {}, 'more'), text.slice(end + 1)));
}

/* Columns with the same reason are one row. */
function absencesTable(absent) {
  const rows = new Map();
  for (const a of absent) {
    const key = [a.collector, a.instance, a.state, a.reason, a.fix].join('\u0000');
    if (!rows.has(key)) rows.set(key, { ...a, columns: [] });
    if (a.column && a.column !== '*') rows.get(key).columns.push(a.column);
  }
  const what = (row) => h('div', {}, h('strong', {}, [row.collector, row.instance].filter(Boolean).join(' ')),
    row.columns.length ? h('div', { class: 'absent-columns' }, row.columns.slice(0, 6).join(', '), row.columns.length > 6 ? h('details', {}, h('summary', {}, `and ${row.columns.length - 6} more`), row.columns.slice(6).join(', ')) : null) : null);
  return h('div', { class: 'card wide' }, tableOf('What was absent', [textColumn('source', what), textColumn('state', (row) => h('span', { class: `state ${row.state}` }, row.state)),
    textColumn('why', (row) => reasonText(row.reason ?? 'not known')), textColumn('fix', (row) => row.fix ?? '–')], [...rows.values()], { class: 'words' }));
}

function absencesSection(data) {
  const { absent, broken } = data.report;
  return [(broken || []).length ? h('p', { class: 'notice wide' }, broken.map((one) => `Table ${one.table_name} cannot be read: ${one.reason}`).join(' ')) : null,
    absent?.length ? absencesTable(absent) : null];
}

function factsList(rows) {
  return h('dl', { class: 'facts' }, rows.filter(([, v]) => v !== null && v !== undefined && v !== '').map(([name, v, title]) => h('div', { class: v instanceof Node ? 'wide' : null, title }, h('dt', {}, name), h('dd', {}, v))));
}

function costCard(data) {
  const self = data.report.self || {};
  const n_lost = (self.rows_dropped || 0) + (self.rows_lost || 0), lost = n_lost > 0 ? `${number(n_lost)} rows were lost` : null;
  return h('div', { class: 'card' }, h('h3', {}, 'The recorder'), lost ? h('p', { class: 'notice' }, lost) : null, factsList([
    ['CPU time', `${show(self.cpu_s, 's')} (${show(self.cpu_percent_of_a_core, '%')} of a core)`], ['Peak memory', show(self.rss_max_bytes, 'bytes')],
    ['Rows', number(self.rows)], ['Rows lost', number(n_lost)], ['Written', show(self.bytes_written, 'bytes')], ['Errors', number(self.errors)],
    ['Samples', `${number(self.ticks)}, ${number(self.ticks_missed)} missed`],
    ['Late by', `${show(self.tick_late_mean_ms, 'ms')} on average, peak ${show(self.tick_late_max_ms, 'ms')}`]]));
}

function runCard(data) {
  const { report } = data;
  return h('div', { class: 'card' }, h('h3', {}, 'The run'), factsList([
    ['Command', report.command ? h('code', {}, report.command) : null], ['Began', `${day(data.start_ms)} ${clock(data.start_ms, 1000)}`], ['Took', report.wall_s === undefined ? null : duration(report.wall_s * 1000)],
    ['State', report.state], ['Exit code', report.exit_code === null || report.exit_code === undefined ? null : String(report.exit_code)], ['Sampled every', duration(data.sampled_ms)],
    ['Shown', data.is_downsampled ? `in steps of ${duration(data.step_ms)}: lines are means, bands show minimum to maximum` : 'every sample'],
    ['Run', report.run ? h('code', {}, report.run) : null], ['Host', report.host],
    ['Time zone', Intl.DateTimeFormat().resolvedOptions().timeZone || 'of this browser'], ['Page made by', data.made_by]]));
}

function machineText(path, value) {
  if (typeof value !== 'number') return String(value);
  if (/Bytes$|^vCpuCache /.test(path)) return show(value, 'bytes');
  if (/^vTime(Offset|MaxError)$/.test(path)) return show(value / (path === 'vTimeOffset' ? 1e9 : 1e6), 's');
  return /BootTime$/.test(path) ? `${day(value * 1000)} ${clock(value * 1000, 1000)}` : String(value);
}

/* The static record of the machine: groups of names and values. */
function machineCard(machine) {
  const rows = [];
  const walk = (value, path) => {
    if (value === null || value === undefined || rows.length > 150) return;
    if (Array.isArray(value) && value.every((v) => typeof v !== 'object')) rows.push([path, value.join(', ')]);
    else if (typeof value === 'object') for (const [key, v] of Object.entries(value)) walk(v, path ? `${path} ${key}` : key);
    else rows.push([path, machineText(path, value)]);
  };
  walk(machine.host ? { ...machine.host, ...machine, host: null } : machine, '');
  return rows.length ? wideCard('The machine', factsList(rows.map(([path, text]) => [path.split(' ').map(wordsOf).join(' '), text, path]))) : null;
}

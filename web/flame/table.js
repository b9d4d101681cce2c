/* Functions as a table, for numbers and for screen readers; rows lead to callers and callees. */

const PAGE = 200;
const COLUMNS = [
  { id: 'name', title: 'Function', text: (fn) => model.functions.name[fn] },
  { id: 'self', title: 'Self', sum: 'self', help: `Samples in the function itself${facts.has_waits ? '; those that waited in the kernel count for the innermost function outside it' : ''}` },
  { id: 'total', title: 'Total', sum: 'total', help: 'Samples in the function or what it called, each once' },
  { id: 'change', title: 'Change', isBase: true, help: 'Of the share of all samples, from before (the older run) to after, in percentage points; grey: not significant (95 %)' },
  { id: 'object', title: 'Object', text: (fn) => model.functions.object[fn] },
  { id: 'place', title: 'Source', text: whereOf },
  { id: 'kind', title: 'Kind', text: kindText },
];

class Table {
  constructor() {
    this.body = h('tbody', {});
    this.heads = h('tr', {});
    this.note = h('p', { class: 'note' });
    this.more = button('', {}, () => { this.limit += PAGE * 5; this.fill(); });
    this.node = h('section', { id: 'table', class: 'table', 'aria-label': 'Functions', hidden: true },
      h('p', { class: 'table-head' }, this.note, button('Save as CSV', {}, () => this.save())),
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Functions, scrollable' }, h('table', {}, h('thead', {}, this.heads), this.body)), this.more);
    this.limit = PAGE;
    this.columns = COLUMNS.filter((column) => !column.isBase || facts.has_base);
  }

  valueOf(column, fn) {
    if (column.text) return column.text(fn);
    if (column.id === 'change') return this.sums.total[fn] / this.all - this.sums.beforeTotal[fn] / (facts.base_samples || 1);
    return measureOf({ ...this.sums, totalWeight: this.sums.totalWeight, selfWeight: this.sums.selfWeight }, column.sum)[fn];
  }

  rows() {
    const { n } = model.functions;
    const found = [];
    for (let fn = 0; fn < n; fn++)
      if (!model.functions.isGroup[fn] && (this.sums.total[fn] || this.sums.beforeTotal?.[fn]) && (!search.matched || search.matched[fn])) found.push(fn);
    const column = this.columns.find((one) => one.id === view.sort) ?? this.columns[1], sign = view.isUp ? 1 : -1;
    const values = new Map(found.map((fn) => [fn, this.valueOf(column, fn)]));
    if (column.text) return found.sort((a, b) => (values.get(a) === values.get(b) ? a - b : (values.get(a) < values.get(b) ? -1 : 1) * (view.isUp ? -1 : 1)));
    if (column.id === 'change' && !view.isUp) return found.sort((a, b) => Math.abs(values.get(b)) - Math.abs(values.get(a)) || a - b);
    return found.sort((a, b) => sign * (values.get(a) - values.get(b)) || this.sums.total[b] - this.sums.total[a] || a - b);
  }

  update() {
    const key = [made.source, search.query, view.sort, view.isUp, view.measure, view.normalised].join();
    if (this.key === key) return;
    this.key = key;
    this.sums = functionSums();
    this.all = sourceTree().total[0] || 1;
    this.limit = PAGE;
    this.head();
    this.fill();
  }

  head() {
    const ways = { self: 'samples', total: 'samples', change: 'points' };
    this.heads.replaceChildren(...this.columns.map((column) => {
      const isSorted = column.id === view.sort;
      const sort = button(column.title, { title: column.help }, () => change({ sort: column.id, isUp: isSorted ? !view.isUp : false }));
      return h('th', { scope: 'col', class: column.text ? column.id : `number ${column.id}`, 'aria-sort': isSorted ? (view.isUp !== Boolean(column.text) ? 'ascending' : 'descending') : 'none' }, sort,
        isSorted ? h('span', { class: 'arrow', 'aria-hidden': 'true' }, view.isUp !== Boolean(column.text) ? '▲' : '▼') : null, ways[column.id] ? h('small', {}, ways[column.id]) : null);
    }));
  }

  fill() {
    this.found = this.rows();
    this.body.replaceChildren(...this.found.slice(0, this.limit).map((fn) => this.row(fn)));
    const left = this.found.length - this.limit;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show more (${number(left)} left)`;
    this.note.textContent = this.found.length ? `${number(this.found.length)} ${this.found.length === 1 ? 'function' : 'functions'} of ${samplesText(this.all)}; the ranges are 95 % intervals. Click a name for callers and callees.` : 'No function matches.';
  }

  row(fn) {
    return h('tr', {}, this.columns.map((column) => {
      if (column.id === 'name') return h('th', { scope: 'row', class: 'name' }, h('span', { class: 'name-cell' }, this.swatch(fn), button(model.functions.name[fn].slice(0, 500), { title: 'Callers and callees', class: 'link' }, () => openSandwich(fn))));
      if (column.id === 'change') return this.changeCell(fn);
      if (column.text) return h('td', { class: column.id }, column.text(fn));
      const samples = this.sums[column.sum][fn], value = this.valueOf(column, fn), whole = measureOf(sourceTree(), 'total')[0];
      return h('td', { class: `number ${column.id}` }, h('span', { class: 'share', css: { '--share-of': `${whole ? (value / whole) * 100 : 0}%` } }, h('b', {}, percent(value, whole)),
        h('span', { class: 'range' }, intervalText(sourceTree(), samples, this.sums[`${column.sum}Weight`]?.[fn]))), h('span', { class: 'samples' }, view.measure === 'weight' ? weightText(value) : number(samples)));
    }));
  }

  swatch(fn) {
    const kind = model.functions.kind[fn];
    return h('span', { class: 'swatch', title: facts.classes[kind], css: { '--color': palette.frames.kind[kind * SHADES + 4] } });
  }

  changeCell(fn) {
    const points = this.valueOf({ id: 'change' }, fn) * 100;
    const step = changeStep(this.sums.total[fn], this.all, this.sums.beforeTotal[fn], facts.base_samples, true);
    return h('td', { class: `number change ${step > 0 ? 'more' : step < 0 ? 'less' : 'same'}` }, h('b', {}, signed(points)), h('span', { class: 'samples' }, `before ${percent(this.sums.beforeTotal[fn], facts.base_samples)}`));
  }

  save() {
    const quote = (v) => (/[",\n\r]/.test(v) || /^[=+\-@\t]/.test(v) ? `"${/^[=+\-@\t]/.test(v) ? "'" : ''}${String(v).replaceAll('"', '""')}"` : v);
    const heads = ['function', 'object', 'file', 'line', 'kind', 'self_samples', 'self_percent', 'self_percent_low', 'self_percent_high', 'total_samples', 'total_percent', 'total_percent_low', 'total_percent_high',
      ...(facts.has_base ? ['before_self_samples', 'before_total_samples'] : [])];
    const { functions } = model, share = (k, weight) => [k, ((measureOf({ k, kWeight: weight, totalWeight: this.sums.totalWeight }, 'k') / measureOf(sourceTree(), 'total')[0]) * 100).toFixed(3), ...intervalOf(sourceTree(), k, weight).map((v) => v.toFixed(3))];
    const lines = this.found.map((fn) => [quote(functions.name[fn]), quote(functions.object[fn]), quote(functions.file[fn]), functions.line[fn] || '', facts.classes[functions.kind[fn]],
      ...share(this.sums.self[fn], this.sums.selfWeight?.[fn]), ...share(this.sums.total[fn], this.sums.totalWeight?.[fn]), ...(facts.has_base ? [this.sums.before[fn], this.sums.beforeTotal[fn]] : [])].join(','));
    saveText(`${[heads.join(','), ...lines].join('\n')}\n`, 'functions.csv', 'text/csv');
  }
}

/* The table behind a chart: for screen readers, for reading exact values, for a spreadsheet. It shows the range of the chart and is
 * made when it is opened. */

const ROWS_AT_ONCE = 200;

class Twin {
  constructor(plot) {
    this.plot = plot;
    this.is_open = false;
    this.rows_shown = ROWS_AT_ONCE;
    this.button = button('Table', { 'aria-expanded': 'false', title: 'Show as table' }, () => this.toggle());
    plot.tools.append(this.button);
    this.node = h('div', { class: 'twin', hidden: true });
    plot.card.append(this.node);
    this.changed = coalesce(() => { if (this.is_open) this.fill(); });
  }

  toggle() {
    this.is_open = !this.is_open;
    this.node.hidden = !this.is_open;
    this.button.setAttribute('aria-expanded', String(this.is_open));
    if (this.is_open) this.fill();
    say(this.is_open ? `Table of ${this.plot.options.title}` : 'Table closed');
  }

  /* Time columns, unless the chart's rows have none. */
  columns() {
    const time = { name: 'time', is_text: true, of: (i) => clock(view.start + i * view.step, view.step) };
    const since = { name: 'since start', unit: 's', of: (i) => (i * view.step) / 1000, show: (v) => number(v) };
    return [...(this.plot.has_own_time ? [] : [time, since]), ...this.plot.columns()];
  }

  fill() {
    const rows = this.plot.tableRows();
    const columns = this.columns();
    const shown = rows.slice(0, this.rows_shown);
    for (const column of columns) {
      column.scale = column.is_text || column.show ? null : scaleOf(column.unit, largest(shown, column));
      column.title = column.scale?.name ? `${column.name}, ${column.scale.name}` : column.unit && column.show ? `${column.name}, ${column.unit}` : column.name;
    }
    const left = rows.length - shown.length;
    this.node.replaceChildren(
      h('div', { class: 'twin-tools' },
        button('Copy as CSV', {}, () => this.copy()),
        button('Save as CSV', {}, () => this.save()),
        left > 0 ? button(`Show ${number(left)} more rows`, {}, () => { this.rows_shown = Infinity; this.fill(); }) : null),
      tableOf(this.plot.options.title, columns, shown));
  }

  /* Base units and all digits; an absent value is an empty cell. */
  csv() {
    const columns = this.columns();
    const head = columns.map((column) => csvCell(column.unit ? `${column.name} (${column.unit})` : column.name)).join(',');
    return [head, ...this.plot.tableRows().map((row) => columns.map((column) => csvCell(column.of(row))).join(','))].join('\r\n') + '\r\n';
  }

  save() { saveText(this.csv(), `${slug(this.plot.options.title)}.csv`, 'text/csv'); }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.csv());
      say('Copied');
    } catch { /* no clipboard for this page */
      this.save();
    }
  }
}

function largest(rows, column) {
  let high = 0;
  for (const row of rows) high = Math.max(high, Math.abs(column.of(row) ?? 0));
  return high;
}

const textColumn = (name, of) => ({ name, is_text: true, of });

/* columns: { title or name, is_text, of(row), show(value) }. A cell may be a node. */
function tableOf(caption, columns, rows, attributes) {
  const cell = (column, row, i) => {
    const v = column.of(row);
    const text = v instanceof Node ? v : column.show ? column.show(v, row) : column.is_text ? v ?? '–' : column.scale
      ? v === null || v === undefined ? '–' : number(v / column.scale.factor, fixedDigits(v / column.scale.factor)) : show(v, column.unit);
    return h(i === 0 ? 'th' : 'td', { scope: i === 0 ? 'row' : null, class: column.is_text ? null : 'number' }, text);
  };
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `Table: ${caption}` },
    h('table', { ...attributes }, h('caption', { class: 'hidden' }, caption),
      h('thead', {}, h('tr', {}, columns.map((column) => h('th', { scope: 'col', class: column.is_text ? null : 'number' }, column.title ?? column.name)))),
      h('tbody', {}, rows.map((row) => h('tr', {}, columns.map((column, i) => cell(column, row, i)))))));
}

const fixedDigits = (v) => (v === 0 || Number.isInteger(v) ? 0 : Math.abs(v) >= 100 ? 1 : Math.abs(v) >= 1 ? 2 : undefined);

/* A spreadsheet must not read a text as a formula. */
function csvCell(v) {
  if (v === null || v === undefined) return '';
  if (typeof v === 'number') return String(v);
  const text = /^[=+\-@\t\r]/.test(v) && !/^[-+]?[\d:.]+$/.test(v) ? `'${v}` : String(v);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const slug = (text) => text.replace(/[^A-Za-z0-9]+/g, '-').replace(/^-|-$/g, '').toLowerCase() || 'chart';

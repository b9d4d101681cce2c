/* One time range and one cursor for all charts. Both are ms since start_ms. The range and the choices of the reader are kept in the
 * hash of the address, so that a link or a reload shows the same. */

const view = {
  from: 0, to: 1, total: 1, step: 1, start: 0, smallest: 1,
  cursor: null, is_elapsed: false, band: null, /* the selected span */
  plots: [], sparks: [], onrange: [],
};

function beginView(data) {
  Object.assign(view, { total: data.total_ms, to: data.total_ms, step: data.step_ms, start: data.start_ms });
  view.smallest = data.spans.length ? Math.min(0.01, data.total_ms) : Math.min(data.step_ms * 4, data.total_ms);
  readHash();
  addEventListener('hashchange', () => { readHash(); rangeChanged(); });
}

function readHash() {
  const hash = new URLSearchParams(location.hash.slice(1));
  const [from, to] = [Number(hash.get('from')), Number(hash.get('to') ?? NaN)];
  if (Number.isFinite(from) && Number.isFinite(to) && to > from) [view.from, view.to] = bounded(from, to);
  else [view.from, view.to] = [0, view.total];
  view.is_elapsed = hash.get('axis') === 'elapsed';
  setTheme(hash.get('theme'));
}

function writeHash() {
  const hash = new URLSearchParams();
  const digits = view.to - view.from < 1000 ? 3 : 0;
  if (isZoomed()) {
    hash.set('from', String(Number(view.from.toFixed(digits))));
    hash.set('to', String(Number(view.to.toFixed(digits))));
  }
  if (view.is_elapsed) hash.set('axis', 'elapsed');
  if (theme.name) hash.set('theme', theme.name);
  try {
    history.replaceState(null, '', hash.size ? `#${hash}` : location.pathname + location.search);
  } catch { /* some viewers of files forbid it: the page works without */ }
}
const writeHashSoon = (() => { let timer = 0; return () => { clearTimeout(timer); timer = setTimeout(writeHash, 120); }; })();

const isZoomed = () => view.from > 0 || view.to < view.total;

/* The range, moved and grown so that it lies in the recording and is not too small. */
function bounded(from, to) {
  const width = Math.min(view.total, Math.max(view.smallest, to - from));
  const middle = (from + to) / 2;
  const start = Math.min(view.total - width, Math.max(0, middle - width / 2));
  return [start, start + width];
}

function setRange(from, to) {
  [view.from, view.to] = bounded(from, to);
  writeHashSoon();
  rangeChanged();
}
const resetRange = () => setRange(0, view.total);
const panBy = (ms) => {
  const by = Math.min(view.total - view.to, Math.max(-view.from, ms));
  setRange(view.from + by, view.to + by);
};

/* factor < 1 comes nearer; the moment `at` stays where it is. */
function zoomBy(factor, at = view.cursor ?? (view.from + view.to) / 2) {
  const width = Math.min(view.total, Math.max(view.smallest, (view.to - view.from) * factor));
  const share = (at - view.from) / (view.to - view.from);
  const from = Math.min(view.total - width, Math.max(0, at - width * share));
  setRange(from, from + width);
}

const rangeChanged = coalesce(() => {
  for (const plot of view.plots) plot.changed();
  for (const f of view.onrange) f();
});

const cursorMoved = coalesce(() => { for (const plot of view.plots) plot.cursorMoved(); });
function setCursor(t) {
  view.cursor = t === null ? null : Math.min(view.total, Math.max(0, t));
  cursorMoved();
}

/* Shades a span through all charts; null takes it away. */
function setBand(band) {
  view.band = band;
  rangeChanged();
}

function rangeText() {
  const [from, to] = [view.start + view.from, view.start + view.to];
  return `${clock(from, view.step)} – ${day(from) === day(to) ? '' : `${day(to)} `}${clock(to, view.step)} · ${duration(to - from)}`;
}

/* Keys that change the range, wherever it is shown. */
const rangeKeys = {
  '+': () => zoomBy(0.5), '=': () => zoomBy(0.5), '-': () => zoomBy(2), _: () => zoomBy(2), 0: resetRange,
  PageUp: () => panBy((view.from - view.to) / 2), PageDown: () => panBy((view.to - view.from) / 2),
};

/* true: it was one of them */
function doRangeKey(key) {
  if (!rangeKeys[key]) return false;
  rangeKeys[key]();
  say(`Shows ${rangeText()}`);
  return true;
}

/* '10:41:40.2 (+0:12.2)' */
function momentText(t) {
  const step = Math.min(view.step, (view.to - view.from) / 200);
  return `${clock(view.start + t, step)} (${elapsed(t, step)})`;
}

/* The recording, and lookups in its series. A bucket i covers [i, i + 1) * step_ms since start_ms. */

/* Requests and spans come by column, which takes a third of the bytes. */
function requestRows(requests) {
  if (!requests) return [];
  const { t, ttft, e2e, tokens, ok, load, failure, loads, failures } = requests;
  return t.map((at, i) => ({ t: at, ttft: ttft[i], e2e: e2e[i], tokens: tokens[i], ok: ok[i] === 1, load: loads[load[i]],
    failure: ok[i] === null ? 'cut off' : failure[i] === null ? null : failures[failure[i]] }));
}

function spanRows(spans) {
  if (!spans) return [];
  const { t, d, lane, depth, id, parent, name, status, attributes, names, states } = spans;
  return t.map((at, i) => ({ t: at, d: d[i], lane: lane[i], depth: depth[i], id: id[i], parent: parent[i], name: names[name[i]],
    status: states[status[i]], attributes: attributes[i] }));
}

function readData() {
  // Marks that turn text around would let a name read as another.
  const data = JSON.parse(document.getElementById('data').textContent.replace(/[\u202a-\u202e\u2066-\u2069]/g, '\ufffd'));
  data.requests = requestRows(data.requests);
  data.spans = spanRows(data.spans);
  for (const key of ['panels', 'processes', 'marks', 'lanes', 'gaps']) data[key] = data[key] || [];
  data.report = data.report || {};
  data.total_ms = Math.max(data.n * data.step_ms, 1);
  for (const panel of data.panels) {
    panel.limits = panel.limits || [];
    panel.series = (panel.series || []).map((series, i) => prepareSeries(series, i));
  }
  return data;
}

function prepareSeries(series, i) {
  series.low = series.min || series.v || [];
  series.high = series.max || series.v || [];
  series.middle = series.mean || series.v || series.high;
  series.is_band = Boolean(series.min && series.max);
  series.color = i;
  series.is_hidden = false;
  series.reach = usualDistance(series.middle) * 1.5;
  return series;
}

/* Buckets from one value to the next, as most are: a source slower than the grid has holes that are no gaps. */
function usualDistance(values) {
  const seen = new Map();
  let last = -1;
  for (let i = 0; i < values.length; i++) {
    if (values[i] === null) continue;
    if (last >= 0) seen.set(i - last, (seen.get(i - last) || 0) + 1);
    last = i;
  }
  let best = 1, most = 0;
  for (const [distance, times] of seen) if (times > most || (times === most && distance > best)) [best, most] = [distance, times];
  return best;
}

/* The bucket that holds the value of this moment: its own, or the nearest within the usual distance; -1: none. */
function bucketAt(series, t, step_ms) {
  const at = Math.floor(t / step_ms);
  const values = series.middle;
  for (let away = 0; away <= series.reach / 2; away++) {
    if (values[at - away] !== null && values[at - away] !== undefined) return at - away;
    if (values[at + away] !== null && values[at + away] !== undefined) return at + away;
  }
  return -1;
}

/* { low, high, mean } of the buckets that touch [from, to); null without a value. */
function summary(series, from, to, step_ms) {
  let low = Infinity, high = -Infinity, sum = 0, n = 0;
  const end = Math.min(series.middle.length, Math.ceil(to / step_ms));
  for (let i = Math.max(0, Math.floor(from / step_ms)); i < end; i++) {
    if (series.middle[i] === null) continue;
    low = Math.min(low, series.low[i]);
    high = Math.max(high, series.high[i]);
    const weight = series.weight ? series.weight[i] : 1;
    sum += series.middle[i] * weight;
    n += weight;
  }
  return n ? { low, high, mean: sum / n, n } : null;
}

const isEstimated = (series) => series.quality === 'estimated';

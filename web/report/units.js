/* Numbers, units and times for people. Data is in base units; what is shown is scaled so that the largest has one to four digits. */

const BINARY = [[1, 'B'], [1024, 'KiB'], [1024 ** 2, 'MiB'], [1024 ** 3, 'GiB'], [1024 ** 4, 'TiB'], [1024 ** 5, 'PiB']];
const SCALES = {
  bytes: BINARY,
  s: [[1e-9, 'ns'], [1e-6, 'µs'], [1e-3, 'ms'], [1, 's'], [60, 'min'], [3600, 'h']],
  W: [[1e-3, 'mW'], [1, 'W'], [1e3, 'kW']],
  J: [[1e-3, 'mJ'], [1, 'J'], [1e3, 'kJ'], [1e6, 'MJ']],
  Hz: [[1, 'Hz'], [1e3, 'kHz'], [1e6, 'MHz'], [1e9, 'GHz']],
  '': [[1, ''], [1e3, 'k'], [1e6, 'M'], [1e9, 'G']],
};
/* Other names of units, and how many base units they are. */
const SAME = {
  seconds: [1, 's'], watts: [1, 'W'], joules: [1, 'J'], hertz: [1, 'Hz'], celsius: [1, '°C'], C: [1, '°C'], count: [1, ''], ratio: [100, '%'],
  cs: [0.01, 's'], ms: [1e-3, 's'], us: [1e-6, 's'], ns: [1e-9, 's'], MiB: [2 ** 20, 'bytes'], sectors: [512, 'bytes'], uJ: [1e-6, 'J'], mJ: [1e-3, 'J'], MHz: [1e6, 'Hz'],
};

/* { factor, name }: value / factor is shown with the name. `largest` is the largest that is shown beside it. */
function scaleOf(unit, largest) {
  const [first, ...rest] = (unit ?? '').split('/');
  const [size, base] = SAME[first] ?? [1, first];
  const per = rest.length ? `/${rest.join('/')}` : '';
  const [step, name] = stepOf(base, per, Math.abs(largest * size));
  return { factor: step / size, name };
}

function stepOf(base, per, largest) {
  if (base === 's' && per === '/s') return [1, 'CPUs'];
  if (base === 'J' && per === '/s') return stepOf('W', '', largest);
  if (base === '%' || base === '°C' || (!(SCALES[base] && base) && largest < 1e4)) return [1, base + per];
  const steps = SCALES[base] ?? SCALES[''];
  let step = steps.findLast((s) => largest >= s[0] * 0.9995) ?? (largest ? steps[0] : steps.find((s) => s[0] === 1));
  if (base === 's' && step[0] === 60 && largest < 180) step = [1, 's'];
  return [step[0], SCALES[base] ? step[1] + per : `${step[1]} ${base}${per}`];
}

/* Three digits that count, or all before the point. `digits` fixes those after it. */
function number(v, digits) {
  if (v === null || v === undefined || !Number.isFinite(v)) return '–';
  const size = Math.abs(v);
  const n = digits ?? (size >= 100 || v === 0 || Number.isInteger(v) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : Math.min(9, 2 - Math.floor(Math.log10(size))));
  let text = v.toFixed(n);
  if (digits === undefined && n > 0) text = text.replace(/\.?0+$/, '');
  const [whole, part] = text.split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',').replace(/^-/, '−');
  return part ? `${grouped}.${part}` : grouped;
}

/* '1.2 GiB'; a value that is not there is a dash. */
function show(v, unit) {
  if (v === null || v === undefined || !Number.isFinite(v)) return '–';
  const scale = scaleOf(unit, v);
  return scale.name ? `${number(v / scale.factor)} ${scale.name}` : number(v);
}

/* 'low … high unit', or one value where both are the same. */
function showRange(low, high, unit) {
  if (low === null || high === null || low === high) return show(low ?? high, unit);
  const scale = scaleOf(unit, Math.max(Math.abs(low), Math.abs(high)));
  const [a, b] = [number(low / scale.factor), number(high / scale.factor)];
  return a === b ? show(high, unit) : `${a} … ${b}${scale.name ? ' ' + scale.name : ''}`;
}

/* Round values for about `count` lines between low and high. */
function niceTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0)) return { step: 1, ticks: [low] };
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((m) => m * power >= rough * 0.999) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return { step, ticks };
}

/* Digits after the point that a step needs. */
function digitsOf(step) {
  for (let n = 0; n < 9; n++) if (Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-6 * 10 ** n * step) return n;
  return 9;
}

const TIME_STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4,
  6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5];

/* Moments (ms since start_ms) on round times of the wall clock, or of the recording. */
function timeTicks(from, to, count, start_ms, is_elapsed) {
  const step = TIME_STEPS.find((s) => s >= (to - from) / Math.max(1, count)) ?? TIME_STEPS.at(-1);
  const zone = is_elapsed ? 0 : start_ms - new Date(start_ms).getTimezoneOffset() * 60000;
  const shift = ((zone % step) + step) % step;
  const ticks = [];
  for (let t = Math.ceil((from + shift) / step) * step - shift; t <= to; t += step) ticks.push(t);
  return { step, ticks };
}

/* Digits of a second. */
const fraction = (step) => (step >= 1e3 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : step >= 1 ? 3 : 6);
const two = (n) => String(Math.floor(n)).padStart(2, '0');

/* Local time of day; digits of a second as the step needs. */
function clock(unix_ms, step) {
  const at = new Date(Math.floor(unix_ms));
  let text = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (step < 6e4) text += `:${two(at.getSeconds())}`;
  if (step < 1e3) text += ((unix_ms % 1000) / 1000).toFixed(fraction(step)).slice(1);
  return text;
}

function day(unix_ms) {
  const at = new Date(unix_ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/* '1:02:03', '0:04.5': time since the start. */
function elapsed(ms, step) {
  const sign = ms < 0 ? '−' : '+';
  const size = Math.abs(ms) + 1e-9;
  const digits = fraction(step);
  const seconds = ((size / 1000) % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, '0');
  const minutes = Math.floor(size / 6e4) % 60;
  const hours = Math.floor(size / 36e5);
  return `${sign}${hours ? `${hours}:${two(minutes)}` : minutes}:${seconds}`;
}

/* '1 h 2 min', '3.5 s', '12 ms' */
function duration(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 60000) return show(ms / 1000, 's');
  const minutes = Math.round(ms / 1000) / 60;
  if (minutes < 60) return [`${Math.floor(minutes)} min`, Math.round((minutes % 1) * 60) ? ` ${Math.round((minutes % 1) * 60)} s` : ''].join('');
  return `${Math.floor(minutes / 60)} h${Math.round(minutes % 60) ? ` ${Math.round(minutes % 60)} min` : ''}`;
}

/* Drawing on a canvas whose box is { left, top, width, height } in CSS pixels. */

const xOf = (box, t) => box.left + ((t - view.from) / (view.to - view.from)) * box.width;
const tOf = (box, x) => view.from + ((x - box.left) / box.width) * (view.to - view.from);
const yOf = (box, range, v) => box.top + box.height * (1 - (v - range.low) / (range.high - range.low));

/* A canvas of so many CSS pixels, empty. */
function beginCanvas(canvas, width, height, ratio) {
  const [w, t] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== t) [canvas.width, canvas.height] = [w, t];
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return c;
}

function textStyle(c, align, baseline, font = palette.font) {
  [c.font, c.textAlign, c.textBaseline] = [font, align, baseline];
}

function drawTimeAxis(c, box) {
  const { step, ticks } = timeTicks(view.from, view.to, box.width / 90, view.start, view.is_elapsed);
  textStyle(c, 'center', 'top');
  c.lineWidth = 1;
  let free = box.left - 40;
  for (const t of ticks) {
    const x = Math.round(xOf(box, t)) + 0.5;
    c.strokeStyle = palette.grid;
    line(c, x, box.top, x, box.top + box.height);
    const text = view.is_elapsed ? elapsed(t, step) : clock(view.start + t, step);
    const half = c.measureText(text).width / 2;
    if (x - half < Math.max(0, free) || x + half > box.left + box.width + box.right) continue;
    c.fillStyle = palette.soft;
    c.fillText(text, x, box.top + box.height + 6);
    free = x + half + 8;
  }
  c.strokeStyle = palette.axis;
  line(c, box.left, box.top + box.height + 0.5, box.left + box.width, box.top + box.height + 0.5);
}

function line(c, x0, y0, x1, y1) {
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1, y1);
  c.stroke();
}

/* { low, high, ticks, texts } for values up to `high`; the card has the unit, the texts are plain numbers. */
function valueAxis(low, high, unit, lines, top) {
  if (!(high > low)) [low, high] = low === 0 || !Number.isFinite(low) ? [0, 1] : low > 0 ? [0, low] : [low, 0];
  const scale = scaleOf(unit, Math.max(Math.abs(low), Math.abs(high)));
  const wanted = niceTicks(low / scale.factor, high / scale.factor, lines);
  const end = top === undefined ? Math.ceil(high / scale.factor / wanted.step - 1e-9) * wanted.step : top / scale.factor;
  const start = Math.floor(low / scale.factor / wanted.step + 1e-9) * wanted.step;
  const { step, ticks } = niceTicks(start, top === undefined ? end : high / scale.factor, lines);
  const digits = digitsOf(step);
  return {
    low: start * scale.factor, high: end * scale.factor, scale,
    ticks: ticks.map((v) => v * scale.factor), texts: ticks.map((v) => number(Math.abs(v) < step / 1e6 ? 0 : v, digits)),
  };
}

function drawValueAxis(c, box, range) {
  textStyle(c, 'right', 'middle');
  c.lineWidth = 1;
  range.ticks.forEach((v, i) => {
    const y = Math.round(yOf(box, range, v)) + 0.5;
    c.strokeStyle = palette.grid;
    line(c, box.left, y, box.left + box.width, y);
    c.fillStyle = palette.soft;
    c.fillText(range.texts[i], box.left - 7, y);
  });
}

/* The points of a series in the range: { x, low, high, middle } of a bucket, or of a pixel where several buckets share it. Where a
 * value is missing a null stands, which breaks the line. */
function pointsOf(box, series) {
  const { step } = view;
  const first = Math.max(0, Math.floor(view.from / step - series.reach) - 1);
  const end = Math.min(series.middle.length, Math.ceil(view.to / step + series.reach) + 1);
  const is_dense = (view.to - view.from) / step > box.width;
  const points = [];
  let last = -1, open = null, sum = 0, n = 0;
  for (let i = first; i < end; i++) {
    if (series.middle[i] === null) continue;
    if (last >= 0 && i - last > series.reach) {
      points.push(null);
      open = null;
    }
    last = i;
    const x = xOf(box, (i + 0.5) * step);
    if (is_dense && open && Math.floor(x) === Math.floor(open.x)) {
      open.low = Math.min(open.low, series.low[i]);
      open.high = Math.max(open.high, series.high[i]);
      sum += series.middle[i];
      open.middle = sum / ++n;
      continue;
    }
    open = { x, low: series.low[i], high: series.high[i], middle: series.middle[i] };
    [sum, n] = [series.middle[i], 1];
    points.push(open);
  }
  return points;
}

/* Runs of points without a hole. */
function runsOf(points) {
  const runs = [[]];
  for (const point of points) point ? runs.at(-1).push(point) : runs.push([]);
  return runs.filter((run) => run.length);
}

function drawSeries(c, box, range, series, kind) {
  const color = colorOf(series.color);
  const y = (v) => yOf(box, range, v);
  for (const run of runsOf(pointsOf(box, series))) {
    if (run.some((p) => p.high > p.low)) {
      c.globalAlpha = 0.22;
      c.fillStyle = color;
      c.beginPath();
      run.forEach((p, i) => (i ? c.lineTo(p.x, y(p.high)) : c.moveTo(p.x, y(p.high))));
      for (let i = run.length - 1; i >= 0; i--) c.lineTo(run[i].x, y(run[i].low));
      c.fill();
    }
    if (kind === 'area' && run.length > 1) {
      c.globalAlpha = 0.13;
      c.fillStyle = color;
      c.beginPath();
      c.moveTo(run[0].x, y(Math.max(0, range.low)));
      for (const p of run) c.lineTo(p.x, y(p.middle));
      c.lineTo(run.at(-1).x, y(Math.max(0, range.low)));
      c.fill();
    }
    c.globalAlpha = 1;
    strokeRun(c, run, (p) => y(p.middle), color, isEstimated(series));
  }
}

/* A line, or a dot for a value that stands alone. */
function strokeRun(c, run, yOfPoint, color, is_dashed) {
  c.strokeStyle = c.fillStyle = color;
  c.lineWidth = 1.6;
  c.lineJoin = 'round';
  if (run.length === 1) {
    c.beginPath();
    c.arc(run[0].x, yOfPoint(run[0]), 2.2, 0, 7);
    c.fill();
    return;
  }
  c.setLineDash(is_dashed ? [5, 4] : []);
  c.beginPath();
  run.forEach((p, i) => (i ? c.lineTo(p.x, yOfPoint(p)) : c.moveTo(p.x, yOfPoint(p))));
  c.stroke();
  c.setLineDash([]);
}

/* Series stacked by their means. A series without a value adds nothing; a hole where none has a value. */
function drawStack(c, box, range, all) {
  const { step } = view;
  const end = Math.min(Math.max(...all.map((s) => s.middle.length)), Math.ceil(view.to / step) + 1);
  const first = Math.max(0, Math.floor(view.from / step) - 1);
  const every = Math.max(1, Math.floor((view.to - view.from) / step / (box.width * 2)));
  const below = new Float64Array(end - first);
  for (const series of all) {
    const run = [];
    const flush = () => {
      if (run.length) fillRun(c, box, range, run, series);
      run.length = 0;
    };
    let last = -1;
    for (let i = first; i < end; i++) {
      const v = series.middle[i];
      if (v === null || v === undefined) continue;
      if (last >= 0 && i - last > series.reach) flush();
      last = i;
      if ((i - first) % every === 0 || every === 1) run.push({ x: xOf(box, (i + 0.5) * step), base: below[i - first], middle: below[i - first] + v });
      below[i - first] += v;
    }
    flush();
  }
}

function fillRun(c, box, range, run, series) {
  const y = (v) => yOf(box, range, v);
  c.globalAlpha = 0.35;
  c.fillStyle = colorOf(series.color);
  c.beginPath();
  run.forEach((p, i) => (i ? c.lineTo(p.x, y(p.middle)) : c.moveTo(p.x, y(p.middle))));
  for (let i = run.length - 1; i >= 0; i--) c.lineTo(run[i].x, y(run[i].base));
  c.fill();
  c.globalAlpha = 1;
  strokeRun(c, run, (p) => y(p.middle), colorOf(series.color), isEstimated(series));
}

const limitText = (limit, unit) => `${limit.name} ${show(limit.value, unit)}`;

/* Dashed lines with names; a limit above the chart is named at its upper edge. */
function drawLimits(c, box, range, limits, unit, has_names) {
  c.font = palette.font;
  c.textAlign = 'right';
  let above = 0;
  for (const limit of limits) {
    if (limit.value === null) continue;
    c.fillStyle = c.strokeStyle = palette.limit;
    const text = limitText(limit, unit);
    if (limit.value > range.high) {
      if (!has_names) continue;
      c.textBaseline = 'top';
      c.fillText(`↑ ${text}`, box.left + box.width - 4, box.top + 3 + 14 * above++);
      continue;
    }
    const y = Math.round(yOf(box, range, limit.value)) + 0.5;
    c.setLineDash([7, 4]);
    c.lineWidth = 1.3;
    line(c, box.left, y, box.left + box.width, y);
    c.setLineDash([]);
    if (!has_names) continue;
    c.textBaseline = y - box.top < 16 ? 'top' : 'bottom';
    outlined(c, text, box.left + box.width - 4, y + (y - box.top < 16 ? 3 : -2));
  }
}

/* Text that stays readable over lines. */
function outlined(c, text, x, y) {
  c.lineWidth = 3;
  c.lineJoin = 'round';
  const color = c.fillStyle;
  c.strokeStyle = palette.card;
  c.strokeText(text, x, y);
  c.fillStyle = color;
  c.fillText(text, x, y);
}

/* Stretches without samples: hatched, with the reason where there is room for it. */
function drawGaps(c, box, gaps) {
  for (const gap of gaps) {
    if (gap.to < view.from || gap.from > view.to) continue;
    const x0 = Math.max(box.left, xOf(box, gap.from));
    const x1 = Math.max(x0 + 2, Math.min(box.left + box.width, xOf(box, gap.to)));
    c.save();
    c.beginPath();
    c.rect(x0, box.top, x1 - x0, box.height);
    c.clip();
    c.strokeStyle = palette.gap;
    c.lineWidth = 1;
    c.beginPath();
    for (let x = x0 - box.height - (x0 % 7); x < x1; x += 7) {
      c.moveTo(x, box.top + box.height);
      c.lineTo(x + box.height, box.top);
    }
    c.stroke();
    c.font = palette.font;
    if (c.measureText(gap.reason).width + 12 < x1 - x0) {
      c.textAlign = 'center';
      c.textBaseline = 'middle';
      c.fillStyle = palette.soft;
      outlined(c, gap.reason, (x0 + x1) / 2, box.top + box.height / 2);
    }
    c.restore();
  }
}

/* The selected span, behind all else. */
function drawBand(c, box) {
  const band = view.band;
  if (!band || band.to < view.from || band.from > view.to) return;
  const [x0, x1] = [Math.max(box.left, xOf(box, band.from)), Math.min(box.left + box.width, xOf(box, band.to))];
  c.fillStyle = palette.band;
  c.fillRect(x0, box.top, Math.max(1, x1 - x0), box.height);
}

/* Marks as lines, or as ticks if there are many; tags where they do not overlap. */
function drawMarks(c, box, all, has_tags) {
  const marks = all.filter((mark) => mark.t >= view.from && mark.t <= view.to);
  const height = marks.length * 10 > box.width ? 5 : box.height;
  textStyle(c, 'left', 'top');
  let free = -Infinity;
  for (const mark of marks) {
    const x = Math.round(xOf(box, mark.t)) + 0.5;
    c.strokeStyle = palette.mark;
    c.lineWidth = 1;
    c.setLineDash([2, 3]);
    line(c, x, box.top, x, box.top + height);
    c.setLineDash([]);
    if (!has_tags || x < free || height < box.height) continue;
    const text = shorten(c, mark.tag, 110);
    const { width } = c.measureText(text), is_left = x + 3 + width > box.left + box.width; /* of its line, where there is no room */
    if (is_left && x - 3 - width < free) continue;
    c.fillStyle = palette.mark;
    outlined(c, text, is_left ? x - 3 - width : x + 3, box.top + 2);
    free = is_left ? x : x + width + 12;
  }
}

/* Cut to a width in pixels, with an ellipsis. */
function shorten(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (c.measureText(text.slice(0, middle) + '…').width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? text.slice(0, low) + '…' : '';
}

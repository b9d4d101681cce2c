/* Text that fits into frames. Widths of ASCII characters are measured once: measuring each name would be the slowest part of
 * drawing. */

const widths = { font: '', of: new Float32Array(128) };
const wide = new Map(); /* names that are not ASCII */

function measureFont(context) {
  if (widths.font === palette.font) return;
  widths.font = palette.font;
  context.font = palette.font;
  for (let c = 32; c < 127; c++) widths.of[c] = context.measureText(String.fromCharCode(c).repeat(20)).width / 20;
  widths.dots = context.measureText('…').width;
  wide.clear();
}

/* The longest beginning of a text that is at most so wide, in characters; all: text.length. */
function fitting(context, text, room) {
  let used = 0, last = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c > 126) return fittingWide(context, text, room);
    used += widths.of[c];
    if (used <= room - widths.dots) last = i + 1;
    if (used > room) return last;
  }
  return text.length;
}

function fittingWide(context, text, room) {
  const short = text.slice(0, 400);
  if (wide.size > 20000) wide.clear();
  if (!wide.has(short)) wide.set(short, context.measureText(short).width);
  if (wide.get(short) <= room) return short.length === text.length ? text.length : short.length - 1;
  let low = 0, high = short.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(short.slice(0, middle)).width <= room - widths.dots) low = middle; else high = middle - 1;
  }
  /* Not within a pair of surrogates. */
  return low && short.charCodeAt(low - 1) >= 0xd800 && short.charCodeAt(low - 1) < 0xdc00 ? low - 1 : low;
}

/* The text of a frame of this width; '' if it is too narrow. */
function fitText(context, name, room) {
  let n = fitting(context, name, room);
  if (n === name.length) return name;
  const short = shortName(name);
  if (short !== name) n = fitting(context, short, room);
  if (n === short.length) return short;
  return n < 2 ? '' : `${short.slice(0, n)}…`;
}

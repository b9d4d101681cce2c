/* Zooms and searches when the picture is opened by itself. It touches only its own picture, as a page may hold several. */

const root = document.currentScript.closest('svg');
const SVG = 'http://www.w3.org/2000/svg', LETTER = 6.65;
const width = root.viewBox.baseVal.width - 20;
const frames = [...root.querySelectorAll('.frames > g')].map((node) => {
  const rect = node.querySelector('rect');
  const w = parseFloat(rect.getAttribute('width'));
  return { node, rect, x: parseFloat(rect.getAttribute('x')), w: w > 1.5 ? w + 0.5 : w, depth: Math.abs(parseFloat(/ (-?\d+)/.exec(node.getAttribute('transform'))[1])),
    name: node.querySelector('title').textContent.split('\n')[0], text: node.querySelector('text') };
});
const byNode = new Map(frames.map((frame) => [frame.node, frame]));
let zoomed = frames[0];

function label(frame, w) {
  const letters = Math.floor((w - 6) / LETTER);
  if (letters < 3) { frame.text?.remove(); frame.text = null; return; }
  if (!frame.text) {
    frame.text = document.createElementNS(SVG, 'text');
    frame.text.setAttribute('y', 12.5);
    frame.node.append(frame.text);
  }
  const name = frame.name.length <= letters ? frame.name : shortName(frame.name);
  const characters = [...name.slice(0, 600)];
  frame.text.textContent = characters.length <= letters ? name : `${characters.slice(0, letters - 1).join('')}…`;
}

function zoom(to) {
  zoomed = to;
  const scale = width / to.w;
  for (const frame of frames) {
    const isWay = frame.depth < to.depth && frame.x <= to.x + 0.01 && frame.x + frame.w >= to.x + to.w - 0.01;
    const x0 = Math.max(0, (frame.x - to.x) * scale), x1 = Math.min(width, (frame.x + frame.w - to.x) * scale);
    const isOff = !isWay && (frame.depth < to.depth || x1 - x0 < 0.3);
    frame.node.classList.toggle('off', isOff);
    frame.node.classList.toggle('way', isWay);
    if (isOff) continue;
    frame.rect.setAttribute('x', x0.toFixed(2));
    frame.rect.setAttribute('width', Math.max(0.3, x1 - x0 > 2 ? x1 - x0 - 0.5 : x1 - x0).toFixed(2));
    label(frame, x1 - x0);
    frame.text?.setAttribute('x', (x0 + 3).toFixed(1));
  }
  reset.setAttribute('visibility', to === frames[0] ? 'hidden' : 'visible');
}

/* A match above a match is not counted again. */
function search(text) {
  let matches = null;
  if (text) {
    const pattern = text.length > 1 && /^\/(.+?)\/?(i?)$/.exec(text);
    try {
      const expression = pattern && new RegExp(pattern[1], pattern[2]);
      const low = text.toLowerCase();
      matches = (name) => (expression ? expression.test(name) : name.toLowerCase().includes(low));
    } catch { found.textContent = 'not a regular expression'; }
  }
  const hits = [];
  for (const frame of frames) {
    const is = Boolean(matches && frame !== frames[0] && matches(frame.name));
    frame.node.classList.toggle('match', is);
    if (is) hits.push(frame);
  }
  root.classList.toggle('searched', Boolean(matches));
  if (!matches) { if (!text) found.textContent = ''; return; }
  hits.sort((a, b) => a.x - b.x || a.depth - b.depth);
  let sum = 0, end = -1;
  for (const hit of hits) if (hit.x >= end - 0.005) { sum += hit.w; end = hit.x + hit.w; }
  found.textContent = `${hits.length} ${hits.length === 1 ? 'frame matches' : 'frames match'}: ${((sum / frames[0].w) * 100).toFixed(1)} %`;
}

function act(text, right, f) {
  const node = document.createElementNS(SVG, 'text');
  node.textContent = text;
  node.setAttribute('class', 'act');
  node.setAttribute('x', width + 10 - right);
  node.setAttribute('y', 26);
  node.setAttribute('tabindex', 0);
  node.setAttribute('role', 'button');
  node.addEventListener('click', f);
  node.addEventListener('keydown', (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); f(); } });
  root.append(node);
  return node;
}

const ask = () => {
  const text = prompt('Search names; /…/ is a regular expression', ask.text ?? '');
  if (text !== null) { ask.text = text; search(text.trim()); }
};
const reset = act('Reset zoom', 70, () => zoom(frames[0]));
act('Search', 0, ask);
reset.setAttribute('visibility', 'hidden');
const found = document.createElementNS(SVG, 'text');
found.setAttribute('class', 'found');
found.setAttribute('x', width + 10);
found.setAttribute('y', 46);
root.append(found);
root.classList.add('scripted');
root.addEventListener('click', (event) => {
  const frame = byNode.get(event.target.closest?.('.frames > g'));
  if (frame) zoom(frame);
});
root.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape') zoom(frames[0]);
  else if (event.key === '/') { event.preventDefault(); ask(); }
});

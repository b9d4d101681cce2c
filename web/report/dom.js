/* Nodes out of data: text is always a text node, so that no name of a process can become markup. */

function setAttributes(node, attributes) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'css') for (const [name, v] of Object.entries(value)) node.style.setProperty(name, v);
    else node.setAttribute(key, value === true ? '' : String(value));
  }
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== false)
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return node;
}

/* h('p', { class: 'note', onclick: f, css: { width: '3px' } }, 'text', node, ...) */
function h(tag, attributes, ...children) {
  return append(setAttributes(document.createElement(tag), attributes), children);
}

function button(text, attributes, onclick) {
  return h('button', { type: 'button', onclick, ...attributes }, text);
}

/* A line of small print from the parts that exist. */
function smallPrint(...parts) {
  const found = parts.flat().filter(Boolean);
  return found.length ? h('p', { class: 'note' }, found.join(' · ')) : null;
}

const wideCard = (title, ...children) => h('div', { class: 'card wide' }, h('h3', {}, title), children);

/* A button that is down or up. */
function toggle(text, isOn, onchange, attributes) {
  const node = button(text, { 'aria-pressed': String(isOn), ...attributes }, () => {
    const now = node.getAttribute('aria-pressed') !== 'true';
    node.setAttribute('aria-pressed', String(now));
    onchange(now);
  });
  return node;
}

/* Announcements for screen readers; only the last within a moment, so that a held key does not flood them. */
const live = h('div', { class: 'hidden', role: 'status', 'aria-live': 'polite' });
let liveTimer = 0;
function say(text) {
  clearTimeout(liveTimer);
  liveTimer = setTimeout(() => { live.textContent = text; }, 150);
}

/* Gives a text to the reader as a file, without a request. */
function saveText(text, name, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/* Many calls in one frame become one. */
function coalesce(f) {
  let is_due = false;
  return () => {
    if (is_due) return;
    is_due = true;
    requestAnimationFrame(() => { is_due = false; f(); });
  };
}

/* Where the graph is: on a page of its own, or a part of another page, which calls all this as a function with `host`: { root, page, styled,
 * facts, packed, tableHeight }. There it lies in a shadow root, has no hash and no strip of time, and keeps room for the table. */

const isAlone = !host;
const at = host ?? {
  root: document, page: document.getElementById('page'), styled: document.documentElement, tableHeight: 0,
  facts: document.getElementById('facts').textContent, packed: document.getElementById('packed').textContent,
};

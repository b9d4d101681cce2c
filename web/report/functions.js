/* Functions and their flame graph in the shown time: the cards of C, one at a time where there are several modes. The graph is that of
 * `infprof flamegraph` (web/flame), within a shadow root, so that neither page's style reaches the other. */

const TABLE_HEIGHT = 250;

/* The buckets of the graph that the shown range touches; null: all. */
function bucketsOf(facts, from, range) {
  const each = (facts.seconds * 1000) / facts.buckets;
  const first = Math.max(0, Math.floor((range.from - from) / each + 1e-6)), end = Math.min(facts.buckets, Math.ceil((range.to - from) / each - 1e-6));
  if (first >= facts.buckets || end <= 0) return [];
  return first === 0 && end === facts.buckets ? null : [first, Math.max(first + 1, end)];
}

class CodePanel {
  constructor(card) {
    this.card = card;
    this.place = card.querySelector('.code');
    this.from = Number(this.place.dataset.from);
    this.range = h('p', { class: 'range', role: 'status' });
    this.frame = h('div', { class: 'code-frame' });
    this.place.append(this.range, this.frame, h('p', { class: 'note' }, this.place.dataset.note));
    new IntersectionObserver((entries, observer) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      this.open();
    }, { rootMargin: '400px' }).observe(card);
  }

  async open() {
    const { mode } = this.place.dataset, root = this.frame.attachShadow({ mode: 'open' });
    const page = h('main', {}, 'Unpacking…');
    root.append(document.getElementById('code-style').content.cloneNode(true), page);
    this.graph = await flameGraph({
      root, page, styled: this.frame, tableHeight: TABLE_HEIGHT, scheme: theme.name ?? '',
      facts: document.getElementById(`code-facts-${mode}`).textContent, packed: document.getElementById(`code-packed-${mode}`).textContent,
    });
    if (!this.graph) return; /* it says why; the tables stay */
    this.card.querySelector('.plain').hidden = true;
    this.update();
  }

  update() {
    if (!this.graph) return;
    const { facts } = this.graph, times = bucketsOf(facts, this.from, view), isEmpty = times?.length === 0;
    const key = `${times} ${theme.name}`;
    this.frame.hidden = isEmpty;
    if (!isEmpty && key !== this.key) {
      this.key = key;
      this.graph.show(times, theme.name ?? '');
    }
    const each = (facts.seconds * 1000) / facts.buckets, [first, end] = times ?? [0, facts.buckets];
    const at = (bucket) => clock(view.start + this.from + bucket * each, Math.min(each, 1000));
    this.range.textContent = isEmpty ? 'No stacks were taken in the shown time.'
      : times ? `${at(first)} – ${at(end)}: ${number(this.graph.samples())} samples.`
        : `The whole time: ${number(this.graph.samples())} samples. Drag on the strip of time, or in a chart, to see a part.`;
  }
}

function makeFunctions(section) {
  const cards = [...(section?.querySelectorAll('.card') ?? [])];
  const panels = cards.filter((card) => card.querySelector('.code')).map((card) => new CodePanel(card));
  if (!panels.length) return;
  view.onrange.push(() => { for (const panel of panels) panel.update(); });
  if (cards.length < 2) return;
  const buttons = cards.map((card) => button(card.querySelector('h3').textContent.replace(/^Functions /, ''), {}, () => choose(card)));
  const choose = (shown) => cards.forEach((card, i) => {
    card.hidden = card !== shown;
    buttons[i].setAttribute('aria-pressed', String(card === shown));
  });
  section.querySelector('h2').after(h('div', { class: 'buttons modes', role: 'group', 'aria-label': 'What the functions are by' }, buttons));
  choose(cards[0]);
}

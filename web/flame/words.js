/* Numbers of a profile in words. */

function percent(k, n) {
  if (!(n > 0)) return '–';
  const share = (k / n) * 100;
  if (share === 0) return '0 %';
  return `${share >= 99.95 || share >= 10 ? share.toFixed(1).replace(/\.0$/, '') : share >= 0.095 ? share.toFixed(1) : share >= 0.01 ? share.toFixed(2) : '<0.01'} %`;
}

const unitOf = () => ({ seconds: 's', bytes: 'bytes' }[facts.unit] ?? facts.unit ?? '');
const hasUnit = () => Boolean(facts.unit) && facts.unit !== 'samples' && facts.weight > 0;
const weightText = (weight) => show(weight, unitOf());
const samplesText = (n) => `${number(Math.round(n * 1000) / 1000)} ${n === 1 ? 'sample' : 'samples'}`;
const weightOf = (samples, weight) => (weight === null || weight === undefined ? (facts.samples ? (samples * facts.weight) / facts.samples : 0) : weight);

/* The interval of a share of the tree. If weights differ, by the effective number of samples (Kish). */
function intervalOf(tree, samples, weight) {
  if (facts.effective_samples === null) { /* exact */
    const share = view.measure !== 'weight' || !tree.totalWeight ? samples / (tree.total[0] || 1) : weight / (tree.totalWeight[0] || 1);
    return [100 * share, 100 * share];
  }
  if (view.measure !== 'weight' || !tree.totalWeight) return interval(samples, tree.total[0]);
  const n = (facts.effective_samples * tree.total[0]) / (facts.samples || 1);
  return interval(Math.round((n * weight) / (tree.totalWeight[0] || 1)), Math.round(n)); /* rounded as `--top` does */
}

/* '11.2–13.5 %' */
function intervalText(tree, samples, weight) {
  const [low, high] = intervalOf(tree, samples, weight);
  const digits = high - low < 0.2 ? 2 : 1;
  return `${low.toFixed(digits)}–${high.toFixed(digits)} %`;
}

const nameOf = (tree, i) => (tree.fn[i] < 0 ? 'all' : model.functions.name[tree.fn[i]]);

function whereOf(fn) {
  const file = model.functions.file[fn], line = model.functions.line[fn];
  return file ? (line ? `${file}:${line}` : file) : line ? `line ${line}` : '';
}

function kindText(fn) {
  const { functions } = model;
  if (functions.isGroup[fn]) return 'no function';
  const guessed = functions.guessed[fn] ? `guessed in ${samplesText(functions.guessed[fn])}: no unwind table there` : '';
  return [functions.kind[fn] === facts.constants.guessed_class ? '' : facts.classes[functions.kind[fn]], guessed, functions.isInlined[fn] ? 'inlined' : '',
    functions.isUnnamed[fn] ? 'no symbol' : ''].filter(Boolean).join(', ');
}

/* [label, text] of what a node has; `within` is the node that is zoomed to. */
function factsOf(tree, i, within = 0) {
  const all = sourceTree();
  const rows = [];
  const amount = (samples, weight) => (hasUnit() ? `${samplesText(samples)}, ${weightText(weightOf(samples, weight))}` : samplesText(samples));
  rows.push(['Total', `${amount(tree.total[i], tree.totalWeight?.[i])}`]);
  rows.push(['Of all', `${percent(measureOf(tree, 'total')[i], measureOf(all, 'total')[0])} (95 % interval ${intervalText(all, tree.total[i], tree.totalWeight?.[i])})`]);
  if (within || view.page === 'sandwich') rows.push([`Of ${nameOf(tree, within).slice(0, 40)}`, percent(tree.total[i], tree.total[within])]);
  rows.push(['Self', `${amount(tree.self[i], tree.selfWeight?.[i])}, ${percent(measureOf(tree, 'self')[i], measureOf(all, 'total')[0])}`]);
  if (tree.before) {
    rows.push(['Before', `${samplesText(tree.beforeTotal[i])}, ${percent(tree.beforeTotal[i], facts.base_samples)}`]);
    rows.push(['Change', changeWords(tree, i, all)]);
  }
  return rows;
}

function changeWords(tree, i, all) {
  const step = changeStep(tree.total[i], all.total[0], tree.beforeTotal[i], facts.base_samples, isNormalised());
  const difference = isNormalised() ? `${signed((tree.total[i] / (all.total[0] || 1) - tree.beforeTotal[i] / (facts.base_samples || 1)) * 100)} percentage points`
    : `${signed(tree.total[i] - tree.beforeTotal[i])} samples`;
  return step === 0 ? `${difference}: not significant` : difference;
}

const signed = (v) => `${v > 0 ? '+' : v < 0 ? '−' : ''}${number(Math.round(Math.abs(v) * 100) / 100)}`;

/* Root first, one a line, without the root itself; of the callers of a function the other way round. */
function stackOf(pane, i) {
  const names = [];
  for (let p = i; p > 0; p = pane.tree.parent[p]) names.push(nameOf(pane.tree, p));
  if (view.page === 'sandwich') names.push(nameOf(pane.tree, 0));
  const isLeafFirst = view.page === 'sandwich' ? pane.isUp : view.isReversed || facts.reversed;
  return (isLeafFirst ? names : names.reverse()).join('\n');
}

async function copyText(text, what) {
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    /* From a file, or without the permission. */
    const area = h('textarea', { class: 'hidden', 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    const focused = document.activeElement;
    area.select();
    isCopied = document.execCommand('copy');
    area.remove();
    focused?.focus();
  }
  notify(isCopied ? `Copied ${what}` : 'The browser does not let this page copy');
}

let noticeTimer = 0;
function notify(text) {
  const node = at.root.getElementById('notice');
  node.textContent = text;
  node.classList.add('on');
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => node.classList.remove('on'), 2000);
  say(text);
}

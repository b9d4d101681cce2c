/* Colours of frames come from C (facts.light, facts.dark), those of the page from flame.css; canvases ask here. */

const facts = JSON.parse(at.facts);
const { shades: SHADES, steps: STEPS } = facts.constants;
const MATCH = -1, ROOT = -2;
const THEMES = { kind: 'By kind', hot: 'Hot', cold: 'Cold', rainbow: 'Rainbow', mono: 'Monochrome', heat: 'Heat (self time)' };
const palette = {};

const darkRule = [...at.root.styleSheets].flatMap((sheet) => [...sheet.cssRules])
  .find((rule) => rule instanceof CSSMediaRule && rule.media.mediaText.includes('prefers-color-scheme'));
const systemsChoice = darkRule?.media.mediaText;
const isDark = () => matchMedia(darkRule?.media.mediaText ?? 'not all').matches;

/* 'light', 'dark' or 'paper'; anything else: the system's choice. */
function setScheme(name) {
  if (darkRule) darkRule.media.mediaText = name === 'dark' ? 'screen' : name === 'light' || name === 'paper' ? 'not all' : systemsChoice;
  readPalette();
}

function readPalette() {
  const style = getComputedStyle(at.styled);
  for (const name of ['text', 'soft', 'ground', 'card', 'edge', 'accent', 'sliver', 'on-frame', 'root', 'match', 'on-match', 'veil', 'band', 'bar'])
    palette[name] = style.getPropertyValue(`--${name}`).trim();
  palette.font = `12px ${style.getPropertyValue('--font').trim()}`;
  palette.frames = isDark() ? facts.dark : facts.light;
}

/* A step of change from less to more, 0 if not significant; as infp_flame_change_step of src/view/flame/palette.c. Both are tested with
 * tests/fixtures/flame/change_steps.tsv. */
function changeStep(k, n, before, beforeN, isNormalised) {
  const scale = isNormalised && beforeN ? n / beforeN : 1;
  const then = before * scale, larger = Math.max(k, then);
  if (larger <= 0 || Math.abs(k - then) <= 1.959964 * Math.sqrt(k + then * scale)) return 0;
  const share = (k - then) / larger;
  return Math.sign(share) * Math.ceil(Math.sqrt(Math.abs(share)) * STEPS - 1e-9);
}

/* Number of a frame's colour in colorList(). */
function colorOf(tree, i) {
  const fn = tree.fn[i];
  if (tree.before) return STEPS + changeStep(tree.total[i], tree.total[0], tree.beforeTotal[i], facts.base_samples, isNormalised());
  if (fn < 0) return ROOT;
  if (view.theme === 'heat') return heatOf(fn);
  return (view.theme === 'kind' ? model.functions.kind[fn] * SHADES : 0) + model.functions.shade[fn];
}
/* By the self time of the function in the shown tree, over all its frames. */
function heatOf(fn) {
  const sums = functionSums();
  const share = (100 * measureOf(sums, 'self')[fn]) / measureOf(sourceTree(), 'total')[0];
  const heat = facts.heats.findIndex((above) => share > above);
  return heat < 0 ? facts.heats.length - 1 : heat;
}

const colorList = () => (facts.has_base ? palette.frames.change : palette.frames[view.theme]);

/* The legend: [text, colour, title]. Shares are self shares by kind, in the measure of the widths. */
function legendOf(tree) {
  if (facts.has_base) {
    const text = (step) => (step === 0 ? 'no significant change' : step === STEPS ? `more: ${changeText(step)} or new` : step === -STEPS ? `less: ${changeText(step)} or gone` : changeText(step));
    return [-STEPS, -4, -3, 0, 3, 4, STEPS].map((step) => [text(step), palette.frames.change[STEPS + step], stepTitle(step)]);
  }
  if (view.theme === 'heat') return facts.heats.map((above, heat) => [above ? `self time above ${above} %` : 'less', palette.frames.heat[heat], 'Of the function, in all its frames']);
  if (view.theme !== 'kind') return [];
  const own = new Float64Array(facts.classes.length);
  const self = measureOf(tree, 'self'), all = measureOf(tree, 'total')[0], what = self === tree.self ? 'samples were taken' : `${facts.unit} were spent`;
  for (let i = 1; i < tree.n; i++) own[model.functions.kind[tree.fn[i]]] += self[i];
  const seen = new Set(model.functions.kind.filter((_, fn) => !model.functions.isGroup[fn]));
  return facts.classes.map((name, kind) => [name, palette.frames.kind[kind * SHADES + 4], `${percent(own[kind], all)} of ${what} in ${name} code`, own[kind], kind])
    .filter(([, , , , kind]) => seen.has(kind)).map(([name, color, title, own_]) => [own_ ? `${name} ${percent(own_, all)}` : name, color, title]);
}

/* The least relative change of a step: (step - 1)² / 25. */
const changeText = (step) => `${step > 0 ? '+' : '−'}${Math.round((((Math.abs(step) - 1) / STEPS) ** 2) * 100)} %`;
const stepTitle = (step) => (step ? `${step > 0 ? 'More' : 'Fewer'} samples than before, by at least ${Math.round((((Math.abs(step) - 1) / STEPS) ** 2) * 100)} % of the larger number, and too many for chance (95 %)`
  : 'The number of samples is about the same, or the difference may be chance (95 %)');

/* Colours come from report.css alone; canvases ask it. The choice of light or dark lives in the hash of the address. */

const palette = {};

function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  Object.assign(palette, {
    text: of('--text'), soft: of('--soft'), grid: of('--grid'), axis: of('--axis'), card: of('--card'), limit: of('--limit'), mark: of('--mark'),
    gap: of('--gap'), bad: of('--bad'), accent: of('--accent'), band: of('--band'),
    series: Array.from({ length: 8 }, (_, i) => of(`--c${i}`)),
    heat: Array.from({ length: 6 }, (_, i) => of(`--heat${i}`)),
    font: `11px ${of('--font')}`, bold: `600 11px ${of('--font')}`,
  });
}

const colorOf = (i) => palette.series[i % palette.series.length];

/* The rule of the dark scheme: its condition decides, so that each colour is written once. */
const darkRule = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
  .find((rule) => rule instanceof CSSMediaRule && rule.media.mediaText.includes('prefers-color-scheme'));
const systemsChoice = darkRule?.media.mediaText;
const theme = { name: null }; /* light, dark, paper; null: as the system */

const isDark = () => matchMedia(darkRule?.media.mediaText ?? 'not all').matches;

function setTheme(name) {
  theme.name = ['light', 'dark', 'paper'].includes(name) ? name : null;
  if (darkRule) darkRule.media.mediaText = theme.name === 'dark' ? 'screen' : theme.name ? 'not all' : systemsChoice;
  readPalette();
}

/* Between the six colours of the heat map; share is 0..1. */
function heatColor(share) {
  const at = Math.min(0.9999, Math.max(0, share)) * (palette.heat.length - 1);
  const [a, b] = [rgb(palette.heat[Math.floor(at)]), rgb(palette.heat[Math.floor(at) + 1])];
  return a.map((v, i) => Math.round(v + (b[i] - v) * (at % 1)));
}

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

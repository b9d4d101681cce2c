/* Paper: all charts are drawn, in light colours, for the width of a page. */

const PAPER = { half: 335, whole: 690, ratio: 3 };

function beginPrint() {
  addEventListener('beforeprint', () => {
    document.documentElement.classList.add('paper');
    readPalette();
    for (const plot of view.plots) {
      const is_wide = plot.card.classList.contains('wide');
      plot.stage.style.width = `${is_wide ? PAPER.whole : plot.options.compact ? PAPER.half * 0.62 : PAPER.half}px`;
      plot.draw(PAPER.ratio);
    }
    for (const canvas of view.sparks) drawSpark(canvas, PAPER.ratio);
  });
  addEventListener('afterprint', () => {
    document.documentElement.classList.remove('paper');
    readPalette();
    for (const plot of view.plots) plot.stage.style.width = '';
    redrawAll();
  });
}

function redrawAll() {
  rangeChanged();
  for (const canvas of view.sparks) if (canvas.is_seen) drawSpark(canvas);
}

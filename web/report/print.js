/* Paper: all charts are drawn, in light colours, for the width of a page. */

const PAPER = { small: 210, half: 335, whole: 690, ratio: 3 };

function beginPrint() {
  let chosen = null;
  addEventListener('beforeprint', () => {
    chosen = theme.name;
    setTheme('paper');
    for (const plot of view.plots) {
      const width = plot.card.classList.contains('wide') ? PAPER.whole : plot.options.compact ? PAPER.small : PAPER.half;
      plot.draw(PAPER.ratio, width, parseFloat(plot.stage.style.height));
    }
    for (const canvas of view.sparks) drawSpark(canvas, PAPER.ratio);
  });
  addEventListener('afterprint', () => {
    setTheme(chosen);
    redrawAll();
  });
}

function redrawAll() {
  rangeChanged();
  for (const canvas of view.sparks) if (canvas.is_seen) drawSpark(canvas);
}

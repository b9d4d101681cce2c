/* Paper: light, as tall as the graph is, up to a page. */

function beginPrint() {
  addEventListener('beforeprint', () => {
    setScheme('paper');
    graph.stage.style.setProperty('height', `${Math.min(graph.rows * ROW, 50 * ROW)}px`);
    render();
    graph.shown = graph.rangesWanted();
    graph.draw();
  });
  addEventListener('afterprint', () => {
    setScheme(view.scheme);
    graph.stage.style.removeProperty('height');
    render();
  });
}

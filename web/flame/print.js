/* Paper: light, as tall as the graph is, up to a page. */

function beginPrint() {
  addEventListener('beforeprint', () => {
    setScheme('paper');
    render();
    ROW = 18;
    graph.filler.style.setProperty('height', `${graph.rows * ROW}px`);
    graph.stage.style.setProperty('height', `${Math.min(graph.rows, 50) * ROW}px`);
    graph.known = null;
    graph.shown = graph.rangesWanted();
    graph.draw();
  });
  addEventListener('afterprint', () => {
    setScheme(view.scheme);
    graph.isResized = true;
    render();
  });
}

// Body of the calculator figure's js_on_load: `element`, `props` and `watch` come from gradio.
const plot = element.querySelector(".calculator-plot");
const STACKED_BELOW_PX = 720;
const GAP = 0.12;
let drawnWidth = 0;

const isStacked = () => element.clientWidth < STACKED_BELOW_PX;
const css = (name) => getComputedStyle(element).getPropertyValue(name).trim();
const axesOf = (layout, letter) =>
  Object.keys(layout).filter((name) => name.startsWith(`${letter}axis`)).map((name) => layout[name]);

function themed({ data, layout }) {
  const ink = css("--scope-ink");
  const font = { family: getComputedStyle(element).fontFamily, size: 12, color: ink };
  const grid = css("--scope-grid");
  layout.font = font;
  layout.hoverlabel = { bgcolor: css("--scope-raised"), bordercolor: css("--scope-line"), font };
  for (const axis of [...axesOf(layout, "x"), ...axesOf(layout, "y")]) {
    Object.assign(axis, { gridcolor: grid, linecolor: grid, tickcolor: css("--scope-line") });
  }
  for (const trace of data) {
    if (trace.line) trace.line.color = css("--scope-muted");
    else trace.marker.line = { width: 2, color: css("--scope-paper") };
  }
}

function stacked({ layout }) {
  const rows = axesOf(layout, "y");
  const height = (1 - GAP * (rows.length - 1)) / rows.length;
  axesOf(layout, "x").forEach((axis) => { axis.domain = [0, 1]; });
  rows.forEach((axis, i) => {
    const top = 1 - i * (height + GAP);
    axis.domain = [Math.max(0, top - height), top];
  });
  layout.height *= rows.length;
}

async function draw() {
  // A folded accordion has no width, and plotly would draw for a default one.
  drawnWidth = element.clientWidth;
  if (!props.value || !drawnWidth) return;
  const figure = JSON.parse(props.value);
  themed(figure);
  if (isStacked()) stacked(figure);
  plot.style.height = `${figure.layout.height}px`;
  await Plotly.react(plot, figure.data, figure.layout, { responsive: true, displayModeBar: false });
  plot.dataset.panels = axesOf(figure.layout, "y").length;
}

watch("value", draw);
draw();
new MutationObserver(draw).observe(document.body, { attributes: true, attributeFilter: ["class"] });
new ResizeObserver(() => {
  if (element.clientWidth !== drawnWidth) draw();
}).observe(element);

// Body of the Timeline component's js_on_load: `element`, `props` and `watch` come from gradio.
const plot = element.querySelector(".timeline-plot");
const legend = element.querySelector(".timeline-legend");
const note = element.querySelector(".timeline-note");
const NARROW_PX = 640;
const hidden = new Set();
let home = null;
let drawn = null;

const isDark = () => document.body.classList.contains("dark");
const isNarrow = () => element.clientWidth < NARROW_PX;
const css = (name) => getComputedStyle(element).getPropertyValue(name).trim();

function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

function mixed(colour, paper, share) {
  const to = channels(paper);
  const parts = channels(colour).map((from, i) => Math.round(from + (to[i] - from) * share));
  return "#" + parts.map((part) => part.toString(16).padStart(2, "0")).join("");
}

function inkOn(colour) {
  const [red, green, blue] = channels(colour);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#1f2430" : "#ffffff";
}

function themed(figure) {
  const { data, layout } = figure;
  const { colours, tints, muted } = layout.meta;
  const ink = css("--scope-ink");
  const grid = css("--scope-grid");
  const font = getComputedStyle(element).fontFamily;
  for (const trace of data) {
    const shades = trace.meta.groups.map((group) =>
      mixed(colours[trace.meta.role], css("--scope-paper"), tints[group] * (isDark() ? 0.8 : 1)));
    trace.marker.color = shades;
    trace.marker.line.color = css("--scope-paper");
    trace.marker.pattern.fgcolor = isDark() ? "#0b0d12" : ink;
    trace.insidetextfont.color = shades.map(inkOn);
    trace.visible = !hidden.has(trace.meta.role);
  }
  layout.showlegend = false;
  layout.font = { ...layout.font, family: font, color: ink };
  layout.hoverlabel = {
    ...layout.hoverlabel,
    bgcolor: css("--scope-raised"),
    bordercolor: css("--scope-line"),
    font: { family: font, size: 12, color: ink },
  };
  for (const [name, axis] of Object.entries(layout)) {
    if (/^[xy]axis/.test(name)) {
      Object.assign(axis, { gridcolor: grid, zerolinecolor: css("--scope-line"), linecolor: grid });
    }
  }
  for (const title of layout.annotations) {
    title.text = title.text.replaceAll(muted, css("--scope-muted"));
  }
  return figure;
}

function squeezed(figure) {
  if (!isNarrow()) return figure;
  const { layout } = figure;
  layout.margin.l = 46;
  layout.annotations.forEach((title, i) => {
    title.xshift = -46;
    title.text = layout.meta.short_titles[i];
  });
  for (const [name, axis] of Object.entries(layout)) {
    if (name.startsWith("yaxis")) {
      axis.tickfont.size = 10;
      axis.ticktext = axis.ticktext.map((label) =>
        label.replace("CPU ops", "ops").replace("launch calls", "calls")
          .replace("GPU stream", "GPU").replace(", thread", ""));
    }
  }
  layout.xaxis.nticks = 5;
  layout.xaxis.title.text = layout.xaxis.title.text.split(",")[0];
  return figure;
}

async function draw() {
  element.firstElementChild.hidden = !props.value && drawn !== null;
  if (!props.value) {
    if (drawn) await Plotly.react(plot, [], {});
    return;
  }
  const figure = themed(squeezed(JSON.parse(props.value)));
  const { layout } = figure;
  const zoomed = drawn && drawn.view === layout.uirevision && plot.layout.xaxis?.range;
  const untouched = !zoomed || String(zoomed) === String(home);
  home = [...layout.xaxis.range];
  if (!untouched) layout.xaxis.range = [...zoomed];
  drawn = { view: layout.uirevision, narrow: isNarrow() };
  plot.style.height = `${layout.height}px`;
  drawLegend(figure);
  note.textContent = layout.meta.note || "";
  note.hidden = !layout.meta.note;
  await Plotly.react(plot, figure.data, layout, {
    responsive: true,
    displayModeBar: false,
    doubleClick: false,
    scrollZoom: false,
  });
  plot.dataset.runs = layout.annotations.length;
  if (!plot.dataset.wired) wire();
}

function drawLegend({ data, layout }) {
  const entries = data.filter((trace) => trace.showlegend);
  entries.sort((a, b) => a.legendrank - b.legendrank);
  legend.replaceChildren(...entries.map((trace) => {
    const { role } = trace.meta;
    const button = document.createElement("button");
    const swatch = document.createElement("span");
    button.type = "button";
    button.dataset.role = role;
    button.setAttribute("aria-pressed", String(!hidden.has(role)));
    button.title = `Show or hide ${trace.name} in every run`;
    swatch.className = "swatch";
    swatch.style.background = layout.meta.colours[role];
    button.append(swatch, trace.name);
    button.addEventListener("click", () => {
      if (!hidden.delete(role)) hidden.add(role);
      button.setAttribute("aria-pressed", String(!hidden.has(role)));
      const indices = plot.data.flatMap((other, i) => (other.meta.role === role ? [i] : []));
      Plotly.restyle(plot, { visible: !hidden.has(role) }, indices);
    });
    return button;
  }));
}

function setRange(start, end) {
  if (end - start > 0.01) Plotly.relayout(plot, { "xaxis.range": [start, end] });
}

function zoom(factor, centre) {
  const [start, end] = plot.layout.xaxis.range;
  const at = centre ?? (start + end) / 2;
  setRange(at - (at - start) * factor, at + (end - at) * factor);
}

function pan(share) {
  const [start, end] = plot.layout.xaxis.range;
  setRange(start + (end - start) * share, end + (end - start) * share);
}

const actions = {
  in: () => zoom(0.5),
  out: () => zoom(2),
  left: () => pan(-0.2),
  right: () => pan(0.2),
  reset: () => setRange(...home),
};
const keys = {
  "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "reset", Home: "reset",
};

function wire() {
  plot.dataset.wired = "yes";
  plot.on("plotly_doubleclick", actions.reset);
  plot.addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[action]();
  });
  // A plain wheel scrolls the page; with Ctrl or Command it zooms around the pointer.
  plot.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const axis = plot._fullLayout.xaxis;
    const x = event.clientX - plot.getBoundingClientRect().left - axis._offset;
    zoom(event.deltaY > 0 ? 1.25 : 0.8, axis.p2c(x));
  }, { passive: false });
  for (const button of element.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", actions[button.dataset.zoom]);
  }
}

watch("value", draw);
draw();
new MutationObserver(draw).observe(document.body, { attributes: true, attributeFilter: ["class"] });
new ResizeObserver(() => {
  if (drawn && drawn.narrow !== isNarrow()) draw();
}).observe(element);

"""The timelines of all runs, drawn by plotly.js in the visitor's browser."""

from collections.abc import Sequence
from pathlib import Path

import gradio as gr
import orjson
import plotly

from profiling.figures import RunLanes, timeline_figure
from profiling.outcome import RunResult
from profiling.tables import count, number
from profiling.timeline import fitted, timeline

ASSETS = Path(__file__).parent.parent.parent / "assets"
# Served out of the installed wheel, so that the page needs no network and the project no copy.
PLOTLY_JS = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
# Relative to the page's address, so that it also works behind a path prefix.
PLOTLY_HEAD = f'<script src="gradio_api/file={PLOTLY_JS}"></script>'

_TEMPLATE = """
<div class="timeline">
  <div class="timeline-bar">
    <div class="timeline-legend" role="group" aria-label="Roles shown in all runs"></div>
    <div class="timeline-zoom" role="group" aria-label="Zoom of all runs">
      <button type="button" data-zoom="out" aria-label="Zoom out">−</button>
      <button type="button" data-zoom="in" aria-label="Zoom in">+</button>
      <button type="button" data-zoom="reset">Reset</button>
    </div>
  </div>
  <p class="timeline-note" hidden></p>
  <div class="timeline-plot" tabindex="0" role="group"
    aria-label="Kernel timelines of all runs on one time axis. Plus and minus zoom, arrow keys move,
    0 resets. The tables below hold the same numbers."></div>
  <p class="timeline-help">Drag to zoom all runs, double-click to reset; Ctrl + wheel and the keys
    + − ← → 0 work too. CPU ops and launch calls are paler than GPU work of the same role, copies
    and memsets are hatched. Bars are exactly as long as their events; one narrower than a pixel is
    drawn one pixel wide.</p>
</div>
"""


def build_timeline(elem_id: str) -> gr.HTML:
    """The component; its value is the figure as JSON, from `figure_json`."""
    gr.set_static_paths([PLOTLY_JS])
    return gr.HTML(
        html_template=_TEMPLATE,
        js_on_load=(ASSETS / "timeline.js").read_text(),
        head=PLOTLY_HEAD,
        apply_default_css=False,
        elem_id=elem_id,
    )


def figure_json(runs: Sequence[RunResult], forward: int | None) -> str:
    """One forward of each run, or all; an empty text without runs."""
    if not runs:
        return ""
    timelines = fitted([timeline(run.analysis, forward) for run in runs])
    problems = [run.config.spec.shape_text for run in runs]
    shared = problems[0] if len(set(problems)) == 1 else ""
    lanes = [
        RunLanes(
            title=run.config.label,
            badge=run.environment.badge,
            problem="" if shared else problem,
            headline=headline(run),
            timeline=one,
        )
        for run, problem, one in zip(runs, problems, timelines, strict=True)
    ]
    start = "the first forward" if forward is None else "the forward"
    x_title = ", ".join(filter(None, (f"µs from the start of {start}", shared)))
    figure = timeline_figure(lanes, view=f"forward {forward}", x_title=x_title)
    figure["layout"]["meta"]["note"] = _merged_note(sum(one.merged_events for one in timelines))
    return orjson.dumps(figure).decode()


def headline(run: RunResult) -> str:
    """Such as "GPU 1,064.6 µs, host 117 µs, 5 kernels, 1 copy, 1 memset"."""
    per = run.analysis.per_forward
    host = f"host {number(run.unprofiled.cpu_time_us.median, 0)} µs"
    if per.kernels is None:
        return f"{host}, no GPU"
    counts = ((per.kernels, "kernel"), (per.memcpys, "copy"), (per.memsets, "memset"))
    named = [f"{count(n)} {_plural(noun, n)}" for n, noun in counts if n]
    return ", ".join([f"GPU {number(per.gpu_busy_us)} µs", host, *named])


def _plural(noun: str, n: float) -> str:
    if n == 1:
        return noun
    return "copies" if noun == "copy" else f"{noun}s"


def _merged_note(events: int) -> str:
    if not events:
        return ""
    return (
        f"{events:,} events are narrower than a pixel here and drawn joined; show a single forward "
        "for each of them. All totals count every event."
    )

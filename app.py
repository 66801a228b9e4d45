"""AttnScope: kernel timelines of attention variants next to each other on one time axis."""

import spaces  # before anything that can start CUDA

# isort: split
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import gradio as gr
from spaces.config import Config as SpacesConfig

from attention.spec import SpecError
from attention.variants import find_variant
from profiling.board import Board, BoardFull, opening_labels, problem
from profiling.config import STAGES, RunConfig
from profiling.explanations import explanations_html
from profiling.kernel_tables import kernel_tables_html
from profiling.outcome import Outcome, Report
from profiling.panels.calculator import build_calculator
from profiling.panels.comparison import build_comparison
from profiling.panels.run_form import CPU_DEFAULTS, GPU_DEFAULTS, build_run_form
from profiling.panels.sentences import LOOKING, ZERO_GPU, message_html, outcome_text, where_html
from profiling.panels.theme import THEME
from profiling.panels.timeline import build_timeline, figure_json
from profiling.store import record_own_set_when_idle, recorded_reports
from profiling.tables import PUBLISHED_SPEC, comparison, comparison_html
from profiling.worker import Worker

# Read when the page is built below: nothing is told to anybody.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

ASSETS = Path(__file__).parent / "assets"
ALL_FORWARDS = "all"
Updates = dict[Any, Any]

worker = Worker()


@spaces.GPU(duration=90)  # type: ignore[untyped-decorator]
def measure(config: RunConfig, on_stage: Callable[[str], None] | None) -> Outcome:
    """In this process where ZeroGPU lends it a GPU, else in the worker."""
    if SpacesConfig.zero_gpu:
        from profiling.execute import execute

        return execute(config)
    return worker.run(config, on_stage)


@cache
def recorded(gpu: str | None) -> dict[str, Report]:
    """Recorded reports by problem; those of this `gpu` once it has recorded its own."""
    return {problem(report).shape_text: report for report in recorded_reports(gpu)}


def reports() -> dict[str, Report]:
    """Does not wait for the worker: until it knows the GPU, the shipped reports are shown."""
    known = worker.known_environment
    return recorded(known.gpu if known else None)


def record_this_gpu() -> None:
    record_own_set_when_idle(worker)
    recorded.cache_clear()


with gr.Blocks(title="AttnScope", fill_width=True, analytics_enabled=False) as demo:
    board_state = gr.State(Board())
    latest = gr.State(None)  # the outcome that is about to be put on the board
    with gr.Row(elem_classes="masthead"):
        gr.HTML((ASSETS / "masthead.html").read_text(), apply_default_css=False)
        where = gr.HTML(ZERO_GPU if SpacesConfig.zero_gpu else LOOKING, apply_default_css=False)
    form = build_run_form()
    message = gr.HTML(elem_id="message", apply_default_css=False)
    with gr.Row(elem_classes="view-bar"):
        shape = gr.Dropdown([], label="Recorded problem", min_width=275, scale=0, elem_id="shape")
        recorded_runs = gr.CheckboxGroup([], label="Recorded runs", scale=1, elem_id="recorded")
        forward = gr.Dropdown([], label="Forward drawn", min_width=150, scale=0, elem_id="forward")
    timeline = build_timeline("timeline")
    table = build_comparison("comparison")
    published = gr.Checkbox(
        label="Add the article's A100 figures (published, not measured here)",
        visible=False,
        container=False,
        elem_id="published",
    )
    meaning = gr.HTML(elem_id="meaning", apply_default_css=False)
    kernels = gr.HTML(elem_id="kernels", apply_default_css=False)
    calculator = build_calculator()
    controls = [forward, recorded_runs, published]
    page = [board_state, message, timeline, table, meaning, kernels, *controls]

    def show(board: Board, text: str = "", *, wrong: bool = False) -> Updates:
        """Everything on the page that follows from the board, and one sentence."""
        choices = [str(index + 1) for index in range(board.forwards)] + [ALL_FORWARDS]
        drawn = ALL_FORWARDS if board.forward is None else str(board.drawn_forward + 1)
        rows = comparison(board.outcomes, board.baseline, board.published)
        return {
            board_state: board,
            timeline: figure_json(board.finished, board.forward),
            table: comparison_html(rows),
            meaning: explanations_html(board.outcomes),
            kernels: kernel_tables_html(board.outcomes),
            message: message_html(text, wrong=wrong),
            forward: gr.update(choices=choices, value=drawn),
            recorded_runs: gr.update(value=board.recorded_labels()),
            published: gr.update(visible=board.has_problem(PUBLISHED_SPEC)),
        }

    def open_page() -> Updates:
        found = list(reports())
        if not found:
            return {message: message_html("No recorded runs were found.", wrong=True)}
        return open_recorded(Board(), found[0]) | {shape: gr.update(choices=found, value=found[0])}

    def open_recorded(board: Board, at: str) -> Updates:
        """The same runs at another recorded problem."""
        report = reports().get(at)
        if report is None:
            return {message: message_html("Choose one of the recorded problems.", wrong=True)}
        labels = [outcome.config.label for outcome in report.outcomes]
        opened = board.with_recorded(report, opening_labels(board, labels))
        ticks = gr.update(choices=labels, value=opened.recorded_labels())
        return show(opened) | {recorded_runs: ticks}

    def tick(board: Board, labels: list[str], at: str) -> Updates:
        report = reports().get(at)
        if report is None:
            return {message: message_html("Choose one of the recorded problems.", wrong=True)}
        try:
            return show(board.with_recorded(report, labels))
        except BoardFull as refusal:
            return show(board, str(refusal), wrong=True)

    def describe(seq_len: str, batch: str, heads: str) -> Updates:
        """Waits for the worker's first look at the machine; smaller sizes where it has no GPU."""
        environment = worker.environment()
        updates: Updates = {where: where_html(environment)}
        given = {"seq_len": seq_len, "batch": batch, "heads": heads}
        untouched = all(given[name] == str(getattr(GPU_DEFAULTS, name)) for name in given)
        if environment.gpu is None and untouched:
            updates |= {form.sizes[name]: str(getattr(CPU_DEFAULTS, name)) for name in given}
        return updates

    def run(values: Updates, progress: gr.Progress = gr.Progress()) -> Updates:  # noqa: B008
        try:
            config = form.read(values)
            values[board_state].check_room()
        except (SpecError, BoardFull) as refusal:
            return {latest: None, message: message_html(str(refusal), wrong=True)}

        def on_stage(stage: str) -> None:
            progress((STAGES.index(stage), len(STAGES)), desc=f"{config.label}: {stage}")

        # ZeroGPU sends the arguments to another process, which a function cannot follow.
        return {latest: measure(config, None if SpacesConfig.zero_gpu else on_stage)}

    def add(board: Board, outcome: Outcome | None) -> Updates:
        """Apart from `run`: the board may have changed meanwhile."""
        if outcome is None:
            return {latest: None}
        try:
            return show(board.added(outcome), outcome_text(outcome)) | {latest: None}
        except BoardFull as refusal:
            return show(board, str(refusal), wrong=True)

    def press(board: Board, event: gr.EventData) -> Updates:
        """A button of the comparison table."""
        pressed = event._data or {}
        index = pressed.get("index")
        if not isinstance(index, int):
            return show(board)
        removing = pressed.get("action") == "remove"
        return show(board.removed(index) if removing else board.compared_with(index))

    def draw_forward(board: Board, chosen: str) -> Updates:
        return show(board.drawing(None if chosen == ALL_FORWARDS else int(chosen) - 1))

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    demo.load(open_page, None, [*page, shape], queue=False, **quiet)
    if not SpacesConfig.zero_gpu:
        defaults = [form.sizes[name] for name in ("seq_len", "batch", "heads")]
        demo.load(describe, defaults, [where, *defaults], concurrency_limit=None, **quiet)
    form.variant.change(
        lambda name: gr.update(visible=find_variant(name).takes_backend),
        form.variant,
        form.backend,
        queue=False,
        **quiet,
    )
    gr.on(
        [form.run.click, *(box.submit for box in form.sizes.values())],
        run,
        {board_state, *form.inputs},
        [latest, message],
        concurrency_limit=1,
        show_progress_on=message,
        trigger_mode="once",
        api_visibility="private",
    ).then(add, [board_state, latest], [*page, latest], **quiet)
    for listen, handler, inputs in (
        (shape.input, open_recorded, [board_state, shape]),
        (recorded_runs.input, tick, [board_state, recorded_runs, shape]),
        (forward.input, draw_forward, [board_state, forward]),
        (published.input, lambda b, on: show(b.with_published(on)), [board_state, published]),
        (table.select, press, [board_state]),
    ):
        listen(handler, inputs, page, queue=False, **quiet)

if __name__ == "__main__":
    if not SpacesConfig.zero_gpu:
        Thread(target=record_this_gpu, daemon=True).start()
    demo.launch(
        theme=THEME,
        css_paths=ASSETS / "app.css",
        show_error=False,
        run_history=False,
        footer_links=["settings"],
    )

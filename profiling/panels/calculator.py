"""The occupancy calculator: a launch typed by hand or taken from a kernel, and what limits it."""

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import gradio as gr
import orjson

from attention.spec import SpecError
from profiling.analysis import KernelRow
from profiling.figures_occupancy import occupancy_figure
from profiling.launch import Launch, read_launch
from profiling.occupancy import LIMITS
from profiling.occupancy_card import occupancy_card_html, wrong_html
from profiling.panels.timeline import ASSETS, PLOTLY_HEAD

_TEMPLATE = """
<div class="calculator">
  <p class="timeline-help">Theoretical occupancy while one input changes and the others stay.</p>
  <div class="calculator-plot" role="img" aria-label="Theoretical occupancy against registers per
    thread, shared memory per block and threads per block, with this launch marked."></div>
</div>
"""


class Typed(NamedTuple):
    """The inputs as texts; grid (blocks) and SM count may be blank."""

    registers: str
    block: str
    shared_memory: str
    compute_capability: str
    grid: str = ""
    sm_count: str = ""

    def read(self) -> Launch:
        """The launch that is meant, or a SpecError with one sentence."""
        return read_launch(
            registers=self.registers,
            block=self.block,
            shared_memory=self.shared_memory,
            compute_capability=self.compute_capability,
            grid=self.grid.strip() or None,
            sm_count=self.sm_count.strip() or None,
        )


# A kernel with many registers on an A100: something to relieve.
DEFAULTS = Typed("168", "128", "0", "8.0")


@dataclass(frozen=True, slots=True)
class Calculator:
    """The components; `inputs` in the order of Typed's fields."""

    accordion: gr.Accordion
    inputs: tuple[gr.Textbox | gr.Dropdown, ...]
    source: gr.State  # the kernel's name and its launch as filled in, or None
    result: gr.HTML
    figure: gr.HTML

    @property
    def components(self) -> list[Any]:
        """All that `filled` may update."""
        return [self.accordion, *self.inputs, self.source, self.result, self.figure]

    def filled(
        self, name: str, row: KernelRow, compute_capability: str, sm_count: int | None
    ) -> dict[Any, Any]:
        """Updates that open the calculator on a kernel's launch, under the kernel's name."""
        typed = Typed(
            _text(row.registers_per_thread),
            _text(prod(row.block) if row.block else None),
            _text(row.shared_memory_bytes),
            compute_capability,
            _text(prod(row.grid) if row.grid else None),
            _text(sm_count),
        )
        result, figure = _answer(typed, name)
        return {
            self.accordion: gr.update(open=True),
            **dict(zip(self.inputs, typed, strict=True)),
            self.source: (name, typed),
            self.result: result,
            self.figure: figure,
        }


def build_calculator() -> Calculator:
    """Closed at first, with DEFAULTS in it; answers while a person types."""
    result, figure = _answer(DEFAULTS)
    with gr.Accordion("Occupancy calculator", open=False, elem_id="calculator") as accordion:
        source = gr.State(None)
        with gr.Row(elem_classes="run-form"):
            inputs = (
                _box("registers", "Registers per thread"),
                _box("block", "Block, threads"),
                _box("shared_memory", "Shared memory per block, B"),
                _devices(),
                _box("grid", "Grid, blocks (optional)"),
                _box("sm_count", "SMs (optional)"),
            )
        shown = gr.HTML(result, apply_default_css=False, elem_id="calculator-result")
        drawn = gr.HTML(
            figure,
            html_template=_TEMPLATE,
            js_on_load=(ASSETS / "calculator.js").read_text(),
            head=PLOTLY_HEAD,
            apply_default_css=False,
            elem_id="calculator-figure",
        )
    gr.on(
        [component.change for component in inputs],
        _recompute,
        [source, *inputs],
        [shown, drawn],
        queue=False,
        show_progress="hidden",
        # Without a queue "always_last" was seen to drop the last of several changes.
        trigger_mode="multiple",
        api_visibility="private",
    )
    return Calculator(accordion, inputs, source, shown, drawn)


def _recompute(source: tuple[str, Typed] | None, *values: str | None) -> tuple[str, Any]:
    """Under the kernel's name while its launch is untouched; `filled` sets off changes as well."""
    typed = Typed(*(value or "" for value in values))
    name = source[0] if source and tuple(source[1]) == typed else ""
    return _answer(typed, name)


def _answer(typed: Typed, name: str = "") -> tuple[str, Any]:
    """Result and figure; the last figure stays while the inputs make no launch."""
    try:
        launch = typed.read()
    except SpecError as error:
        return wrong_html(str(error)), gr.skip()
    return occupancy_card_html(launch, name), orjson.dumps(occupancy_figure(launch)).decode()


def _box(field: str, label: str) -> gr.Textbox:
    return gr.Textbox(
        getattr(DEFAULTS, field),
        label=label,
        min_width=120,
        max_lines=1,
        elem_id=f"calculator-{field}",
    )


def _devices() -> gr.Dropdown:
    return gr.Dropdown(
        [
            (f"{row.compute_capability} ({row.example_gpus})", row.compute_capability)
            for row in LIMITS
        ],
        value=DEFAULTS.compute_capability,
        label="Compute capability",
        min_width=180,
        elem_id="calculator-compute_capability",
    )


def _text(number: int | None) -> str:
    return "" if number is None else str(number)

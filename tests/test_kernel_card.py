"""The card of one kernel, for every kernel that the project ships."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from profiling.analysis import KernelRow
from profiling.kernel_card import footprint_of, kernel_card_html
from profiling.kernel_names import decode
from profiling.outcome import RunResult
from profiling.store import recorded_reports
from tests.runs import flash, h200_run, math, naive

NSIGHT = Path(__file__).parent / "data" / "ncu_h200_8x16x1024x64_bf16.csv"


class Balanced(HTMLParser):
    """Fails on a tag that is not closed in its order; collects the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def shipped() -> Iterator[RunResult]:
    for report in recorded_reports():
        for outcome in report.outcomes:
            if isinstance(outcome, RunResult):
                yield outcome
    yield from (naive(), flash(), math())
    yield h200_run("inplace", "naive_inplace")
    for backend in ("auto", "cudnn", "efficient"):
        yield h200_run(f"sdpa_{backend}", "sdpa", backend)


def card(run: RunResult, name: str) -> str:
    """The card of the first kernel whose name contains `name`."""
    index = next(i for i, row in enumerate(run.analysis.kernels) if name in row.name)
    return kernel_card_html(run, 0, index)


def with_row(run: RunResult, row: KernelRow) -> RunResult:
    return replace(run, analysis=replace(run.analysis, kernels=(row,)))


def nsight(backend: str) -> dict[str, str]:
    with NSIGHT.open(newline="") as file:
        return next(row for row in csv.DictReader(file) if row["backend"] == backend)


def test_every_shipped_kernel_has_a_well_formed_card() -> None:
    cards = 0
    for run in shipped():
        for index, row in enumerate(run.analysis.kernels):
            html = kernel_card_html(run, 3, index)
            parsed = Balanced(html)
            assert escape(row.name) in html
            assert not parsed.seen & {"script", "img"}
            assert ("data-action='calculate'" in html) == (footprint_of(row) is not None)
            for token in decode(row.name).tokens:
                assert f"<dt>{escape(token.text)}</dt>" in html
                assert escape(token.meaning) in html
            assert "None" not in parsed.text and "nan" not in parsed.text.split()
            cards += 1
    assert cards > 50


@pytest.mark.parametrize("backend", ["flash", "cudnn", "efficient"])
def test_occupancy_is_what_nsight_compute_says(backend: str) -> None:
    measured = nsight(backend)
    html = card(h200_run(f"sdpa_{backend}", "sdpa", backend), measured["kernel"][:40])
    theoretical = f"{float(measured['theoretical_occupancy_pct']):g} %"
    assert f"<dt>Theoretical</dt><dd>{theoretical}, limited by " in html
    assert f"{measured['registers_per_thread']} per thread" in html
    # Not shared memory: Nsight's limit there (2 for flash) is below what the SM can give (4).
    for resource, name in (("warps", "warp slots"), ("registers", "registers")):
        assert f"{name} {measured[f'blocks_limit_{resource}']}, " in html
    assert f"block slots {measured['blocks_limit_blocks']}." in html
    assert f"<dt>Waves</dt><dd>{float(measured['waves_per_sm']):.2f}<" in html


def test_flash_agrees_with_the_profiler_up_to_rounding() -> None:
    html = card(flash(), "flash_fwd_kernel")
    assert "<dt>Kineto</dt><dd>13 %" in html and "12.5 %, limited by registers" in html
    assert "The profiler shows" not in html
    assert "Next step: 168 registers per thread (3 blocks per SM, 18.75 %)." in html


def test_an_opted_in_kernel_shows_the_reason_beside_the_truth() -> None:
    html = card(h200_run("sdpa_cudnn", "sdpa", "cudnn"), "cudnn_generated")
    theoretical = f"{nsight('cudnn')['theoretical_occupancy_pct']} %"
    assert f"<dd>{theoretical}, limited by registers and shared memory" in html
    assert "the library opted in to more" in html
    assert "<dt>Kineto</dt><dd>0 %" in html
    assert f"<dt>Busy SMs</dt><dd>at most {theoretical}" in html


def test_a_copy_of_naive_names_the_line_that_made_it() -> None:
    html = unescape(card(naive(), "Memcpy DtoD"))
    assert "aten::masked_fill › aten::clone › aten::copy_" in html
    assert "<code>scores = scores.masked_fill(x.mask, NEG_INF)</code>" in html
    assert html.count("attention/forwards.py line") == 1
    assert "268,435,456 B (256 MiB)" in html and " GB/s" in html
    for absent in ("Theoretical", "calculator", "Units", "Tile"):
        assert absent not in html


def test_an_op_called_twice_lists_both_lines() -> None:
    html = card(naive(), "nvjet")
    assert html.count("attention/forwards.py line") == 2
    assert "Called by more than one line" in html


def test_fused_attention_is_the_one_call_of_its_variant() -> None:
    html = card(flash(), "flash_fwd_kernel")
    assert html.count("attention/forwards.py line") == 1
    assert "return scaled_dot_product_attention(" in html


def test_a_cause_that_no_line_calls_is_silent() -> None:
    run = naive()
    row = replace(run.analysis.kernels[1], caused_by=("attn_fwd", "aten::no_such_op"))
    assert "attention/forwards.py" not in kernel_card_html(with_row(run, row), 0, 0)
    unknown = replace(row, caused_by=())
    assert "Caused by" not in kernel_card_html(with_row(run, unknown), 0, 0)


def test_a_hostile_name_stays_text() -> None:
    run = naive()
    hostile = "<script>alert(1)</script>' onclick='x"
    row = replace(run.analysis.kernels[1], name=hostile, short_name=hostile, launch_api=hostile)
    row = replace(row, caused_by=("attn_fwd", f"aten::{hostile}"))
    html = kernel_card_html(with_row(run, row), 0, 0)
    parsed = Balanced(html)
    assert "script" not in parsed.seen and "onclick" not in dict(parsed.attributes)
    assert escape(hostile) in html


def test_what_is_not_known_is_said() -> None:
    run = naive()
    row = replace(
        run.analysis.kernels[1],
        name="my_kernel",
        launch_api=None,
        registers_per_thread=None,
        shared_memory_bytes=None,
        grid=None,
        block=None,
        occupancy=None,
    )
    html = kernel_card_html(with_row(run, row), 0, 0)
    for term in ("Library", "Units", "Element type", "Tile", "Architecture", "Launched by"):
        assert f"<dt>{term}</dt><dd>unknown" in html
    assert "the limits of the GPU are missing" in html
    assert "calculator" not in html


def test_the_calculator_needs_a_known_gpu() -> None:
    run = flash()
    assert "data-action='calculate' data-run='0' data-kernel='0'" in kernel_card_html(run, 0, 0)
    for capability in (None, "99.0"):
        strange = replace(run, environment=replace(run.environment, compute_capability=capability))
        assert "calculator" not in kernel_card_html(strange, 0, 0)


def test_the_card_is_a_region_that_can_be_closed() -> None:
    html = kernel_card_html(naive(), 0, 0)
    assert "class='kernel-card' role='region' aria-label='Memset of " in html
    assert "<button type='button' class='close' data-action='close' aria-label='Close" in html

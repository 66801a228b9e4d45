"""The kernel table: what stands in its columns, and where its buttons lead."""

import re
from dataclasses import replace

from profiling.kernel_tables import kernel_tables_html, limiters_text
from tests.runs import cpu_run, flash, h200_run, naive, skipped


def cells(html: str, name: str) -> dict[str, str]:
    """Column title to text of the first row whose activity contains `name`."""
    heads = re.findall(r"<th scope='col'[^>]*>([^<]+)", html)
    row = next(row for row in html.split("<tr>")[2:] if name in row)
    values = [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<td.*?</td>", row)]
    return dict(zip((head.strip() for head in heads[1:]), values, strict=True))


def test_each_reason_is_numbered_once() -> None:
    html = kernel_tables_html([naive()])
    assert html.count("<tr>") == 1 + 7
    assert "nvjet" in html and "213,188" in html
    assert html.count("<sup>1</sup>") == 1
    assert "213,188 B of shared memory per block" in html
    assert "<th scope='row' title='void at::native::vectorized_elementwise_kernel&lt;8, " in html


def test_occupancy_three_ways_beside_the_profiler() -> None:
    row = cells(kernel_tables_html([h200_run("sdpa_cudnn", "sdpa", "cudnn")]), "cudnn_generated")
    assert row["Occupancy"] == "18.75registers and shared memory"
    assert row["Machine-wide"] == "18.75"
    assert row["Busy SMs, at most"] == "18.75"
    assert row["Kineto"] == "01"  # 0 %, and the number of its reason


def test_a_copy_has_no_occupancy() -> None:
    row = cells(kernel_tables_html([naive()]), "Memcpy DtoD")
    assert {row[title] for title in ("Occupancy", "Machine-wide", "Busy SMs, at most")} == {"–"}


def test_each_activity_is_a_button_to_its_card() -> None:
    # The place on the board counts outcomes without a table as well.
    html = kernel_tables_html([skipped(), naive(), flash()])
    buttons = re.findall(r"data-action='card' data-run='(\d)' data-kernel='(\d)'", html)
    assert buttons == [*(("1", str(index)) for index in range(7)), ("2", "0")]


def test_cpu_ops_have_no_card() -> None:
    html = kernel_tables_html([cpu_run(), skipped()])
    assert "aten::softmax" in html and html.count("<details>") == 1
    assert "<button" not in html


def test_a_hostile_name_stays_text() -> None:
    run = naive()
    row = replace(run.analysis.kernels[1], name="<script>", short_name="<script>")
    html = kernel_tables_html([replace(run, analysis=replace(run.analysis, kernels=(row,)))])
    assert "<script>" not in html and "&lt;script&gt;" in html


def test_every_limiter_is_named() -> None:
    assert limiters_text(("warps",)) == "warp slots"
    assert limiters_text(("registers", "blocks")) == "registers and block slots"

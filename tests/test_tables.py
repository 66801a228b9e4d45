"""The comparison against figures from truth: H200 traces, and what the article published."""

import pytest

from profiling.tables import (
    COLUMNS,
    Row,
    comparison,
    comparison_html,
    count,
    faster,
    number,
    signed,
)
from tests.runs import cpu_run, failed, flash, h200_run, math, naive, skipped

TITLES = [column.title for column in COLUMNS]


def values(row: Row) -> dict[str, str]:
    return dict(zip(TITLES, (cell.text for cell in row.cells), strict=True))


def deltas(row: Row) -> dict[str, str]:
    return dict(zip(TITLES, (cell.delta for cell in row.cells), strict=True))


@pytest.mark.parametrize(
    ("trace", "gpu_us", "counts"),
    [
        ("naive", "1,064.6", ("5", "1", "1")),
        ("inplace", "938.2", ("5", "0", "1")),
        ("sdpa_math", "2,622.2", ("20", "0", "0")),
        ("sdpa_efficient", "178.1", ("1", "0", "0")),
        ("sdpa_flash", "94.7", ("1", "0", "0")),
        ("sdpa_cudnn", "57.2", ("1", "0", "1")),
    ],
)
def test_gpu_time_and_counts(trace: str, gpu_us: str, counts: tuple[str, str, str]) -> None:
    shown = values(comparison([h200_run(trace, "naive")], None)[0])
    assert shown["GPU time"] == gpu_us
    assert (shown["Kernels"], shown["Copies"], shown["Memsets"]) == counts


def test_deltas_are_relative_to_the_first_run() -> None:
    first, second, third = comparison([naive(), flash(), math()], None)
    assert first.is_baseline and set(deltas(first).values()) == {""}
    assert deltas(second)["GPU time"] == "11.2× faster"  # 1064.6 / 94.7
    assert deltas(second)["Host time"] == "−63 µs"  # 54 - 117
    assert deltas(second)["Kernels"] == "−4"
    assert deltas(second)["Peak memory"] == "same"
    assert deltas(third)["GPU time"] == "2.46× slower"  # 2622.2 / 1064.6
    assert deltas(third)["Host time"] == "+306 µs"
    assert deltas(third)["Kernels"] == "+15"


def test_a_chosen_baseline_changes_the_deltas() -> None:
    first, second = comparison([naive(), flash()], 1)
    assert second.is_baseline and not first.is_baseline
    assert deltas(first)["GPU time"] == "11.2× slower"


def test_occupancy_shows_both_and_the_range() -> None:
    flash_row, cudnn_row = comparison([flash(), h200_run("sdpa_cudnn", "sdpa", "cudnn")], None)
    assert values(flash_row)["Occupancy"] == "12.5"
    assert values(cudnn_row)["Occupancy"] == "18.8"
    place = TITLES.index("Occupancy")
    assert flash_row.cells[place].note == "Kineto 13.0"
    assert cudnn_row.cells[place].note == "Kineto 0.0"


def test_a_cpu_run_has_dashes_and_its_own_baseline() -> None:
    gpu, cpu = comparison([naive(), cpu_run()], None)
    shown = values(cpu)
    assert shown["Host time"] == "40"
    for title in ("GPU time", "Kernels", "Copies", "Memsets", "Occupancy", "Peak memory"):
        assert shown[title] == "–"
    assert gpu.is_baseline and cpu.is_baseline
    assert (cpu.badge, cpu.foreign) == ("CPU", "")


def test_a_baseline_on_another_device_is_said() -> None:
    _, cpu = comparison([naive(), cpu_run()], 0)
    assert cpu.foreign == "another device"
    assert deltas(cpu)["Host time"] == "−77 µs"
    assert "vs another device" in comparison_html([cpu])


def test_runs_without_numbers_are_rows_with_a_reason() -> None:
    rows = comparison([naive(), skipped(), failed()], None)
    assert [row.status for row in rows] == ["ok", "skipped", "failed"]
    html = comparison_html(rows)
    assert "<b>Cannot run here.</b> cuDNN needs &lt;a&gt; CUDA GPU." in html
    assert "<b>Failed.</b> naive ran out of memory." in html


def test_published_rows_only_at_the_articles_problem() -> None:
    rows = [row for row in comparison([naive()], None, published=True) if row.index is None]
    assert len(rows) == 6
    by_title = {row.title: values(row) for row in rows}
    assert by_title["sdpa:flash"]["GPU time"] == "146.8"
    assert by_title["sdpa:cudnn"]["Host time"] == "214"
    assert by_title["sdpa:math"]["Kernels"] == "20"
    assert by_title["naive"]["GPU time"] == "–"
    assert comparison_html(rows).count("published, not measured here") == 6
    assert comparison([cpu_run()], None, published=True)[-1].index == 0


def test_an_empty_board_says_what_to_do() -> None:
    assert "Choose a variant" in comparison_html([])


def test_wording_of_numbers() -> None:
    assert number(None) == "–"
    assert number(0.0) == "0.0"
    assert count(6.5) == "6.50"
    assert signed(-0.4) == "same"
    assert signed(-1234) == "−1,234"
    assert faster(100.0, 100.2) == ("same", None)
    assert faster(1.0, 250.0) == ("250× faster", True)

"""The comparison of runs: first as values, then as HTML.

A number that a run does not have (a CPU run has no GPU) is a dash, never 0.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from attention.spec import AttentionSpec
from profiling.baseline import foreign, reference
from profiling.outcome import Outcome, RunResult, reason, status

PUBLISHED = Path(__file__).parent.parent / "assets" / "published_a100.csv"
PUBLISHED_SPEC = AttentionSpec(batch=8, heads=16, seq_len=1024, head_dim=64)
DASH = "–"
MIB = 2**20

# Ratios closer to 1 than this are called the same.
_SAME = 0.005


@dataclass(frozen=True, slots=True)
class Cell:
    """`text` with its unit left to the column, `delta` against the baseline, `note` beneath."""

    text: str
    delta: str = ""
    note: str = ""
    better: bool | None = None
    share: float | None = None  # of the largest value in the column, 0 to 1


@dataclass(frozen=True, slots=True)
class Row:
    """One run; `index` is its place on the board (None for a published row)."""

    index: int | None
    title: str
    problem: str
    badge: str
    cells: tuple[Cell, ...]
    is_baseline: bool = False
    foreign: str = ""  # in what the baseline differs: "another GPU", "another problem"
    reason: str = ""
    status: str = "ok"


@dataclass(frozen=True, slots=True)
class Column:
    """One measured quantity: `value` reads it, `compare` words the change from the baseline's."""

    title: str
    unit: str
    help: str
    value: Callable[[RunResult], float | None]
    text: Callable[[float], str]
    compare: Callable[[float, float], tuple[str, bool | None]] | None = None
    note: Callable[[RunResult], str] = lambda run: ""
    bar: bool = False


def number(value: float | None, digits: int = 1) -> str:
    """With thousands separators; a dash for None."""
    return DASH if value is None else f"{value:,.{digits}f}"


def count(value: float | None) -> str:
    """A mean of counts: digits only where it is not whole."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def signed(value: float, digits: int = 0) -> str:
    """With + or a true minus sign; "same" where nothing is left after rounding."""
    text = f"{abs(value):,.{digits}f}"
    if not float(text.replace(",", "")):
        return "same"
    return f"+{text}" if value > 0 else f"−{text}"


def faster(value: float, baseline: float) -> tuple[str, bool | None]:
    """Such as ("3.2× faster", True)."""
    if not value or not baseline or abs(value / baseline - 1) < _SAME:
        return "same", None
    ratio = max(value, baseline) / min(value, baseline)
    shown = f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"
    return (f"{shown}× faster", True) if value < baseline else (f"{shown}× slower", False)


def _less(unit: str, digits: int = 0) -> Callable[[float, float], tuple[str, bool | None]]:
    """A difference where less is better."""

    def compare(value: float, baseline: float) -> tuple[str, bool | None]:
        text = signed(value - baseline, digits)
        return (text, None) if text == "same" else (f"{text} {unit}".strip(), value < baseline)

    return compare


def _points(value: float, baseline: float) -> tuple[str, bool | None]:
    """Percentage points; more occupancy is not always better, so neither is said."""
    text = signed(value - baseline, 1)
    return text if text == "same" else f"{text} pts", None


def _host_us(run: RunResult) -> float | None:
    return run.unprofiled.cpu_time_us.median


def _host_note(run: RunResult) -> str:
    spread = run.unprofiled.cpu_time_us
    profiled = number(run.analysis.per_forward.cpu_time_us, 0)
    return f"{number(spread.p10, 0)} to {number(spread.p90, 0)}; profiled {profiled}"


def _gpu_note(run: RunResult) -> str:
    graph, events = run.unprofiled.gpu_graph_us, run.unprofiled.gpu_time_us
    if graph is not None:
        return f"graph replay {number(graph)}"
    return f"between events {number(events.median)}" if events else ""


def _occupancy_pct(run: RunResult) -> float | None:
    return run.analysis.occupancy.theoretical_pct if run.analysis.occupancy else None


def _occupancy_note(run: RunResult) -> str:
    summary = run.analysis.occupancy
    if summary is None:
        return ""
    low, high = f"{summary.lowest_pct:.3g}", f"{summary.highest_pct:.3g}"
    kernels = f"{low} to {high}; " if low != high else ""
    return f"{kernels}Kineto {number(summary.reported_pct)}"


def _peak_mib(run: RunResult) -> float | None:
    return None if run.peak_memory_bytes is None else run.peak_memory_bytes / MIB


def _error_note(run: RunResult) -> str:
    coverage = run.numerics.coverage_pct
    rows = "all rows" if coverage >= 100 else f"{coverage:.3g} % of rows"
    return f"of {run.numerics.tolerance:.2g} allowed; {rows}"


COLUMNS: tuple[Column, ...] = (
    Column(
        "GPU time",
        "µs",
        "Time per forward in which the GPU is busy with a kernel, copy or memset; under it the "
        "time of the same forward without the profiler, replayed as a CUDA graph",
        lambda run: run.analysis.per_forward.gpu_busy_us,
        number,
        faster,
        _gpu_note,
        bar=True,
    ),
    Column(
        "Host time",
        "µs",
        "CPU time to enqueue one forward without the profiler (median; 10th to 90th percentile), "
        "and under the profiler, which slows it down; on a CPU the whole forward",
        _host_us,
        lambda value: number(value, 0),
        _less("µs"),
        _host_note,
        bar=True,
    ),
    Column(
        "Kernels",
        "",
        "Kernels that one forward launches",
        lambda run: run.analysis.per_forward.kernels,
        count,
        _less(""),
    ),
    Column(
        "Copies",
        "",
        "Memory copies on the GPU per forward",
        lambda run: run.analysis.per_forward.memcpys,
        count,
        _less(""),
    ),
    Column(
        "Memsets",
        "",
        "Memory fills on the GPU per forward; cuBLAS and cuDNN add 4-byte ones",
        lambda run: run.analysis.per_forward.memsets,
        count,
        _less(""),
    ),
    Column(
        "Occupancy",
        "%",
        "Theoretical occupancy, weighted by kernel time, and its range over the kernels; Kineto's "
        "estimate is weighted the same way and reads 0 where a kernel opts in to more than 48 KiB "
        "of shared memory",
        _occupancy_pct,
        number,
        _points,
        _occupancy_note,
    ),
    Column(
        "Peak memory",
        "MiB",
        "What one forward allocates beyond its inputs at the worst moment",
        _peak_mib,
        number,
        _less("MiB", 1),
    ),
    Column(
        "Max error",
        "",
        "Largest absolute difference from the same problem computed in float64",
        lambda run: run.numerics.max_abs_error,
        lambda value: f"{value:.2g}",
        None,
        _error_note,
    ),
)


def comparison(
    outcomes: Sequence[Outcome], baseline: int | None, published: bool = False
) -> list[Row]:
    """One row per run, in board order, then the published ones where they fit.

    Without a chosen `baseline` each run is compared with the first of its own GPU and problem.
    """
    finished = [outcome for outcome in outcomes if isinstance(outcome, RunResult)]
    largest = [
        max((column.value(run) or 0.0 for run in finished), default=0.0) for column in COLUMNS
    ]
    rows = []
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, RunResult):
            rows.append(_row(index, outcome, reference(outcome, outcomes, baseline), largest))
        else:
            rows.append(_reason_row(index, outcome))
    if published and any(run.config.spec == PUBLISHED_SPEC for run in finished):
        rows += published_rows()
    return rows


def _row(index: int, run: RunResult, baseline: RunResult, largest: Sequence[float]) -> Row:
    return Row(
        index=index,
        title=run.config.label,
        problem=run.config.spec.shape_text,
        badge=run.environment.badge,
        cells=tuple(
            _cell(column, run, baseline, most)
            for column, most in zip(COLUMNS, largest, strict=True)
        ),
        is_baseline=run is baseline,
        foreign=foreign(run, baseline),
    )


def _cell(column: Column, run: RunResult, baseline: RunResult, largest: float) -> Cell:
    value, other = column.value(run), column.value(baseline)
    if value is None:
        return Cell(DASH)
    delta, better = "", None
    if column.compare and other is not None and run is not baseline:
        delta, better = column.compare(value, other)
    share = value / largest if column.bar and largest else None
    return Cell(column.text(value), delta, column.note(run), better, share)


def _reason_row(index: int, outcome: Outcome) -> Row:
    return Row(
        index=index,
        title=outcome.config.label,
        problem=outcome.config.spec.shape_text,
        badge=outcome.environment.badge,
        cells=(),
        reason=reason(outcome) or "",
        status=status(outcome),
    )


@cache
def published_rows() -> tuple[Row, ...]:
    """The article's A100 figures, which nobody measured here."""
    with PUBLISHED.open(newline="") as file:
        return tuple(_published_row(line) for line in csv.DictReader(file))


def _published_row(line: dict[str, str]) -> Row:
    reported = line["reported_occupancy_pct"]
    cells = {
        "GPU time": Cell(_published(line["gpu_time_us"], 1)),
        "Host time": Cell(_published(line["cpu_time_us"], 0), note="profiled"),
        "Kernels": Cell(_published(line["kernels_per_forward"], 0)),
        "Copies": Cell(_published(line["memcpy_per_forward"], 0)),
        "Occupancy": Cell(
            _published(line["true_block_occupancy_pct"], 1),
            note=f"Kineto {reported}" if reported else "",
        ),
    }
    cells["Host time"] = cells["Host time"] if line["cpu_time_us"] else Cell(DASH)
    return Row(
        index=None,
        title=line["variant"].replace("sdpa_", "sdpa:"),
        problem=PUBLISHED_SPEC.shape_text,
        badge="A100-SXM4-80GB",
        cells=tuple(cells.get(column.title, Cell(DASH)) for column in COLUMNS),
        status="published",
    )


def _published(text: str, digits: int) -> str:
    return number(float(text), digits) if text else DASH


def comparison_html(rows: Sequence[Row]) -> str:
    """The comparison as a table; buttons carry data-action and data-index for the page."""
    if not rows:
        return (
            "<p class='empty'>No runs on the board. Choose a variant above and run it, or tick a "
            "recorded run.</p>"
        )
    problems = {row.problem for row in rows}
    head = "".join(
        f"<th scope='col' title='{escape(column.help)}'>{column.title}"
        f"{f' <small>{column.unit}</small>' if column.unit else ''}</th>"
        for column in COLUMNS
    )
    body = "".join(_row_html(row, show_problem=len(problems) > 1) for row in rows)
    shared = f" at {escape(problems.pop())}" if len(problems) == 1 else ""
    order = " <small>batch × heads × seq_len × head_dim</small>"
    return (
        "<div class='scroll' role='region' tabindex='0' aria-label='Comparison of the runs'>"
        f"<table class='comparison'><caption>Per forward{shared}{order}</caption>"
        f"<thead><tr><th scope='col'>Run</th>{head}"
        "<th scope='col'><span class='unseen'>Actions</span></th></tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _row_html(row: Row, *, show_problem: bool) -> str:
    lines = [f"<span class='badge'>{escape(row.badge)}</span>"]
    if show_problem:
        lines.append(f"<span class='problem'>{escape(row.problem)}</span>")
    if row.status == "published":
        lines.append("<span class='problem'>published, not measured here</span>")
    head = f"<th scope='row'><span class='run'>{escape(row.title)}</span>{''.join(lines)}</th>"
    if row.reason:
        word = {"skipped": "Cannot run here", "failed": "Failed"}[row.status]
        cells = (
            f"<td class='reason' colspan='{len(COLUMNS)}'><b>{word}.</b> {escape(row.reason)}</td>"
        )
    else:
        cells = "".join(_cell_html(cell, row) for cell in row.cells)
    return f"<tr class='{row.status}'>{head}{cells}<td class='actions'>{_actions(row)}</td></tr>"


def _cell_html(cell: Cell, row: Row) -> str:
    parts = [f"<span class='value'>{escape(cell.text)}</span>"]
    if cell.delta:
        tone = {True: " better", False: " worse", None: ""}[cell.better]
        foreign = f" <i>vs {escape(row.foreign)}</i>" if row.foreign else ""
        parts.append(f"<span class='delta{tone}'>{escape(cell.delta)}{foreign}</span>")
    if cell.note:
        parts.append(f"<span class='note'>{escape(cell.note)}</span>")
    if cell.share is not None:
        parts.insert(1, f"<span class='bar' style='--share:{cell.share:.4f}'></span>")
    return f"<td>{''.join(parts)}</td>"


def _actions(row: Row) -> str:
    if row.index is None:
        return ""
    name = escape(row.title)
    remove = (
        f"<button type='button' data-action='remove' data-index='{row.index}' "
        f"aria-label='Remove {name}'>Remove</button>"
    )
    if row.reason:
        return remove
    return (
        f"<button type='button' data-action='baseline' data-index='{row.index}' "
        f"aria-pressed='{str(row.is_baseline).lower()}' "
        f"aria-label='Compare with {name}'>Baseline</button>{remove}"
    )

"""Kernel by kernel: one table per run, as HTML, each activity a button that opens its card."""

from collections.abc import Iterable, Sequence
from html import escape

from profiling.analysis import KernelRow, OpRow
from profiling.figures import COLOURS, ROLE_LABELS
from profiling.occupancy import Occupancy
from profiling.outcome import Outcome, RunResult
from profiling.roles import Role
from profiling.tables import DASH, count, number
from profiling.wording import listed, percent, size

# What a limiter of profiling.occupancy is to a reader: the SM has so many slots for each.
LIMITERS = {
    "warps": "warp slots",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "block slots",
}


def kernel_tables_html(outcomes: Sequence[Outcome]) -> str:
    """One table per finished run: GPU activities, or CPU ops where there is no GPU.

    Buttons carry data-action, data-run (place on the board) and data-kernel (row of the analysis).
    """
    tables = "".join(
        _gpu_table(run, entry) if run.analysis.kernels else _op_table(run)
        for entry, run in enumerate(outcomes)
        if isinstance(run, RunResult)
    )
    return f"<h2>Kernel by kernel</h2>{tables}" if tables else ""


# Title, unit, and whether the column holds text rather than numbers.
_KERNEL_TITLES = (
    ("Activity", "", True),
    ("Role", "", True),
    ("Count", "per forward", False),
    ("Mean", "µs", False),
    ("Share", "%", False),
    ("Launched by", "", True),
    ("Registers", "per thread", False),
    ("Shared memory", "B", False),
    ("Grid", "", False),
    ("Block", "", False),
    ("Occupancy", "%", False),
    ("Machine-wide", "%", False),
    ("Busy SMs, at most", "%", False),
    ("Kineto", "%", False),
    ("Caused by", "", True),
)


def _gpu_table(run: RunResult, entry: int) -> str:
    notes: dict[str, int] = {}
    rows = "".join(
        _kernel_html(row, entry, index, notes) for index, row in enumerate(run.analysis.kernels)
    )
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return _details(
        run,
        f"{len(run.analysis.kernels)} GPU activities",
        _table(_KERNEL_TITLES, rows),
        f"<ol class='notes'>{items}</ol>" if items else "",
    )


def _kernel_html(row: KernelRow, entry: int, index: int, notes: dict[str, int]) -> str:
    """`notes` numbers the reasons why Kineto's occupancy differs, each once per table."""
    cells = (
        _cell(swatch(row.role), "text"),
        _cell(count(row.count_per_forward)),
        _cell(number(row.mean_us, 2)),
        _cell(number(row.share_pct)),
        _cell(escape(row.launch_api or DASH), "text"),
        _cell(DASH if row.registers_per_thread is None else str(row.registers_per_thread)),
        _cell(DASH if row.shared_memory_bytes is None else f"{row.shared_memory_bytes:,}"),
        _cell(dims(row.grid)),
        _cell(dims(row.block)),
        *_occupancy_cells(row.occupancy, notes),
        # Every chain starts with the annotation.
        _cell(escape(" › ".join(row.caused_by[1:])) or DASH, "text chain"),
    )
    return (
        f"<tr><th scope='row' title='{escape(row.name)}'><span class='run'>"
        f"<button type='button' class='link' data-action='card' data-run='{entry}' "
        f"data-kernel='{index}'>{escape(row.short_name)}</button></span>"
        f"<span class='problem'>{escape(_decoded(row))}</span></th>{''.join(cells)}</tr>"
    )


def _cell(html: str, kind: str = "") -> str:
    return f"<td class='{kind}'>{html}</td>" if kind else f"<td>{html}</td>"


def _occupancy_cells(occupancy: Occupancy | None, notes: dict[str, int]) -> tuple[str, ...]:
    """Theoretical with its limiters, machine-wide, busy SMs, and what Kineto printed."""
    if occupancy is None:
        return (_cell(DASH),) * 4
    why = occupancy.why_reported_differs
    mark = f"<sup>{notes.setdefault(why, len(notes) + 1)}</sup>" if why else ""
    return (
        _cell(
            f"{_pct(occupancy.theoretical_pct)}"
            f"<span class='note'>{limiters_text(occupancy.limiters)}</span>"
        ),
        _cell(_pct(occupancy.machine_wide_pct)),
        _cell(_pct(occupancy.busy_sm_pct)),
        _cell(_pct(occupancy.reported_pct) + mark),
    )


def _pct(value: float | None) -> str:
    """The unit stands in the head of the column."""
    return DASH if value is None else percent(value).removesuffix(" %")


def limiters_text(limiters: Iterable[str]) -> str:
    """Every resource that binds: "registers and shared memory"."""
    return listed([LIMITERS[name] for name in limiters])


def _decoded(row: KernelRow) -> str:
    """What the name tells: library, element type, tensor cores; bytes of a copy or memset."""
    parts = [row.library, row.dtype or ""]
    if row.bytes is not None:
        parts.append(size(row.bytes))
    if row.uses_tensor_cores:
        parts.append("tensor cores")
    elif row.uses_tensor_cores is False and row.role in ("qk", "pv") and row.kind == "kernel":
        parts.append("no tensor cores")
    return " · ".join(filter(None, parts))


def dims(value: Iterable[int] | None) -> str:
    """Such as "8 × 8 × 16"."""
    return DASH if value is None else " × ".join(f"{length:,}" for length in value)


def swatch(role: Role) -> str:
    """A square of the role's colour and its name."""
    return f"<span class='swatch' style='background:{COLOURS[role]}'></span>{ROLE_LABELS[role]}"


_OP_TITLES = (
    ("CPU op", "", True),
    ("Role", "", True),
    ("Count", "per forward", False),
    ("Self time", "µs", False),
    ("With the ops inside", "µs", False),
)


def _op_table(run: RunResult) -> str:
    rows = "".join(_op_html(row) for row in run.analysis.ops)
    return _details(run, f"{len(run.analysis.ops)} CPU ops", _table(_OP_TITLES, rows), "")


def _op_html(row: OpRow) -> str:
    return (
        f"<tr><th scope='row'><span class='run'>{escape(row.name)}</span></th>"
        f"<td class='text'>{swatch(row.role)}</td><td>{count(row.count_per_forward)}</td>"
        f"<td>{number(row.self_us, 2)}</td><td>{number(row.total_us, 2)}</td></tr>"
    )


def _table(titles: Iterable[tuple[str, str, bool]], rows: str) -> str:
    head = "".join(
        f"<th scope='col'{' class=text' if is_text else ''}>{title}"
        f"{f' <small>{unit}</small>' if unit else ''}</th>"
        for title, unit, is_text in titles
    )
    return f"<table class='kernels'><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _details(run: RunResult, summary: str, table: str, notes: str) -> str:
    name = escape(run.config.label)
    return (
        f"<details><summary><span class='run'>{name}</span>"
        f"<span class='badge'>{escape(run.environment.badge)}</span>"
        f"<span class='problem'>{summary}</span></summary>"
        f"<div class='scroll' role='region' tabindex='0' aria-label='Activities of {name}'>"
        f"{table}</div>{notes}</details>"
    )

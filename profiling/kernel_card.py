"""One GPU activity explained: its name, what caused it, its numbers, launch and occupancy."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple

from profiling.analysis import KernelRow
from profiling.findings.source import source_lines
from profiling.kernel_names import KernelName, decode
from profiling.kernel_tables import LIMITERS, dims, limiters_text, swatch
from profiling.occupancy import (
    BlockLimits,
    DeviceLimits,
    Footprint,
    Occupancy,
    launch_footprint,
    limits_for,
    next_step,
)
from profiling.outcome import RunResult
from profiling.tables import count, number
from profiling.wording import microseconds, percent, size

UNKNOWN = "unknown"


class _Fact(NamedTuple):
    """A line of the card; `value` is HTML, the others are text."""

    term: str
    value: str
    help: str = ""


def kernel_card_html(run: RunResult, entry: int, index: int) -> str:
    """The card of row `index` of the run's kernels; `entry` is the run's place on the board."""
    row = run.analysis.kernels[index]
    name = decode(row.name)
    parts = (
        _head(row),
        _section("Parts of the name", _glossary(name)),
        _section("What the name says", _facts(_decoded(row, name))),
        _section("Caused by", _cause(run, row)),
        _section("Numbers", _facts(_numbers(row))),
        _section("Launch", _facts(_launch(row))),
        _section("Occupancy", _occupancy(run, row)),
        _calculate(run, row, entry, index),
    )
    label = escape(f"{row.short_name} of {run.config.label}")
    return (
        f"<section class='kernel-card' role='region' aria-label='{label}'>"
        f"{''.join(parts)}</section>"
    )


def footprint_of(row: KernelRow) -> Footprint | None:
    """What a block of the kernel takes; None for copies and for incomplete records."""
    return launch_footprint(row.registers_per_thread, row.block, row.shared_memory_bytes)


def limits_of(run: RunResult) -> DeviceLimits | None:
    """The limits of the GPU that the run was recorded on, if they are known."""
    return limits_for(run.environment.compute_capability or "")


def _head(row: KernelRow) -> str:
    return (
        f"<header><h3>{escape(row.short_name)}</h3><span class='role'>{swatch(row.role)}</span>"
        "<button type='button' class='close' data-action='close' aria-label='Close the card'>×"
        f"</button></header><code>{escape(row.name)}</code>"
    )


def _section(title: str, body: str) -> str:
    return f"<h4>{title}</h4>{body}" if body else ""


def _facts(facts: Iterable[_Fact]) -> str:
    return f"<dl>{''.join(_fact(fact) for fact in facts)}</dl>"


def _fact(fact: _Fact) -> str:
    explained = f"<span class='note'>{escape(fact.help)}</span>" if fact.help else ""
    return f"<div><dt>{escape(fact.term)}</dt><dd>{fact.value}{explained}</dd></div>"


def _glossary(name: KernelName) -> str:
    if not name.tokens:
        return ""
    return _facts(_Fact(token.text, escape(token.meaning)) for token in name.tokens)


def _decoded(row: KernelRow, name: KernelName) -> Iterator[_Fact]:
    said = (
        ("Family", name.family, "The naming scheme that the name was read by."),
        ("Library", name.library, "Who wrote or generated the code."),
        ("Operation", name.operation.replace("_", " "), "What it computes, as far as named."),
        # A copy or fill is no program: it has no units, types or tiles.
        *(_kernel_said(name) if row.kind == "kernel" else ()),
    )
    return (_Fact(term, escape(value or UNKNOWN), explained) for term, value, explained in said)


def _kernel_said(name: KernelName) -> tuple[tuple[str, str | None, str], ...]:
    cores = {True: "Tensor Cores", False: "CUDA cores", None: UNKNOWN}
    return (
        ("Units", cores[name.uses_tensor_cores], "Which units multiply, by the name alone."),
        ("Element type", name.dtype, "Of the inputs; for a cast, of its result."),
        ("Tile", name.tile, "The part of the problem that one block works on at a time."),
        ("Architecture", name.architecture, "What it was written for: may be older than the GPU."),
    )


def _cause(run: RunResult, row: KernelRow) -> str:
    # Every chain starts with the annotation.
    chain = " › ".join(row.caused_by[1:])
    if not chain:
        return ""
    return f"<p class='chain'>{escape(chain)}</p>{_source(run, row)}"


def _source(run: RunResult, row: KernelRow) -> str:
    """Every line that may be meant: an op that a forward calls twice has two."""
    # The outermost op is the one that Python called; those inside it are torch's own.
    called = next((op for op in row.caused_by if op.startswith("aten::")), "")
    lines = source_lines(run.config.variant, called) if called else ()
    if not lines:
        return ""
    items = "".join(
        f"<li>{escape(line.place)}: <code>{escape(line.code)}</code></li>" for line in lines
    )
    several = "<p class='note'>Called by more than one line:</p>" if len(lines) > 1 else ""
    return f"{several}<ul>{items}</ul>"


def _numbers(row: KernelRow) -> Iterator[_Fact]:
    yield _Fact("Count", count(row.count_per_forward), "Launches per forward, on average.")
    yield _Fact("Mean time", microseconds(row.mean_us), "GPU time of one launch, from the trace.")
    yield _Fact("Share", f"{number(row.share_pct)} %", "Of all GPU time of a forward.")
    if row.bytes is not None:
        yield _Fact("Bytes", size(row.bytes), "Per copy or fill, from the trace.")
    if row.bytes is not None and row.mean_us > 0:
        rate = row.bytes / row.mean_us / 1000
        yield _Fact(
            "Rate",
            f"{number(rate)} GB/s",
            "Bytes over mean time; a copy within the GPU reads and writes each byte.",
        )


def _launch(row: KernelRow) -> Iterator[_Fact]:
    registers, memory = row.registers_per_thread, row.shared_memory_bytes
    yield _Fact("Launched by", escape(row.launch_api or UNKNOWN), "The CUDA call on the host.")
    if row.kind != "kernel":
        return
    yield _Fact("Grid", dims(row.grid), "Blocks in x, y and z.")
    yield _Fact("Block", dims(row.block), "Threads in x, y and z.")
    yield _Fact(
        "Registers",
        f"{registers} per thread" if registers else UNKNOWN,
        "Fixed by the compiler; a warp takes them in units of 256.",
    )
    yield _Fact(
        "Shared memory",
        UNKNOWN if memory is None else f"{memory:,} B",
        "Static and dynamic per block, without what the driver reserves.",
    )


def _occupancy(run: RunResult, row: KernelRow) -> str:
    """Nothing for a copy; "unknown" for a kernel whose record or device does not tell."""
    if row.kind != "kernel":
        return ""
    if row.occupancy is None:
        return f"<p>{UNKNOWN}: the launch record or the limits of the GPU are missing.</p>"
    sentences = (
        row.occupancy.why_reported_differs,
        row.occupancy.caveat,
        _next_step(run, row),
    )
    paragraphs = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence)
    return _facts(_occupancy_facts(row.occupancy)) + paragraphs


def _occupancy_facts(occupancy: Occupancy) -> tuple[_Fact, ...]:
    return (
        _Fact(
            "Theoretical",
            f"{percent(occupancy.theoretical_pct)}, limited by {limiters_text(occupancy.limiters)}",
            "Warps that fit on an SM over its warp slots, whatever the grid; "
            "each limiter named binds.",
        ),
        _Fact("Blocks per SM", f"{occupancy.blocks_per_sm:,}", _allowed(occupancy.block_limits)),
        _Fact(
            "Waves",
            UNKNOWN if occupancy.waves is None else number(occupancy.waves, 2),
            "The grid over all blocks that the GPU holds at once.",
        ),
        _Fact(
            "Machine-wide",
            _percent(occupancy.machine_wide_pct),
            "Averaged over all SMs, idle ones included: theoretical × the smaller of 1 and waves.",
        ),
        _Fact(
            "Busy SMs",
            _at_most(occupancy.busy_sm_pct),
            "Only SMs that got a block: a bound for what Nsight Compute calls achieved, "
            "not a measurement.",
        ),
        _Fact(
            "Kineto",
            _percent(occupancy.reported_pct),
            "The profiler's “est. achieved occupancy %”: computed from the launch, not measured.",
        ),
    )


def _allowed(limits: BlockLimits) -> str:
    """What each resource alone allows."""
    allowed = (
        (LIMITERS["warps"], limits.warps),
        (LIMITERS["registers"], limits.registers),
        (LIMITERS["shared_memory"], limits.shared_memory),
        (LIMITERS["blocks"], limits.blocks),
    )
    parts = [f"{name} {'no limit' if limit is None else limit}" for name, limit in allowed]
    return f"The fewest that one resource allows: {', '.join(parts)}."


def _percent(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    # A profiler that does not know the device prints a negative number, which is no share.
    return percent(value) if value >= 0 else f"{value:g}"


def _at_most(value: float | None) -> str:
    return UNKNOWN if value is None else f"at most {percent(value)}"


def _next_step(run: RunResult, row: KernelRow) -> str | None:
    footprint, limits = footprint_of(row), limits_of(run)
    return next_step(footprint, limits).sentence if footprint and limits else None


def _calculate(run: RunResult, row: KernelRow, entry: int, index: int) -> str:
    if footprint_of(row) is None or limits_of(run) is None:
        return ""
    return (
        f"<button type='button' data-action='calculate' data-run='{entry}' data-kernel='{index}'>"
        "Open in the occupancy calculator</button>"
    )

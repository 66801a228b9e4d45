"""Plain-text tables for the terminal."""

from collections.abc import Sequence

from profiling.findings import Subject, find
from profiling.occupancy import Occupancy
from profiling.outcome import Environment, Outcome, Report, RunResult, reason, status

NONE = "-"


def report_table(report: Report) -> str:
    """All runs of a report, one per line, with the problem and the machine above."""
    header = [environment_line(report.environment)]
    if report.outcomes:
        header.append(report.outcomes[0].config.spec.shape_text)
    rows = [_run_row(outcome) for outcome in report.outcomes if isinstance(outcome, RunResult)]
    notes = [
        f"{outcome.config.label}: {status(outcome)}. {reason(outcome)}"
        for outcome in report.outcomes
        if not isinstance(outcome, RunResult)
    ]
    titles = (
        "variant", "kernels", "copies", "memsets", "GPU busy µs", "GPU graph µs", "host µs",
        "profiled host µs", "first call µs", "occupancy %", "Kineto %", "peak MiB", "max error",
    )  # fmt: skip
    table = [_table(titles, rows)] if rows else []
    return "\n".join([*header, *table, *notes])


def environment_line(environment: Environment) -> str:
    """GPU and versions, or the CPU with the reason why there is no GPU."""
    if environment.gpu is None:
        return (
            f"CPU {environment.cpu}, torch {environment.torch}. {environment.no_gpu_reason or ''}"
        ).strip()
    return (
        f"{environment.gpu}, torch {environment.torch}, CUDA {environment.cuda}, cuDNN "
        f"{environment.cudnn}, driver {environment.driver}, {environment.date}"
    )


def outcome_line(outcome: Outcome) -> str:
    """One run in one line, for progress."""
    head = f"{outcome.config.label} {outcome.config.spec.shape_text}: {status(outcome)}"
    if isinstance(outcome, RunResult):
        busy = outcome.analysis.per_forward.gpu_busy_us
        host = outcome.unprofiled.cpu_time_us.median
        return f"{head}, GPU {_number(busy, 1)} µs, host {_number(host, 1)} µs"
    return f"{head}. {reason(outcome)}"


def analysis_table(subject: Subject) -> str:
    """One analysed trace: totals per forward, its GPU activities (or CPU ops), what they mean."""
    analysis = subject.analysis
    per = analysis.per_forward
    device = analysis.device
    lines = [
        f"{device.name or 'unknown device'}; {analysis.region.count} x {analysis.region.name}",
        f"per forward: {_number(per.kernels)} kernels, {_number(per.memcpys)} copies, "
        f"{_number(per.memsets)} memsets; GPU busy {_number(per.gpu_busy_us, 1)} µs, idle "
        f"{_number(per.gpu_idle_us, 1)} µs; host {_number(per.cpu_time_us, 1)} µs (profiled), "
        f"launch calls {_number(per.launch_api_us, 1)} µs",
    ]
    if analysis.kernels:
        titles = (
            "activity",
            "role",
            "per forward",
            "mean µs",
            "share %",
            "occupancy %",
            "Kineto %",
        )
        rows = [
            (
                row.short_name,
                row.role,
                _number(row.count_per_forward),
                _number(row.mean_us, 2),
                _number(row.share_pct, 1),
                _number(row.occupancy.theoretical_pct if row.occupancy else None, 1),
                _number(row.occupancy.reported_pct if row.occupancy else None),
            )
            for row in analysis.kernels
        ]
        lines.append(_table(titles, rows))
    elif analysis.ops:
        ops = [
            (row.name, row.role, _number(row.count_per_forward), _number(row.self_us, 2))
            for row in analysis.ops
        ]
        lines.append(_table(("CPU op", "role", "per forward", "self µs"), ops))
    lines += conclusions(subject)
    return "\n".join(lines)


def conclusions(subject: Subject) -> list[str]:
    """The verdict, what is wrong with the recording, and the findings, a line each."""
    bound = {"host": "host-bound", "gpu": "GPU-bound", "unclear": "unclear"}[subject.verdict.bound]
    return [
        f"verdict: {bound}. {subject.verdict.evidence}",
        *(f"{c.name}: {c.sentence}" for c in subject.completeness.checks if c.status != "ok"),
        *(f"{f.severity}: {f.title}. {f.evidence} {f.advice}".strip() for f in find(subject)),
    ]


def occupancy_table(occupancy: Occupancy) -> str:
    """Occupancy of one footprint in words."""
    lines = [
        f"theoretical occupancy {_number(occupancy.theoretical_pct, 2)} % "
        f"({occupancy.blocks_per_sm} blocks, {occupancy.warps_per_sm} warps per SM)",
        f"limited by {', '.join(occupancy.limiters).replace('_', ' ')}",
    ]
    if occupancy.waves is not None:
        lines.append(
            f"machine-wide {_number(occupancy.machine_wide_pct, 2)} %, busy SMs at most "
            f"{_number(occupancy.busy_sm_pct, 2)} %, {_number(occupancy.waves, 2)} waves"
        )
    if occupancy.caveat:
        lines.append(occupancy.caveat)
    return "\n".join(lines)


def _run_row(run: RunResult) -> tuple[str, ...]:
    per, timed = run.analysis.per_forward, run.unprofiled
    occupancy = run.analysis.occupancy
    peak = run.peak_memory_bytes
    return (
        run.config.label,
        _number(per.kernels),
        _number(per.memcpys),
        _number(per.memsets),
        _number(per.gpu_busy_us, 1),
        _number(timed.gpu_graph_us, 1),
        _number(timed.cpu_time_us.median, 1),
        _number(per.cpu_time_us, 1),
        _number(timed.first_call_us),
        _number(occupancy.theoretical_pct if occupancy else None, 1),
        _number(occupancy.reported_pct if occupancy else None, 1),
        _number(peak / 2**20 if peak is not None else None, 1),
        f"{run.numerics.max_abs_error:.2g}",
    )


def _number(value: float | None, digits: int = 0) -> str:
    """None as a dash; a mean of counts that is not whole keeps its digits."""
    if value is None:
        return NONE
    if digits == 0 and value != round(value):
        digits = 0 if abs(value) >= 100 else 2
    return f"{value:,.{digits}f}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; the first is text, the others are right-aligned."""
    widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(titles))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join(line(row) for row in [titles, *rows])

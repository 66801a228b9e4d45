"""Hold our occupancy figures, and the profiler's, against Nsight Compute.

`collect` runs the same forwards (tests/bench/cases.py) under torch.profiler and under ncu, joins
the launches in order and writes one CSV; it needs a CUDA GPU and ncu. `compare` reads that CSV
without torch.

    python -m tests.bench.occupancy_against_ncu collect --out results
    python -m tests.bench.occupancy_against_ncu compare results/occupancy_ncu.csv --all
"""

import argparse
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from difflib import SequenceMatcher
from math import prod
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from profiling.kernel_names import decode
from profiling.occupancy import (
    DEFAULT_SHARED_MEMORY_PER_BLOCK_BYTES,
    Footprint,
    kineto_reported_pct,
    limits_for,
    occupancy,
)
from profiling.trace import Trace, load_trace, shareable

MODULE = "tests.bench.occupancy_against_ncu"
MARKER = "spin_kernel"

# Files in the output folder.
REPORT, RAW, LOG = "ncu.ncu-rep", "ncu_raw.csv", "ncu.log"
TRACE, TRACE_CASES, NCU_CASES = "kineto.json.gz", "kineto_cases.json", "ncu_cases.json"
TABLE = "occupancy_ncu.csv"

# Sections hold what this chip and this ncu know; an unknown metric name would end the run.
SECTIONS = ("--section", "LaunchStats", "--section", "Occupancy")
DURATION = "gpu__time_duration.sum"
METRICS = (
    DURATION,
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
    "launch__shared_mem_per_block_driver",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    "launch__occupancy_limit_blocks",
    "launch__waves_per_multiprocessor",
    "sm__maximum_warps_per_active_cycle_pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)
_UNIT_FACTORS = {
    "": 1.0,
    "%": 1.0,
    "register/thread": 1.0,
    "block": 1.0,
    "byte": 1.0,
    "byte/block": 1.0,
    "kbyte": 1000.0,
    "kbyte/block": 1000.0,
}
_UNIT_MICROSECONDS = {"n": 1e-3, "u": 1.0, "m": 1e3, "s": 1e6}

# ncu prints two decimals.
ROUNDING_POINTS = 0.0051
# The profiler prints whole percents.
PROFILER_ROUNDING_POINTS = 0.5

Dims = tuple[int, ...]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class NcuLaunch:
    """A kernel as Nsight Compute saw it; shared memory is static + dynamic."""

    kernel: str
    block: Dims
    grid: Dims
    registers_per_thread: int
    shared_memory_bytes: int
    driver_shared_memory_bytes: int | None
    blocks_limit_registers: int | None
    blocks_limit_shared_memory: int | None
    blocks_limit_warps: int | None
    blocks_limit_blocks: int | None
    blocks_limit_barriers: int | None
    cluster_size: int | None
    waves_per_sm: float | None
    theoretical_occupancy_pct: float
    achieved_occupancy_pct: float
    duration_us: float | None


@dataclass(frozen=True, slots=True)
class KinetoLaunch:
    """A kernel as torch.profiler recorded it."""

    kernel: str
    block: Dims
    grid: Dims
    registers_per_thread: int
    shared_memory_bytes: int
    reported_pct: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One launch in the CSV; names are those of tests/data/ncu_*.csv where they mean the same."""

    case: str
    dtype: str
    shape: str
    causal: bool
    kernel: str
    block: str
    grid: str
    registers_per_thread: int
    shared_memory_bytes: int
    driver_shared_memory_bytes: int | None
    blocks_limit_registers: int | None
    blocks_limit_shared_memory: int | None
    blocks_limit_warps: int | None
    blocks_limit_blocks: int | None
    blocks_limit_barriers: int | None
    cluster_size: int | None
    theoretical_occupancy_pct: float
    achieved_occupancy_pct: float
    waves_per_sm: float | None
    kineto_reported_pct: float | None
    duration_us: float | None
    sm_count: int
    compute_capability: str


def read_ncu(text: str) -> list[NcuLaunch]:
    """The launches in `ncu --csv --page raw`: a header, a row of units, a row per launch."""
    start = re.search(r'^"ID",', text, re.MULTILINE)
    if start is None:
        return []
    units, *rows = csv.DictReader(io.StringIO(text[start.start() :]))
    return [_ncu_launch(row, units) for row in rows if (row.get("ID") or "").isdigit()]


def _ncu_launch(row: dict[str, str], units: dict[str, str]) -> NcuLaunch:
    def number(metric: str) -> float | None:
        text = (row.get(metric) or "").replace(",", "")
        try:
            value = float(text)
        except ValueError:  # "n/a", or a metric that this ncu does not have
            return None
        return value * _unit_factor(metric, units.get(metric) or "")

    def whole(metric: str) -> int | None:
        value = number(metric)
        return None if value is None else round(value)

    def needed(metric: str) -> float:
        value = number(metric)
        if value is None:
            raise ValueError(f"ncu gave no {metric} for launch {row['ID']} ({row['Kernel Name']})")
        return value

    static = needed("launch__shared_mem_per_block_static")
    dynamic = needed("launch__shared_mem_per_block_dynamic")
    return NcuLaunch(
        kernel=row["Kernel Name"],
        block=dims(row["Block Size"]),
        grid=dims(row["Grid Size"]),
        registers_per_thread=round(needed("launch__registers_per_thread")),
        shared_memory_bytes=round(static + dynamic),
        driver_shared_memory_bytes=whole("launch__shared_mem_per_block_driver"),
        blocks_limit_registers=whole("launch__occupancy_limit_registers"),
        blocks_limit_shared_memory=whole("launch__occupancy_limit_shared_mem"),
        blocks_limit_warps=whole("launch__occupancy_limit_warps"),
        blocks_limit_blocks=whole("launch__occupancy_limit_blocks"),
        blocks_limit_barriers=whole("launch__occupancy_limit_barriers"),
        cluster_size=whole("launch__cluster_size"),
        waves_per_sm=number("launch__waves_per_multiprocessor"),
        theoretical_occupancy_pct=needed("sm__maximum_warps_per_active_cycle_pct"),
        achieved_occupancy_pct=needed("sm__warps_active.avg.pct_of_peak_sustained_active"),
        duration_us=number(DURATION),
    )


def _unit_factor(metric: str, unit: str) -> float:
    if metric == DURATION:
        return _UNIT_MICROSECONDS[unit[:1].lower()]
    factor = _UNIT_FACTORS.get(unit.lower())
    # Limits and waves are counts, whatever ncu calls their unit.
    return 1.0 if factor is None else factor


def dims(text: str) -> Dims:
    """(128, 1, 1) from "(128, 1, 1)" or "128x1x1"."""
    return tuple(int(size) for size in re.findall(r"\d+", text))


def read_kineto(trace: Trace) -> list[KinetoLaunch]:
    """Kernels in the order in which they ran; copies and memsets are no kernels for ncu either."""
    launches = []
    for event in trace.in_category("kernel"):
        reported = event.args.get("est. achieved occupancy %")
        launches.append(
            KinetoLaunch(
                kernel=event.name,
                block=tuple(event.args["block"]),
                grid=tuple(event.args["grid"]),
                registers_per_thread=int(event.args["registers per thread"]),
                shared_memory_bytes=int(event.args["shared memory"]),
                reported_pct=float(reported) if isinstance(reported, int | float) else None,
            )
        )
    return launches


def split_at_markers(launches: Iterable[Item], name: Callable[[Item], str]) -> list[list[Item]]:
    """What ran between one marker and the next; what ran before the first is left out."""
    groups: list[list[Item]] = []
    for launch in launches:
        if MARKER in name(launch):
            groups.append([])
        elif groups:
            groups[-1].append(launch)
    return groups[:-1]


def pair(
    ncu: Sequence[NcuLaunch], kineto: Sequence[KinetoLaunch]
) -> list[tuple[NcuLaunch, KinetoLaunch | None]]:
    """The same launch in both records, in order; None where a tool saw what the other did not."""
    keys = [[(k.registers_per_thread, k.block, k.grid) for k in side] for side in (ncu, kineto)]
    partner: dict[int, KinetoLaunch] = {}
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            partner[block.a + offset] = kineto[block.b + offset]
    return [(launch, partner.get(index)) for index, launch in enumerate(ncu)]


def join(
    ncu_text: str, ncu_cases: dict[str, Any], trace: Trace, kineto_cases: dict[str, Any]
) -> tuple[list[Row], list[str]]:
    """One row per launch that ncu profiled, and in words whatever did not fit together."""
    notes: list[str] = []
    by_ncu = _by_case(
        split_at_markers(read_ncu(ncu_text), lambda k: k.kernel), ncu_cases, "ncu", notes
    )
    by_kineto = _by_case(
        split_at_markers(read_kineto(trace), lambda k: k.kernel), kineto_cases, "trace", notes
    )
    environment = ncu_cases["environment"]
    rows: list[Row] = []
    for case in ncu_cases["cases"]:
        name = case["name"]
        ncu, kineto = by_ncu.get(name, []), by_kineto.get(name, [])
        pairs = pair(ncu, kineto)
        joined = sum(other is not None for _, other in pairs)
        if not len(ncu) == len(kineto) == joined:
            notes.append(f"{name}: {len(ncu)} by ncu, {len(kineto)} in the trace, {joined} joined")
        for launch, other in pairs:
            if other and other.shared_memory_bytes != launch.shared_memory_bytes:
                notes.append(
                    f"{name}: shared memory {launch.shared_memory_bytes} B by ncu, "
                    f"{other.shared_memory_bytes} B in the trace: {other.kernel[:80]}"
                )
            rows.append(_row(case, launch, other, environment))
    return rows, notes


def _by_case(
    groups: list[list[Item]], cases: dict[str, Any], source: str, notes: list[str]
) -> dict[str, list[Item]]:
    """Launches by case name. A record that was cut off ends early: what it holds is in order."""
    ran = cases["cases"]
    if len(groups) != len(ran):
        notes.append(f"{source}: {len(ran)} cases ran, {len(groups)} were found between markers")
    return {
        case["name"]: group
        for case, group in zip(ran, groups, strict=False)
        if not case.get("failed")
    }


def _row(
    case: dict[str, Any], ncu: NcuLaunch, kineto: KinetoLaunch | None, environment: dict[str, Any]
) -> Row:
    values = asdict(ncu) | {
        "kernel": kineto.kernel if kineto else ncu.kernel,
        "block": "x".join(map(str, ncu.block)),
        "grid": "x".join(map(str, ncu.grid)),
    }
    return Row(
        case=case["variant"],
        dtype=case["dtype"],
        shape=case["shape"],
        causal=case["causal"],
        kineto_reported_pct=kineto.reported_pct if kineto else None,
        sm_count=environment["sm_count"],
        compute_capability=environment["compute_capability"],
        **values,
    )


def write_table(path: Path, rows: Sequence[Row], environment: dict[str, Any]) -> None:
    known = ("gpu", "driver", "torch", "cuda", "cudnn", "date", "ncu")
    with path.open("w", newline="") as file:
        facts = "; ".join(f"{key} {environment[key]}" for key in known if environment.get(key))
        file.write(f"# {facts}\n")
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


@dataclass(frozen=True, slots=True)
class Checked:
    """One launch: ours, the profiler's and Nsight Compute's figures, in percent."""

    label: str
    kernel: str
    footprint: Footprint
    grid_blocks: int
    sm_count: int
    ours_theoretical: float
    ncu_theoretical: float
    ours_busy_sm: float
    kineto: float | None
    achieved: float

    @property
    def group(self) -> str:
        if self.footprint.shared_memory_bytes > DEFAULT_SHARED_MEMORY_PER_BLOCK_BYTES:
            return GROUPS[0]
        return GROUPS[1] if self.grid_blocks < self.sm_count else GROUPS[2]

    @property
    def kind(self) -> tuple[str, str | None, Footprint]:
        """The same for launches of one kernel; tools spell template arguments differently."""
        name = decode(self.kernel)
        return name.family, name.operation, self.footprint

    @property
    def our_error(self) -> float:
        return abs(self.ours_busy_sm - self.achieved)

    @property
    def kineto_error(self) -> float | None:
        return None if self.kineto is None else abs(self.kineto - self.achieved)


GROUPS = (
    "over 48 KiB of shared memory per block",
    "at most 48 KiB, fewer blocks than SMs",
    "the rest",
)


def read_table(path: Path, compute_capability: str, sm_count: int) -> list[Checked]:
    """Rows of a CSV of `collect` or of tests/data/ncu_*.csv, which lacks the profiler's figure."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [_checked(row, compute_capability, sm_count) for row in csv.DictReader(lines)]


def _checked(row: dict[str, str], compute_capability: str, sm_count: int) -> Checked:
    if "shared_memory_bytes" in row:
        shared = int(row["shared_memory_bytes"])
    else:
        shared = int(row["shared_memory_per_block_incl_1KiB_reserved"]) - 1024
    capability = row.get("compute_capability") or compute_capability
    limits = limits_for(capability)
    if limits is None:
        raise ValueError(f"unknown compute capability {capability!r}")
    sms = int(row.get("sm_count") or sm_count)
    footprint = Footprint(int(row["registers_per_thread"]), prod(dims(row["block"])), shared)
    grid_blocks = prod(dims(row["grid"]))
    ours = occupancy(footprint, limits, grid_blocks=grid_blocks, sm_count=sms)
    if ours.busy_sm_pct is None:
        raise ValueError("a grid and an SM count give a busy-SM estimate")
    if "kineto_reported_pct" in row:
        text = row["kineto_reported_pct"]
        kineto = float(text) if text else None
    else:
        kineto = float(kineto_reported_pct(footprint, limits, grid_blocks, sms))
    names = (row.get("case") or row["backend"], row.get("dtype"), row.get("shape"))
    return Checked(
        label=" ".join(name for name in names if name),
        kernel=row["kernel"],
        footprint=footprint,
        grid_blocks=grid_blocks,
        sm_count=sms,
        ours_theoretical=ours.theoretical_pct,
        ncu_theoretical=float(row["theoretical_occupancy_pct"]),
        ours_busy_sm=ours.busy_sm_pct,
        kineto=kineto,
        achieved=float(row["achieved_occupancy_pct"]),
    )


def report(rows: Sequence[Checked], known: Sequence[Checked] = (), *, every_row: bool) -> str:
    """Markdown: the agreement in theory, the errors by group, and on request every launch."""
    kinds = {row.kind for row in rows}
    worst = max((abs(row.ours_theoretical - row.ncu_theoretical) for row in rows), default=0.0)
    above = [row.achieved - row.ours_busy_sm for row in rows if row.achieved > row.ours_busy_sm]
    lines = [
        f"{len(rows)} launches of {len(kinds)} distinct kernels"
        + (f", {len(kinds - {row.kind for row in known})} of them new" if known else "")
        + f". Theoretical occupancy: largest difference from ncu {worst:.4f} points.",
        f"Achieved exceeds our busy-SM estimate in {len(above)} launches, "
        f"by {max(above, default=0.0):.2f} points at most.",
        "",
        "| launches | count | kernels | ours: median | worst | profiler: median | worst "
        "| ours closer | profiler closer by over 0.5 |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(_group_line(name, [row for row in rows if row.group == name]) for name in GROUPS),
        _group_line("all", rows),
        "",
        "Errors are absolute differences from ncu's achieved occupancy, in points.",
    ]
    wrong = mismatches(rows)
    if wrong:
        lines += ["", "Theoretical occupancy differs from ncu:"]
        lines += [
            f"- {row.label}: ours {row.ours_theoretical:.2f}, ncu {row.ncu_theoretical:.2f}, "
            f"{row.footprint}, {row.kernel[:120]}"
            for row in wrong
        ]
    if every_row:
        lines += ["", *_every_row(rows)]
    return "\n".join(lines)


def mismatches(rows: Iterable[Checked]) -> list[Checked]:
    return [r for r in rows if abs(r.ours_theoretical - r.ncu_theoretical) > ROUNDING_POINTS]


def _group_line(name: str, rows: Sequence[Checked]) -> str:
    kernels = len({row.kind for row in rows})
    ours = [row.our_error for row in rows]
    both = [(row.our_error, row.kineto_error) for row in rows]
    theirs = [error for _, error in both if error is not None]
    closer = sum(theirs is not None and ours < theirs for ours, theirs in both)
    farther = sum(
        theirs is not None and ours > theirs + PROFILER_ROUNDING_POINTS for ours, theirs in both
    )
    cells = (name, len(rows), kernels, *_spread(ours), *_spread(theirs), closer, farther)
    return f"| {' | '.join(map(str, cells))} |"


def _spread(errors: Sequence[float]) -> tuple[str, str]:
    return (f"{median(errors):.2f}", f"{max(errors):.2f}") if errors else ("–", "–")


def _every_row(rows: Sequence[Checked]) -> list[str]:
    lines = [
        "| case | kernel | registers | threads | shared B | grid | theory ours | theory ncu "
        "| busy-SM ours | profiler | achieved ncu |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        cells = (
            row.label,
            f"`{decode(row.kernel).short}`",
            row.footprint.registers_per_thread,
            row.footprint.threads_per_block,
            row.footprint.shared_memory_bytes,
            row.grid_blocks,
            f"{row.ours_theoretical:.2f}",
            f"{row.ncu_theoretical:.2f}",
            f"{row.ours_busy_sm:.2f}",
            "–" if row.kineto is None else f"{row.kineto:g}",
            f"{row.achieved:.2f}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def run_workload(out: Path, only: str, device: str, *, traced: bool) -> None:
    """Warm every case up, then launch each once, under ncu or under torch.profiler."""
    from profiling.environment import probe
    from tests.bench import cases

    out.mkdir(parents=True, exist_ok=True)
    wanted = [case for case in cases.CASES if only in case.name]
    cases.mark(device)
    ready, refused = cases.warmed_up(wanted, device)
    path = out / (TRACE_CASES if traced else NCU_CASES)

    def write_cases(failed: dict[str, str]) -> None:
        document = {
            "environment": asdict(probe("cuda" if device == "cuda" else "cpu")),
            "cases": [
                {
                    "name": item.case.name,
                    "variant": item.case.variant,
                    "dtype": item.case.dtype,
                    "shape": "x".join(map(str, item.case.shape)),
                    "causal": item.case.causal,
                    "failed": failed.get(item.case.name),
                }
                for item in ready
            ],
            "left_out": [{"name": case.name, "reason": why} for case, why in refused],
        }
        path.write_text(json.dumps(document, indent=1) + "\n")

    write_cases({})  # should the launches be cut off
    if traced:
        plain = out / "kineto.json"
        failed = cases.record(ready, device, plain)
        (out / TRACE).write_bytes(shareable(plain.read_bytes()))
        plain.unlink()
    else:
        with cases.cuda_profiler_range(device):
            failed = cases.launch_all(ready, device)
    write_cases(failed)


def run_ncu(out: Path, only: str, ncu: str, timeout_s: float) -> None:
    """Profile the workload and print ncu's raw page as CSV; falls back to single metrics."""
    raw = ""
    for selection in ((*SECTIONS, "--metrics", DURATION), ("--metrics", ",".join(METRICS))):
        started = time.monotonic()
        _profile(out, only, ncu, selection, timeout_s)
        raw = _import(out, ncu)
        (out / RAW).write_text(raw)
        spent_s = time.monotonic() - started
        if read_ncu_or_nothing(raw) or spent_s > timeout_s / 3:
            return
        timeout_s -= spent_s
        print(f"ncu profiled nothing with {' '.join(selection)[:80]}", file=sys.stderr)


def read_ncu_or_nothing(raw: str) -> list[NcuLaunch]:
    try:
        return read_ncu(raw)
    except (ValueError, KeyError) as error:
        print(f"ncu's CSV cannot be read: {error}", file=sys.stderr)
        return []


def _profile(out: Path, only: str, ncu: str, selection: Sequence[str], timeout_s: float) -> None:
    command = [
        ncu,
        *("--target-processes", "all", "--profile-from-start", "off"),
        *("--clock-control", "none", "--apply-rules", "no", *selection),
        *("--force-overwrite", "--export", str(out / Path(REPORT).stem)),
        *("--log-file", str(out / LOG)),
        *(sys.executable, "-m", MODULE, "workload", "--out", str(out), "--only", only),
    ]
    process = subprocess.Popen(command, env=_environment())
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        print(f"ncu was stopped after {timeout_s:.0f} s", file=sys.stderr)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _import(out: Path, ncu: str) -> str:
    if not (out / REPORT).exists():
        return ""
    command = [ncu, "--import", str(out / REPORT), "--csv", "--page", "raw"]
    command += ["--print-units", "base"]
    answer = subprocess.run(command, capture_output=True, text=True, env=_environment())
    if answer.returncode:
        print(answer.stdout[-2000:], answer.stderr[-2000:], file=sys.stderr)
    return answer.stdout


def _environment() -> dict[str, str]:
    """One compiler process, and one cache for both passes, outside of what is handed over."""
    cache = Path(tempfile.gettempdir()) / "occupancy_compile_cache"
    return os.environ | {
        "LC_ALL": "C",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
    }


def join_folder(out: Path, ncu_version: str | None = None) -> Path:
    """Write the table from the files of both passes."""
    ncu_cases = json.loads((out / NCU_CASES).read_text())
    trace = Trace((), {})
    kineto_cases: dict[str, Any] = {"cases": []}
    if (out / TRACE).exists():  # else ncu's figures stand alone
        trace, kineto_cases = load_trace(out / TRACE), json.loads((out / TRACE_CASES).read_text())
    rows, notes = join((out / RAW).read_text(), ncu_cases, trace, kineto_cases)
    for note in notes:
        print(note, file=sys.stderr)
    write_table(out / TABLE, rows, ncu_cases["environment"] | {"ncu": ncu_version})
    return out / TABLE


def collect(out: Path, only: str, ncu: str, timeout_s: float) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", MODULE, "trace", "--out", str(out), "--only", only]
    traced = subprocess.run(command, env=_environment())
    if traced.returncode:
        print(f"the traced pass ended with {traced.returncode}", file=sys.stderr)
    run_ncu(out, only, ncu, timeout_s)
    return join_folder(out, _ncu_version(ncu))


def _ncu_version(ncu: str) -> str | None:
    answer = subprocess.run([ncu, "--version"], capture_output=True, text=True)
    found = re.search(r"Version (\S+)", answer.stdout)
    return found[1] if found else None


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.command in ("workload", "trace"):
        run_workload(options.out, options.only, options.device, traced=options.command == "trace")
        return 0
    if options.command == "collect":
        table = collect(options.out, options.only, options.ncu, options.timeout_s)
    elif options.command == "join":
        table = join_folder(options.out)
    else:
        table = options.table
    rows = read_table(table, options.compute_capability, options.sm_count)
    known = (
        read_table(options.known, options.compute_capability, options.sm_count)
        if options.known
        else []
    )
    print(report(rows, known, every_row=options.all))
    return 1 if mismatches(rows) or not rows else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("workload", "launch every case once, for ncu --profile-from-start off"),
        ("trace", "launch every case once, under torch.profiler"),
        ("collect", "both passes, the joined CSV and the comparison"),
        ("join", "the CSV again from the files of collect"),
        ("compare", "how far the figures are from ncu's"),
    ):
        command = commands.add_parser(name, help=what)
        if name == "compare":
            command.add_argument("table", type=Path, metavar="CSV")
        else:
            command.add_argument("--out", type=Path, required=True, metavar="DIR")
        if name in ("workload", "trace", "collect"):
            command.add_argument("--only", default="", metavar="TEXT", help="cases that contain it")
        if name in ("workload", "trace"):
            command.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
        if name == "collect":
            command.add_argument("--ncu", default="ncu")
            command.add_argument("--timeout-s", type=float, default=400, help="of the ncu pass")
        if name in ("collect", "join", "compare"):
            command.add_argument("--all", action="store_true", help="every launch in a table")
            command.add_argument("--known", type=Path, metavar="CSV", help="count what it lacks")
            command.add_argument("--compute-capability", default="9.0", help="if the CSV lacks it")
            command.add_argument("--sm-count", type=int, default=132, help="if the CSV lacks it")
    return parser


if __name__ == "__main__":
    sys.exit(main())

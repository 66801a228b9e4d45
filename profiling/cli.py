"""python -m profiling run | analyze | record | occupancy: what the page does, for scripts.

Exit code 0: done, skipped runs included. 1: a run failed. 2: the request cannot be meant, with one
sentence on stderr. torch is imported only by the commands that run something.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from attention.spec import DTYPES, AttentionSpec, SpecError, whole_number
from attention.variants import BACKENDS, VARIANTS
from profiling import text
from profiling.analysis import ANNOTATION, analyse
from profiling.completeness import completeness
from profiling.config import DEVICE_CHOICES, RunConfig, parse_variant
from profiling.findings import Subject
from profiling.launch import read_launch
from profiling.outcome import Failed, Outcome, Report, RunResult
from profiling.report import (
    SCHEMA,
    Json,
    analysis_json,
    occupancy_json,
    report_json,
    save_report,
    trace_name,
)
from profiling.trace import TraceError, load_trace

DONE, RUN_FAILED, BAD_REQUEST = 0, 1, 2


class RequestError(ValueError):
    """A request that cannot be meant; the message is one sentence."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message[:1].upper()}{message[1:]}; see {self.prog} --help.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        options = _parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except (RequestError, SpecError, TraceError) as error:
        print(error, file=sys.stderr)
        return BAD_REQUEST


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m profiling", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True, parser_class=_Parser, metavar="COMMAND")

    run = commands.add_parser("run", help="run variants and show what they cost")
    run.set_defaults(command=_run)
    run.add_argument(
        "--variant",
        action="append",
        required=True,
        metavar="NAME[:BACKEND]",
        help=f"repeatable; NAME: {_names(VARIANTS)}; BACKEND (sdpa only): {_names(BACKENDS)}",
    )
    run.add_argument("--backend", help="for a bare sdpa (default: auto)")
    for field in ("seq_len", "batch", "heads", "kv_heads", "head_dim", "forwards", "seed"):
        run.add_argument(f"--{field.replace('_', '-')}", metavar="N", help=_default(field))
    run.add_argument("--dtype", default="bfloat16", help=f"one of {', '.join(DTYPES)}")
    run.add_argument("--causal", action=argparse.BooleanOptionalAction, default=True)
    run.add_argument("--device", default="auto", help=f"one of {', '.join(DEVICE_CHOICES)}")
    run.add_argument(
        "--pipelined", action="store_true", help="do not wait for the GPU after each forward"
    )
    run.add_argument("--trace", type=Path, metavar="DIR", help="also write the Chrome traces here")
    run.add_argument("--json", action="store_true", help="one JSON document on stdout")

    analyze = commands.add_parser("analyze", help="read a torch.profiler trace (needs no torch)")
    analyze.set_defaults(command=_analyze)
    analyze.add_argument("trace", type=Path, metavar="TRACE.json[.gz]")
    analyze.add_argument("--annotation", default=ANNOTATION, help="default: %(default)s")
    analyze.add_argument("--json", action="store_true", help="one JSON document on stdout")

    record = commands.add_parser("record", help="record every variant at four lengths")
    record.set_defaults(command=_record)
    record.add_argument("--out", type=Path, required=True, metavar="FILE.zip")
    record.add_argument("--device", default="auto", help=f"one of {', '.join(DEVICE_CHOICES)}")
    record.add_argument("--json", action="store_true", help="the report as JSON on stdout as well")

    card = commands.add_parser("occupancy", help="theoretical occupancy of a kernel, by hand")
    card.set_defaults(command=_occupancy)
    card.add_argument("--registers", required=True, metavar="N", help="per thread")
    card.add_argument("--block", required=True, metavar="N", help="threads per block, in all")
    card.add_argument(
        "--shared-memory", default="0", metavar="BYTES", help="static + dynamic, per block"
    )
    card.add_argument("--compute-capability", required=True, metavar="X.Y")
    card.add_argument("--grid", metavar="N", help="blocks in all")
    card.add_argument("--sm-count", metavar="N", help="streaming multiprocessors of the GPU")
    card.add_argument("--json", action="store_true", help="one JSON document on stdout")
    return parser


def _names(entries: Sequence[Any]) -> str:
    return ", ".join(entry.name for entry in entries)


def _default(field: str) -> str:
    if field == "kv_heads":
        return "default: as many as heads"
    kinds = (AttentionSpec, RunConfig)
    return f"default: {next(f.default for kind in kinds for f in fields(kind) if f.name == field)}"


def _run(options: argparse.Namespace) -> int:
    configs = _configs(options)
    outcomes: list[Outcome] = []
    from profiling.environment import probe
    from profiling.execute import execute

    for config in configs:
        _progress(f"{config.label} …")
        outcomes.append(execute(config))
        if options.trace:
            _write_trace(options.trace, len(outcomes), outcomes[-1])
    report = Report(probe(configs[0].device), tuple(outcomes))
    _print(options, report_json(report), lambda: text.report_table(report))
    return RUN_FAILED if any(isinstance(o, Failed) for o in outcomes) else DONE


def _configs(options: argparse.Namespace) -> list[RunConfig]:
    given = {
        field: whole_number(field, getattr(options, field))
        for field in ("seq_len", "batch", "heads", "kv_heads", "head_dim", "seed")
        if getattr(options, field) is not None
    }
    given.setdefault("kv_heads", given.get("heads", AttentionSpec().heads))
    spec = AttentionSpec(**given, dtype=options.dtype, causal=options.causal)
    forwards = (
        {} if options.forwards is None else {"forwards": whole_number("forwards", options.forwards)}
    )
    configs = []
    for named in options.variant:
        variant, backend = parse_variant(named, options.backend)
        configs.append(
            RunConfig(
                spec=spec,
                variant=variant,
                backend=backend,
                device=options.device,
                synchronise=not options.pipelined,
                **forwards,
            )
        )
    return configs


def _write_trace(folder: Path, number: int, outcome: Outcome) -> None:
    if not isinstance(outcome, RunResult):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / trace_name(number, outcome)).write_bytes(outcome.trace)
    except OSError as error:
        raise RequestError(f"Cannot write to {folder}: {error.strerror or error}.") from error


def _analyze(options: argparse.Namespace) -> int:
    trace = load_trace(options.trace)
    analysis = analyse(trace, options.annotation)
    subject = Subject(analysis, completeness(trace, analysis))
    _print(options, analysis_json(subject), lambda: text.analysis_table(subject))
    return DONE


def _record(options: argparse.Namespace) -> int:
    from profiling.environment import probe
    from profiling.execute import execute
    from profiling.record import default_set, record

    if not options.out.parent.is_dir():
        raise RequestError(f"There is no folder {options.out.parent} to write into.")
    outcomes = []
    for outcome in record(execute, default_set(), options.device):
        outcomes.append(outcome)
        _progress(text.outcome_line(outcome))
    report = Report(probe(options.device), tuple(outcomes))
    save_report(report, options.out)
    _print(options, report_json(report), lambda: f"Wrote {options.out} ({len(outcomes)} runs).")
    return RUN_FAILED if any(isinstance(o, Failed) for o in outcomes) else DONE


def _occupancy(options: argparse.Namespace) -> int:
    result = read_launch(
        registers=options.registers,
        block=options.block,
        shared_memory=options.shared_memory,
        compute_capability=options.compute_capability,
        grid=options.grid,
        sm_count=options.sm_count,
    ).occupancy
    document = {"schema": SCHEMA, "occupancy": occupancy_json(result)}
    _print(options, document, lambda: text.occupancy_table(result))
    return DONE


def _print(options: argparse.Namespace, document: Json, table: Callable[[], str]) -> None:
    print(json.dumps(document, indent=1, allow_nan=False) if options.json else table())


def _progress(line: str) -> None:
    print(re.sub(r"\s+", " ", line), file=sys.stderr, flush=True)

"""Reports as JSON for machines, and as an archive that can be stored, sent and opened again.

An archive is a zip of `report.json` and one gzip-compressed Chrome trace per finished run. What is
said about a trace is never stored: it is computed again from the trace when the archive is opened.
"""

import io
import json
import zipfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from attention.numerics import Numerics
from attention.spec import AttentionSpec, SpecError
from profiling.analysis import KernelRow, analyse
from profiling.completeness import completeness
from profiling.config import RunConfig
from profiling.findings import Subject, find, subject_of
from profiling.occupancy import Occupancy
from profiling.outcome import (
    Environment,
    Failed,
    Outcome,
    Report,
    RunResult,
    Skipped,
    Spread,
    Unprofiled,
    reason,
    status,
)
from profiling.trace import TraceError, parse_trace

SCHEMA = 1

Json = dict[str, Any]


class ReportError(ValueError):
    """The file is not a report that can be opened; the message is one sentence."""


def report_json(report: Report) -> Json:
    """The document that `run --json` prints."""
    return {
        "schema": SCHEMA,
        "environment": asdict(report.environment),
        "runs": [
            {**_outcome_json(outcome), "analysis": analysis_json(subject_of(outcome))}
            if isinstance(outcome, RunResult)
            else {**_outcome_json(outcome), "analysis": None}
            for outcome in report.outcomes
        ],
    }


def analysis_json(subject: Subject) -> Json:
    """One analysed trace and what is said of it, under the names of the JSON contract."""
    analysis = subject.analysis
    return {
        "schema": SCHEMA,
        "device": asdict(analysis.device),
        "forwards": len(analysis.forwards),
        "per_forward": asdict(analysis.per_forward),
        "occupancy": asdict(analysis.occupancy) if analysis.occupancy else None,
        "kernels": [_kernel_json(row) for row in analysis.kernels],
        "ops": [asdict(row) for row in analysis.ops],
        "unattributed": {
            "activities": analysis.unattributed_activities,
            "launches_without_kernel": analysis.launches_without_kernel,
        },
        "complete": subject.completeness.complete,
        "checks": [asdict(check) for check in subject.completeness.checks],
        "warnings": list(analysis.warnings),
        "region": asdict(analysis.region),
        "host": asdict(analysis.host),
        "verdict": asdict(subject.verdict),
        "findings": [asdict(finding) for finding in find(subject)],
    }


def occupancy_json(occupancy: Occupancy) -> Json:
    """Occupancy under the names of the JSON contract."""
    document = asdict(occupancy)
    document["limiters"] = list(occupancy.limiters)
    return document


def _kernel_json(row: KernelRow) -> Json:
    document = asdict(row)
    document["occupancy"] = occupancy_json(row.occupancy) if row.occupancy else None
    return document


def config_json(config: RunConfig) -> Json:
    """The problem and how it was run, flat, as the command line names them."""
    return {
        "variant": config.variant,
        "backend": config.backend,
        "label": config.label,
        **asdict(config.spec),
        "forwards": config.forwards,
        "device": config.device,
        "synchronise": config.synchronise,
    }


def _outcome_json(outcome: Outcome) -> Json:
    finished = outcome if isinstance(outcome, RunResult) else None
    return {
        "config": config_json(outcome.config),
        "status": status(outcome),
        "reason": reason(outcome),
        "unprofiled": asdict(finished.unprofiled) if finished else None,
        "peak_memory_bytes": finished.peak_memory_bytes if finished else None,
        "numerics": asdict(finished.numerics) if finished else None,
    }


def save_report(report: Report, path: Path) -> None:
    """Write the archive; a reader never sees half of it."""
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_bytes(report_bytes(report))
    unfinished.replace(path)


def report_bytes(report: Report) -> bytes:
    """The archive in memory."""
    runs = []
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for index, outcome in enumerate(report.outcomes):
            run = _outcome_json(outcome)
            if isinstance(outcome, RunResult):
                run["trace"] = f"traces/{trace_name(index, outcome)}"
                archive.writestr(run["trace"], outcome.trace)
            runs.append(run)
        document = {"schema": SCHEMA, "environment": asdict(report.environment), "runs": runs}
        archive.writestr("report.json", json.dumps(document, indent=1), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def trace_name(index: int, run: RunResult) -> str:
    """A file name that sorts in the order of the runs."""
    return f"{index:02d}_{run.config.label.replace(':', '_')}.json.gz"


def load_report(path: Path) -> Report:
    """Open an archive that `save_report` wrote, or raise ReportError with one sentence."""
    try:
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read("report.json"))
            if document.get("schema") != SCHEMA:
                raise ReportError(
                    f"{path.name} has schema {document.get('schema')!r}; only {SCHEMA} can be read."
                )
            environment = Environment(**_known(Environment, document["environment"]))
            outcomes = tuple(_outcome(run, environment, archive) for run in document["runs"])
    except OSError as error:
        raise ReportError(f"Cannot read {path.name}: {error.strerror or error}.") from error
    except (zipfile.BadZipFile, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ReportError(f"{path.name} is not an AttnScope report ({error}).") from error
    except (SpecError, TraceError) as error:
        raise ReportError(f"{path.name} holds something unreadable: {error}") from error
    return Report(environment, outcomes)


def _outcome(run: Json, environment: Environment, archive: zipfile.ZipFile) -> Outcome:
    config = _config(run["config"])
    if run["status"] == "skipped":
        return Skipped(config, environment, str(run["reason"]))
    if run["status"] == "failed":
        return Failed(config, environment, str(run["reason"]))
    data = archive.read(run["trace"])
    trace = parse_trace(data)
    analysis = analyse(trace)
    return RunResult(
        config=config,
        environment=environment,
        trace=data,
        analysis=analysis,
        completeness=completeness(
            trace,
            analysis,
            expected_forwards=config.forwards,
            ran_on_gpu=environment.gpu is not None,
        ),
        unprofiled=_unprofiled(run["unprofiled"]),
        peak_memory_bytes=run["peak_memory_bytes"],
        numerics=Numerics(**_known(Numerics, run["numerics"])),
    )


def _config(document: Json) -> RunConfig:
    spec = AttentionSpec(**_known(AttentionSpec, document))
    return RunConfig(spec=spec, **_known(RunConfig, document))


def _unprofiled(document: Json) -> Unprofiled:
    spreads = {
        key: Spread(**document[key]) if document[key] else None
        for key in ("cpu_time_us", "gpu_time_us")
    }
    return Unprofiled(**{**_known(Unprofiled, document), **spreads})


def _known(kind: Any, document: Json) -> Json:
    """The entries that are fields of `kind`: a later version may have written more."""
    names = {field.name for field in fields(kind)}
    return {key: value for key, value in document.items() if key in names}

"""Recorded reports: those that come with the project, and those this GPU recorded itself."""

import logging
import os
import re
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from profiling.config import RunConfig
from profiling.outcome import Environment, Outcome, Report
from profiling.record import default_set, record
from profiling.report import ReportError, load_report, save_report
from profiling.worker import Worker

SHIPPED = Path(__file__).parent.parent / "assets" / "recorded"

log = logging.getLogger(__name__)


def store_folder() -> Path:
    """ATTNSCOPE_STORE, else a folder beside the app."""
    return Path(os.environ.get("ATTNSCOPE_STORE") or Path(__file__).parent.parent / "store")


def recorded_reports(
    gpu: str | None = None, folder: Path | None = None, shipped: Path = SHIPPED
) -> list[Report]:
    """One report per problem: of this `gpu` if it recorded its own set, else the shipped ones."""
    own = _own_path(gpu, folder or store_folder()) if gpu else None
    archives = [own] if own and own.exists() else sorted(shipped.glob("*.zip"))
    reports: list[Report] = []
    for archive in archives:
        try:
            reports += split_by_problem(load_report(archive))
        except ReportError as error:
            log.warning("%s", error)
    return reports


def split_by_problem(report: Report) -> list[Report]:
    """The outcomes of each problem as a report of their own, in the order recorded."""
    return [
        Report(report.environment, tuple(outcomes))
        for _, outcomes in groupby(report.outcomes, key=lambda outcome: outcome.config.spec)
    ]


def needs_own_set(
    environment: Environment, folder: Path | None = None, shipped: Path = SHIPPED
) -> bool:
    """A GPU of which no recorded reports exist, here or shipped."""
    if environment.gpu is None:
        return False
    known = recorded_reports(environment.gpu, folder, shipped)
    return all(report.environment.gpu != environment.gpu for report in known)


def record_own_set(
    execute: Callable[[RunConfig], Outcome],
    environment: Environment,
    folder: Path | None = None,
    configs: Iterable[RunConfig] | None = None,
) -> Path:
    """Record the default set of this GPU, so that the page opens with it from then on."""
    folder = folder or store_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = _own_path(environment.badge, folder)
    outcomes = tuple(record(execute, tuple(default_set() if configs is None else configs)))
    save_report(Report(environment, outcomes), path)
    return path


def record_own_set_when_idle(worker: Worker, idle_s: float = 20.0) -> None:
    """On a GPU without recorded reports, record them run by run between those of visitors."""
    environment = worker.environment()
    if not needs_own_set(environment):
        return

    def patient(config: RunConfig) -> Outcome:
        worker.wait_until_idle(idle_s)
        return worker.run(config)

    log.info("Recording the default set on %s.", environment.badge)
    record_own_set(patient, environment)


def _own_path(gpu: str, folder: Path) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    return folder / f"recorded-{slug}.zip"

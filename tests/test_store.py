"""What the page opens with, and a GPU that records its own set."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from attention.spec import AttentionSpec
from profiling.config import RunConfig
from profiling.execute import execute
from profiling.outcome import Environment, Outcome, RunResult
from profiling.record import default_set, every_way
from profiling.store import (
    SHIPPED,
    needs_own_set,
    record_own_set,
    record_own_set_when_idle,
    recorded_reports,
)
from profiling.worker import Worker

SMALL = AttentionSpec(batch=1, heads=2, kv_heads=2, seq_len=64, dtype="float32")
A100 = Environment(
    gpu="NVIDIA A100-SXM4-80GB", compute_capability="8.0", sm_count=108, gpu_memory_bytes=80 << 30,
    cpu="", python="3.12", torch="2.11", cuda="13.0", cudnn="9", driver="580", date="2026-12-01",
    no_gpu_reason=None,
)  # fmt: skip


@pytest.fixture(scope="module")
def finished() -> RunResult:
    outcome = execute(RunConfig(spec=SMALL, variant="naive", device="cpu", forwards=1))
    assert isinstance(outcome, RunResult)
    return outcome


def test_the_shipped_set_has_every_way_at_four_lengths(tmp_path: Path) -> None:
    reports = recorded_reports(folder=tmp_path)
    shapes = {report.outcomes[0].config.spec.seq_len: report for report in reports}
    assert set(shapes) == {256, 1024, 4096, 16_384}
    assert shapes[1024].outcomes[0].config.spec == AttentionSpec(batch=8)
    for report in reports:
        labels = [outcome.config.label for outcome in report.outcomes]
        assert labels == [config.label for config in every_way(report.outcomes[0].config.spec)]
        assert report.environment.gpu == "NVIDIA H200"
        assert all(isinstance(outcome, RunResult) for outcome in report.outcomes)
        assert all(o.analysis.complete for o in report.outcomes if isinstance(o, RunResult))


def test_the_shipped_counts_are_those_seen_in_perfetto(tmp_path: Path) -> None:
    article = recorded_reports(folder=tmp_path)[0]
    counts = {
        outcome.config.label: (
            outcome.analysis.per_forward.kernels,
            outcome.analysis.per_forward.memcpys,
        )
        for outcome in article.outcomes
        if isinstance(outcome, RunResult)
    }
    assert counts == {
        "naive": (5, 1),
        "naive_inplace": (5, 0),
        "sdpa:auto": (1, 0),
        "sdpa:math": (20, 0),
        "sdpa:efficient": (1, 0),
        "sdpa:flash": (1, 0),
        "sdpa:cudnn": (1, 0),
    }


def test_a_new_gpu_records_its_own_set_once_and_opens_with_it(
    finished: RunResult, tmp_path: Path
) -> None:
    asked: list[RunConfig] = []

    def fake(config: RunConfig) -> Outcome:
        asked.append(config)
        return replace(finished, config=config, environment=A100)

    assert needs_own_set(A100, tmp_path)
    record_own_set(fake, A100, tmp_path)
    assert [config.label for config in asked] == [config.label for config in default_set()]
    assert not needs_own_set(A100, tmp_path)
    reports = recorded_reports(A100.gpu, tmp_path)
    assert {report.environment.gpu for report in reports} == {A100.gpu}
    assert [len(report.outcomes) for report in reports] == [7, 7, 7, 7]


def test_recording_waits_until_visitors_are_done(
    finished: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Busy:
        waited: list[float] = []

        def environment(self) -> Environment:
            return A100

        def wait_until_idle(self, idle_s: float) -> None:
            self.waited.append(idle_s)

        def run(self, config: RunConfig) -> Outcome:
            return replace(finished, config=config, environment=A100)

    monkeypatch.setenv("ATTNSCOPE_STORE", str(tmp_path / "store"))
    record_own_set_when_idle(cast(Worker, Busy()), idle_s=7)
    assert Busy.waited == [7] * len(default_set())
    assert recorded_reports(A100.gpu)[0].environment == A100
    record_own_set_when_idle(cast(Worker, Busy()), idle_s=7)
    assert len(Busy.waited) == len(default_set())


def test_the_shipped_gpu_and_a_cpu_record_nothing(tmp_path: Path) -> None:
    assert not needs_own_set(replace(A100, gpu="NVIDIA H200"), tmp_path)
    assert not needs_own_set(replace(A100, gpu=None), tmp_path)


def test_a_damaged_archive_is_skipped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "h200.zip").write_bytes((SHIPPED / "h200.zip").read_bytes())
    (tmp_path / "broken.zip").write_bytes(b"PK nonsense")
    assert len(recorded_reports(shipped=tmp_path)) == 4
    assert "broken.zip is not an AttnScope report" in caplog.text

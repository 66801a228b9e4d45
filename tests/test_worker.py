"""The worker process: results come back, a crash or a hang costs one run only."""

import os
import time
from collections.abc import Iterator

import pytest

from attention.spec import AttentionSpec
from profiling import worker as worker_module
from profiling.config import STAGES, RunConfig
from profiling.outcome import Failed, Outcome, RunResult, Skipped
from profiling.worker import Worker

SMALL = AttentionSpec(batch=1, heads=2, kv_heads=2, seq_len=64, dtype="float32")
CONFIG = RunConfig(spec=SMALL, variant="naive", forwards=1, device="cpu")


def die(config: RunConfig) -> Outcome:
    os._exit(3)


def hang(config: RunConfig) -> Outcome:
    time.sleep(60)
    raise AssertionError("the time limit did not hold")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker(time_limit_s=60)
    yield worker
    worker.close()


def test_a_run_comes_back_with_its_trace_and_stages(worker: Worker) -> None:
    stages: list[str] = []
    outcome = worker.run(CONFIG, stages.append)
    assert isinstance(outcome, RunResult)
    assert outcome.trace[:2] == b"\x1f\x8b"
    assert [op.name for op in outcome.analysis.ops if op.role == "softmax"]
    assert stages == sorted(stages, key=STAGES.index)
    assert stages[0] == STAGES[0]


def test_what_cannot_run_comes_back_as_a_reason(worker: Worker) -> None:
    outcome = worker.run(RunConfig(spec=SMALL, variant="sdpa", backend="cudnn", device="cpu"))
    assert isinstance(outcome, Skipped)
    assert "CUDA" in outcome.reason


def test_a_crash_costs_one_run(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(worker_module, "_execute", die)
        outcome = worker.run(CONFIG)
    assert isinstance(outcome, Failed)
    assert "exit code 3" in outcome.message
    assert isinstance(worker.run(CONFIG), RunResult)


def test_a_hang_is_stopped_and_costs_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(time_limit_s=1)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(worker_module, "_execute", hang)
            outcome = worker.run(CONFIG)
        assert isinstance(outcome, Failed)
        assert "1 s" in outcome.message
    finally:
        worker.close()


def test_the_environment_is_probed_where_runs_happen(worker: Worker) -> None:
    environment = worker.environment()
    assert environment.torch[:1] == "2"
    assert (environment.gpu is None) == (environment.no_gpu_reason is not None)


def test_idle_is_told_after_the_last_run(worker: Worker) -> None:
    worker.run(CONFIG)
    start_s = time.monotonic()
    worker.wait_until_idle(0.5)
    assert 0.3 < time.monotonic() - start_s < 5

"""From settings to a result on the CPU, and every way in which there is none."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from attention.spec import AttentionSpec
from profiling import capture, execute
from profiling.config import STAGES, RunConfig
from profiling.outcome import Failed, RunResult, Skipped
from profiling.record import every_way

SMALL = AttentionSpec(batch=2, heads=2, kv_heads=2, seq_len=96, head_dim=32, dtype="float32")


def on_cpu(**changes: Any) -> RunConfig:
    return replace(RunConfig(spec=SMALL, variant="naive", device="cpu", forwards=2), **changes)


@pytest.mark.parametrize("config", every_way(SMALL), ids=lambda config: config.label)
def test_every_way_gives_a_result_or_a_reason_on_the_cpu(config: RunConfig) -> None:
    outcome = execute.execute(replace(config, device="cpu", forwards=2))
    if isinstance(outcome, Skipped):
        assert config.backend in ("efficient", "cudnn")
        assert outcome.reason.endswith(".")
        return
    assert isinstance(outcome, RunResult), outcome
    assert outcome.numerics.ok
    assert outcome.analysis.region.name == "attn_fwd"
    assert len(outcome.analysis.forwards) == 2
    assert outcome.environment.gpu is None


def test_nothing_pretends_to_be_a_gpu_on_the_cpu() -> None:
    outcome = execute.execute(on_cpu())
    assert isinstance(outcome, RunResult)
    per = outcome.analysis.per_forward
    assert (per.kernels, per.memcpys, per.memsets) == (None, None, None)
    assert (per.gpu_busy_us, per.gpu_span_us, per.gpu_idle_us) == (None, None, None)
    assert per.launch_api_us is None and outcome.peak_memory_bytes is None
    assert outcome.unprofiled.gpu_time_us is None and outcome.unprofiled.gpu_graph_us is None
    assert outcome.analysis.occupancy is None and outcome.analysis.kernels == ()
    assert per.cpu_time_us is not None and per.cpu_time_us > 0
    assert {"qk", "scale", "mask", "softmax", "pv"} <= {op.role for op in outcome.analysis.ops}


def test_stages_are_told_in_order() -> None:
    stages: list[str] = []
    execute.execute(on_cpu(), stages.append)
    assert stages == list(STAGES)


def test_a_gpu_that_is_not_there_is_a_reason() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    outcome = execute.execute(on_cpu(device="cuda"))
    assert isinstance(outcome, Skipped)
    assert outcome.reason.startswith("No CUDA GPU to run on.")


def test_what_does_not_fit_is_refused_with_the_size_that_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execute, "_free_bytes", lambda device_type: 10 * 2**20)
    outcome = execute.execute(on_cpu(spec=replace(SMALL, seq_len=4096)))
    assert isinstance(outcome, Skipped)
    # 4 heads, two copies of S x S floats, the bool mask, and q, k, v and the output stay in 10 MiB.
    longest = max(s for s in range(1, 4096) if 33 * s * s + 2048 * s <= 10 * 2**20)
    assert f"seq_len up to {longest:,} fits" in outcome.reason


def test_what_takes_too_long_on_a_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "_cpu_flop_per_s", lambda dtype: 1e5)
    outcome = execute.execute(on_cpu())
    assert isinstance(outcome, Skipped)
    assert "per forward on this CPU" in outcome.reason


def test_a_wrong_output_shows_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attention.forwards.naive", lambda x: x.v + 1)
    outcome = execute.execute(on_cpu())
    assert isinstance(outcome, Failed)
    assert "The output is wrong" in outcome.message


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), "ran out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "ran out of memory"),
        (MemoryError(), "ran out of memory"),
        (RuntimeError("CUDA error: an illegal access\nmore"), "failed: CUDA error: an illegal acc"),
    ],
)
def test_an_error_on_the_way_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def broken(inputs: object) -> None:
        raise error

    monkeypatch.setattr("attention.forwards.naive", broken)
    outcome = execute.execute(on_cpu())
    assert isinstance(outcome, Failed)
    assert said in outcome.message and outcome.message.endswith(".")
    assert "\n" not in outcome.message


def test_a_refusal_quotes_only_what_is_said_of_the_pinned_backend() -> None:
    config = RunConfig(spec=SMALL, variant="sdpa", backend="flash")
    said = execute.refusal_text(
        config,
        [
            "Memory efficient kernel not used because: (Triggered internally at a.cpp:1.)",
            "Memory Efficient attention has been runtime disabled. (Triggered internally at b:2.)",
            "Flash attention kernel not used because: (Triggered internally at c.cpp:3.)",
            "Expected query to be of dtype Half (Triggered internally at /x/y.h:92.)",
        ],
    )
    assert said == (
        "The flash backend refuses 2×2×96×32 float32 causal: Expected query to be of dtype Half."
    )


def test_a_capture_that_misses_kernels_is_made_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        complete = False

    made: list[object] = []

    def record_trace(*arguments: object, **options: object) -> bytes:
        made.append(arguments)
        return b""

    monkeypatch.setattr(capture, "record_trace", record_trace)
    monkeypatch.setattr(execute, "parse_trace", lambda data: None)
    monkeypatch.setattr(execute, "analyse", lambda trace: None)
    monkeypatch.setattr(execute, "completeness", lambda *arguments, **known: Missing())
    execute._record(lambda: None, "cpu", on_cpu())
    assert len(made) == 2


def test_first_call_is_told_once_per_process() -> None:
    config = on_cpu(spec=replace(SMALL, seq_len=97))
    first, again = execute.execute(config), execute.execute(config)
    assert isinstance(first, RunResult) and isinstance(again, RunResult)
    assert first.unprofiled.first_call_us is not None
    assert again.unprofiled.first_call_us is None and again.unprofiled.first_call_reason

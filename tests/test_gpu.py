"""On a real GPU: counts, agreement with CUDA graphs, memory estimates, refusals."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from attention.costs import input_bytes, peak_bytes
from attention.spec import AttentionSpec
from profiling.config import RunConfig
from profiling.execute import execute
from profiling.outcome import RunResult, Skipped
from profiling.record import every_way

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine"),
]

ARTICLE = AttentionSpec(batch=8, heads=16, seq_len=1024, head_dim=64)
SHAPES = (ARTICLE, replace(ARTICLE, batch=2, seq_len=4096), replace(ARTICLE, seq_len=512))

# Kernels and copies per forward on Hopper, as counted by hand in Perfetto at the article's shape.
COUNTS = {
    "naive": (5, 1),
    "naive_inplace": (5, 0),
    "sdpa:math": (20, 0),
    "sdpa:efficient": (1, 0),
    "sdpa:flash": (1, 0),
    "sdpa:cudnn": (1, 0),
    "sdpa:auto": (1, 0),
}


def ways(spec: AttentionSpec) -> list[RunConfig]:
    return list(every_way(spec))


def finished(config: RunConfig) -> RunResult:
    outcome = execute(config)
    assert isinstance(outcome, RunResult), outcome
    return outcome


@pytest.fixture(scope="module")
def article_runs() -> dict[str, RunResult]:
    return {config.label: finished(config) for config in ways(ARTICLE)}


@pytest.mark.parametrize("label", COUNTS)
def test_counts_kernels_and_copies_of_one_forward(
    article_runs: dict[str, RunResult], label: str
) -> None:
    analysis = article_runs[label].analysis
    assert (analysis.per_forward.kernels, analysis.per_forward.memcpys) == COUNTS[label]
    assert analysis.complete
    assert len(analysis.forwards) == 3


@pytest.mark.parametrize("label", COUNTS)
def test_no_warm_up_kernel_leaks_into_a_synchronised_capture(
    article_runs: dict[str, RunResult], label: str
) -> None:
    assert article_runs[label].analysis.unattributed_activities == 0


@pytest.mark.parametrize("spec", SHAPES, ids=lambda spec: spec.shape_text)
def test_busy_time_agrees_with_graph_replay(spec: AttentionSpec) -> None:
    apart = {}
    for config in ways(spec):
        run = finished(config)
        busy_us, graph_us = run.analysis.per_forward.gpu_busy_us, run.unprofiled.gpu_graph_us
        assert busy_us is not None and graph_us is not None
        print(f"{spec.shape_text} {config.label}: busy {busy_us:.1f} graph {graph_us:.1f} µs")
        if busy_us > 50:
            apart[config.label] = abs(busy_us / graph_us - 1)
    assert max(apart.values()) < 0.05, apart


@pytest.mark.parametrize("spec", SHAPES, ids=lambda spec: spec.shape_text)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_memory_estimate_holds(spec: AttentionSpec, dtype: str) -> None:
    for config in ways(replace(spec, dtype=dtype)):
        outcome = execute(config)
        if isinstance(outcome, Skipped):
            continue
        assert isinstance(outcome, RunResult), outcome
        assert outcome.peak_memory_bytes is not None
        output = input_bytes(config.spec) // 4
        measured = outcome.peak_memory_bytes + input_bytes(config.spec) - output
        estimate = peak_bytes(config.spec, config.variant, config.backend)
        print(f"{config.spec.shape_text} {config.label}: {measured / 2**20:.1f} MiB measured, "
              f"{estimate / 2**20:.1f} estimated")  # fmt: skip
        assert abs(estimate - measured) <= max(0.2 * measured, 64 * 2**20), config.label


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_outputs_agree_with_float64(dtype: str) -> None:
    for config in ways(replace(ARTICLE, dtype=dtype, batch=2)):
        outcome = execute(config)
        if isinstance(outcome, RunResult):
            n = outcome.numerics
            print(f"{dtype} {config.label}: max {n.max_abs_error:.3g} mean {n.mean_abs_error:.3g} "
                  f"allowed {n.tolerance:.3g} coverage {n.coverage_pct:.1f} %")  # fmt: skip
            assert n.ok
        else:
            assert isinstance(outcome, Skipped), outcome


@pytest.mark.parametrize(
    ("backend", "change", "word"),
    [
        ("flash", {"dtype": "float32"}, "dtype"),
        ("efficient", {"head_dim": 60}, "60"),
        ("cudnn", {"dtype": "float32"}, "dtype"),
    ],
)
def test_a_refusal_tells_the_reason(backend: str, change: dict[str, Any], word: str) -> None:
    spec = replace(AttentionSpec(batch=1, heads=4, kv_heads=4, seq_len=128), **change)
    outcome = execute(RunConfig(spec=spec, variant="sdpa", backend=backend))
    assert isinstance(outcome, Skipped), outcome
    print(outcome.reason)
    assert word in outcome.reason


def test_what_does_not_fit_is_refused_before_it_is_tried() -> None:
    spec = replace(ARTICLE, seq_len=131_072)
    outcome = execute(RunConfig(spec=spec, variant="naive"))
    assert isinstance(outcome, Skipped), outcome
    assert "GiB" in outcome.reason and "seq_len up to" in outcome.reason


def test_a_pipelined_capture_counts_the_same() -> None:
    run = finished(RunConfig(spec=ARTICLE, variant="naive", synchronise=False))
    assert (run.analysis.per_forward.kernels, run.analysis.per_forward.memcpys) == (5, 1)


def test_first_call_is_measured_once_per_shape() -> None:
    spec = replace(ARTICLE, batch=3, seq_len=640)
    first = finished(RunConfig(spec=spec, variant="sdpa", backend="flash"))
    again = finished(RunConfig(spec=spec, variant="sdpa", backend="flash"))
    assert first.unprofiled.first_call_us is not None
    assert again.unprofiled.first_call_us is None
    assert again.unprofiled.first_call_reason

"""Who waits for whom: on recorded traces, on the times measured with them, and on made-up ones."""

from pathlib import Path

import pytest

from profiling.analysis import Analysis, analyse
from profiling.outcome import Spread, Unprofiled
from profiling.trace import load_trace
from profiling.verdict import verdict
from tests.traces import annotation, kernel, launch, op, trace

# H200, torch 2.11.0+cu130, 8x16x1024x64 bfloat16 causal, 2026-11-30: host time per forward (median
# of 60 enqueues with the GPU idle) and CUDA-graph replay, in microseconds, without the profiler.
MEASURED = {
    "8_16_1024_64_naive": (117.0, 1055.3, "gpu"),
    "8_16_1024_64_sdpa_math": (423.0, 2579.3, "gpu"),
    "8_16_1024_64_sdpa_flash": (54.0, 94.1, "gpu"),
    "8_16_1024_64_sdpa_efficient": (48.0, 178.8, "gpu"),
    "8_16_1024_64_sdpa_cudnn": (59.0, 59.2, "unclear"),
}
# What the traces alone can prove, from the README beside them and the host spans in the files:
# the GPU needs longer than even the profiled host; the host more than ten times the GPU.
PROVEN = {
    "8_16_1024_64_naive": "gpu",
    "8_16_1024_64_inplace": "gpu",
    "8_16_1024_64_sdpa_math": "gpu",
    "1_8_128_64_naive": "host",
    "1_8_128_64_sdpa_math": "host",
    "1_8_128_64_sdpa_flash": "host",
    "8_16_1024_64_naive_compiled": "unclear",
    "8_16_1024_64_sdpa_flash": "unclear",
    "8_16_1024_64_sdpa_efficient": "unclear",
    "8_16_1024_64_sdpa_cudnn": "unclear",
}


def unprofiled(
    host_us: float, *, graph_us: float | None = None, events_us: float | None = None
) -> Unprofiled:
    return Unprofiled(
        cpu_time_us=Spread(host_us, host_us - 1, host_us + 1),
        gpu_time_us=Spread(events_us, events_us, events_us) if events_us else None,
        gpu_graph_us=graph_us,
        gpu_graph_reason=None if graph_us else "not captured",
        first_call_us=None,
        first_call_reason="not measured",
        repeats=60,
    )


def made(gpu_us: float, host_us: float = 100.0, api: str = "cudaLaunchKernel") -> Analysis:
    """Two forwards of one kernel each."""
    events = []
    for number in (1, 2):
        at = number * 10_000.0
        events += [annotation(at, host_us), op("aten::mm", at + 1, host_us - 2)]
        events += [launch(number, at + 2, name=api), kernel(number, at + 12, gpu_us)]
    return analyse(trace(*events))


@pytest.mark.parametrize("name", MEASURED)
def test_measured_times_decide(name: str, h200_traces: dict[str, Path]) -> None:
    host_us, graph_us, bound = MEASURED[name]
    result = verdict(analyse(load_trace(h200_traces[name])), unprofiled(host_us, graph_us=graph_us))
    assert result.bound == bound
    assert f"{host_us:,.1f} µs to enqueue" in result.evidence
    assert f"{graph_us:,.1f} µs to run it" in result.evidence


def test_the_profilers_tax_is_quoted(h200_traces: dict[str, Path]) -> None:
    flash = analyse(load_trace(h200_traces["8_16_1024_64_sdpa_flash"]))
    result = verdict(flash, unprofiled(54.0, graph_us=94.1))
    # (330.966 + 228.071 + 221.590) / 3 = 260.209 µs of attn_fwd in the file; / 54 = 4.82
    assert result.profiler_tax == pytest.approx(4.82, abs=0.005)
    assert "4.8 times slower (260.2 µs under it)" in result.evidence


@pytest.mark.parametrize("name", PROVEN)
def test_a_trace_alone_is_called_only_where_it_proves(
    name: str, h200_traces: dict[str, Path]
) -> None:
    result = verdict(analyse(load_trace(h200_traces[name])))
    assert result.bound == PROVEN[name]
    assert result.profiler_tax is None
    if result.bound != "gpu":
        assert "the profiler lengthens host time" in result.evidence.lower()


@pytest.mark.parametrize(
    "host_us, bound", [(120.0, "host"), (119.0, "unclear"), (84.0, "unclear"), (83.0, "gpu")]
)
def test_the_sides_must_differ_by_a_fifth(host_us: float, bound: str) -> None:
    assert verdict(made(100.0), unprofiled(host_us, graph_us=100.0)).bound == bound


def test_without_a_graph_the_kernels_of_the_trace_count() -> None:
    result = verdict(made(50.0), unprofiled(100.0, events_us=110.0))
    assert result.bound == "host"
    assert "50.0 µs to run it (its kernels in the trace)" in result.evidence


def test_events_alone_can_show_a_slow_gpu_but_not_a_slow_host() -> None:
    untraced = analyse(trace(annotation(1000, 100), op("aten::mm", 1001, 90)))
    assert verdict(untraced, unprofiled(100.0, events_us=500.0)).bound == "gpu"
    waiting = verdict(untraced, unprofiled(100.0, events_us=105.0))
    assert waiting.bound == "unclear"
    assert "waiting for launches" in waiting.evidence


def test_a_cpu_run_has_nothing_to_wait_for() -> None:
    on_cpu = analyse(trace(annotation(1000, 100), op("aten::mm", 1001, 90)))
    for result in (verdict(on_cpu), verdict(on_cpu, unprofiled(80.0))):
        assert result.bound == "unclear"
        assert result.evidence.startswith("No GPU")


def test_missing_kernels_prove_nothing() -> None:
    events = [annotation(1000, 5000), op("aten::mm", 1001, 90), launch(1, 1002), launch(2, 1010)]
    result = verdict(analyse(trace(*events, kernel(1, 1020, 5))))
    assert result.bound == "unclear"
    assert "misses the kernels of 1 launch" in result.evidence


def test_a_graph_launch_hides_the_host() -> None:
    result = verdict(made(5.0, host_us=5000.0, api="cudaGraphLaunch"))
    assert result.bound == "unclear"
    assert "CUDA graph" in result.evidence


def test_a_whole_trace_with_a_busy_gpu_is_gpu_bound() -> None:
    events = [op("aten::mm", 0, 50), launch(1, 1), launch(2, 5)]
    busy = analyse(trace(*events, kernel(1, 10, 100), kernel(2, 111, 100)))
    idle = analyse(trace(*events, kernel(1, 10, 100), kernel(2, 311, 100)))
    assert verdict(busy).bound == "gpu"
    assert verdict(idle).bound == "unclear"
    assert "idles 50.1 % of 401.0 µs" in verdict(idle).evidence


def test_an_empty_trace_has_a_sentence() -> None:
    assert verdict(analyse(trace())).bound == "unclear"

"""Finished runs around recorded traces; times without the profiler are made up for tests."""

from dataclasses import replace
from pathlib import Path

from attention.numerics import Numerics
from attention.spec import AttentionSpec
from profiling.analysis import analyse
from profiling.completeness import completeness
from profiling.config import RunConfig
from profiling.outcome import Environment, Failed, RunResult, Skipped, Spread, Unprofiled
from profiling.trace import parse_trace
from tests.traces import annotation, op, trace_bytes

TRACES = Path(__file__).parent / "data" / "h200-traces"

H200 = Environment(
    gpu="NVIDIA H200",
    compute_capability="9.0",
    sm_count=132,
    gpu_memory_bytes=150_000_000_000,
    cpu="a CPU",
    python="3.11.7",
    torch="2.11.0+cu130",
    cuda="13.0",
    cudnn="9.19.0",
    driver="580.1",
    date="2026-11-30T00:00:00Z",
    no_gpu_reason=None,
)
CPU = replace(
    H200,
    gpu=None,
    compute_capability=None,
    sm_count=None,
    gpu_memory_bytes=None,
    cuda=None,
    cudnn=None,
    driver=None,
    no_gpu_reason="This machine has no NVIDIA GPU that torch can see.",
)


def h200_run(
    trace: str, variant: str, backend: str | None = None, host_us: float = 100
) -> RunResult:
    """A run whose trace is tests/data/h200-traces/8_16_1024_64_`trace`."""
    data = (TRACES / f"8_16_1024_64_{trace}.json.gz").read_bytes()
    events = parse_trace(data)
    analysis = analyse(events)
    return RunResult(
        config=RunConfig(variant=variant, backend=backend),
        environment=H200,
        trace=data,
        analysis=analysis,
        completeness=completeness(events, analysis),
        unprofiled=Unprofiled(
            cpu_time_us=Spread(host_us, host_us - 10, host_us + 10),
            gpu_time_us=Spread(1000, 990, 1010),
            gpu_graph_us=None,
            gpu_graph_reason="not captured",
            first_call_us=None,
            first_call_reason="met before",
            repeats=60,
        ),
        peak_memory_bytes=528 * 2**20,
        numerics=Numerics(0.0078, 0.0001, 0, 0, 0.03, 12.5),
    )


def naive() -> RunResult:
    return h200_run("naive", "naive", host_us=117)


def flash() -> RunResult:
    return h200_run("sdpa_flash", "sdpa", "flash", host_us=54)


def math() -> RunResult:
    return h200_run("sdpa_math", "sdpa", "math", host_us=423)


def cpu_run() -> RunResult:
    """One forward with one op, and no GPU."""
    data = trace_bytes(annotation(0, 50), op("aten::softmax", 10, 20), deviceProperties=[])
    run = naive()
    return replace(
        run,
        config=RunConfig(spec=AttentionSpec(batch=1, seq_len=64), variant="naive"),
        environment=CPU,
        trace=data,
        analysis=analyse(parse_trace(data)),
        unprofiled=replace(run.unprofiled, gpu_time_us=None, cpu_time_us=Spread(40, 39, 41)),
        peak_memory_bytes=None,
    )


def skipped() -> Skipped:
    return Skipped(RunConfig(variant="sdpa", backend="cudnn"), CPU, "cuDNN needs <a> CUDA GPU.")


def failed() -> Failed:
    return Failed(RunConfig(variant="naive"), H200, "naive ran out of memory.")

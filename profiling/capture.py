"""Measure a forward: first without the profiler, then under it. The only user of torch.profiler.

Profiled host times are two and more times too long, so the numbers that people compare are taken
before any profiler has run; the trace is for what it alone can tell.
"""

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from time import perf_counter_ns

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from profiling.analysis import ANNOTATION
from profiling.environment import first_line
from profiling.outcome import Spread, Unprofiled
from profiling.trace import shareable

# On a GPU each forward is timed this often unless that would take longer than the budget.
_REPEATS = 60
_FEWEST_REPEATS = 5
_BUDGET_S = {"cuda": 12.0, "cpu": 3.0}
_WARM_UP_FORWARDS = 3
# Short forwards share a graph, so that the few microseconds a graph launch takes do not count.
_FORWARDS_PER_GRAPH = 10
_SHORT_US = 500.0
_GRAPH_REPLAYS = 10

Forward = Callable[[], object]

# What this process has run before, by a key of device, problem and variant: only the first call
# at a shape pays for plans, lazily loaded kernels and compilation.
_met: set[object] = set()


def time_first_call(
    forward: Forward, key: object, device_type: str
) -> tuple[float | None, str | None]:
    """Run once; microseconds until the result is there, or None and the reason."""
    _wait(device_type)
    start_ns = perf_counter_ns()
    forward()
    _wait(device_type)
    elapsed_us = (perf_counter_ns() - start_ns) / 1000
    if key in _met:
        return None, "This process had already run this variant at this shape."
    _met.add(key)
    return elapsed_us, None


def time_forward(
    forward: Forward,
    device_type: str,
    first_call: tuple[float | None, str | None] = (None, "Not measured."),
) -> Unprofiled:
    """Host and GPU time of one forward, each started while the GPU is idle."""
    _warm_up(forward, device_type)
    repeats = _affordable_repeats(forward, device_type)
    host_us, gpu_us = _time_each(forward, device_type, repeats)
    short = not gpu_us or min(gpu_us) < _SHORT_US
    graph_us, graph_reason = _graph_us(forward, device_type, _FORWARDS_PER_GRAPH if short else 1)
    return Unprofiled(
        cpu_time_us=_spread(host_us),
        gpu_time_us=_spread(gpu_us) if gpu_us else None,
        gpu_graph_us=graph_us,
        gpu_graph_reason=graph_reason,
        first_call_us=first_call[0],
        first_call_reason=first_call[1],
        repeats=repeats,
    )


def peak_memory_bytes(forward: Forward, device_type: str) -> int | None:
    """What one forward allocates at its worst moment, output included; None on a CPU."""
    if device_type != "cuda":
        return None
    _wait(device_type)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    output = forward()
    _wait(device_type)
    peak = torch.cuda.max_memory_allocated() - before
    del output
    return peak


def record_trace(forward: Forward, device_type: str, forwards: int, *, synchronise: bool) -> bytes:
    """The gzip-compressed Chrome trace of `forwards` annotated forwards.

    The GPU is idle when the active window opens, so that no warm-up kernel runs on into it, and
    when it closes, so that no kernel is missed. Waiting lies outside the annotation.
    """
    activities = [ProfilerActivity.CPU]
    if device_type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    plan = schedule(wait=0, warmup=1, active=forwards, repeat=1)
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with profile(
            activities=activities,
            schedule=plan,
            record_shapes=True,
            acc_events=True,
            on_trace_ready=lambda finished: finished.export_chrome_trace(str(path)),
        ) as profiler:
            for index in range(1 + forwards):
                with record_function(ANNOTATION):
                    forward()
                if synchronise or index in (0, forwards):
                    _wait(device_type)
                profiler.step()
        return shareable(path.read_bytes())


def _wait(device_type: str) -> None:
    if device_type == "cuda":
        torch.cuda.synchronize()


def _warm_up(forward: Forward, device_type: str) -> None:
    for _ in range(_WARM_UP_FORWARDS):
        forward()
    _wait(device_type)


def _affordable_repeats(forward: Forward, device_type: str) -> int:
    start_ns = perf_counter_ns()
    forward()
    _wait(device_type)
    elapsed_s = (perf_counter_ns() - start_ns) / 1e9
    return int(min(_REPEATS, max(_FEWEST_REPEATS, _BUDGET_S[device_type] / elapsed_s)))


def _time_each(forward: Forward, device_type: str, repeats: int) -> tuple[list[float], list[float]]:
    """Microseconds on the host, and between two CUDA events, of each repeat."""
    host_us, gpu_us = [], []
    for _ in range(repeats):
        _wait(device_type)
        if device_type == "cuda":
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            begin.record()
        start_ns = perf_counter_ns()
        output = forward()
        host_us.append((perf_counter_ns() - start_ns) / 1000)
        if device_type == "cuda":
            end.record()
            end.synchronize()
            gpu_us.append(begin.elapsed_time(end) * 1000)
        del output
    return host_us, gpu_us


def _graph_us(forward: Forward, device_type: str, forwards: int) -> tuple[float | None, str | None]:
    """Microseconds per forward when replayed as a CUDA graph, or None and the reason."""
    if device_type != "cuda":
        return None, "CUDA graphs need a CUDA GPU."
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(forwards):
                forward()
    except RuntimeError as error:
        torch.cuda.synchronize()
        return None, f"The forward cannot be captured in a CUDA graph: {first_line(str(error))}"
    graph.replay()
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(_GRAPH_REPLAYS):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / (_GRAPH_REPLAYS * forwards), None


def _spread(values: list[float]) -> Spread:
    tenths = quantiles(values, n=10, method="inclusive")
    return Spread(median=tenths[4], p10=tenths[0], p90=tenths[8])

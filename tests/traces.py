"""Hand-built Chrome traces: one function per kind of event, times in microseconds."""

import json
from typing import Any

from profiling.trace import Trace, parse_trace

Raw = dict[str, Any]

H200: Raw = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
A100: Raw = {"id": 1, "name": "A100", "computeMajor": 8, "computeMinor": 0, "numSms": 108}


def event(
    category: str, name: str, ts: Any, dur: Any, *, pid: Any = 100, tid: Any = 100, **args: Any
) -> Raw:
    """One complete event; underscores in the names of `args` stand for spaces."""
    named = {key.replace("_", " "): value for key, value in args.items()}
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": named,
    }


def op(name: str, ts: float, dur: float, **rest: Any) -> Raw:
    return event("cpu_op", name, ts, dur, **rest)


def annotation(ts: float, dur: float, name: str = "attn_fwd", **rest: Any) -> Raw:
    return event("user_annotation", name, ts, dur, **rest)


def launch(
    correlation: int, ts: float, dur: float = 1, name: str = "cudaLaunchKernel", **rest: Any
) -> Raw:
    return event("cuda_runtime", name, ts, dur, correlation=correlation, **rest)


def kernel(
    correlation: int | None,
    ts: float,
    dur: float,
    name: str = "k",
    *,
    device: int = 0,
    category: str = "kernel",
    **args: Any,
) -> Raw:
    if correlation is not None:
        args["correlation"] = correlation
    return event(category, name, ts, dur, pid=device, tid=7, device=device, **args)


def memcpy(correlation: int | None, ts: float, dur: float) -> Raw:
    return kernel(correlation, ts, dur, "Memcpy DtoD (Device -> Device)", category="gpu_memcpy")


def memset(correlation: int | None, ts: float, dur: float) -> Raw:
    return kernel(correlation, ts, dur, "Memset (Device)", category="gpu_memset")


def trace_bytes(*events: Raw, **top: Any) -> bytes:
    top.setdefault("deviceProperties", [H200])
    return json.dumps({"schemaVersion": 1, **top, "traceEvents": list(events)}).encode()


def trace(*events: Raw, **top: Any) -> Trace:
    return parse_trace(trace_bytes(*events, **top))

"""Masking scores in place with gradients on: does it raise, is it right, what does it save?

Compares naive, naive_inplace and the compiled naive forward, with gradients and without: errors of
the output and of the gradients against float64 on the CPU, peak memory, times, and the kernels and
copies of one forward. Prints Markdown and writes JSON.

    python -m tests.bench.inplace_autograd --out inplace_autograd.json
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch
from torch import Tensor

from attention.forwards import naive, naive_inplace
from attention.inputs import Inputs, make_inputs
from attention.spec import DTYPES, AttentionSpec
from profiling.analysis import analyse
from profiling.capture import peak_memory_bytes, record_trace
from profiling.environment import probe
from profiling.trace import parse_trace
from tests.bench.cases import compiled_naive, reason, wait

CUDA_SHAPES = ((8, 16, 1024, 64), (2, 16, 4096, 64))
CPU_SHAPES = ((1, 2, 128, 32),)
VARIANTS = ("naive", "naive_inplace", "naive_compiled")
PARTS = ("output", "dq", "dk", "dv")
REPEATS = 30
TRACED_FORWARDS = 3

Forward = Callable[[Inputs], Tensor]


@dataclass(frozen=True, slots=True)
class Error:
    """Of one tensor, over the (batch, head) pairs that were checked."""

    max_abs: float
    relative: float  # norm of the difference over norm of the reference


@dataclass(frozen=True, slots=True)
class Times:
    median_us: float
    p10_us: float
    p90_us: float


@dataclass(frozen=True, slots=True)
class Counts:
    """Kernels, copies and memsets of one call; None on a CPU."""

    kernels: float | None
    memcpys: float | None
    memsets: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """One variant at one shape and dtype; peaks leave out the inputs. None: not on a CPU."""

    errors: dict[str, Error]
    finite: bool
    identical_to_naive: bool | None  # output and gradients, bit for bit
    peak_forward_bytes: int | None
    peak_forward_backward_bytes: int | None
    held_for_backward_bytes: int | None  # after the forward, with gradients on
    forward: Times
    forward_backward: Times
    forward_counts: Counts
    forward_backward_counts: Counts


def masked_after_softmax(x: Inputs) -> Tensor:
    """Where in-place masking must raise: softmax keeps its output for the backward pass."""
    weights = torch.softmax(torch.matmul(x.q, x.k.transpose(-2, -1)) * x.scale, dim=-1)
    if x.mask is not None:
        weights.masked_fill_(x.mask, 0.0)
    return torch.matmul(weights, x.v)


def forward_of(variant: str) -> Forward:
    if variant == "naive_compiled":
        compiled = compiled_naive()
        return lambda x: compiled(x.q, x.k, x.v, x.mask, x.scale)
    return naive if variant == "naive" else naive_inplace


def gradients(forward: Forward, x: Inputs, upstream: Tensor) -> tuple[Tensor, ...]:
    """(output, dq, dk, dv) for a given gradient of the output."""
    forget_gradients(x)
    output = forward(x)
    output.backward(upstream)
    found = tuple(leaf.grad for leaf in (x.q, x.k, x.v))
    forget_gradients(x)
    return (output.detach(), *(grad for grad in found if grad is not None))


def forget_gradients(x: Inputs) -> None:
    for leaf in (x.q, x.k, x.v):
        leaf.grad = None


def reference(
    x: Inputs, upstream: Tensor, heads_checked: int
) -> dict[tuple[int, int], tuple[Tensor, ...]]:
    """(output, dq, dk, dv) in float64 on the CPU, for (batch, head) pairs spread evenly."""
    batch, heads = x.q.shape[:2]
    total = batch * heads
    wanted = min(heads_checked, total)
    flat = [round(i * (total - 1) / max(1, wanted - 1)) for i in range(wanted)]
    exact = {}
    for b, h in (divmod(index, heads) for index in flat):
        q, k, v = (t[b, h].detach().cpu().double().requires_grad_() for t in (x.q, x.k, x.v))
        scores = q @ k.T * x.scale
        if x.mask is not None:
            scores = scores.masked_fill(x.mask.cpu(), float("-inf"))
        output = torch.softmax(scores, dim=-1) @ v
        grads = torch.autograd.grad(output, (q, k, v), upstream[b, h].cpu().double())
        exact[b, h] = (output.detach(), *grads)
    return exact


def errors_against(
    exact: dict[tuple[int, int], tuple[Tensor, ...]], found: Sequence[Tensor]
) -> dict[str, Error]:
    errors = {}
    for part, name in enumerate(PARTS):
        largest = squared = squared_reference = 0.0
        for (b, h), tensors in exact.items():
            difference = found[part][b, h].cpu().double() - tensors[part]
            largest = max(largest, float(difference.abs().max()))
            squared += float(difference.square().sum())
            squared_reference += float(tensors[part].square().sum())
        errors[name] = Error(largest, (squared / squared_reference) ** 0.5)
    return errors


def held_bytes(call: Callable[[], object], device: str) -> int | None:
    """What is still allocated once the call is over, while its result lives."""
    if device != "cuda":
        return None
    wait(device)
    before = torch.cuda.memory_allocated()
    kept = call()
    wait(device)
    held = torch.cuda.memory_allocated() - before
    del kept
    return held


def timed(call: Callable[[], object], device: str) -> Times:
    """Between two CUDA events, each call started with the GPU idle; host time on a CPU."""
    for _ in range(3):
        call()
    found = []
    for _ in range(REPEATS):
        wait(device)
        if device == "cuda":
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            end.synchronize()
            found.append(begin.elapsed_time(end) * 1000)
        else:
            started = time.perf_counter()
            call()
            found.append((time.perf_counter() - started) * 1e6)
    tenths = quantiles(found, n=10, method="inclusive")
    return Times(median_us=tenths[4], p10_us=tenths[0], p90_us=tenths[8])


def counted(call: Callable[[], object], device: str) -> Counts:
    trace = record_trace(call, device, TRACED_FORWARDS, synchronise=True)
    per_forward = analyse(parse_trace(trace)).per_forward
    return Counts(per_forward.kernels, per_forward.memcpys, per_forward.memsets)


def measure(
    variant: str,
    x: Inputs,
    upstream: Tensor,
    exact: dict[tuple[int, int], tuple[Tensor, ...]],
    plain: Sequence[Tensor] | None,
    device: str,
) -> tuple[Measured, tuple[Tensor, ...]]:
    forward = forward_of(variant)

    def without_gradients() -> Tensor:
        with torch.no_grad():
            return forward(x)

    def both_ways() -> None:
        forget_gradients(x)
        forward(x).backward(upstream)

    found = gradients(forward, x, upstream)
    without_gradients()  # compiled a second time without gradients
    both_ways()
    forget_gradients(x)
    peak_forward = peak_memory_bytes(without_gradients, device)
    held = held_bytes(lambda: forward(x), device)
    peak_both = peak_memory_bytes(both_ways, device)
    measured = Measured(
        errors=errors_against(exact, found),
        finite=all(bool(torch.isfinite(tensor).all()) for tensor in found),
        identical_to_naive=None
        if plain is None
        else all(torch.equal(a, b) for a, b in zip(plain, found, strict=True)),
        peak_forward_bytes=peak_forward,
        peak_forward_backward_bytes=peak_both,
        held_for_backward_bytes=held,
        forward=timed(without_gradients, device),
        forward_backward=timed(both_ways, device),
        forward_counts=counted(without_gradients, device),
        forward_backward_counts=counted(both_ways, device),
    )
    forget_gradients(x)
    return measured, found


def run(
    shape: tuple[int, ...], dtype: str, device: str, heads_checked: int
) -> list[dict[str, Any]]:
    """Every variant at one shape and dtype; whatever one raises is its result."""
    batch, heads, seq_len, head_dim = shape
    spec = AttentionSpec(
        batch=batch, heads=heads, kv_heads=heads, seq_len=seq_len, head_dim=head_dim, dtype=dtype
    )
    x = make_inputs(spec, device, with_mask=True)
    generator = torch.Generator().manual_seed(1)
    upstream = torch.randn(x.q.shape, generator=generator).to(device, x.q.dtype)
    for leaf in (x.q, x.k, x.v):
        leaf.requires_grad_()
    exact = reference(x, upstream, heads_checked)
    common = {
        "shape": "x".join(map(str, shape)),
        "dtype": dtype,
        "heads_checked": len(exact),
        "heads": batch * heads,
    }
    results: list[dict[str, Any]] = []
    plain: tuple[Tensor, ...] | None = None
    for variant in VARIANTS:
        started = time.perf_counter()
        row = {**common, "variant": variant, "raised": None, "measured": None}
        try:
            measured, found = measure(variant, x, upstream, exact, plain, device)
            row["measured"] = asdict(measured)
            plain = found if variant == "naive" else plain
            del found
        except Exception as error:  # that it raises is what we want to know
            row["raised"] = reason(error)
        forget_gradients(x)
        results.append(row)
        print(
            f"{time.perf_counter() - started:6.1f} s  {common['shape']} {dtype} {variant} "
            f"{row['raised'] or ''}",
            file=sys.stderr,
            flush=True,
        )
    return results


def late_masking(dtype: str, device: str) -> str | None:
    """What autograd says to masking after the softmax, in place; None if it does not raise."""
    spec = AttentionSpec(batch=1, heads=2, kv_heads=2, seq_len=128, dtype=dtype)
    x = make_inputs(spec, device, with_mask=True)
    for leaf in (x.q, x.k, x.v):
        leaf.requires_grad_()
    try:
        gradients(masked_after_softmax, x, torch.ones_like(x.q))
    except RuntimeError as error:
        return reason(error)
    return None


def markdown(document: dict[str, Any]) -> str:
    environment = document["environment"]
    where = environment["gpu"] or environment["cpu"]
    done = [row for row in document["results"] if row["measured"]]
    lines = [
        f"{where}, torch {environment['torch']}, {environment['date']}",
        "",
        "Largest absolute error against float64 (relative error of the whole tensor):",
        "",
        "| shape | dtype | variant | output | dq | dk | dv | equal to naive bit for bit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in done:
        measured = row["measured"]
        errors = [_error(measured["errors"][part]) for part in PARTS]
        same = {None: "–", True: "yes", False: "no"}[measured["identical_to_naive"]]
        lines.append(_line(*_names(row), *errors, same))
    lines += [
        "",
        "| shape | dtype | variant | peak forward MiB | held for backward MiB "
        "| peak forward + backward MiB | forward µs (p10–p90) | forward + backward µs (p10–p90) "
        "| forward kernels + copies | forward + backward kernels + copies |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in done:
        measured = row["measured"]
        lines.append(
            _line(
                *_names(row),
                _mib(measured["peak_forward_bytes"]),
                _mib(measured["held_for_backward_bytes"]),
                _mib(measured["peak_forward_backward_bytes"]),
                _time(measured["forward"]),
                _time(measured["forward_backward"]),
                _counts(measured["forward_counts"]),
                _counts(measured["forward_backward_counts"]),
            )
        )
    lines.append("")
    for row in document["results"]:
        if row["raised"]:
            lines.append(f"- {' '.join(_names(row))} raised {row['raised']}")
    for dtype, message in document["masked_after_softmax"].items():
        lines.append(f"- masked after the softmax, in place, {dtype}: {message or 'no error'}")
    return "\n".join(lines)


def _names(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["shape"], row["dtype"], row["variant"]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _error(error: dict[str, float]) -> str:
    return f"{error['max_abs']:.2e} ({error['relative']:.1e})"


def _mib(size: int | None) -> str:
    return "–" if size is None else f"{size / 2**20:.1f}"


def _time(times: dict[str, float]) -> str:
    return f"{times['median_us']:.1f} ({times['p10_us']:.1f}–{times['p90_us']:.1f})"


def _counts(counts: dict[str, float | None]) -> str:
    if counts["kernels"] is None:
        return "–"
    return f"{counts['kernels']:g} + {counts['memcpys']:g}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.inplace_autograd")
    parser.add_argument("--out", type=Path, required=True, metavar="JSON")
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--heads-checked", type=int, default=32, help="(batch, head) pairs")
    options = parser.parse_args(arguments)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    document: dict[str, Any] = {
        "environment": asdict(probe("cuda" if device == "cuda" else "cpu")),
        "results": [],
        "masked_after_softmax": {dtype: late_masking(dtype, device) for dtype in DTYPES},
    }
    for shape in CUDA_SHAPES if device == "cuda" else CPU_SHAPES:
        for dtype in DTYPES:
            document["results"] += run(shape, dtype, device, options.heads_checked)
            # Written after each step: what is done stays, should a later one be cut off.
            options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(markdown(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())

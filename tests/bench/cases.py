"""Attention forwards whose kernels are held against Nsight Compute, and how they are launched.

Every case is one forward. A marker kernel stands before each case, so that the launches that two
tools recorded in separate processes can be told apart and joined in order.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attention.inputs import Inputs, make_inputs
from attention.spec import AttentionSpec
from attention.variants import find_backend, find_variant, pinned

BF16, FP16, FP32 = "bfloat16", "float16", "float32"
Shape = tuple[int, int, int, int]
Forward = Callable[[], object]

TINY: Shape = (1, 8, 128, 64)
ARTICLE: Shape = (8, 16, 1024, 64)


@dataclass(frozen=True, slots=True)
class Case:
    """One forward: a variant or SDPA backend at [batch, heads, seq_len, head_dim]."""

    variant: str
    dtype: str
    shape: Shape
    causal: bool = True

    @property
    def name(self) -> str:
        masked = "causal" if self.causal else "full"
        return f"{self.variant} {self.dtype} {'x'.join(map(str, self.shape))} {masked}"

    @property
    def spec(self) -> AttentionSpec:
        batch, heads, seq_len, head_dim = self.shape
        return AttentionSpec(
            batch=batch,
            heads=heads,
            kv_heads=heads,
            seq_len=seq_len,
            head_dim=head_dim,
            dtype=self.dtype,
            causal=self.causal,
        )


def _cases(variant: str, dtype: str, *shapes: Shape) -> tuple[Case, ...]:
    return tuple(Case(variant, dtype, shape) for shape in shapes)


CASES: tuple[Case, ...] = (
    *_cases("sdpa_flash", BF16, *((1, 8, 128, d) for d in (32, 64, 96, 128, 256))),
    *_cases("sdpa_flash", BF16, *((8, 16, 1024, d) for d in (32, 64, 96, 128, 256))),
    *_cases("sdpa_flash", BF16, (1, 4, 256, 64), (1, 8, 4096, 128)),
    *_cases("sdpa_flash", FP16, TINY, (1, 8, 256, 128), (2, 16, 1024, 64), (2, 16, 1024, 128)),
    Case("sdpa_flash", BF16, (1, 1, 4096, 64), causal=False),  # split over the keys
    Case("sdpa_flash", BF16, (8, 16, 1024, 128), causal=False),
    *_cases("sdpa_efficient", BF16, *((1, 8, 128, d) for d in (32, 64, 128, 256))),
    *_cases("sdpa_efficient", BF16, *((8, 16, 1024, d) for d in (32, 64, 96, 128, 256))),
    *_cases("sdpa_efficient", FP16, (1, 4, 256, 64), (2, 16, 1024, 128)),
    *_cases("sdpa_efficient", FP32, TINY, (1, 8, 256, 128), (2, 16, 1024, 64), (2, 16, 1024, 128)),
    *_cases("sdpa_cudnn", BF16, TINY, (1, 8, 128, 128), (8, 16, 1024, 32), ARTICLE),
    *_cases("sdpa_cudnn", BF16, (8, 16, 1024, 96), (8, 16, 1024, 128), (2, 16, 1024, 256)),
    *_cases("sdpa_cudnn", FP16, (1, 4, 256, 64), (2, 16, 4096, 128)),
    *_cases("sdpa_math", BF16, TINY),
    *_cases("sdpa_math", FP16, (2, 8, 256, 32)),
    *_cases("sdpa_math", FP32, (1, 4, 256, 128)),
    *_cases("naive", BF16, TINY, (1, 1, 128, 32), (2, 8, 256, 128), ARTICLE, (1, 8, 4096, 64)),
    *_cases("naive", FP16, (1, 4, 1024, 256), (2, 16, 1024, 96)),
    *_cases("naive", FP32, (1, 8, 256, 64), (2, 16, 1024, 128)),
    *_cases("naive_inplace", BF16, (1, 4, 256, 64), (8, 16, 1024, 128)),
    *_cases("naive_inplace", FP16, TINY),
    *_cases("naive_inplace", FP32, (1, 8, 128, 32)),
    *_cases("naive_compiled", BF16, TINY, ARTICLE, (1, 8, 4096, 128)),
    *_cases("naive_compiled", FP16, (2, 16, 1024, 128)),
    *_cases("naive_compiled", FP32, (1, 8, 256, 64)),
    *_cases("flex_compiled", BF16, TINY, ARTICLE, (2, 16, 1024, 128)),
    *_cases("flex_compiled", FP16, (1, 8, 4096, 64)),
    *_cases("flex_compiled", FP32, (1, 4, 256, 64)),
    # Other matmul tiles, softmax widths and, at head_dim 72, element-wise kernels without vectors.
    *_cases("sdpa_efficient", FP16, (2, 16, 1024, 72), (1, 8, 128, 256)),
    *_cases("sdpa_efficient", FP32, (1, 8, 128, 256)),
    *_cases("sdpa_math", BF16, (1, 8, 512, 256), (2, 8, 2048, 128)),
    *_cases("sdpa_math", FP16, (1, 8, 512, 128)),
    *_cases("naive", BF16, (2, 8, 512, 64), (2, 8, 2048, 256), (4, 16, 1024, 72)),
    *_cases("naive", FP16, (2, 8, 512, 128), (1, 8, 2048, 64), (1, 8, 4096, 128)),
    *_cases("naive", FP32, (1, 8, 512, 32), (2, 8, 2048, 64), (1, 4, 4096, 256)),
    *_cases("naive_compiled", BF16, (2, 8, 512, 96)),
    *_cases("naive_compiled", FP16, (1, 8, 2048, 64)),
    *_cases("flex_compiled", BF16, (2, 8, 512, 256)),
    *_cases("flex_compiled", FP16, (2, 8, 512, 128)),
)


@dataclass(frozen=True, eq=False, slots=True)
class Prepared:
    case: Case
    forward: Forward
    backend: str | None


def prepare(case: Case, device: str) -> Prepared:
    """Inputs drawn, masks built, compilers set up; what is left is to call `forward`."""
    if case.variant == "flex_compiled":
        return Prepared(case, _flex(make_inputs(case.spec, device, with_mask=False)), None)
    if case.variant == "naive_compiled":
        compiled = compiled_naive()
        x = make_inputs(case.spec, device, with_mask=True)
        return Prepared(case, lambda: compiled(x.q, x.k, x.v, x.mask, x.scale), None)
    name, _, backend = case.variant.partition("_")
    variant = find_variant("sdpa" if name == "sdpa" else case.variant)
    inputs = make_inputs(case.spec, device, with_mask=variant.needs_mask)
    forward = variant.forward
    return Prepared(case, lambda: forward(inputs), backend if name == "sdpa" else None)


def naive_of_tensors(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """The naive forward without the Inputs object, which a compiler would have to trace."""
    scores = torch.matmul(q, k.transpose(-2, -1)) * scale
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def compiled_naive() -> Callable[..., Tensor]:
    """Compiled for each shape anew; past Dynamo's limit it raises and never falls back to eager."""
    _raise_at_recompile_limit()
    compiled: Callable[..., Tensor] = torch.compile(naive_of_tensors, dynamic=False)
    return compiled


def _raise_at_recompile_limit() -> None:
    import torch._dynamo

    config = torch._dynamo.config
    config.recompile_limit = 64
    config.fail_on_recompile_limit_hit = True


def _flex(x: Inputs) -> Forward:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    _raise_at_recompile_limit()

    def causal(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        return q_idx >= kv_idx

    seq_len = x.q.shape[2]
    blocks = create_block_mask(causal, None, None, seq_len, seq_len, device=x.q.device.type)
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(x.q, x.k, x.v, block_mask=blocks, scale=x.scale)


def warmed_up(cases: Sequence[Case], device: str) -> tuple[list[Prepared], list[tuple[Case, str]]]:
    """Every case that ran twice, and those that did not with the reason."""
    ready: list[Prepared] = []
    refused: list[tuple[Case, str]] = []
    for case in cases:
        started = time.perf_counter()
        try:
            prepared = prepare(case, device)
            for _ in range(2):
                launch(prepared)
            wait(device)
        except Exception as error:  # whatever one case raises, the others go on
            refused.append((case, reason(error)))
            print(f"left out: {case.name}: {reason(error)}", file=sys.stderr, flush=True)
            continue
        ready.append(prepared)
        print(f"{time.perf_counter() - started:6.1f} s  {case.name}", file=sys.stderr, flush=True)
    return ready, refused


def launch(prepared: Prepared) -> None:
    with torch.no_grad(), pinned(find_backend(prepared.backend) if prepared.backend else None):
        prepared.forward()


def launch_all(ready: Sequence[Prepared], device: str) -> dict[str, str]:
    """Each case once, with a marker kernel before it and one at the end; failures by name."""
    failed: dict[str, str] = {}
    for prepared in ready:
        mark(device)
        try:
            launch(prepared)
            wait(device)
        except Exception as error:  # the next marker keeps the later cases in order
            failed[prepared.case.name] = reason(error)
            print(f"failed: {prepared.case.name}: {reason(error)}", file=sys.stderr, flush=True)
    mark(device)
    wait(device)
    return failed


def mark(device: str) -> None:
    """Launch PyTorch's `spin_kernel`, which no forward uses."""
    if device == "cuda":
        torch.cuda._sleep(1000)


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def reason(error: Exception) -> str:
    text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}"[:300]


@contextmanager
def cuda_profiler_range(device: str) -> Iterator[None]:
    """What `ncu --profile-from-start off` profiles."""
    if device != "cuda":
        yield
        return
    torch.cuda.profiler.start()
    try:
        yield
    finally:
        torch.cuda.profiler.stop()


def record(ready: Sequence[Prepared], device: str, trace: Path) -> dict[str, str]:
    """`launch_all` under torch.profiler; the Chrome trace goes to `trace`."""
    from torch.profiler import ProfilerActivity, profile, schedule

    activities = [ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(
        activities=activities,
        schedule=schedule(wait=0, warmup=1, active=1, repeat=1),
        acc_events=True,
        on_trace_ready=lambda finished: finished.export_chrome_trace(str(trace)),
    ) as profiler:
        mark(device)
        wait(device)
        profiler.step()
        failed = launch_all(ready, device)
        profiler.step()
    return failed

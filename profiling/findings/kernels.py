"""Rules on which kernels ran, how they were launched and how full they make the GPU."""

import re
from collections.abc import Iterator

from profiling.analysis import Analysis, KernelRow
from profiling.findings.finding import Finding, Subject, count_per_forward, us_per_forward
from profiling.kernel_names import decode
from profiling.occupancy import DEFAULT_SHARED_MEMORY_PER_BLOCK_BYTES
from profiling.wording import counted, microseconds, share, size

# Nsight Compute on the H200: flash 12.5 %, cuDNN 18.75 %, efficient 25 %, all Tensor Core bound.
_LOW_OCCUPANCY_PCT = 25.0
_COMBINE = re.compile(r"splitkv_combine|FlashAttnFwdCombine")

# Kernel families first: an op can still dispatch to something else.
_FAMILY_BACKENDS = (
    ("cudnn_sdpa", "cudnn"),
    ("flash_attention", "flash"),
    ("mem_efficient", "efficient"),
)
_OP_BACKENDS = (
    ("aten::_scaled_dot_product_cudnn_attention", "cudnn"),
    ("aten::_scaled_dot_product_flash_attention", "flash"),
    ("aten::_scaled_dot_product_efficient_attention", "efficient"),
    ("aten::_scaled_dot_product_attention_math", "math"),
)


def cuda_core_matmul(subject: Subject) -> Iterator[Finding]:
    """Matrix products that leave the Tensor Cores idle."""
    rows = [
        row
        for row in subject.analysis.kernels
        if row.role in ("qk", "pv")
        and row.uses_tensor_cores is False
        and decode(row.name).operation == "gemm"
    ]
    if not rows:
        return
    cost_us = us_per_forward(rows)
    dtypes = "/".join(sorted({row.dtype for row in rows if row.dtype}))
    names = ", ".join(dict.fromkeys(row.short_name for row in rows))
    yield Finding(
        rule="cuda_core_matmul",
        severity="warning",
        title=f"{dtypes} products run on CUDA cores".strip(),
        evidence=(
            f"{counted(count_per_forward(rows), 'matrix product')} without Tensor Cores ({names}): "
            f"{microseconds(cost_us)} per forward ({share(cost_us, subject.busy_us)} of GPU busy)."
        ),
        advice=(
            "Keep q, k and v in bf16 or fp16 (a fused backend does); for fp32, "
            "torch.set_float32_matmul_precision('high') allows TF32, with about three digits less."
        ),
    )


def occupancy_misreported(subject: Subject) -> Iterator[Finding]:
    """Kernels for which the profiler's occupancy is not what their launch record gives."""
    rows = [row for row in subject.analysis.kernels if _is_misreported(row)]
    worst = max(rows, key=lambda row: row.mean_us * row.count_per_forward, default=None)
    if worst is None or worst.occupancy is None:
        return
    over = [r for r in rows if (r.shared_memory_bytes or 0) > DEFAULT_SHARED_MEMORY_PER_BLOCK_BYTES]
    total = counted(
        count_per_forward(r for r in subject.analysis.kernels if r.kind == "kernel"), "kernel"
    )
    yield Finding(
        rule="occupancy_misreported",
        severity="info",
        title="The profiler's occupancy is wrong here",
        evidence=(
            f"{count_per_forward(rows):g} of {total} per forward "
            f"({share(us_per_forward(rows), subject.busy_us)} of GPU busy). {worst.short_name}: "
            f"{worst.occupancy.why_reported_differs}"
        ),
        advice=(
            "Read the recomputed value. The launch call is not the cause: any kernel above "
            f"{DEFAULT_SHARED_MEMORY_PER_BLOCK_BYTES:,} B of shared memory per block reads 0 %, "
            "through cudaLaunchKernel as well."
            if over
            else "Read the recomputed value."
        ),
    )


def _is_misreported(row: KernelRow) -> bool:
    """A tiny grid that honestly rounds to 0 % is explained elsewhere, but not wrong."""
    occupancy = row.occupancy
    if occupancy is None or occupancy.reported_pct is None or not occupancy.why_reported_differs:
        return False
    expected = occupancy.machine_wide_pct
    if expected is None:
        expected = occupancy.theoretical_pct
    return abs(occupancy.reported_pct - expected) > 1


def low_occupancy_is_fine(subject: Subject) -> Iterator[Finding]:
    """A fused kernel that trades occupancy for registers and shared memory."""
    rows = [row for row in subject.analysis.kernels if _is_heavy(row)]
    row = max(rows, key=lambda row: row.mean_us * row.count_per_forward, default=None)
    if row is None or row.occupancy is None:
        return
    occupancy = row.occupancy
    limiters = " and ".join(name.replace("_", " ") for name in occupancy.limiters)
    yield Finding(
        rule="low_occupancy_is_fine",
        severity="info",
        title=f"{occupancy.theoretical_pct:g} % occupancy is by design",
        evidence=(
            f"{row.short_name} takes {row.registers_per_thread} registers per thread and "
            f"{size(row.shared_memory_bytes or 0)} of shared memory per block: "
            f"{counted(occupancy.blocks_per_sm, 'block')} per SM ({occupancy.warps_per_sm} warps), "
            f"limited by {limiters}. It keeps its tiles there instead of in memory, and feeds the "
            "Tensor Cores from them."
        ),
        advice="Compare µs, not occupancy: more resident warps would have to give up the tiles.",
    )


def _is_heavy(row: KernelRow) -> bool:
    occupancy = row.occupancy
    return (
        row.role == "attention"
        and row.uses_tensor_cores is True
        and occupancy is not None
        and 0 < occupancy.theoretical_pct <= _LOW_OCCUPANCY_PCT
        and bool({"registers", "shared_memory"} & set(occupancy.limiters))
        # A grid that leaves SMs empty is a reason to worry, whatever the kernel's limits.
        and occupancy.machine_wide_pct == occupancy.theoretical_pct
    )


def driver_launch(subject: Subject) -> Iterator[Finding]:
    """Kernels launched through the driver API, which a search for cudaLaunchKernel misses."""
    kernels = [row for row in subject.analysis.kernels if row.kind == "kernel"]
    rows = [row for row in kernels if (row.launch_api or "").startswith("cuLaunch")]
    if not rows:
        return
    calls = ", ".join(dict.fromkeys(row.launch_api for row in rows if row.launch_api))
    libraries = ", ".join(dict.fromkeys(row.library for row in rows))
    yield Finding(
        rule="driver_launch",
        severity="info",
        title="Kernels are launched through the driver API",
        evidence=(
            f"{count_per_forward(rows):g} of {counted(count_per_forward(kernels), 'kernel')} per "
            f"forward, by {libraries}, through {calls}."
        ),
        advice=(
            "Join kernels to calls by correlation id, not by the name cudaLaunchKernel. The call "
            "has no influence on the occupancy that the profiler shows."
        ),
    )


def split_kv(subject: Subject) -> Iterator[Finding]:
    """FlashAttention that spreads the keys over more blocks and combines the parts afterwards."""
    rows = [row for row in subject.analysis.kernels if row.role == "attention"]
    combine = [row for row in rows if _COMBINE.search(row.name)]
    parts = [row for row in rows if "splitkv" in row.name and row not in combine]
    if not combine or not parts:
        return
    yield Finding(
        rule="split_kv",
        severity="info",
        title="Flash splits the keys and combines the parts",
        evidence=(
            f"{parts[0].short_name} {microseconds(us_per_forward(parts))} and "
            f"{combine[0].short_name} {microseconds(us_per_forward(combine))} per forward: two "
            "kernels, one call."
        ),
        advice=(
            "Count both as the attention. Splitting fills the GPU when batch, heads and queries "
            "alone give too few blocks; a larger batch makes it unnecessary."
        ),
    )


def backend_fell_back(subject: Subject) -> Iterator[Finding]:
    """What SDPA really ran, where it was left to choose or is not what was asked."""
    config = subject.config
    if config is None or config.variant != "sdpa":
        return
    ran = backend_that_ran(subject.analysis)
    if ran is None or ran == config.backend:
        return
    seen = _seen(subject.analysis)
    if config.backend == "auto":
        unfused = ran == "math"
        yield Finding(
            rule="backend_fell_back",
            severity="warning" if unfused else "info",
            title=f"auto chose {ran}",
            evidence=f"{seen} PyTorch does not record why in a trace.",
            advice=(
                "No fused backend took this problem. torch.backends.cuda.can_use_flash_attention("
                "params, debug=True), and its siblings, warn with the reason."
                if unfused
                else "Pin each backend in turn to see whether the choice is the fastest here."
            ),
        )
        return
    yield Finding(
        rule="backend_fell_back",
        severity="problem",
        title=f"Asked for {config.backend}, {ran} ran",
        evidence=seen,
        advice=f"Do not read this run as {config.backend}; compare it under the name {ran}.",
    )


def backend_that_ran(analysis: Analysis) -> str | None:
    """The SDPA backend read from kernel names, else from ops; None where neither tells."""
    for row in analysis.kernels:
        for family, backend in _FAMILY_BACKENDS:
            if row.family.startswith(family):
                return backend
    for op in analysis.ops:
        for prefix, backend in _OP_BACKENDS:
            if op.name.startswith(prefix):
                return backend
    return None


def _seen(analysis: Analysis) -> str:
    ops = [op.name for op in analysis.ops if op.name.startswith("aten::_scaled_dot_product")]
    rows = [row for row in analysis.kernels if row.kind == "kernel"]
    longest = max(rows, key=lambda row: row.mean_us * row.count_per_forward, default=None)
    kernels = (
        f"{counted(count_per_forward(rows), 'kernel')} per forward, longest {longest.short_name}"
        if longest
        else ""
    )
    return f"The trace shows {', '.join(filter(None, (*ops, kernels)))}."

"""Rules on data that is moved, cast or built although a fused kernel would not need it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attention.costs import input_bytes
from profiling.analysis import Activity, HostEvent
from profiling.findings.finding import (
    Finding,
    Subject,
    count_per_forward,
    telling_op,
    us_per_forward,
)
from profiling.findings.source import source_line
from profiling.findings.tensors import launching_op, launching_ops, tensor_arguments
from profiling.kernel_names import decode
from profiling.wording import counted, listed, microseconds, share, size

# Copies that cost less than this are below what kernel times vary by.
_SMALLEST_SHARE = 0.01
_HALF = {"bf16", "fp16", "16-bit"}
_HALF_TENSORS = {"c10::BFloat16", "c10::Half"}
_SDPA_MATH = "aten::_scaled_dot_product_attention_math"

# ones, where and the like serve other ends too: only with a triangle is it the mask.
_TRIANGLES = {"tril", "triu"}
_MASK_BUILDERS = tuple(
    f"aten::{name}" for name in ("ones", "full", "zeros", "tril", "triu", "scalar_tensor", "where")
)

_COPY_ADVICE = {
    "masked_fill": "masked_fill copies its input before it writes. Use masked_fill_, which writes "
    "into the scores, where the unmasked scores are not needed again.",
    "repeat_interleave": "Let scaled_dot_product_attention share K and V among heads "
    "(enable_gqa=True) instead of repeating them.",
    "matmul": "matmul copies an operand whose layout it cannot use; make it contiguous once, "
    "outside the forward.",
    "to": "Keep the tensor on the GPU, in the type it is needed in, between forwards.",
}

# Products and where their two factors stand among the arguments.
_PRODUCTS = {"aten::bmm": 0, "aten::mm": 0, "aten::baddbmm": 1, "aten::addmm": 1}
# The L2 cache of an A100; scores below it may never reach HBM (H100 50 MB, B200 126 MB).
_L2_BYTES = 40_000_000


@dataclass(frozen=True, slots=True)
class _Copy:
    kind: str
    dur_ns: int
    bytes: int | None
    chain: tuple[str, ...]


def hidden_copy(subject: Subject) -> Iterator[Finding]:
    """Copies that nobody asked for: a whole tensor read and written because of an op's form."""
    copies: dict[str, list[_Copy]] = defaultdict(list)
    for forward in subject.analysis.forwards:
        for activity in forward.activities:
            if _is_copy(activity):
                op = launching_op(forward, activity)
                copies[telling_op(activity.caused_by)].append(_copy(activity, op))
    forwards = len(subject.analysis.forwards)
    for op_name, group in copies.items():
        cost_us = sum(copy.dur_ns for copy in group) / forwards / 1000
        if op_name and cost_us >= _SMALLEST_SHARE * subject.busy_us:
            yield _hidden_copy(subject, op_name, group, cost_us)


def _hidden_copy(subject: Subject, op_name: str, group: Sequence[_Copy], cost_us: float) -> Finding:
    forwards = len(subject.analysis.forwards)
    count = len(group) / forwards
    is_memcpy = all(copy.kind == "memcpy" for copy in group)
    what = counted(count, "memcpy", "memcpys") if is_memcpy else counted(count, "copy", "copies")
    sizes = [copy.bytes for copy in group if copy.bytes is not None]
    moved = f" of {size(sum(sizes) // forwards)}" if len(sizes) == len(group) else ""
    chain = group[0].chain
    path = " → ".join(chain[chain.index(op_name) :])
    line = source_line(subject.config.variant, op_name) if subject.config else None
    short = op_name.removeprefix("aten::")
    is_naive = subject.config is not None and subject.config.variant == "naive"
    return Finding(
        rule="hidden_copy",
        severity="warning",
        title=f"{short} makes a hidden copy",
        evidence=(
            f"{what}{moved} per forward, made by {path}: {microseconds(cost_us)} "
            f"({share(cost_us, subject.busy_us)} of GPU busy).{f' {line}.' if line else ''}"
        ),
        advice=_COPY_ADVICE.get(
            short, f"Look for a form of {short} that works in place or on views."
        ),
        try_instead="naive_inplace" if short == "masked_fill" and is_naive else None,
    )


def _is_copy(activity: Activity) -> bool:
    """A memcpy, or a kernel of copy_ that does not change the type (a cast is asked for)."""
    if activity.event.category == "memcpy":
        return True
    chain = activity.caused_by
    is_cast = "aten::_to_copy" in chain or decode(activity.event.name).operation == "cast"
    return (
        activity.event.category == "kernel"
        and bool(chain)
        and chain[-1] == "aten::copy_"
        and not is_cast
    )


def _copy(activity: Activity, op: HostEvent | None) -> _Copy:
    recorded = activity.event.args.get("bytes")
    if not isinstance(recorded, int) or not 0 <= recorded < 2**63:
        tensors = tensor_arguments(op.event) if op else []
        recorded = tensors[0].bytes if tensors else None
    return _Copy(activity.event.category, activity.event.dur_ns, recorded, activity.caused_by)


def fp32_upcast(subject: Subject) -> Iterator[Finding]:
    """Half-precision inputs that are widened to float32 in memory before the work starts."""
    kernels = subject.analysis.kernels
    casts = [row for row in kernels if row.role == "cast" and row.kind == "kernel"]
    up = [row for row in casts if row.dtype == "fp32"]
    down = [row for row in casts if row.dtype in _HALF]
    if not up or not (down or _casts_from_half(subject)):
        return
    cost_us = us_per_forward([*up, *down])
    back = f" and {counted(count_per_forward(down), 'cast')} back" if down else ""
    in_math = any(_SDPA_MATH in row.caused_by for row in up)
    yield Finding(
        rule="fp32_upcast",
        severity="warning",
        title="Inputs are widened to fp32 in memory",
        evidence=(
            f"{counted(count_per_forward(up), 'cast')} to fp32{back}: {microseconds(cost_us)} per "
            f"forward ({share(cost_us, subject.busy_us)} of GPU busy). What lies between works on "
            "4 bytes per element instead of 2."
        ),
        advice=(
            "Pin a fused backend (flash, efficient, cudnn): it accumulates in fp32 without storing "
            "it. Or let the math backend stay in half precision: "
            "torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)."
            if in_math
            else "Keep the tensors in half precision; matmul and softmax accumulate in fp32 anyway."
        ),
    )


def _casts_from_half(subject: Subject) -> bool:
    if subject.config is not None:
        return subject.config.spec.dtype in ("bfloat16", "float16")
    return any(
        activity.role == "cast"
        and any(t.dtype in _HALF_TENSORS for t in tensor_arguments(op.event))
        for activity, op in launching_ops(subject.analysis.forwards)
    )


def mask_rebuilt(subject: Subject) -> Iterator[Finding]:
    """A mask made anew in every forward although it depends on the shape alone."""
    forwards = subject.analysis.forwards
    built = [
        op.event
        for forward in forwards
        for op in forward.ops
        if op.role == "mask"
        and op.event.name in _MASK_BUILDERS
        and not any(outer in _MASK_BUILDERS for outer in op.caused_by)
    ]
    names = list(dict.fromkeys(event.name.removeprefix("aten::") for event in built))
    if not _TRIANGLES & set(names):
        return
    rows = [
        row
        for row in subject.analysis.kernels
        if row.role == "mask" and any(op in _MASK_BUILDERS for op in row.caused_by)
    ]
    host_us = sum(event.dur_ns for event in built) / len(forwards) / 1000
    gpu = (
        f"{counted(count_per_forward(rows), 'kernel')} and {microseconds(us_per_forward(rows))} on "
        "the GPU, "
        if rows
        else ""
    )
    yield Finding(
        rule="mask_rebuilt",
        severity="info",
        title="The mask is built again in every forward",
        evidence=(
            f"{listed(names)} run inside the forward: {gpu}{microseconds(host_us)} of profiled "
            "host time each time."
        ),
        advice=(
            "Build the mask once and pass it in, or use a fused backend with is_causal=True, which "
            "needs none."
        ),
    )


def safe_softmax(subject: Subject) -> Iterator[Finding]:
    """The extra passes that turn fully masked rows into zeros instead of NaN."""
    ops = {row.name: row for row in subject.analysis.ops if row.role == "softmax"}
    safe = ops.get("aten::_safe_softmax")
    if safe is None:
        return
    extra = [
        row
        for row in subject.analysis.kernels
        if "aten::_safe_softmax" in row.caused_by and "aten::softmax" not in row.caused_by
    ]
    plain = ops.get("aten::softmax")
    if extra:
        names = list(dict.fromkeys(decode(row.name).operation for row in extra))
        cost_us = us_per_forward(extra)
        evidence = (
            f"{counted(count_per_forward(extra), 'kernel')} besides the softmax "
            f"({listed(names)}): {microseconds(cost_us)} per forward "
            f"({share(cost_us, subject.busy_us)} of GPU busy)."
        )
    elif plain is not None:
        extra_us = safe.total_us - plain.total_us
        evidence = f"Besides the softmax itself it takes {microseconds(extra_us)} per forward."
    else:
        return
    yield Finding(
        rule="safe_softmax",
        severity="warning",
        title="_safe_softmax checks every row for a full mask",
        evidence=f"aten::_safe_softmax gives zeros, not NaN, for rows without any key. {evidence}",
        advice=(
            "A causal mask never hides every key of a row. A fused backend handles such rows "
            "inside its kernel."
        ),
    )


def scores_materialised(subject: Subject) -> Iterator[Finding]:
    """The [seq, seq] matrix written to memory and read back, step after step."""
    rows = subject.analysis.kernels
    products = {row.role for row in rows if decode(row.name).operation == "gemm"}
    if not {"qk", "pv"} <= products:
        return
    traffic = _traffic_from_shapes(subject) or _traffic_from_settings(subject)
    if traffic is None:
        return
    least = size(input_bytes(subject.config.spec)) if subject.config else None
    fused = f" A fused kernel moves q, k, v and the output once: {least}." if least else ""
    small = traffic.matrix_bytes < _L2_BYTES
    yield Finding(
        rule="scores_materialised",
        severity="info" if small else "warning",
        title="The scores go through memory",
        evidence=(
            f"All [seq, seq] matrices together have {size(traffic.matrix_bytes)}; one forward "
            f"writes {size(traffic.written_bytes)} and reads {size(traffic.read_bytes)} of them "
            f"({traffic.source})."
            f"{' They are small enough to stay in an L2 cache.' if small else ''}{fused}"
        ),
        advice=(
            "A fused backend (flash, efficient, cudnn) keeps them on the chip; torch.compile "
            "merges scale, mask and softmax into one pass."
        ),
    )


@dataclass(frozen=True, slots=True)
class _Traffic:
    matrix_bytes: int
    written_bytes: int
    read_bytes: int
    source: str


def _traffic_from_shapes(subject: Subject) -> _Traffic | None:
    forwards = subject.analysis.forwards
    ops = [pair for pair in launching_ops(forwards) if pair[0].event.category != "memset"]
    matrix = next((m for a, op in ops if a.role == "qk" and (m := _product(op))), None)
    if matrix is None:
        return None
    elements, bytes_per_element = matrix
    moved = [_moved_bytes(activity, op, elements) for activity, op in ops]
    return _Traffic(
        matrix_bytes=elements * bytes_per_element,
        written_bytes=sum(written for written, _ in moved) // len(forwards),
        read_bytes=sum(read for _, read in moved) // len(forwards),
        source="computed from the shapes in the trace, caches left aside",
    )


def _product(op: HostEvent) -> tuple[int, int] | None:
    """Elements of the product [.., M, N], and bytes of each.

    None where shapes are not recorded, or where K = N: q would look like the scores.
    """
    first = _PRODUCTS.get(op.event.name)
    factors = tensor_arguments(op.event)[first : first + 2] if first is not None else []
    if len(factors) < 2 or len(factors[0].dims) < 2 or len(factors[1].dims) < 2:
        return None
    left, right = factors
    columns = right.dims[-1]
    if left.dims[-1] in (0, columns):
        return None
    return left.elements // left.dims[-1] * columns, left.bytes_per_element


def _moved_bytes(activity: Activity, op: HostEvent, elements: int) -> tuple[int, int]:
    """(written, read) bytes of score-sized tensors by one activity."""
    tensors = tensor_arguments(op.event)
    scores = [tensor for tensor in tensors if tensor.elements == elements]
    name = op.event.name
    if name in _PRODUCTS and activity.role == "qk":
        return (elements * tensors[0].bytes_per_element if tensors else 0), 0
    if not scores:
        return 0, 0
    if name in _PRODUCTS:
        return 0, scores[0].bytes
    if name == "aten::copy_" and len(scores) > 1:
        destination, source = scores[:2]
        return destination.bytes, source.bytes
    if name == "aten::isneginf":
        return elements, scores[0].bytes
    if name == "aten::all":
        return 0, scores[0].bytes
    # Elementwise and softmax: one pass in, one pass out, whether in place or not.
    return scores[0].bytes, scores[0].bytes


def _traffic_from_settings(subject: Subject) -> _Traffic | None:
    if subject.config is None or _has_shapes(subject):
        return None
    spec = subject.config.spec
    matrix_bytes = spec.batch * spec.heads * spec.seq_len**2 * spec.bytes_per_element
    return _Traffic(
        matrix_bytes,
        matrix_bytes,
        matrix_bytes,
        "at least: from the run's settings, as the trace has no shapes; QKᵀ writes, PV reads",
    )


def _has_shapes(subject: Subject) -> bool:
    return any("Input Dims" in op.event.args for f in subject.analysis.forwards for op in f.ops)

"""What a forward needs in memory and arithmetic, before anything is run."""

from dataclasses import replace

from attention.spec import BOUNDS, AttentionSpec

# Copies of the [seq_len, seq_len] scores that are alive at the worst moment, by (copies in the
# inputs' dtype, copies in float32). Naive: the product and its masked, scaled or normalised copy.
# Math: float32 weights, the result of _safe_softmax's `where`, and a boolean of a quarter of their
# size. Measured on an H200 (torch 2.11, bfloat16 and float32): tests/test_gpu.py.
_LIVE_SCORES = {
    "naive": (2.0, 0.0),
    "naive_inplace": (2.0, 0.0),
    "math": (0.0, 2.25),
}
# float32 tensors of q's size that math holds beside them: upcast and scaled q, k and v.
_MATH_UPCASTS = {2: 4, 4: 1}


def flop_count(spec: AttentionSpec) -> int:
    """Two multiply-adds per score and head_dim element: 4·B·H·S²·D, causal or not."""
    return 4 * spec.batch * spec.heads * spec.seq_len**2 * spec.head_dim


def input_bytes(spec: AttentionSpec) -> int:
    """q, k, v and the output."""
    tokens = spec.batch * spec.seq_len * spec.head_dim * spec.bytes_per_element
    return tokens * (2 * spec.heads + 2 * spec.kv_heads)


def score_bytes(spec: AttentionSpec, variant: str, backend: str | None) -> int:
    """Memory of all [seq_len, seq_len] intermediates alive at once; 0 for a fused kernel."""
    in_dtype, in_float32 = _live_scores(variant, backend)
    scores = spec.batch * spec.heads * spec.seq_len**2
    return int(scores * (in_dtype * spec.bytes_per_element + in_float32 * 4))


def peak_bytes(spec: AttentionSpec, variant: str, backend: str | None) -> int:
    """Estimated memory at the worst moment of a forward: inputs, output, mask, scores, upcasts."""
    scores = score_bytes(spec, variant, backend)
    if not scores:
        return input_bytes(spec)
    square = spec.seq_len**2 if spec.causal else 0
    if backend == "math":
        upcasts = 4 * _MATH_UPCASTS[spec.bytes_per_element]
        tokens = spec.batch * spec.heads * spec.seq_len * spec.head_dim
        # The worst moment is before there is an output.
        return input_bytes(spec) + scores + 4 * square + tokens * (upcasts - spec.bytes_per_element)
    return input_bytes(spec) + scores + square


def largest_seq_len(spec: AttentionSpec, variant: str, backend: str | None, budget: int) -> int:
    """The longest seq_len whose `peak_bytes` stay within `budget` bytes; 0 when none does."""
    low, high = 0, BOUNDS["seq_len"][1]
    while low < high:
        middle = (low + high + 1) // 2
        if peak_bytes(replace(spec, seq_len=middle), variant, backend) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def _live_scores(variant: str, backend: str | None) -> tuple[float, float]:
    return _LIVE_SCORES.get(backend or variant, (0.0, 0.0))

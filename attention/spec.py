"""The problem: one attention forward, softmax(QKᵀ·scale + mask)·V."""

from dataclasses import dataclass
from math import sqrt

DTYPES = ("bfloat16", "float16", "float32")
BYTES_PER_ELEMENT = {"bfloat16": 2, "float16": 2, "float32": 4}

# Far above what any GPU of today holds in one forward; what fits is decided by the memory estimate.
BOUNDS = {
    "batch": (1, 1024),
    "heads": (1, 256),
    "kv_heads": (1, 256),
    "seq_len": (1, 131_072),
    "head_dim": (1, 256),
    "seed": (0, 2**32 - 1),
}


class SpecError(ValueError):
    """A request that cannot be meant; the message is one sentence: the value and the way out."""


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """Shapes are [batch, heads, seq_len, head_dim]; K and V have `kv_heads` heads."""

    batch: int = 8
    heads: int = 16
    seq_len: int = 1024
    head_dim: int = 64
    kv_heads: int = 16
    dtype: str = "bfloat16"
    causal: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for field, (low, high) in BOUNDS.items():
            check_whole_number(field, getattr(self, field), low, high)
        if self.dtype not in DTYPES:
            raise SpecError(f"dtype must be one of {', '.join(DTYPES)}; got {_shown(self.dtype)}.")
        if not isinstance(self.causal, bool):
            raise SpecError(f"causal must be True or False; got {_shown(self.causal)}.")
        if self.heads % self.kv_heads:
            raise SpecError(
                f"heads must be a multiple of kv_heads; got {self.heads} heads and "
                f"{self.kv_heads} kv_heads."
            )

    @property
    def scale(self) -> float:
        """What scores are multiplied with, 1/√head_dim as in scaled_dot_product_attention."""
        return 1 / sqrt(self.head_dim)

    @property
    def bytes_per_element(self) -> int:
        return BYTES_PER_ELEMENT[self.dtype]

    @property
    def shape_text(self) -> str:
        """Such as "8×16×1024×64 bfloat16 causal"."""
        kv = "" if self.kv_heads == self.heads else f" kv_heads {self.kv_heads}"
        masked = "causal" if self.causal else "not causal"
        dims = f"{self.batch}×{self.heads}×{self.seq_len}×{self.head_dim}"
        return f"{dims}{kv} {self.dtype} {masked}"


def check_whole_number(field: str, value: object, low: int, high: int) -> int:
    """`value` as a whole number from `low` to `high`, or a SpecError that says what to give."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SpecError(
            f"{field} must be a whole number from {low:,} to {high:,}; got {_shown(value)}."
        )
    return value


def whole_number(field: str, value: object) -> int:
    """Read what a person typed or a form sent (text, 1024.0) as a whole number."""
    try:
        number = float(str(value).strip().replace("_", ""))
    except ValueError:
        number = float("nan")
    if not number.is_integer():
        low, high = BOUNDS.get(field, (1, 1))
        allowed = f" from {low:,} to {high:,}" if field in BOUNDS else ""
        raise SpecError(f"{field} must be a whole number{allowed}; got {_shown(value)}.")
    return int(number)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"

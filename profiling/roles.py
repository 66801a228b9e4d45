"""Which step of attention an op or a GPU activity serves: QK, scale, mask, softmax, PV, or all.

`kind` says what an activity is, `role` which step it serves: the copy that an out-of-place
masked_fill makes has kind memcpy and role mask. The outermost telling op decides, so that the copy
inside masked_fill is mask and the `where` inside _safe_softmax is softmax.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

Role = Literal["qk", "scale", "mask", "softmax", "pv", "attention", "copy", "cast", "other"]
ROLES: tuple[Role, ...] = (
    "qk",
    "scale",
    "mask",
    "softmax",
    "pv",
    "attention",
    "copy",
    "cast",
    "other",
)

# "matmul" is not a role: which of the two products it is follows from its place beside the softmax.
_STEPS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (step, re.compile(pattern))
    for step, pattern in (
        (
            "attention",
            r"aten::(_scaled_dot_product_(flash|efficient|cudnn|fused)|_flash_attention"
            r"|_efficient_attention|_cudnn_attention)|flash_attn|flex_attention",
        ),
        ("matmul", r"aten::(matmul|bmm|mm|baddbmm|addmm|einsum)$"),
        ("softmax", r"aten::_?(safe_|log_)?softmax$|triton_.*softmax"),
        ("scale", r"aten::(mul|div)_?$"),
        (
            "mask",
            r"aten::(masked_fill|where|tril|triu|ones|zeros|full|scalar_tensor|logical_not|add"
            r"|bitwise_and|bitwise_or|ge|le|gt|lt)_?$",
        ),
        ("cast", r"aten::(to|_to_copy)$"),
        ("copy", r"aten::(clone|contiguous|copy|repeat_interleave|cat|index_select)_?$"),
    )
)
_NAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "attention",
        re.compile(r"flash_fwd|flash_bwd|FlashAttn|flash_attn|fmha|sdpa|flex_attention|_attn_fwd"),
    ),
    ("softmax", re.compile(r"softmax", re.IGNORECASE)),
)


def step_of(chain: Iterable[str], name: str = "") -> str | None:
    """The step named by the outermost telling op of `chain`, else by the kernel's own `name`."""
    for op in chain:
        for step, pattern in _STEPS:
            if pattern.search(op):
                return step
    return next((step for step, pattern in _NAMES if pattern.search(name)), None)


def role_of(step: str | None, at_ns: int, softmax_ns: int | None) -> Role:
    """The role of a step that starts at `at_ns`; the forward's softmax starts at `softmax_ns`."""
    if step == "matmul":
        if softmax_ns is None:
            return "other"
        return "qk" if at_ns < softmax_ns else "pv"
    return next((role for role in ROLES if role == step), "other")


def first_softmax_ns(steps: Sequence[tuple[str | None, int]]) -> int | None:
    """When the first softmax of a forward starts on the host, from (step, start) pairs."""
    return min((start for step, start in steps if step == "softmax"), default=None)

"""The ways to compute attention that can be compared. Adding one is one function and one entry.

Nothing here needs torch before a forward runs, so that stored results can be read without it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from attention.spec import SpecError

if TYPE_CHECKING:
    from torch import Tensor

    from attention.inputs import Inputs


@dataclass(frozen=True, slots=True)
class Backend:
    """A choice of SDPA kernel; `choice` names an SDPBackend, None leaves it to PyTorch."""

    name: str
    label: str
    choice: str | None
    needs_cuda: bool = False


BACKENDS = (
    Backend("auto", "auto: PyTorch chooses", None),
    Backend("math", "math: unfused, in float32", "MATH"),
    Backend(
        "efficient",
        "efficient: memory-efficient attention",
        "EFFICIENT_ATTENTION",
        needs_cuda=True,
    ),
    Backend("flash", "flash: FlashAttention", "FLASH_ATTENTION"),
    Backend("cudnn", "cudnn: cuDNN attention", "CUDNN_ATTENTION", needs_cuda=True),
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to compute attention: the function of this name in attention.forwards."""

    name: str
    label: str
    summary: str
    takes_backend: bool = False
    needs_mask: bool = False

    @property
    def forward(self) -> "Callable[[Inputs], Tensor]":
        """Maps Inputs to [batch, heads, seq_len, head_dim]."""
        function: Callable[[Inputs], Tensor] = getattr(
            import_module("attention.forwards"), self.name
        )
        return function


VARIANTS = (
    Variant(
        "naive",
        "naive: matmul, scale, masked_fill, softmax, matmul",
        "Five textbook lines; the out-of-place masked_fill copies the scores first.",
        needs_mask=True,
    ),
    Variant(
        "naive_inplace",
        "naive, in place: masked_fill_",
        "The same five lines with masked_fill_, which writes into the scores instead of a copy.",
        needs_mask=True,
    ),
    Variant(
        "sdpa",
        "sdpa: scaled_dot_product_attention",
        "One call; the backend decides whether it is twenty kernels or one.",
        takes_backend=True,
    ),
)


def find_variant(name: str) -> Variant:
    """The entry called `name`, or a SpecError that lists what there is."""
    for variant in VARIANTS:
        if variant.name == name:
            return variant
    known = ", ".join(variant.name for variant in VARIANTS)
    raise SpecError(f"variant must be one of {known}; got {name[:40]!r}.")


def find_backend(name: str) -> Backend:
    """The SDPA backend called `name`, or a SpecError that lists what there is."""
    for backend in BACKENDS:
        if backend.name == name:
            return backend
    known = ", ".join(backend.name for backend in BACKENDS)
    raise SpecError(f"backend must be one of {known}; got {name[:40]!r}.")


@contextmanager
def pinned(backend: Backend | None) -> Iterator[None]:
    """Allow SDPA only `backend`. Entered around a whole capture: entering costs host time."""
    if backend is None or backend.choice is None:
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, backend.choice)):
        yield


def why_not(backend: Backend | None, device_type: str) -> str | None:
    """Why this can be refused without trying, or None. PyTorch is asked when it is tried."""
    if backend is not None and backend.needs_cuda and device_type != "cuda":
        where = device_type.upper()
        return f"The {backend.name} backend needs a CUDA GPU; this run is on the {where}."
    return None

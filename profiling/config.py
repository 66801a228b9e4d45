"""What is run: the problem, the way to compute it, and how often it is recorded."""

from dataclasses import dataclass
from typing import Literal

from attention.spec import AttentionSpec, SpecError, check_whole_number
from attention.variants import find_backend, find_variant

DeviceChoice = Literal["auto", "cuda", "cpu"]
DEVICE_CHOICES: tuple[DeviceChoice, ...] = ("auto", "cuda", "cpu")
FORWARDS = (1, 20)

# What a run goes through, in order, in words for those who wait.
STAGES = (
    "preparing inputs",
    "first call",
    "checking against float64",
    "timing without the profiler",
    "recording the trace",
)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One run. `synchronise` waits for the GPU after each forward, so that forwards stay apart."""

    spec: AttentionSpec = AttentionSpec()
    variant: str = "naive"
    backend: str | None = None
    forwards: int = 3
    device: DeviceChoice = "auto"
    synchronise: bool = True

    def __post_init__(self) -> None:
        if find_variant(self.variant).takes_backend:
            backend = "auto" if self.backend is None else self.backend
            object.__setattr__(self, "backend", find_backend(backend).name)
        elif self.backend is not None:
            raise SpecError(f"{self.variant} takes no backend; got {self.backend[:40]!r}.")
        check_choice("device", self.device, DEVICE_CHOICES)
        check_whole_number("forwards", self.forwards, *FORWARDS)

    @property
    def label(self) -> str:
        """As typed on the command line: "naive", "sdpa:flash"."""
        return f"{self.variant}:{self.backend}" if self.backend else self.variant


def check_choice(field: str, value: str, allowed: tuple[str, ...]) -> str:
    """`value`, or a SpecError that lists what is allowed."""
    if value not in allowed:
        shown = repr(value)[:42]
        raise SpecError(f"{field} must be one of {', '.join(allowed)}; got {shown}.")
    return value


def parse_variant(text: str, default_backend: str | None = None) -> tuple[str, str | None]:
    """Split "sdpa:flash" into variant and backend; a bare "sdpa" takes `default_backend`."""
    variant, colon, backend = text.partition(":")
    takes_backend = find_variant(variant).takes_backend
    if colon:
        return variant, backend
    return variant, default_backend if takes_backend else None

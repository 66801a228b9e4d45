"""The default set: every variant and backend at four lengths, with batches that math can hold."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from attention.spec import AttentionSpec
from attention.variants import BACKENDS, VARIANTS
from profiling.config import DeviceChoice, RunConfig
from profiling.outcome import Outcome

DEFAULT_SHAPES = (
    AttentionSpec(batch=8, seq_len=1024),
    AttentionSpec(batch=32, seq_len=256),
    AttentionSpec(batch=2, seq_len=4096),
    AttentionSpec(batch=1, seq_len=16_384),
)


def every_way(spec: AttentionSpec) -> tuple[RunConfig, ...]:
    """One configuration per variant, and per backend where the variant takes one."""
    return tuple(
        RunConfig(spec=spec, variant=variant.name, backend=backend)
        for variant in VARIANTS
        for backend in ([b.name for b in BACKENDS] if variant.takes_backend else [None])
    )


def default_set(shapes: tuple[AttentionSpec, ...] = DEFAULT_SHAPES) -> tuple[RunConfig, ...]:
    """All runs of the recorded reports, shape by shape."""
    return tuple(config for spec in shapes for config in every_way(spec))


def record(
    execute: Callable[[RunConfig], Outcome],
    configs: tuple[RunConfig, ...],
    device: DeviceChoice = "auto",
) -> Iterator[Outcome]:
    """Execute one after the other."""
    for config in configs:
        yield execute(replace(config, device=device))

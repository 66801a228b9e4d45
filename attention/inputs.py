"""Seeded inputs: the same numbers for every variant of one problem."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attention.spec import AttentionSpec


@dataclass(frozen=True, eq=False, slots=True)
class Inputs:
    """`q` [batch, heads, seq_len, head_dim]; `k`, `v` with kv_heads heads, all contiguous.

    `mask` [seq_len, seq_len] is True where a query must not look; None when nothing is hidden.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    scale: float
    causal: bool


def make_inputs(spec: AttentionSpec, device: str, *, with_mask: bool) -> Inputs:
    """Standard normal q, k, v; drawn on the CPU so that a seed gives the same run on any device."""
    generator = torch.Generator().manual_seed(spec.seed)
    dtype: torch.dtype = getattr(torch, spec.dtype)

    def draw(heads: int) -> Tensor:
        shape = (spec.batch, heads, spec.seq_len, spec.head_dim)
        return torch.randn(shape, generator=generator, dtype=torch.float32).to(device, dtype)

    q, k, v = draw(spec.heads), draw(spec.kv_heads), draw(spec.kv_heads)
    return Inputs(q, k, v, _mask(spec, device) if with_mask else None, spec.scale, spec.causal)


def _mask(spec: AttentionSpec, device: str) -> Tensor | None:
    if not spec.causal:
        return None
    square = (spec.seq_len, spec.seq_len)
    return torch.ones(square, dtype=torch.bool, device=device).triu_(diagonal=1)

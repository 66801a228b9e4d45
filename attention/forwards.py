"""The forwards themselves, one function per entry of attention.variants, under the same name."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attention.inputs import Inputs

NEG_INF = float("-inf")


def naive(x: Inputs) -> Tensor:
    k, v = _repeated(x.q, x.k), _repeated(x.q, x.v)
    scores = torch.matmul(x.q, k.transpose(-2, -1))
    scores = scores * x.scale
    if x.mask is not None:
        scores = scores.masked_fill(x.mask, NEG_INF)
    weights = torch.softmax(scores, dim=-1)
    return torch.matmul(weights, v)


def naive_inplace(x: Inputs) -> Tensor:
    k, v = _repeated(x.q, x.k), _repeated(x.q, x.v)
    scores = torch.matmul(x.q, k.transpose(-2, -1))
    scores = scores * x.scale
    if x.mask is not None:
        scores.masked_fill_(x.mask, NEG_INF)
    weights = torch.softmax(scores, dim=-1)
    return torch.matmul(weights, v)


def sdpa(x: Inputs) -> Tensor:
    grouped = x.k.shape[1] != x.q.shape[1]
    return scaled_dot_product_attention(
        x.q, x.k, x.v, is_causal=x.causal, scale=x.scale, enable_gqa=grouped
    )


def _repeated(q: Tensor, kv: Tensor) -> Tensor:
    groups = q.shape[1] // kv.shape[1]
    return kv if groups == 1 else kv.repeat_interleave(groups, dim=1)

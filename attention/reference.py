"""Is the output right? Compared with float64, on sampled parts where the problem is large."""

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from attention.inputs import Inputs
from attention.numerics import Numerics

# About 2**26 float64 scores (half a gigabyte over the whole check, a few MiB at once) take well
# under a second on one core.
_SCORE_BUDGET = 2**26
_ROWS = 128

# In units in the last place of the largest value. The half types accumulate in float32 and round
# scores, weights and output: right results stay within 0.6, a scale 20 % off is beyond 3.
# float32 rounds every partial sum: right results stay within 4.
_TOLERANCE_ULPS = {torch.bfloat16: 3, torch.float16: 3, torch.float32: 32}


def check(x: Inputs, output: Tensor) -> Numerics:
    """Compare `output` [batch, heads, seq_len, head_dim] with float64 on the CPU."""
    parts = list(_parts(x))
    errors = [_part_error(x, output, *part) for part in parts]
    rows = sum(stop - start for _, _, start, stop in parts)
    absolute = torch.cat([error.flatten() for error in errors])
    finite = absolute[torch.isfinite(absolute)]
    largest = float(x.v.abs().max())
    return Numerics(
        max_abs_error=float(finite.max()) if finite.numel() else float("inf"),
        mean_abs_error=float(finite.mean()) if finite.numel() else float("inf"),
        nan_count=int(torch.isnan(output).sum()),
        inf_count=int(torch.isinf(output).sum()),
        tolerance=_TOLERANCE_ULPS[output.dtype] * torch.finfo(output.dtype).eps * largest,
        coverage_pct=100 * rows / (output.shape[0] * output.shape[1] * output.shape[2]),
    )


def _parts(x: Inputs) -> Iterator[tuple[int, int, int, int]]:
    """(batch, head, first row, end row), evenly spread and always with the first and the last."""
    batch, heads, rows, _ = x.q.shape
    blocks = [(start, min(start + _ROWS, rows)) for start in range(0, rows, _ROWS)]
    everything = batch * heads * len(blocks)
    wanted = max(4, _SCORE_BUDGET // (min(rows, _ROWS) * x.k.shape[2]))
    places = list(product(range(batch), range(heads), blocks)) if everything <= wanted else None
    if places is None:
        step = (everything - 1) / (wanted - 1)
        flat = (round(i * step) for i in range(wanted))
        places = [
            (i // (heads * len(blocks)), i // len(blocks) % heads, blocks[i % len(blocks)])
            for i in flat
        ]
    for b, h, (start, stop) in places:
        yield b, h, start, stop


def _part_error(x: Inputs, output: Tensor, b: int, h: int, start: int, stop: int) -> Tensor:
    kv_head = h * x.k.shape[1] // x.q.shape[1]
    q = x.q[b, h, start:stop].double().cpu()
    k, v = x.k[b, kv_head].double().cpu(), x.v[b, kv_head].double().cpu()
    scores = q @ k.T * x.scale
    if x.causal:
        hidden = torch.arange(k.shape[0]) > torch.arange(start, stop).unsqueeze(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    expected = torch.softmax(scores, dim=-1) @ v
    return (output[b, h, start:stop].double().cpu() - expected).abs()

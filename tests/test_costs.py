"""Arithmetic and memory of a forward, against torch's own counter and the tensors themselves."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from attention.costs import flop_count, input_bytes, largest_seq_len, peak_bytes, score_bytes
from attention.inputs import make_inputs
from attention.spec import BOUNDS, AttentionSpec
from attention.variants import BACKENDS, VARIANTS, find_variant

ARTICLE = AttentionSpec()
SMALL = AttentionSpec(batch=2, heads=4, kv_heads=2, seq_len=48, head_dim=16)
WAYS = [
    (variant.name, backend)
    for variant in VARIANTS
    for backend in ([b.name for b in BACKENDS] if variant.takes_backend else [None])
]
MIB = 2**20


def test_arithmetic_agrees_with_the_counter_of_torch() -> None:
    x = make_inputs(SMALL, "cpu", with_mask=True)
    with FlopCounterMode(display=False) as counter:
        find_variant("naive").forward(x)
    assert flop_count(SMALL) == counter.get_total_flops()


def test_arithmetic_of_the_article() -> None:
    assert flop_count(ARTICLE) == 4 * 8 * 16 * 1024 * 1024 * 64


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_inputs_are_counted_as_they_are(dtype: str) -> None:
    x = make_inputs(replace(SMALL, dtype=dtype), "cpu", with_mask=False)
    output = find_variant("sdpa").forward(x)
    held = sum(tensor.nbytes for tensor in (x.q, x.k, x.v, output))
    assert input_bytes(replace(SMALL, dtype=dtype)) == held


@pytest.mark.parametrize(
    ("variant", "backend", "mib"),
    [
        ("naive", None, 512),
        ("naive_inplace", None, 512),
        ("sdpa", "math", 1152),
        ("sdpa", "efficient", 0),
        ("sdpa", "flash", 0),
        ("sdpa", "cudnn", 0),
    ],
)
def test_scores_alive_at_once_in_the_article(variant: str, backend: str | None, mib: int) -> None:
    assert score_bytes(ARTICLE, variant, backend) == mib * MIB


def test_a_mask_is_counted_where_there_is_one() -> None:
    causal = peak_bytes(ARTICLE, "naive", None)
    assert causal - peak_bytes(replace(ARTICLE, causal=False), "naive", None) == 1024 * 1024


def test_a_fused_forward_needs_no_more_than_inputs_and_output() -> None:
    assert peak_bytes(ARTICLE, "sdpa", "flash") == input_bytes(ARTICLE) == 64 * MIB


@pytest.mark.parametrize(("variant", "backend"), WAYS)
def test_memory_grows_with_every_dimension(variant: str, backend: str | None) -> None:
    base = peak_bytes(SMALL, variant, backend)
    for field in ("batch", "seq_len", "head_dim", "heads"):
        doubled = replace(SMALL, **{field: 2 * getattr(SMALL, field)})
        assert peak_bytes(doubled, variant, backend) > base


@given(st.sampled_from(WAYS), st.integers(1, 10**11))
def test_the_longest_that_fits_fits_and_one_more_does_not(
    way: tuple[str, str | None], budget: int
) -> None:
    longest = largest_seq_len(SMALL, *way, budget)
    assert 0 <= longest <= BOUNDS["seq_len"][1]
    if longest:
        assert peak_bytes(replace(SMALL, seq_len=longest), *way) <= budget
    if longest < BOUNDS["seq_len"][1]:
        assert peak_bytes(replace(SMALL, seq_len=longest + 1), *way) > budget


def test_nothing_fits_into_nothing() -> None:
    assert largest_seq_len(ARTICLE, "naive", None, 100) == 0

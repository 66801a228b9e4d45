"""Every variant and backend against a naive float64 formula; refusals by name."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from attention import variants
from attention.inputs import Inputs, make_inputs
from attention.spec import DTYPES, AttentionSpec, SpecError
from attention.variants import (
    BACKENDS,
    VARIANTS,
    Backend,
    Variant,
    find_backend,
    find_variant,
    pinned,
    why_not,
)

SHAPES = (
    AttentionSpec(batch=1, heads=1, kv_heads=1, seq_len=1, head_dim=1),
    AttentionSpec(batch=2, heads=3, kv_heads=3, seq_len=17, head_dim=8),
    AttentionSpec(batch=2, heads=8, kv_heads=2, seq_len=33, head_dim=16),
    AttentionSpec(batch=1, heads=4, kv_heads=1, seq_len=130, head_dim=64),
)

# A few roundings of values around one; a wrong mask, scale or head is off by a tenth and more.
ALLOWED = {"bfloat16": 4e-2, "float16": 5e-3, "float32": 5e-6}


# Each variant with each backend that runs on a CPU.
WAYS = [
    (variant, backend)
    for variant in VARIANTS
    for backend in (BACKENDS if variant.takes_backend else (None,))
    if why_not(backend, "cpu") is None
]


def by_formula(x: Inputs) -> Tensor:
    """Written out from the definition: numerators over their sum, one key at a time."""
    q, k, v = x.q.double(), x.k.double(), x.v.double()
    heads, length, head_dim = q.shape[1:]
    kv_head_of = [head * k.shape[1] // heads for head in range(heads)]
    numerator, total = torch.zeros_like(q), torch.zeros_like(q[..., :1])
    for key in range(length):
        products = (q * k[:, kv_head_of, key : key + 1]).sum(-1, keepdim=True)
        weight = torch.exp(products / head_dim**0.5)
        if x.causal:
            weight[:, :, :key] = 0
        numerator += weight * v[:, kv_head_of, key : key + 1]
        total += weight
    return numerator / total


def label(value: Any) -> str:
    if isinstance(value, AttentionSpec):
        return f"{value.batch}x{value.heads}x{value.seq_len}x{value.head_dim}"
    return value.name if isinstance(value, Variant | Backend) else str(value)


@pytest.mark.parametrize(("variant", "backend"), WAYS, ids=label)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("shape", SHAPES, ids=label)
def test_every_variant_computes_attention(
    variant: Variant, backend: Backend | None, dtype: str, causal: bool, shape: AttentionSpec
) -> None:
    spec = replace(shape, dtype=dtype, causal=causal)
    x = make_inputs(spec, "cpu", with_mask=variant.needs_mask)
    with torch.no_grad(), pinned(backend):
        output = variant.forward(x)
    assert output.dtype == x.q.dtype
    assert output.shape == x.q.shape
    assert (output.double() - by_formula(x)).abs().max() < ALLOWED[dtype]


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_a_forward_leaves_its_inputs_as_they_are(variant: Variant) -> None:
    x = make_inputs(SHAPES[1], "cpu", with_mask=True)
    before = [tensor.clone() for tensor in (x.q, x.k, x.v)]
    with torch.no_grad():
        first, second = variant.forward(x), variant.forward(x)
    assert torch.equal(first, second)
    assert all(map(torch.equal, before, (x.q, x.k, x.v)))


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_every_variant_has_a_forward_a_label_and_a_summary(variant: Variant) -> None:
    assert callable(variant.forward)
    assert variant.label.startswith(variant.name.split("_")[0])
    assert variant.summary.endswith(".")


@pytest.mark.parametrize("entries", [VARIANTS, BACKENDS], ids=["variants", "backends"])
def test_names_and_labels_are_unique_and_fit_the_command_line(entries: Any) -> None:
    assert len({entry.name for entry in entries}) == len(entries)
    assert len({entry.label for entry in entries}) == len(entries)
    assert all(entry.name.replace("_", "").isalnum() for entry in entries)


@pytest.mark.parametrize("backend", BACKENDS, ids=label)
def test_every_backend_exists_in_this_torch(backend: Backend) -> None:
    assert backend.choice is None or hasattr(torch.nn.attention.SDPBackend, backend.choice)


def test_pinned_allows_one_backend_and_restores_the_rest() -> None:
    enabled = torch.backends.cuda.flash_sdp_enabled()
    with pinned(find_backend("math")):
        assert torch.backends.cuda.math_sdp_enabled()
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled() == enabled


@pytest.mark.parametrize("backend", [None, find_backend("auto")], ids=["none", "auto"])
def test_no_pin_changes_nothing(backend: Backend | None) -> None:
    with pinned(backend):
        assert torch.backends.cuda.flash_sdp_enabled()
        assert torch.backends.cuda.math_sdp_enabled()


@pytest.mark.parametrize("name", ["efficient", "cudnn"])
def test_a_backend_that_needs_cuda_says_so_on_a_cpu(name: str) -> None:
    reason = why_not(find_backend(name), "cpu")
    assert reason == f"The {name} backend needs a CUDA GPU; this run is on the CPU."
    assert why_not(find_backend(name), "cuda") is None


@pytest.mark.parametrize("name", ["auto", "math", "flash"])
def test_other_backends_are_tried_on_a_cpu(name: str) -> None:
    assert why_not(find_backend(name), "cpu") is None
    assert why_not(None, "cpu") is None


def test_an_unknown_variant_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SpecError) as caught:
        find_variant("fancy")
    known = ", ".join(variant.name for variant in VARIANTS)
    assert str(caught.value) == f"variant must be one of {known}; got 'fancy'."


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SpecError) as caught:
        find_backend("x" * 1000)
    message = str(caught.value)
    assert message.startswith("backend must be one of auto, math, efficient, flash, cudnn; got ")
    assert len(message) < 120


def test_what_is_listed_is_found() -> None:
    assert [find_variant(variant.name) for variant in VARIANTS] == list(VARIANTS)
    assert [find_backend(backend.name) for backend in BACKENDS] == list(BACKENDS)


def test_a_new_variant_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Variant("naive_again", "naive, again", "The same.", needs_mask=True)
    monkeypatch.setattr(variants, "VARIANTS", (*VARIANTS, entry))
    assert find_variant("naive_again") is entry


# Inputs


def test_a_seed_gives_the_same_numbers_and_another_seed_others() -> None:
    spec = SHAPES[1]
    first, again = (make_inputs(spec, "cpu", with_mask=True) for _ in range(2))
    assert torch.equal(first.q, again.q) and torch.equal(first.v, again.v)
    assert not torch.equal(first.q, make_inputs(replace(spec, seed=1), "cpu", with_mask=True).q)
    assert not torch.equal(first.k, first.v)


def test_inputs_do_not_touch_the_global_random_state() -> None:
    before = torch.random.get_rng_state()
    make_inputs(SHAPES[1], "cpu", with_mask=True)
    assert torch.equal(before, torch.random.get_rng_state())


def test_inputs_have_the_shapes_and_types_of_the_problem() -> None:
    spec = replace(SHAPES[2], dtype="float16")
    x = make_inputs(spec, "cpu", with_mask=True)
    assert x.q.shape == (2, 8, 33, 16)
    assert x.k.shape == x.v.shape == (2, 2, 33, 16)
    assert x.q.dtype == x.k.dtype == x.v.dtype == torch.float16
    assert x.q.is_contiguous() and x.k.is_contiguous() and x.v.is_contiguous()


def test_the_mask_hides_the_future_and_nothing_else() -> None:
    x = make_inputs(SHAPES[1], "cpu", with_mask=True)
    assert x.mask is not None
    hidden = [[key > query for key in range(17)] for query in range(17)]
    assert x.mask.tolist() == hidden


def test_there_is_no_mask_where_none_is_needed() -> None:
    assert make_inputs(SHAPES[1], "cpu", with_mask=False).mask is None
    assert make_inputs(replace(SHAPES[1], causal=False), "cpu", with_mask=True).mask is None

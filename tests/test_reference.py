"""The check against float64: it passes what is right and finds what is wrong, also when sampled."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from attention import reference
from attention.inputs import Inputs, make_inputs
from attention.numerics import Numerics
from attention.reference import check
from attention.spec import DTYPES, AttentionSpec
from attention.variants import find_variant

SPEC = AttentionSpec(batch=2, heads=4, kv_heads=2, seq_len=300, head_dim=32)


def problem(**changes: object) -> Inputs:
    return make_inputs(replace(SPEC, **changes), "cpu", with_mask=True)  # type: ignore[arg-type]


def naive(x: Inputs) -> Tensor:
    return find_variant("naive").forward(x)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["naive", "sdpa"])
def test_a_right_output_passes_with_room(name: str, dtype: str, causal: bool) -> None:
    x = problem(dtype=dtype, causal=causal)
    numerics = check(x, find_variant(name).forward(x))
    assert numerics.ok
    assert numerics.max_abs_error < numerics.tolerance / 2
    assert 0 < numerics.mean_abs_error < numerics.max_abs_error
    assert numerics.coverage_pct == 100


def test_the_tolerance_follows_the_precision() -> None:
    tolerances = [check(x, naive(x)).tolerance for x in (problem(dtype=d) for d in DTYPES)]
    bfloat16, float16, float32 = tolerances
    assert bfloat16 < 0.2
    assert float16 < 0.02
    assert float32 < 1e-4


def test_a_missing_mask_is_found() -> None:
    x = problem()
    assert not check(x, naive(replace(x, mask=None))).ok


def test_a_mask_that_lets_one_key_too_many_through_is_found() -> None:
    x = problem()
    assert x.mask is not None
    shifted = torch.ones_like(x.mask).triu_(diagonal=2)
    assert not check(x, naive(replace(x, mask=shifted))).ok


def test_a_mask_where_none_belongs_is_found() -> None:
    masked, full = problem(), problem(causal=False)
    assert not check(full, naive(masked)).ok


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [0, 0.8, 1.2, 2])
def test_a_wrong_scale_is_found(factor: float, dtype: str, causal: bool) -> None:
    x = problem(dtype=dtype, causal=causal)
    assert not check(x, naive(replace(x, scale=x.scale * factor))).ok


def test_heads_in_the_wrong_groups_are_found() -> None:
    x = problem()
    assert not check(x, naive(replace(x, k=x.k.flip(1), v=x.v.flip(1)))).ok


@pytest.mark.parametrize(
    ("value", "nan_count", "inf_count"), [("nan", 1, 0), ("inf", 0, 1), ("-inf", 0, 1)]
)
def test_one_value_that_is_no_number_is_counted(value: str, nan_count: int, inf_count: int) -> None:
    x = problem()
    output = naive(x)
    output[1, 2, 77, 5] = float(value)
    numerics = check(x, output)
    assert (numerics.nan_count, numerics.inf_count) == (nan_count, inf_count)
    assert not numerics.ok
    assert numerics.max_abs_error < numerics.tolerance


def test_an_output_of_nothing_but_nan_is_infinitely_wrong() -> None:
    x = problem()
    numerics = check(x, torch.full_like(x.q, float("nan")))
    assert numerics.max_abs_error == numerics.mean_abs_error == float("inf")
    assert not numerics.ok


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for four of the twenty-four parts."""
    monkeypatch.setattr(reference, "_SCORE_BUDGET", 1)


@pytest.mark.usefixtures("sampled")
def test_a_large_problem_is_sampled_and_the_coverage_told() -> None:
    x = problem()
    numerics = check(x, naive(x))
    assert numerics.ok
    assert 10 < numerics.coverage_pct < 20


@pytest.mark.usefixtures("sampled")
@pytest.mark.parametrize("place", [(0, 0, 0), (1, 3, 299)], ids=["first row", "last row"])
def test_a_sample_always_has_the_first_and_the_last_row(place: tuple[int, int, int]) -> None:
    x = problem()
    output = naive(x)
    output[place] += 1
    assert not check(x, output).ok


@pytest.mark.usefixtures("sampled")
def test_nan_outside_the_sample_is_counted_all_the_same() -> None:
    x = problem()
    output = naive(x)
    output[0, 1] = float("nan")
    assert check(x, output).nan_count == 300 * 32


def test_one_row_of_one_element_can_be_checked() -> None:
    x = problem(batch=1, heads=1, kv_heads=1, seq_len=1, head_dim=1)
    assert check(x, naive(x)).max_abs_error == 0


@pytest.mark.parametrize(
    ("numerics", "ok"),
    [
        (Numerics(0.1, 0.01, 0, 0, tolerance=0.1, coverage_pct=100), True),
        (Numerics(0.2, 0.01, 0, 0, tolerance=0.1, coverage_pct=100), False),
        (Numerics(0.0, 0.0, 1, 0, tolerance=0.1, coverage_pct=100), False),
        (Numerics(0.0, 0.0, 0, 1, tolerance=0.1, coverage_pct=100), False),
    ],
)
def test_right_is_within_the_tolerance_and_finite(numerics: Numerics, ok: bool) -> None:
    assert numerics.ok == ok

"""The problem: what may be asked for, and the sentences for what may not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.spec import (
    BOUNDS,
    BYTES_PER_ELEMENT,
    DTYPES,
    AttentionSpec,
    SpecError,
    check_whole_number,
    whole_number,
)


def refusal(**fields: Any) -> str:
    with pytest.raises(SpecError) as caught:
        AttentionSpec(**fields)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) < 200
    return message


def test_the_default_is_the_problem_of_the_article() -> None:
    assert AttentionSpec().shape_text == "8×16×1024×64 bfloat16 causal"


def test_shape_text_tells_what_is_unusual() -> None:
    spec = AttentionSpec(2, 8, 512, 128, kv_heads=2, dtype="float16", causal=False)
    assert spec.shape_text == "2×8×512×128 kv_heads 2 float16 not causal"


@pytest.mark.parametrize("field", BOUNDS)
@pytest.mark.parametrize("odd", [-1, 1.5, "8", None, True, float("nan"), float("inf"), 10**18])
def test_a_number_out_of_bounds_is_refused_with_value_and_bounds(field: str, odd: Any) -> None:
    low, high = BOUNDS[field]
    assert refusal(**{field: odd}) == (
        f"{field} must be a whole number from {low:,} to {high:,}; got {odd!r}."
    )


@pytest.mark.parametrize("field", ["batch", "heads", "kv_heads", "seq_len", "head_dim"])
def test_zero_is_refused(field: str) -> None:
    assert "got 0." in refusal(**{field: 0})


@pytest.mark.parametrize("field", BOUNDS)
def test_the_bounds_themselves_are_allowed(field: str) -> None:
    for value in BOUNDS[field]:
        others: dict[str, Any] = {"heads": 256} if field == "kv_heads" else {"kv_heads": 1}
        assert getattr(AttentionSpec(**{**others, field: value}), field) == value


@pytest.mark.parametrize("odd", ["fp8", "", None, 16, "bfloat16 " * 100])
def test_an_unknown_dtype_is_refused_with_the_known_ones(odd: Any) -> None:
    assert refusal(dtype=odd).startswith("dtype must be one of bfloat16, float16, float32; got ")


def test_kv_heads_that_do_not_divide_heads_are_refused() -> None:
    assert refusal(heads=6, kv_heads=4) == (
        "heads must be a multiple of kv_heads; got 6 heads and 4 kv_heads."
    )


@pytest.mark.parametrize("odd", ["false", 1, None])
def test_causal_is_true_or_false_and_nothing_that_merely_looks_like_it(odd: Any) -> None:
    assert refusal(causal=odd) == f"causal must be True or False; got {odd!r}."


def test_scale_is_that_of_scaled_dot_product_attention() -> None:
    assert AttentionSpec(head_dim=64).scale == 0.125


def test_every_dtype_has_a_size() -> None:
    assert BYTES_PER_ELEMENT.keys() == set(DTYPES)
    assert [AttentionSpec(dtype=dtype).bytes_per_element for dtype in DTYPES] == [2, 2, 4]


@pytest.mark.parametrize(
    ("typed", "number"),
    [("1024", 1024), (" 7 ", 7), ("1_000", 1000), (1024.0, 1024), ("1024.0", 1024), ("-3", -3)],
)
def test_reads_whole_numbers_as_people_and_forms_write_them(typed: Any, number: int) -> None:
    assert whole_number("seq_len", typed) == number


@pytest.mark.parametrize("typed", ["", "abc", "1.5", "nan", "inf", "1e999", "0x10", None, True, []])
def test_what_is_no_whole_number_is_refused_with_the_bounds(typed: Any) -> None:
    with pytest.raises(SpecError) as caught:
        whole_number("seq_len", typed)
    assert str(caught.value) == (
        f"seq_len must be a whole number from 1 to 131,072; got {typed!r}."
    )


def test_a_field_without_bounds_is_refused_without_them() -> None:
    with pytest.raises(SpecError, match=r"^grid must be a whole number; got 'x'\.$"):
        whole_number("grid", "x")


def test_a_long_value_is_cut_in_the_sentence() -> None:
    with pytest.raises(SpecError) as caught:
        whole_number("batch", "9x" * 5000)
    assert len(str(caught.value)) < 120


@given(st.text() | st.integers() | st.floats() | st.none() | st.binary())
def test_any_value_is_a_number_or_a_spec_error(value: Any) -> None:
    try:
        read = whole_number("batch", value)
        check_whole_number("batch", read, *BOUNDS["batch"])
    except SpecError as error:
        assert str(error).startswith("batch must be a whole number")

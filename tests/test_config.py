"""What a run may be asked for, and how it is written on the command line."""

from typing import Any

import pytest

from attention.spec import SpecError
from attention.variants import BACKENDS, VARIANTS
from profiling.config import RunConfig, check_choice, parse_variant


def refusal(**fields: Any) -> str:
    with pytest.raises(SpecError) as caught:
        RunConfig(**fields)
    message = str(caught.value)
    assert message.endswith(".")
    assert len(message) < 200
    return message


def test_sdpa_without_a_backend_leaves_the_choice_to_pytorch() -> None:
    assert RunConfig(variant="sdpa").backend == "auto"


@pytest.mark.parametrize("variant", [v.name for v in VARIANTS if not v.takes_backend])
def test_a_backend_where_none_applies_is_refused(variant: str) -> None:
    assert refusal(variant=variant, backend="flash") == (
        f"{variant} takes no backend; got 'flash'."
    )


@pytest.mark.parametrize("backend", ["", "fast", "Flash", "x" * 500])
def test_an_unknown_backend_is_refused_with_the_known_ones(backend: str) -> None:
    message = refusal(variant="sdpa", backend=backend)
    assert message.startswith("backend must be one of auto, math, efficient, flash, cudnn; got ")


def test_an_unknown_variant_is_refused_with_the_known_ones() -> None:
    message = refusal(variant="fancy")
    assert message.startswith("variant must be one of naive, naive_inplace, sdpa")
    assert message.endswith("got 'fancy'.")


@pytest.mark.parametrize("forwards", [0, -1, 21, 1.0, "3", True])
def test_forwards_are_a_whole_number_within_bounds(forwards: Any) -> None:
    assert refusal(forwards=forwards) == (
        f"forwards must be a whole number from 1 to 20; got {forwards!r}."
    )


@pytest.mark.parametrize("device", ["gpu", "cuda:1", "", "y" * 500])
def test_an_unknown_device_is_refused_with_the_known_ones(device: str) -> None:
    assert refusal(device=device).startswith("device must be one of auto, cuda, cpu; got ")


def test_a_choice_that_is_allowed_comes_back() -> None:
    assert check_choice("device", "cpu", ("cpu", "cuda")) == "cpu"


@pytest.mark.parametrize(
    "label",
    [
        *(v.name for v in VARIANTS if not v.takes_backend),
        *(f"{v.name}:{b.name}" for v in VARIANTS if v.takes_backend for b in BACKENDS),
    ],
)
def test_a_label_is_read_as_it_is_written(label: str) -> None:
    variant, backend = parse_variant(label)
    assert RunConfig(variant=variant, backend=backend).label == label


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("sdpa", None, ("sdpa", None)),
        ("sdpa", "flash", ("sdpa", "flash")),
        ("sdpa:math", "flash", ("sdpa", "math")),
        ("naive", "flash", ("naive", None)),
    ],
)
def test_the_default_backend_is_for_a_bare_sdpa(
    text: str, default: str | None, expected: tuple[str, str | None]
) -> None:
    assert parse_variant(text, default) == expected


@pytest.mark.parametrize(
    "text", ["", ":", ":flash", "fancy:flash", "naive:flash", "sdpa:", "sdpa:a:b"]
)
def test_what_names_no_run_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        variant, backend = parse_variant(text)
        RunConfig(variant=variant, backend=backend)


def test_equal_settings_are_equal_and_can_be_keys() -> None:
    assert len({RunConfig(variant="sdpa"), RunConfig(variant="sdpa", backend="auto")}) == 1

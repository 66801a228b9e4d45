"""Each check on recordings that deserve it and on ones that do not."""

from pathlib import Path

import pytest

from profiling.analysis import analyse
from profiling.completeness import Check, Completeness, completeness
from profiling.trace import Trace, load_trace
from tests.traces import Raw, annotation, event, kernel, launch, op, trace

# tests/data/h200-traces, counted by hand: activities launched in no annotated forward.
LEAKED = {"8_16_1024_64_naive": 2, "8_16_1024_64_inplace": 2, "8_16_1024_64_sdpa_math": 9}
CHECKS = (
    "forwards_missing",
    "launches_without_kernels",
    "kernels_without_launches",
    "warm_up_leak",
    "equal_forwards",
    "step_outliers",
    "clock_order",
    "dropped_records",
)


def forward(
    number: int, *, gpu_us: float = 100, host_us: float = 50, delay_us: float = 10
) -> list[Raw]:
    """Forward `number` (from 1) in its own millisecond: one op, one launch, one kernel."""
    at = number * 1000.0
    return [
        annotation(at, host_us),
        op("aten::mm", at + 1, host_us - 2),
        launch(number, at + 2),
        kernel(number, at + 2 + delay_us, gpu_us),
    ]


def three(**changed: float) -> list[Raw]:
    """Three forwards, of which the second is `changed`."""
    return [*forward(1), *forward(2, **changed), *forward(3)]


def without_launches(events: list[Raw]) -> list[Raw]:
    return [raw for raw in events if raw["cat"] != "cuda_runtime"]


def checked(
    recorded: Trace, *, expected_forwards: int | None = None, ran_on_gpu: bool = False
) -> Completeness:
    return completeness(
        recorded, analyse(recorded), expected_forwards=expected_forwards, ran_on_gpu=ran_on_gpu
    )


def check_of(result: Completeness, name: str) -> Check:
    return next(check for check in result.checks if check.name == name)


def warned(result: Completeness) -> set[str]:
    return {check.name for check in result.checks if check.status != "ok"}


def test_a_recorded_trace_is_complete(h200_trace: Path) -> None:
    result = checked(load_trace(h200_trace), expected_forwards=3, ran_on_gpu=True)
    assert result.complete
    assert warned(result) <= {"warm_up_leak", "step_outliers"}
    assert tuple(check.name for check in result.checks) == CHECKS


def test_a_sentence_is_a_sentence(h200_trace: Path) -> None:
    for check in checked(load_trace(h200_trace)).checks:
        assert check.sentence.endswith(".")
        assert "\n" not in check.sentence


def test_warm_up_kernels_of_a_recorded_trace(h200_trace: Path) -> None:
    name = h200_trace.name.removesuffix(".json.gz")
    check = check_of(checked(load_trace(h200_trace)), "warm_up_leak")
    if name in LEAKED:
        assert check.status == "warning"
        assert check.sentence.startswith(f"{LEAKED[name]} of ")
        assert "left out of every number" in check.sentence
    else:
        assert check.status == "ok"


def test_nothing_is_said_of_a_clean_recording() -> None:
    result = checked(trace(*three()), expected_forwards=3, ran_on_gpu=True)
    assert result.complete
    assert warned(result) == set()
    assert result.outliers == ()


def test_a_launch_without_its_kernel_fails() -> None:
    events = [raw for raw in three() if not (raw["cat"] == "kernel" and raw["ts"] > 3000)]
    result = checked(trace(*events))
    check = check_of(result, "launches_without_kernels")
    assert not result.complete
    assert check.status == "fail"
    assert check.sentence.startswith(
        "1 of 3 launches left no record on the GPU (1 cudaLaunchKernel)"
    )


def test_a_gpu_run_without_any_gpu_record_fails() -> None:
    events = [annotation(1000, 50), op("aten::mm", 1001, 40)]
    assert not checked(trace(*events), ran_on_gpu=True).complete
    assert checked(trace(*events)).complete


@pytest.mark.parametrize("expected, status", [(None, "ok"), (2, "warning"), (3, "ok"), (5, "fail")])
def test_forwards_are_counted(expected: int | None, status: str) -> None:
    result = checked(trace(*three()), expected_forwards=expected)
    assert check_of(result, "forwards_missing").status == status
    assert result.complete == (status != "fail")
    if status == "fail":
        assert check_of(result, "forwards_missing").sentence == "3 of 5 forwards were recorded."


def test_a_recording_without_forwards_misses_all() -> None:
    recorded = trace(op("aten::mm", 1, 10), launch(1, 2), kernel(1, 5, 3))
    assert not checked(recorded, expected_forwards=3).complete
    assert check_of(checked(recorded), "forwards_missing").status == "warning"


def test_a_kernel_that_ran_on_from_before_is_a_leak() -> None:
    result = checked(trace(kernel(99, 900, 50), *three()))
    check = check_of(result, "warm_up_leak")
    assert check.status == "warning"
    assert check.sentence.startswith("1 of 4 GPU activities (50.0 µs)")
    assert check_of(result, "kernels_without_launches").status == "ok"


def test_a_kernel_launched_before_the_first_forward_is_a_leak() -> None:
    check = check_of(checked(trace(launch(98, 800), kernel(98, 900, 50), *three())), "warm_up_leak")
    assert check.status == "warning"


def test_a_kernel_launched_after_the_forwards_is_no_leak() -> None:
    result = checked(trace(*three(), launch(98, 4000), kernel(98, 4010, 50)))
    check = check_of(result, "warm_up_leak")
    assert check.status == "ok"
    assert "1 GPU activity (50.0 µs) launched between or after" in check.sentence


def test_a_leak_into_an_unmarked_recording_is_counted_in() -> None:
    recorded = trace(kernel(99, 1, 50), op("aten::mm", 100, 10), launch(1, 102), kernel(1, 110, 5))
    assert "they are counted in" in check_of(checked(recorded), "warm_up_leak").sentence


def test_a_later_kernel_without_launch_lost_its_record() -> None:
    events = three()
    lost = next(raw for raw in events if raw["cat"] == "cuda_runtime" and raw["ts"] > 2000)
    result = checked(trace(*[raw for raw in events if raw is not lost]))
    check = check_of(result, "kernels_without_launches")
    assert check.status == "warning"
    assert check.sentence.startswith("1 of 3 GPU activities (100.0 µs) have no launch record")
    assert check_of(result, "warm_up_leak").status == "ok"


def test_kernels_without_correlation_are_named_as_such() -> None:
    events = [{**raw, "args": {}} if raw["cat"] == "kernel" else raw for raw in three()]
    check = check_of(checked(trace(*without_launches(events))), "kernels_without_launches")
    assert check.sentence.startswith("3 of 3 GPU activities")


def test_forwards_with_different_work_are_named() -> None:
    extra = [launch(9, 2003), kernel(9, 2200, 5)]
    check = check_of(checked(trace(*three(), *extra)), "equal_forwards")
    assert check.status == "warning"
    assert "1, 2, 1 GPU activities" in check.sentence


@pytest.mark.parametrize(
    "changed, quantity, value_us, median_us",
    [
        ({"gpu_us": 121.0}, "gpu_busy", 121.0, 100.0),
        ({"gpu_us": 80.0}, "gpu_busy", 80.0, 100.0),
        ({"host_us": 101.0}, "host", 101.0, 50.0),
    ],
)
def test_a_forward_beyond_the_factor_stands_out(
    changed: dict[str, float], quantity: str, value_us: float, median_us: float
) -> None:
    result = checked(trace(*three(**changed)))
    (outlier,) = result.outliers
    assert (outlier.forward, outlier.quantity) == (2, quantity)
    assert (outlier.value_us, outlier.median_us) == (value_us, median_us)
    assert check_of(result, "step_outliers").status == "warning"
    assert f"forward 2 took {value_us:.1f} µs" in check_of(result, "step_outliers").sentence
    assert result.complete


@pytest.mark.parametrize("changed", [{"gpu_us": 119.0}, {"gpu_us": 84.0}, {"host_us": 99.0}])
def test_a_forward_within_the_factor_does_not(changed: dict[str, float]) -> None:
    assert checked(trace(*three(**changed))).outliers == ()


def test_a_few_microseconds_are_no_outlier() -> None:
    events = [*forward(1, gpu_us=8), *forward(2, gpu_us=12), *forward(3, gpu_us=8)]
    assert checked(trace(*events)).outliers == ()


def test_two_forwards_have_no_outlier() -> None:
    result = checked(trace(*forward(1), *forward(2, gpu_us=500)))
    assert result.outliers == ()
    assert "at least 3 are needed" in check_of(result, "step_outliers").sentence


def test_a_kernel_before_its_launch_shows_two_clocks() -> None:
    check = check_of(checked(trace(*three(delay_us=-25))), "clock_order")
    assert check.status == "warning"
    assert (
        "1 of 3 GPU activities start before their launch call, by up to 25.0 µs" in check.sentence
    )


def test_rounding_to_whole_microseconds_is_no_clock_error() -> None:
    assert check_of(checked(trace(*three(delay_us=-1))), "clock_order").status == "ok"


def test_unreadable_records_are_reported() -> None:
    broken = event("kernel", "k", "not a time", 5)
    check = check_of(checked(trace(*three(), broken)), "dropped_records")
    assert check.status == "warning"
    assert check.sentence.startswith("1 event")


def test_an_empty_recording_is_judged_without_an_error() -> None:
    assert not checked(trace(), expected_forwards=3).complete
    assert checked(trace()).complete

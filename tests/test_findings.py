"""Each rule on a run that calls for it and on one that does not.

Expected numbers are read from the raw JSON of the recorded traces, or worked out by hand.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from attention.spec import AttentionSpec
from profiling.analysis import analyse
from profiling.completeness import completeness
from profiling.config import RunConfig
from profiling.findings import COMPARISONS, RULES, SEVERITIES, Finding, Subject, compare, find
from profiling.findings.source import source_line
from profiling.outcome import Spread, Unprofiled
from profiling.trace import Trace, load_trace, parse_trace
from tests.traces import A100, Raw, annotation, kernel, launch, memcpy, op, trace

LARGE, SMALL = "8_16_1024_64", "1_8_128_64"
SPEC = AttentionSpec()  # the shape of LARGE
SCORES = 8 * 16 * 1024 * 1024  # elements

MakeSubject = Callable[..., Subject]


@pytest.fixture
def recorded(h200_traces: dict[str, Path]) -> MakeSubject:
    """The subject of a recorded trace: `recorded("8_16_1024_64_naive", variant="naive")`."""

    def make(
        name: str,
        variant: str | None = None,
        backend: str | None = None,
        unprofiled: Unprofiled | None = None,
    ) -> Subject:
        config = RunConfig(SPEC, variant, backend) if variant else None
        return subject(load_trace(h200_traces[name]), config, unprofiled)

    return make


@pytest.fixture
def raw_us(h200_traces: dict[str, Path]) -> Callable[..., float]:
    """GPU microseconds per forward, from raw events whose launch call lies inside ops `within`."""

    def total(name: str, *within: str, outside: str = "") -> float:
        document = json.loads(gzip.decompress(h200_traces[name].read_bytes()))
        events = [raw for raw in document["traceEvents"] if raw["ph"] == "X"]

        def spans(*names: str) -> list[tuple[float, float]]:
            cpu = [raw for raw in events if raw["cat"] in ("cpu_op", "user_annotation")]
            return [(raw["ts"], raw["ts"] + raw["dur"]) for raw in cpu if raw["name"] in names]

        wanted, forwards, unwanted = spans(*within), spans("attn_fwd"), spans(outside)
        calls = {
            raw["args"]["correlation"]
            for raw in events
            if raw["cat"] in ("cuda_runtime", "cuda_driver")
            and any(start <= raw["ts"] < end for start, end in wanted)
            and any(start <= raw["ts"] < end for start, end in forwards)
            and not any(start <= raw["ts"] < end for start, end in unwanted)
        }
        gpu = [raw for raw in events if raw["cat"] in ("kernel", "gpu_memcpy")]
        durations = [float(raw["dur"]) for raw in gpu if raw["args"]["correlation"] in calls]
        assert len(forwards) == 3
        return sum(durations) / 3

    return total


def subject(
    events: Trace, config: RunConfig | None = None, unprofiled: Unprofiled | None = None
) -> Subject:
    analysis = analyse(events)
    return Subject(analysis, completeness(events, analysis), config, unprofiled)


def unprofiled(
    host_us: float = 50, gpu_us: float | None = 100, first_us: float | None = None
) -> Unprofiled:
    return Unprofiled(
        cpu_time_us=Spread(host_us, host_us, host_us),
        gpu_time_us=Spread(gpu_us, gpu_us, gpu_us) if gpu_us else None,
        gpu_graph_us=gpu_us,
        gpu_graph_reason=None,
        first_call_us=first_us,
        first_call_reason=None,
        repeats=60,
    )


def said(run: Subject, rule: str) -> Finding:
    """The one finding of `rule`."""
    (finding,) = [finding for finding in find(run) if finding.rule == rule]
    return finding


def rules_of(run: Subject) -> set[str]:
    return {finding.rule for finding in find(run)}


def attention_kernels(*names: str, gpu_us: float = 50) -> Subject:
    """One forward that runs the kernels `names` from the SDPA flash op."""
    events: list[Raw] = [
        annotation(0, 500),
        op("aten::scaled_dot_product_attention", 1, 400),
        op("aten::_scaled_dot_product_flash_attention", 2, 390),
    ]
    for number, each in enumerate(names, start=1):
        events.append(launch(number, 10.0 * number))
        events.append(kernel(number, 100.0 * number, gpu_us, each))
    return subject(trace(*events))


# What holds for all rules


def test_rules_are_listed_once_and_bear_their_names(h200_trace: Path) -> None:
    names = [rule.__name__ for rule in (*RULES, *COMPARISONS)]
    assert len(names) == len(set(names))
    run = subject(load_trace(h200_trace), None, unprofiled(first_us=1e6))
    assert rules_of(run) <= set(names)


def test_findings_are_sentences_with_numbers(h200_trace: Path) -> None:
    name = h200_trace.name
    config = RunConfig(SPEC, "naive") if "naive" in name else RunConfig(SPEC, "sdpa", "auto")
    findings = find(subject(load_trace(h200_trace), config))
    assert findings
    for finding in findings:
        assert finding.evidence.endswith(".") and finding.advice.endswith(".")
        assert not finding.title.endswith(".") and len(finding.title) < 60
        assert "\n" not in finding.evidence
        assert any(character.isdigit() for character in finding.evidence)


def test_problems_come_first(recorded: MakeSubject) -> None:
    findings = find(recorded(f"{LARGE}_sdpa_math", "sdpa", "flash"))
    order = [SEVERITIES.index(finding.severity) for finding in findings]
    assert order == sorted(order)
    assert order[0] == 0


@pytest.mark.parametrize(
    "events", [[], [annotation(0, 10)], [annotation(0, 10), op("aten::mm", 1, 5)]]
)
def test_nothing_to_say_of_nothing(events: list[Raw]) -> None:
    assert find(subject(trace(*events), RunConfig())) == ()


@pytest.mark.parametrize(
    "dims", [None, "text", [None], [["x"]], [[-1, 2]], [[10**30]], [[2] * 99], [[]], [5]]
)
def test_odd_shapes_of_a_stranger_do_no_harm(dims: object) -> None:
    product = op("aten::bmm", 1, 40, Input_Dims=dims, Input_type=["float", 7])
    copy = {**memcpy(2, 60, 5), "args": {"correlation": 2, "bytes": 10**400}}
    run = subject(
        trace(
            annotation(0, 100),
            product,
            launch(1, 5),
            kernel(1, 50, 5, "ampere_sgemm_128x64_nn"),
            op("aten::copy_", 50, 10),
            launch(2, 52, name="cudaMemcpyAsync"),
            copy,
        )
    )
    assert said(run, "hidden_copy").evidence.startswith("1 memcpy per forward")


# hidden_copy


def test_masked_fill_copies_the_scores(recorded: MakeSubject, raw_us: Callable[..., float]) -> None:
    finding = said(recorded(f"{LARGE}_naive", "naive"), "hidden_copy")
    cost_us = raw_us(f"{LARGE}_naive", "aten::clone")
    assert finding.title == "masked_fill makes a hidden copy"
    assert "1 memcpy of 268,435,456 B (256 MiB) per forward" in finding.evidence
    assert f"{cost_us:.1f} µs" in finding.evidence
    assert f"({100 * cost_us / 1064.6:.1f} % of GPU busy)" in finding.evidence
    assert "aten::masked_fill → aten::clone → aten::copy_" in finding.evidence
    assert "masked_fill_" in finding.advice
    assert finding.try_instead == "naive_inplace"


def test_a_hidden_copy_names_the_source_line(recorded: MakeSubject) -> None:
    finding = said(recorded(f"{LARGE}_naive", "naive"), "hidden_copy")
    text = (Path(__file__).parents[1] / "attention" / "forwards.py").read_text(encoding="utf-8")
    number = next(n for n, line in enumerate(text.splitlines(), 1) if ".masked_fill(" in line)
    assert f"attention/forwards.py line {number}: `scores = scores.masked_fill(" in finding.evidence


def test_without_a_known_variant_no_line_is_named(recorded: MakeSubject) -> None:
    finding = said(recorded(f"{LARGE}_naive"), "hidden_copy")
    assert "forwards.py" not in finding.evidence
    assert finding.try_instead is None


@pytest.mark.parametrize("name", ["inplace", "naive_compiled", "sdpa_math", "sdpa_flash"])
def test_no_hidden_copy_elsewhere(name: str, recorded: MakeSubject) -> None:
    assert "hidden_copy" not in rules_of(recorded(f"{LARGE}_{name}"))


def test_repeated_keys_are_a_copy_by_a_kernel() -> None:
    chain = ["aten::repeat_interleave", "aten::clone", "aten::copy_"]
    shapes = {"Input_Dims": [[2, 8, 4, 4], [2, 8, 4, 4], []]}
    types = {"Input_type": ["float", "float", "Scalar"]}
    nested = [op(name, 1 + depth, 50 - 2 * depth) for depth, name in enumerate(chain[:-1])]
    copy = op(chain[-1], 3, 40, **shapes, **types)
    run = subject(
        trace(annotation(0, 100), *nested, copy, launch(1, 5), kernel(1, 20, 7)),
        RunConfig(AttentionSpec(kv_heads=4), "naive"),
    )
    finding = said(run, "hidden_copy")
    assert "1 copy of 1,024 B (1 KiB) per forward" in finding.evidence  # 2 * 8 * 4 * 4 * 4
    assert "kv.repeat_interleave(groups, dim=1)`" in finding.evidence
    assert "enable_gqa=True" in finding.advice


def test_a_cast_is_no_hidden_copy() -> None:
    nested = [op("aten::to", 1, 50), op("aten::_to_copy", 2, 45), op("aten::copy_", 3, 40)]
    run = subject(trace(annotation(0, 100), *nested, launch(1, 5), kernel(1, 20, 7)))
    assert "hidden_copy" not in rules_of(run)


def test_source_lines() -> None:
    assert source_line("naive", "aten::softmax") is not None
    assert "`scores = scores * x.scale`" in (source_line("naive", "aten::mul") or "")
    assert source_line("naive", "aten::masked_fill_") is None
    assert source_line("sdpa", "aten::masked_fill") is None
    assert source_line("no_such_variant", "aten::mul") is None


# scores_materialised: the matrices have SCORES elements of 2 bytes (naive) or 4 (math)


@pytest.mark.parametrize(
    "name, written_bytes, read_bytes",
    [
        # QKᵀ, scale, copy, fill, softmax write; scale, copy, fill, softmax, PV read.
        ("naive", 5 * 2 * SCORES, 5 * 2 * SCORES),
        ("inplace", 4 * 2 * SCORES, 4 * 2 * SCORES),
        # One fused kernel between the products.
        ("naive_compiled", 2 * 2 * SCORES, 2 * 2 * SCORES),
        # Write: QKᵀ 4, add_ 4, softmax 4, isneginf 1, where 4, cast 2. Read: add_ 4, softmax 4,
        # isneginf 4, all 1, where 4, cast 4, PV 4.
        ("sdpa_math", 19 * SCORES, 25 * SCORES),
    ],
)
def test_scores_go_through_memory(
    name: str, written_bytes: int, read_bytes: int, recorded: MakeSubject
) -> None:
    finding = said(recorded(f"{LARGE}_{name}"), "scores_materialised")
    assert f"writes {written_bytes:,} B" in finding.evidence
    assert f"reads {read_bytes:,} B" in finding.evidence
    assert "from the shapes in the trace" in finding.evidence
    assert finding.severity == "warning"


def test_small_scores_stay_in_the_cache(recorded: MakeSubject) -> None:
    finding = said(recorded(f"{SMALL}_naive"), "scores_materialised")
    assert finding.severity == "info"
    assert f"together have {8 * 128 * 128 * 2:,} B" in finding.evidence


def test_without_shapes_the_settings_tell(h200_traces: dict[str, Path]) -> None:
    document = json.loads(gzip.decompress(h200_traces[f"{LARGE}_naive"].read_bytes()))
    for raw in document["traceEvents"]:
        raw.get("args", {}).pop("Input Dims", None)
    shapeless = parse_trace(json.dumps(document).encode())
    finding = said(subject(shapeless, RunConfig(SPEC, "naive")), "scores_materialised")
    assert f"writes {2 * SCORES:,} B" in finding.evidence
    assert "at least: from the run's settings" in finding.evidence
    assert "scores_materialised" not in rules_of(subject(shapeless))


@pytest.mark.parametrize("name", ["sdpa_flash", "sdpa_efficient", "sdpa_cudnn", "flex"])
def test_fused_kernels_keep_the_scores(name: str, recorded: MakeSubject) -> None:
    assert "scores_materialised" not in rules_of(recorded(f"{LARGE}_{name}"))


# The math backend


def test_math_multiplies_on_cuda_cores(recorded: MakeSubject, raw_us: Callable[..., float]) -> None:
    finding = said(recorded(f"{LARGE}_sdpa_math"), "cuda_core_matmul")
    cost_us = raw_us(f"{LARGE}_sdpa_math", "aten::bmm")
    assert finding.title == "fp32 products run on CUDA cores"
    assert finding.evidence.startswith("2 matrix products without Tensor Cores")
    assert f"{cost_us:.1f} µs per forward" in finding.evidence
    assert f"({100 * cost_us / 2622.2:.1f} % of GPU busy)" in finding.evidence


def test_math_widens_to_fp32(recorded: MakeSubject, raw_us: Callable[..., float]) -> None:
    finding = said(recorded(f"{LARGE}_sdpa_math"), "fp32_upcast")
    cost_us = raw_us(f"{LARGE}_sdpa_math", "aten::_to_copy")
    assert "3 casts to fp32 and 2 casts back" in finding.evidence
    assert f"{cost_us:.1f} µs per forward" in finding.evidence
    assert "allow_fp16_bf16_reduction_math_sdp" in finding.advice


def test_math_builds_the_mask(recorded: MakeSubject, raw_us: Callable[..., float]) -> None:
    finding = said(recorded(f"{LARGE}_sdpa_math"), "mask_rebuilt")
    builders = ("aten::ones", "aten::tril", "aten::scalar_tensor", "aten::where")
    cost_us = raw_us(f"{LARGE}_sdpa_math", *builders, outside="aten::_safe_softmax")
    assert "ones, tril, scalar_tensor and where" in finding.evidence
    # fill, tril, fill, fill, where
    assert f"5 kernels and {cost_us:.1f} µs on the GPU" in finding.evidence


def test_math_saves_fully_masked_rows(recorded: MakeSubject, raw_us: Callable[..., float]) -> None:
    finding = said(recorded(f"{LARGE}_sdpa_math"), "safe_softmax")
    cost_us = raw_us(f"{LARGE}_sdpa_math", "aten::_safe_softmax", outside="aten::softmax")
    assert "4 kernels besides the softmax (isneginf, all, fill and where)" in finding.evidence
    assert f"{cost_us:.1f} µs per forward" in finding.evidence


@pytest.mark.parametrize(
    "rule", ["cuda_core_matmul", "fp32_upcast", "mask_rebuilt", "safe_softmax"]
)
@pytest.mark.parametrize("name", ["naive", "inplace", "naive_compiled", "sdpa_flash", "sdpa_cudnn"])
def test_others_do_not(rule: str, name: str, recorded: MakeSubject) -> None:
    assert rule not in rules_of(recorded(f"{LARGE}_{name}"))


def test_ones_alone_are_no_mask() -> None:
    run = subject(trace(annotation(0, 100), op("aten::ones", 1, 10), op("aten::where", 20, 10)))
    assert "mask_rebuilt" not in rules_of(run)


def test_safe_softmax_on_a_cpu_counts_host_time() -> None:
    ops = [op("aten::_safe_softmax", 1, 50), op("aten::softmax", 2, 20)]
    assert (
        "takes 30.0 µs" in said(subject(trace(annotation(0, 100), *ops)), "safe_softmax").evidence
    )


# Occupancy


def test_zero_percent_is_explained(recorded: MakeSubject) -> None:
    finding = said(recorded(f"{LARGE}_sdpa_cudnn"), "occupancy_misreported")
    assert "1 of 1 kernel" in finding.evidence
    assert "134,144 B of shared memory" in finding.evidence
    assert "18.75 %" in finding.evidence
    assert "launch call is not the cause" in finding.advice


@pytest.mark.parametrize("name", [f"{LARGE}_sdpa_flash", f"{SMALL}_sdpa_flash"])
def test_an_honest_occupancy_is_not_misreported(name: str, recorded: MakeSubject) -> None:
    assert "occupancy_misreported" not in rules_of(recorded(name))


@pytest.mark.parametrize(
    "name, theoretical", [("sdpa_flash", "12.5"), ("sdpa_efficient", "25"), ("sdpa_cudnn", "18.75")]
)
def test_low_occupancy_of_a_fused_kernel_is_fine(
    name: str, theoretical: str, recorded: MakeSubject
) -> None:
    finding = said(recorded(f"{LARGE}_{name}"), "low_occupancy_is_fine")
    assert finding.title == f"{theoretical} % occupancy is by design"
    assert finding.severity == "info"


@pytest.mark.parametrize("name", [f"{LARGE}_naive", f"{LARGE}_sdpa_math", f"{SMALL}_sdpa_flash"])
def test_low_occupancy_elsewhere_is_not_excused(name: str, recorded: MakeSubject) -> None:
    """Unfused, or eight blocks on 132 SMs."""
    assert "low_occupancy_is_fine" not in rules_of(recorded(name))


# Launching


def test_driver_launches_are_pointed_out(recorded: MakeSubject) -> None:
    finding = said(recorded(f"{LARGE}_naive"), "driver_launch")
    assert "2 of 5 kernels per forward" in finding.evidence
    assert "cuLaunchKernelEx" in finding.evidence


def test_runtime_launches_are_not(recorded: MakeSubject) -> None:
    assert "driver_launch" not in rules_of(recorded(f"{LARGE}_sdpa_flash"))
    assert "driver_launch" not in rules_of(recorded(f"{LARGE}_sdpa_math"))


SPLIT = "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64, 64, 256, 4> >"
COMBINE = "void pytorch_flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64> >"


def test_split_keys_are_two_kernels() -> None:
    finding = said(attention_kernels(SPLIT, COMBINE, gpu_us=33), "split_kv")
    assert finding.evidence.count("33.0 µs") == 2


def test_a_split_kernel_without_combine_did_not_split() -> None:
    assert "split_kv" not in rules_of(attention_kernels(SPLIT))


# The backend


def test_a_backend_that_did_not_run_is_a_problem(recorded: MakeSubject) -> None:
    finding = said(recorded(f"{LARGE}_sdpa_math", "sdpa", "flash"), "backend_fell_back")
    assert finding.title == "Asked for flash, math ran"
    assert finding.severity == "problem"
    assert "20 kernels per forward" in finding.evidence


def test_the_choice_of_auto_is_named(recorded: MakeSubject) -> None:
    finding = said(recorded(f"{LARGE}_sdpa_auto", "sdpa", "auto"), "backend_fell_back")
    assert (finding.title, finding.severity) == ("auto chose cudnn", "info")


def test_auto_without_a_fused_backend_is_a_warning(recorded: MakeSubject) -> None:
    finding = said(recorded(f"{LARGE}_sdpa_math", "sdpa", "auto"), "backend_fell_back")
    assert (finding.title, finding.severity) == ("auto chose math", "warning")


@pytest.mark.parametrize("backend", ["math", "efficient", "flash", "cudnn"])
def test_a_backend_that_ran_as_asked_is_not_mentioned(backend: str, recorded: MakeSubject) -> None:
    run = recorded(f"{LARGE}_sdpa_{backend}", "sdpa", backend)
    assert "backend_fell_back" not in rules_of(run)


def test_a_kernel_tells_more_than_the_op() -> None:
    run = attention_kernels("fmha_cutlassF_bf16_aligned_64x64_rf_sm80")
    asked = Subject(run.analysis, run.completeness, RunConfig(SPEC, "sdpa", "flash"))
    assert said(asked, "backend_fell_back").title == "Asked for flash, efficient ran"


def test_where_nothing_tells_nothing_is_said() -> None:
    run = subject(trace(annotation(0, 9), op("aten::mm", 1, 5)), RunConfig(SPEC, "sdpa", "flash"))
    assert "backend_fell_back" not in rules_of(run)


# The run as a whole


def test_a_slow_host_is_a_warning(recorded: MakeSubject) -> None:
    run = recorded(f"{SMALL}_sdpa_flash", unprofiled=unprofiled(host_us=53, gpu_us=5.5))
    finding = said(run, "host_bound")
    assert "53.0 µs" in finding.evidence and "5.5 µs" in finding.evidence


def test_a_slow_gpu_is_not(recorded: MakeSubject) -> None:
    run = recorded(f"{LARGE}_sdpa_flash", unprofiled=unprofiled(host_us=54, gpu_us=94.1))
    assert "host_bound" not in rules_of(run)


@pytest.mark.parametrize(
    "first_us, gpu_us, severity",
    [
        (810_963, 59.2, "warning"),  # cuDNN, first shape on the H200
        (12_010, 94.1, "info"),  # flash
        (556, 932, None),  # in place
        (292, 34.6, None),  # flash, second shape
        (291, 907.2, None),  # efficient, new head_dim
        (5_000, 907.2, None),  # made up: five times as long is what the first of any calls takes
        (900, 34.6, None),  # made up: below a millisecond nobody notices
    ],
)
def test_first_calls_measured_on_the_h200(
    first_us: float, gpu_us: float, severity: str | None, recorded: MakeSubject
) -> None:
    run = recorded(f"{LARGE}_sdpa_flash", unprofiled=unprofiled(gpu_us=gpu_us, first_us=first_us))
    if severity is None:
        assert "first_call_cost" not in rules_of(run)
    else:
        finding = said(run, "first_call_cost")
        assert finding.severity == severity
        assert f"{first_us:,.1f} µs for the first call" in finding.evidence


def test_an_unknown_first_call_is_not_mentioned(recorded: MakeSubject) -> None:
    assert "first_call_cost" not in rules_of(
        recorded(f"{LARGE}_sdpa_flash", unprofiled=unprofiled())
    )


def test_an_outlier_is_named(recorded: MakeSubject) -> None:
    finding = said(recorded(f"{LARGE}_flex"), "step_outlier")
    # The three attn_fwd spans in the file: 409.827, 168.870 and 150.279 µs.
    assert "Forward 1 took 409.8 µs on the host, the median forward 168.9 µs" in finding.evidence
    assert finding.severity == "info"


def test_an_outlier_on_the_gpu_is_a_warning() -> None:
    events: list[Raw] = []
    for number, gpu_us in enumerate((100, 100, 150), start=1):
        events += [annotation(number * 1000, 50), launch(number, number * 1000 + 1)]
        events.append(kernel(number, number * 1000 + 10, gpu_us))
    assert said(subject(trace(*events)), "step_outlier").severity == "warning"


def test_even_forwards_have_no_outlier(recorded: MakeSubject) -> None:
    assert "step_outlier" not in rules_of(recorded(f"{LARGE}_naive"))


def test_a_missing_kernel_is_a_problem() -> None:
    run = subject(trace(annotation(0, 50), launch(1, 1), launch(2, 5), kernel(1, 9, 3)))
    finding = said(run, "incomplete_capture")
    assert finding.severity == "problem"
    assert "1 of 2 launches left no record" in finding.evidence


def test_a_whole_capture_is_not(recorded: MakeSubject) -> None:
    assert "incomplete_capture" not in rules_of(recorded(f"{LARGE}_naive"))


# Two runs


def compared(run: Subject, baseline: Subject, rule: str) -> list[Finding]:
    return [finding for finding in compare(run, baseline) if finding.rule == rule]


def test_in_place_removes_the_copy(recorded: MakeSubject, raw_us: Callable[..., float]) -> None:
    inplace = recorded(f"{LARGE}_inplace", "naive_inplace")
    naive = recorded(f"{LARGE}_naive", "naive")
    (finding,) = compared(inplace, naive, "role_changed")
    before_us = raw_us(f"{LARGE}_naive", "aten::masked_fill")
    saved_us = before_us - raw_us(f"{LARGE}_inplace", "aten::masked_fill_")
    share = 100 * saved_us / 1064.6  # GPU busy of naive per forward, from the traces' README
    assert finding.title == (
        f"masked_fill_ removed 1 memcpy, {saved_us:.1f} µs ({share:.1f} %) per forward"
    )
    assert finding.severity == "info"


def test_the_other_way_round_it_is_a_warning(recorded: MakeSubject) -> None:
    naive, inplace = recorded(f"{LARGE}_naive"), recorded(f"{LARGE}_inplace")
    (finding,) = compared(naive, inplace, "role_changed")
    assert finding.title.startswith("masked_fill added 1 memcpy")
    assert finding.severity == "warning"


def test_fusing_is_one_finding_not_five(recorded: MakeSubject) -> None:
    flash, naive = recorded(f"{LARGE}_sdpa_flash"), recorded(f"{LARGE}_naive")
    (finding,) = compared(flash, naive, "fused")
    assert "QKᵀ, scale, mask, softmax and PV (5 kernels, 1 memcpy" in finding.evidence
    assert "94.7 µs against 1,064.6 µs" in finding.evidence
    assert compared(flash, naive, "role_changed") == []
    (back,) = compared(naive, flash, "fused")
    assert back.severity == "warning"


def test_kernels_are_matched_by_role(recorded: MakeSubject) -> None:
    math, naive = recorded(f"{LARGE}_sdpa_math"), recorded(f"{LARGE}_naive")
    titles = [finding.title for finding in compared(math, naive, "role_changed")]
    assert any(title.startswith("QKᵀ: ") for title in titles)
    assert any(title.startswith("_safe_softmax added 4 kernels") for title in titles)
    assert compared(math, naive, "fused") == []


def test_another_attention_kernel_is_named_by_its_role(recorded: MakeSubject) -> None:
    cudnn, flash = recorded(f"{LARGE}_sdpa_cudnn"), recorded(f"{LARGE}_sdpa_flash")
    (finding,) = compared(cudnn, flash, "role_changed")
    # GPU busy per forward is 94.7 and 57.2 µs in the README of the traces.
    assert finding.title.startswith("attention: 37.")
    assert finding.title.endswith("less per forward")


def test_equal_runs_have_no_difference(recorded: MakeSubject) -> None:
    run = recorded(f"{LARGE}_naive", "naive", unprofiled=unprofiled())
    assert compare(run, run) == ()


def test_totals_are_compared(recorded: MakeSubject) -> None:
    flash, math = recorded(f"{LARGE}_sdpa_flash"), recorded(f"{LARGE}_sdpa_math")
    (faster,) = compared(flash, math, "gpu_time_changed")
    (slower,) = compared(math, flash, "gpu_time_changed")
    assert faster.title == "GPU time per forward: 96.4 % less (by a factor 27.7)"
    assert slower.title == "GPU time per forward: 27.7 times as much"
    assert (faster.severity, slower.severity) == ("info", "warning")


@pytest.mark.parametrize("host_us, title", [(117, "50.0 % less (by a factor 2.0)"), (220, None)])
def test_host_times_are_compared_without_the_profiler(
    host_us: float, title: str | None, recorded: MakeSubject
) -> None:
    run = recorded(f"{LARGE}_naive", unprofiled=unprofiled(host_us=host_us))
    baseline = recorded(f"{LARGE}_naive", unprofiled=unprofiled(host_us=234))
    titles = [finding.title for finding in compared(run, baseline, "host_time_changed")]
    assert titles == ([f"Host time per forward: {title}"] if title else [])


def test_deltas_across_gpus_are_marked(recorded: MakeSubject) -> None:
    events = [annotation(0, 50), op("aten::mm", 1, 40), launch(1, 2), kernel(1, 9, 3, device=1)]
    there = subject(trace(*events, deviceProperties=[A100]))
    here = recorded(f"{LARGE}_naive")
    (finding,) = compared(here, there, "different_gpu")
    assert "NVIDIA H200" in finding.evidence and "A100" in finding.evidence
    assert compared(here, here, "different_gpu") == []


def test_different_problems_are_marked(recorded: MakeSubject) -> None:
    run = recorded(f"{LARGE}_naive", "naive")
    config = RunConfig(AttentionSpec(seq_len=512), "naive")
    other = Subject(run.analysis, run.completeness, config)
    assert len(compared(run, other, "different_problem")) == 1
    assert compared(run, run, "different_problem") == []


def test_a_copy_that_came_with_another_op() -> None:
    def run(name: str, *events: Raw) -> Subject:
        return subject(trace(annotation(0, 100), op(name, 1, 50), *events))

    plain = run("aten::softmax", launch(1, 2), kernel(1, 10, 100, "softmax_warp_forward"))
    copied = run(
        "aten::_softmax",
        launch(1, 2, name="cudaMemcpyAsync"),
        memcpy(1, 5, 5),
        launch(2, 4),
        kernel(2, 10, 100, "softmax_warp_forward"),
    )
    (finding,) = compared(copied, plain, "role_changed")
    assert finding.title == "_softmax added 1 memcpy, 5.0 µs (5.0 %) per forward"

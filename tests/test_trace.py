"""The reader of Chrome traces: formats met in the field, damage, exact times, sharing."""

import gzip
import json
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from profiling import trace as reader
from profiling.analysis import analyse
from profiling.trace import Device, Trace, TraceError, load_trace, parse_trace, shareable
from tests.traces import H200, event, kernel, op, trace, trace_bytes

ONE_OP = trace_bytes(op("aten::mm", 1.5, 2.25))


def refusal(data: bytes) -> str:
    with pytest.raises(TraceError) as caught:
        parse_trace(data)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


# Formats


def test_reads_an_object_with_trace_events() -> None:
    (only,) = parse_trace(ONE_OP).events
    assert (only.name, only.category, only.lane) == ("aten::mm", "op", ("100", "100"))
    assert (only.start_ns, only.dur_ns, only.end_ns) == (1500, 2250, 3750)


def test_reads_the_same_without_orjson(h200_trace: Path) -> None:
    data = h200_trace.read_bytes()
    with patch.object(reader, "orjson", None):
        slowly = parse_trace(data)
    assert slowly.events == parse_trace(data).events


def test_reads_a_bare_list_of_events() -> None:
    assert len(parse_trace(json.dumps([op("aten::mm", 1, 2)]).encode()).events) == 1


def test_reads_every_member_of_a_gzip_file() -> None:
    middle = len(ONE_OP) // 2
    members = gzip.compress(ONE_OP[:middle]) + gzip.compress(ONE_OP[middle:])
    assert parse_trace(members).events == parse_trace(ONE_OP).events


@pytest.mark.parametrize("name", ["gzip-inside.json", "trace.json.gz", "no-suffix"])
@pytest.mark.parametrize("data", [ONE_OP, gzip.compress(ONE_OP)], ids=["plain", "gzip"])
def test_what_is_inside_decides_not_the_file_name(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert len(load_trace(tmp_path / name).events) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Operator", "op"),
        ("Runtime", "api"),
        ("Kernel", "kernel"),
        ("Memcpy", "memcpy"),
        ("Memset", "memset"),
        ("cpu_op", "op"),
        ("user_annotation", "annotation"),
        ("cuda_runtime", "api"),
        ("cuda_driver", "api"),
        ("hip_runtime", "api"),
        ("kernel", "kernel"),
        ("gpu_memcpy", "memcpy"),
        ("gpu_memset", "memset"),
    ],
)
def test_knows_category_names_old_and_new(old: str, new: str) -> None:
    (only,) = trace(event(old, "x", 1, 2)).events
    assert only.category == new


@pytest.mark.parametrize("category", ["gpu_user_annotation", "ac2g", "python_function", "overhead"])
def test_leaves_out_what_is_no_work(category: str) -> None:
    assert trace(event(category, "x", 1, 2)).events == ()


def test_leaves_out_other_phases_and_events_without_category() -> None:
    flow = {**op("x", 1, 2), "ph": "s"}
    memory = {"ph": "i", "name": "[memory]", "ts": 1, "args": {"Bytes": 4}}
    assert trace(flow, memory, {"ph": "M", "name": "process_name"}, {}).events == ()


def test_reads_string_thread_ids() -> None:
    (only,) = trace(event("Kernel", "x", 1, 2, pid="CUDA functions", tid="stream 7")).events
    assert only.lane == ("CUDA functions", "stream 7")


def test_reads_the_old_device_table() -> None:
    read = parse_trace(json.dumps({"computeProperties": [H200], "traceEvents": []}).encode())
    assert read.devices == {"0": Device("NVIDIA H200", "9.0", 132)}


def test_an_unnamed_device_has_no_name_and_no_guess() -> None:
    read = trace(deviceProperties=[{"id": 2, "name": ""}, "junk"])
    assert read.devices == {"2": Device(None, None, None)}


def test_events_are_sorted_outer_before_inner() -> None:
    events = trace(op("late", 9, 1), op("inner", 1, 2), op("outer", 1, 5)).events
    assert [e.name for e in events] == ["outer", "inner", "late"]


def test_a_trace_of_metadata_alone_is_empty() -> None:
    read = trace({"ph": "M", "name": "process_name", "args": {"name": "python"}})
    assert (read.events, read.warnings) == ((), ())


# Damage that is repaired


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"torch/config.py(0): <\x01>", "torch/config.py(0): <\x01>"),
        (b"two\nlines", "two\nlines"),
        (b"bad \xff byte", "bad � byte"),
        (rb"lone \ud800 surrogate", "lone ? surrogate"),
    ],
    ids=["control character", "raw newline", "invalid UTF-8", "lone surrogate"],
)
def test_repairs_odd_characters_in_names(raw: bytes, shown: str) -> None:
    (only,) = parse_trace(ONE_OP.replace(b"aten::mm", raw)).events
    assert only.name == shown
    only.name.encode()


def test_a_byte_order_mark_does_no_harm() -> None:
    assert len(parse_trace(b"\xef\xbb\xbf" + ONE_OP).events) == 1


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"x"', b"null"])
@pytest.mark.parametrize("field", [b'"ts": 1.5', b'"dur": 2.25'])
def test_an_event_without_a_readable_time_is_counted_not_read(field: bytes, number: bytes) -> None:
    key = field.split(b":")[0]
    read = parse_trace(ONE_OP.replace(field, key + b": " + number))
    assert read.events == ()
    assert read.warnings == ("1 events without a readable time",)


def test_nan_among_the_arguments_does_no_harm() -> None:
    (only,) = parse_trace(trace_bytes(kernel(3, 1, 2, blocks_per_SM=float("nan")))).events
    assert only.correlation == 3


@pytest.mark.parametrize("huge", [1e300, -1e300, "1e999990", 10**30])
def test_a_time_beyond_any_clock_is_not_readable(huge: Any) -> None:
    assert trace(op("x", huge, 1)).events == ()


def test_a_negative_duration_is_taken_as_zero_and_told() -> None:
    read = trace(op("x", 5, -3))
    assert read.events[0].dur_ns == 0
    assert read.warnings == ("1 events with a negative duration, taken as 0",)


def test_durations_of_zero_and_missing_ones_are_kept_as_zero() -> None:
    unfinished = op("unfinished", 2, 0)
    del unfinished["dur"]
    read = trace(kernel(1, 1, 0), unfinished)
    assert [e.dur_ns for e in read.events] == [0, 0]
    assert read.warnings == ()


@pytest.mark.parametrize("args", [None, [], "text", 3])
def test_arguments_that_are_no_object_count_as_none(args: Any) -> None:
    (only,) = trace({**kernel(1, 1, 2), "args": args}).events
    assert (only.args, only.correlation) == ({}, None)


def test_missing_fields_do_no_harm() -> None:
    (only,) = trace({"ph": "X", "cat": "kernel", "ts": 1}).events
    assert (only.name, only.lane, only.args) == ("", ("", ""), {})


@pytest.mark.parametrize("correlation", [-1, 0, None, True, "7", 1.5, [7]])
def test_a_correlation_id_that_stands_for_none_is_none(correlation: Any) -> None:
    (only,) = trace(kernel(correlation, 1, 2)).events
    assert only.correlation is None


def test_entries_that_are_no_events_are_counted() -> None:
    read = parse_trace(b'{"traceEvents": [1, null, "x", []]}')
    assert read.warnings == ("4 entries that are not events",)


# Refusals


@pytest.mark.parametrize("data", [b"", b" \n ", gzip.compress(b"")], ids=["0 B", "blank", "gzip"])
def test_an_empty_file_is_refused(data: bytes) -> None:
    assert "empty" in refusal(data)


@pytest.mark.parametrize(
    "data",
    [gzip.compress(ONE_OP)[:-9], b"\x1f\x8b", b"\x1f\x8bjunk", gzip.compress(ONE_OP) + b"junk"],
    ids=["cut short", "only a header", "junk", "junk after the end"],
)
def test_damaged_gzip_is_refused(data: bytes) -> None:
    assert "gzip data is damaged" in refusal(data)


def test_broken_json_is_refused_with_its_position() -> None:
    assert "line 2, column 1" in refusal(b'{"traceEvents":\n!}')


def test_single_backslashes_of_windows_paths_are_refused_with_cause_and_position() -> None:
    message = refusal(ONE_OP.replace(b"aten::mm", rb"torch\cuda\__init__.py(219): _lazy_init"))
    assert "escape" in message
    assert "line 1, column" in message


@pytest.mark.parametrize("data", [b"3", b'"text"', b"null", b"true"])
def test_json_that_is_no_object_is_refused(data: bytes) -> None:
    assert "not a trace" in refusal(data)


@pytest.mark.parametrize("data", [b"{}", b'{"schema": "1.1", "nodes": []}', b'{"traceEvents": 3}'])
def test_other_json_is_refused_with_its_keys_and_the_way_out(data: bytes) -> None:
    message = refusal(data)
    assert "traceEvents" in message
    assert "export_chrome_trace" in message


def test_other_json_with_long_keys_is_refused_briefly() -> None:
    assert len(refusal(json.dumps({"k" * 10_000: 1}).encode())) < 500


def test_deep_nesting_is_refused() -> None:
    assert "nested too deeply" in refusal(b"[" * 100_000 + b"]" * 100_000)


def test_an_integer_of_thousands_of_digits_is_refused() -> None:
    with patch.object(reader, "orjson", None):
        assert refusal(b'{"traceEvents": [' + b"1" * 5000 + b"]}")


@pytest.mark.parametrize("key", ["pid", "tid", "name", "cat"])
def test_a_nested_value_where_text_belongs_does_no_harm(key: str) -> None:
    nested = b"[" * 900 + b"]" * 900
    data = json.dumps({"traceEvents": [{**op("x", 1, 2), key: "HERE"}]}).encode()
    parse_trace(data.replace(b'"HERE"', nested))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"Cannot read .*absent\.json: No such file"):
        load_trace(tmp_path / "absent.json")


# Exact times


def times(*numbers: str) -> list[tuple[int, int]]:
    events = ",".join(
        f'{{"ph":"X","cat":"kernel","name":"k","ts":{ts},"dur":{dur}}}'
        for ts, dur in zip(numbers[::2], numbers[1::2], strict=True)
    )
    read = parse_trace(f'{{"displayTimeUnit":"ns","traceEvents":[{events}]}}'.encode())
    return [(e.start_ns, e.dur_ns) for e in read.events]


def test_absolute_times_keep_their_nanoseconds() -> None:
    assert times("1712195495406752.813", "1.001", "1712195495406753.814", "0.5") == [
        (1_712_195_495_406_752_813, 1001),
        (1_712_195_495_406_753_814, 500),
    ]


def test_absolute_times_keep_their_nanoseconds_in_a_bare_list() -> None:
    data = b'[{"ph":"X","cat":"kernel","ts":1712195495406752.813,"dur":0.127}]'
    (only,) = parse_trace(data).events
    assert only.start_ns == 1_712_195_495_406_752_813


def test_exact_times_are_found_behind_thousands_of_other_events() -> None:
    first = ["1", "1"] * 2000
    assert times(*first, "1712195495406752.813", "1")[-1] == (1_712_195_495_406_752_813, 1000)


def test_absolute_times_leave_other_numbers_as_they_were() -> None:
    data = trace_bytes(kernel(1, 1, 2, blocks_per_SM=7.75)).replace(
        b'"ts": 1,', b'"ts": 1712195495406752.813,'
    )
    (only,) = parse_trace(data).events
    assert type(only.args["blocks per SM"]) is float


def test_the_display_unit_does_not_scale() -> None:
    assert times("2", "3.5") == [(2000, 3500)]


def test_times_in_strings_are_read() -> None:
    (only,) = trace(event("kernel", "k", "1712195495406752.813", "2.5")).events
    assert (only.start_ns, only.dur_ns) == (1_712_195_495_406_752_813, 2500)


def as_us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


@given(st.integers(0, 2**62), st.integers(0, 10**13), st.booleans())
@example(8_999_999_999_999_999, 1, True)
@example(8_800_000_000_000_001, 7, False)
def test_times_round_trip_to_the_nanosecond(start_ns: int, dur_ns: int, fast: bool) -> None:
    with nullcontext() if fast else patch.object(reader, "orjson", None):
        assert times(as_us(start_ns), as_us(dur_ns)) == [(start_ns, dur_ns)]


def test_recorded_times_equal_the_digits_in_the_file(h200_trace: Path) -> None:
    text = gzip.decompress(h200_trace.read_bytes())
    raw = json.loads(text, parse_float=Decimal)["traceEvents"]
    kernels = [e for e in raw if e.get("cat") == "kernel"]
    assert sorted((e.start_ns, e.dur_ns) for e in load_trace(h200_trace).in_category("kernel")) == (
        sorted((int(e["ts"] * 1000), int(e["dur"] * 1000)) for e in kernels)
    )


# Any input


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
NUMBERS = VALUES | st.integers(0, 30)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "correlation": NUMBERS | st.integers(1, 3),
        "registers per thread": NUMBERS,
        "shared memory": NUMBERS,
        "block": st.lists(NUMBERS, max_size=3) | VALUES,
        "grid": st.lists(NUMBERS, max_size=3) | VALUES,
        "est. achieved occupancy %": NUMBERS,
        "device": NUMBERS,
        "bytes": NUMBERS,
    },
)
EVENTS = VALUES | st.fixed_dictionaries(
    {"ph": st.just("X"), "ts": NUMBERS},
    optional={
        "cat": st.sampled_from(["kernel", "gpu_memcpy", "cuda_runtime", "cpu_op"])
        | st.just("user_annotation"),
        "name": st.sampled_from(["attn_fwd", "cudaLaunchKernel", "ProfilerStep#1", "aten::mm"])
        | VALUES,
        "dur": NUMBERS,
        "pid": NUMBERS,
        "tid": NUMBERS,
        "args": ARGUMENTS | VALUES,
    },
)
DEVICES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "id": NUMBERS,
            "name": VALUES,
            "computeMajor": NUMBERS,
            "computeMinor": NUMBERS,
            "numSms": NUMBERS,
        },
    )
    | VALUES,
    max_size=2,
)
TRACES = st.fixed_dictionaries(
    {"traceEvents": st.lists(EVENTS, max_size=6)}, optional={"deviceProperties": DEVICES | VALUES}
)


def read_or_refuse(data: bytes) -> Trace | None:
    try:
        return parse_trace(data)
    except TraceError:
        return None


@given(VALUES)
def test_any_json_is_read_or_refused(value: Any) -> None:
    read_or_refuse(json.dumps(value).encode())


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_or_refuse(data)
    read_or_refuse(b"\x1f\x8b" + data)


@given(st.integers(0, len(ONE_OP) - 1), st.binary(max_size=3))
def test_a_trace_damaged_anywhere_is_read_or_refused(at: int, junk: bytes) -> None:
    read_or_refuse(ONE_OP[:at] + junk + ONE_OP[at + 1 :])
    packed = gzip.compress(ONE_OP, mtime=0)
    at = min(at, len(packed) - 1)
    read_or_refuse(packed[:at] + junk + packed[at + 1 :])


@settings(max_examples=300)
@given(TRACES)
def test_whatever_is_read_can_be_analysed_and_shared(document: Any) -> None:
    data = json.dumps(document).encode()
    read = parse_trace(data)
    analyse(read)
    shared = parse_trace(shareable(data))
    assert [(e.start_ns, e.dur_ns) for e in shared.events] == (
        [(e.start_ns, e.dur_ns) for e in read.events]
    )


# Sharing


def test_sharing_drops_what_the_format_does_not_define() -> None:
    data = trace_bytes(
        op("aten::mm", 1, 2),
        env={"HF_TOKEN": "hf_secret"},
        HF_TOKEN="hf_secret",
        traceName="/home/someone/trace.json",
        host_name="workstation",
    )
    shared = gzip.decompress(shareable(data))
    for secret in (b"hf_secret", b"HF_TOKEN", b"someone", b"workstation"):
        assert secret not in shared


def test_sharing_drops_the_folders_of_generated_kernels() -> None:
    launcher = op("triton_fused_0", 1, 2)
    launcher["args"]["kernel_file"] = "/tmp/torchinductor_someone/k.py"
    assert b"someone" not in gzip.decompress(shareable(trace_bytes(launcher)))


def test_sharing_keeps_events_and_devices(h200_trace: Path) -> None:
    shared = parse_trace(shareable(h200_trace.read_bytes()))
    original = load_trace(h200_trace)
    assert [(e.name, e.start_ns, e.dur_ns, e.lane, e.correlation) for e in shared.events] == [
        (e.name, e.start_ns, e.dur_ns, e.lane, e.correlation) for e in original.events
    ]
    assert shared.devices == original.devices


def test_sharing_keeps_the_old_device_table() -> None:
    data = json.dumps({"computeProperties": [H200], "traceEvents": []}).encode()
    assert parse_trace(shareable(data)).devices == parse_trace(data).devices


def test_sharing_keeps_the_nanoseconds_of_absolute_times() -> None:
    data = trace_bytes(kernel(1, 1, 2.001)).replace(b'"ts": 1,', b'"ts": 1712195495406752.813,')
    assert parse_trace(shareable(data)).events == parse_trace(data).events


def test_sharing_the_same_trace_twice_gives_the_same_bytes(h200_trace: Path) -> None:
    data = h200_trace.read_bytes()
    assert shareable(data) == shareable(data)
    assert shareable(shareable(data)) == shareable(data)

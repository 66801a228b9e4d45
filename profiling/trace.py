"""Read a torch.profiler Chrome trace into plain values.

Times are integer nanoseconds: `ts` and `dur` are microseconds with three decimals, and recent
traces count from a base months before the run, so that a float sum of the two no longer holds the
last digit.
"""

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

try:
    import orjson
except ImportError:  # recording machines have torch and little else
    orjson = None  # type: ignore[assignment]

Category = Literal["op", "annotation", "api", "kernel", "memcpy", "memset"]

# PyTorch 1.8 wrote capitalised categories; the spellings of today are the snake_case ones.
_CATEGORIES: dict[str, Category] = {
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "annotation",
    "cuda_runtime": "api",
    "cuda_driver": "api",
    "hip_runtime": "api",
    "runtime": "api",
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
}
GPU_CATEGORIES: frozenset[str] = frozenset({"kernel", "memcpy", "memset"})

# User code may store any string in a trace, environment variables and tokens included, so only keys
# that the format itself defines are kept when a trace is written again.
SHAREABLE_KEYS = (
    "schemaVersion",
    "deviceProperties",
    "computeProperties",
    "cupti_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "record_shapes",
    "profile_memory",
    "with_stack",
    "with_flops",
    "with_modules",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "traceEvents",
)
# Arguments of events that hold paths.
_PRIVATE_ARGUMENTS = ("kernel_file", "Call stack")

# From here on neighbouring doubles are more than a nanosecond apart, read as microseconds.
_EXACT_LIMIT_US = 2**43
# 292 years: no clock shows more, and what is computed from it stays a number.
_LARGEST_US = 2**63 // 1000


class TraceError(ValueError):
    """The file is not a trace that can be read; the message is one sentence for the person."""


@dataclass(frozen=True, slots=True)
class Event:
    """One recorded interval. `lane` is (process id, thread id), or (device, stream) on a GPU."""

    name: str
    category: Category
    start_ns: int
    dur_ns: int
    lane: tuple[str, str]
    correlation: int | None
    args: dict[str, Any]

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.dur_ns


@dataclass(frozen=True, slots=True)
class Device:
    """What a trace says of one GPU; None where it says nothing."""

    name: str | None
    compute_capability: str | None
    sm_count: int | None


@dataclass(frozen=True, eq=False)
class Trace:
    """All events of one run, sorted by start (outer before inner), and the GPUs they ran on."""

    events: tuple[Event, ...]
    devices: dict[str, Device]
    warnings: tuple[str, ...] = ()

    def in_category(self, *categories: Category) -> list[Event]:
        return [event for event in self.events if event.category in categories]


def load_trace(path: Path) -> Trace:
    """Read a `.json` or `.json.gz` trace; what is inside decides, not the file's name."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"Cannot read {path}: {error.strerror or error}.") from error
    return parse_trace(data)


def parse_trace(data: bytes) -> Trace:
    """Parse the bytes of a Chrome trace, plain or gzip (several members are read in full)."""
    document = parse_document(data)
    raw_events = document.get("traceEvents")
    if not isinstance(raw_events, list):
        keys = ", ".join(key[:40] for key in sorted(document)[:5]) or "none"
        raise TraceError(
            f"This JSON has no list 'traceEvents' (its keys: {keys}), so it is not a profiler "
            "trace; export one with torch.profiler's export_chrome_trace()."
        )
    skipped: Counter[str] = Counter()
    events = list(_events(raw_events, skipped))
    events.sort(key=lambda event: (event.start_ns, -event.dur_ns))
    warnings = tuple(f"{count} {what}" for what, count in skipped.items())
    return Trace(tuple(events), _devices(document), warnings)


def shareable(data: bytes) -> bytes:
    """The same trace, gzip-compressed, without metadata that may carry names, paths or secrets."""
    document = parse_document(data)
    raw_events = document.get("traceEvents")
    for raw in raw_events if isinstance(raw_events, list) else []:
        if isinstance(raw, dict) and isinstance(raw.get("args"), dict):
            for key in _PRIVATE_ARGUMENTS:
                raw["args"].pop(key, None)
    kept = {key: document[key] for key in SHAREABLE_KEYS if key in document}
    # Only times that no double can hold are Decimals: as text they keep their digits.
    text = json.dumps(kept, separators=(",", ":"), default=str)
    return gzip.compress(text.encode(), mtime=0)


def parse_document(data: bytes) -> dict[str, Any]:
    """The trace as one JSON object; a bare list of events (PyTorch 1.8) becomes `traceEvents`."""
    text = _decompressed(data)
    if not text.strip():
        raise TraceError("The file is empty; expected a torch.profiler trace in JSON.")
    document = _parse_json(text)
    if isinstance(document, list):
        document = {"traceEvents": document}
    if not isinstance(document, dict):
        raise TraceError(
            f"The file holds a JSON {type(document).__name__}, not a trace; expected an object "
            "with 'traceEvents'."
        )
    if not _needs_exact_times(document.get("traceEvents")):
        return document
    exact = _parse_slowly(text, parse_float=_exact)
    return exact if isinstance(exact, dict) else {"traceEvents": exact}


def _decompressed(data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"The gzip data is damaged ({error}); export the trace again.") from error


def _parse_json(text: bytes) -> Any:
    if orjson is not None:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # control characters, NaN and bad UTF-8 are met in the field: see below
    return _parse_slowly(text)


def _parse_slowly(text: bytes, parse_float: Callable[[str], Any] = float) -> Any:
    decoded = text.decode("utf-8-sig", errors="replace")
    try:
        return json.loads(decoded, strict=False, parse_float=parse_float)
    except json.JSONDecodeError as error:
        raise TraceError(
            f"Not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}."
        ) from error
    except ValueError as error:
        raise TraceError("Not valid JSON: it holds a number of thousands of digits.") from error
    except RecursionError as error:
        raise TraceError("The JSON is nested too deeply to be a profiler trace.") from error


def _exact(literal: str) -> float | Decimal:
    number = float(literal)
    return Decimal(literal) if _EXACT_LIMIT_US < number < float("inf") else number


def _needs_exact_times(raw_events: Any) -> bool:
    if not isinstance(raw_events, list):
        return False
    return any(
        isinstance(raw, dict) and isinstance(raw.get("ts"), float) and raw["ts"] > _EXACT_LIMIT_US
        for raw in raw_events
    )


def _events(raw_events: list[Any], skipped: Counter[str]) -> Iterable[Event]:
    for raw in raw_events:
        if not isinstance(raw, dict):
            skipped["entries that are not events"] += 1
            continue
        if raw.get("ph") != "X":
            continue
        category = _CATEGORIES.get(_text(raw.get("cat")).lower())
        if category is None:
            continue
        start_ns, dur_ns = _nanoseconds(raw.get("ts")), _nanoseconds(raw.get("dur", 0))
        if start_ns is None or dur_ns is None:
            skipped["events without a readable time"] += 1
            continue
        if dur_ns < 0:
            skipped["events with a negative duration, taken as 0"] += 1
            dur_ns = 0
        args = raw.get("args")
        args = args if isinstance(args, dict) else {}
        yield Event(
            name=_text(raw.get("name")),
            category=category,
            start_ns=start_ns,
            dur_ns=dur_ns,
            lane=(_text(raw.get("pid")), _text(raw.get("tid"))),
            correlation=_whole(args.get("correlation")),
            args=args,
        )


def _nanoseconds(microseconds: Any) -> int | None:
    try:
        number = Decimal(microseconds) if isinstance(microseconds, str) else microseconds
        if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
            return None
        return round(number * 1000) if -_LARGEST_US < number < _LARGEST_US else None
    except ArithmeticError:
        return None


def _text(value: Any) -> str:
    """A name or id; halves of a character pair, which no output can encode, become "?"."""
    if not isinstance(value, str | int | float):
        return ""
    return str(value).encode(errors="replace").decode()


def _whole(value: Any) -> int | None:
    """A correlation id; -1 and 0 stand for "none" in ROCm and in driver-less records."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if is_whole and value > 0 else None


def _devices(document: dict[str, Any]) -> dict[str, Device]:
    listed = document.get("deviceProperties") or document.get("computeProperties") or []
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    return {_text(row.get("id", index)): _device(row) for index, row in enumerate(rows)}


def _device(row: dict[str, Any]) -> Device:
    major, minor = row.get("computeMajor"), row.get("computeMinor")
    capability = f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) else None
    return Device(_text(row.get("name")) or None, capability, _whole(row.get("numSms")))

"""Reports: what is written comes back, and what is not a report is refused in one sentence."""

import gzip
import json
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from attention.spec import AttentionSpec
from profiling.config import RunConfig
from profiling.execute import execute
from profiling.outcome import Failed, Report, RunResult, Skipped
from profiling.report import ReportError, load_report, report_json, save_report
from profiling.store import SHIPPED

SMALL = AttentionSpec(batch=1, heads=2, kv_heads=2, seq_len=64, dtype="float32")


@pytest.fixture(scope="module")
def report() -> Report:
    finished = execute(RunConfig(spec=SMALL, variant="naive", device="cpu", forwards=2))
    assert isinstance(finished, RunResult)
    config = RunConfig(spec=SMALL, variant="sdpa", backend="flash", device="cpu")
    where = finished.environment
    return Report(where, (finished, Skipped(config, where, "No."), Failed(config, where, "Bad.")))


def test_an_archive_comes_back_as_it_was(report: Report, tmp_path: Path) -> None:
    save_report(report, tmp_path / "r.zip")
    again = load_report(tmp_path / "r.zip")
    assert again.environment == report.environment
    assert report_json(again) == report_json(report)
    assert [path.name for path in tmp_path.iterdir()] == ["r.zip"]


def test_a_report_crosses_a_process_boundary(report: Report) -> None:
    assert report_json(pickle.loads(pickle.dumps(report))) == report_json(report)


def test_the_document_has_the_names_of_the_contract(report: Report) -> None:
    document = json.loads(json.dumps(report_json(report), allow_nan=False))
    assert document["schema"] == 1
    assert [run["status"] for run in document["runs"]] == ["ok", "skipped", "failed"]
    assert [run["reason"] for run in document["runs"]] == [None, "No.", "Bad."]
    run = document["runs"][0]
    assert {"config", "unprofiled", "peak_memory_bytes", "numerics", "analysis"} <= run.keys()
    assert set(run["unprofiled"]["cpu_time_us"]) == {"median", "p10", "p90"}
    assert run["unprofiled"]["gpu_time_us"] is None
    analysis = run["analysis"]
    assert {"device", "forwards", "per_forward", "kernels", "unattributed", "complete",
            "warnings", "region", "host"} <= analysis.keys()  # fmt: skip
    assert set(analysis["unattributed"]) == {"activities", "launches_without_kernel"}
    assert set(analysis["host"]) == {"python_us", "ops_us", "launch_api_us"}
    assert analysis["per_forward"]["gpu_busy_us"] is None
    assert analysis["verdict"]["bound"] == "unclear" and analysis["verdict"]["evidence"]
    assert isinstance(analysis["findings"], list)
    assert analysis["region"] == {"kind": "annotation", "name": "attn_fwd", "count": 2}


def test_a_gpu_run_has_kernels_occupancy_and_findings_by_the_contract() -> None:
    shipped = report_json(load_report(SHIPPED / "h200.zip"))
    naive = shipped["runs"][0]["analysis"]
    assert {"rule", "severity", "title", "evidence", "advice"} <= naive["findings"][0].keys()
    kernel = next(row for row in naive["kernels"] if row["kind"] == "kernel")
    assert {"name", "kind", "family", "role", "library", "uses_tensor_cores", "dtype",
            "count_per_forward", "mean_us", "share_pct", "launch_api", "caused_by",
            "registers_per_thread", "shared_memory_bytes", "block", "grid",
            "occupancy"} <= kernel.keys()  # fmt: skip
    names = {"reported_pct", "theoretical_pct", "machine_wide_pct", "busy_sm_pct", "limiters",
             "blocks_per_sm", "waves", "why_reported_differs"}  # fmt: skip
    assert names <= kernel["occupancy"].keys()


def test_the_stored_trace_carries_no_strangers_metadata(report: Report) -> None:
    finished = report.outcomes[0]
    assert isinstance(finished, RunResult)
    keys = set(json.loads(gzip.decompress(finished.trace)))
    assert "traceEvents" in keys
    assert not {"traceName", "host_name", "distributedInfo"} & keys


def write_zip(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("_json", ".json"), text)
    return path


def test_what_is_not_a_report_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("not a zip")
    bad = [
        tmp_path / "text.zip",
        tmp_path / "missing.zip",
        write_zip(tmp_path / "empty.zip"),
        write_zip(tmp_path / "broken.zip", report_json="{"),
        write_zip(tmp_path / "schema.zip", report_json='{"schema": 99}'),
        write_zip(tmp_path / "list.zip", report_json="[]"),
        write_zip(tmp_path / "fields.zip", report_json='{"schema": 1, "runs": []}'),
    ]
    for path in bad:
        with pytest.raises(ReportError, match=path.name):
            load_report(path)


def test_a_bound_broken_in_a_file_is_refused(report: Report, tmp_path: Path) -> None:
    document = report_json(replace(report, outcomes=report.outcomes[1:2]))
    document["runs"][0]["config"]["seq_len"] = 10**9
    with pytest.raises(ReportError, match="seq_len must be a whole number"):
        load_report(write_zip(tmp_path / "r.zip", report_json=json.dumps(document)))

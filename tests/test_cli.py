"""The command line: exit codes, one sentence on stderr, one JSON document on stdout."""

import json
import sys
from pathlib import Path

import pytest

from profiling.cli import main

SMALL = ["--seq-len", "64", "--batch", "1", "--heads", "2", "--dtype", "float32",
         "--device", "cpu", "--forwards", "2"]  # fmt: skip


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.rstrip().endswith(".")
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seq-len", "0"], "seq_len must be a whole number from 1 to 131,072; got 0"),
        (["--seq-len", "-5"], "seq_len must be a whole number from 1 to 131,072; got -5"),
        (["--seq-len", "abc"], "seq_len must be a whole number from 1 to 131,072; got 'abc'"),
        (["--seq-len", "nan"], "seq_len must be a whole number"),
        (["--batch", "1e12"], "batch must be a whole number from 1 to 1,024; got 1000000000000"),
        (["--batch", "2.5"], "batch must be a whole number"),
        (["--forwards", "0"], "forwards must be a whole number from 1 to 20; got 0"),
        (["--dtype", "int8"], "dtype must be one of bfloat16, float16, float32; got 'int8'"),
        (["--device", "tpu"], "device must be one of auto, cuda, cpu; got 'tpu'"),
        (["--heads", "6", "--kv-heads", "4"], "heads must be a multiple of kv_heads"),
        (["--variant", "fancy"], "variant must be one of naive, naive_inplace, sdpa; got 'fancy'"),
        (["--variant", "sdpa:fast"], "backend must be one of auto, math"),
        (["--variant", "naive:flash"], "naive takes no backend; got 'flash'"),
        (["--bogus"], "Unrecognized arguments: --bogus"),
    ],
)
def test_bad_requests_are_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(["run", "--variant", "naive", *arguments], capsys)


def test_no_command_and_no_variant_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert "COMMAND" in refused([], capsys)
    assert "--variant" in refused(["run"], capsys)


def test_run_prints_one_document_in_the_order_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["sdpa:math", "naive", "sdpa:cudnn", "sdpa"]
    named = [word for variant in asked for word in ("--variant", variant)]
    where = ["--trace", str(tmp_path / "traces")]
    assert main(["run", *named, "--backend", "flash", *SMALL, *where, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["config"]["label"] for run in document["runs"]] == [
        "sdpa:math", "naive", "sdpa:cudnn", "sdpa:flash"
    ]  # fmt: skip
    assert [run["status"] for run in document["runs"]] == ["ok", "ok", "skipped", "ok"]
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == [
        "01_sdpa_math.json.gz", "02_naive.json.gz", "04_sdpa_flash.json.gz"
    ]  # fmt: skip


def test_run_prints_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--variant", "naive", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("CPU ") and lines[1] == "1×2×64×64 float32 causal"
    assert lines[2].split()[0] == "variant" and lines[3].split()[0] == "naive"


def test_a_failed_run_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attention.forwards.naive", lambda x: x.v + 1)
    assert main(["run", "--variant", "naive", *SMALL, "--json"]) == 1
    run = json.loads(capsys.readouterr().out)["runs"][0]
    assert run["status"] == "failed" and "The output is wrong" in run["reason"]


def test_analyze_reads_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    trace = Path(__file__).parent / "data/h200-traces/8_16_1024_64_naive.json.gz"
    assert main(["analyze", str(trace), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["device"] == {
        "name": "NVIDIA H200", "compute_capability": "9.0", "sm_count": 132
    }  # fmt: skip
    assert document["per_forward"]["kernels"] == 5
    assert document["unattributed"] == {"activities": 2, "launches_without_kernel": 0}
    assert "hidden_copy" in [finding["rule"] for finding in document["findings"]]
    assert document["verdict"]["bound"] == "gpu"
    assert main(["analyze", str(trace)]) == 0
    assert "5 kernels, 1 copies, 1 memsets" in capsys.readouterr().out


def test_analyze_refuses_what_is_no_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text('{"nodes": []}')
    assert "not a profiler trace" in refused(["analyze", str(tmp_path / "other.json")], capsys)
    assert "Cannot read" in refused(["analyze", str(tmp_path / "none.json")], capsys)


def test_occupancy_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    card = ["occupancy", "--registers", "255", "--block", "128", "--shared-memory", "49152"]
    assert main([*card, "--compute-capability", "8.0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    # 255 registers round to 256 x 32 per warp: 8 warps of 64 are resident.
    assert document["schema"] == 1 and document["occupancy"]["theoretical_pct"] == 12.5
    assert document["occupancy"]["limiters"] == ["registers"]
    assert "compute capability must be one of 7.0" in refused(
        [*card, "--compute-capability", "6.1"], capsys
    )
    assert "threads_per_block must be 1 to 1024, got 4096" in refused(
        ["occupancy", "--registers", "32", "--block", "4096", "--compute-capability", "9.0"], capsys
    )
    assert "registers must be a whole number" in refused(
        ["occupancy", "--registers", "many", "--block", "64", "--compute-capability", "9.0"], capsys
    )


def test_record_needs_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = str(tmp_path / "none" / "x.zip")
    assert "There is no folder" in refused(["record", "--out", out], capsys)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--help"])
    assert done.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("run", "analyze", "record", "occupancy"))
    assert sys.executable not in shown

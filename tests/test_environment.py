"""No GPU, a CPU build and an old driver are three different sentences."""

import pytest

from profiling.environment import cudnn_text, no_gpu_reason, probe


@pytest.mark.parametrize(
    ("cuda", "error", "said"),
    [
        (None, None, "build without CUDA"),
        ("13.0", "Found no NVIDIA driver on your system. Please check", "no NVIDIA GPU"),
        ("13.0", "No CUDA GPUs are available", "no NVIDIA GPU"),
        (
            "13.0",
            "The NVIDIA driver on your system is too old (found version 12020).",
            "driver is too old for this torch, which needs CUDA 13.0",
        ),
        ("13.0", "CUDA unknown error - this may\nbe", "CUDA could not start: CUDA unknown error"),
    ],
)
def test_why_there_is_no_gpu(cuda: str | None, error: str | None, said: str) -> None:
    reason = no_gpu_reason(cuda, "2.13.0", error)
    assert reason is not None
    assert said in reason and reason.endswith(".") and "\n" not in reason


def test_a_working_gpu_has_no_reason() -> None:
    assert no_gpu_reason("13.0", "2.13.0", None) is None


def test_cudnn_versions_read_as_people_write_them() -> None:
    assert cudnn_text(91900) == "9.19.0"
    assert cudnn_text(8902) == "8.9.2"
    assert cudnn_text(None) is None


def test_asking_for_the_cpu_shows_no_gpu() -> None:
    environment = probe("cpu")
    assert environment.gpu is None and environment.badge == "CPU"
    assert environment.no_gpu_reason == "The CPU was asked for."
    assert environment.cpu and environment.torch

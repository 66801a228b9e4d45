"""Where a run happens. Facts are probed in the process that runs it: elsewhere they can be invented
(on ZeroGPU the main process sees a GPU that is not there)."""

import platform
import subprocess
import warnings
from datetime import UTC, datetime
from pathlib import Path

import torch

from profiling.config import DeviceChoice
from profiling.outcome import Environment


def probe(device: DeviceChoice = "auto") -> Environment:
    """The GPU that would be used, or why there is none, and the versions of what runs below us."""
    reason = no_gpu_reason(torch.version.cuda, torch.__version__, _cuda_error())
    if device == "cpu":
        reason = "The CPU was asked for."
    common = {
        "cpu": cpu_model(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if reason is not None:
        return Environment(
            gpu=None,
            compute_capability=None,
            sm_count=None,
            gpu_memory_bytes=None,
            cuda=None,
            cudnn=None,
            driver=None,
            no_gpu_reason=reason,
            **common,
        )
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    return Environment(
        gpu=gpu.name,
        compute_capability=f"{gpu.major}.{gpu.minor}",
        sm_count=gpu.multi_processor_count,
        gpu_memory_bytes=gpu.total_memory,
        cuda=torch.version.cuda,
        cudnn=cudnn_text(torch.backends.cudnn.version()),
        driver=_driver_version(),
        no_gpu_reason=None,
        **common,
    )


def no_gpu_reason(torch_cuda: str | None, torch_version: str, cuda_error: str | None) -> str | None:
    """One sentence that tells the three cases apart: CPU build, no GPU, driver too old.

    `cuda_error` is what torch.cuda.init() said, None when it worked.
    """
    if torch_cuda is None:
        return f"This torch ({torch_version}) is a build without CUDA, so only the CPU can be used."
    if cuda_error is None:
        return None
    if "too old" in cuda_error:
        return (
            f"The NVIDIA driver is too old for this torch, which needs CUDA {torch_cuda}: update "
            "the driver or install a torch built for an earlier CUDA."
        )
    if "no NVIDIA driver" in cuda_error or "No CUDA GPUs" in cuda_error:
        return "This machine has no NVIDIA GPU that torch can see."
    return f"CUDA could not start: {first_line(cuda_error)}"


def first_line(text: str) -> str:
    """The first line, ended as a sentence."""
    line = text.strip().split("\n", 1)[0].strip()
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _cuda_error() -> str | None:
    if torch.version.cuda is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an old driver is told as a sentence, not as a warning
            torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return str(error)
    return None


def cpu_model() -> str:
    """Such as "Intel(R) Xeon(R) Platinum 8581C"; the architecture where nothing better is known."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def cudnn_text(version: int | None) -> str | None:
    """91900 as "9.19.0", 8902 as "8.9.2": cuDNN counts 10,000 per major version from 9 on."""
    if version is None:
        return None
    unit = 10_000 if version >= 90_000 else 1000
    return f"{version // unit}.{version % unit // 100}.{version % 100}"


def _driver_version() -> str | None:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.split("\n", 1)[0].strip() or None

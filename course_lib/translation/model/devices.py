"""Selection of a GPU or the CPU, and facts about the selected device: its name and its peak memory."""

import re
import sys
from pathlib import Path

import torch

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import TrainingConfig
from course_lib.translation.distributed import DistributedInfo


def device_named(name: str | torch.device) -> torch.device:
    """Return the device with this name; `auto` is a GPU if there is one, and the CPU otherwise.

    Raises BadInputError if there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise BadInputError(f"device: expected cpu, cuda or auto, got {name}.")
    if device.type == "cpu":
        return device
    if not torch.cuda.is_available():
        raise BadInputError("device: there is no GPU on this machine. Use cpu or auto.")
    count = torch.cuda.device_count()
    if (device.index or 0) >= count:
        raise BadInputError(f"device: {name} does not exist. The last GPU here is cuda:{count - 1}.")
    _require_kernels(device)
    return device


def _require_kernels(device: torch.device) -> None:
    """Raise BadInputError if this build of PyTorch has no kernels for a GPU because the GPU is too old."""
    built_for = [
        int(found[1]) for arch in torch.cuda.get_arch_list() if (found := re.match(r"sm_(\d+)", arch))
    ]
    major, minor = torch.cuda.get_device_capability(device)
    if built_for and 10 * major + minor < min(built_for):
        raise BadInputError(
            f"device: {torch.cuda.get_device_name(device)} has compute capability {major}.{minor}, but this "
            f"build of PyTorch (for CUDA {torch.version.cuda}) needs at least {min(built_for) / 10:.1f}. "
            "Install PyTorch 2.14 or older for CUDA 12.6, which has kernels for older GPUs (pip install "
            "torch==2.13.0+cu126 --index-url https://download.pytorch.org/whl/cu126), or use the CPU."
        )


def choose_device(config: TrainingConfig, distributed: DistributedInfo) -> torch.device:
    """Return the device for this rank: its own GPU, which becomes PyTorch's current device, or the CPU.

    Raises BadInputError if a GPU is required but missing, if PyTorch can't use this machine's GPU and
    `config.device` isn't cpu, or if there are fewer GPUs than local ranks.
    """
    if config.device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        problem = _gpu_problem()
        if config.device == "auto" and problem is None:
            return torch.device("cpu")
        raise BadInputError(
            f"training.device: there is no GPU that PyTorch can use ({problem or 'none was found'}). "
            "Set training.device=cpu to train without one."
        )
    gpus = torch.cuda.device_count()
    if distributed.local_world_size > gpus:
        raise BadInputError(
            f"training.device: {distributed.local_world_size} processes on this machine need a GPU each, but "
            f"PyTorch finds only {gpus}. Start fewer processes, or set training.device=cpu."
        )
    device = device_named(f"cuda:{distributed.local_rank}")
    torch.cuda.set_device(device)
    return device


#: The file that contains the version of NVIDIA's driver.
DRIVER = Path("/proc/driver/nvidia/version")


def _gpu_problem() -> str | None:
    """Return the reason why PyTorch can't use this machine's GPU, such as an outdated driver.

    Return None if no driver is installed, or if no GPU is visible, as in a cluster job without GPUs.
    """
    if not DRIVER.is_file():
        return None
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        if "No CUDA GPUs are available" in str(error):
            return None
        reason = str(error).partition(". ")[0]
    else:
        reason = "unknown reason"
    driver = DRIVER.read_text("utf-8").splitlines()[0].removeprefix("NVRM version: ")
    return f"{reason}; driver: {driver}; PyTorch {torch.__version__}, built for CUDA {torch.version.cuda}"


def device_name(device: torch.device) -> str:
    """Return the name of a GPU, or "cpu" for the CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its pending operations."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def uses_gpu() -> bool:
    """Return whether this process uses a GPU."""
    return torch.cuda.is_available() and torch.cuda.is_initialized()


def peak_memory() -> int:
    """Return the peak memory of this process in bytes, on its GPU if it uses one; 0 if unknown."""
    if uses_gpu():
        return torch.cuda.max_memory_allocated()
    try:
        import resource
    except ImportError:  # Windows doesn't have this module.
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS reports bytes, Linux kibibytes.

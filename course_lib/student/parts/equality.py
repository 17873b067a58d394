"""Does a model of the student's parts compute what the reference does? If not, which part is it?

The same weights are put into both, and everything that the parts have to say is compared. Where something
differs, fewer and fewer of the student's parts are tried among the reference's, down to a single one that
still makes a difference.
"""

import io
import warnings
from contextlib import redirect_stdout

import torch
from torch import Tensor

from course_lib.student.parts.assembly import Parts
from course_lib.student.parts.cell import said
from course_lib.student.parts.errors import PartsError
from course_lib.student.parts.observation import Observed, observe
from course_lib.time_limit import OutOfTime, time_limit

#: How far two numbers may lie apart, relative to the largest: a right part may hold a float32 constant.
TOLERANCE = 1e-6
#: A gradient sums over all positions, and with it the differences.
TOLERANCE_OF_GRADIENTS = 1e-4
#: And where all is computed in float32, whose rounding depends on the order of sums.
TOLERANCE_OF_FLOAT32 = 1e-3

_SECONDS = 10.0


def unequal_parts(parts: Parts, device: torch.device | str = "cpu") -> dict[str, str]:
    """Say which of the student's parts break equality with the reference, and how; none where all is equal.

    A part alone may be right and yet break what others rely on: then the first is named with which, added
    in the order of the lessons, the model differs. `device` is where both are run.
    """
    device = torch.device(device)
    with torch.random.fork_rng(devices=[]):
        expected = dict(observe(parts.only(()), device))
    if not _differs(expected, parts, device):
        return {}
    if alone := _alone(expected, parts, parts.yours, device):
        return alone
    for count in range(2, len(parts.yours) + 1):
        if how := _differs(expected, parts.only(parts.yours[:count]), device):
            return {parts.yours[count - 1]: f"alone it is right; together with your earlier parts {how}"}
    raise AssertionError("all of the student's parts together differ, as was seen above")


def _alone(expected: Observed, parts: Parts, names: list[str], device: torch.device) -> dict[str, str]:
    """Find those that differ alone: halve the list until one is left, and look no further where none does."""
    how = _differs(expected, parts.only(names), device) if names else ""
    if not how or len(names) == 1:
        return dict.fromkeys(names, how) if how else {}
    half = len(names) // 2
    return _alone(expected, parts, names[:half], device) | _alone(expected, parts, names[half:], device)


def _differs(expected: Observed, parts: Parts, device: torch.device) -> str:
    """Say what differs first, or nothing."""
    try:
        with (
            time_limit(_SECONDS),
            redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
            torch.random.fork_rng(devices=[]),
        ):
            warnings.simplefilter("ignore")
            differences = (_difference(name, expected[name], found) for name, found in observe(parts, device))
            return next(filter(None, differences), "")
    except OutOfTime:
        return f"it does not come back within {_SECONDS:g} seconds"
    except PartsError as error:
        return str(error)
    except NameError as error:
        return f"it raises {said(error)}; move what it needs into the solution cell"
    except Exception as error:
        return f"it raises {said(error)}"


def _difference(name: str, expected: Tensor, found: object) -> str:
    if not isinstance(found, Tensor):
        return f"{name}: a tensor is expected, and there is {type(found).__name__}"
    if found.shape != expected.shape:
        return f"{name}: shape {tuple(expected.shape)} is expected, and it is {tuple(found.shape)}"
    if found.dtype != expected.dtype:
        return f"{name}: {expected.dtype} is expected, and it is {found.dtype}"
    if found.device != expected.device:
        return f"{name}: it should stand on {expected.device.type}, and stands on {found.device.type}"
    left, right = expected.detach().double(), found.detach().double()
    largest = float(left.abs().max()) if left.numel() else 0.0
    within = TOLERANCE_OF_GRADIENTS if name.startswith("the gradient") else TOLERANCE
    if name.endswith("float32"):
        within = TOLERANCE_OF_FLOAT32
    if torch.allclose(right, left, rtol=within, atol=within * max(largest, 1e-6)):
        return ""
    return f"{name}: it is off by up to {float((left - right).abs().max()):.2g}"

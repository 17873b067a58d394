"""Plain facts about the relation between a wrong result and the expected one.

Every sentence is computed from the two results, so it is true of this test, whatever the cause.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise, permutations

import torch
from torch import Tensor

from course_lib.checks.engine.comparison import NO_ARGUMENTS, TOLERANCE, Arguments
from course_lib.checks.engine.reply import Text, Value, value_of

#: The tolerance for equality in this module, relative to the largest number.
_NEAR = 1e-5

#: Axes longer than this are not searched for a reordering.
_MAX_AXIS = 64


def relation(expected: Value, found: Value, arguments: Arguments = NO_ARGUMENTS) -> str:
    """Return a sentence about how the found value relates to the expected one, or "" if nothing is obvious.

    `arguments` are the arguments of the call to the student's code.
    """
    expected, found = value_of(expected), value_of(found)
    if isinstance(expected, Text) and isinstance(found, Text):
        return _of_words(expected, found)
    parts = _of_parts(expected, found)
    if parts:
        return parts
    one, other = _tensor(expected), _tensor(found)
    if one is None or other is None or one.device != other.device or one.is_complex() or other.is_complex():
        return ""
    is_number = isinstance(expected, int | float) and not isinstance(expected, bool)
    if is_number and isinstance(found, Tensor) and _equal(one, other):
        return "The value is right, but it must be a Python number: call `.item()`."
    if isinstance(expected, Tensor) != isinstance(found, Tensor) and _equal(one, other):
        return "Apart from the type, every number is right."
    if isinstance(expected, Tensor) and not isinstance(found, Tensor) and one.shape != other.shape:
        return ""  # A sentence about the shape alone would ignore the type.
    if not isinstance(expected, Tensor) and one.dtype == torch.bool:
        return ""  # Each boolean states a separate fact, so a sentence about all of them would say little.
    tensors = ((arguments.name(number), _tensor(value)) for number, value in enumerate(arguments.values))
    inputs = {name: tensor for name, tensor in tensors if tensor is not None}
    return next(_of_tensors(one, other, inputs), "")


def _tensor(value: Value) -> Tensor | None:
    """Convert a number, or a tuple or dict of numbers, to a tensor.

    A tensor on the CPU is returned unchanged. Returns None for anything else.
    """
    if isinstance(value, Tensor):
        return value if value.device.type == "cpu" else None
    if isinstance(value, dict):
        value = tuple(value.values())
    try:
        return torch.tensor(value, dtype=None if _is_whole(value) else torch.float64)
    except (ValueError, TypeError, RuntimeError):
        return None


def _is_whole(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_whole, value))
    return isinstance(value, int)


def _of_parts(expected: Value, found: Value) -> str:
    """Describe two results if one is an item of the other, or if they are the same pair in reverse order.

    Returns an empty string in all other cases.
    """
    if isinstance(expected, Tensor) and isinstance(found, tuple):
        for number, part in enumerate(found):
            if isinstance(part, Tensor) and _equal(expected, part):
                return f"The item at index {number} of your result is the expected result: return only that."
    if isinstance(expected, tuple) and isinstance(found, Tensor):
        for number, part in enumerate(expected):
            if isinstance(part, Tensor) and _equal(part, found):
                return f"Your result is only the item at index {number} of the {len(expected)} expected ones."
    if isinstance(expected, tuple) and isinstance(found, tuple) and len(expected) == len(found) == 2:
        tensors = all(isinstance(item, Tensor) for item in (*expected, *found))
        if tensors and _equal(expected[0], found[1]) and _equal(expected[1], found[0]):
            return "The two results are swapped."
    return ""


def _of_words(expected: Text, found: Text) -> str:
    left, right = expected.split(), found.split()
    if len(left) < 3:
        return ""
    if sorted(left) == sorted(right):
        return "The words are the expected ones, in a different order."
    missing = [word for word in left if word not in right]
    added = [word for word in right if word not in left]
    facts = [f"Missing: {', '.join(missing[:5])}."] if missing else []
    facts += [f"Unexpected: {', '.join(added[:5])}."] if added else []
    common = len(set(left) & set(right))
    is_similar = 2 * common >= len(set(left))
    return " ".join(facts) if is_similar else ""


def _of_tensors(expected: Tensor, found: Tensor, inputs: Mapping[str, Tensor]) -> Iterator[str]:
    if not expected.numel() or not found.numel():
        if found.numel() == 0 and expected.numel():
            yield "Your result is empty."
        return
    if expected.shape != found.shape:
        yield from _unchanged(found, inputs)
        yield from _of_shapes(expected, found)
        return
    if expected.dtype == found.dtype and _equal(expected, found):
        return
    rounding = max(TOLERANCE.get(dtype, _NEAR) for dtype in (expected.dtype, found.dtype))
    if expected.dtype != found.dtype and _equal(expected, found, rounding):
        yield "Apart from the dtype, every number is right."
    if expected.dtype == torch.bool and found.dtype == torch.bool:
        if expected.numel() == 1:
            return
        yield from _of_truth_values(expected, found)
    elif expected.dtype == torch.bool:
        for fact, other in {"right": expected, "the opposite of the expected one": ~expected}.items():
            if _equal(other.to(found.dtype), found):
                yield f"Apart from the dtype, every value is {fact}."
        return
    if expected.numel() == 1 and not expected.is_floating_point():
        return  # Counts are too small for a relation between them to mean anything.
    left, right = expected.double(), found.double()
    if not (left.isfinite().all() and right.isfinite().all()):
        yield from _invalid(left, right, inputs)
        return
    yield from _whole(left, right, inputs)
    yield from _reordered(left, right)
    yield from _masked(left, right, inputs)
    yield from _by_rows(left, right)
    yield from _where(left, right)


def _invalid(expected: Tensor, found: Tensor, inputs: Mapping[str, Tensor]) -> Iterator[str]:
    """Describe unexpected NaN and infinite numbers, if there are any."""
    for name, bad in (("NaN", found.isnan()), ("infinite", found.isinf())):
        bad &= expected.isfinite()
        if not bad.any():
            continue
        if bad.all():
            yield f"Every number of your result is {name}."
        else:
            number, verb = int(bad.sum()), "is" if bad.sum() == 1 else "are"
            count = f"{number} of the {bad.numel()} numbers in your result {verb} {name}"
            yield f"{count}{_hidden(bad, inputs)}."


def _hidden(wrong: Tensor, inputs: Mapping[str, Tensor]) -> str:
    """Return a clause on how a mask among the inputs selects the wrong numbers, or an empty string."""
    for mask in (item for item in inputs.values() if item.dtype == torch.bool):
        try:
            empty = ~mask.any(-1, keepdim=True).expand(*mask.shape)
            rows = empty[..., :1].expand_as(wrong) if mask.dim() == wrong.dim() else None
            if rows is not None and rows.any() and not rows.all() and not (wrong & ~rows).any():
                return ", all of them in rows that are masked entirely"
            hidden = (~mask).expand_as(wrong)
            if hidden.any() and not hidden.all():
                if not (wrong & ~hidden).any():
                    return ", all of them where the mask is False"
                if not (wrong & hidden).any():
                    return ", all of them where the mask is True"
        except RuntimeError:  # The mask doesn't have a shape that fits.
            continue
    return ""


def _of_truth_values(expected: Tensor, found: Tensor) -> Iterator[str]:
    if torch.equal(expected, ~found):
        yield "Every truth value is inverted."
        return
    if found.all() or not found.any():
        yield f"Every value of your result is {bool(found.all())}."
        return
    yield from _swapped(expected, found)
    more, less = int((found & ~expected).sum()), int((expected & ~found).sum())
    if not more or not less:
        count = more or less
        values = f"{count} {'value is' if count == 1 else 'values are'}"
        region = _region(found != expected)
        yield f"{values} {bool(more)} but should be {not more}; the others are right.{region}"


def _unchanged(found: Tensor, inputs: Mapping[str, Tensor]) -> Iterator[str]:
    for name, item in inputs.items():
        if item.shape == found.shape and _varied(item) and _equal(item, found):
            yield f"Your result equals {name}, unchanged."


def _whole(expected: Tensor, found: Tensor, inputs: Mapping[str, Tensor]) -> Iterator[str]:
    """Describe relations that hold for every number, such as a constant factor or the opposite sign."""
    if expected.numel() == 1:
        return
    if _varied(expected) and not _varied(found):
        yield f"Every number of your result is {_number(found.flatten()[0].item())}."
    yield from _unchanged(found, inputs)
    if not _varied(expected):
        return
    if _equal(-expected, found):
        yield "Every number has the opposite sign."
    if _equal(expected.clamp(min=0), found):
        yield "Your result is the expected one with every negative number replaced by 0."
    if (factor := _factor(expected, found)) is not None:
        yield f"Every number is the expected one {_times(factor)}."
    if (offset := _offset(expected, found)) is not None:
        yield f"Every number is the expected one {'plus' if offset > 0 else 'minus'} {_number(abs(offset))}."
    for name, item in inputs.items():
        if item.shape == found.shape and _varied(item) and item.is_floating_point():
            if _equal(expected + item.double(), found):
                yield f"Your result is the expected one plus {name}."
            elif _equal(expected - item.double(), found):
                yield f"Your result is the expected one minus {name}."


def _reordered(expected: Tensor, found: Tensor) -> Iterator[str]:
    """Describe how the numbers are reordered: by swapped axes, by moved or repeated slices, or completely."""
    if not _varied(expected):
        return
    yield from _swapped(expected, found)
    for axis, size in enumerate(expected.shape):
        if not 2 <= size <= _MAX_AXIS or (expected.numel() / size < 2 and size < 4):
            continue
        left, right = (tensor.movedim(axis, 0).reshape(size, -1) for tensor in (expected, found))
        near = _NEAR * max(1e-6, float(left.abs().max()))
        distances = (left.unsqueeze(1) - right.unsqueeze(0)).abs().amax(-1)  # axes: expected, found
        if not (distances <= near).any(0).all():
            continue
        sources = [int(column) for column in distances.argmin(0)]
        # A correct slice stays matched to itself, even if another slice is equal.
        sources = [i if distances[i, i] <= near else source for i, source in enumerate(sources)]
        if sources == list(range(size)):
            continue
        if sources == list(range(size))[::-1]:
            yield f"Along axis {axis}, your result is in reverse order."
        elif shift := _shift(sources):
            yield f"Along axis {axis}, your result is shifted by {shift}."
        elif len(set(sources)) == 1:
            yield f"Along axis {axis}, all slices of your result equal the expected slice {sources[0]}."
        elif len(set(sources)) == size:
            order = f": {sources}" if size <= 8 else ""
            yield f"Along axis {axis}, your result holds the expected slices in a different order{order}."
    one, other = expected.flatten().sort().values, found.flatten().sort().values
    if expected.numel() >= 6 and expected.unique().numel() > 3 and _equal(one, other):
        yield "Your result holds exactly the expected numbers, in a different order."


def _swapped(expected: Tensor, found: Tensor) -> Iterator[str]:
    for one, other in combinations(range(expected.dim()), 2):
        square = expected.shape[one] == expected.shape[other] > 1
        if square and _equal(expected.transpose(one, other), found):
            yield f"Your result is the expected one with axes {one} and {other} swapped."


def _shift(sources: Sequence[int]) -> int:
    """Return the number of positions by which all slices are shifted cyclically, or 0 if they are not."""
    size, shift = len(sources), -sources[0] % len(sources)
    moved = all((position - shift) % size == source for position, source in enumerate(sources))
    return shift if moved else 0


def _by_rows(expected: Tensor, found: Tensor) -> Iterator[str]:
    """Describe factors or offsets that are constant along one axis and differ from row to row."""
    if expected.dim() < 2:
        return
    for axis in reversed(range(expected.dim())):
        size = expected.shape[axis]
        if size < 3 or expected.numel() == size:
            continue
        is_last = axis == expected.dim() - 1
        name = (
            "Each row is the expected one"
            if is_last
            else f"Along axis {axis}, your numbers are the expected ones"
        )
        a_constant = "its own constant" if is_last else "a constant, which depends on the other axes"
        a_factor = a_constant.replace("constant", "factor")
        offsets = found - expected
        spread = (offsets.amax(axis) - offsets.amin(axis)).max()
        if spread <= _NEAR * max(1e-6, float(expected.abs().max())) and _varied(expected):
            low, high = _number(float(offsets.min())), _number(float(offsets.max()))
            yield f"{name} plus {a_constant} (from {low} to {high})."
        zero = expected.abs() <= 1e-9 * expected.abs().max()
        if (zero & (found.abs() > _NEAR)).any():
            continue
        ratios = torch.where(zero, torch.nan, found / expected)
        if ratios.isnan().float().mean() > 0.5:
            continue
        highest = ratios.nan_to_num(-math.inf).amax(axis)
        lowest = ratios.nan_to_num(math.inf).amin(axis)
        full = highest.isfinite()
        if full.any() and ((highest - lowest)[full].abs() <= _NEAR * highest[full].abs()).all():
            low, high = _number(float(lowest[full].min())), _number(float(highest[full].max()))
            yield f"{name} times {a_factor} (from {low} to {high})."


def _masked(expected: Tensor, found: Tensor, inputs: Mapping[str, Tensor]) -> Iterator[str]:
    """Describe the wrong numbers if a mask among the inputs selects them."""
    wrong = ~_close(expected, found)
    if wrong.any() and not wrong.all() and (hidden := _hidden(wrong, inputs)):
        zeros = " There, yours are all 0." if not found[wrong].any() else ""
        yield f"All wrong numbers are {hidden.removeprefix(', all of them ')}.{zeros}"


def _where(expected: Tensor, found: Tensor) -> Iterator[str]:
    """Describe what the wrong numbers have in common and where they are, if other numbers are correct."""
    wrong = ~_close(expected, found)
    if wrong.all() or not wrong.any():
        return
    if not found[wrong].any():
        yield f"Every number that is wrong is 0 in your result.{_region(wrong)}"
    elif not expected[wrong].any():
        yield f"Every number that is wrong should be 0.{_region(wrong)}"
    elif (factor := _factor(expected[wrong], found[wrong])) is not None:
        yield f"Every number that is wrong is the expected one {_times(factor)}.{_region(wrong)}"
    if region := _region(wrong):
        yield region.strip()


def _region(wrong: Tensor) -> str:
    """Return a sentence that lists the wrong slices along the axis with the smallest share of them.

    Returns an empty string if a single element or most slices are wrong, or if the list would be long.
    """
    if wrong.sum() == 1:
        return ""
    best: tuple[float, str] = (0.8, "")
    for axis, size in enumerate(wrong.shape):
        others = [other for other in range(wrong.dim()) if other != axis]
        hit = wrong.amax(others) if others else wrong
        share = float(hit.float().mean())
        if share < best[0] and size > 1:
            indices = [int(index) for index in hit.nonzero()]
            run = len(indices) > 2 and all(b - a == 1 for a, b in pairwise(indices))
            if run:
                text = f"{indices[0]} to {indices[-1]}"
            elif len(indices) <= 8:
                text = ", ".join(map(str, indices))
            else:
                continue
            of_axis = f" of axis {axis}, which has size {size}" if wrong.dim() > 1 else f" of {size}"
            noun = "index" if len(indices) == 1 else "indices"
            best = share, f" The wrong elements are all at {noun} {text}{of_axis}."
    return best[1]


def _of_shapes(expected: Tensor, found: Tensor) -> Iterator[str]:
    """Describe the relation between two results of different shapes."""
    if expected.dtype.is_floating_point != found.dtype.is_floating_point:
        return
    left, right = expected.double(), found.double()
    if left.numel() == right.numel():
        for order in permutations(range(right.dim())) if 1 < right.dim() < 5 else ():
            if list(order) == sorted(order):
                continue
            moved = right.permute(order)
            if moved.shape == left.shape and _equal(left, moved):
                yield "With its axes in the expected order, every number is right."
        if left.numel() > 1 and _equal(left.flatten(), right.flatten()):
            yield "The numbers are the expected ones, in the same order: only the shape is wrong."
        return
    if left.dim() == right.dim():
        axes = [axis for axis in range(left.dim()) if left.shape[axis] != right.shape[axis]]
        if len(axes) == 1 and left.numel() > 1:
            yield from _of_lengths(left, right, axes[0])
        return
    if right.dim() == left.dim() - 1:
        for axis in range(left.dim()):
            if left.sum(axis).shape != right.shape:
                continue
            if _equal(left.sum(axis), right):
                yield f"Your result is the expected one, summed over axis {axis}."
            elif _equal(left.mean(axis), right):
                yield f"Your result is the expected one, averaged over axis {axis}."
            for index in range(left.shape[axis]):
                if _equal(left.select(axis, index), right):
                    yield f"Your result is the slice of the expected one at index {index} of axis {axis}."


def _of_lengths(expected: Tensor, found: Tensor, axis: int) -> Iterator[str]:
    """Describe the relation between two results that differ in the length of one axis."""
    long, short = expected.shape[axis], found.shape[axis]
    least = min(long, short)
    what = f" along axis {axis}" if expected.dim() > 1 else ""
    for name, start in {"first": 0, "last": -least}.items():
        left = expected.narrow(axis, start % long, least)
        right = found.narrow(axis, start % short, least)
        if not _equal(left, right):
            continue
        if short < long:
            part = name if short == 1 else f"{name} {short}"
            yield f"Your result is only the {part} of the {long} expected elements{what}."
        else:
            where = "start" if name == "last" else "end"
            more = "1 more element" if short == long + 1 else f"{short - long} more elements"
            yield f"Your result is the expected one with {more}{what}, at the {where}."


def _factor(expected: Tensor, found: Tensor) -> float | None:
    largest = int(expected.abs().argmax())
    scale = float(expected.flatten()[largest])
    if not scale or (expected.unique().numel() < 3 and expected.numel() < 6):
        return None
    factor = float(found.flatten()[largest]) / scale
    plain = abs(factor - 1) > 1e-4 and abs(factor) > 1e-9
    return factor if plain and _equal(expected * factor, found) else None


def _offset(expected: Tensor, found: Tensor) -> float | None:
    offset = float((found - expected).mean())
    largest = float(expected.abs().max())
    if abs(offset) <= 1e-4 * largest or expected.unique().numel() < 2 or expected.numel() < 3:
        return None
    return offset if _equal(expected + offset, found) else None


def _times(factor: float) -> str:
    """Format a factor as text, such as "times √8, about 2.828" or "divided by 3"."""
    verb, size = ("times", factor) if abs(factor) >= 1 else ("divided by", 1 / factor)
    square = round(size**2)
    is_root = 2 <= square <= 4096 and math.isclose(size**2, square, rel_tol=1e-5) and size > 0
    if is_root and math.isqrt(square) ** 2 != square:
        return f"{verb} √{square}, about {size:.4g}"
    return f"{verb} {_number(size)}"


def _number(value: float) -> str:
    return f"{value + 0.0:.6g}"


def _varied(tensor: Tensor) -> bool:
    return tensor.numel() > 1 and bool((tensor != tensor.flatten()[0]).any())


def _close(one: Tensor, other: Tensor, near: float = _NEAR) -> Tensor:
    largest = float(one.abs().max())
    return torch.isclose(other, one, rtol=near, atol=near * max(largest, 1e-6))


def _equal(one: Tensor, other: Tensor, near: float = _NEAR) -> bool:
    if one.shape != other.shape or one.device != other.device or one.is_complex() or other.is_complex():
        return False
    if not one.numel():
        return True
    one, other = one.double(), other.double()
    return bool(one.isfinite().all()) and bool(_close(one, other, near).all())

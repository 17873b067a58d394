"""Requests that the probes of several lessons make."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate, Fixture
from course_lib.checks.engine.comparison import GradientName
from course_lib.checks.engine.probe import Draw, Observed
from course_lib.checks.engine.reply import Raised, Reply, Returned, first_failure, value_of
from course_lib.checks.exercises.fixtures.devices import on_a_gpu
from course_lib.checks.exercises.fixtures.results import (
    after_an_update,
    after_another_call,
    as_number,
    gradients_afterwards,
    without_gradients,
)

Weights = Mapping[str, Tensor]

#: The description of probes that call the student's code as if it were on a GPU.
DEVICE = "everything is on the device of the inputs"

#: The description of probes that use `call_after_another`.
SECOND_CALL = "a second call with different numbers has its own result, even if the first one was overwritten"


def call_with_normals(
    candidate: Candidate, draw: Draw, *arguments: int | tuple[int, ...], dtype: torch.dtype = torch.float64
) -> Reply:
    """Call a function. Each tuple of sizes becomes a tensor of normally distributed numbers."""
    return candidate.call(
        *(draw.normal(*one, dtype=dtype) if isinstance(one, tuple) else one for one in arguments)
    )


def call_after_another(candidate: Candidate, draw: Draw, *arguments: int | tuple[int, ...]) -> Reply:
    """Call a function twice with new numbers of the same shapes, and return the second reply.

    Each tuple of sizes becomes a tensor of normally distributed numbers. The first result is overwritten
    before the second call, as a caller could do.
    """
    first, second = (
        tuple(draw.normal(*one) if isinstance(one, tuple) else one for one in arguments) for _ in range(2)
    )
    return candidate.fixture(after_another_call(candidate)).call(first, *second)


def called_on_a_gpu(candidate: Candidate, *arguments: object) -> Reply:
    """Call a function or a module as if it and its arguments were on a GPU."""
    return candidate.fixture(on_a_gpu()).call(candidate, *arguments)


def called_on_a_gpu_with_normals(
    candidate: Candidate, draw: Draw, *arguments: int | tuple[int, ...]
) -> Reply:
    """Call a function as if its arguments were on a GPU.

    Each tuple of sizes becomes a tensor of normally distributed numbers.
    """
    return called_on_a_gpu(
        candidate, *(draw.normal(*one) if isinstance(one, tuple) else one for one in arguments)
    )


def in_double(candidate: Candidate, *sizes: object, **options: object) -> Candidate:
    """Build an instance of the student's module class with these arguments, and convert it to float64."""
    layer = candidate.build(*sizes, **options)
    layer.call(method="double")
    return layer


def round_trip(
    full: Candidate, empty: Candidate, weights: Weights, *arguments: object, through: Fixture | None = None
) -> Reply:
    """Load `weights` into `full`, load the state dict of `full` into `empty`, and call `empty`.

    Before its weights are replaced, `empty` is called once in evaluation mode, to reveal cached numbers that
    were computed from the old weights. Neither call records gradients, because some code caches numbers only
    in that case. If `through` is given, it is called instead of the module, with the module as its first
    argument. Returns the reply to the last call, or the failure if a state dict can't be loaded or read.
    """
    full.load(weights)
    empty.train(False)
    called = empty.fixture(without_gradients(through or empty))
    if through is not None:
        arguments = (empty, *arguments)
    called.call(*arguments)
    state = full.weights()
    if isinstance(state, Raised):
        return state
    return first_failure(empty.call(state.value, method="load_state_dict"), called.call(*arguments))


def updated(layer: Candidate, weights: Weights, toward: Tensor, *arguments: object) -> Reply:
    """Load weights into a module, call it, update its parameters, and return the reply to another call.

    `toward` is the gradient with respect to the result of the first call. If loading the weights fails,
    that failure is returned.
    """
    loaded = layer.load(weights)
    again = layer.fixture(after_an_update(layer))
    return first_failure(loaded, again.call(toward, *arguments))


def copied(layer: Candidate, weights: Weights, *arguments: object) -> Observed:
    """Load weights into a module, call it, copy it and set the copy's weights to zero. Then call both.

    Returns the replies to the last two calls. If loading the weights or the first call fails, returns only
    that failure.
    """
    layer.load(weights)
    used = layer.call(*arguments)
    if isinstance(used, Raised):
        return used
    copy = layer.copy()
    copy.load({name: torch.zeros_like(weight) for name, weight in weights.items()})
    return {"the original": layer.call(*arguments), "the copy": copy.call(*arguments)}


def gradients_of(reply: Reply, inputs: Sequence[str] = (), weights: Iterable[str] = ()) -> Observed:
    """Return the gradients of inputs and of weights, by name, from a reply to `Candidate.gradients`.

    `inputs` are names for the floating-point inputs, in order. A missing gradient is None. Other weights are
    ignored, because a student may add some.
    """
    if isinstance(reply, Raised):
        return reply
    arrived = dict(zip(inputs, reply.value["inputs"], strict=False))
    arrived |= {name: reply.value["weights"].get(name) for name in weights}
    return {GradientName(f"the gradient of {name}"): gradient for name, gradient in arrived.items()}


def gradients_after_calls(function: Candidate, *arguments: object) -> dict[str, Observed]:
    """Call a function with gradients on and with gradients off. Report their state after each call."""
    return {
        f"the gradients afterwards, if they are {state} before": value_of(
            function.fixture(gradients_afterwards(state == "on")).call(function, *arguments)
        )
        for state in ("on", "off")
    }


def drops_with(probability: float, kept: Tensor) -> bool:
    """Return whether the share of kept elements is close to 1 - `probability`."""
    return abs(float(kept.double().mean()) - (1 - probability)) < 0.1


def mode_afterwards(model: Candidate) -> dict[str, str]:
    """Report the mode of a model: training, evaluation, or mixed if its modules differ or can't be read."""
    reply = model.modes()
    found = reply.value.values() if isinstance(reply, Returned) else ()
    # A student's code may have set `training` to anything.
    modes = {bool(mode) if isinstance(mode, int) else None for mode in found}
    known = {True: "training", False: "evaluation", None: "mixed"}
    return {"the mode afterwards": known[modes.pop()] if len(modes) == 1 else "mixed"}


def numbers(candidate: Candidate, calls: Mapping[str, tuple[float, ...]], **keywords: Any) -> Observed:
    """Call a function with each tuple of arguments in `calls`. Return the results under the same names.

    `keywords` are passed to every call. Results that are numbers are converted to floats. If a call raises an
    exception, only that reply is returned.
    """
    function = candidate.fixture(as_number(candidate))
    found: dict[str, Observed] = {}
    for name, arguments in calls.items():
        reply = function.call(*arguments, **keywords)
        if isinstance(reply, Raised):
            return reply
        found[name] = reply.value
    return found

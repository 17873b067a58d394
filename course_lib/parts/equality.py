"""Does a model of the student's parts compute what the reference does? If not, which part is it?

The same weights are put into both, in float64, and everything that the parts have to say is compared: logits,
gradients, tied weights, decoded tokens, learning rates, the loss. Where something differs, fewer and fewer of
the student's parts are tried among the reference's, down to a single one that still makes a difference.
"""

import io
import warnings
from contextlib import redirect_stdout
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from course_lib.parts.assembly import Parts
from course_lib.parts.cell import said
from course_lib.parts.errors import PartsError
from course_lib.parts.model import build_transformer
from course_lib.time_limit import OutOfTime, time_limit
from course_lib.transformer import Transformer, TransformerConfig

#: How far two numbers may lie apart, relative to the largest: a right part may hold a float32 constant.
TOLERANCE = 1e-6

_VOCAB, _PAD, _START, _END = 11, 0, 1, 2
_SIZES: dict[str, Any] = {"layers": 2, "d_model": 8, "heads": 2, "d_ff": 16, "dropout": 0.0}
_SECONDS = 10.0
#: A generator may do without a bias; where it has one, it is set to zero.
_MAY_LACK = "generator.bias"

Observed = dict[str, Tensor]


def unequal_parts(parts: Parts) -> dict[str, str]:
    """Say which of the student's parts break equality with the reference, and how; none where all is equal.

    A part alone may be right and yet break what others rely on: then the first is named with which, added
    in the order of the lessons, the model differs.
    """
    expected = _observe(parts.only(()))
    if not _differs(expected, parts):
        return {}
    if alone := _alone(expected, parts, parts.yours):
        return alone
    for count in range(2, len(parts.yours) + 1):
        if how := _differs(expected, parts.only(parts.yours[:count])):
            return {parts.yours[count - 1]: f"alone it is right; together with your earlier parts {how}"}
    raise AssertionError("all of the student's parts together differ, as was seen above")


def _alone(expected: Observed, parts: Parts, names: list[str]) -> dict[str, str]:
    """Find those that differ alone: halve the list until one is left, and look no further where none does."""
    how = _differs(expected, parts.only(names)) if names else ""
    if not how or len(names) == 1:
        return dict.fromkeys(names, how) if how else {}
    half = len(names) // 2
    return _alone(expected, parts, names[:half]) | _alone(expected, parts, names[half:])


def _differs(expected: Observed, parts: Parts) -> str:
    """Say what differs first, or nothing."""
    try:
        with time_limit(_SECONDS), redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _observe(parts)
    except OutOfTime:
        return f"it does not come back within {_SECONDS:g} seconds"
    except PartsError as error:
        return str(error)
    except NameError as error:
        return f"it raises {said(error)}; move what it needs into the solution cell"
    except Exception as error:
        return f"it raises {said(error)}"
    return next((how for name in expected if (how := _difference(name, expected[name], found[name]))), "")


def _difference(name: str, expected: Tensor, found: object) -> str:
    if not isinstance(found, Tensor):
        return f"{name}: a tensor is expected, and there is {type(found).__name__}"
    if found.shape != expected.shape:
        return f"{name}: shape {tuple(expected.shape)} is expected, and it is {tuple(found.shape)}"
    if found.dtype != expected.dtype:
        return f"{name}: {expected.dtype} is expected, and it is {found.dtype}"
    left, right = expected.detach().double(), found.detach().double()
    largest = float(left.abs().max()) if left.numel() else 0.0
    if torch.allclose(right, left, rtol=TOLERANCE, atol=TOLERANCE * max(largest, 1e-6)):
        return ""
    return f"{name}: it is off by up to {float((left - right).abs().max()):.2g}"


def _observe(parts: Parts) -> Observed:
    """Let the parts do all that they are for, and write down what comes out."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        source, target = _sentences()
        source_mask = parts["padding_mask"](source, _PAD)
        decoder_input, labels = parts["shift_target"](target)
        batch = (source, source_mask, decoder_input, parts["decoder_mask"](decoder_input, _PAD))
        seen: Observed = {}
        for norm_first in (False, True):
            kind = "pre-norm" if norm_first else "post-norm"
            model = _with_weights(parts, norm_first)
            logits = model(*batch)
            seen[f"the logits, {kind}"] = logits
            seen |= _gradients(parts, model, logits, labels, kind)
        # With pre-norm and large weights a model answers to every token that it reads.
        ids = parts["greedy_decode"](model, source, source_mask, 9, _START, _END)
        # Once more with an end symbol that comes soon, so that sentences end at different steps.
        soon = int(ids[0, 2])
        seen["the tokens of greedy_decode, up to their ends"] = parts["greedy_decode"](
            model, source, source_mask, 9, _START, soon
        )
        tied = parts["tie_embeddings"](model)
        with torch.no_grad():
            tied.source_embedding.table.weight.copy_(tied.source_embedding.table.weight.flip(0))
            seen["the logits with tied embeddings"] = tied(*batch)
        return seen | {"the tokens of greedy_decode": ids} | _of_training(parts, labels)


def _sentences() -> tuple[Tensor, Tensor]:
    """Four sources and targets, filled up with padding."""
    source = torch.randint(3, _VOCAB, (4, 7))
    target = torch.randint(3, _VOCAB, (4, 6))
    target[:, 0] = _START
    for tokens, lengths in ((source, (7, 5, 3, 6)), (target, (6, 4, 5, 3))):
        for row, length in enumerate(lengths):
            tokens[row, length - 1] = _END
            tokens[row, length:] = _PAD
    return source, target


@cache
def _weights(norm_first: bool) -> dict[str, Tensor]:
    """Draw weights for the reference's model, large enough that each part makes itself felt."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = Transformer(_VOCAB, _VOCAB, TransformerConfig(**_SIZES, norm_first=norm_first)).double()
        return {
            name: entry * 2.0 if entry.dim() > 1 else entry + 0.3 * torch.randn_like(entry)
            for name, entry in model.state_dict().items()
            if name != _MAY_LACK
        }


def _with_weights(parts: Parts, norm_first: bool) -> Any:
    config = TransformerConfig(**_SIZES, norm_first=norm_first)
    model = build_transformer(parts, _VOCAB, _VOCAB, config).double()
    lacking = model.load_state_dict(_weights(norm_first), strict=False).unexpected_keys
    if (bias := model.state_dict().get(_MAY_LACK)) is not None:
        bias.zero_()
    if lacking:
        raise PartsError(f"the model has no weight called {lacking[0]}; attributes keep the lesson's names")
    return model


def _gradients(parts: Parts, model: nn.Module, logits: Tensor, labels: Tensor, kind: str) -> Observed:
    """Send a loss back: that of lesson 08 where it is among the parts, else plain numbers."""
    if "LabelSmoothingLoss" in parts:
        loss = parts["LabelSmoothingLoss"](_VOCAB, _PAD, 0.1)(logits, labels)
    else:
        loss = (logits * torch.linspace(-1.0, 1.0, logits.numel(), dtype=logits.dtype).view_as(logits)).sum()
    loss.backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {f"the loss, {kind}": loss} | {
        f"the gradient of {name}, {kind}": _there(found.get(name)) for name in _weights(kind == "pre-norm")
    }


def _there(gradient: Tensor | None) -> Tensor:
    """Give a gradient, or no numbers at all where none has arrived."""
    return torch.empty(0, dtype=torch.float64) if gradient is None else gradient


def _of_training(parts: Parts, labels: Tensor) -> Observed:
    """Use what lessons 07 and 08 make, where it is among the parts."""
    seen: Observed = {}
    if "make_scheduler" in parts:
        rates = [float(parts["learning_rate"](step, 512, 4)) for step in range(1, 9)]
        seen["the learning rates"] = torch.tensor(rates, dtype=torch.float64)
        optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        scheduler = parts["make_scheduler"](optimizer, 512, 4)
        used = []
        for _ in range(8):
            used.append(float(optimizer.param_groups[0]["lr"]))
            optimizer.step()
            scheduler.step()
        seen["the rates that the scheduler sets"] = torch.tensor(used, dtype=torch.float64)
    if "smooth_targets" in parts:
        seen["the smoothed targets"] = parts["smooth_targets"](labels, _VOCAB, _PAD, 0.1)
    return seen

"""Compare a model built from a student's parts with the reference, and find the parts that differ.

Both models get the same weights, and everything that the parts compute is compared, such as logits, loss,
gradients, tied weights, decoded tokens and learning rates. If something differs, a binary search finds the
parts that cause a difference on their own. The computation uses float64, in which the results of correct
parts agree closely. Logits are also compared in float32. Under autocast to 16 bits, as in mixed-precision
training, they only need to be finite.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache

import torch
from torch import Tensor, nn
from torch.optim import SGD

from course_lib.student.parts.assembly import Parts, build_transformer
from course_lib.student.parts.cell import describe
from course_lib.student.parts.notebook import PartsError
from course_lib.time_limit import OutOfTime, time_limit
from course_lib.transformer import Transformer, TransformerConfig

#: The tolerance relative to the largest value. It is wider than the rounding of float64, because a correct
#: part may contain a constant in float32.
TOLERANCE = 1e-6
#: The tolerance for gradients, which sum over all positions and so accumulate the differences.
GRADIENT_TOLERANCE = 1e-4
#: The tolerance in float32, whose rounding depends on the order of sums.
FLOAT32_TOLERANCE = 1e-3

_TIMEOUT = 10.0
_VOCAB, _PAD, _START, _END = 11, 0, 1, 2
_MAX_LENGTH = 9
#: The generator's bias, which is optional. If there is one, it is set to zero.
OPTIONAL_WEIGHT = "generator.bias"


@torch.inference_mode(False)  # A cell of the notebook may have turned gradients off.
@torch.enable_grad()
def unequal_parts(parts: Parts, device: torch.device | str = "cpu") -> dict[str, str]:
    """Find the student's parts that make the model differ from the reference, and describe each difference.

    The result maps the name of each such part to the description; it is empty if the model doesn't differ.
    Parts can be correct on their own but wrong together. Then the result names the first part, in the order
    of the lessons, that makes the model differ when it is added. Both models run on `device`. The 16-bit test
    uses the autocast dtype of this device, which `torch.autocast(..., dtype, enabled=False)` sets.
    """
    device = torch.device(device)
    with torch.random.fork_rng(devices=[]):
        expected = dict(_compute(parts.only(()), device))
    if not parts.yours or not (first := _first_difference(expected, parts, device)):
        return {}
    if alone := _unequal_alone(expected, parts, parts.yours, device):
        return alone
    for count in range(2, len(parts.yours) + 1):
        if difference := _first_difference(expected, parts.only(parts.yours[:count]), device):
            return {
                parts.yours[count - 1]: f"correct on its own, but not with your earlier parts ({difference})"
            }
    # The first difference has not occurred again. It may be random, or a part may have exceeded the time
    # limit because the machine was busy.
    return {parts.yours[-1]: f"with your earlier parts, the model sometimes differs ({first})"}


def _unequal_alone(
    expected: dict[str, Tensor], parts: Parts, names: list[str], device: torch.device
) -> dict[str, str]:
    """Find the parts in `names` that cause a difference on their own, and describe each difference.

    This is a binary search: halves of `names` that cause no difference are skipped.
    """
    difference = _first_difference(expected, parts.only(names), device) if names else ""
    if not difference or len(names) == 1:
        return dict.fromkeys(names, difference) if difference else {}
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    first, second = (_unequal_alone(expected, parts, half, device) for half in halves)
    return first | second


def _first_difference(expected: dict[str, Tensor], parts: Parts, device: torch.device) -> str:
    try:
        with (
            time_limit(_TIMEOUT),
            redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
            torch.random.fork_rng(devices=[]),
        ):
            warnings.simplefilter("ignore")
            for name, found in _compute(parts, device):
                if difference := _difference(name, expected[name], found):
                    return f"{name}: {difference}"
            return ""
    except OutOfTime:
        return f"it doesn't return within {_TIMEOUT:g} seconds"
    except PartsError as error:
        return str(error)
    except NameError as error:
        return f"it raises {describe(error)}; move what it needs into the solution cell"
    except Exception as error:
        return f"it raises {describe(error)}"


def _difference(name: str, expected: Tensor, found: object) -> str:
    if not isinstance(found, Tensor):
        return f"expected a tensor, got {type(found).__name__}"
    if found.shape != expected.shape:
        return f"expected shape {tuple(expected.shape)}, got {tuple(found.shape)}"
    if found.dtype != expected.dtype:
        return f"expected {expected.dtype}, got {found.dtype}"
    if found.device != expected.device:
        return f"expected a tensor on {expected.device.type}, got one on {found.device.type}"
    left, right = expected.detach().double(), found.detach().double()
    largest = float(left.abs().max()) if left.numel() else 0.0
    tolerance = GRADIENT_TOLERANCE if name.startswith("the gradient") else TOLERANCE
    if name.endswith("float32"):
        tolerance = FLOAT32_TOLERANCE
    if torch.allclose(right, left, rtol=tolerance, atol=tolerance * max(largest, 1e-6)):
        return ""
    if expected.dtype == torch.bool:
        return f"expected {bool(expected)}, got {bool(found.detach())}"
    if not right.isfinite().all():
        return "it contains NaN or infinite numbers"
    return f"off by up to {float((left - right).abs().max()):.2g}"


def _compute(parts: Parts, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """Compute the results of the parts one by one, and yield the name and the value of each.

    The caller can stop early. This function seeds torch's global random number generator.
    """
    torch.manual_seed(0)
    source, target = (tokens.to(device) for tokens in _sentences())
    source_mask = parts["padding_mask"](source, _PAD)
    decoder_input, labels = parts["shift_target"](target)
    batch = (source, source_mask, decoder_input, parts["decoder_mask"](decoder_input, _PAD))
    for norm_first in (False, True):
        variant = "pre-norm" if norm_first else "post-norm"
        model = _model(parts, norm_first).to(device)
        logits = model(*batch)
        yield f"the logits, {variant}", logits
        loss = _loss(parts, logits, labels)
        yield f"the loss, {variant}", loss
        for name, gradient in _gradients(model, loss, norm_first).items():
            yield f"the gradient of {name}, {variant}", gradient
    # Decode with the pre-norm model: with large weights, its output depends on every token that it reads.
    ids = parts["greedy_decode"](model, source, source_mask, _MAX_LENGTH, _START, _END)
    # Decode with an end token that occurs early, so that sentences end at different steps.
    early_end = int(ids[0, 2])
    ended = parts["greedy_decode"](model, source, source_mask, _MAX_LENGTH, _START, early_end)
    yield "the tokens of greedy_decode, up to their ends", ended
    yield from _decoding_functions(parts, source, source_mask)
    tied = parts["tie_embeddings"](model)
    with torch.no_grad():
        # Set the shared matrix, because the student decides which of the three tensors the model keeps.
        tied.source_embedding.table.weight.copy_(_weights(norm_first=True)["target_embedding.table.weight"])
        logits = tied(*batch)
    yield "the logits with tied embeddings", logits
    yield "the tokens of greedy_decode", ids
    yield from _training_functions(parts, labels)
    yield from _lower_precision(parts, batch, labels)


def _sentences() -> tuple[Tensor, Tensor]:
    """Draw a batch of four random source sentences and their targets, with padding."""
    source = torch.randint(3, _VOCAB, (4, 7))
    target = torch.randint(3, _VOCAB, (4, 6))
    target[:, 0] = _START
    for tokens, lengths in ((source, (7, 5, 3, 6)), (target, (6, 4, 5, 3))):
        for row, length in enumerate(lengths):
            tokens[row, length - 1] = _END
            tokens[row, length:] = _PAD
    return source, target


def _config(norm_first: bool) -> TransformerConfig:
    return TransformerConfig(layers=2, d_model=8, heads=2, d_ff=16, dropout=0.0, norm_first=norm_first)


@cache
def _weights(norm_first: bool, seed: int = 1, gain: float = 2.0) -> dict[str, Tensor]:
    """Draw random weights for the reference model, without the generator's bias.

    Matrices are multiplied by `gain`, and noise is added to vectors, so that every part affects the output.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(_VOCAB, _VOCAB, _config(norm_first)).double()
        return {
            name: entry * gain if entry.dim() > 1 else entry + 0.3 * torch.randn_like(entry)
            for name, entry in model.state_dict().items()
            if name != OPTIONAL_WEIGHT
        }


def _model(parts: Parts, norm_first: bool, seed: int = 1, gain: float = 2.0) -> nn.Module:
    model = build_transformer(parts, _VOCAB, _VOCAB, _config(norm_first)).double()
    weights = _weights(norm_first, seed, gain)
    lacking = model.load_state_dict(weights, strict=False).unexpected_keys
    if (bias := model.state_dict().get(OPTIONAL_WEIGHT)) is not None:
        bias.zero_()
    if lacking:
        raise PartsError(f"the model has no weight {lacking[0]}; use the lesson's names for attributes")
    return model


def _loss(parts: Parts, logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the label-smoothing loss of lesson 08, or a weighted sum of all logits if it isn't a part."""
    if "LabelSmoothingLoss" in parts:
        return parts["LabelSmoothingLoss"](_VOCAB, _PAD, 0.1)(logits, labels)
    weights = torch.linspace(-1.0, 1.0, logits.numel(), dtype=logits.dtype, device=logits.device)
    return (logits * weights.view_as(logits)).sum()


def _gradients(model: nn.Module, loss: Tensor, norm_first: bool) -> dict[str, Tensor]:
    """Run the backward pass, and return the gradients of the weights that the reference has as well.

    A missing gradient is an empty tensor. Raises PartsError if any other weight has a nonzero gradient.
    """
    loss.backward()
    expected = _weights(norm_first)
    # A weight can have several names, for example if its module is also in a list.
    named = dict(model.named_parameters(remove_duplicate=False))
    known = {id(named[name]) for name in (*expected, OPTIONAL_WEIGHT) if name in named}
    for name, parameter in named.items():
        learns = parameter.grad is not None and bool(parameter.grad.any())
        if learns and id(parameter) not in known:
            raise PartsError(
                f"the model trains a weight that the lesson's model doesn't have: {name}; remove it, or "
                "don't use it in the forward pass"
            )
    missing = torch.empty(0, dtype=torch.float64)
    gradients = {name: named[name].grad if name in named else None for name in expected}
    return {name: missing if gradient is None else gradient for name, gradient in gradients.items()}


def _training_functions(parts: Parts, labels: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the learning rates and the smoothed targets, if their functions are among the parts."""
    if "make_scheduler" in parts:
        rates = [float(parts["learning_rate"](step, 512, 4)) for step in range(1, 9)]
        yield "the learning rates", torch.tensor(rates, dtype=torch.float64)
        optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        scheduler = parts["make_scheduler"](optimizer, 512, 4)
        used = []
        for _ in range(8):
            used.append(float(optimizer.param_groups[0]["lr"]))
            optimizer.step()
            scheduler.step()
        yield "the learning rates that the scheduler sets", torch.tensor(used, dtype=torch.float64)
    if "smooth_targets" in parts:
        # Convert the results, because the student decides on their dtype.
        yield "the smoothed targets", parts["smooth_targets"](labels, _VOCAB, _PAD, 0.1).double()


def _decoding_functions(parts: Parts, source: Tensor, source_mask: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the results of the functions of lesson 11 that are among the parts."""
    if "length_penalty" in parts:
        penalties = [float(parts["length_penalty"](length, 0.6)) for length in range(1, 9)]
        yield "the length penalties", torch.tensor(penalties, dtype=torch.float64)
    if "beam_search" in parts:
        # Use weights with which the usual rules for stopping find the same sentences, because the student
        # decides on the rule.
        model = _model(parts, norm_first=True, seed=22, gain=3.0).to(source.device)
        ids = parts["beam_search"](model, source, source_mask, 3, _MAX_LENGTH, _START, _END, 0.6)
        # Pad the result, because the student also decides on the number of columns after the last end token.
        ids = nn.functional.pad(ids, (0, max(0, _MAX_LENGTH - ids.shape[1])), value=_END)
        yield "the tokens of beam_search", ids
    if "average_checkpoints" in parts:
        states = [{"table": torch.tensor(numbers)} for numbers in ([1.0, 5.0], [2.0, -1.0], [6.0, 2.0])]
        yield "the average of three checkpoints", parts["average_checkpoints"](states)["table"]


def _lower_precision(parts: Parts, batch: tuple[Tensor, ...], labels: Tensor) -> Iterator[tuple[str, Tensor]]:
    model = _model(parts, norm_first=False).float().to(labels.device)
    yield "the logits in float32", model(*batch)
    with torch.autocast(labels.device.type):
        logits = model(*batch)
    _loss(parts, logits.float(), labels).backward()
    dtype = str(torch.get_autocast_dtype(labels.device.type)).removeprefix("torch.")
    yield f"whether the logits in {dtype} are finite", logits.isfinite().all()

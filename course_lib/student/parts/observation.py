"""All that a set of parts computes, written down, so that two sets can be compared.

The same weights go into the model whatever its parts: logits, gradients, tied weights, decoded tokens,
learning rates, the loss. All of it in float64, so that what is equal looks equal; the logits once more in
float32, and in bfloat16 only that there are some, since that is how a run of the lab computes.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from course_lib.student.parts.assembly import Parts
from course_lib.student.parts.errors import PartsError
from course_lib.student.parts.model import build_transformer
from course_lib.transformer import Transformer, TransformerConfig

_VOCAB, _PAD, _START, _END = 11, 0, 1, 2
_LONGEST = 9
_SIZES: dict[str, Any] = {"layers": 2, "d_model": 8, "heads": 2, "d_ff": 16, "dropout": 0.0}
#: A generator may do without a bias; where it has one, it is set to zero.
_MAY_LACK = "generator.bias"

Observed = dict[str, Tensor]


def observe(parts: Parts, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """Let the parts do all that they are for, and give what comes out, one after the other, with its name.

    Whoever compares can stop at the first that differs. torch's random numbers are seeded.
    """
    torch.manual_seed(0)
    source, target = (tokens.to(device) for tokens in _sentences())
    source_mask = parts["padding_mask"](source, _PAD)
    decoder_input, labels = parts["shift_target"](target)
    batch = (source, source_mask, decoder_input, parts["decoder_mask"](decoder_input, _PAD))
    for norm_first in (False, True):
        kind = "pre-norm" if norm_first else "post-norm"
        model = _with_weights(parts, norm_first).to(device)
        logits = model(*batch)
        yield f"the logits, {kind}", logits
        yield from _gradients(parts, model, logits, labels, kind).items()
    # With pre-norm and large weights a model answers to every token that it reads.
    ids = parts["greedy_decode"](model, source, source_mask, _LONGEST, _START, _END)
    # Once more with an end symbol that comes soon, so that sentences end at different steps.
    soon = int(ids[0, 2])
    ended = parts["greedy_decode"](model, source, source_mask, _LONGEST, _START, soon)
    yield "the tokens of greedy_decode, up to their ends", ended
    yield from _of_decoding(parts, source, source_mask).items()
    tied = parts["tie_embeddings"](model)
    with torch.no_grad():
        # Which of the three the others come to share is left open.
        shared = tied.source_embedding.table.weight
        shared.copy_(_weights(norm_first=True)["target_embedding.table.weight"])
        logits = tied(*batch)
    yield "the logits with tied embeddings", logits
    yield "the tokens of greedy_decode", ids
    yield from _of_training(parts, labels).items()
    yield from _as_in_a_run(parts, batch, labels).items()


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
def _weights(norm_first: bool, seed: int = 1, gain: float = 2.0) -> dict[str, Tensor]:
    """Draw weights for the reference's model, large enough that each part makes itself felt."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(_VOCAB, _VOCAB, TransformerConfig(**_SIZES, norm_first=norm_first)).double()
        return {
            name: entry * gain if entry.dim() > 1 else entry + 0.3 * torch.randn_like(entry)
            for name, entry in model.state_dict().items()
            if name != _MAY_LACK
        }


def _with_weights(parts: Parts, norm_first: bool, **drawn: float) -> Any:
    config = TransformerConfig(**_SIZES, norm_first=norm_first)
    model = build_transformer(parts, _VOCAB, _VOCAB, config).double()
    lacking = model.load_state_dict(_weights(norm_first, **drawn), strict=False).unexpected_keys
    if (bias := model.state_dict().get(_MAY_LACK)) is not None:
        bias.zero_()
    if lacking:
        raise PartsError(f"the model has no weight called {lacking[0]}; attributes keep the lesson's names")
    return model


def _loss(parts: Parts, logits: Tensor, labels: Tensor) -> Tensor:
    """Take the loss of lesson 08 where it is among the parts, else a sum that weighs each number."""
    if "LabelSmoothingLoss" in parts:
        loss: Tensor = parts["LabelSmoothingLoss"](_VOCAB, _PAD, 0.1)(logits, labels)
        return loss
    weights = torch.linspace(-1.0, 1.0, logits.numel(), dtype=logits.dtype, device=logits.device)
    return (logits * weights.view_as(logits)).sum()


def _gradients(parts: Parts, model: nn.Module, logits: Tensor, labels: Tensor, kind: str) -> Observed:
    """Send the loss back. Raises PartsError for a weight that the lesson does not have and that learns."""
    loss = _loss(parts, logits, labels)
    loss.backward()
    expected = _weights(kind == "pre-norm")
    # A weight may have further names: a module that also stands in a list, say.
    named = dict(model.named_parameters(remove_duplicate=False))
    known = [named.get(name) for name in (*expected, _MAY_LACK)]
    for name, parameter in named.items():
        learns = parameter.grad is not None and bool(parameter.grad.any())
        if learns and not any(parameter is one for one in known):
            raise PartsError(f"the model learns a weight that the lesson does not have: {name}")
    found = {name: parameter.grad for name, parameter in named.items()}
    return {f"the loss, {kind}": loss} | {
        f"the gradient of {name}, {kind}": _there(found.get(name)) for name in expected
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
        # Their precision is left open.
        seen["the smoothed targets"] = parts["smooth_targets"](labels, _VOCAB, _PAD, 0.1).double()
    return seen


def _of_decoding(parts: Parts, source: Tensor, source_mask: Tensor) -> Observed:
    """Use what lesson 11 makes, where it is among the parts."""
    seen: Observed = {}
    if "length_penalty" in parts:
        penalties = [float(parts["length_penalty"](length, 0.6)) for length in range(1, 9)]
        seen["the length penalties"] = torch.tensor(penalties, dtype=torch.float64)
    if "beam_search" in parts:
        # When to stop is left open: with these weights the usual rules find the same sentences.
        model = _with_weights(parts, norm_first=True, seed=22, gain=3.0).to(source.device)
        ids = parts["beam_search"](model, source, source_mask, 3, _LONGEST, _START, _END, 0.6)
        # So is how many columns there are beyond the last end.
        ids = nn.functional.pad(ids, (0, max(0, _LONGEST - ids.shape[1])), value=_END)
        seen["the tokens of beam_search"] = ids
    if "average_checkpoints" in parts:
        states = [{"table": torch.tensor(numbers)} for numbers in ([1.0, 5.0], [2.0, -1.0], [6.0, 2.0])]
        seen["the average of three checkpoints"] = parts["average_checkpoints"](states)["table"]
    return seen


def _as_in_a_run(parts: Parts, batch: tuple[Tensor, ...], labels: Tensor) -> Observed:
    """Compute in float32, and in bfloat16 as autocast has it."""
    model = _with_weights(parts, norm_first=False).float().to(labels.device)
    seen = {"the logits in float32": model(*batch)}
    with torch.autocast(labels.device.type, torch.bfloat16):
        logits = model(*batch)
    _loss(parts, logits.float(), labels).backward()
    return seen | {"that the logits in bfloat16 are finite": logits.isfinite().all()}

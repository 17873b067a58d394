"""Adapters that connect a student's code to the lab.

They provide a resumable schedule, a search, and a reference model that shares the student's weights.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from course_lib.errors import BadInputError
from course_lib.student.parts import Parts
from course_lib.student.parts.equality import OPTIONAL_WEIGHT
from course_lib.transformer import Transformer, causal_mask, evaluating
from course_lib.transformer.batching import collate
from course_lib.translation.configs.schema import ModelConfig, Precision, RunConfig
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.decoding.search_settings import DecodeFunction, Hypothesis, SearchSettings
from course_lib.translation.model.precision import autocast
from course_lib.translation.model.seq2seq import TransformerModel, build_model


class StudentSchedule(LRScheduler):
    """A schedule that wraps the result of `make`, a student's `make_scheduler`, and can be saved.

    The result may be an object that cannot be saved, such as a closure with a counter. The number of steps
    determines its state, so only this number is saved, and loading repeats the steps.
    """

    def __init__(self, optimizer: Optimizer, make: Callable[[], LRScheduler]) -> None:
        # The base class's __init__ is not called, because the student's scheduler sets the learning rate, and
        # all methods that the lab uses are overridden below.
        self._optimizer = optimizer
        self._make = make
        self._base_rates = [group["lr"] for group in optimizer.param_groups]
        self._scheduler = make()
        self._updates = 0

    def step(self, epoch: int | None = None) -> None:
        """Count an update, and set the learning rate of the next one."""
        self._scheduler.step()
        self._updates += 1

    def get_last_lr(self) -> list[float | Tensor]:
        """Return the learning rate of each parameter group for the next update."""
        return [float(group["lr"]) for group in self._optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return the number of updates, which determines the state."""
        return {"updates": self._updates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Create the schedule again, and repeat its steps."""
        for group, rate in zip(self._optimizer.param_groups, self._base_rates, strict=True):
            group["lr"] = rate
            group.pop("initial_lr", None)
        with warnings.catch_warnings():
            # Ignore the warning that the optimiser has made no steps: it made them in an earlier process.
            warnings.filterwarnings("ignore", "Detected call of", UserWarning)
            self._scheduler, self._updates = self._make(), 0
            for _ in range(state_dict["updates"]):
                self.step()


def search_exercises(beam: int) -> tuple[str, ...]:
    """Return the names of the exercises that a search with this beam size uses."""
    return ("greedy_decode",) if beam == 1 else ("length_penalty", "beam_search")


def student_search(
    parts: Parts, config: RunConfig, ids: Vocabulary, device: torch.device
) -> DecodeFunction | None:
    """Return a search for translating the test split with the student's exercises, or None if there are none.

    The search recomputes the whole prefix for every token, so it is too slow for validation during training.
    Each sentence gets one hypothesis, whose log-probability and score are 0: the exercises don't return them.
    """
    if not set(search_exercises(config.evaluation.beam_size)) & set(parts.yours):
        return None

    def decode(
        model: TransformerModel, sentences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        # The length limit depends on the longest source. Only sentences of equal length share a batch, so
        # that a translation doesn't depend on the other sentences.
        by_length: dict[int, list[int]] = {}
        for index, sentence in enumerate(sentences):
            by_length.setdefault(len(sentence), []).append(index)
        for indices in by_length.values():
            rows = search(model, [sentences[index] for index in indices], settings)
            for index, (_, *row) in zip(indices, rows, strict=True):
                end = row.index(ids.end_id) + 1 if ids.end_id in row else len(row)
                found[index] = [Hypothesis(row[:end], 0.0, 0.0)]
        return found

    def search(
        model: TransformerModel, sentences: list[Sequence[int]], settings: SearchSettings
    ) -> list[list[int]]:
        pairs: list[tuple[Sequence[int], Sequence[int]]] = [(sentence, []) for sentence in sentences]
        source, _ = collate(pairs, ids.pad_id, ids.start_id, ids.end_id, config.data.max_length)
        source = source.to(device)
        inputs = (model, source, parts["padding_mask"](source, ids.pad_id))
        limits = (config.evaluation.max_target_length(source.shape[1]), ids.start_id, ids.end_id)
        with autocast(config.training.precision, device):
            if settings.beam == 1:
                target = parts["greedy_decode"](*inputs, *limits)
            else:
                target = parts["beam_search"](*inputs, settings.beam, *limits, settings.alpha)
        rows: list[list[int]] = target.tolist()
        return rows

    return decode


def reference_view(
    model: TransformerModel, config: ModelConfig, source_size: int, target_size: int
) -> TransformerModel:
    """Return the reference's Transformer, sharing the weights of a student's model.

    So a student's model can be saved, and decoded with a cache, as if it were the reference's. Raises
    BadInputError if the two models have different weights or compute different logits.
    """
    if type(model) is Transformer:
        return model  # None of the student's parts is in the model.
    weights = model.state_dict()
    generator = weights["generator.weight"]
    precision: Precision = "float64" if generator.dtype == torch.float64 else "float32"
    view = build_model(config, source_size, target_size, precision)
    # A generator without a bias is the same as one with a bias of zeros.
    weights.setdefault(OPTIONAL_WEIGHT, torch.zeros_like(generator[:, 0]))
    names = view.state_dict()
    if names.keys() <= weights.keys():
        assert isinstance(view, nn.Module), "a Transformer is a module"
        view.load_state_dict({name: weights[name] for name in names}, assign=True)
        view.to(generator.device)
        expected, got = _logits(view), _logits(model)
        # The products may be in TF32, which has 10 bits of precision.
        tolerance = 1e-6 if expected.dtype == torch.float64 else 1e-2
        if torch.allclose(got, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max())):
            return view
    raise BadInputError(
        "--parts: your parts compute what the reference does in a small model without dropout, but not in "
        f"this run's model (layers {config.layers}, d_model {config.d_model}, heads {config.heads}, d_ff "
        f"{config.d_ff}, dropout {config.dropout}). They may contain fixed sizes, or apply dropout during "
        "evaluation. Fix them and save the notebooks, or leave out --parts to train with the reference's."
    )


def _logits(model: TransformerModel) -> Tensor:
    """Compute a model's logits for a few fixed tokens."""
    assert isinstance(model, nn.Module), "a Transformer is a module"
    device = model.generator.weight.device
    tokens = torch.arange(1, 7, device=device).repeat(2, 1)
    mask = torch.ones(2, 1, 6, dtype=torch.bool, device=device)
    with evaluating(model):
        return model(tokens, mask, tokens, causal_mask(6).to(device))

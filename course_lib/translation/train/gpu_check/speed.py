"""Measurements on a device: training, the textbook method, decoding, memory, and a profile of the updates."""

import gc
import itertools
import math
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Adam

from course_lib.errors import BadInputError
from course_lib.transformer import (
    Transformer,
    decoder_mask,
    greedy_decode,
    make_scheduler,
    padding_mask,
    shift_target,
    smooth_targets,
)
from course_lib.transformer.batching import collate
from course_lib.translation.configs.schema import ModelConfig, RunConfig
from course_lib.translation.data.token_pairs import IdPair
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.decoding.backends import make_backend
from course_lib.translation.decoding.batch_decoder import BatchDecoder
from course_lib.translation.decoding.search_settings import SearchSettings
from course_lib.translation.model.devices import device_name, peak_memory, synchronize
from course_lib.translation.model.memory import GIB
from course_lib.translation.model.seq2seq import build_model
from course_lib.translation.train.gpu_check.workload import (
    Scale,
    new_trainer,
    number_vocabulary,
    run_config,
    sentence_pairs,
)
from course_lib.translation.train.profiling import UpdateProfiler
from course_lib.translation.train.trainer import Trainer

Row = dict[str, Any]

#: Published rates of dense matrix products in 16 bits, in TFLOP/s, by words in the card's name. The rates are
#: from the manufacturer's data sheets, for the SXM model if there are several.
PUBLISHED_TFLOPS = {
    "B200": 2250.0,
    "GH200": 989.0,
    "H200": 989.0,
    "H100 PCIe": 756.0,
    "H100 NVL": 835.0,
    "H100": 989.0,
    "A100": 312.0,
    "L40S": 362.0,
    "L4": 121.0,
    "A10": 125.0,
    "V100": 125.0,
    "T4": 65.0,
}


def published_rate(name: str) -> float | None:
    """Return the published rate of the card that PyTorch calls `name`, in operations per second, if known."""
    return next(
        (1e12 * rate for part, rate in PUBLISHED_TFLOPS.items() if re.search(rf"\b{part}\b", name)), None
    )


def _warmed_up(config: RunConfig, scale: Scale, device: torch.device) -> Trainer:
    """Return a trainer that has run enough updates for all code to be compiled.

    The warm-up takes as long as a measurement, but has at least 20 updates and at most one epoch.
    """
    trainer = new_trainer(config, scale, device)
    warm_up(trainer, trainer.plan(), scale.seconds)
    return trainer


def warm_up(trainer: Trainer, updates: Sequence[Sequence[Sequence[int]]], seconds: float = math.inf) -> None:
    """Run the updates of a plan, and discard their metrics. After `seconds`, stop if at least 20 have run."""
    end = time.perf_counter() + seconds
    for number, batches in enumerate(updates):
        if number >= 20 and time.perf_counter() > end:
            break
        trainer.update(batches)
    trainer.window.close()


def train_for(trainer: Trainer, seconds: float) -> Row:
    """Train for the given time, and return the metrics of that time. Call `warm_up` first."""
    plan = itertools.cycle(trainer.plan())
    following = next(plan)
    trainer.window.restart_clock()
    for _ in _steps_within(seconds):
        batches, following = following, next(plan)
        trainer.update(batches, following)
    return trainer.window.close()  # This waits for the device.


def training_speed(device: torch.device, scale: Scale) -> Iterator[Row]:
    """Measure the target tokens per second and the MFU of each model of `scale`, eager and compiled."""
    for name, model in scale.models.items():
        for compiled in (False, True):
            config = run_config(model, scale, compile=compiled)
            try:
                row = _speed_of(config, scale, device)
            except BadInputError as error:
                row = {"layers": "compiled" if compiled else "eager", **left_out(error)}
            yield {"model": name, **row}
            free_memory(device)


def _speed_of(config: RunConfig, scale: Scale, device: torch.device) -> Row:
    published = published_rate(device_name(device))
    trainer = _warmed_up(config, scale, device)
    with trainer.loader:
        trainer.measure_machine()
        row = train_for(trainer, scale.seconds)
        measured = trainer.window.matmul_rate
        assert measured is not None, "it was measured above"
        of_published = row["mfu"] * measured / published if published else None
        launching = launch_share(trainer, trainer.plan()[:6], device)
        return {
            "layers": "compiled" if config.training.compile and not trainer.notes else "eager",
            "target tokens/s": row["tokens_per_second"],
            "padded": row["padded"],
            "MFU, of the measured rate": row["mfu"],
            "measured TFLOP/s": round(measured / 1e12, 1),
            "MFU, of the published rate": of_published and round(of_published, 4),
            "launching": round(launching, 2),
            "notes": "; ".join(trainer.notes),
        }


def launch_share(trainer: Trainer, updates: Sequence[Sequence[Sequence[int]]], device: torch.device) -> float:
    """Run the given updates, and return the share of an update's time in which the CPU launches operations.

    The result is the median. If it is close to 1, a GPU waits for the CPU, so larger batches would be faster.
    """
    shares = []
    for batches, upcoming in pairwise([*updates, updates[0]]):
        synchronize(device)
        started = time.perf_counter()
        trainer.update(batches, upcoming)
        launched = time.perf_counter() - started
        synchronize(device)
        shares.append(launched / (time.perf_counter() - started))
    return statistics.median(shares)


#: The sentences in a batch of the textbook method, their length in tokens, and the label smoothing.
SENTENCES, LENGTH, SMOOTHING = 32, 72, 0.1


class TextbookTraining:
    """A baseline for the lab's training speed: the simple, correct method of many tutorials, in float32.

    Attention is computed with plain matrix products. Logits are computed at every position, including
    padding, and the smoothed targets are stored for all `vocabulary` tokens.
    """

    def __init__(self, model: ModelConfig, vocabulary: int, device: torch.device) -> None:
        self._device = device
        self._vocabulary = vocabulary
        plain = model.model_copy(update={"attention": "plain"})
        self._model = build_model(plain, vocabulary, vocabulary, "float32", device)
        self._optimizer = Adam(self._model.parameters(), 1.0, betas=(0.9, 0.98), eps=1e-9)
        self._scheduler = make_scheduler(self._optimizer, model.d_model, 4000)
        self._criterion = nn.KLDivLoss(reduction="sum")

    def update(self, source: Tensor, target: Tensor) -> int:
        """Run an update, and return the number of its labels that are not padding."""
        source, target = source.to(self._device), target.to(self._device)
        decoder_input, labels = shift_target(target)
        source_mask = padding_mask(source, Vocabulary.pad_id)
        target_mask = decoder_mask(decoder_input, Vocabulary.pad_id)
        logits = self._model(source, source_mask, decoder_input, target_mask)
        real = int((labels != Vocabulary.pad_id).sum())
        log_probabilities = logits.log_softmax(-1)
        targets = smooth_targets(labels, self._vocabulary, Vocabulary.pad_id, SMOOTHING)
        loss = self._criterion(log_probabilities, targets) / real
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._scheduler.step()
        return real


def fixed_batches(pairs: Sequence[IdPair]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield random batches of 32 pairs endlessly. Each side is padded or truncated to 72 tokens."""
    rng = random.Random(1)
    while True:
        chosen = rng.sample(pairs, SENTENCES)
        batch = collate(chosen, Vocabulary.pad_id, Vocabulary.start_id, Vocabulary.end_id, LENGTH)
        source, target = (F.pad(side, (0, LENGTH - side.shape[1]), value=Vocabulary.pad_id) for side in batch)
        yield source, target


def against_the_textbook(device: torch.device, scale: Scale) -> Iterator[Row]:
    """Compare the training speed of the lab with that of `TextbookTraining`, for the first model of `scale`.

    The measurements of the two alternate. The lab trains with `precision: auto`, and compiled on a GPU.
    """
    name, model = next(iter(scale.models.items()))
    compiled = device.type == "cuda"
    textbook = TextbookTraining(model, scale.vocabulary, device)
    batches = fixed_batches(sentence_pairs(scale))
    textbook.update(*next(batches))
    free_memory(device)  # Otherwise the memory that PyTorch keeps would not count as free for the lab.
    ours = theirs = 0.0
    lab = _warmed_up(run_config(model, scale, compile=compiled), scale, device)
    with lab.loader:
        for _ in range(2):
            ours += train_for(lab, scale.seconds / 2)["tokens_per_second"] / 2
            theirs += items_per_second(lambda: textbook.update(*next(batches)), scale.seconds / 2, device) / 2
    rates = {"lab, target tokens/s": round(ours, 1), "textbook, target tokens/s": round(theirs, 1)}
    yield {"model": name, **rates, "ratio": round(ours / theirs, 2)}


def decoding_speed(device: torch.device, scale: Scale) -> Iterator[Row]:
    """Measure how many sentences the first model of `scale` decodes per second.

    Batches are decoded with greedy search and with a beam of 4. Single sentences are decoded with the
    reference's `greedy_decode`, which has no cache.
    """
    name, model = next(iter(scale.models.items()))
    config = run_config(model, scale)
    vocabulary = number_vocabulary(scale.vocabulary)
    torch.manual_seed(1)
    network = build_model(model, scale.vocabulary, scale.vocabulary, device=device)
    assert isinstance(network, Transformer), "built from the reference"
    network.eval()
    with torch.no_grad():
        network.generator.bias[vocabulary.end_id] = 1.0  # Untrained models rarely predict the end token.
    sources = [source for source, _ in sentence_pairs(scale)][:512]
    backend = make_backend(network, config.training.precision)
    decoder = BatchDecoder(vocabulary, device, config.data.max_length, config.evaluation)
    one_by_one = itertools.cycle(sources)

    def decode_all(beam: int) -> int:
        return len(decoder.decode_all(backend, sources, SearchSettings(beam)))

    def decode_one() -> int:
        start_id, end_id = vocabulary.start_id, vocabulary.end_id
        row = torch.tensor([[start_id, *next(one_by_one), end_id]], device=device)
        limit = config.evaluation.max_target_length(row.shape[1])
        greedy_decode(network, row, padding_mask(row, vocabulary.pad_id), limit, start_id, end_id)
        return 1

    steps: dict[str, Callable[[], int]] = {
        **{f"batches, beam {beam}": partial(decode_all, beam) for beam in (1, 4)},
        "one at a time, greedy": decode_one,
    }
    for search, step in steps.items():
        step()
        rate = items_per_second(step, scale.seconds / 3, device)
        yield {"model": name, "search": search, "sentences/s": round(rate, 1)}


def items_per_second(step: Callable[[], int], seconds: float, device: torch.device) -> float:
    """Repeat a step for the given time. Return how many items it processes per second."""
    synchronize(device)
    started = time.perf_counter()
    done = sum(step() for _ in _steps_within(seconds))
    synchronize(device)
    return done / (time.perf_counter() - started)


def _steps_within(seconds: float) -> Iterator[None]:
    """Yield until the given time has passed, and at least once."""
    end = time.perf_counter() + seconds
    yield
    while time.perf_counter() < end:
        yield


def memory_use(device: torch.device, scale: Scale) -> Iterator[Row]:
    """Yield the estimated memory for training each model of `scale`, and the measured peak, in GiB."""
    for name, model in scale.models.items():
        free_memory(device)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        try:
            trainer = new_trainer(run_config(model, scale), scale, device)
        except BadInputError as error:
            yield {"model": name, **left_out(error)}
            continue
        estimate = trainer.estimate_memory()
        assert estimate is not None, "trained with the reference"
        for batches in trainer.plan()[:20]:
            trainer.update(batches)
        synchronize(device)
        # On a CPU, the peak covers the whole process, including PyTorch itself.
        yield {
            "model": name,
            "estimated GiB": round(estimate.total / GIB, 3),
            "measured peak GiB": round(peak_memory() / GIB, 3),
            # The GPU memory that PyTorch has reserved, which exceeds the peak if memory is fragmented.
            "reserved peak GiB": round(torch.cuda.max_memory_reserved() / GIB, 3),
            "parts": estimate.description,
        }
        del trainer


def trace(device: torch.device, scale: Scale, folder: Path) -> Iterator[Row]:
    """Profile three updates of the first model of `scale`, and write them to `profile` in `folder`."""
    model = next(iter(scale.models.values()))
    trainer = _warmed_up(run_config(model, scale, compile=device.type == "cuda"), scale, device)
    messages: list[str] = []
    profiler = UpdateProfiler(folder / "profile", 3, messages.append)
    for batches in itertools.islice(itertools.cycle(trainer.plan()), 8):  # The profiler skips the first five.
        trainer.update(batches)
        profiler.step()
    yield {"result": " ".join(messages)}


def left_out(error: BadInputError) -> Row:
    """Return the columns of a row for a measurement that an error, such as a lack of memory, prevented."""
    return {"result": "left out", "why": str(error).partition(". ")[0]}


def free_memory(device: torch.device) -> None:
    """Release the memory and the compiled code of trainers that are no longer used."""
    torch.compiler.reset()
    gc.collect()  # A trainer is part of a reference cycle.
    if device.type == "cuda":
        torch.cuda.empty_cache()

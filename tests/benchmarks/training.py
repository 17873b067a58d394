"""Measure how fast the lab trains: `python -m tests.benchmarks.training [--quick] [--threads 2]`.

1. Target tokens per second, compared with the textbook method
   (`TextbookTraining` in `course_lib.translation.train.gpu_check.speed`) on the same data and the same model:
   the paper's base model or, with --quick, a small one. The two alternate, so that other load affects both
   alike.
2. Target tokens per second by batch size, sentence length and number of processes.
3. The peak memory of a process by vocabulary size.

The benchmark runs on the CPU; `course gpu-check` measures GPUs. It uses Multi30k if COURSE_DATA names a
folder that contains it, and the built-in captions otherwise.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import date

import torch
from rich.console import Console
from rich.table import Table

from course_lib.translation.configs.schema import RunConfig
from course_lib.translation.data.corpora import load_corpus
from course_lib.translation.data.token_pairs import IdPair, TokenPairs
from course_lib.translation.data.vocabulary import Vocabulary
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo, end_process, process_group
from course_lib.translation.model.devices import peak_memory
from course_lib.translation.model.precision import resolve_precision
from course_lib.translation.train.batches import BatchLoader
from course_lib.translation.train.gpu_check.speed import (
    TextbookTraining,
    fixed_batches,
    items_per_second,
    train_for,
    warm_up,
)
from course_lib.translation.train.gpu_check.workload import number_vocabulary
from course_lib.translation.train.trainer import Trainer

CPU = torch.device("cpu")
BASE = {"layers": 6, "d_model": 512, "heads": 8, "d_ff": 2048}
SMALL = {"layers": 3, "d_model": 192, "heads": 4, "d_ff": 512}
VOCABULARY = 8000
#: The number of warm-up updates before a measurement.
_WARM_UP = 3


def config_of(model: dict[str, int], tokens_per_batch: int, batches_per_update: int = 1) -> RunConfig:
    """Return a config like the paper's for the available data."""
    training = {
        "epochs": 1,
        "tokens_per_batch": tokens_per_batch,
        "batches_per_update": batches_per_update,
        "precision": resolve_precision("auto", CPU),
    }
    return RunConfig.model_validate(
        {
            "run_folder": "unused",
            "data": {
                "corpus": "multi30k" if os.environ.get("COURSE_DATA") else "captions",
                "vocab_size": VOCABULARY,
            },
            "model": model,
            "training": training,
        }
    )


def real_pairs(config: RunConfig) -> tuple[list[IdPair], Vocabulary]:
    """Learn the corpus's vocabulary. Return the training pairs as token ids, and the vocabulary."""
    text = load_corpus(config.data).train
    vocabulary = Vocabulary.learn([*text.german, *text.english], config.data.vocab_size)
    sides = vocabulary.encode(text.german), vocabulary.encode(text.english)
    return list(zip(*sides, strict=True)), vocabulary


def new_trainer(
    config: RunConfig,
    pairs: Sequence[IdPair],
    vocabulary: Vocabulary,
    distributed: DistributedInfo = SINGLE_PROCESS,
) -> Trainer:
    """Return the lab's trainer for these pairs."""
    return Trainer(BatchLoader(config, TokenPairs.of(pairs), vocabulary, distributed, CPU))


def against_the_textbook(console: Console, quick: bool) -> None:
    """Print the speeds of the lab and of the textbook method, and their ratio."""
    model = SMALL if quick else BASE
    rounds, seconds = (2, 4) if quick else (4, 20)
    config = config_of(model, 2048)
    pairs, vocabulary = real_pairs(config)
    trainer = new_trainer(config, pairs, vocabulary)
    warm_up(trainer, trainer.plan()[:_WARM_UP])
    trainer.measure_machine()
    textbook = TextbookTraining(config.model, len(vocabulary), CPU)
    batches = fixed_batches(pairs)
    textbook.update(*next(batches))
    rows, theirs = [], 0.0
    for _ in range(rounds):
        rows.append(train_for(trainer, seconds))
        theirs += items_per_second(lambda: textbook.update(*next(batches)), seconds, CPU) / rounds
    ours = [row["tokens_per_second"] for row in rows]
    mean = sum(ours) / rounds
    table = Table(title=f"Compared with the textbook method: {_sizes(model)}, {config.data.corpus}")
    for column in ("", "target tokens/s", "padded", "MFU", "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("textbook, float32", f"{theirs:,.0f}", "", "", "1")
    table.add_row(
        f"lab, {config.training.precision}",
        f"{mean:,.0f} ({min(ours):,.0f} to {max(ours):,.0f})",
        f"{rows[0]['padded']:.1%}",
        f"{sum(row['mfu'] for row in rows) / rounds:.1%}",
        f"{mean / theirs:.1f}",
    )
    console.print(table)


def growth(console: Console, quick: bool) -> None:
    """Print the training speed by batch size, sentence length and number of processes."""
    seconds = 3 if quick else 12
    config = config_of(SMALL, 2048)
    pairs, vocabulary = real_pairs(config)
    table = Table(title=f"Target tokens per second: {_sizes(SMALL)}")
    for column in ("what varies", "value", "target tokens/s", "padded"):
        table.add_column(column, justify="right")

    def add(what: str, value: str, row: dict[str, float]) -> None:
        table.add_row(what, value, f"{row['tokens_per_second']:,.0f}", f"{row['padded']:.1%}")

    for tokens in (256, 1024, 4096, 16_384):
        trainer = new_trainer(config_of(SMALL, tokens), pairs, vocabulary)
        warm_up(trainer, trainer.plan()[:_WARM_UP])
        add("tokens per batch", f"{tokens:,}", train_for(trainer, seconds))
    for length in (8, 16, 32, 64, 120):
        same = [_of_length(pairs, length, number) for number in range(2000)]
        trainer = new_trainer(config_of(SMALL, 4096), same, vocabulary)
        warm_up(trainer, trainer.plan()[:_WARM_UP])
        add("tokens per sentence", str(length), train_for(trainer, seconds))
    for ranks in (1, 2, 4, 8):
        if ranks <= (os.cpu_count() or 1):
            row = _in_processes(ranks, "--measure-rank", str(seconds))
            add("processes with one thread each", str(ranks), {"tokens_per_second": row[0], "padded": row[1]})
    console.print(table)


def memory(console: Console) -> None:
    """Print the peak memory of a process by vocabulary size."""
    table = Table(title=f"Memory of one process: {_sizes(SMALL)}, batches of 4,096 tokens")
    for column in ("vocabulary size", "peak, GiB", "parameters, gradients and Adam's state, GiB"):
        table.add_column(column, justify="right")
    for vocabulary in (1000, 4000, 16_000, 64_000):
        peak, state = _in_processes(1, "--measure-memory", str(vocabulary))
        table.add_row(f"{vocabulary:,}", f"{peak:.2f}", f"{state:.2f}")
    console.print(table)


def measure_rank(seconds: float) -> None:
    """Train as one of several ranks. Rank 0 prints the throughput and the share of padding."""
    torch.set_num_threads(1)
    with process_group() as distributed:
        config = config_of(SMALL, 2048, batches_per_update=8)
        pairs, vocabulary = real_pairs(config)
        trainer = new_trainer(config, pairs, vocabulary, distributed)
        plan = trainer.plan()
        trainer.update(plan[0])
        trainer.window.close()
        # All ranks make the same number of updates, because each update waits for every rank.
        for batches in plan[1 : 1 + max(1, round(seconds))]:
            trainer.update(batches)
        row = trainer.window.close()
        if distributed.is_rank_zero:
            print(row["tokens_per_second"], row["padded"])


def measure_memory(vocabulary: int) -> None:
    """Train briefly on random tokens with the given vocabulary size, and print the peak memory."""
    generator = torch.Generator().manual_seed(1)
    pairs = [tuple(torch.randint(4, vocabulary, (2, 15), generator=generator).tolist()) for _ in range(1000)]
    trainer = new_trainer(config_of(SMALL, 4096), pairs, number_vocabulary(vocabulary))
    for batches in trainer.plan()[:3]:
        trainer.update(batches)
    # Adam stores two numbers per parameter, in addition to the parameter itself and its gradient.
    state = 4 * sum(4 * parameter.numel() for parameter in trainer.model.parameters())
    print(peak_memory() / 2**30, state / 2**30)


def _of_length(pairs: Sequence[IdPair], length: int, number: int) -> IdPair:
    """Join real pairs, and cut both sides to this length, which includes the start and end tokens."""
    sides: tuple[list[int], list[int]] = ([], [])
    while min(map(len, sides)) < length - 2:
        for side, ids in zip(sides, pairs[number % len(pairs)], strict=True):
            side.extend(ids)
        number += 1
    return sides[0][: length - 2], sides[1][: length - 2]


def _in_processes(count: int, *arguments: str) -> list[float]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    done = subprocess.run(
        [*command, "-m", "tests.benchmarks.training", *arguments], capture_output=True, text=True, check=True
    )
    return [float(number) for number in done.stdout.split()]


def _sizes(model: dict[str, int]) -> str:
    return f"{model['layers']} + {model['layers']} layers, d_model {model['d_model']}, d_ff {model['d_ff']}"


def main() -> None:
    """Run the chosen measurements, and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="use a small model; takes a minute or two")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of a single process")
    parser.add_argument("--only", choices=["textbook", "growth", "memory"], help="run only this part")
    parser.add_argument("--measure-rank", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--measure-memory", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure_rank:
        measure_rank(chosen.measure_rank)
        end_process(0)
    torch.set_num_threads(chosen.threads)
    if chosen.measure_memory:
        measure_memory(chosen.measure_memory)
        return
    console = Console(highlight=False)
    name = platform.processor() or platform.machine()
    console.print(f"{date.today()}: {name}, {torch.get_num_threads()} threads")
    if chosen.only in (None, "textbook"):
        against_the_textbook(console, chosen.quick)
    if chosen.only in (None, "growth"):
        growth(console, chosen.quick)
    if chosen.only in (None, "memory"):
        memory(console)


if __name__ == "__main__":
    main()

"""Measure the speed of translation: `python -m tests.benchmarks.decoding [RUN] [--threads 2]`.

The test split of the run is translated by several methods: greedy decoding of one sentence at a time without
a cache, as in the reference; the lab's greedy decoding and beam search in batches; and CTranslate2 with the
same weights, if it is installed (`pip install ctranslate2`). RUN is the folder of a run or the name of a
provided model, by default `multi30k`, which needs Multi30k: set COURSE_DATA to a folder that contains it.

The methods take turns, so that other jobs on the machine slow all of them alike. Each method runs in
its own process, because CTranslate2 slows down other code in its process even while it is idle. The table
shows sentences per second of wall-clock time and of CPU time; on a busy machine, only the latter is reliable.
"""

import argparse
import importlib.util
import multiprocessing
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from course_lib.transformer import Transformer, greedy_decode, padding_mask
from course_lib.translation.configs.schema import EvaluationConfig, Precision
from course_lib.translation.data.corpora import load_corpus
from course_lib.translation.decoding.backends import make_backend
from course_lib.translation.decoding.batch_decoder import BatchDecoder
from course_lib.translation.decoding.search_settings import SearchSettings
from course_lib.translation.decoding.translator import Translator, load_translator
from course_lib.translation.model.precision import has_bfloat16
from course_lib.translation.train.scoring import score

#: The number of sentences in a batch, for comparisons at equal batch sizes.
BATCH = 64
BEAM = 5
ROUNDS = 3
#: The number of sentences to decode one at a time, which would take too long for the whole test split.
SINGLE = 50

Ids = list[int]
#: A function from sources to targets, both as token ids without the start and end tokens.
Method = Callable[[Sequence[Ids]], list[Ids]]


@dataclass(frozen=True)
class Setup:
    """A translation method with its settings."""

    name: str
    system: str
    """The implementation: `reference`, `lab` or `CTranslate2`."""
    beam: int
    precision: Precision = "float32"
    batch: int | None = BATCH
    """The number of sentences in a batch, or None for the lab's default, which limits the tokens instead."""
    parallel: int = 1
    """The number of batches that CTranslate2 decodes in parallel. The lab chooses its own number."""

    def method(self, translator: Translator, threads: int, folder: Path) -> Method:
        """Prepare the method. CTranslate2 writes its model to `folder`."""
        if self.system == "reference":
            return one_at_a_time(translator)
        if self.system == "lab":
            return in_batches(translator, self.beam, self.precision, self.batch)
        return by_ctranslate2(translator, folder, self.beam, self.parallel, threads // self.parallel)


def setups(translator: Translator, threads: int) -> list[Setup]:
    """List the methods that this machine and this model allow."""
    searches = ((1, "greedy"), (BEAM, f"beam {BEAM}"))
    found = [Setup("one at a time, greedy, no cache", "reference", 1)]
    precisions: list[Precision] = ["float32"]
    if has_bfloat16(translator.device):
        precisions.append("bfloat16")
    for precision in precisions:
        for batch, batches in ((BATCH, f"batches of {BATCH}"), (None, "default batches")):
            found += [
                Setup(f"{batches}, {search}, {precision}", "lab", beam, precision, batch)
                for beam, search in searches
            ]
    if importlib.util.find_spec("ctranslate2") and translator.device.type == "cpu":
        for parallel in sorted({1, threads}):
            found += [
                Setup(
                    f"CTranslate2, {search}, {parallel} in parallel", "CTranslate2", beam, parallel=parallel
                )
                for beam, search in searches
            ]
    return found


@dataclass
class Contender:
    """A method that runs in its own process, with its times and translations."""

    setup: Setup
    process: ProcessPoolExecutor
    sources: Sequence[Ids]
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    translations: list[Ids] = field(default_factory=list)

    def run(self) -> None:
        """Translate all sources once."""
        seconds, cpu_seconds, self.translations = self.process.submit(_translate, self.sources).result()
        self.seconds.append(seconds)
        self.cpu_seconds.append(cpu_seconds)

    @property
    def rate(self) -> float:
        """The median number of sentences per second over the rounds."""
        return len(self.sources) / statistics.median(self.seconds)

    @property
    def cpu_rate(self) -> float:
        """The median number of sentences per CPU second over the rounds."""
        return len(self.sources) / statistics.median(self.cpu_seconds)


_METHODS: list[Method] = []


def _begin(setup: Setup, run: str, device: str, threads: int, folder: Path) -> None:
    torch.set_num_threads(threads)
    _METHODS.append(setup.method(load_translator(run, device=device), threads, folder))


def _translate(sources: Sequence[Ids]) -> tuple[float, float, list[Ids]]:
    start, cpu_start = time.perf_counter(), time.process_time()
    found = _METHODS[0](sources)
    return time.perf_counter() - start, time.process_time() - cpu_start, found


def one_at_a_time(translator: Translator) -> Method:
    """Return a method that decodes one sentence at a time and recomputes the whole prefix for each token."""
    ids, end = translator.vocabulary, translator.vocabulary.end_id
    model = translator.model
    assert isinstance(model, Transformer)

    def translate(sources: Sequence[Ids]) -> list[Ids]:
        found = []
        for source in sources:
            row = torch.tensor([[ids.start_id, *source, end]], device=translator.device)
            limit = translator.config.evaluation.max_target_length(row.shape[1])
            target = greedy_decode(model, row, padding_mask(row, ids.pad_id), limit, ids.start_id, end)
            found.append([number for number in target[0, 1:].tolist() if number != end])
        return found

    return translate


def in_batches(translator: Translator, beam: int, precision: Precision, size: int | None) -> Method:
    """Return the lab's method, with its default batches or batches of `size` sentences of similar length."""
    config, end = translator.config, translator.vocabulary.end_id
    # The config of a provided model contains its run's settings, so use the schema's defaults instead.
    decoder = BatchDecoder(
        translator.vocabulary, translator.device, config.data.max_length, EvaluationConfig()
    )
    backend = make_backend(translator.model, precision, any_size=True)
    settings = SearchSettings(beam, 0.0 if beam == 1 else 1.0)

    def translate(sources: Sequence[Ids]) -> list[Ids]:
        found: list[Ids] = [[] for _ in sources]
        if size is None:
            batches = decoder.batches(sources, beam)
        else:
            order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
            batches = [order[first : first + size] for first in range(0, len(order), size)]
        for index, (best, *_) in decoder.decode_batches(backend, sources, batches, settings):
            found[index] = [number for number in best.ids if number != end]
        return found

    return translate


def by_ctranslate2(translator: Translator, folder: Path, beam: int, parallel: int, threads: int) -> Method:
    """Return CTranslate2's method, which sorts sentences by length and builds batches of BATCH sentences.

    It decodes `parallel` batches at the same time, each with `threads` threads.
    """
    from tests.benchmarks.ctranslate2_model import converted

    ids, limit = translator.vocabulary, translator.config.evaluation.max_target_length
    other = converted(translator, folder, parallel, threads)

    def translate(sources: Sequence[Ids]) -> list[Ids]:
        results = other.translate_batch(
            [[str(number) for number in (ids.start_id, *source, ids.end_id)] for source in sources],
            beam_size=beam,
            length_penalty=1.0,
            max_batch_size=BATCH,
            max_decoding_length=max(limit(len(source) + 2) for source in sources),
        )
        return [[int(token) for token in result.hypotheses[0]] for result in results]

    return translate


def measure(
    run: str, device: str, chosen: Sequence[Setup], sources: Sequence[Ids], threads: int
) -> list[Contender]:
    """Run the methods in turn for several rounds, and return their times and translations."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        contenders = []
        for number, setup in enumerate(chosen):
            given = (setup, run, device, threads, folder / str(number))
            process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, given)
            some = sources[:SINGLE] if setup.system == "reference" else sources
            contenders.append(Contender(setup, stack.enter_context(process), some))
        for contender in contenders:
            contender.process.submit(_translate, contender.sources[:BATCH]).result()  # warm-up
        for _ in range(ROUNDS):
            for contender in contenders:
                contender.run()
    return contenders


def table_of(
    contenders: Sequence[Contender], translator: Translator, references: Sequence[str], threads: int
) -> Table:
    """Build a table of each method's speed, score, and share of translations equal to the reference's."""
    single = contenders[0]
    device = torch.cuda.get_device_name() if translator.device.type == "cuda" else platform.machine()
    table = Table(
        title=f"Translating {len(references)} sentences; {device}, {threads} threads, "
        f"torch {torch.__version__}, {date.today()}"
    )
    columns = ("", "sentences/s", "ratio", "per CPU s", "ratio", "x CTranslate2", "BLEU", "same as no cache")
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for one in contenders:
        # Compare with the fastest setting of CTranslate2.
        rivals = [
            other.rate
            for other in contenders
            if (other.setup.system, other.setup.beam) == ("CTranslate2", one.setup.beam)
        ]
        same = sum(a == b for a, b in zip(one.translations, single.translations, strict=False))
        texts = translator.vocabulary.decode(one.translations)
        table.add_row(
            one.setup.name,
            f"{one.rate:.1f}",
            f"{one.rate / single.rate:.1f}",
            f"{one.cpu_rate:.1f}",
            f"{one.cpu_rate / single.cpu_rate:.1f}",
            f"{one.rate / max(rivals):.2f}" if rivals else "",
            f"{score(texts, references).bleu:.2f}" if len(texts) == len(references) else "",
            f"{same / len(single.translations):.0%}" if one.setup.beam == 1 else "",
        )
    return table


def main() -> None:
    """Measure the methods, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("run", nargs="?", default="multi30k")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    translator = load_translator(given.run, device=given.device)
    test = load_corpus(translator.config.data).test.first(given.sentences)
    texts, references = test.sides(translator.direction)
    sources = translator.vocabulary.encode_source(texts)
    chosen = setups(translator, given.threads)
    contenders = measure(given.run, given.device, chosen, sources, given.threads)
    Console(highlight=False, width=140).print(table_of(contenders, translator, references, given.threads))


if __name__ == "__main__":
    main()

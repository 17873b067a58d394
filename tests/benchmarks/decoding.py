"""Measure how fast the lab translates: `python -m tests.benchmarks.decoding [RUN_FOLDER] [--threads 2]`.

The unit is sentences per second, on the run's test split. The contenders are greedy decoding of one sentence
at a time without a cache, as in the reference; the lab's greedy and beam search in batches; and CTranslate2
with the same weights, threads, beam and batches, if it is installed (`pip install ctranslate2`). They take
turns, so that other load on the machine affects all alike. Each has its own process, because CTranslate2
slows down everything else in its process even when it is idle. Without a folder, a model of the built-in
captions is trained first.
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
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.configs.loader import load_config
from course_lib.translation.configs.schema import Precision
from course_lib.translation.data.prepared import open_prepared
from course_lib.translation.decoding.backends import BFLOAT16_MIN_D_MODEL, make_backend
from course_lib.translation.decoding.batch_decoder import BatchDecoder
from course_lib.translation.decoding.search_settings import SearchSettings
from course_lib.translation.decoding.translator import Translator, load_translator
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.model.precision import has_bfloat16
from course_lib.translation.train.experiment import train
from course_lib.translation.train.scoring import score

BATCH = 64
BEAM = 5
ROUNDS = 3
#: One sentence after the other is so slow that some of them must do.
SINGLE = 50

Ids = list[int]
#: From sources to targets, both as ids without start and end.
Method = Callable[[Sequence[Ids]], list[Ids]]


@dataclass(frozen=True)
class Way:
    """A way to translate."""

    name: str
    of: str
    """Whose it is: the reference's, the lab's or CTranslate2's."""
    beam: int
    precision: Precision = "float32"
    batches: int = 1
    """How many CTranslate2 works on at a time; the lab has as many as there are threads."""

    def method(self, translator: Translator, threads: int, folder: Path) -> Method:
        """Prepare the way of translating. It may write to the folder."""
        if self.of == "reference":
            return one_by_one(translator)
        if self.of == "lab":
            return in_batches(translator, self.beam, self.precision)
        return by_ctranslate2(translator, folder, self.beam, self.batches, threads // self.batches)


def ways(translator: Translator, threads: int) -> list[Way]:
    """Return the ways of translating that this machine and this model support."""
    kinds = ((1, "greedy"), (BEAM, f"beam {BEAM}"))
    found = [Way("one by one, greedy, no cache", "reference", 1)]
    precisions: list[Precision] = ["float32"]
    if has_bfloat16(translator.device) and translator.config.model.d_model >= BFLOAT16_MIN_D_MODEL:
        precisions.append("bfloat16")
    for precision in precisions:
        found += [Way(f"batches of {BATCH}, {kind}, {precision}", "lab", n, precision) for n, kind in kinds]
    if importlib.util.find_spec("ctranslate2") and translator.device.type == "cpu":
        for count in sorted({1, threads}):
            found += [
                Way(f"CTranslate2, {kind}, {count} at a time", "CTranslate2", n, batches=count)
                for n, kind in kinds
            ]
    return found


@dataclass
class Contender:
    """A way of translating in its own process, with its time in each round and its translations."""

    way: Way
    process: ProcessPoolExecutor
    sources: Sequence[Ids]
    seconds: list[float] = field(default_factory=list)
    found: list[Ids] = field(default_factory=list)

    def run(self) -> None:
        """Translate once."""
        seconds, self.found = self.process.submit(_translate, self.sources).result()
        self.seconds.append(seconds)

    @property
    def rate(self) -> float:
        """The median number of sentences per second over the rounds."""
        return len(self.sources) / statistics.median(self.seconds)


_METHODS: list[Method] = []


def _begin(way: Way, run_folder: Path, device: str, threads: int, folder: Path) -> None:
    torch.set_num_threads(threads)
    _METHODS.append(way.method(load_translator(run_folder, device=device), threads, folder))


def _translate(sources: Sequence[Ids]) -> tuple[float, list[Ids]]:
    began = time.perf_counter()
    found = _METHODS[0](sources)
    return time.perf_counter() - began, found


def one_by_one(translator: Translator) -> Method:
    """Decode as the reference does: one sentence at a time, greedily, with the whole prefix at each step."""
    ids, end = translator.vocabularies, translator.vocabularies.end_id
    model = translator.model
    assert isinstance(model, Transformer)

    def translate(sources: Sequence[Ids]) -> list[Ids]:
        found = []
        for source in sources:
            row = torch.tensor([[ids.start_id, *source, end]], device=translator.device)
            longest = translator.config.evaluation.max_target_length(row.shape[1])
            target = greedy_decode(model, row, padding_mask(row, ids.pad_id), longest, ids.start_id, end)
            found.append([number for number in target[0, 1:].tolist() if number != end])
        return found

    return translate


def in_batches(translator: Translator, beam: int, precision: Precision) -> Method:
    """Decode as the lab does, in batches of BATCH sentences of similar length."""
    config, end = translator.config, translator.vocabularies.end_id
    unlimited = config.evaluation.model_copy(update={"tokens_per_batch": 1_000_000})
    decoder = BatchDecoder(translator.vocabularies, translator.device, config.data.max_length, unlimited)
    model = make_backend(translator.model, precision)
    settings = SearchSettings(beam, 0.0 if beam == 1 else 1.0)

    def translate(sources: Sequence[Ids]) -> list[Ids]:
        found: list[Ids] = [[] for _ in sources]
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        batches = [order[first : first + BATCH] for first in range(0, len(order), BATCH)]
        for index, (best, *_) in decoder.decode_batches(model, sources, batches, settings):
            found[index] = [number for number in best.ids if number != end]
        return found

    return translate


def by_ctranslate2(translator: Translator, folder: Path, beam: int, batches: int, threads: int) -> Method:
    """Decode with CTranslate2, which sorts by length and forms batches of BATCH sentences itself.

    The arguments set the numbers of parallel batches and of threads per batch.
    """
    from tests.benchmarks.ctranslate2_model import converted

    ids, limit = translator.vocabularies, translator.config.evaluation.max_target_length
    other = converted(translator, folder, batches, threads)

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


def measured(
    run_folder: Path, device: str, chosen: Sequence[Way], sources: Sequence[Ids], threads: int
) -> list[Contender]:
    """Measure all contenders in turns."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        contenders = []
        for number, way in enumerate(chosen):
            given = (way, run_folder, device, threads, folder / str(number))
            process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, given)
            some = sources[:SINGLE] if way.of == "reference" else sources
            contenders.append(Contender(way, stack.enter_context(process), some))
        for one in contenders:
            one.process.submit(_translate, one.sources[:BATCH]).result()  # What is done but once.
        for _ in range(ROUNDS):
            for one in contenders:
                one.run()
    return contenders


def table_of(
    contenders: Sequence[Contender], translator: Translator, references: Sequence[str], threads: int
) -> Table:
    """Return a table of the speed and quality of each way, and of how similar their translations are."""
    single = contenders[0]
    device = torch.cuda.get_device_name() if translator.device.type == "cuda" else platform.machine()
    table = Table(
        title=f"Translating {len(references)} sentences; {device}, {threads} threads, "
        f"torch {torch.__version__}, {date.today()}"
    )
    for column in ("", "sentences/s", "x one by one", "x CTranslate2", "BLEU", "as greedy, no cache"):
        table.add_column(column, justify="right" if column else "left")
    for one in contenders:
        # Against the faster of its ways.
        rival = max(
            (
                other.rate
                for other in contenders
                if (other.way.of, other.way.beam) == ("CTranslate2", one.way.beam)
            ),
            default=None,
        )
        alike = sum(a == b for a, b in zip(one.found, single.found, strict=False)) / len(single.found)
        bleu = score(translator.vocabularies.target.decode(one.found), references[: len(one.found)]).bleu
        table.add_row(
            one.way.name,
            f"{one.rate:.1f}",
            f"{one.rate / single.rate:.1f}",
            f"{one.rate / rival:.2f}" if rival else "",
            f"{bleu:.2f}" if len(one.found) == len(references) else "",
            f"{alike:.0%}" if one.way.beam == 1 else "",
        )
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("run_folder", nargs="?", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as made:
        if given.run_folder is None:
            given.run_folder = Path(made) / "run"
            train(load_config("captions", [f"run_folder={given.run_folder}"]), SINGLE_PROCESS)
        translator = load_translator(given.run_folder, device=given.device)
        folder = RunFolder(given.run_folder)
        test = open_prepared(folder.data, folder.vocabulary).test
        sources = [list(source) for source, _ in test.pairs][: given.sentences]
        chosen = ways(translator, given.threads)
        contenders = measured(given.run_folder, given.device, chosen, sources, given.threads)
        references = test.references[: len(sources)]
        Console(highlight=False, width=120).print(table_of(contenders, translator, references, given.threads))


if __name__ == "__main__":
    main()

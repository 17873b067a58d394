"""How fast the lab translates: `python -m tests.benchmarks.decoding [RUN_FOLDER] [--threads 2]`.

Sentences a second, on the run's test split: greedy decoding of one sentence after the other without a cache,
as the reference does it; the lab's greedy and beam search, in batches; and CTranslate2 with the same weights,
threads, beam and batches, where it is installed (`pip install ctranslate2`). All take turns, so that what
else the machine does falls on all alike. Without a folder, a model of the built-in captions is trained first.
"""

import argparse
import importlib.util
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from course_lib.transformer import greedy_decode, padding_mask
from course_lib.translation.config import load_config
from course_lib.translation.decoding import BatchDecoder, SearchSettings, greatest_length, ready
from course_lib.translation.decoding.steps import HALF_PAYS_FROM
from course_lib.translation.distributed import Place
from course_lib.translation.precision import Precision, has_bfloat16
from course_lib.translation.run import train
from course_lib.translation.run_folder import RunFolder
from course_lib.translation.scoring import score
from course_lib.translation.tokens.prepared import open_prepared
from course_lib.translation.translator import Translator, load_translator

BATCH = 64
BEAM = 5
ROUNDS = 3
#: One sentence after the other is so slow that some of them must do.
SINGLE = 50

Ids = list[int]
#: From sources to targets, both as ids without start and end.
Method = Callable[[Sequence[Ids]], list[Ids]]


@dataclass
class Timed:
    """A way to translate, with what it took in each round and what it gave."""

    name: str
    method: Method
    sources: Sequence[Ids]
    seconds: list[float]
    found: list[Ids]

    def run(self) -> None:
        """Translate once."""
        began = time.perf_counter()
        self.found = self.method(self.sources)
        self.seconds.append(time.perf_counter() - began)

    @property
    def rate(self) -> float:
        """Sentences a second, in the middle one of the rounds."""
        return len(self.sources) / statistics.median(self.seconds)


def one_by_one(translator: Translator) -> Method:
    """Decode as the reference does: one sentence, greedily, and for each token the whole beginning anew."""
    ids, end = translator.vocabularies, translator.vocabularies.end_id

    def translate(sources: Sequence[Ids]) -> list[Ids]:
        found = []
        for source in sources:
            row = torch.tensor([[ids.start_id, *source, end]], device=translator.device)
            longest = greatest_length(row.shape[1])
            target = greedy_decode(
                translator.model, row, padding_mask(row, ids.pad_id), longest, ids.start_id, end
            )
            found.append([number for number in target[0, 1:].tolist() if number != end])
        return found

    return translate


def in_batches(translator: Translator, beam: int, precision: Precision) -> Method:
    """Decode as the lab does, in batches of BATCH sentences of like length."""
    config, end = translator.config, translator.vocabularies.end_id
    decoder = BatchDecoder(
        translator.vocabularies, translator.device, config.data.max_length, 1_000_000, precision
    )
    model = ready(translator.model, precision)
    settings = SearchSettings(beam, 0.0 if beam == 1 else 1.0)

    def translate(sources: Sequence[Ids]) -> list[Ids]:
        found: list[Ids] = [[] for _ in sources]
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            some = decoder.decode(model, [sources[index] for index in batch], settings)
            for index, (best, *_) in zip(batch, some, strict=True):
                found[index] = [number for number in best.ids if number != end]
        return found

    return translate


def by_ctranslate2(translator: Translator, folder: Path, beam: int, threads: int) -> Method:
    """Decode with CTranslate2, which sorts by length and makes batches of BATCH sentences itself."""
    from tests.benchmarks.ctranslate2_model import converted

    ids = translator.vocabularies
    other = converted(translator, folder, threads)

    def translate(sources: Sequence[Ids]) -> list[Ids]:
        results = other.translate_batch(
            [[str(number) for number in (ids.start_id, *source, ids.end_id)] for source in sources],
            beam_size=beam,
            length_penalty=1.0,
            max_batch_size=BATCH,
            max_decoding_length=max(greatest_length(len(source) + 2) for source in sources),
        )
        return [[int(token) for token in result.hypotheses[0]] for result in results]

    return translate


def measured(translator: Translator, sources: Sequence[Ids], threads: int) -> list[Timed]:
    """Let all ways take turns."""
    ways: list[tuple[str, Method, Sequence[Ids]]] = [
        ("one by one, greedy, no cache", one_by_one(translator), sources[:SINGLE]),
        (f"batches of {BATCH}, greedy", in_batches(translator, 1, "float32"), sources),
        (f"batches of {BATCH}, beam {BEAM}", in_batches(translator, BEAM, "float32"), sources),
    ]
    if has_bfloat16(translator.device) and translator.config.model.d_model >= HALF_PAYS_FROM:
        ways += [
            (f"batches of {BATCH}, greedy, bfloat16", in_batches(translator, 1, "bfloat16"), sources),
            (f"batches of {BATCH}, beam {BEAM}, bfloat16", in_batches(translator, BEAM, "bfloat16"), sources),
        ]
    with tempfile.TemporaryDirectory() as folder:
        if importlib.util.find_spec("ctranslate2") and translator.device.type == "cpu":
            for beam, name in ((1, "greedy"), (BEAM, f"beam {BEAM}")):
                way = by_ctranslate2(translator, Path(folder) / name, beam, threads)
                ways.append((f"CTranslate2, {name}", way, sources))
        timed = [Timed(name, method, some, [], []) for name, method, some in ways]
        for one in timed:
            one.method(one.sources[:BATCH])  # What is done but once.
        for _ in range(ROUNDS):
            for one in timed:
                one.run()
    return timed


def table_of(
    timed: Sequence[Timed], translator: Translator, references: Sequence[str], threads: int
) -> Table:
    """Put the ways side by side: their speed, and how good and how alike their translations are."""
    rates = {one.name: one.rate for one in timed}
    single = timed[0]
    device = torch.cuda.get_device_name() if translator.device.type == "cuda" else platform.machine()
    table = Table(
        title=f"Translating {len(timed[1].sources)} sentences; {device}, {threads} threads, "
        f"torch {torch.__version__}, {date.today()}"
    )
    for column in ("", "sentences/s", "x one by one", "x CTranslate2", "BLEU", "as greedy, no cache"):
        table.add_column(column, justify="right" if column else "left")
    for one in timed:
        rival = rates.get(f"CTranslate2, beam {BEAM}" if "beam" in one.name else "CTranslate2, greedy")
        alike = sum(a == b for a, b in zip(one.found, single.found, strict=False)) / len(single.found)
        bleu = score(translator.vocabularies.target.decode(one.found), references[: len(one.found)]).bleu
        table.add_row(
            one.name,
            f"{one.rate:.1f}",
            f"{one.rate / single.rate:.1f}",
            f"{one.rate / rival:.2f}" if rival else "",
            f"{bleu:.2f}" if len(one.found) == len(references) else "",
            f"{alike:.0%}" if "beam" not in one.name else "",
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
            train(load_config("captions", [f"run_folder={given.run_folder}"]), Place(0, 1, 0, 1))
        translator = load_translator(given.run_folder, device=given.device)
        folder = RunFolder(given.run_folder)
        test = open_prepared(folder.data, folder.vocabulary).test
        sources = [list(source) for source, _ in test.pairs][: given.sentences]
        timed = measured(translator, sources, given.threads)
        references = test.text.english[: len(sources)]
        Console(highlight=False, width=110).print(table_of(timed, translator, references, given.threads))


if __name__ == "__main__":
    main()

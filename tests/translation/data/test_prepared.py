"""Data is prepared once and completely, from the training split alone, and no evaluation sentence is lost."""

import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig, RunConfig
from course_lib.translation.data import preparation, prepared
from course_lib.translation.data.preparation import prepare
from course_lib.translation.data.prepared import PreparedData, digest, open_run_data
from course_lib.translation.data.vocabulary import TAGS, Vocabulary
from course_lib.translation.distributed import SINGLE_PROCESS, DistributedInfo
from course_lib.translation.train.experiment import train
from tests.translation.phrases import phrase_pairs, write_split
from tests.translation.real_processes import in_processes

pytestmark = pytest.mark.slow

#: Overrides that skip scores these tests don't need.
QUICK = ("evaluation.bleu_every=0", "evaluation.beam_size=1", "evaluation.alpha=0.0")


class Bench:
    """A corpus in a folder, and the data prepared from it."""

    def __init__(self, folder: Path) -> None:
        self.corpus = folder / "corpus"
        self.data = folder / "run" / "data"
        self.vocabulary = folder / "run" / "vocabulary.json"

    def config(self, **keys: object) -> DataConfig:
        some = {"corpus": "folder", "folder": str(self.corpus), "vocab_size": 320, "max_length": 40}
        return DataConfig.model_validate({**some, **keys})

    def prepare(self, learn: bool = True, **keys: object) -> PreparedData:
        return prepare(self.config(**keys), self.data, self.vocabulary, learn)

    def times(self) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in self.data.iterdir()}


@pytest.fixture
def bench(tmp_path: Path, corpus_folder: Path) -> Bench:
    return Bench(tmp_path)


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def test_the_ids_are_those_of_the_sentences(bench: Bench) -> None:
    data = bench.prepare(max_length=400)
    vocabulary = Vocabulary.load(bench.vocabulary)
    assert vocabulary.fingerprint == data.vocabulary.fingerprint
    for name, pairs in {"train": data.train, "test": data.test.pairs}.items():
        german, english = (lines(bench.corpus / f"{name}.{language}") for language in ("de", "en"))
        expected = zip(vocabulary.encode_source(german), vocabulary.encode(english), strict=True)
        assert list(pairs) == list(expected)
    assert data.test.sources == lines(bench.corpus / "test.de")
    assert data.validation.references == lines(bench.corpus / "validation.en")
    assert not [note for note in data.notes if "because" in note]


def test_the_vocabulary_knows_nothing_of_validation_and_test(bench: Bench) -> None:
    for split in ("validation", "test"):
        write_split(bench.corpus, split, [("Quitten Quitten", "quinces quinces")] * 9)
    train = lines(bench.corpus / "train.de") + lines(bench.corpus / "train.en")
    assert bench.prepare().vocabulary.fingerprint == Vocabulary.learn(train, 320).fingerprint


def test_fewer_pairs_to_train_on(bench: Bench) -> None:
    whole = bench.prepare(max_length=400)
    some = bench.prepare(max_length=400, train_pairs=100)
    german, english = (lines(bench.corpus / f"train.{language}")[:100] for language in ("de", "en"))
    vocabulary = some.vocabulary
    expected = zip(vocabulary.encode_source(german), vocabulary.encode(english), strict=True)
    assert list(some.train) == list(expected)
    assert vocabulary.fingerprint != whole.vocabulary.fingerprint
    assert some.validation.references == whole.validation.references
    assert len(bench.prepare(train_pairs=1000).train) == len(whole.train) == 240


def test_long_pairs_are_dropped_and_counted(bench: Bench) -> None:
    lengths = bench.prepare(max_length=400).train.lengths + 2
    kept = (lengths.max(axis=1) <= 40).sum()
    data = bench.prepare(too_long="drop")
    assert 0 < len(data.train) == kept < 240
    assert (data.train.lengths + 2).max() <= 40
    assert (
        data.notes[0] == f"dropped {240 - kept} of 240 training pairs, because they are longer than 40 tokens"
    )


def test_long_pairs_are_cut_and_counted(bench: Bench) -> None:
    whole = bench.prepare(max_length=400).train
    data = bench.prepare(too_long="truncate")
    assert list(data.train) == [(source[:38], target[:38]) for source, target in whole]
    long = (whole.lengths + 2).max(axis=1) > 40
    assert (
        data.notes[0]
        == f"truncated {long.sum()} of 240 training pairs, because they are longer than 40 tokens"
    )


def test_no_sentence_to_score_on_is_lost(bench: Bench) -> None:
    # Extremely long, empty, one-sided and unseen sentences.
    pairs = [("lang " * 10_000, "long " * 10_000), ("", ""), ("zwei", ""), ("", "two"), ("日本 ☃", "\u202e𝕏")]
    for split in ("validation", "test"):
        write_split(bench.corpus, split, pairs)
    data = bench.prepare(too_long="drop")
    for split in (data.validation, data.test):
        assert len(split.pairs) == len(split.sources) == len(split.references) == 5
        assert split.pairs.lengths.tolist()[:3] == [[38, 38], [0, 0], [split.pairs.lengths[2, 0], 0]]
        assert data.vocabulary.decode([split.pairs[4][0]]) == ["日本 ☃"]
    assert data.notes[1:3] == [
        "truncated 1 of 5 validation pairs, because they are longer than 40 tokens",
        "truncated 1 of 5 test pairs, because they are longer than 40 tokens",
    ]
    assert data.notes[3:] == [
        "3 of 5 validation pairs have an empty side, and are scored",
        "3 of 5 test pairs have an empty side, and are scored",
    ]


def test_tabs_and_test_pairs_among_the_training_pairs_are_reported(bench: Bench) -> None:
    pairs = [(f"{german}\t{english}", english) for german, english in phrase_pairs(40, seed=5)]
    pairs += [("Quitten", "quinces"), ("Birnen", "pears")]
    write_split(bench.corpus, "train", pairs)
    write_split(bench.corpus, "test", [("Quitten", "quinces")] * 2 + [("Quitten", "apples")])
    assert bench.prepare(max_length=400).notes == [
        "most German training lines contain a tab. If they contain both languages, write each language to "
        "its own file",
        "2 of 3 test pairs are also training pairs, so the score may be too high",
    ]


def test_training_uses_both_directions_and_evaluation_one(bench: Bench) -> None:
    data = bench.prepare(both_directions=True, max_length=400)
    plain = data.vocabulary
    german, english = (plain.encode(lines(bench.corpus / f"train.{language}")) for language in ("de", "en"))
    to_english, to_german = map(plain.tokenizer.token_to_id, TAGS.values())
    assert list(data.train)[:240] == [([to_english, *de], en) for de, en in zip(german, english, strict=True)]
    assert list(data.train)[240:] == [([to_german, *en], de) for de, en in zip(german, english, strict=True)]
    for split in (data.validation, data.test):
        assert [source[0] for source, _ in split.pairs] == [to_english] * len(split.sources)
        assert plain.decode([source for source, _ in split.pairs]) == split.sources
        assert plain.decode([target for _, target in split.pairs]) == split.references
    assert (
        bench.prepare(both_directions=True, max_length=20, too_long="drop")
        .notes[0]
        .endswith(
            " of 480 training pairs, because they are longer than 20 tokens, counted in both directions"
        )
    )


def test_training_pairs_with_an_empty_side_are_dropped_and_counted(bench: Bench) -> None:
    pairs = [
        ("zwei Hunde", "two dogs"),
        ("", "three"),
        ("vier", ""),
        ("  ", "\t"),
        ("fünf Züge", "five trains"),
    ]
    write_split(bench.corpus, "train", pairs)
    data = bench.prepare(max_length=400)
    assert data.vocabulary.decode([target for _, target in data.train]) == [
        "two dogs",
        "five trains",
    ]
    assert data.notes == ["dropped 3 of 5 training pairs, because one side is empty"]


@pytest.mark.parametrize(
    ("pair", "keys", "message"),
    [
        (("", "one"), {}, "no training pair is left: all 2 have an empty side"),
        (("lang " * 90, "long"), {"too_long": "drop"}, "no training pair is left: all 2 are longer than"),
    ],
)
def test_nothing_left_to_learn_from_is_refused(
    bench: Bench, pair: tuple[str, str], keys: dict[str, object], message: str
) -> None:
    write_split(bench.corpus, "train", [pair, pair])
    with pytest.raises(BadInputError, match=message):
        bench.prepare(**keys)


def test_what_is_there_is_only_opened(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first, before = bench.prepare(), bench.times()
    monkeypatch.setattr(preparation, "load_corpus", None)
    again = bench.prepare()
    assert bench.times() == before
    assert again.fingerprint == first.fingerprint
    assert list(again.train) == list(first.train)
    assert (again.test.sources, again.notes) == (first.test.sources, first.notes)


def test_each_file_is_hashed_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def recorded(path: Path) -> str:
        hashed.append(path.name)
        return digest(path)

    for module in (preparation, prepared):
        monkeypatch.setattr(module, "digest", recorded)
    bench.prepare()
    written = [*(path.name for path in bench.data.iterdir()), bench.vocabulary.name]
    assert sorted(hashed) == sorted(set(written) - {"contents.json"})
    hashed.clear()
    bench.prepare()
    assert sorted(hashed) == sorted(set(written) - {"contents.json"})


def test_any_damage_is_found_and_mended(bench: Bench) -> None:
    whole = bench.prepare().fingerprint
    for name in ("train.ids", "test.offsets", "validation.json", "contents.json"):
        path = bench.data / name
        content = path.read_bytes()
        for damaged in (bytes([content[0] ^ 1]) + content[1:], None):
            if damaged is None:
                path.unlink()
            else:
                path.write_bytes(damaged)
            with pytest.raises(BadInputError, match="missing or incomplete"):
                open_run_data(bench.data, bench.vocabulary)
            assert bench.prepare(learn=damaged is None).fingerprint == whole
            assert path.read_bytes() == content or name == "contents.json"


def test_different_data_or_options_cause_a_new_preparation(bench: Bench) -> None:
    prints = [bench.prepare().fingerprint]
    others: list[dict[str, object]] = [
        {"max_length": 30},
        {"too_long": "drop"},
        {"vocab_size": 310},
        {"both_directions": True},
        {"train_pairs": 100},
    ]
    prints += [bench.prepare(**keys).fingerprint for keys in others]
    write_split(bench.corpus, "test", [("zwei Hunde", "two dogs")])
    prints.append(bench.prepare().fingerprint)
    assert len(set(prints)) == len(prints)
    # Preparing the same data again gives the same fingerprint.
    write_split(bench.corpus, "test", [("zwei Hunde", "two dogs!")])
    bench.prepare()
    write_split(bench.corpus, "test", [("zwei Hunde", "two dogs")])
    assert bench.prepare().fingerprint == prints[-1]


def test_a_run_that_has_begun_keeps_its_vocabulary(bench: Bench) -> None:
    before = bench.prepare().vocabulary.fingerprint
    write_split(bench.corpus, "train", [("ganz andere Wörter", "quite different words")] * 5)
    assert bench.prepare(learn=False).vocabulary.fingerprint == before
    assert bench.prepare(learn=True).vocabulary.fingerprint != before


def test_data_of_another_vocabulary_is_not_opened(bench: Bench) -> None:
    bench.prepare()
    Vocabulary.learn(["etwas anderes"], 300).save(bench.vocabulary)
    with pytest.raises(BadInputError, match="check that all see the same run_folder"):
        open_run_data(bench.data, bench.vocabulary)


def test_a_folder_that_cannot_be_written_is_refused(bench: Bench) -> None:
    bench.data.parent.write_text("not a folder")
    with pytest.raises(BadInputError, match="cannot write the prepared data"):
        bench.prepare()


def prepare_on_a_full_disk(distributed: DistributedInfo, bench: Bench) -> str:
    # Simulate a full disk: limit the size of files, and ignore the signal that would end the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
    try:
        bench.prepare(learn=False)
    except BadInputError as error:
        return str(error)
    return ""


def test_where_no_more_can_be_written_it_is_said_and_a_later_start_mends_it(bench: Bench) -> None:
    fingerprint = bench.prepare().fingerprint
    (bench.data / "train.ids").write_bytes(b"damaged")
    assert in_processes(1, prepare_on_a_full_disk, bench) == [
        f"{bench.data}: cannot write the prepared data (File too large)"
    ]
    with pytest.raises(BadInputError, match="missing or incomplete"):
        open_run_data(bench.data, bench.vocabulary)
    assert bench.prepare(learn=False).fingerprint == fingerprint


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_run_does_not_resume_with_a_different_corpus(
    tiny_config: Callable[..., RunConfig], corpus_folder: Path
) -> None:
    train(tiny_config("training.epochs=1", *QUICK), SINGLE_PROCESS)
    write_split(corpus_folder, "train", phrase_pairs(240, seed=9))
    with pytest.raises(BadInputError, match="the corpus has changed since this run was started"):
        train(tiny_config("training.epochs=2", *QUICK), SINGLE_PROCESS)

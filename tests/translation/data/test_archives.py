"""IWSLT17 and WMT14 are read from archives with the published layout; invalid archives are rejected."""

import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data import corpora
from course_lib.translation.data.corpora import corpus_fingerprint, load_corpus
from course_lib.translation.data.corpora.parallel_text import Corpus, read_members, segments
from course_lib.translation.data.corpora.published import IWSLT17, WMT14, PublishedCorpus


def pack(path: Path, files: Mapping[str, str]) -> Path:
    """Write a .tgz archive that contains these text files and an unused README, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in {"README": "about", **files}.items():
            content = text.encode("utf-8")
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def talk(title: str, *sentences: str) -> str:
    head = f"<url>http://x.com/{title}</url>\n<keywords>a, b</keywords>\n<speaker>X</speaker>\n"
    return f"{head}<talkid>1</talkid>\n<title>{title}</title>\n<description>Y.</description>\n" + "".join(
        f"{sentence}\n" for sentence in sentences
    )


def news_test(*sentences: str) -> str:
    body = "".join(
        f'<seg id="{number}"> {sentence} </seg>\n' for number, sentence in enumerate(sentences, start=1)
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<srcset setid="s" srclang="german">\n'
    title = '<doc docid="1" genre="lectures">\n<title>Not a sentence</title>\n'
    return f"{head}{title}{body}</doc>\n</srcset>\n</mteval>\n"


def iwslt17_files() -> dict[str, str]:
    tags = "<reviewer></reviewer>\n<translator></translator>\n"  # Only one of the languages has these.
    files = {
        "de-en/train.tags.de-en.de": talk("Eins", "Vielen Dank.", "<3 sagt mehr.") + talk("Zwei", "Ja."),
        "de-en/train.tags.de-en.en": talk("One", "Thank you.", "<3 says more.") + tags + talk("Two", "Yes."),
        "de-en/IWSLT17.TED.dev2010.de-en.de.xml": news_test("Guten Tag.", "Auf Wiedersehen."),
        "de-en/IWSLT17.TED.dev2010.de-en.en.xml": news_test("Good day.", "Goodbye."),
    }
    for year in range(2010, 2016):
        files[f"de-en/IWSLT17.TED.tst{year}.de-en.de.xml"] = news_test(f"Im Jahr {year}.")
        files[f"de-en/IWSLT17.TED.tst{year}.de-en.en.xml"] = news_test(f"In {year}.")
    return files


def wmt14_files() -> dict[str, dict[str, str]]:
    return {
        "training-parallel-europarl-v7.tgz": {
            "training/europarl-v7.cs-en.cs": "Ano.\n",
            "training/europarl-v7.de-en.de": "Wiederaufnahme\n\nIch erkläre sie für eröffnet.\n",
            "training/europarl-v7.de-en.en": "Resumption\nLost\nI declare it open.\n",
        },
        "training-parallel-commoncrawl.tgz": {
            # Some sentences of this corpus contain a carriage return or a line separator.
            "commoncrawl.de-en.de": "Hotel\u2028am Meer.\nPreise\rund Zimmer.\n",
            "commoncrawl.de-en.en": "Hotel by the sea.\nPrices and rooms.\n",
            "commoncrawl.de-en.annotation": "x\ny\n",
        },
        "training-parallel-nc-v9.tgz": {
            "training/news-commentary-v9.de-en.de": "Steigt Gold?\n",
            "training/news-commentary-v9.de-en.en": "Will gold rise?\n",
        },
        "test.tgz": {
            "test/newstest2013-src.de.sgm": news_test("Eine   Strategie", "&quot;Ja&quot;"),
            "test/newstest2013-src.en.sgm": news_test("A strategy", "&quot;Yes&quot;"),
        },
        "test-full.tgz": {
            "test-full/newstest2014-deen-src.de.sgm": news_test("Orlando Bloom &amp; Miranda Kerr"),
            "test-full/newstest2014-deen-ref.en.sgm": news_test("Orlando Bloom and Miranda Kerr"),
        },
    }


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[], Corpus]]:
    """A function that writes archives to a mirror folder, and returns a function that reads the corpus.

    The pinned checksums are replaced with those of these archives; everything else stays the same.
    """

    def write(corpus: PublishedCorpus, archives: Mapping[str, Mapping[str, str]]) -> Callable[[], Corpus]:
        digests = {
            name: hashlib.sha256(pack(tmp_path / corpus.name / name, files).read_bytes()).hexdigest()
            for name, files in archives.items()
        }
        files = tuple(replace(file, checksum=f"sha256:{digests[file.name]}") for file in corpus.files)
        monkeypatch.setitem(corpora.PUBLISHED, corpus.name, replace(corpus, files=files))
        config = DataConfig.model_validate({"corpus": corpus.name, "mirror": str(tmp_path)})
        return lambda: load_corpus(config)

    return write


def refusal(read: Callable[[], Corpus]) -> str:
    with pytest.raises(BadInputError) as refused:
        read()
    message = str(refused.value)
    assert "\n" not in message
    return message


def test_iwslt17_is_the_talks_without_what_is_said_about_them(
    publish: Callable[..., Callable[[], Corpus]],
) -> None:
    corpus = publish(IWSLT17, {"de-en.tgz": iwslt17_files()})()
    assert corpus.train.german == ["Vielen Dank.", "<3 sagt mehr.", "Ja."]
    assert corpus.train.english == ["Thank you.", "<3 says more.", "Yes."]
    assert corpus.validation.german == ["Guten Tag.", "Auf Wiedersehen."]
    assert corpus.validation.english == ["Good day.", "Goodbye."]
    assert corpus.test.german == [f"Im Jahr {year}." for year in range(2010, 2016)]
    assert corpus.test.english == [f"In {year}." for year in range(2010, 2016)]


def test_iwslt17_without_one_of_its_sets_is_refused(publish: Callable[..., Callable[[], Corpus]]) -> None:
    files = iwslt17_files()
    del files["de-en/IWSLT17.TED.tst2013.de-en.en.xml"]
    message = refusal(publish(IWSLT17, {"de-en.tgz": files}))
    assert "this archive has no de-en/IWSLT17.TED.tst2013.de-en.en.xml" in message


def test_wmt14_is_three_corpora_and_two_news_tests(publish: Callable[..., Callable[[], Corpus]]) -> None:
    corpus = publish(WMT14, wmt14_files())()
    assert corpus.train.german == [
        "Wiederaufnahme",
        "",
        "Ich erkläre sie für eröffnet.",
        "Hotel\u2028am Meer.",
        "Preise\rund Zimmer.",
        "Steigt Gold?",
    ]
    assert corpus.train.english[3:] == ["Hotel by the sea.", "Prices and rooms.", "Will gold rise?"]
    assert corpus.validation.german == ["Eine Strategie", '"Ja"']
    assert corpus.validation.english == ["A strategy", '"Yes"']
    assert corpus.test.german == ["Orlando Bloom & Miranda Kerr"]
    assert corpus.test.english == ["Orlando Bloom and Miranda Kerr"]


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    whole = pack(tmp_path / "a.tgz", {"a": "eins\n" * 20_000, "b": "zwei\n"}).read_bytes()
    for damage in (whole[: len(whole) // 2], b"no archive at all", b""):
        (tmp_path / "a.tgz").write_bytes(damage)
        with pytest.raises(BadInputError, match=r"a\.tgz: this \.tgz archive is damaged"):
            read_members(tmp_path / "a.tgz", ["b"])


def test_segments_are_those_that_sacrebleu_reads(tmp_path: Path) -> None:
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

    lines = news_test("Eins  zwei ", "drei <b>", "", "vier\u00a0fünf").split("\n")
    (tmp_path / "in.sgm").write_text("\n".join(lines), "utf-8")
    FakeSGMLDataset("any", data=[], langpairs={})._convert_format(
        str(tmp_path / "in.sgm"), str(tmp_path / "out.txt")
    )
    assert segments(lines) == (tmp_path / "out.txt").read_text("utf-8").split("\n")[:-1]


def test_the_checksums_are_those_that_sacrebleu_pins() -> None:
    from sacrebleu.dataset import DATASETS

    for file, dataset in ((WMT14.files[3], DATASETS["wmt13"]), (WMT14.files[4], DATASETS["wmt14/full"])):
        assert dataset.md5 is not None
        assert dataset.data is not None
        assert file.checksum == f"md5:{dataset.md5[0]}"
        assert dataset.data[0].removeprefix("https://") in f"{file.home}/{file.name}".removeprefix(
            "https://www."
        )
    urls = DATASETS["iwslt17/tst2015"].data
    (archive,) = IWSLT17.files
    assert urls is not None
    assert f"{archive.home}/{archive.name}" in urls


def test_the_fingerprint_of_a_published_corpus_needs_no_file() -> None:
    prints = {
        corpus_fingerprint(DataConfig.model_validate({"corpus": name, "mirror": "/nowhere"}))
        for name in ("multi30k", "iwslt17", "wmt14")
    }
    assert len(prints) == 3

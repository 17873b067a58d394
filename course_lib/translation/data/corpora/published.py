"""Published corpora, read from a mirror folder or downloaded: Multi30k, IWSLT 2017 and WMT 2014.

Every file is verified against a pinned checksum. The licences of these corpora restrict their use, so this
package doesn't include them.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from course_lib.errors import BadInputError
from course_lib.translation.data.corpora.downloads import download, has_checksum
from course_lib.translation.data.corpora.parallel_text import (
    Corpus,
    ParallelText,
    concatenate,
    parallel_text,
    read_members,
    read_parallel_text,
    segments,
)


@dataclass(frozen=True)
class PublishedFile:
    """A published file: its name, the URL of the folder that contains it, and its checksum."""

    name: str
    home: str
    checksum: str
    """The checksum as "sha256:..." or, if no publisher provides a better one, "md5:..."."""


@dataclass(frozen=True)
class PublishedCorpus:
    """A published corpus: its files, and the function that reads them, given their paths by name."""

    name: str
    files: tuple[PublishedFile, ...]
    read: Callable[[Mapping[str, Path]], Corpus]

    @property
    def fingerprint(self) -> str:
        """A hash of the pinned checksums, which can be computed without the files."""
        checksums = [self.name, *(file.checksum for file in self.files)]
        return hashlib.sha256("\n".join(checksums).encode()).hexdigest()

    def load(self, mirror: Path | None = None) -> Corpus:
        """Read the corpus from the folder `mirror` or, if that is None, from the user's cache folder.

        Files that are not in the cache are downloaded. Raises BadInputError if a file is missing from the
        mirror, cannot be downloaded, or differs from the published one.
        """
        if mirror is not None:
            return self.read(self._find(mirror))
        return self.read(self.fetch(user_cache_path("build-the-transformer")))

    def fetch(self, folder: Path, url: str | None = None) -> dict[str, Path]:
        """Download the files into the subfolder of `folder` that is named after the corpus.

        Return the paths of the files by name. `url` is the folder to download from (default: each file's
        publisher). Files that already have the right checksum are not downloaded again. Raises BadInputError
        if a file cannot be downloaded or written.
        """
        return {file.name: self._download(file, url, folder / self.name) for file in self.files}

    def _find(self, mirror: Path) -> dict[str, Path]:
        paths = {}
        for file in self.files:
            inside, direct = mirror / self.name / file.name, mirror / file.name
            paths[file.name] = inside if inside.is_file() else direct
        if missing := [name for name, path in paths.items() if not path.is_file()]:
            raise BadInputError(
                f"{self.name}: {', '.join(missing)} not found in the mirror folder {mirror} or its subfolder "
                f"{self.name}. Put the corpus there, or unset the mirror (COURSE_DATA, data.mirror) to "
                "download it."
            )
        for file in self.files:
            if not has_checksum(paths[file.name], file.checksum):
                raise BadInputError(
                    f"{paths[file.name]}: not the published file (its checksum differs). Download it "
                    f"again from {file.home}/{file.name}"
                )
        return paths

    def _download(self, file: PublishedFile, url: str | None, folder: Path) -> Path:
        try:
            return download(
                f"{(url or file.home).rstrip('/')}/{file.name}", folder / file.name, file.checksum
            )
        except BadInputError as error:
            names = ", ".join(file.name for file in self.files)
            raise BadInputError(
                f"{str(error).rstrip('.')}. Or run `course fetch {self.name} FOLDER` on a machine with "
                "internet access, copy FOLDER to this machine, and set COURSE_DATA to its path (subfolder "
                f"{self.name} contains {names})."
            ) from None


# Multi30k, task 1, with the test set of 2016: 29,000 captions of photographs (Elliott et al. 2016, W16-3210),
# for non-commercial research and education. These are the raw files at a fixed commit.
_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
_MULTI30K_SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
}


def _read_multi30k(files: Mapping[str, Path]) -> Corpus:
    def split(stem: str) -> ParallelText:
        return read_parallel_text(files[f"{stem}.de.gz"], files[f"{stem}.en.gz"])

    return Corpus(train=split("train"), validation=split("val"), test=split("test_2016_flickr"))


MULTI30K = PublishedCorpus(
    "multi30k",
    tuple(PublishedFile(name, _MULTI30K, f"sha256:{digest}") for name, digest in _MULTI30K_SHA256.items()),
    _read_multi30k,
)

# IWSLT 2017: 206,000 sentences of TED talks (Cettolo et al. 2017, "Overview of the IWSLT 2017 Evaluation
# Campaign"), from the WIT3 archive, under CC BY-NC-ND 4.0. Validation is dev2010; the test is tst2010 to
# tst2015 together, as in the Hugging Face hub's `IWSLT/iwslt2017`. Hugging Face's `datasets` recorded this
# hash of the original file on wit3.fbk.eu, which no longer exists.
_WIT3 = PublishedFile(
    "de-en.tgz",
    "https://raw.githubusercontent.com/hlt-mt/WIT3/master/archive/2017-01-trnted/texts/de/en",
    "sha256:ebcd53c53c8df742437e3a0fb964772e78764c3f6d4e38df0b6a2f71abc3a8b4",
)
_WIT3_TRAIN = "de-en/train.tags.de-en"
_WIT3_VALIDATION = "de-en/IWSLT17.TED.dev2010.de-en"
_WIT3_TEST = [f"de-en/IWSLT17.TED.tst{year}.de-en" for year in range(2010, 2016)]


def _read_iwslt17(files: Mapping[str, Path]) -> Corpus:
    archive = files[_WIT3.name]
    sets = [f"{stem}.{language}.xml" for stem in (_WIT3_VALIDATION, *_WIT3_TEST) for language in ("de", "en")]
    members = read_members(archive, [f"{_WIT3_TRAIN}.de", f"{_WIT3_TRAIN}.en", *sets])

    def train(language: str) -> list[str]:
        # Lines such as <url> and <title> describe a talk and are not part of it.
        return [line for line in members[f"{_WIT3_TRAIN}.{language}"] if not re.match(r"</?[A-Za-z]", line)]

    def read(stem: str) -> ParallelText:
        german, english = (segments(members[f"{stem}.{language}.xml"]) for language in ("de", "en"))
        return parallel_text(german, english, f"{archive}, {stem}")

    return Corpus(
        train=parallel_text(train("de"), train("en"), f"{archive}, {_WIT3_TRAIN}"),
        validation=read(_WIT3_VALIDATION),
        test=concatenate([read(stem) for stem in _WIT3_TEST]),
    )


IWSLT17 = PublishedCorpus("iwslt17", (_WIT3,), _read_iwslt17)

# WMT 2014: 4.5 million sentences of the European Parliament, web pages and news (Bojar et al. 2014,
# W14-3302), the data of section 5.1 of the paper. Validation is newstest2013; the test is the full
# newstest2014, sacrebleu's `wmt14/full`. The hashes of the training archives were recorded by Hugging Face's
# `datasets`, and the hashes of the test archives by sacrebleu.
_WMT13, _WMT14 = "https://www.statmt.org/wmt13", "https://www.statmt.org/wmt14"
#: The training archives, each with the path of its two files without the language suffix.
_WMT14_TRAIN = {
    PublishedFile(
        "training-parallel-europarl-v7.tgz",
        _WMT13,
        "sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    ): "training/europarl-v7.de-en",
    PublishedFile(
        "training-parallel-commoncrawl.tgz",
        _WMT13,
        "sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    ): "commoncrawl.de-en",
    PublishedFile(
        "training-parallel-nc-v9.tgz",
        _WMT14,
        "sha256:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
    ): "training/news-commentary-v9.de-en",
}
_NEWSTEST2013 = PublishedFile("test.tgz", _WMT13, "md5:48eca5d02f637af44e85186847141f67")
_NEWSTEST2014 = PublishedFile("test-full.tgz", _WMT14, "md5:a8cd784e006feb32ac6f3d9ec7eb389a")


def _read_wmt14(files: Mapping[str, Path]) -> Corpus:
    def read(archive: PublishedFile, german: str, english: str, sgml: bool = False) -> ParallelText:
        path = files[archive.name]
        members = read_members(path, [german, english])
        if sgml:
            members = {name: segments(lines) for name, lines in members.items()}
        return parallel_text(members[german], members[english], f"{path}, {german}")

    train = [read(archive, f"{stem}.de", f"{stem}.en") for archive, stem in _WMT14_TRAIN.items()]
    return Corpus(
        train=concatenate(train),
        validation=read(
            _NEWSTEST2013, "test/newstest2013-src.de.sgm", "test/newstest2013-src.en.sgm", sgml=True
        ),
        test=read(
            _NEWSTEST2014,
            "test-full/newstest2014-deen-src.de.sgm",
            "test-full/newstest2014-deen-ref.en.sgm",
            sgml=True,
        ),
    )


WMT14 = PublishedCorpus("wmt14", (*_WMT14_TRAIN, _NEWSTEST2013, _NEWSTEST2014), _read_wmt14)

PUBLISHED = {corpus.name: corpus for corpus in (MULTI30K, IWSLT17, WMT14)}

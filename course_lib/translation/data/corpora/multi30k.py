"""Multi30k, task 1: 29,000 captions of photographs in German and English.

Elliott et al. 2016 (W16-3210), with the test set of 2016. The captions are for non-commercial research and
education, so they are downloaded, or read from a mirror folder, and never shipped.
"""

from collections.abc import Mapping
from pathlib import Path

from course_lib.translation.data.corpora.parallel_text import Corpus, ParallelText, read_parallel_text
from course_lib.translation.data.corpora.published import PublishedCorpus, PublishedFile

#: The raw files, at the commit whose hashes stand below.
HOME = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"

SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
}


def _read(files: Mapping[str, Path]) -> Corpus:
    def split(stem: str) -> ParallelText:
        return read_parallel_text(files[f"{stem}.de.gz"], files[f"{stem}.en.gz"])

    return Corpus(train=split("train"), validation=split("val"), test=split("test_2016_flickr"))


MULTI30K = PublishedCorpus(
    "multi30k",
    tuple(PublishedFile(name, HOME, f"sha256:{digest}") for name, digest in SHA256.items()),
    _read,
)


def multi30k(mirror: Path | None = None, url: str | None = None, cache: Path | None = None) -> Corpus:
    """Read the corpus from a mirror folder where one is named, else download it once and keep it in `cache`.

    Raises BadInputError where a file is missing, cannot be downloaded or is not the published one.
    """
    return MULTI30K.load(mirror, url, cache)

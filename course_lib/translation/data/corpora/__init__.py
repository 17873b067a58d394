"""The corpora that a config can name."""

import hashlib
import os
from importlib import resources
from pathlib import Path

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data import captions
from course_lib.translation.data.corpora.iwslt17 import IWSLT17
from course_lib.translation.data.corpora.multi30k import MULTI30K
from course_lib.translation.data.corpora.parallel_text import Corpus, ParallelText, read_parallel_text
from course_lib.translation.data.corpora.wmt14 import WMT14

PUBLISHED = {corpus.name: corpus for corpus in (MULTI30K, IWSLT17, WMT14)}


def load_corpus(config: DataConfig) -> Corpus:
    """Read the corpus that the config names. Raises BadInputError where a file is missing or damaged."""
    if config.corpus in PUBLISHED:
        mirror = config.mirror or os.environ.get("COURSE_DATA")
        cache = Path(config.cache) if config.cache else None
        return PUBLISHED[config.corpus].load(Path(mirror) if mirror else None, config.url, cache)
    if config.corpus == "folder":
        return _folder(config)
    return _captions()


def corpus_fingerprint(config: DataConfig) -> str:
    """Give a hash that changes when the corpus does, without reading what is known by its checksums."""
    if config.corpus in PUBLISHED:
        return PUBLISHED[config.corpus].fingerprint
    # Only this corpus changes under its name; the built-in one changes with the grammar that writes it.
    contents = (
        [path.read_bytes() for pair in _folder_files(config) for path in pair]
        if config.corpus == "folder"
        else [path.read_bytes() for path in _grammar()]
    )
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    return hashlib.sha256("\n".join([config.corpus, *digests]).encode()).hexdigest()


def _captions() -> Corpus:
    splits = captions.splits()

    def side_by_side(pairs: list[captions.Pair]) -> ParallelText:
        return ParallelText([pair.german for pair in pairs], [pair.english for pair in pairs])

    return Corpus(
        train=side_by_side(splits["train"]),
        validation=side_by_side(splits["validation"]),
        test=side_by_side(splits["test"]),
    )


def _grammar() -> list[Path]:
    files = resources.files(captions).iterdir()
    return sorted(Path(str(file)) for file in files if file.name.endswith(".py"))


def _folder(config: DataConfig) -> Corpus:
    train, validation, test = (read_parallel_text(*pair) for pair in _folder_files(config))
    return Corpus(train, validation, test)


def _folder_files(config: DataConfig) -> list[tuple[Path, Path]]:
    assert config.folder is not None, "the config has checked it"
    folder = Path(config.folder)
    return [
        (_plain_or_gzipped(folder, f"{split}.de"), _plain_or_gzipped(folder, f"{split}.en"))
        for split in ("train", "validation", "test")
    ]


def _plain_or_gzipped(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise BadInputError(
        f"{folder / name}: expected a corpus file of that name, plain or as .gz, but there is none"
    )

"""Load the corpora that a config can select."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data.corpora.parallel_text import Corpus, ParallelText, read_parallel_text
from course_lib.translation.data.corpora.published import PUBLISHED

#: The folder of the built-in corpus. Its README describes the corpus.
CAPTIONS = Path(__file__).with_name("captions")


def load_corpus(config: DataConfig) -> Corpus:
    """Load the corpus that the config names, with at most `config.train_pairs` training pairs.

    A published corpus is read from the mirror that the config or the environment variable COURSE_DATA names.
    Without a mirror, it is downloaded unless it is cached. Raises BadInputError if a file is missing, damaged
    or cannot be downloaded.
    """
    if config.corpus in PUBLISHED:
        mirror = config.mirror or os.environ.get("COURSE_DATA")
        corpus = PUBLISHED[config.corpus].load(Path(mirror) if mirror else None)
    else:
        corpus = _read_folder(Path(config.folder or CAPTIONS))
    return replace(corpus, train=corpus.train.first(config.train_pairs))


def load_captions() -> Corpus:
    """Load the built-in corpus: image captions in German and English, with 6,000 training pairs."""
    return _read_folder(CAPTIONS)


def corpus_fingerprint(config: DataConfig) -> str:
    """Return a hash that changes if the corpus changes. Raises BadInputError if one of its files is missing.

    For a published corpus, it is computed from the pinned checksums, otherwise from the files' contents.
    """
    if config.corpus in PUBLISHED:
        return PUBLISHED[config.corpus].fingerprint
    files = [path for pair in _files(Path(config.folder or CAPTIONS)) for path in pair]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    return hashlib.sha256("\n".join([config.corpus, *digests]).encode()).hexdigest()


def _read_folder(folder: Path) -> Corpus:
    train, validation, test = (read_parallel_text(*pair) for pair in _files(folder))
    return Corpus(train, validation, test)


def _files(folder: Path) -> list[tuple[Path, Path]]:
    if not folder.is_dir():
        found = "is a file" if folder.exists() else "doesn't exist"
        raise BadInputError(
            f"data.folder: {folder} {found}. Set it to a folder with the files train.de, train.en, and so on."
        )
    return [
        (_plain_or_gzipped(folder, f"{split}.de"), _plain_or_gzipped(folder, f"{split}.en"))
        for split in ("train", "validation", "test")
    ]


def _plain_or_gzipped(folder: Path, name: str) -> Path:
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
    if not found:
        raise BadInputError(
            f"{folder / name}: there is no such file, and none with .gz at the end of its name. Add it."
        )
    if len(found) > 1:
        raise BadInputError(
            f"{folder / name}: there is also {name}.gz, so it isn't clear which of them to read. Remove one."
        )
    return found[0]

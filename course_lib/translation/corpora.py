"""The corpora that a config can name."""

import os
from pathlib import Path

from course_lib.translation import captions
from course_lib.translation.config import DataConfig
from course_lib.translation.errors import BadInputError
from course_lib.translation.multi30k import HOME, multi30k
from course_lib.translation.parallel_text import Corpus, ParallelText, read_parallel_text


def load_corpus(config: DataConfig) -> Corpus:
    """Read the corpus that the config names. Raises BadInputError where a file is missing or damaged."""
    if config.corpus == "multi30k":
        mirror = config.mirror or os.environ.get("COURSE_DATA")
        cache = Path(config.cache) if config.cache else None
        return multi30k(Path(mirror) if mirror else None, config.url or HOME, cache)
    if config.corpus == "folder":
        assert config.folder is not None, "the config has checked it"
        return _folder(Path(config.folder))
    return _captions()


def _captions() -> Corpus:
    splits = captions.splits()

    def side_by_side(pairs: list[captions.Pair]) -> ParallelText:
        return ParallelText([pair.german for pair in pairs], [pair.english for pair in pairs])

    return Corpus(
        train=side_by_side(splits["train"]),
        validation=side_by_side(splits["validation"]),
        test=side_by_side(splits["test"]),
    )


def _folder(folder: Path) -> Corpus:
    def split(name: str) -> ParallelText:
        return read_parallel_text(
            _plain_or_gzipped(folder, f"{name}.de"), _plain_or_gzipped(folder, f"{name}.en")
        )

    return Corpus(train=split("train"), validation=split("validation"), test=split("test"))


def _plain_or_gzipped(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise BadInputError(
        f"{folder / name}: expected a corpus file of that name, plain or as .gz, but there is none"
    )

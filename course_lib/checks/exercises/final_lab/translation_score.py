"""Score translations of a test set against the references of its corpus."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from course_lib.checks.exercises.final_lab.run_files import FileError, decoded
from course_lib.errors import BadInputError

if TYPE_CHECKING:
    from course_lib.translation.configs.schema import Direction
    from course_lib.translation.train.scoring import Score

#: The number of sentences in each corpus's test set, which identifies the corpus of a submitted file.
SENTENCES = {"captions": 300, "multi30k": 1000}


@cache
def references(corpus: str, direction: "Direction" = "de-en") -> list[str] | str:
    """Return the references of a corpus's test set in the target language of a direction.

    If they are unavailable, return a string that says why.
    """
    # Import these only when needed, because they are slow and the checks of all lessons import this module.
    from course_lib.translation.configs.schema import DataConfig
    from course_lib.translation.data.corpora import load_corpus

    try:
        test = load_corpus(DataConfig.model_validate({"corpus": corpus})).test
    except BadInputError as error:
        return str(error)
    return list(test.english if direction == "de-en" else test.german)


def score_lines(content: bytes, corpora: Sequence[str], direction: "Direction") -> tuple[str, "Score"]:
    """Score translations, one per line, in the order of the test set. Return the corpus and the score.

    The number of lines identifies the corpus. Raises FileError if it doesn't match the test set of
    any of these corpora, or if the file or the references can't be read.
    """
    # Import sacrebleu only when needed, because that takes a while and few cells need it.
    from course_lib.translation.train.scoring import score

    lines = _lines(content)
    corpus = next((name for name in corpora if SENTENCES.get(name) == len(lines)), None)
    if corpus is None:
        expected = " or ".join(f"{SENTENCES[name]:,} ({name})" for name in corpora if name in SENTENCES)
        raise FileError(
            f"expected one line for each sentence of a test set: {expected}, found {len(lines):,}"
        )
    right = references(corpus, direction)
    if isinstance(right, str):
        raise FileError(
            f"the references of {corpus} are not on this machine, so the file can't be scored yet ({right})",
            verdict="error",
            review=f"the references of {corpus} are missing; set COURSE_DATA and grade again: {right}",
        )
    return corpus, score(lines, right)


def share_of_provided(content: bytes) -> float:
    """Return the share of lines that equal the provided model's translations of Multi30k's test set.

    Returns 0 if the number of lines differs. Raises FileError if the content isn't valid UTF-8.
    """
    folder = files("course_lib.translation.checkpoints") / "provided" / "multi30k"
    provided = (folder / "test_2016_flickr.en").read_text("utf-8").splitlines()
    lines = _lines(content)
    if len(lines) != len(provided):
        return 0.0
    return sum(line.strip() == other for line, other in zip(lines, provided, strict=True)) / len(lines)


def _lines(content: bytes) -> list[str]:
    lines = [line.removesuffix("\r") for line in decoded(content).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines

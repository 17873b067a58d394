"""What made-up students hand in beside a notebook, where a lesson asks for files: those of a good run."""

import json

from course_lib.checks.exercises.final_lab.hand_in import METRICS, TRANSLATIONS
from course_lib.checks.exercises.registry import catalogue
from course_lib.curriculum import Lesson
from course_lib.translation.data.corpora import load_captions

_UPDATES, _EVERY, _WARMUP = 1000, 20, 200

#: One word in so many is lost on the way from the reference to a made-up translation.
_LOST = 40


def example_files(lesson: Lesson) -> dict[str, bytes]:
    """Give the files of one student, by their names; none where the lesson asks for none."""
    made = {METRICS.name: _metrics, TRANSLATIONS.name: _translations}
    known = catalogue()
    files = {}
    for entry in lesson.hand_ins:
        asked = known[entry.name]
        assert asked in (METRICS, TRANSLATIONS), "an example of this file has still to be made up"
        files[asked.file] = made[asked.name]()
    return files


def _metrics() -> bytes:
    """Make up the rows of a run whose loss falls, as a power of the updates."""
    rows: list[dict[str, object]] = [
        {
            "step": step,
            "epoch": 1 + step // (_UPDATES // 4),
            "rate": 1e-3 * min(step / _WARMUP, (_WARMUP / step) ** 0.5),
            "loss": 12.0 * step**-0.3,
            "tokens_per_second": 6000.0 + step % 7,
            "padded": 0.05,
        }
        for step in range(_EVERY, _UPDATES + 1, _EVERY)
    ]
    rows += [{"step": _UPDATES, "epoch": 4, "test_bleu": 92.0}]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _translations() -> bytes:
    """Make translations of the captions' test split out of the references: here and there a word is lost."""
    count = 0
    lines = []
    for caption in load_captions().test.english:
        kept = []
        for word in caption.split():
            count += 1
            if count % _LOST:
                kept.append(word)
        lines.append(" ".join(kept))
    return "".join(f"{line}\n" for line in lines).encode()

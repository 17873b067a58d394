"""The search for misconceptions: the names that it finds, its effort, and its cached outcomes."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from course_lib.checks.engine import local_backend, messages, search
from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.diagnosis import examine
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.misconceptions import common_misconceptions
from course_lib.checks.engine.probe import Draw
from course_lib.checks.engine.reply import OUT_OF_TIME, Raised, Reply
from course_lib.checks.engine.versions import Versions
from course_lib.checks.exercises.registry import catalogue
from course_lib.time_limit import OutOfTime
from course_lib.transformer import attention_scores, scaled_dot_product_attention

#: An exercise's own misconception, with the name of a common one but a different result.
FILE = """
[[attention_scores]]
name = "cut_gradient"
statement = "the scores are not divided"
hint = "Divide them."
source = "nowhere"
patch = [{ find = " / math.sqrt(query.shape[-1])", replace = "" }]
"""


def _scores(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.normal(2, 4), draw.normal(3, 4))


def _exercise(folder: Path, misconceptions: str = FILE) -> ExerciseCheck:
    file = folder / "misconceptions.toml"
    file.write_text(misconceptions, encoding="utf-8")
    exercise = ExerciseCheck(attention_scores, file)
    exercise.probe("the scores are correct")(_scores)
    return exercise


def _not_divided(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1)


def _as_numpy(query: Tensor, key: Tensor) -> object:
    return attention_scores(query, key).numpy()


def test_misconceptions_of_the_same_name_do_not_share_versions(tmp_path: Path) -> None:
    exercise = _exercise(tmp_path)
    (own,) = exercise.misconceptions
    (common,) = (one for one in common_misconceptions() if one.name == own.name)
    versions = Versions(exercise, "seed")
    results = [versions.outcome((one,), 0).observed.value for one in (common, own)]
    assert not torch.allclose(*results)


def test_a_verdict_does_not_depend_on_earlier_verdicts(tmp_path: Path) -> None:
    for answers in ((_not_divided, _as_numpy, _not_divided), (_as_numpy, _not_divided)):
        exercise = _exercise(tmp_path)
        for answer in answers:
            verdict = examine(exercise, LocalBackend(answer), "seed")
            expected = "cut_gradient" if answer is _not_divided else "numpy_array"
            assert [one.name for one in verdict.explanation.named] == [expected]


def test_the_effort_is_the_same_with_and_without_known_outcomes(tmp_path: Path) -> None:
    exercise = _exercise(tmp_path)

    def effort() -> int:
        versions = Versions(exercise, "seed")
        for mistake in exercise.misconceptions:
            versions.outcome((mistake,), 0)
        return versions.effort

    first = effort()
    examine(exercise, LocalBackend(_not_divided), "seed")
    assert effort() == first > 0


def test_a_misconception_that_once_took_too_long_is_found_by_the_next_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exercise = _exercise(tmp_path)
    student = LocalBackend(_not_divided)
    versions = Versions(exercise, "seed")
    versions.reference(0)
    with monkeypatch.context() as patch:
        patch.setattr(local_backend, "time_limit", _suspended)
        outcome = versions.outcome(exercise.misconceptions, 0)
    assert isinstance(outcome.observed, Raised)
    assert outcome.observed.kind == OUT_OF_TIME
    assert versions.outcome(exercise.misconceptions, 0) is outcome
    assert versions.effort > search._ALL_EFFORT, "the search would wait for more timeouts"
    assert examine(exercise, student, "seed").explanation.named == exercise.misconceptions


@contextmanager
def _suspended(_: float) -> Iterator[None]:
    raise OutOfTime
    yield


#: Two misconceptions with equal results for four features.
RIVALS = """
[[attention_scores]]
name = "divided_by_all"
statement = "the scores are divided by the number of features"
hint = "Take the root."
source = "nowhere"
patch = [{ find = "math.sqrt(query.shape[-1])", replace = "query.shape[-1]" }]

[[attention_scores]]
name = "divided_by_four"
statement = "the scores are always divided by 4"
hint = "Use the shape."
source = "nowhere"
patch = [{ find = "math.sqrt(query.shape[-1])", replace = "4" }]
"""


def _divided_strangely(query: Tensor, key: Tensor) -> Tensor:
    return _not_divided(query, key) / {4: 4, 9: 5, 16: 4}[query.shape[-1]]


def _rivals(folder: Path, *features: int) -> ExerciseCheck:
    exercise = _exercise(folder, RIVALS)
    for count in features:
        exercise.probe(f"the scores of {count} features are correct")(
            lambda candidate, draw, count=count: candidate.call(draw.normal(2, count), draw.normal(3, count))
        )
    return exercise


def test_of_two_misconceptions_that_explain_as_much_neither_is_stated_as_the_cause(tmp_path: Path) -> None:
    told = messages.failure(examine(_rivals(tmp_path, 9), LocalBackend(_divided_strangely), "seed"))
    assert "for instance, a known mistake gives the same result as your code: the scores are" in told
    assert "Why:" not in told


def test_the_other_tests_decide_between_two_misconceptions(tmp_path: Path) -> None:
    told = messages.failure(examine(_rivals(tmp_path, 9, 16), LocalBackend(_divided_strangely), "seed"))
    same = "a known mistake gives the same result as your code: the scores are always divided by 4"
    assert same in " ".join(told.split())
    assert "Why: Use the shape." in told


class _WidelyCopied(nn.Module):
    """A well-known implementation of multi-head attention, with the names of the exercise."""

    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        self.heads, self.width, self.attention = heads, d_model // heads, attention
        self.query_projection, self.key_projection, self.value_projection, self.output_projection = (
            self.layers(d_model)
        )
        self.dropout = nn.Dropout(dropout)

    def layers(self, d_model):
        return (nn.Linear(d_model, d_model) for _ in range(4))

    def has_no_head_axis(self, mask):
        return mask.dim() == 3

    def forward(self, query, key, value, mask=None):
        if mask is not None and self.has_no_head_axis(mask):
            mask = mask.unsqueeze(1)
        batch = query.size(0)
        query, key, value = (
            layer(x).view(batch, -1, self.heads, self.width).transpose(1, 2)
            for layer, x in (
                (self.query_projection, query),
                (self.key_projection, key),
                (self.value_projection, value),
            )
        )
        x, self.weights = self.attention(query, key, value, mask, self.dropout)
        return self.output_projection(x.transpose(1, 2).contiguous().view(batch, -1, self.heads * self.width))


class _WithItsMask(_WidelyCopied):
    def has_no_head_axis(self, mask):
        return True


class _WithItsClones(_WidelyCopied):
    def layers(self, d_model):
        layer = nn.Linear(d_model, d_model)
        return (deepcopy(layer) for _ in range(4))


class _WithBoth(_WithItsMask, _WithItsClones):
    pass


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (_WidelyCopied, ["batch_from_query", "weights_kept"]),
        (_WithItsMask, ["widely_copied_code"]),
        (_WithItsClones, ["batch_from_query", "weights_kept", "deep_copied"]),
        (_WithBoth, ["widely_copied_code", "deep_copied"]),
    ],
)
@pytest.mark.usefixtures("shapes_unchecked")
def test_all_mistakes_of_widely_copied_code_are_named(found: type[nn.Module], names: list[str]) -> None:
    verdict = examine(catalogue()["MultiHeadAttention"], LocalBackend(found), "practice")
    assert [one.name for one in verdict.explanation.named] == names

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest

from course_lib.charts import Picture, architecture_map
from course_lib.charts.map_layout import ARROWS, BOXES, HEADINGS, HEIGHT, SIGNS, TIES, WAVES, Box
from course_lib.charts.theme import WIDTH
from course_lib.curriculum import Curriculum, public_curriculum

ALL_BOXES = (*BOXES, *WAVES)
BLOCKS = public_curriculum().blocks


def test_every_block_is_drawn_and_nothing_else() -> None:
    assert {box.name for box in ALL_BOXES} == set(BLOCKS)


def test_exercises_that_a_course_leaves_out_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = public_curriculum()
    lessons = [
        replace(lesson, exercises=[exercise for exercise in lesson.exercises if exercise.name != "sinusoids"])
        for lesson in whole.lessons
        if lesson.name != "12-data-parallel"
    ]
    monkeypatch.setattr(
        "course_lib.charts.architecture.public_curriculum", lambda: Curriculum(lessons=lessons)
    )
    drawn = str(architecture_map(built=["attention_scores"]).to_dict())
    assert "'attention_scores'" in drawn
    assert "'sinusoids'" not in drawn
    assert "'GradientBuckets'" not in drawn


def test_every_block_says_what_it_does() -> None:
    for _, exercise in BLOCKS.values():
        assert exercise.does.endswith("."), exercise
        assert 20 < len(exercise.does) < 90, exercise


def _overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def _holds(outer: Box, inner: Box) -> bool:
    return (
        outer.x < inner.x
        and inner.x + inner.width < outer.x + outer.width
        and outer.y < inner.y
        and inner.y + inner.height < outer.y + outer.height
    )


def test_boxes_are_apart_or_one_holds_the_other() -> None:
    for one, other in combinations(ALL_BOXES, 2):
        nested = (one.is_open and _holds(one, other)) or (other.is_open and _holds(other, one))
        assert nested or not _overlap(one, other), (one, other)


def test_holders_come_before_what_they_hold() -> None:
    """Blocks are drawn in the order of BOXES, and a later block would cover an earlier one inside it."""
    holders = [box for box in BOXES if box.is_open]
    for earlier, later in combinations(holders, 2):
        assert not _holds(later, earlier)


def test_everything_is_on_the_canvas() -> None:
    for box in ALL_BOXES:
        assert 0 < box.x < box.x + box.width < WIDTH
        assert 0 < box.y < box.y + box.height < HEIGHT - 24  # the key is below
    corners = [corner for path in (*ARROWS, *TIES) for corner in path.corners]
    for x, y in corners + [(x, y) for x, y, _ in (*SIGNS, *HEADINGS)]:
        assert 0 < x < WIDTH
        assert 0 < y < HEIGHT - 24


def test_labels_fit_their_boxes() -> None:
    """A letter of the bold face at 11 pixels is 6.2 pixels wide on average."""
    for box in BOXES:
        assert max(len(line) for line in box.label.split("\n")) * 6.2 < box.width + 4, box


@pytest.mark.parametrize("path", [path for path in ARROWS if path.points])
def test_arrows_end_at_a_box_or_a_word(path: object) -> None:
    x, y = path.corners[-1]  # type: ignore[attr-defined]
    edges = [
        (box.x <= x <= box.x + box.width and min(abs(y - box.y), abs(y - box.y - box.height)) < 1)
        or (box.y <= y <= box.y + box.height and min(abs(x - box.x), abs(x - box.x - box.width)) < 1)
        for box in BOXES
    ]
    words = [abs(x - sign_x) < 1 and abs(y - sign_y) < 8 for sign_x, sign_y, _ in SIGNS]
    assert any(edges + words)


def _through(lesson: int) -> list[str]:
    return [name for name, (other, _) in BLOCKS.items() if int(other.name[:2]) <= lesson]


def _states(chart: Picture) -> dict[str, str]:
    """Return each block's state, from the picture's own data."""
    rows = [row for data in chart.to_dict()["datasets"].values() for row in data]
    return {row["name"]: row["state"] for row in rows if "state" in row}


def test_states() -> None:
    states = _states(architecture_map(_through(2), current=["LayerNorm", "FeedForward", "split_heads"]))
    assert states.pop("LayerNorm") == states.pop("FeedForward") == states.pop("split_heads") == "now"
    built = {"attention_scores", "attention_weights", "scaled_dot_product_attention"}
    assert {name for name, state in states.items() if state == "built"} == built | {
        "merge_heads",
        "MultiHeadAttention",
    }
    assert set(states.values()) == {"built", "to come"}


def test_one_current_block_may_be_a_plain_name() -> None:
    assert _states(architecture_map(current="train_step"))["train_step"] == "now"


@pytest.mark.parametrize("through", [0, 5, 13])
def test_says_how_far_the_student_is(through: int, texts_of: Callable[[Picture], list[str]]) -> None:
    built = _through(through)
    chart = architecture_map(built)
    assert any(text.startswith(f"{len(built)} of {len(BLOCKS)} parts are built") for text in texts_of(chart))
    assert all(name in str(chart.description) for name in built)


def test_a_part_that_is_built_looks_different_in_grey_too() -> None:
    """Line widths and dashes distinguish the states without colour."""
    chart = architecture_map(["FeedForward"], current="LayerNorm").to_dict()
    marks = [layer["mark"] for layer in chart["layer"] if layer["mark"]["type"] == "rect"]
    looks = {(mark["strokeWidth"], tuple(mark["strokeDash"])) for mark in marks}
    assert len(looks) == 3


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"\['attension'\].*Known: attention_scores, .*global_token_mean"):
        architecture_map(["attension"])
    with pytest.raises(ValueError, match=r"\['x', 'y'\]"):
        architecture_map(["x"], current="y")

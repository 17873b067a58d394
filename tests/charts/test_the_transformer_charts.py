"""The charts of lesson 06: shapes through the model, parameters by part, greedy decoding."""

from collections.abc import Callable

import pytest
import torch

from course_lib.charts import Picture, decoding_steps, shape_flow

TextsOf = Callable[[Picture], list[str]]

ENCODER = [("source tokens", (8, 12)), ("embedding", (8, 12, 32)), ("memory", (8, 12, 32))]
DECODER = [("target tokens", (8, 9)), ("looks at memory", (8, 9, 32)), ("logits", torch.Size([8, 9, 700]))]


def test_shapes_are_written_on_the_bars(texts_of: TextsOf) -> None:
    texts = texts_of(shape_flow(ENCODER, DECODER, memory_to=["looks at memory"]))
    assert texts.count("8 × 12 × 32") == 2
    assert {"8 × 12", "8 × 9", "8 × 9 × 32", "8 × 9 × 700", "memory", "logits"} <= set(texts)


def test_shapes_are_told_in_words() -> None:
    told = str(shape_flow(ENCODER, DECODER, memory_to=["looks at memory"]).description)
    assert "The encoder, from its input on: source tokens 8 × 12, embedding 8 × 12 × 32" in told
    assert "logits 8 × 9 × 700. Keys and values come from the encoder in looks at memory." in told


def test_the_memory_arrives_as_keys_and_values(texts_of: TextsOf) -> None:
    assert {"K", "V"} <= set(texts_of(shape_flow(ENCODER, DECODER, memory_to=["looks at memory"])))


def test_a_single_stage_has_no_arrow() -> None:
    chart = shape_flow(ENCODER[1:2], DECODER[1:2], memory_to=["looks at memory"])
    assert chart.to_dict()["height"] == 38 + 6


@pytest.mark.parametrize(
    ("encoder", "readers", "told"),
    [
        ([("x", (3,))], [], r"encoder, x: expected the shape .sentences, positions. or .*got \(3,\)"),
        ([("x", (3, 0, 2))], [], r"got \(3, 0, 2\)"),
        (ENCODER, ["nothing"], "memory_to: expected stages of the decoder, got .'nothing'."),
    ],
)
def test_shapes_that_cannot_be_drawn(encoder: list, readers: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        shape_flow(encoder, DECODER, memory_to=readers)


WORDS = ["</s>", "a", "dog"]


def test_each_step_shows_what_is_taken(texts_of: TextsOf) -> None:
    chart = decoding_steps([[0.1, 0.7, 0.2], [0.25, 0.0, 0.75]], WORDS, [1, 2])
    texts = texts_of(chart)
    assert {"Written: a dog", "step 1", "step 2", ".75"} <= set(texts)
    assert "Step 1: a at 0.70. Step 2: dog at 0.75." in str(chart.description)


def test_many_words_leave_no_room_for_numbers(texts_of: TextsOf) -> None:
    words = [f"w{number}" for number in range(40)]
    texts = texts_of(decoding_steps(torch.full((2, 40), 1 / 40), words, [0, 39]))
    assert ".03" not in texts
    assert "w39" in texts


def test_words_that_do_not_match_the_columns() -> None:
    with pytest.raises(ValueError, match="words: expected 2 words"):
        decoding_steps([[0.5, 0.5]], WORDS, [0])

"""The chart that works out attention step by step."""

import math
from collections.abc import Callable

import pytest
import torch

from course_lib.charts import Picture, attention_steps
from course_lib.transformer import scaled_dot_product_attention

WORDS = ["dog", "cat", "red"]
X = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])


def test_the_table_is_the_calculation(texts_of: Callable[[Picture], list[str]]) -> None:
    output, weights = scaled_dot_product_attention(X, X, X)
    written = texts_of(attention_steps(X, X, X, WORDS, WORDS))
    assert {"(2, 0)", "4", f"{4 / math.sqrt(2):.2f}", "16.9"} <= set(written)
    assert all(f"{weight:.3f}" in written for weight in weights[0].tolist())
    assert f"sum ({output[0, 0]:.2f}, {output[0, 1]:.2f})" in written


def test_the_slider_hides_later_steps(texts_of: Callable[..., list[str]]) -> None:
    written = texts_of(attention_steps(X, X, X, WORDS, WORDS), step_query=1, steps_shown=2)
    assert "(2, 0)" in written
    assert not any(text.startswith("sum") for text in written)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got \(3, 2\), \(3, 3\) and \(3, 2\)"):
        attention_steps(X, torch.ones(3, 3), X, WORDS, WORDS)

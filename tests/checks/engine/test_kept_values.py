"""Diagnosis of results that depend on earlier calls, through caches, counters and attributes."""

import math
import socket
import threading
from typing import Any

import pytest
import torch
from torch import nn

from course_lib.checks.engine import messages
from course_lib.checks.engine.candidate import Backend
from course_lib.checks.engine.diagnosis import Verdict, examine
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.exercises.registry import catalogue
from course_lib.checks.remote.client import student_objects
from course_lib.checks.remote.serialization import pack
from course_lib.checks.remote.server import serve
from course_lib.checks.remote.transport import Channel
from course_lib.transformer import smooth_targets

RATE = "factor * d_model ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)"

#: Answers that keep values, with the name of the exercise and that of the variable.
ANSWERS = {
    "a global dictionary": (
        "learning_rate",
        "rates",
        f"""
rates = {{}}
def learning_rate(step, d_model, warmup, factor=1.0):
    if step not in rates:
        rates[step] = {RATE}
    return rates[step]
""",
    ),
    "a dictionary of another function": (
        "learning_rate",
        "_rates",
        f"""
from collections import defaultdict
_rates = defaultdict(float)
def cached(step, d_model, warmup, factor):
    _rates[step] = _rates[step] or {RATE}
    return _rates[step]
def learning_rate(step, d_model, warmup, factor=1.0):
    return cached(step, d_model, warmup, factor)
""",
    ),
    "a default argument": (
        "learning_rate",
        "known",
        f"""
def learning_rate(step, d_model, warmup, factor=1.0, known={{}}):
    return known.setdefault(step, {RATE})
""",
    ),
    "a global variable": (
        "causal_mask",
        "triangle",
        """
triangle = None
def causal_mask(length):
    global triangle
    if triangle is None:
        triangle = torch.ones(length, length, dtype=torch.bool).tril()
    return triangle[None, :length, :length]
""",
    ),
    "a counter": (
        "learning_rate",
        "calls",
        f"""
calls = 0
def learning_rate(step, d_model, warmup, factor=1.0):
    global calls
    calls += 1
    return {RATE} / calls
""",
    ),
    "an attribute": (
        "LabelSmoothingLoss",
        "self.tokens",
        """
class LabelSmoothingLoss(nn.Module):
    def __init__(self, vocab_size, pad_id, smoothing=0.1):
        super().__init__()
        self.vocab_size, self.pad_id, self.smoothing = vocab_size, pad_id, smoothing
        self.tokens = None
    def forward(self, logits, labels):
        if self.tokens is None:
            self.tokens = max((labels != self.pad_id).sum().item(), 1)
        wanted = smooth_targets(labels, self.vocab_size, self.pad_id, self.smoothing).to(logits.dtype)
        return -(wanted * logits.log_softmax(-1)).sum() / self.tokens
""",
    ),
    "an attribute of a module that a fixture calls": (
        "MultiHeadAttention",
        "self.known",
        """
from course_lib.transformer import merge_heads, split_heads, scaled_dot_product_attention
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, heads, dropout=0.1, attention=scaled_dot_product_attention):
        super().__init__()
        for name in ("query", "key", "value", "output"):
            setattr(self, f"{name}_projection", nn.Linear(d_model, d_model))
        self.dropout, self.heads, self.attention = nn.Dropout(dropout), heads, attention
        self.known = [None, None, None]
    def forward(self, query, key, value, mask=None):
        if not len(query) == len(key) == len(value):
            raise ValueError("batch sizes")
        if self.known[0] is not key:
            self.known = [key, self.key_projection(key), self.value_projection(value)]
        mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask
        k, v = (split_heads(x, self.heads) for x in self.known[1:])
        q = split_heads(self.query_projection(query), self.heads)
        return self.output_projection(merge_heads(self.attention(q, k, v, mask, self.dropout)[0]))
""",
    ),
}


def namespace(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"math": math, "nn": nn, "smooth_targets": smooth_targets, "torch": torch}
    exec(code, names)
    return names


def verdict(exercise: str, backend: Backend) -> Verdict:
    return examine(catalogue()[exercise], backend, "practice")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ANSWERS)
def test_the_variable_is_named(kind: str) -> None:
    exercise, variable, code = ANSWERS[kind]
    names = namespace(code)
    found = verdict(exercise, LocalBackend(names[exercise]))
    assert [mistake.name for mistake in found.explanation.named] == ["values_kept_between_calls"]
    assert f"keeps values in `{variable}` from one call to the next" in " ".join(
        messages.failure(found).split()
    )


def test_the_variable_is_named_if_it_was_filled_before_the_check() -> None:
    _, _, code = ANSWERS["a global variable"]
    names = namespace(code)
    names["causal_mask"](3)
    assert verdict("causal_mask", LocalBackend(names["causal_mask"])).tier == "exact"
    assert names["triangle"] is not None  # The check hasn't changed the notebook's variable.


def test_the_variable_is_named_through_a_connection() -> None:
    _, _, code = ANSWERS["a global dictionary"]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = threading.Thread(target=serve, args=(theirs, namespace(code)))
        server.start()
        channel = Channel(ours)
        found = verdict("learning_rate", student_objects(channel)["learning_rate"])
        channel.send(pack({"do": "done"}))
        server.join()
    assert "`rates`" in found.explanation.named[0].hint


@pytest.mark.parametrize(
    "mask",
    [
        "torch.ones(length, length, dtype=torch.bool).triu()",
        # A constant that is wrong, and would be right if it were empty.
        "torch.ones(length, length, dtype=torch.bool).tril(wrong.get('diagonal', 0))",
        # Only the first call is wrong.
        "torch.ones(length, length, dtype=torch.bool).tril(next(first, 0))",
    ],
)
@pytest.mark.parametrize("decorator", ["", "@torch.no_grad()"])
def test_kept_values_are_not_blamed_for_another_mistake(mask: str, decorator: str) -> None:
    code = f"""
lengths, wrong, first = [], {{"diagonal": 1}}, iter([2])
{decorator}
def causal_mask(length):
    lengths.append(length)
    return {mask}[None]
"""
    found = verdict("causal_mask", LocalBackend(namespace(code)["causal_mask"]))
    assert not found.passed
    assert "lengths" not in messages.failure(found)


def test_attributes_without_effect_are_not_blamed() -> None:
    exercise, _, code = ANSWERS["an attribute"]
    code = code.replace("wanted = ", "self.seen = self.labels = labels; wanted = ")
    hint = verdict(exercise, LocalBackend(namespace(code)[exercise])).explanation.named[0].hint
    assert hint.startswith("Your code keeps values in `self.tokens` from one call to the next.")


def test_a_module_that_is_not_initialised_is_no_error_of_the_course() -> None:
    code = """
class LabelSmoothingLoss(nn.Module):
    def __init__(self, vocab_size, pad_id, smoothing=0.1):
        self.pad_id = pad_id
    def __call__(self, logits, labels):
        return logits.sum()
"""
    found = verdict("LabelSmoothingLoss", LocalBackend(namespace(code)["LabelSmoothingLoss"]))
    assert found.name == "wrong"


def test_no_hooks_stay_on_a_module() -> None:
    code = """
modules = []
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.count = 0
        modules.append(self)
    def forward(self, x):
        self.count += 1
        return self.scale * x * self.count + self.shift
"""
    names = namespace(code)
    assert not verdict("LayerNorm", LocalBackend(names["LayerNorm"])).passed
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in names["modules"])


def test_one_of_several_mistakes_is_stated_as_a_fact() -> None:
    _, _, code = ANSWERS["a global dictionary"]
    code = code.replace("return rates[step]", "return rates[step] if factor != 200 else 1")
    found = verdict("learning_rate", LocalBackend(namespace(code)["learning_rate"]))
    assert found.explanation.named == ()
    assert "keeps values in `rates` from one call to the next" in found.facts[-1]
    assert "this test passes" in found.facts[-1]

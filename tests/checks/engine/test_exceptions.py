"""Explanations of exceptions in a student's code, in plain sentences."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from course_lib.checks.engine import exceptions
from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exceptions import explained, named
from course_lib.checks.engine.local_backend import LocalBackend
from course_lib.checks.engine.reply import Raised
from tests.checks.kill_matrix import exercises

X = torch.ones(2, 3)


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w_q = nn.Linear(2, 2)


def _without_init() -> object:
    class Layer(nn.Module):
        def __init__(self) -> None:
            self.inner = nn.Linear(2, 2)

    return Layer()


def told(call: Callable[..., object], *arguments: object) -> str:
    reply = Candidate(LocalBackend(call)).call(*arguments)
    assert isinstance(reply, Raised)
    # Omit the line that raised, because it is in this file and contains the expected text.
    return explained(replace(reply, line=""))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: X + torch.ones(2, 4), "the two tensors have sizes 3 and 4 along axis 1."),
        (lambda: X @ X, "the left matrix has 3 columns and the right one has 2 rows."),
        (lambda: torch.ones(2, 2, 3) @ torch.ones(2, 4, 3), "3 columns and the right one has 4"),
        (lambda: X.view(4, 2), "keeps the number of elements, which is 6 here and does not fit"),
        (lambda: X.t().view(6), "Use `reshape` instead of `view` after a transpose."),
        (lambda: X @ X.t().double(), "have different dtypes: float and double."),
        (lambda: X.sum(2), "The tensor has no axis 2."),
        (lambda: X.shape[2], "The tuple has fewer items than the index needs."),
        (lambda: X[0, 0, 0], "The index needs more axes than the tensor has, which is 2."),
        (lambda: nn.Embedding(3, 2)(torch.tensor([3])), "A token id is outside the embedding's table"),
        (lambda: nn.Embedding(3, 2)(torch.tensor([True])), "An embedding looks up integers"),
        (lambda: X.transpoze(0, 1), "Did you mean `transpose`?"),
        (lambda: Named().query_projektion(X), "Did you mean `query_projection`?"),
        (lambda: (3).size(0), "The object that lacks `.size` is a number here, not a tensor."),
        (lambda: None.shape, "The object that lacks `.shape` is None."),
        (lambda: [].sort()[0], "and so do some that work in place"),
        (lambda: float(X), "take a single number, but this tensor has several."),
        (lambda: 1 if X > 0 else 2, "need one truth value, not a tensor"),
        (lambda: X.sum().backward(), "The tensor has no autograd graph"),
        (lambda: nn.Linear(2, 2).weight.numpy(), "Compute with torch, not NumPy"),
        (lambda: 2 ^ 0.5, "In Python, a power is written `**`."),
        (lambda: ~None, "The operand is None"),
        (lambda nothing=None: nothing(X), "A value in this line is None."),
        (lambda: (lambda a: a)(1, 2), "Compare the parameters of your definition with those in the task."),
        (lambda: (lambda a, b: a)(1), "The call did not pass 'b'."),
        (lambda: (lambda a: a)(1, mask=2), "Your definition has no parameter `mask`."),
        (lambda: torch.einsum("bqd,bkd->bqk", X, X), "The equation names 3 axes, but the tensor has 2."),
        (lambda: torch.cat([X, X.t()]), "must have the same sizes along all other axes."),
        (lambda: torch.nn.functional.dropout(nn.ReLU(), 0.1), "PyTorch expects a tensor there"),
        (lambda: undefined, "Is the name misspelled, or has the cell that defines it not been run?"),  # type: ignore[name-defined]
        (lambda: [a for a, b, c in [X.shape]], "The line unpacks 3 values, but the number of values is 2."),
        (lambda: [X].strip(), "The object that lacks `.strip` is a list here, not a string."),
        (lambda: {}["layer.weight"], "The dict has no key 'layer.weight'."),
        (lambda: dist.get_rank(), "There is no process group in this test."),
        (lambda: len(a for a in [1]), "An object of type generator has no length."),
        (lambda: X.gather(1, X), "`/` produces floating-point numbers; `//` keeps integers."),
        (lambda: torch.arange(3).mean(), "mean of integers or booleans, and this tensor is of type Long."),
        (lambda: torch.stack([X, X.t()]), "torch.stack needs tensors of the same shape."),
        (lambda: torch.tensor([[1, 2], [3]]), "these have 2 and 1 items."),
        (lambda: nn.Linear(3, 2)(X.long()), "The two tensors have different dtypes: Long and Float."),
        (lambda: X.long() @ X.t(), "The two tensors have different dtypes: long int and float."),
        (lambda: X.index_select(0, torch.tensor([0.5])), "`//` keeps integers."),
        (lambda: X[0.5], "An index must be an integer"),
        (lambda: torch.zeros(3 / 2), "An integer is needed, but there is a floating-point number."),
        (lambda: X.masked_fill(X.long(), 0), "a boolean mask, but this one has dtype long int."),
        (lambda: X[torch.tensor([True, False, True])], "it has shape [3], and the tensor [2, 3]."),
        (lambda: X.clone().add_(torch.ones(4, 2, 3)), "which is [2, 3], but with the other operand it would"),
        (lambda: X.expand(3, 3), "An axis of size 2 would have to become one of size 3"),
        (lambda: X @ torch.ones(4), "the matrix has 3 columns and the vector has 4 numbers."),
        (lambda: torch.einsum("ij,jk->ik", X, X), "`j` stands for an axis of size 2 in one tensor"),
        (lambda: X.permute(0, 1, 2), "`permute` needs every axis of the tensor exactly once."),
        (lambda: torch.stack([]), "The list of tensors is empty in this test."),
        (lambda: X.softmax(), "The call did not pass \"dim\"."),
        (lambda: X.long().softmax(-1), "torch cannot compute this for a tensor of dtype Long."),
        (lambda: nn.Parameter(X.long()), "must hold floating-point numbers."),
        (lambda: F.cross_entropy(X, torch.tensor([5, 0])), "The target 5 is not one of the classes"),
        (lambda: F.cross_entropy(X, torch.tensor([0, 1, 1])), "but there are 2 rows and 3 targets."),
        (lambda: X.item(), "the only number of a tensor, but this one has 6."),
        (lambda: [1][1], "The list has fewer items than the line needs."),
        (lambda: nn.ModuleList()(X), "Check how `forward` is spelled and indented"),
        (lambda: setattr(nn.Linear(2, 2), "weight", X), "`weight` already holds a parameter or a module"),
        (_without_init, "Call `super().__init__()` first in `__init__`."),
    ],
)  # fmt: skip
def test_what_it_means(call: Callable[..., object], says: str) -> None:
    assert says in told(call)


def test_the_suggested_names_are_attributes_in_the_references() -> None:
    names = tomllib.loads(Path(exceptions.__file__).with_suffix(".toml").read_text(encoding="utf-8"))["names"]
    sources = "\n".join(exercise.source for exercise in exercises())
    assert not [name for name in names if not re.search(rf"(\.|def ){name}\b", sources)]


def test_an_object_is_in_front_of_an_attribute_only_if_the_students_line_says_so() -> None:
    reply = Candidate(LocalBackend(lambda x: x.seek(0))).call(3)
    assert isinstance(reply, Raised)
    assert "The object in front of `.seek` is a number here." in explained(reply)
    assert "The object that lacks `.seek`" in explained(replace(reply, line="torch.load(x)"))


def test_a_tensor_is_looked_for_in_a_list_only_if_the_students_line_says_so() -> None:
    reply = Candidate(LocalBackend(lambda: X in [torch.ones(2, 3), X])).call()
    assert isinstance(reply, Raised)
    assert "compare tensors number by number" in explained(replace(reply, line="if x in ready:"))
    for line in ("if x > 0:", "kept = [x for x in xs if x]"):
        assert "compare tensors number by number" not in explained(replace(reply, line=line))


@pytest.mark.parametrize("call", [lambda: nn.Linear(2), lambda: nn.Linear(2, 2, dropout=0)])
def test_a_call_in_the_students_own_line_is_not_blamed_on_their_definition(call) -> None:
    reply = Candidate(LocalBackend(call)).call()
    assert isinstance(reply, Raised)
    assert "of your definition" not in explained(reply)
    assert "Your definition" not in explained(reply)
    assert "its parameters" in explained(reply) or "the parameters of the function" in explained(reply)


def test_a_parameter_of_another_name() -> None:
    reply = Candidate(LocalBackend(Named)).build().load({"query_projection.weight": torch.ones(2, 2)})
    assert isinstance(reply, Raised)
    told = explained(reply)
    assert "The exercise requires the attribute `query_projection`, but your module has only `w_q`." in told


def test_a_parameter_of_another_shape() -> None:
    reply = Candidate(LocalBackend(Named)).build().load({"w_q.weight": torch.ones(2, 3)})
    assert isinstance(reply, Raised)
    assert explained(reply) == (
        "The parameter w_q.weight has shape (2, 2), not (2, 3). "
        "Your `w_q.weight` doesn't have the shape that follows from the constructor's arguments. "
        "(The weight of `nn.Linear(a, b)` has the shape (b, a).)"
    )
    mistake = named(reply)
    assert mistake is not None
    assert mistake.statement == "the parameter `w_q.weight` does not have the right shape"


def test_a_key_error_of_a_set_says_nothing_about_a_dict() -> None:
    reply = Candidate(LocalBackend(lambda: {2}.remove(3))).call()
    assert isinstance(reply, Raised)
    assert explained(reply).endswith("The set has no element 3.")


def test_a_key_error_that_a_student_raises_says_nothing_about_a_dict() -> None:
    def named():
        raise KeyError("different entries")

    assert "The dict has no key" not in told(named)


def test_a_students_own_not_implemented_error_is_no_leftover_stub() -> None:
    def half(x):
        if x.shape[0] > 1:
            raise NotImplementedError("only one sentence")
        return x

    assert "Your code raised NotImplementedError: only one sentence." in told(half, X)


def cause_of(call: Callable[..., object], *arguments: object) -> str:
    reply = Candidate(LocalBackend(call)).call(*arguments)
    assert isinstance(reply, Raised)
    cause = named(reply)
    return cause.statement if cause else ""


def _unfinished(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    raise NotImplementedError("the rest follows")


def _unbound(x: torch.Tensor) -> torch.Tensor:
    if x.dim() > 2:
        result = x
    return result


class Misspelt(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norn(x)


class Misread(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.norn = x.shape.norn
        return x


@pytest.mark.parametrize(
    ("call", "statement"),
    [
        (_unfinished, "a line that raises NotImplementedError is reached"),
        (_unbound, "`result` is used before anything is assigned to it"),
        (Misspelt(), "`self.norn` is used before anything is assigned to it"),
        (Misread(), "`.norn` is used on an object of type torch.Size, which has no such attribute"),
        (lambda x: x.norn, "`.norn` is used on an object of type Tensor, which has no such attribute"),
        (lambda x: undefined(x), "the name `undefined` is not defined"),
        (lambda x, mask: x, "arguments are missing in a call: 'mask'"),
        (lambda: None, "a call passes too many positional arguments: 1 instead of at most 0"),
        (lambda x: torch.bool(x), "an object of type torch.dtype is called like a function"),
        (lambda x: x and x, "a tensor with several values is used as a single truth value"),
        (lambda x: torch.tril(2), "a torch function gets an object of type int where it needs a tensor"),
        # These errors can have many causes, so none is named.
        (lambda x: x + torch.ones(2, 4), ""),
        (lambda x: F.softmax(x.long(), dim=-1), ""),
        (lambda x: x.sum(2), ""),
    ],
)
def test_a_mistake_is_named_if_an_exception_leaves_no_doubt(call, statement) -> None:
    assert cause_of(call, X) == statement

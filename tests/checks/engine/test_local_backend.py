"""The operations that a check performs on a student's function, class, instance or number."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.checks.engine.candidate import Candidate, Fixture, Request
from course_lib.checks.engine.local_backend import LocalBackend, MissingParameter
from course_lib.checks.engine.reply import Handle, Opaque, Raised, Returned
from course_lib.checks.exercises.fixtures.callables import mean_attention, multiply, sublayer, to_itself
from course_lib.checks.exercises.fixtures.models import linear, transformer


class Scale(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        if size < 1:
            raise ValueError("a size of at least 1")
        self.scale = nn.Parameter(torch.ones(size))
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.scale * x)

    def twice(self, x):
        return 2 * x


def candidate(found: object, *may_not_call: str) -> Candidate:
    return Candidate(LocalBackend(found, may_not_call))


def test_arguments_that_change_are_reported_and_the_probe_keeps_its_own() -> None:
    given = torch.ones(3)
    reply = candidate(lambda a, x: x.mul_(2)).call(1, given)
    assert isinstance(reply, Returned)
    assert reply.changed == (1,)
    assert given.equal(torch.ones(3))


def test_a_nan_that_stays_is_no_change() -> None:
    reply = candidate(lambda x: x + 1).call(torch.tensor([float("nan")]))
    assert isinstance(reply, Returned)
    assert reply.changed == ()


def test_warnings_are_caught() -> None:
    import warnings

    reply = candidate(lambda: warnings.warn("old", stacklevel=1)).call()
    assert isinstance(reply, Returned)
    assert reply.warnings == ("old",)


def test_a_warning_is_issued_each_time() -> None:
    found = candidate(lambda: torch.ones(2, 3, 4).T)
    first, second = found.call(), found.call()
    assert isinstance(first, Returned)
    assert isinstance(second, Returned)
    assert first.warnings == second.warnings != ()


def test_code_may_close_the_standard_output() -> None:
    import sys

    reply = candidate(lambda: (print("seen"), sys.stdout.close())[0]).call()
    assert isinstance(reply, Returned)
    assert reply.printed == "seen\n"


@pytest.mark.parametrize("value", [torch.tensor(True), np.bool_(True), True])
def test_a_truth_value_is_no_number(value: object) -> None:
    reply = candidate(value).number()
    assert isinstance(reply, Returned)
    assert not isinstance(reply.value, float)


def test_exceptions_come_back_as_data() -> None:
    def divide(x):
        return x / 0

    reply = candidate(divide).call(1)
    assert isinstance(reply, Raised)
    assert (reply.kind, reply.message) == ("ZeroDivisionError", "division by zero")
    assert reply.line == "return x / 0"


def test_only_plain_values_come_back() -> None:
    class Odd(torch.Tensor):
        pass

    reply = candidate(lambda: [torch.ones(2).as_subclass(Odd), object(), {"a": 1}, None, True, 2.5]).call()
    assert isinstance(reply, Returned)
    tensor, odd, *rest = reply.value
    assert type(tensor) is torch.Tensor
    assert odd == Opaque("object")
    assert rest == [{"a": 1}, None, True, 2.5]


def test_what_is_no_function_is_said_so() -> None:
    reply = candidate(3.0).call(1)
    assert isinstance(reply, Raised)
    assert "expected a function or a class, got an object of type float" in reply.message


def test_gradients_of_inputs_and_weights() -> None:
    layer = candidate(Scale).build(2)
    layer.train(False)
    layer.load({"scale": torch.tensor([3.0, 4.0])})
    reply = layer.gradients(torch.tensor([[1.0, 2.0]]), toward=torch.tensor([[1.0, 10.0]]))
    assert isinstance(reply, Returned)
    assert reply.value["inputs"][0].tolist() == [[3.0, 40.0]]
    assert reply.value["weights"]["scale"].tolist() == [1.0, 20.0]


def test_a_gradient_that_does_not_arrive_is_none() -> None:
    reply = candidate(lambda x, y: x.detach() * y).gradients(
        torch.ones(2), torch.ones(2), toward=torch.ones(2)
    )
    assert isinstance(reply, Returned)
    assert reply.value["inputs"][0] is None
    assert reply.value["inputs"][1].tolist() == [1.0, 1.0]


def test_an_instance_is_built_loaded_copied_and_called() -> None:
    layer = candidate(Scale).build(2)
    layer.load({"scale": torch.tensor([3.0, 4.0])})
    copied = layer.copy()
    copied.load({"scale": torch.zeros(2)})
    layer.train(False)
    weights = layer.weights()
    assert isinstance(weights, Returned)
    assert weights.value["scale"].tolist() == [3.0, 4.0]
    reply = layer.call(torch.ones(1, 2))
    assert isinstance(reply, Returned)
    assert reply.value.tolist() == [[3.0, 4.0]]
    method = layer.call(torch.ones(1), method="twice")
    assert isinstance(method, Returned)
    assert method.value.tolist() == [2.0]


def test_what_could_not_be_built_answers_with_the_reason() -> None:
    layer = candidate(Scale).build(0)
    for reply in (layer.call(torch.ones(1)), layer.weights(), layer.copy().train(True)):
        assert isinstance(reply, Raised)
        assert (reply.kind, reply.message) == ("ValueError", "a size of at least 1")


def test_weights_that_do_not_fit_are_said_by_name() -> None:
    layer = candidate(Scale).build(2)
    unknown = layer.load({"gain": torch.ones(2)})
    assert isinstance(unknown, Raised)
    assert (unknown.kind, unknown.message) == (
        "MissingParameter",
        "The module has no parameter called 'gain'",
    )
    assert unknown.note == "Its parameters are: scale"
    several = nn.ModuleDict({"first": nn.Linear(1, 1), "last": nn.ModuleList([nn.Linear(1, 1)])})
    there = dict(several.named_parameters())
    for name, some in (
        ("last.weight", "last.0.weight, last.0.bias"),
        ("next", "first.weight, last.0.weight"),
    ):
        assert MissingParameter(name, there).others == f"Its parameters include: {some}"
    wrong = candidate(Scale).build(2).load({"scale": torch.ones(3)})
    assert isinstance(wrong, Raised)
    assert "(2,), not (3,)" in wrong.message


def test_one_object_may_be_handed_to_another() -> None:
    holder = LocalBackend(Scale)
    built = holder.ask(Request("build", Handle(0), (2,)))
    assert isinstance(built, Returned)
    layer = Candidate(holder, built.value)
    assert isinstance(
        layer.call(layer, method="twice"), Raised
    )  # the method got the module itself, which can't be doubled


def test_numbers_of_every_kind() -> None:
    for number in (8, 8.0, torch.tensor(8.0)):
        assert candidate(number).number() == Returned(8.0)
    assert candidate(None).number() == Returned(None)
    assert candidate(True).number() == Returned(True)
    assert candidate("8").number() == Returned("8")


def test_fixtures_are_data_until_they_are_passed() -> None:
    fixture = multiply(torch.tensor([2.0, 0.0]))
    assert isinstance(fixture, Fixture)
    reply = candidate(lambda f, x: f(x)).call(fixture, torch.ones(2, dtype=torch.float64))
    assert isinstance(reply, Returned)
    assert reply.value.tolist() == [2.0, 0.0]
    assert reply.value.dtype == torch.float64


def test_forbidden_functions_are_seen_however_they_are_reached() -> None:
    name = "torch.nn.functional.scaled_dot_product_attention"
    ways = (
        torch.nn.functional.scaled_dot_product_attention,
        getattr(torch.nn.functional, "scaled_dot_" + "product_attention"),
        torch.ops.aten.scaled_dot_product_attention,
        torch.ops.aten.scaled_dot_product_attention.default,
    )
    for way in ways:
        reply = candidate(way, name).call(*(torch.ones(1, 2, 4) for _ in range(3)))
        assert isinstance(reply, Returned)
        assert reply.forbidden == (name,)
    assert candidate(torch.softmax, name).call(torch.ones(2), 0).forbidden == ()  # type: ignore[union-attr]


def _own_adam(x: torch.Tensor) -> torch.Tensor:
    weight = nn.Parameter(x.clone())
    weight.grad = torch.ones_like(x)
    torch.optim.Adam([weight]).step()
    return weight.detach()


@pytest.mark.parametrize(
    ("way", "name"),
    [
        (lambda x: F.group_norm(x, 1), "torch.nn.functional.group_norm"),
        (
            lambda x: torch.native_group_norm(x, None, None, 2, 4, 1, 1, 1e-6)[0],
            "torch.nn.functional.group_norm",
        ),
        (lambda x: F.batch_norm(x.T, None, None, training=True).T, "torch.nn.functional.batch_norm"),
        (lambda x: F.instance_norm(x[None])[0], "torch.nn.functional.batch_norm"),
        (_own_adam, "torch.optim.Adam.__init__"),
    ],
)
def test_built_ins_that_compute_the_same_are_seen(
    way: Callable[[torch.Tensor], torch.Tensor], name: str
) -> None:
    reply = candidate(way, name).call(torch.randn(2, 4))
    assert isinstance(reply, Returned)
    assert reply.forbidden == (name,)


def test_a_built_fixture_can_be_passed_and_examined_afterwards() -> None:
    def update(model, x):
        model(x).sum().backward()
        torch.optim.SGD(model.parameters(), lr=1.0).step()
        model.eval()
        return model

    student = candidate(update)
    model = student.fixture(linear(2, 1))
    before = model.weights()
    reply = student.call(model, torch.ones(3, 2, dtype=torch.float64))
    after = model.weights()
    assert isinstance(before, Returned)
    assert isinstance(after, Returned)
    assert isinstance(reply, Returned)
    assert reply.value == model.handle
    assert (before.value["weight"] - after.value["weight"]).tolist() == [[3.0, 3.0]]
    assert model.modes() == Returned({"": False})


def test_every_backend_gets_the_same_model_and_the_seed_is_reset() -> None:
    first, second = (
        candidate(None).fixture(transformer(7, layers=1, d_model=8, heads=2, d_ff=8)) for _ in range(2)
    )
    one, other = first.weights(), second.weights()
    assert isinstance(one, Returned)
    assert isinstance(other, Returned)
    assert all(one.value[name].equal(other.value[name]) for name in one.value)
    noise = candidate(lambda: torch.rand(3))
    assert noise.call().value.equal(noise.call().value)  # type: ignore[union-attr]


def test_keywords_are_passed() -> None:
    assert candidate(lambda a, *, b: a - b).call(5, b=2) == Returned(3)


def test_a_mean_attention_obeys_its_mask() -> None:
    mask = torch.tensor([[True, False], [False, False]])
    value = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    reply = candidate(lambda attend, v, m: attend(v, v, v, m)).call(mean_attention(), value, mask)
    assert isinstance(reply, Returned)
    assert reply.value[0].tolist() == [[1.0, 2.0], [0.0, 0.0]]


def test_a_sublayer_that_is_called_twice_gives_something_else() -> None:
    reply = candidate(lambda f, x: (f(x), f(x))).call(sublayer(torch.tensor(3.0)), torch.ones(1))
    assert isinstance(reply, Returned)
    assert [part.item() for part in reply.value] == [3.0, 6.0]


def test_gradients_that_are_switched_off_are_switched_on_again() -> None:
    def careless(x: torch.Tensor) -> torch.Tensor:
        torch.set_grad_enabled(False)
        return x

    assert isinstance(candidate(careless).call(torch.ones(2)), Returned)
    assert torch.is_grad_enabled()


def test_a_sparse_tensor_is_no_plain_value() -> None:
    reply = candidate(lambda x: x.to_sparse()).call(torch.eye(2))
    assert isinstance(reply, Returned)
    assert isinstance(reply.value, Opaque)


def test_a_weight_under_two_names_has_its_gradient_under_both() -> None:
    class TwoNames(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = self.second = torch.nn.Parameter(torch.ones(2))
            self.frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.first * self.frozen).sum()

    reply = candidate(TwoNames).build().gradients(torch.full((2,), 3.0), toward=torch.ones(()))
    assert isinstance(reply, Returned)
    assert {name: gradient.tolist() for name, gradient in reply.value["weights"].items()} == {
        "first": [3.0, 3.0],
        "second": [3.0, 3.0],
    }


def test_what_a_student_sets_for_all_of_torch_does_not_stay() -> None:
    def careless() -> torch.Tensor:
        torch.set_default_dtype(torch.float64)
        return torch.zeros(1)

    for found in (careless, lambda: torch.zeros(1)):
        reply = candidate(found).call()
        assert isinstance(reply, Returned)
        assert torch.get_default_dtype() == torch.float32
    assert reply.value.dtype == torch.float32


def test_what_a_student_has_set_before_does_not_matter() -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    try:
        reply = candidate(Scale).build(2).gradients(torch.ones(2), toward=torch.ones(2))
        assert torch.get_default_dtype() == torch.float64
        assert not torch.is_grad_enabled()
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
    assert isinstance(reply, Returned)
    assert reply.value["weights"]["scale"].dtype == torch.float32


def test_a_list_that_holds_itself_is_an_error() -> None:
    def loop() -> list[object]:
        found: list[object] = []
        found.append(found)
        return found

    reply = candidate(loop).call()
    assert isinstance(reply, Raised)
    assert "more than 50000 values, or values nested more than 30 levels deep" in reply.message


class _EndlessList(list):
    def __len__(self):
        return 10**9

    def __iter__(self):
        while True:
            yield 1


class _EndlessDict(dict):
    def items(self):
        number = 0
        while True:
            number += 1
            yield str(number), number


@pytest.mark.parametrize(
    ("value", "inside"), [(_EndlessList([1, 2]), (1, 2)), (_EndlessDict(a=1), {"a": 1})], ids=["list", "dict"]
)
def test_a_container_holds_what_is_in_it_whatever_it_claims(value: object, inside: object) -> None:
    reply = candidate(lambda: value).call()
    assert isinstance(reply, Returned)
    assert reply.value == inside


def test_a_number_too_long_to_be_printed_is_no_plain_value() -> None:
    assert candidate(lambda: -(10**5000)).call() == Returned(Opaque("int, of hundreds of digits"))
    assert candidate(lambda: 10**290).call() == Returned(10**290)


def test_an_error_whose_message_cannot_be_read() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise KeyError

    def fail() -> None:
        raise SilentError

    reply = candidate(fail).call()
    assert isinstance(reply, Raised)
    assert reply.kind == "SilentError"
    assert reply.message == "(reading its message raised KeyError)"


def test_the_message_of_an_error_is_read_once() -> None:
    class OnceReadable:
        read = False

        def __str__(self) -> str:
            assert not self.read
            self.read = True
            return "only one sentence"

    def fail() -> None:
        raise NotImplementedError(OnceReadable())

    reply = candidate(fail).call()
    assert isinstance(reply, Raised)
    assert (reply.kind, reply.message, reply.note) == ("NotImplementedError", "only one sentence", "")


def test_code_that_runs_while_an_answer_is_looked_at_may_fail_too() -> None:
    class Key:
        def __str__(self) -> str:
            raise ValueError("no name")

    reply = candidate(lambda: {Key(): 1}).call()
    assert isinstance(reply, Raised)
    assert (reply.kind, reply.message) == ("ValueError", "no name")


def test_an_interrupt_stops_the_check_itself() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        candidate(interrupted).call()
    reply = LocalBackend(interrupted, catches=BaseException).ask(Request("call", Handle(0)))
    assert isinstance(reply, Raised)
    assert reply.kind == "KeyboardInterrupt"


def test_a_load_that_failed_is_the_reply_to_every_later_request() -> None:
    one = candidate(Scale).build(2)
    failed = one.load({"scale": torch.ones(2), "gain": torch.ones(2)})
    assert isinstance(failed, Raised)
    assert one.call(torch.ones(2)) == one.copy().weights() == one.fixture(to_itself()).call(one) == failed


def test_an_optional_weight_is_loaded_if_there_is_one() -> None:
    layer = candidate(Scale).build(2)
    optional = {"gain": torch.ones(2), "scale": torch.full((2,), 3.0)}
    assert layer.load({}, optional) == Returned(None)
    weights = layer.weights()
    assert isinstance(weights, Returned)
    assert weights.value["scale"].tolist() == [3.0, 3.0]

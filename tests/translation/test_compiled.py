"""torch.compile is used where it works, for all lengths; where it does not, training goes on without.

In processes of their own, where shapes are not checked at every call: the compiler would have to compile that
as well.
"""

from collections.abc import Callable

import torch
from micro_training import assert_equal_weights, new_trainer, weights
from real_processes import in_processes

from course_lib.translation import training
from course_lib.translation.config import RunConfig
from course_lib.translation.distributed import Place

Outcome = tuple[list[str], dict[str, list[float]], dict[str, float]]


def trained(config: RunConfig, place: Place) -> Outcome:
    """Notes, weights and the compiler's counts after four updates."""
    trainer = new_trainer(config, place)
    counters = torch._dynamo.utils.counters
    counters.clear()
    for batches in trainer.plan()[:4]:
        trainer.update(batches)
    counts = {**counters["graph_break"], "graphs": counters["stats"]["unique_graphs"]}
    return trainer.notes, weights(trainer), counts


def without_a_compiler(place: Place, *configs: RunConfig) -> list[Outcome]:
    import torch._inductor.config as inductor

    inductor.cpp.cxx = ("no-such-compiler",)
    inductor.force_disable_caches = True
    return [trained(config, place) for config in configs]


def test_where_there_is_no_compiler_training_goes_on_and_says_so(
    tiny_config: Callable[..., RunConfig],
) -> None:
    configs = tiny_config("training.compile=true"), tiny_config()
    [[(notes, got, _), (no_notes, expected, _)]] = in_processes(1, without_a_compiler, *configs)
    assert no_notes == []
    [note] = notes
    assert note.startswith("torch.compile does not work here (InductorError: ")
    assert "no-such-compiler" in note or "InvalidCxxCompiler" in note
    assert note.endswith("; training without")
    assert "\n" not in note
    assert got == expected


def with_the_front_end(place: Place, *configs: RunConfig) -> list[Outcome]:
    """What the compiler's front end makes of the model is run as it is: the rest takes half a minute."""
    training.BACKEND = "eager"
    return [trained(config, place) for config in configs]


def test_one_graph_holds_the_whole_loss_for_any_shape(
    tiny_config: Callable[..., RunConfig],
) -> None:
    exact = ("training.precision=float64", "model.dropout=0")
    configs = tiny_config("training.compile=true", *exact), tiny_config(*exact)
    for (notes, got, counts), (_, expected, _) in in_processes(1, with_the_front_end, *configs):
        assert notes == []
        assert counts == {"graphs": 0}, "nothing is compiled anew, and no part left out"
        assert_equal_weights(got, expected, within=1e-9)

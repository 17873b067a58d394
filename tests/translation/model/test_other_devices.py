"""Computations on a device other than the CPU stay there: no CPU tensor is mixed in.

The tests need no GPU. PyTorch's meta device computes shapes without numbers. Like a GPU, it raises an error
if its tensors are combined with a CPU tensor. It cannot show that a GPU's results are correct.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from course_lib.transformer import padding_mask
from course_lib.translation.configs.schema import Precision, RunConfig
from course_lib.translation.decoding.backends import make_backend
from course_lib.translation.decoding.cached_decoder import CachedDecoder
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.model.loss import LossSum
from course_lib.translation.model.seq2seq import REFERENCE, build_model
from course_lib.translation.train.batches import BatchLoader, DeviceBatch
from tests.translation.train.micro_training import material

META = torch.device("meta")
KINDS = ["model.attention=plain", "model.attention=fused", "model.norm_first=true", "training.simcut_alpha=3"]


@pytest.fixture(autouse=True)
def shapes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work around two gaps of the meta device: it has no autocast, and its tensors have no truth value."""
    autocast, is_true = torch.autocast, Tensor.__bool__
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: autocast("cpu", enabled=False))
    monkeypatch.setattr(Tensor, "__bool__", lambda tensor: not tensor.is_meta and is_true(tensor))


def batch_of(config: RunConfig) -> tuple[DeviceBatch, int]:
    pairs, vocabulary = material(config)
    (batch,) = BatchLoader(config, pairs, vocabulary, SINGLE_PROCESS, META).load([range(20)])
    return batch, len(vocabulary)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_update_stays_on_its_device(
    tiny_config: Callable[..., RunConfig], kind: str, precision: Precision
) -> None:
    config = tiny_config(kind)
    batch, words = batch_of(config)
    model = build_model(config.model, words, words).to(META)
    loss_sum = LossSum(
        model, REFERENCE.loss(words, 0, 0.1), precision, simcut_alpha=config.training.simcut_alpha
    )
    loss_sum.use_fast_layers(META)
    loss_sum.refresh()
    loss_sum(batch.source, batch.target, batch.positions).backward()
    assert all(weight.grad is not None and weight.grad.is_meta for weight in model.parameters())


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("kind", KINDS[:3])
def test_decoding_stays_on_its_device(tiny_config: Callable[..., RunConfig], kind: str, beam: int) -> None:
    config = tiny_config(kind)
    batch, words = batch_of(config)
    model = make_backend(build_model(config.model, words, words).eval().to(META))
    with torch.no_grad():
        steps = model.start(batch.source, padding_mask(batch.source, 0), beam)
        assert isinstance(steps, CachedDecoder)
        for beams in (1, beam, beam):
            tokens = torch.ones(len(batch.source), beams, dtype=torch.int64, device=META)
            assert steps.step(tokens).shape == (len(batch.source), beams, words)
            steps.reorder_beams(torch.zeros(len(batch.source), beam, dtype=torch.int64, device=META))
        steps.keep_sentences(torch.arange(3, device=META))
        assert steps.step(tokens[:3]).is_meta


def test_what_comes_from_the_cpu_is_refused(tiny_config: Callable[..., RunConfig]) -> None:
    """Show that a CPU tensor raises an error, so the tests above can fail."""
    config = tiny_config()
    batch, words = batch_of(config)
    loss_sum = LossSum(
        build_model(config.model, words, words).to(META), REFERENCE.loss(words, 0, 0.1), "float32"
    )
    with pytest.raises(RuntimeError, match="device"):
        loss_sum(batch.source, batch.target.new_ones(batch.target.shape, device="cpu"), batch.positions)

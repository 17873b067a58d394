"""The model that the lab trains, built from the reference's components or from a student's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from course_lib import transformer as reference
from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import ModelConfig, Precision
from course_lib.translation.model.fused import fused_attention


@runtime_checkable
class TransformerModel(Protocol):
    """The interface of the reference's and a student's Transformer, with the submodules of lesson 06."""

    @property
    def generator(self) -> nn.Linear:
        """The layer that turns the decoder's output into logits."""

    @property
    def source_embedding(self) -> nn.Module:
        """The embedding of source tokens."""

    @property
    def target_embedding(self) -> nn.Module:
        """The embedding of target tokens; it may be the same module as `source_embedding`."""

    @property
    def encoder_layers(self) -> nn.ModuleList:
        """The encoder layers, each with the submodules `self_attention` and `feed_forward`."""

    @property
    def decoder_layers(self) -> nn.ModuleList:
        """The decoder layers, each with submodules `self_attention`, `cross_attention` and `feed_forward`."""

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Encode source tokens, (B, S) to (B, S, D), with a padding mask (B, 1, S)."""

    def decode(self, memory: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor) -> Tensor:
        """Decode target tokens with attention to the encoder's output `memory`, (B, T) to (B, T, D)."""

    def __call__(self, source: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor) -> Tensor:
        """Compute the logits of all target positions, (B, T, V)."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return all parameters, as `nn.Module.parameters` does."""

    def state_dict(self) -> dict[str, Any]:
        """Return the weights by name, as `nn.Module.state_dict` does."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> object:
        """Copy weights into the model, as `nn.Module.load_state_dict` does."""


@dataclass(frozen=True)
class Components:
    """The functions and classes from the lessons that training uses. The defaults are the reference's.

    Each has the signature of its exercise. `dataclasses.replace(REFERENCE, ...)` replaces some of them with a
    student's code.
    """

    transformer: Callable[[int, int, reference.TransformerConfig], TransformerModel] = reference.Transformer
    tie_embeddings: Callable[[Any], Any] = reference.tie_embeddings
    attention: reference.AttentionFunction = reference.scaled_dot_product_attention
    padding_mask: Callable[[Tensor, int], Tensor] = reference.padding_mask
    decoder_mask: Callable[[Tensor, int], Tensor] = reference.decoder_mask
    shift_target: Callable[[Tensor], tuple[Tensor, Tensor]] = reference.shift_target
    loss: Callable[[int, int, float], nn.Module] = reference.LabelSmoothingLoss
    """A function that builds the loss module from the vocabulary size, the padding id and the smoothing."""
    make_scheduler: Callable[[Optimizer, int, int, float], LRScheduler] = reference.make_scheduler
    """A function that builds the paper's schedule from an optimiser, d_model, warmup and factor."""
    shard: Callable[[Sequence[Any], int, int], Sequence[Any]] = reference.shard
    global_token_mean: Callable[[Tensor, Tensor], Tensor] = reference.global_token_mean


REFERENCE = Components()


def build_model(
    config: ModelConfig,
    source_size: int,
    target_size: int,
    precision: Precision = "float32",
    device: torch.device | str = "cpu",
    components: Components = REFERENCE,
) -> TransformerModel:
    """Build the model that the config describes, with vocabularies of the given sizes, on a device.

    The weights are in float64 if `precision` is float64, and in float32 otherwise. The model is built with
    `components`, except that fused attention replaces its attention function if the config says so. Raises
    BadInputError if `config.inner_dropout` is set, but an attention or feed-forward module contains no
    `nn.Dropout`.
    """
    sizes = reference.TransformerConfig(
        layers=config.layers,
        d_model=config.d_model,
        heads=config.heads,
        d_ff=config.d_ff,
        dropout=config.dropout,
        norm_first=config.norm_first,
        attention=fused_attention if config.attention == "fused" else components.attention,
    )
    model = components.transformer(source_size, target_size, sizes)
    if config.inner_dropout is not None:
        _set_inner_dropout(model, config.inner_dropout)
    if config.tie_embeddings:
        model = components.tie_embeddings(model)
    assert isinstance(model, nn.Module), "a Transformer is a module"
    model.to(device)
    return model.double() if precision == "float64" else model


def _set_inner_dropout(model: TransformerModel, rate: float) -> None:
    """Set the dropout rate inside attention and feed-forward modules, whose names the exercises prescribe.

    Raises BadInputError if one of these modules contains no `nn.Dropout`.
    """
    for layer in (*model.encoder_layers, *model.decoder_layers):
        for name, sublayer in layer.named_children():
            if name not in ("self_attention", "cross_attention", "feed_forward"):
                continue
            inside = [part for part in sublayer.modules() if isinstance(part, nn.Dropout)]
            if not inside:
                raise BadInputError(
                    f"model.inner_dropout: there is no nn.Dropout inside {type(sublayer).__name__}, the "
                    f"{name} of {type(layer).__name__}. Remove this key from the config."
                )
            for part in inside:
                part.p = rate

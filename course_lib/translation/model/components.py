"""What the lab takes from the lessons, in one place, so that a student's own can be put in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from course_lib import transformer as reference


@dataclass(frozen=True)
class Pieces:
    """The functions and classes that training computes with: the reference's, where nothing else is given.

    Each has the signature that its exercise's contract states. `dataclasses.replace(REFERENCE, ...)` puts
    another one in.
    """

    transformer: Callable[[int, int, reference.TransformerConfig], nn.Module] = reference.Transformer
    tie_embeddings: Callable[[Any], Any] = reference.tie_embeddings
    attention: reference.AttentionFunction = reference.scaled_dot_product_attention
    padding_mask: Callable[[Tensor, int], Tensor] = reference.padding_mask
    decoder_mask: Callable[[Tensor, int], Tensor] = reference.decoder_mask
    shift_target: Callable[[Tensor], tuple[Tensor, Tensor]] = reference.shift_target
    loss: Callable[[int, int, float], nn.Module] = reference.LabelSmoothingLoss
    """Of vocabulary size, padding id and smoothing; a module from logits and labels to their mean loss."""
    make_scheduler: Callable[[Optimizer, int, int, float], LRScheduler] = reference.make_scheduler
    """Of optimiser, d_model, warm-up and factor: the paper's schedule."""
    shard: Callable[[Sequence[Any], int, int], Sequence[Any]] = reference.shard
    global_token_mean: Callable[[Tensor, Tensor], Tensor] = reference.global_token_mean


#: Nothing of a student's.
REFERENCE = Pieces()

"""Replicas of one model, as on the eight GPUs of section 5.2, with equal initial weights and gradients.

Each rank has a complete copy of the model and trains it on its own sentences. If all ranks start from the
same weights and update them with the same gradients, their models stay equal, so the weights are sent only
once.
"""

import torch
import torch.distributed as dist
from torch import nn


def broadcast_parameters(model: nn.Module, source: int = 0) -> None:
    """Replace the parameters and buffers of every rank with those of rank `source`, in place.

    A parameter that several modules share is sent once. Without a process group, nothing changes.
    """
    if dist.is_initialized():
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.detach(), source)


def all_reduce_gradients(model: nn.Module) -> None:
    """Replace every gradient with its sum over all ranks, in place.

    A parameter without a gradient on this rank contributes zeros, because another rank may have a gradient
    for it, and all ranks must call the same collectives in the same order. Without a process group, nothing
    changes.
    """
    if dist.is_initialized():
        for parameter in model.parameters():
            if parameter.requires_grad:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad)

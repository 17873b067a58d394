"""Wrong answers for lesson 09 that match no known misconception: the checks must not name one."""

import math

import torch

from course_lib.transformer import train_step


def _loud(*arguments):
    raise ValueError("no")


def _idle(model, loss, micro_batches, optimizer, scheduler):
    return 0.0


def _perplexity(*arguments):
    return math.exp(train_step(*arguments))


def _twice(*arguments):
    train_step(*arguments)
    return train_step(*arguments)


def _two_steps(model, loss, micro_batches, optimizer, scheduler):
    value = train_step(model, loss, micro_batches, optimizer, scheduler)
    optimizer.step()
    return value


def _with_decay(model, loss, micro_batches, optimizer, scheduler):
    value = train_step(model, loss, micro_batches, optimizer, scheduler)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.99)
    return value


def _clipped(model, loss, micro_batches, optimizer, scheduler):
    def clip(*_):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)

    hook = optimizer.register_step_pre_hook(clip)
    # Hooks that exist already run first, so also scale each gradient as soon as it is computed.
    handles = [parameter.register_hook(lambda gradient: 0.1 * gradient) for parameter in model.parameters()]
    value = train_step(model, loss, micro_batches, optimizer, scheduler)
    for handle in (hook, *handles):
        handle.remove()
    return value


def _backwards(model, loss, micro_batches, optimizer, scheduler):
    turned = [(source.flip(1), target) for source, target in micro_batches]
    return train_step(model, loss, turned, optimizer, scheduler)


def _sides_swapped(model, loss, micro_batches, optimizer, scheduler):
    turned = [(target, source) for source, target in micro_batches]
    return train_step(model, loss, turned, optimizer, scheduler)


def _overwrites(model, loss, micro_batches, optimizer, scheduler):
    value = train_step(model, loss, micro_batches, optimizer, scheduler)
    for _, target in micro_batches:
        target.fill_(loss.pad_id)
    return value


def _last_alone(model, loss, micro_batches, optimizer, scheduler):
    return train_step(model, loss, micro_batches[-1:], optimizer, scheduler)


UNRELATED = {
    "train_step": (
        _idle,
        _loud,
        _perplexity,
        _twice,
        _two_steps,
        _with_decay,
        _clipped,
        _backwards,
        _sides_swapped,
        _overwrites,
        _last_alone,
        lambda *arguments: str(train_step(*arguments)),
        lambda *arguments: (train_step(*arguments), 1),
        lambda model, loss, micro_batches, optimizer: 0.0,
        3.0,
    ),
}

"""Correct answers for lesson 07, written differently: the checks must accept all of them."""

import math

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, SequentialLR

from course_lib.transformer import learning_rate


def rate_by_roots(step, d_model, warmup, factor=1.0):
    return factor / math.sqrt(d_model) * min(1 / math.sqrt(step), step / (warmup * math.sqrt(warmup)))


def rate_by_cases(step, d_model, warmup, factor=1.0):
    if step < warmup:
        return factor * step / math.sqrt(d_model * warmup**3)
    return factor / math.sqrt(d_model * step)


def rate_from_the_peak(step, d_model, warmup, factor=1.0):
    peak = factor * (d_model * warmup) ** -0.5
    return peak * min(step / warmup, (warmup / step) ** 0.5)


def rate_by_logarithms(step, d_model, warmup, factor=1.0):
    log_rate = min(-0.5 * math.log(step), math.log(step) - 1.5 * math.log(warmup)) - 0.5 * math.log(d_model)
    return math.exp(log_rate) * factor


def rate_as_a_tensor(step, d_model, warmup, factor=1.0):
    step = torch.tensor(float(step), dtype=torch.float64)
    return factor * d_model**-0.5 * torch.minimum(step.rsqrt(), step * warmup**-1.5)


def rate_that_takes_step_zero(step, d_model, warmup, factor=1.0):
    if step == 0:
        return 0.0
    return factor * d_model ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5))


def scheduler_by_named_arguments(optimizer, d_model, warmup, factor=1.0):
    def rate(updates_done):
        return learning_rate(step=updates_done + 1, d_model=d_model, warmup=warmup, factor=factor)

    return LambdaLR(optimizer, lr_lambda=rate)


def scheduler_with_a_function_each(optimizer, d_model, warmup, factor=1.0):
    def rate(done):
        return factor * rate_by_cases(done + 1, d_model, warmup)

    return LambdaLR(optimizer, [rate for _ in optimizer.param_groups])


class _Own(LRScheduler):
    def __init__(self, optimizer, d_model, warmup, factor):
        self.sizes = d_model, warmup, factor
        super().__init__(optimizer)

    def get_lr(self):
        return [learning_rate(self.last_epoch + 1, *self.sizes) for _ in self.optimizer.param_groups]


def scheduler_of_a_class_of_torch(optimizer, d_model, warmup, factor=1.0):
    return _Own(optimizer, d_model, warmup, factor)


class _ByHand:
    def __init__(self, optimizer, rate):
        self.optimizer, self.rate, self.number = optimizer, rate, 0
        self.step()

    def step(self):
        self.number += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(self.number)


def scheduler_by_hand(optimizer, d_model, warmup, factor=1.0):
    return _ByHand(optimizer, lambda number: learning_rate(number, d_model, warmup, factor))


def scheduler_of_two_halves(optimizer, d_model, warmup, factor=1.0):
    peak = learning_rate(warmup, d_model, warmup, factor)
    rise = LambdaLR(optimizer, lambda done: peak * (done + 1) / warmup)
    fall = LambdaLR(optimizer, lambda done: peak * math.sqrt(warmup / (warmup + 1 + done)))
    return SequentialLR(optimizer, [rise, fall], milestones=[warmup])


def adam_by_lerp(parameter, gradient, mean, variance, step, lr, beta1=0.9, beta2=0.98, eps=1e-9):
    mean = torch.lerp(mean, gradient, 1 - beta1)
    variance = torch.lerp(variance, gradient * gradient, 1 - beta2)
    root = (variance / (1 - beta2**step)).sqrt()
    return [torch.addcdiv(parameter, mean / (1 - beta1**step), root + eps, value=-lr), mean, variance]


def adam_on_copies(parameter, gradient, mean, variance, step, lr, beta1=0.9, beta2=0.98, eps=1e-9):
    parameter, mean, variance = parameter.clone(), mean.clone(), variance.clone()
    mean.mul_(beta1).add_(gradient, alpha=1 - beta1)
    variance.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    root = (variance.sqrt() / math.sqrt(1 - beta2**step)).add_(eps)
    return parameter.addcdiv_(mean, root, value=-lr / (1 - beta1**step)), mean, variance


def adam_with_a_scaled_eps(parameter, gradient, mean, variance, step, lr, beta1=0.9, beta2=0.98, eps=1e-9):
    mean = mean + (1 - beta1) * (gradient - mean)
    variance = variance + (1 - beta2) * (gradient.square() - variance)
    scale = math.sqrt(1 - beta2**step)
    rate = lr * scale / (1 - beta1**step)
    return parameter - rate * mean / (variance.sqrt() + eps * scale), mean, variance


def adam_number_by_number(parameter, gradient, mean, variance, step, lr, beta1=0.9, beta2=0.98, eps=1e-9):
    state = [tensor.flatten().tolist() for tensor in (parameter, gradient, mean, variance)]
    rows = []
    for p, g, m, v in zip(*state, strict=True):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        move = lr * (m / (1 - beta1**step)) / (math.sqrt(v / (1 - beta2**step)) + eps)
        rows.append((p - move, m, v))
    return tuple(parameter.new_tensor(column).reshape(parameter.shape) for column in zip(*rows, strict=True))


class _FunctionOfAdam:
    def __call__(self, parameter, gradient, mean, variance, step, lr, *rest, **keywords):
        with torch.no_grad():
            return adam_by_lerp(parameter, gradient, mean, variance, step, lr, *rest, **keywords)

    __name__ = "adam_as_an_object"


VARIANTS = {
    "adam_update": (
        adam_by_lerp,
        adam_on_copies,
        adam_with_a_scaled_eps,
        adam_number_by_number,
        _FunctionOfAdam(),
    ),
    "learning_rate": (
        rate_by_roots,
        rate_by_cases,
        rate_from_the_peak,
        rate_by_logarithms,
        rate_as_a_tensor,
        rate_that_takes_step_zero,
    ),
    "make_scheduler": (
        scheduler_by_named_arguments,
        scheduler_with_a_function_each,
        scheduler_of_a_class_of_torch,
        scheduler_by_hand,
        scheduler_of_two_halves,
    ),
}

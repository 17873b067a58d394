"""Correct answers for lesson 09, written differently: the checks must accept all of them."""

import torch

from course_lib.transformer import causal_mask, decoder_mask, padding_mask, shift_target


def step_by_counts(model, loss, micro_batches, optimizer, scheduler):
    """Work with sums over tokens, and divide by a count that is known beforehand."""
    optimizer.zero_grad(set_to_none=False)
    model.train()
    total = 0
    micro_batches = tuple(micro_batches)
    for _, target in micro_batches:
        total += int((target[:, 1:] != loss.pad_id).sum())
    summed = 0.0
    for source, target in micro_batches:
        read, labels = target[:, :-1], target[:, 1:]
        mask = padding_mask(source, loss.pad_id)
        hidden = model.decode(model.encode(source, mask), mask, read, decoder_mask(read, loss.pad_id))
        of_tokens = loss(model.generator(hidden), labels) * int((labels != loss.pad_id).sum())
        (of_tokens / total).backward()
        summed += float(of_tokens.detach())
    optimizer.step()
    scheduler.step()
    return summed / total


def step_through_forward(model, loss, micro_batches, optimizer, scheduler):
    """Call the model as a whole, and divide the gradients and the loss at the end."""
    was_training = model.training
    model.train()
    optimizer.zero_grad()
    value, tokens = 0.0, 0
    for source, target in micro_batches:
        mask = decoder_mask(target, loss.pad_id)
        logits = model(source, padding_mask(source, loss.pad_id), target, mask)[:, :-1]
        real = target[:, 1:] != loss.pad_id
        summed = loss(logits[real], target[:, 1:][real]) * real.sum()
        summed.backward()
        value, tokens = value + float(summed), tokens + int(real.sum())
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(tokens)
    optimizer.step()
    scheduler.step()
    model.train(was_training)
    return value / tokens


def step_with_gradients_by_hand(model, loss, micro_batches, optimizer, scheduler):
    """Accumulate the gradients of sums over tokens manually, and divide them at the end."""
    model.train()
    parameters = list(model.parameters())
    totals = [torch.zeros_like(parameter) for parameter in parameters]
    value, tokens = 0.0, 0
    for source, target in micro_batches:
        decoder_input, labels = shift_target(target)
        source_mask = (source != loss.pad_id)[:, None, :]
        length = decoder_input.shape[1]
        target_mask = torch.ones(length, length, dtype=torch.bool, device=source.device).tril()
        memory = model.encode(source, source_mask)
        logits = model.generator(model.decode(memory, source_mask, decoder_input, target_mask))
        count = labels.ne(loss.pad_id).sum().item()
        summed = count * loss(logits.flatten(0, 1), labels.flatten())
        for total, gradient in zip(totals, torch.autograd.grad(summed, parameters), strict=True):
            total += gradient
        value, tokens = value + summed.item(), tokens + count
    for parameter, total in zip(parameters, totals, strict=True):
        parameter.grad = total / tokens
    optimizer.step()
    scheduler.step()
    return value / tokens


def step_row_by_row(model, loss, micro_batches, optimizer, scheduler):
    """Split each micro-batch into single sentences without padding."""
    model.train()
    optimizer.zero_grad()
    sentences = [
        (one[one != loss.pad_id][None], other[other != loss.pad_id][None])
        for source, target in micro_batches
        for one, other in zip(source, target, strict=True)
    ]
    real_tokens = sum(target.shape[1] - 1 for _, target in sentences)
    value = 0.0
    for source, target in sentences:
        read, labels = shift_target(target)
        hidden = model.decode(
            model.encode(source, None), None, read, causal_mask(read.shape[1]).to(read.device)
        )
        share = loss(model.generator(hidden).log_softmax(dim=-1), labels) * labels.shape[1] / real_tokens
        share.backward()
        value += share.item()
    optimizer.step()
    scheduler.step()
    return value


def step_by_closure(model, loss, micro_batches, optimizer, scheduler):
    """Pass the optimizer a function that clears the gradients, runs backward and returns the loss."""
    pieces = list(micro_batches)
    real_tokens = sum(int((target[:, 1:] != loss.pad_id).sum()) for _, target in pieces)
    model.train()

    def closure():
        optimizer.zero_grad()
        total = 0.0
        for source, target in pieces:
            mask = padding_mask(source, loss.pad_id)
            read, labels = shift_target(target)
            hidden = model.decode(model.encode(source, mask), mask, read, decoder_mask(read, loss.pad_id))
            share = int((labels != loss.pad_id).sum()) / real_tokens
            value = loss(model.generator(hidden), labels) * share
            value.backward()
            total += value.item()
        return total

    value = optimizer.step(closure)
    scheduler.step()
    return value


VARIANTS = {
    "train_step": (
        step_by_counts,
        step_through_forward,
        step_with_gradients_by_hand,
        step_row_by_row,
        step_by_closure,
    ),
}

"""Correct answers for lesson 04, written differently: the checks must accept all of them."""

import numpy as np
import torch


def padding_by_not_equal(tokens, pad_id):
    return tokens.ne(pad_id)[:, None, :]


def padding_by_negation(tokens, pad_id):
    return ~torch.eq(tokens, pad_id).view(tokens.shape[0], 1, tokens.shape[1])


def padding_by_filling(tokens, pad_id):
    batch, length = tokens.shape
    mask = torch.ones(batch, 1, length, dtype=torch.bool, device=tokens.device)
    mask[:, 0][tokens == pad_id] = False
    return mask


def padding_by_loop(tokens, pad_id):
    rows = [[[token != pad_id for token in sentence]] for sentence in tokens.tolist()]
    return torch.tensor(rows, dtype=torch.bool, device=tokens.device)


def padding_by_difference(tokens, pad_id):
    return (tokens - pad_id).bool().unsqueeze(dim=-2)


@torch.jit.script
def padding_in_torchscript(tokens: torch.Tensor, pad_id: int) -> torch.Tensor:
    return (tokens != pad_id).unsqueeze(1)


def causal_of_two_axes(length):
    return torch.ones(length, length).tril().bool()


def causal_by_positions(length):
    positions = torch.arange(length)
    return positions.unsqueeze(0) <= positions.unsqueeze(1)


def causal_by_negation(length):
    return torch.triu(torch.ones((1, length, length)), diagonal=1) == 0


def causal_by_loop(length):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for query in range(length):
        mask[query, : query + 1] = True
    return mask[None]


def causal_by_counting(length):
    return torch.eye(length).cumsum(dim=0).gt(0)


def causal_by_indices(length):
    mask = torch.zeros(1, length, length, dtype=torch.bool)
    rows, columns = torch.tril_indices(length, length)
    mask[0, rows, columns] = True
    return mask


def causal_by_numpy(length):
    return torch.tensor(np.tril(np.ones((1, length, length), dtype=bool)))


def causal_by_shared_numpy(length):
    return torch.from_numpy(np.triu(np.ones((1, length, length), dtype="uint8"), k=1)) == 0


def causal_by_numpy_moved(length):
    mask = torch.from_numpy(np.tri(length, dtype=bool))
    return mask.unsqueeze(0).to(torch.get_default_device())


def causal_on_a_named_device(length):
    device = torch.get_default_device()
    return torch.ones(1, length, length, dtype=torch.bool, device=device).tril()


_KEPT: dict[int, torch.Tensor] = {}


def causal_copied_from_a_cache(length):
    if length not in _KEPT:
        _KEPT[length] = torch.ones(1, length, length, dtype=torch.bool).tril()
    return _KEPT[length].to(torch.get_default_device(), copy=True)


def causal_by_reading(length):
    """Compute the mask from numbers that are read from a tensor."""
    positions = torch.arange(length).tolist()
    return torch.tensor([[[key <= query for key in positions] for query in positions]])


def decoder_by_product(tokens, pad_id):
    return padding_by_not_equal(tokens, pad_id) * causal_of_two_axes(tokens.shape[1]).to(tokens.device)


def decoder_by_triangle(tokens, pad_id):
    length = tokens.size(-1)
    return padding_by_not_equal(tokens, pad_id).expand(-1, length, -1).tril()


def decoder_by_logical_and(tokens, pad_id):
    padding = padding_by_negation(tokens, pad_id)
    return torch.logical_and(padding, causal_by_positions(tokens.shape[1]).to(padding))


def decoder_by_filling(tokens, pad_id):
    causal = causal_by_indices(tokens.shape[1]).to(device=tokens.device).repeat(tokens.shape[0], 1, 1)
    return causal.masked_fill((tokens == pad_id).unsqueeze(1), False)


def decoder_by_loop(tokens, pad_id):
    batch, length = tokens.shape
    mask = torch.empty(batch, length, length, dtype=torch.bool, device=tokens.device)
    for sentence in range(batch):
        for query in range(length):
            for key in range(length):
                mask[sentence, query, key] = key <= query and tokens[sentence, key].item() != pad_id
    return mask


def decoder_by_einsum(tokens, pad_id):
    real = (tokens != pad_id).double()
    return torch.einsum("bk,qk->bqk", real, real.new_ones(tokens.shape[1], tokens.shape[1]).tril()) > 0.5


def shift_by_narrow(target):
    length = target.shape[1] - 1
    return target.narrow(1, 0, length), target.narrow(1, 1, length)


def shift_as_list(target):
    return [target[..., :-1].clone(), target[..., 1:].clone()]


def shift_by_columns(target):
    columns = target.unbind(dim=1)
    return torch.stack(columns[:-1], dim=1), torch.stack(columns[1:], dim=1)


def shift_by_windows(target):
    windows = target.unfold(1, 2, 1)
    return windows[..., 0], windows[..., 1]


def shift_by_rolling(target):
    return target[:, : target.size(1) - 1], torch.roll(target, -1, dims=1)[:, :-1]


VARIANTS = {
    "padding_mask": (
        padding_by_not_equal,
        padding_by_negation,
        padding_by_filling,
        padding_by_loop,
        padding_by_difference,
        padding_in_torchscript,
    ),
    "causal_mask": (
        causal_of_two_axes,
        causal_by_positions,
        causal_by_negation,
        causal_by_loop,
        causal_by_counting,
        causal_by_indices,
        causal_by_numpy,
        causal_by_shared_numpy,
        causal_by_numpy_moved,
        causal_on_a_named_device,
        causal_copied_from_a_cache,
        causal_by_reading,
    ),
    "decoder_mask": (
        decoder_by_product,
        decoder_by_triangle,
        decoder_by_logical_and,
        decoder_by_filling,
        decoder_by_loop,
        decoder_by_einsum,
    ),
    "shift_target": (
        shift_by_narrow,
        shift_as_list,
        shift_by_columns,
        shift_by_windows,
        shift_by_rolling,
    ),
}

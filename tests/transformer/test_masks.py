"""Lesson 04: masks and the shifted target, compared with masks written by hand and built by loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from course_lib.transformer import (
    MultiHeadAttention,
    attention_scores,
    causal_mask,
    decoder_mask,
    padding_mask,
    shift_target,
)

from .samples import PAD, assert_close, batches, sentences, small_transformer, unchanged


def test_masks_by_hand() -> None:
    tokens = torch.tensor([[5, 6, 0], [7, 0, 0]])
    assert padding_mask(tokens, 0).tolist() == [[[True, True, False]], [[True, False, False]]]
    assert causal_mask(3).reshape(3, 3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert decoder_mask(tokens, 0).int().tolist() == [
        [[1, 0, 0], [1, 1, 0], [1, 1, 0]],
        [[1, 0, 0], [1, 0, 0], [1, 0, 0]],
    ]


def test_a_mask_of_one_position() -> None:
    assert padding_mask(torch.tensor([[3]]), 0).tolist() == [[[True]]]
    assert causal_mask(1).tolist() == [[[True]]]
    assert decoder_mask(torch.tensor([[3]]), 0).tolist() == [[[True]]]


def test_a_sentence_of_nothing_but_padding_may_be_looked_at_by_nobody() -> None:
    assert not padding_mask(torch.tensor([[0, 0]]), 0).any()
    assert not decoder_mask(torch.tensor([[0, 0]]), 0).any()


@given(batches(), st.sampled_from([0, 3, 4, -100]))
def test_masks_say_who_may_look_at_whom(tokens: Tensor, pad_id: int) -> None:
    padding, decoder = padding_mask(tokens, pad_id), decoder_mask(tokens, pad_id)
    batch, length = tokens.shape
    assert padding.shape == (batch, 1, length)
    assert decoder.shape == (batch, length, length)
    assert causal_mask(length).shape == (1, length, length)
    assert padding.dtype == decoder.dtype == causal_mask(length).dtype == torch.bool
    for b in range(batch):
        for j in range(length):
            real = tokens[b, j].item() != pad_id
            assert padding[b, 0, j] == real
            for i in range(length):
                assert causal_mask(length)[0, i, j] == (j <= i)
                assert decoder[b, i, j] == (real and j <= i)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_tokens_may_be_of_any_integer_dtype(dtype: torch.dtype) -> None:
    tokens = sentences([3, 1])
    assert torch.equal(padding_mask(tokens.to(dtype), PAD), padding_mask(tokens, PAD))
    assert torch.equal(decoder_mask(tokens.to(dtype), PAD), decoder_mask(tokens, PAD))


def test_masks_are_on_the_device_of_the_tokens() -> None:
    tokens = torch.ones(2, 3, dtype=torch.long, device="meta")
    assert padding_mask(tokens, PAD).is_meta
    assert decoder_mask(tokens, PAD).is_meta


@given(batches())
def test_pitfall_22_padding_masks_hide_key_columns_and_no_query_rows(tokens: Tensor) -> None:
    padding, decoder = padding_mask(tokens, PAD), decoder_mask(tokens, PAD)
    assert padding.shape[1] == 1
    # The first token is real, so every query can attend to it.
    assert decoder.any(dim=-1).all()
    assert decoder[:, :, 0].all()


def test_pitfall_22_a_softmax_over_minus_infinity_finds_no_row_without_a_key() -> None:
    def strict(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: torch.nn.Module
    ) -> tuple[Tensor, None]:
        scores = attention_scores(query, key).masked_fill(~mask, -torch.inf)
        return dropout(scores.softmax(dim=-1)) @ value, None

    model = small_transformer()
    source, target = sentences([5, 2, 1]), sentences([1, 4, 2])
    masks = padding_mask(source, PAD), decoder_mask(target, PAD)
    expected = model(source, masks[0], target, masks[1])
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.attention = strict
    logits = model(source, masks[0], target, masks[1])
    assert logits.isfinite().all()
    assert_close(logits, expected)


def test_the_target_is_shifted_by_one() -> None:
    decoder_input, labels = shift_target(torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0]]))
    assert decoder_input.tolist() == [[1, 5, 6], [1, 7, 2]]
    assert labels.tolist() == [[5, 6, 2], [7, 2, 0]]


@given(batches(shortest=2))
def test_each_label_is_the_token_after_the_one_that_is_read(target: Tensor) -> None:
    decoder_input, labels = shift_target(target)
    assert decoder_input.shape == labels.shape == (target.shape[0], target.shape[1] - 1)
    assert decoder_input.dtype == labels.dtype == target.dtype
    for i in range(target.shape[1] - 1):
        assert torch.equal(decoder_input[:, i], target[:, i])
        assert torch.equal(labels[:, i], target[:, i + 1])


def test_inputs_are_not_written_into() -> None:
    tokens = sentences([4, 2])
    with unchanged(tokens):
        padding_mask(tokens, PAD)
        decoder_mask(tokens, PAD)
        shift_target(tokens)

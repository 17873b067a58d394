"""Lesson 05: sinusoids, embeddings and their sum, compared with the formulas in plain Python."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.transformer import PositionalEncoding, TokenEmbedding, sinusoids

from .samples import assert_close, numbers, seeds, sentences


def sinusoid(position: int, column: int, d_model: int) -> float:
    """Compute one entry of the positional encoding, as in section 3.5 of the paper."""
    angle = position / 10000 ** (2 * (column // 2) / d_model)
    return math.cos(angle) if column % 2 else math.sin(angle)


@pytest.mark.parametrize("d_model", [1, 2, 3, 7, 8, 64])
def test_sinusoids_are_those_of_the_paper(d_model: int) -> None:
    table = sinusoids(50, d_model)
    expected = torch.tensor([[sinusoid(p, c, d_model) for c in range(d_model)] for p in range(50)])
    assert table.dtype == torch.float32
    assert_close(table, expected, rtol=0.0, atol=1e-7)


def test_far_positions_are_as_exact_as_near_ones() -> None:
    table = sinusoids(5000, 8)
    for position in (1000, 4096, 4999):
        expected = torch.tensor([sinusoid(position, column, 8) for column in range(8)])
        assert_close(table[position], expected, rtol=0.0, atol=1e-7)


def test_the_first_position_is_all_sines_of_zero_and_cosines_of_zero() -> None:
    assert sinusoids(1, 5).tolist() == [[0.0, 1.0, 0.0, 1.0, 0.0]]
    assert sinusoids(2, 1)[:, 0].tolist() == pytest.approx([0.0, math.sin(1.0)])


@pytest.mark.parametrize("d_model", [1, 3, 5, 7, 33])
def test_pitfall_21_an_odd_number_of_features_ends_on_a_sine(d_model: int) -> None:
    table = sinusoids(9, d_model)
    assert table.shape == (9, d_model)
    expected = torch.tensor([sinusoid(p, d_model - 1, d_model) for p in range(9)])
    assert_close(table[:, -1], expected, rtol=0.0, atol=1e-7)
    assert PositionalEncoding(d_model, 0.0)(torch.zeros(1, 9, d_model)).shape == (1, 9, d_model)


@given(st.integers(0, 300), st.integers(0, 300), st.sampled_from([2, 6, 8, 32]))
def test_an_offset_rotates_each_pair_whatever_the_position(position: int, offset: int, d_model: int) -> None:
    table = sinusoids(601, d_model).double()
    for pair in range(0, d_model, 2):
        angle = offset / 10000 ** (pair / d_model)
        rotation = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], dtype=torch.float64
        )
        here, there = table[position, pair : pair + 2], table[position + offset, pair : pair + 2]
        assert_close(rotation @ here, there, rtol=0.0, atol=1e-6)


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_product_of_two_positions_depends_on_their_distance_only(position: int, offset: int) -> None:
    table = sinusoids(601, 16).double()
    assert_close(table[position] @ table[position + offset], table[0] @ table[offset], rtol=0.0, atol=1e-5)


def test_positions_are_all_different() -> None:
    table = sinusoids(500, 16)
    assert torch.cdist(table, table).fill_diagonal_(1.0).min() > 0.1


def test_a_word_becomes_its_row_of_the_table_times_the_root_of_d_model() -> None:
    embedding = TokenEmbedding(11, 7).double()
    tokens = sentences([4, 2])
    weight = embedding.table.weight.detach().clone().requires_grad_()
    expected = F.embedding(tokens, weight) * math.sqrt(7)
    output = embedding(tokens)
    assert_close(output, expected)
    weight_of_outputs = numbers(2, 4, 7)
    (output * weight_of_outputs).sum().backward()
    (expected * weight_of_outputs).sum().backward()
    assert_close(embedding.table.weight.grad, weight.grad)


def test_the_table_is_an_embedding() -> None:
    embedding = TokenEmbedding(11, 7)
    assert isinstance(embedding.table, nn.Embedding)
    assert embedding.state_dict().keys() == {"table.weight"}
    assert embedding(torch.tensor([[3]], dtype=torch.int32)).shape == (1, 1, 7)


@pytest.mark.parametrize("d_model", [4, 64, 400])
def test_pitfall_08_tables_start_normal_so_that_words_are_as_large_as_positions(d_model: int) -> None:
    vocabulary = 100_000 // d_model
    table = TokenEmbedding(vocabulary, d_model).table.weight.detach()
    assert table.std().item() == pytest.approx(d_model**-0.5, rel=0.02)
    assert table.mean().item() == pytest.approx(0.0, abs=0.02 * d_model**-0.5)
    # 4.6% of a normal distribution is beyond two standard deviations, but none of Xavier's uniform
    # distribution is.
    beyond = (table.abs() > 2 * d_model**-0.5).double().mean().item()
    assert beyond == pytest.approx(0.0455, abs=0.005)


@pytest.mark.parametrize(("batch", "length", "d_model"), [(2, 5, 8), (1, 1, 1), (3, 4, 7)])
def test_positions_are_added(batch: int, length: int, d_model: int) -> None:
    x = numbers(batch, length, d_model)
    table = torch.tensor([[sinusoid(p, c, d_model) for c in range(d_model)] for p in range(length)])
    assert_close(PositionalEncoding(d_model, 0.0)(x), x + table.double(), rtol=0.0, atol=1e-7)


def test_dropout_falls_on_the_sum() -> None:
    x = numbers(2, 5, 8)
    assert torch.all(PositionalEncoding(8, dropout=1.0)(x) == 0.0)
    positions = PositionalEncoding(8, dropout=0.5)
    output, whole = positions(x), positions.eval()(x)
    kept = output != 0.0
    assert_close(output[kept], 2 * whole[kept])
    assert 0.2 < kept.double().mean().item() < 0.8
    assert PositionalEncoding(8).dropout.p == 0.1


def test_pitfall_21_the_table_is_not_saved() -> None:
    positions = PositionalEncoding(8)
    assert positions.state_dict() == {}
    assert list(positions.parameters()) == []


def test_a_sentence_past_the_greatest_length_is_refused_in_plain_words() -> None:
    positions = PositionalEncoding(8, 0.0, max_length=4)
    assert positions(numbers(1, 4, 8)).shape == (1, 4, 8)
    with pytest.raises(ValueError, match=r"5.*4"):
        positions(numbers(1, 5, 8))


def test_five_thousand_positions_unless_told() -> None:
    assert PositionalEncoding(2, 0.0)(numbers(1, 5000, 2)).shape == (1, 5000, 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_sum_keeps_the_dtype_of_its_input(dtype: torch.dtype) -> None:
    x = numbers(2, 5, 8).to(dtype)
    for positions in (PositionalEncoding(8, 0.0), PositionalEncoding(8, 0.0).to(dtype)):
        output = positions(x)
        assert output.dtype == dtype
        assert_close(
            output.double(), x.double() + sinusoids(5, 8), rtol=0.0, atol=4 * torch.finfo(dtype).eps + 1e-7
        )


def test_the_table_moves_with_the_module() -> None:
    positions = PositionalEncoding(8, 0.0).to("meta")
    assert positions(torch.empty(2, 3, 8, device="meta")).is_meta


@given(seeds, st.integers(1, 6), st.integers(1, 6))
def test_a_longer_sentence_changes_no_earlier_position(seed: int, length: int, more: int) -> None:
    torch.manual_seed(seed)
    positions, x = PositionalEncoding(6, 0.0), numbers(1, length + more, 6)
    assert torch.equal(positions(x)[:, :length], positions(x[:, :length]))

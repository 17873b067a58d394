"""Lesson 11: greedy decoding and beam search, compared with slow decoders and with exhaustive search.

Small random weights hide decoding mistakes. Here every model has two layers and enlarged weights, and the
seeds were selected so that rows end at different steps and different searches give different translations.
"""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from course_lib.transformer import (
    Transformer,
    TransformerConfig,
    beam_search,
    evaluating,
    greedy_decode,
    length_penalty,
    padding_mask,
    scaled_dot_product_attention,
)

from .samples import END, PAD, START, sentences, small_transformer, unchanged

# The seed and `norm_first` of each model. Vocabularies of four words are decoded up to five tokens, and
# vocabularies of five words up to nine.
OF_FOUR_WORDS = [(28, False), (15, True), (55, True)]
OF_FIVE_WORDS = [(18, False), (49, False), (2, True), (35, True)]
four_words = pytest.mark.parametrize(("seed", "norm_first"), OF_FOUR_WORDS)
five_words = pytest.mark.parametrize(("seed", "norm_first"), OF_FIVE_WORDS)


def vivid(
    seed: int = 2, norm_first: bool = True, words: int = 5, dropout: float = 0.0, **settings: Any
) -> tuple[Transformer, Tensor]:
    """Build a model whose output depends on the source, and six sources of different lengths."""
    torch.manual_seed(seed)
    config = TransformerConfig(2, 8, 2, 12, dropout, norm_first, **settings)
    model = Transformer(11, words, config).double()
    with torch.no_grad():
        model.source_embedding.table.weight.mul_(3.0)
        for layer in (*model.encoder_layers, *model.decoder_layers):
            for parameter in layer.parameters():
                if parameter.dim() == 2:
                    parameter.mul_(2.0)
    torch.manual_seed(seed + 1000)
    return model, sentences([4, 1, 3, 5, 2, 5])


@torch.no_grad()
def next_log_probabilities(model: Transformer, source: Tensor, prefix: list[int]) -> list[float]:
    """Return the model's log-probabilities of the next token for one sentence, with masks built here."""
    source_mask = torch.ones(1, 1, len(source), dtype=torch.bool)
    target_mask = torch.ones(len(prefix), len(prefix)).tril().bool()
    logits = model(source.unsqueeze(0), source_mask, torch.tensor([prefix]), target_mask)[0, -1].tolist()
    largest = max(logits)
    total = largest + math.log(sum(math.exp(logit - largest) for logit in logits))
    return [logit - total for logit in logits]


def rows_of(source: Tensor) -> list[Tensor]:
    return [row[row != PAD] for row in source]


def filled(rows: list[list[int]]) -> list[list[int]]:
    """Pad the rows with the end token to the length of the longest row."""
    longest = max(map(len, rows))
    return [row + [END] * (longest - len(row)) for row in rows]


def slow_greedy(model: Transformer, source: Tensor, max_length: int) -> list[int]:
    """Decode one sentence, one token at a time."""
    written = [START]
    while len(written) < max_length and (len(written) == 1 or written[-1] != END):
        scores = next_log_probabilities(model, source, written)
        written.append(scores.index(max(scores)))
    return written


def score(log_probability: float, written: list[int], alpha: float) -> float:
    """Divide by the length penalty. The length includes the end token, but not the start token."""
    return log_probability / ((5 + len(written) - 1) / 6) ** alpha


def every_translation(model: Transformer, source: Tensor, max_length: int) -> list[tuple[float, list[int]]]:
    """Return every possible translation, ended or cut off at max_length, with its log-probability."""
    done, open_ones = [], [(0.0, [START])]
    while open_ones:
        log_probability, written = open_ones.pop()
        for token, step in enumerate(next_log_probabilities(model, source, written)):
            longer = (log_probability + step, [*written, token])
            ended = token == END or len(longer[1]) == max_length
            (done if ended else open_ones).append(longer)
    assert sum(math.exp(log_probability) for log_probability, _ in done) == pytest.approx(1.0)
    return done


def slow_beam_search(
    model: Transformer, source: Tensor, beam: int, max_length: int, alpha: float
) -> list[int]:
    """Run beam search for one sentence, using lists. Ended translations stay candidates for the beam."""
    kept = [(0.0, [START], False)]
    while any(not ended for _, _, ended in kept) and len(kept[0][1]) < max_length:
        longer = []
        for log_probability, written, ended in kept:
            if ended:
                longer.append((log_probability, [*written, END], True))
                continue
            for token, step in enumerate(next_log_probabilities(model, source, written)):
                longer.append((log_probability + step, [*written, token], token == END))
        kept = sorted(longer, key=lambda entry: entry[0], reverse=True)[:beam]

    def whole(written: list[int]) -> list[int]:
        return written[: written.index(END) + 1] if END in written else written

    return max((score(p, whole(written), alpha), whole(written)) for p, written, _ in kept)[1]


def lengths_after_start(decoded: Tensor) -> list[int]:
    """Count each row's tokens after the start token, up to and including the first end token."""
    return [row[1:].index(END) + 1 if END in row[1:] else len(row) - 1 for row in decoded.tolist()]


@pytest.mark.parametrize(
    ("seed", "norm_first", "words"),
    [*((*each, 4) for each in OF_FOUR_WORDS), *((*each, 5) for each in OF_FIVE_WORDS)],
)
def test_these_models_tell_searches_apart(seed: int, norm_first: bool, words: int) -> None:
    """These models make different searches give different results, so the comparisons are meaningful."""
    model, source = vivid(seed, norm_first, words)
    mask, max_length = padding_mask(source, PAD), {4: 5, 5: 9}[words]
    greedy = greedy_decode(model, source, mask, max_length, START, END)
    assert len(set(lengths_after_start(greedy))) >= 3
    found = [
        beam_search(model, source, mask, beam, min(max_length, 7), START, END, alpha)
        for beam, alpha in itertools.product((1, 3), (0.0, 2.0))
    ]
    assert len({str(decoded.tolist()) for decoded in found}) >= 3


@five_words
def test_pitfall_11_greedy_decoding_of_a_batch_is_that_of_each_sentence_alone(
    seed: int, norm_first: bool
) -> None:
    model, source = vivid(seed, norm_first)
    decoded = greedy_decode(model, source, padding_mask(source, PAD), 9, START, END)
    assert decoded.tolist() == filled([slow_greedy(model, row, 9) for row in rows_of(source)])


@five_words
@pytest.mark.parametrize("max_length", [1, 2, 4])
def test_the_start_counts_towards_the_greatest_length(seed: int, norm_first: bool, max_length: int) -> None:
    model, source = vivid(seed, norm_first)
    mask = padding_mask(source, PAD)
    for decoded in (
        greedy_decode(model, source, mask, max_length, START, END),
        beam_search(model, source, mask, 3, max_length, START, END, 0.6),
    ):
        assert decoded.shape[1] <= max_length
        assert torch.all(decoded[:, 0] == START)
        assert decoded.dtype == source.dtype
    assert greedy_decode(model, source, mask, 1, START, END).tolist() == [[START]] * len(source)


def always(model: Transformer, token: int) -> None:
    """Make the model produce this token for every input."""
    with torch.no_grad():
        model.generator.bias[token] = 1e4


def counting(model: Transformer) -> list[int]:
    """Return a list to which every decoding step appends the length of the target."""
    lengths = []
    model.decoder_layers[0].register_forward_hook(lambda _, inputs, __: lengths.append(inputs[0].shape[1]))
    return lengths


def test_pitfall_11_decoding_stops_when_all_have_ended() -> None:
    model, source = vivid()
    always(model, END)
    steps = counting(model)
    expected = [[START, END]] * len(source)
    assert greedy_decode(model, source, padding_mask(source, PAD), 50, START, END).tolist() == expected
    assert steps == [1]
    # The translation of two tokens scores higher than any longer one, however many beams continue.
    assert beam_search(model, source, padding_mask(source, PAD), 3, 50, START, END, 0.6).tolist() == expected


def test_pitfall_11_what_has_ended_is_filled_with_the_end_symbol() -> None:
    found = 0
    for seed, norm_first in OF_FIVE_WORDS:
        model, source = vivid(seed, norm_first)
        mask = padding_mask(source, PAD)
        for decoded in (
            greedy_decode(model, source, mask, 9, START, END),
            beam_search(model, source, mask, 3, 9, START, END, 0.6),
        ):
            for row, length in zip(decoded.tolist(), lengths_after_start(decoded), strict=True):
                assert set(row[length + 1 :]) <= {END}
                found += len(row) > length + 1
    assert found > 0


def test_a_start_symbol_that_is_written_again_ends_nothing() -> None:
    model, source = vivid()
    always(model, START)
    decoded = greedy_decode(model, source, padding_mask(source, PAD), 6, START, END)
    assert decoded.tolist() == [[START] * 6] * len(source)


def test_start_and_end_may_be_one_symbol() -> None:
    model, source = vivid()
    always(model, 4)
    decoded = greedy_decode(model, source, padding_mask(source, PAD), 5, 3, 3)
    assert decoded.tolist() == [[3, 4, 4, 4, 4]] * len(source)


@pytest.mark.slow
@four_words
def test_a_beam_of_full_width_finds_what_exhaustive_search_finds(seed: int, norm_first: bool) -> None:
    words, max_length = 4, 5
    model, source = vivid(seed, norm_first, words)
    mask, beam = padding_mask(source, PAD), words ** (max_length - 1)
    translations = [every_translation(model, row, max_length) for row in rows_of(source)]
    for alpha in (0.0, 0.6, 1.0, 2.0):
        decoded = beam_search(model, source, mask, beam, max_length, START, END, alpha)
        best = [max((score(p, written, alpha), written) for p, written in each)[1] for each in translations]
        assert decoded.tolist() == filled(best)


@pytest.mark.parametrize(("beam", "alpha"), [(2, 0.6), (3, 0.0), (3, 2.0), (5, 1.0)])
@five_words
@pytest.mark.slow
def test_a_narrow_beam_is_that_of_each_sentence_alone(
    seed: int, norm_first: bool, beam: int, alpha: float
) -> None:
    model, source = vivid(seed, norm_first)
    decoded = beam_search(model, source, padding_mask(source, PAD), beam, 7, START, END, alpha)
    expected = [slow_beam_search(model, row, beam, 7, alpha) for row in rows_of(source)]
    assert decoded.tolist() == filled(expected)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
@five_words
def test_a_beam_of_one_is_greedy(seed: int, norm_first: bool, alpha: float) -> None:
    model, source = vivid(seed, norm_first)
    mask = padding_mask(source, PAD)
    expected = greedy_decode(model, source, mask, 9, START, END)
    assert torch.equal(beam_search(model, source, mask, 1, 9, START, END, alpha), expected)


@five_words
def test_a_wider_beam_than_there_are_words_will_do(seed: int, norm_first: bool) -> None:
    model, source = vivid(seed, norm_first)
    decoded = beam_search(model, source, padding_mask(source, PAD), 50, 3, START, END, 0.6)
    full = beam_search(model, source, padding_mask(source, PAD), 16, 3, START, END, 0.6)
    assert torch.equal(decoded, full)


@five_words
def test_sentences_do_not_see_each_other(seed: int, norm_first: bool) -> None:
    model, source = vivid(seed, norm_first)
    order = torch.randperm(len(source))
    for decode in (
        lambda source: greedy_decode(model, source, padding_mask(source, PAD), 7, START, END),
        lambda source: beam_search(model, source, padding_mask(source, PAD), 3, 7, START, END, 0.6),
    ):
        assert torch.equal(decode(source[order]), decode(source)[order])
        for row, expected in zip(rows_of(source), decode(source), strict=True):
            (alone,) = decode(row.unsqueeze(0))
            assert torch.equal(alone, expected[: len(alone)])
            assert torch.all(expected[len(alone) :] == END)


@five_words
def test_more_padding_of_the_source_changes_nothing(seed: int, norm_first: bool) -> None:
    model, source = vivid(seed, norm_first)
    padded = torch.nn.functional.pad(source, (0, 3), value=PAD)
    for decode in (
        lambda source: greedy_decode(model, source, padding_mask(source, PAD), 7, START, END),
        lambda source: beam_search(model, source, padding_mask(source, PAD), 3, 7, START, END, 0.6),
    ):
        assert torch.equal(decode(padded), decode(source))


def test_one_mask_may_hold_for_the_whole_batch() -> None:
    model, source = vivid()
    source = source[:2, :1]
    mask = torch.ones(1, 1, 1, dtype=torch.bool)
    whole = mask.expand(2, 1, 1)
    assert torch.equal(
        beam_search(model, source, mask, 3, 7, START, END, 0.6),
        beam_search(model, source, whole, 3, 7, START, END, 0.6),
    )


@pytest.mark.usefixtures("shapes_unchecked")
def test_a_beam_search_in_16_bits_counts_beyond_256() -> None:
    class Endless(nn.Module):
        """A model whose most likely token is always 3."""

        def encode(self, source: Tensor, mask: Tensor) -> Tensor:
            return torch.zeros(*source.shape, 2, dtype=torch.bfloat16)

        def decode(self, memory: Tensor, source_mask: Tensor, target: Tensor, mask: Tensor) -> Tensor:
            return torch.zeros(*target.shape, 2, dtype=torch.bfloat16)

        def generator(self, hidden: Tensor) -> Tensor:
            return torch.tensor([0, 0, 0, 5], dtype=torch.bfloat16).expand(*hidden.shape[:-1], 4)

    source = torch.ones(1, 2, dtype=torch.int64)
    found = beam_search(Endless(), source, padding_mask(source, PAD), 2, 300, START, END, 0.6)
    assert found.shape == (1, 300)


@pytest.mark.parametrize(
    ("length", "alpha", "penalty"),
    [
        (1, 0.6, 1.0),
        (1, 2.0, 1.0),
        (7, 1.0, 2.0),
        (13, 1.0, 3.0),
        (19, 0.5, 2.0),
        (7, 0.0, 1.0),
        (4, 2.0, 2.25),
    ],
)
def test_the_length_penalty_by_hand(length: int, alpha: float, penalty: float) -> None:
    assert length_penalty(length, alpha) == pytest.approx(penalty, rel=1e-12)
    assert length_penalty(torch.tensor([length]), alpha).tolist() == pytest.approx([penalty], rel=1e-6)


@given(st.integers(1, 200), st.floats(0.01, 2.0))
def test_a_longer_translation_is_divided_by_more(length: int, alpha: float) -> None:
    assert 1.0 <= length_penalty(length, alpha) < length_penalty(length + 1, alpha)


decoders = pytest.mark.parametrize(
    "decode",
    [
        lambda model, source: greedy_decode(model, source, padding_mask(source, PAD), 6, START, END),
        lambda model, source: beam_search(model, source, padding_mask(source, PAD), 3, 6, START, END, 0.6),
    ],
    ids=["greedy_decode", "beam_search"],
)


def modes_of(model: nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


@decoders
def test_pitfall_16_decoding_is_without_dropout(decode) -> None:
    training, source = vivid(dropout=0.5)
    plain, _ = vivid()
    plain.load_state_dict(training.state_dict())
    assert torch.equal(decode(training.train(), source), decode(plain, source))


@decoders
def test_pitfall_16_every_module_gets_its_own_mode_back(decode) -> None:
    model, source = vivid(dropout=0.5)
    model.encoder_layers[1].eval()
    model.positions.dropout.eval()
    before = modes_of(model)
    decode(model, source)
    assert modes_of(model) == before
    assert len(set(before)) == 2


@decoders
def test_pitfall_16_the_mode_is_given_back_after_an_error(decode) -> None:
    def broken(*_: object) -> tuple[Tensor, None]:
        raise RuntimeError("the attention function is broken")

    model, source = vivid(attention=broken)
    model.encoder_layers[1].eval()
    before = modes_of(model)
    with pytest.raises(RuntimeError, match="is broken"):
        decode(model, source)
    assert modes_of(model) == before
    assert torch.is_grad_enabled()


@decoders
def test_pitfall_17_decoding_is_without_gradients(decode) -> None:
    grad_modes = set()

    def recording(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: nn.Dropout
    ) -> tuple[Tensor, Tensor]:
        output, weights = scaled_dot_product_attention(query, key, value, mask, dropout)
        grad_modes.add((torch.is_grad_enabled(), output.requires_grad))
        return output, weights

    model, source = vivid(attention=recording)
    decode(model, source)
    assert grad_modes == {(False, False)}
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_pitfall_17_evaluating_switches_dropout_and_gradients_off_and_on_again() -> None:
    model = small_transformer(dropout=0.5).train()
    model.generator.eval()
    before = modes_of(model)
    with evaluating(model):
        assert not any(modes_of(model))
        assert not torch.is_grad_enabled()
    assert modes_of(model) == before
    assert torch.is_grad_enabled()
    with torch.no_grad():
        with evaluating(model):
            assert not torch.is_grad_enabled()
        assert not torch.is_grad_enabled()


class CountingUp(nn.Module):
    """A custom model that produces ascending ids from the first source token on, then the end token."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Identity()

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        return source.unsqueeze(-1).double()

    def decode(self, memory: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor) -> Tensor:
        position = torch.arange(target.shape[1]).unsqueeze(0)
        token = memory[:, :1, 0].long() + position
        token = token.masked_fill(token >= 8, END)
        return 50.0 * nn.functional.one_hot(token, 8).double()


@decoders
def test_any_model_that_can_encode_decode_and_generate_can_be_decoded(decode, shapes_unchecked) -> None:
    decoded = decode(CountingUp(), torch.tensor([[3, 0], [6, 5], [7, 0]]))
    assert decoded.tolist() == [
        [START, 3, 4, 5, 6, 7],
        [START, 6, 7, END, END, END],
        [START, 7, END, END, END, END],
    ]


@decoders
def test_inputs_are_not_written_into(decode) -> None:
    model, source = vivid()
    with unchanged(source, *model.parameters()):
        decode(model, source)


@decoders
def test_decoding_runs_in_half_precision(decode) -> None:
    model, source = vivid()
    decoded = decode(model.bfloat16(), source)
    assert decoded.shape[0] == len(source)
    assert decoded.dtype == torch.int64


@decoders
def test_decoding_runs_on_every_device(decode, device: str) -> None:
    model, source = vivid()
    expected = decode(model, source)
    decoded = decode(model.to(device), source.to(device))
    assert decoded.device.type == device
    assert torch.equal(decoded.cpu(), expected)

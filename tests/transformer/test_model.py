"""Lesson 06: the whole model, compared with PyTorch's stacks that have the same weights."""

import copy
import itertools
import math
from dataclasses import FrozenInstanceError

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from course_lib.transformer import (
    LayerNorm,
    MultiHeadAttention,
    PositionalEncoding,
    TokenEmbedding,
    Transformer,
    TransformerConfig,
    causal_mask,
    decoder_mask,
    padding_mask,
    scaled_dot_product_attention,
    tie_embeddings,
)

from .samples import (
    PAD,
    assert_close,
    batches,
    numbers,
    seeds,
    sentences,
    sentences_from,
    small_transformer,
    with_random_weights,
)
from .torch_twins import (
    assert_same_gradients,
    decoder_state,
    decoder_twin,
    encoder_state,
    encoder_twin,
    gradient,
)

norm_orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])


def logits_of(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    return model(source, padding_mask(source, PAD), target, decoder_mask(target, PAD))


@norm_orders
@pytest.mark.parametrize(
    ("layers", "d_model", "heads", "d_ff"), [(2, 8, 2, 12), (3, 7, 1, 5), (1, 7, 7, 3), (2, 2, 1, 1)]
)
@pytest.mark.parametrize(
    ("source_lengths", "target_lengths"), [([4, 2, 1], [3, 5, 2]), ([1], [1]), ([3], [6])]
)
def test_the_model_is_two_stacks_of_torch(
    layers: int,
    d_model: int,
    heads: int,
    d_ff: int,
    norm_first: bool,
    source_lengths: list[int],
    target_lengths: list[int],
) -> None:
    config = TransformerConfig(layers, d_model, heads, d_ff, dropout=0.0, norm_first=norm_first)
    model = with_random_weights(Transformer(11, 9, config))
    sizes = (layers, d_model, heads, d_ff, norm_first)
    encoder, decoder = encoder_twin(model, *sizes), decoder_twin(model, *sizes)
    source, target = sentences(source_lengths), sentences(target_lengths, vocabulary=9)
    length = target.shape[1]
    exponents = torch.arange(d_model, dtype=torch.float64).div(2, rounding_mode="floor") * 2 / d_model
    angles = torch.arange(6, dtype=torch.float64).unsqueeze(1) / 10000**exponents
    positions = torch.where(torch.arange(d_model) % 2 == 0, angles.sin(), angles.cos())

    def embedded(tokens: Tensor, table: Tensor) -> Tensor:
        return F.embedding(tokens, table) * math.sqrt(d_model) + positions.float()[: tokens.shape[1]]

    tables = [
        embedding.table.weight.detach().clone().requires_grad_()
        for embedding in (model.source_embedding, model.target_embedding)
    ]
    memory = encoder(embedded(source, tables[0]), src_key_padding_mask=source == PAD)
    hidden = decoder(
        embedded(target, tables[1]),
        memory,
        tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=target == PAD,
        memory_key_padding_mask=source == PAD,
    )
    expected = F.linear(hidden, model.generator.weight.detach(), model.generator.bias.detach())

    logits = logits_of(model, source, target)
    assert_close(logits, expected, rtol=1e-6, atol=1e-7)
    weight_of_outputs = numbers(*logits.shape)
    (logits * weight_of_outputs).sum().backward()
    (expected * weight_of_outputs).sum().backward()
    for twin, gradients in (
        (encoder, encoder_state(model, gradient)),
        (decoder, decoder_state(model, gradient)),
    ):
        assert gradients.keys() == dict(twin.named_parameters()).keys()
        for name, parameter in twin.named_parameters():
            assert_close(gradients[name], gradient(parameter), rtol=1e-6, atol=1e-7)
    for embedding, table in zip((model.source_embedding, model.target_embedding), tables, strict=True):
        assert_close(gradient(embedding.table.weight), gradient(table), rtol=1e-6, atol=1e-7)


@norm_orders
def test_stacks_alone_are_those_of_torch_to_the_last_digits(norm_first: bool) -> None:
    """Without the positions, which are float32, nothing is rounded to float32."""
    model = small_transformer(norm_first=norm_first)
    model.positions = nn.Identity()
    sizes = (2, 8, 2, 12, norm_first)
    encoder, decoder = encoder_twin(model, *sizes), decoder_twin(model, *sizes)
    source, target = sentences([4, 2]), sentences([3, 5])
    memory = model.encode(source, padding_mask(source, PAD))
    hidden = model.decode(memory, padding_mask(source, PAD), target, decoder_mask(target, PAD))
    x, y = (
        (F.embedding(tokens, embedding.table.weight) * math.sqrt(8)).detach()
        for tokens, embedding in ((source, model.source_embedding), (target, model.target_embedding))
    )
    expected_memory = encoder(x, src_key_padding_mask=source == PAD)
    expected = decoder(
        y,
        expected_memory,
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=target == PAD,
        memory_key_padding_mask=source == PAD,
    )
    assert_close(memory, expected_memory)
    assert_close(hidden, expected)
    weight_of_outputs = numbers(*hidden.shape)
    (hidden * weight_of_outputs).sum().backward()
    (expected * weight_of_outputs).sum().backward()
    assert_same_gradients(encoder, encoder_state(model, gradient))
    assert_same_gradients(decoder, decoder_state(model, gradient))


def test_the_forward_pass_is_encode_decode_and_generator() -> None:
    model, source, target = small_transformer(), sentences([4, 2]), sentences([3, 5])
    source_mask, target_mask = padding_mask(source, PAD), decoder_mask(target, PAD)
    memory = model.encode(source, source_mask)
    hidden = model.decode(memory, source_mask, target, target_mask)
    assert memory.shape == (2, 4, 8)
    assert hidden.shape == (2, 5, 8)
    logits = model(source, source_mask, target, target_mask)
    assert logits.shape == (2, 5, 11)
    assert torch.equal(logits, model.generator(hidden))


def test_parts_carry_the_names_of_the_contract() -> None:
    model = Transformer(11, 9, TransformerConfig(layers=3, d_model=8, heads=2, d_ff=12))
    assert isinstance(model.source_embedding, TokenEmbedding)
    assert model.source_embedding.table.weight.shape == (11, 8)
    assert model.target_embedding.table.weight.shape == (9, 8)
    assert isinstance(model.positions, PositionalEncoding)
    assert len(model.encoder_layers) == len(model.decoder_layers) == 3
    assert isinstance(model.generator, nn.Linear)
    assert model.generator.weight.shape == (9, 8)


def test_the_defaults_are_the_base_model_of_the_paper() -> None:
    config = TransformerConfig()
    assert (config.layers, config.d_model, config.heads, config.d_ff) == (6, 512, 8, 2048)
    assert (config.dropout, config.norm_first) == (0.1, False)
    with torch.device("meta"):
        model = tie_embeddings(Transformer(37000, 37000, config))
        torchs = nn.Transformer(batch_first=True)
    # Subtract the norms that PyTorch puts on top of both stacks even with post-norm.
    stacks = sum(weight.numel() for weight in torchs.parameters()) - 4 * 512
    assert sum(weight.numel() for weight in model.parameters()) == stacks + 37000 * 512 + 37000
    dropouts = [module.p for module in model.modules() if isinstance(module, nn.Dropout)]
    assert set(dropouts) == {0.1}


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"layers": 0}, "layers.*0"),
        ({"d_model": -8}, "d_model.*-8"),
        ({"heads": 0}, "heads.*0"),
        ({"d_ff": 0}, "d_ff.*0"),
        ({"d_model": 8, "heads": 3}, "d_model.*heads.*8.*3"),
        ({"dropout": 1.0}, "dropout.*1.0"),
        ({"dropout": -0.1}, "dropout.*-0.1"),
    ],
)
def test_sizes_that_make_no_model_are_refused_in_plain_words(settings: dict, facts: str) -> None:
    with pytest.raises(ValueError, match=facts):
        TransformerConfig(**settings)


def test_a_config_cannot_be_changed_or_misspelt() -> None:
    config = TransformerConfig()
    with pytest.raises(FrozenInstanceError):
        config.layers = 2
    with pytest.raises(TypeError, match="n_layers"):
        TransformerConfig(n_layers=2)


def test_pitfall_05_one_last_norm_on_each_stack_under_pre_norm_and_none_under_post_norm() -> None:
    post, pre = small_transformer(norm_first=False), small_transformer(norm_first=True)
    assert post.encoder_norm is None
    assert post.decoder_norm is None
    assert isinstance(pre.encoder_norm, LayerNorm)
    assert isinstance(pre.decoder_norm, LayerNorm)
    pre = small_transformer(norm_first=True, spread=None)
    source, target = sentences([4, 2]), sentences([3, 5])
    memory = pre.encode(source, None)
    hidden = pre.decode(memory, None, target, None)
    for output in (memory, hidden):
        zeros = torch.zeros(output.shape[:2], dtype=torch.float64)
        assert_close(output.mean(dim=-1), zeros)
        assert_close(output.var(dim=-1, correction=0), zeros + 1, rtol=1e-4)


@norm_orders
def test_pitfall_06_no_dropout_drops_nothing(norm_first: bool) -> None:
    model, source, target = small_transformer(norm_first=norm_first), sentences([4, 2]), sentences([3, 5])
    assert torch.equal(logits_of(model.train(), source, target), logits_of(model.eval(), source, target))


@norm_orders
def test_pitfall_06_dropout_reaches_embeddings_layers_and_attention_weights(norm_first: bool) -> None:
    rates = []

    def recording(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: nn.Dropout
    ) -> tuple[Tensor, Tensor]:
        rates.append(dropout.p)
        return scaled_dot_product_attention(query, key, value, mask, dropout)

    model = small_transformer(dropout=0.3, norm_first=norm_first, attention=recording)
    source, target = sentences([4, 2]), sentences([3, 5])
    first, second = logits_of(model, source, target), logits_of(model, source, target)
    assert not torch.allclose(first, second)
    assert rates == [0.3] * 12
    assert {module.p for module in model.modules() if isinstance(module, nn.Dropout)} == {0.3}
    model.eval()
    assert torch.equal(logits_of(model, source, target), logits_of(model, source, target))
    assert model.positions.dropout.p == 0.3


def test_pitfall_07_layers_start_with_different_weights() -> None:
    model = small_transformer(layers=3, spread=None)
    of_attention = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    for stack in (model.encoder_layers, model.decoder_layers):
        for one, other in itertools.combinations(stack, 2):
            for name, weight in one.named_parameters():
                if "norm" not in name:
                    assert not torch.equal(weight, other.get_parameter(name)), f"two layers share {name}"
    for attention in of_attention:
        projections = (attention.query_projection, attention.key_projection, attention.value_projection)
        for one, other in itertools.combinations(projections, 2):
            assert not torch.equal(one.weight, other.weight)
            assert not torch.equal(one.bias, other.bias)


def test_pitfall_08_matrices_start_by_xavier_and_tables_do_not() -> None:
    config = TransformerConfig(layers=1, d_model=64, heads=4, d_ff=256)
    model = Transformer(1000, 500, config)
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            outputs, inputs = module.weight.shape
            bound = math.sqrt(6 / (inputs + outputs))
            assert module.weight.abs().max().item() <= bound, name
            assert module.weight.abs().max().item() == pytest.approx(bound, rel=0.01), name
            assert module.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05), name
    for embedding in (model.source_embedding, model.target_embedding):
        assert embedding.table.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
        # With Xavier initialisation, no number could be above this limit.
        assert embedding.table.weight.abs().max().item() > 3.5 * 64**-0.5


def test_pitfall_08_words_and_positions_start_about_equally_large() -> None:
    model = Transformer(1000, 1000, TransformerConfig(layers=1, d_model=64, heads=4, d_ff=8, dropout=0.0))
    words = model.source_embedding(torch.arange(1000).view(1, 1000))
    positions = model.positions(torch.zeros(1, 1000, 64))
    assert 0.5 < words.std().item() / positions.std().item() < 2.0


def test_pitfall_13_tying_makes_the_three_tables_one() -> None:
    model = small_transformer()
    expected = model.source_embedding.table.weight
    assert tie_embeddings(model) is model
    tied = (model.source_embedding.table, model.target_embedding.table, model.generator)
    assert all(part.weight is expected for part in tied)
    assert len(list(model.parameters())) == len(list(small_transformer().parameters())) - 2
    source, target = sentences([4, 2]), sentences([3, 5])
    hidden = model.decode(model.encode(source, None), None, target, None)
    assert_close(model.generator(hidden), F.linear(hidden, expected, model.generator.bias))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_pitfall_13_what_is_tied_stays_tied_through_an_update(optimizer: type[torch.optim.Optimizer]) -> None:
    model = tie_embeddings(small_transformer())
    source, target = sentences([4, 2]), sentences([3, 5])
    before = model.generator.weight.detach().clone()
    logits_of(model, source, target).logsumexp(dim=-1).sum().backward()
    optimizer(model.parameters(), lr=0.1).step()
    assert not torch.allclose(model.generator.weight, before)
    pointers = {
        part.weight.data_ptr()
        for part in (model.source_embedding.table, model.target_embedding.table, model.generator)
    }
    assert len(pointers) == 1


def test_pitfall_13_the_shared_weight_collects_the_gradients_of_all_three_uses() -> None:
    model = small_transformer()
    apart = copy.deepcopy(model)
    with torch.no_grad():
        apart.target_embedding.table.weight.copy_(apart.source_embedding.table.weight)
        apart.generator.weight.copy_(apart.source_embedding.table.weight)
    tie_embeddings(model)
    source, target = sentences([4, 2]), sentences([3, 5])
    for each in (model, apart):
        logits_of(each, source, target).logsumexp(dim=-1).sum().backward()
    parts = (apart.source_embedding.table, apart.target_embedding.table, apart.generator)
    assert_close(gradient(model.generator.weight), sum(gradient(part.weight) for part in parts))


def test_what_is_tied_stays_tied_in_a_copy_and_a_state_dict_fits_both() -> None:
    model = tie_embeddings(small_transformer())
    twin = copy.deepcopy(model)
    assert twin.generator.weight is twin.source_embedding.table.weight is twin.target_embedding.table.weight
    assert twin.generator.weight is not model.generator.weight
    fresh = tie_embeddings(small_transformer())
    fresh.load_state_dict(model.state_dict())
    assert fresh.generator.weight is fresh.source_embedding.table.weight
    source, target = sentences([4, 2]), sentences([3, 5])
    for other in (twin, fresh):
        assert torch.equal(logits_of(other, source, target), logits_of(model, source, target))


def test_pitfall_13_two_vocabularies_cannot_be_tied() -> None:
    model = Transformer(11, 9, TransformerConfig(layers=1, d_model=8, heads=2, d_ff=12))
    with pytest.raises(ValueError, match=r"11.*9"):
        tie_embeddings(model)
    assert model.generator.weight is not model.target_embedding.table.weight


@given(batches(), seeds, st.integers(0, 5), st.booleans())
def test_a_later_token_changes_no_earlier_output(
    target: Tensor, seed: int, late: int, norm_first: bool
) -> None:
    torch.manual_seed(seed)
    late = min(late, target.shape[1] - 1)
    model, source = small_transformer(norm_first=norm_first), sentences([3] * len(target))
    changed = target.clone()
    changed[:, late] = 3 + (changed[:, late] - 2).clamp(min=0) % 8
    before, after = (
        model(source, padding_mask(source, PAD), tokens, causal_mask(tokens.shape[1]))
        for tokens in (target, changed)
    )
    assert_close(before[:, :late], after[:, :late], rtol=0.0, atol=1e-12)
    assert not torch.allclose(before[:, late], after[:, late])


@given(batches(), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_more_padding_changes_nothing(source: Tensor, columns: int, rows: int, norm_first: bool) -> None:
    model, target = small_transformer(norm_first=norm_first), sentences([4] * len(source))
    padded_source, padded_target = (
        F.pad(tokens, (0, columns, 0, rows), value=PAD) for tokens in (source, target)
    )
    expected = logits_of(model, source, target)
    logits = logits_of(model, padded_source, padded_target)
    assert logits.isfinite().all()
    assert_close(logits[: len(source), : target.shape[1]], expected)
    memory = model.encode(padded_source, padding_mask(padded_source, PAD))
    real = source != PAD
    assert_close(
        memory[: len(source), : source.shape[1]][real], model.encode(source, padding_mask(source, PAD))[real]
    )


@pytest.mark.slow
@given(seeds, st.lists(st.integers(1, 6), min_size=2, max_size=4), st.booleans())
def test_a_sentence_does_not_see_the_others_of_its_batch(
    seed: int, lengths: list[int], norm_first: bool
) -> None:
    source = sentences_from(seed, lengths)
    model, target = small_transformer(norm_first=norm_first), sentences(reversed(lengths))
    together = logits_of(model, source, target)
    for row, (length, target_length) in enumerate(zip(lengths, reversed(lengths), strict=True)):
        alone = logits_of(model, source[row : row + 1, :length], target[row : row + 1, :target_length])
        assert_close(together[row, :target_length], alone[0])


@given(batches(), seeds, st.booleans())
def test_an_encoder_without_positions_knows_no_order(source: Tensor, seed: int, norm_first: bool) -> None:
    torch.manual_seed(seed)
    model, order = small_transformer(norm_first=norm_first), torch.randperm(source.shape[1])
    model.positions = nn.Identity()
    moved = model.encode(source[:, order], padding_mask(source[:, order], PAD))
    assert_close(moved, model.encode(source, padding_mask(source, PAD))[:, order])


def test_positions_give_source_and_target_an_order() -> None:
    model = small_transformer()
    source = torch.tensor([[3, 4, 5]])
    memory, moved = model.encode(source, None), model.encode(source.flip(1), None)
    assert not torch.allclose(moved.flip(1), memory)
    hidden, moved = (model.decode(memory, None, target, None) for target in (source, source.flip(1)))
    assert not torch.allclose(moved.flip(1), hidden)


@norm_orders
def test_pitfall_09_a_sentence_of_nothing_but_padding_gives_no_nan(norm_first: bool) -> None:
    model = small_transformer(norm_first=norm_first)
    source, target = sentences([4, 2, 1]), sentences([3, 5, 1])
    source[1] = PAD
    target[2] = PAD
    logits = logits_of(model, source, target)
    assert logits.isfinite().all()
    logits.square().sum().backward()
    assert all(gradient(parameter).isfinite().all() for parameter in model.parameters())
    assert_close(logits[0], logits_of(model, source[:1], target[:1])[0])


@norm_orders
def test_another_attention_function_may_do_the_work(norm_first: bool) -> None:
    def fused(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: nn.Dropout
    ) -> tuple[Tensor, None]:
        rate = dropout.p if dropout.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, mask, rate), None

    ours = small_transformer(norm_first=norm_first)
    theirs = small_transformer(norm_first=norm_first, attention=fused)
    theirs.load_state_dict(ours.state_dict())
    source, target = sentences([4, 2]), sentences([3, 5])
    logits = [logits_of(model, source, target) for model in (ours, theirs)]
    assert_close(*logits)
    for each in logits:
        each.square().sum().backward()
    for name, parameter in ours.named_parameters():
        assert_close(gradient(parameter), gradient(theirs.get_parameter(name)), atol=1e-9)


def test_every_weight_gets_a_gradient() -> None:
    model, source, target = small_transformer(norm_first=True), sentences([4, 2]), sentences([3, 5])
    logits_of(model, source, target).square().sum().backward()
    for name, parameter in model.named_parameters():
        if "key_projection.bias" not in name:  # shifts a query's scores equally, which softmax ignores
            assert gradient(parameter).abs().sum() > 0.0, name


def test_pitfall_21_the_table_of_positions_is_not_in_the_state_dict() -> None:
    state = small_transformer().state_dict()
    assert not any(name.startswith("positions") for name in state)
    assert state.keys() == dict(small_transformer().named_parameters()).keys()


def test_it_runs_wherever_its_weights_are() -> None:
    model = small_transformer().to("meta")
    source = torch.ones(2, 4, dtype=torch.long, device="meta")
    assert logits_of(model, source, source).is_meta

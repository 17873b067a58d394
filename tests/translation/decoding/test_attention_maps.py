"""The recorded attention weights are the ones that the model uses."""

import pytest
import torch

from course_lib.transformer import Transformer, attention_weights, split_heads
from course_lib.translation.decoding.attention_maps import record_attention
from tests.translation.decoding.taught import START, taught

SOURCE = torch.tensor([[1, 5, 3, 8, 2]])
TARGET = torch.tensor([[START, 5, 3]])


@torch.no_grad()
def by_hand(model: Transformer) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the self-attention of both stacks' first layers from the embeddings (post-norm)."""
    weights = []
    for embed, tokens, layers, causal in (
        (model.source_embedding, SOURCE, model.encoder_layers, False),
        (model.target_embedding, TARGET, model.decoder_layers, True),
    ):
        x = embed(tokens) + model.positions.table[: tokens.shape[1]]
        attention = layers[0].self_attention
        query, key = (
            split_heads(projection(x), attention.heads)
            for projection in (attention.query_projection, attention.key_projection)
        )
        mask = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        weights.append(attention_weights(scores, mask.tril() if causal else mask)[0])
    return weights[0], weights[1]


@pytest.mark.parametrize("fused", [False, True])
def test_they_are_the_weights_of_each_layer_and_head(fused: bool) -> None:
    model = taught(fused=fused).train()
    functions = [module.attention for module in model.modules() if hasattr(module, "attention")]
    encoder_self, decoder_self, cross = record_attention(model, SOURCE, TARGET)
    assert encoder_self.shape == (2, 4, 5, 5)
    assert decoder_self.shape == (2, 4, 3, 3)
    assert cross.shape == (2, 4, 3, 5)
    for weights in (encoder_self, decoder_self, cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert decoder_self.triu(1).eq(0).all(), "no position attends to a later one"
    first_of_encoder, first_of_decoder = by_hand(model)
    torch.testing.assert_close(encoder_self[0].double(), first_of_encoder, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(decoder_self[0].double(), first_of_decoder, rtol=1e-6, atol=1e-7)
    assert not torch.equal(encoder_self[0], encoder_self[1])
    assert functions == [module.attention for module in model.modules() if hasattr(module, "attention")]
    assert model.training


def test_a_model_that_raises_gets_its_attention_back() -> None:
    model = taught()
    before = model.encoder_layers[0].self_attention.attention
    with pytest.raises(IndexError):
        record_attention(model, torch.tensor([[99]]), TARGET)
    assert model.encoder_layers[0].self_attention.attention is before

"""The whole Transformer: section 3 and figure 1 of "Attention Is All You Need"."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.transformer.attention import AttentionFunction, scaled_dot_product_attention
from course_lib.transformer.layers import DecoderLayer, EncoderLayer
from course_lib.transformer.positions import PositionalEncoding, TokenEmbedding
from course_lib.transformer.sublayers import LayerNorm


@dataclass(frozen=True)
class TransformerConfig:
    """The hyperparameters of a Transformer. The defaults are the paper's base model (table 3).

    Raises ValueError if a number is out of range, or if `heads` does not divide `d_model`.
    """

    layers: int = 6
    """Number of encoder layers, which is also the number of decoder layers: N in the paper."""
    d_model: int = 512
    """Number of features at each position."""
    heads: int = 8
    """Number of attention heads: h in the paper. It must divide d_model, which the heads share."""
    d_ff: int = 2048
    """Number of features inside the feed-forward network."""
    dropout: float = 0.1
    """Dropout probability: P_drop in section 5.4."""
    norm_first: bool = False
    """Normalise before each sublayer ("pre-norm") instead of after the sum ("post-norm", as in the paper)."""
    attention: AttentionFunction = scaled_dot_product_attention
    """The attention function that every head applies; a fused kernel with the same signature works too."""

    def __post_init__(self) -> None:
        for name in ("layers", "d_model", "heads", "d_ff"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.d_model % self.heads != 0:
            raise ValueError(
                f"d_model must be a multiple of heads: {self.d_model} is not a multiple of {self.heads}"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout}")


class Transformer(nn.Module):
    """An encoder that reads the source and a decoder that writes the target one token at a time.

    With `norm_first`, each stack ends with one more normalisation, because its last sum is not normalised.
    Every layer gets the attention function of the config. The weights of linear layers are initialised with
    Xavier uniform, with separate random numbers for each layer.

    The parts are the attributes `source_embedding`, `target_embedding`, `positions`, `encoder_layers`,
    `decoder_layers`, `encoder_norm`, `decoder_norm` (both None without `norm_first`) and `generator`.
    """

    def __init__(self, source_vocab: int, target_vocab: int, config: TransformerConfig) -> None:
        super().__init__()
        self.source_embedding = TokenEmbedding(source_vocab, config.d_model)
        self.target_embedding = TokenEmbedding(target_vocab, config.d_model)
        self.positions = PositionalEncoding(config.d_model, config.dropout)
        sizes = config.d_model, config.heads, config.d_ff
        options = config.dropout, config.norm_first, config.attention
        self.encoder_layers = nn.ModuleList(EncoderLayer(*sizes, *options) for _ in range(config.layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(*sizes, *options) for _ in range(config.layers))
        self.encoder_norm = LayerNorm(config.d_model) if config.norm_first else None
        self.decoder_norm = LayerNorm(config.d_model) if config.norm_first else None
        self.generator = nn.Linear(config.d_model, target_vocab)
        # Initialise matrices as in Glorot and Bengio 2010. Embedding tables keep their own initialisation.
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)

    def encode(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "..."] | None
    ) -> Float[Tensor, "B S D"]:
        """Encode the source: return one vector of d_model features for each token."""
        x = self.positions(self.source_embedding(source))
        for layer in self.encoder_layers:
            x = layer(x, source_mask)
        return x if self.encoder_norm is None else self.encoder_norm(x)

    def decode(
        self,
        memory: Float[Tensor, "B S D"],
        source_mask: Bool[Tensor, "..."] | None,
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "..."] | None,
    ) -> Float[Tensor, "B T D"]:
        """Decode the target prefix, given the encoder's output: return one vector for each target token."""
        x = self.positions(self.target_embedding(target))
        for layer in self.decoder_layers:
            x = layer(x, memory, source_mask, target_mask)
        return x if self.decoder_norm is None else self.decoder_norm(x)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "..."] | None,
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "..."] | None,
    ) -> Float[Tensor, "B T V"]:
        """Return, for each target position, the logits of the next token."""
        memory = self.encode(source, source_mask)
        return self.generator(self.decode(memory, source_mask, target, target_mask))


def tie_embeddings(model: Transformer) -> Transformer:
    """Make both embedding tables and the generator share one matrix, in place, and return the model.

    This is the weight sharing of section 3.4, which needs one joint vocabulary. Raises ValueError if the
    sizes of the vocabularies differ; the message contains both.
    """
    source, target = model.source_embedding.table, model.target_embedding.table
    if source.num_embeddings != target.num_embeddings:
        raise ValueError(
            f"tied embeddings need one joint vocabulary, but the source has {source.num_embeddings} tokens "
            f"and the target {target.num_embeddings}"
        )
    target.weight = source.weight
    model.generator.weight = source.weight
    return model

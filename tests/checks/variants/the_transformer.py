"""Correct answers for lesson 06, written differently: the checks must accept all of them."""

import copy
import functools
import math

import torch
import torch.nn as nn

from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    PositionalEncoding,
    SublayerConnection,
    TokenEmbedding,
    Transformer,
    causal_mask,
    evaluating,
    scaled_dot_product_attention,
)


class EncoderOfNamedFunctions(nn.Module):
    """An encoder layer with attributes in another order, an explicit list and inner functions."""

    def __init__(
        self, d_model, heads, d_ff, dropout=0.1, norm_first=False, attention=scaled_dot_product_attention
    ):
        super().__init__()
        self.sublayers = nn.ModuleList(
            [
                SublayerConnection(d_model, dropout, norm_first),
                SublayerConnection(d_model, dropout, norm_first),
            ]
        )
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.self_attention = MultiHeadAttention(
            d_model, heads, dropout, attention or scaled_dot_product_attention
        )

    def forward(self, x, source_mask):
        def look_around(words):
            return self.self_attention(words, words, words, source_mask)

        return self.sublayers[1](self.sublayers[0](x, look_around), self.feed_forward)


class EncoderWithOpenConnections(nn.Module):
    """An encoder layer that uses the parts of the connections instead of their forward."""

    def __init__(self, d_model, heads, d_ff, dropout=0.1, norm_first=False, attention=None):
        super().__init__()
        chosen = {} if attention is None else {"attention": attention}
        self.self_attention = MultiHeadAttention(d_model, heads, dropout=dropout, **chosen)
        self.feed_forward = FeedForward(d_model=d_model, d_ff=d_ff, dropout=dropout)
        self.sublayers = nn.ModuleList()
        for _ in range(2):
            self.sublayers.append(SublayerConnection(d_model, dropout=dropout, norm_first=norm_first))
        self.first = norm_first

    def forward(self, x, source_mask):
        for number, connection in enumerate(self.sublayers):
            y = connection.norm(x) if self.first else x
            y = self.self_attention(y, y, y, source_mask) if number == 0 else self.feed_forward(y)
            x = x + connection.dropout(y)
            if not self.first:
                x = connection.norm(x)
        return x


class EncoderBySubclass(EncoderLayer):
    """An encoder layer with an extra buffer, an extra attribute, and masks passed by keyword."""

    def __init__(self, *sizes, **settings):
        super().__init__(*sizes, **settings)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.d_model = sizes[0]

    def forward(self, x, source_mask):
        self.calls += 1
        attended = self.sublayers[0](
            x, lambda y: self.self_attention(query=y, key=y, value=y, mask=source_mask)
        )
        return self.sublayers[1](attended, lambda y: self.feed_forward(y))


class EncoderUnderTwoNames(EncoderLayer):
    """An encoder layer whose attention also has a shorter name, which comes first."""

    def __init__(self, *sizes, **settings):
        super().__init__(*sizes, **settings)
        attention = self.self_attention
        del self.self_attention
        self.attn = attention
        self.self_attention = attention


class EncoderOfPartials(nn.Module):
    """An encoder layer whose sublayer is a partial of a method and whose connections are deep copies."""

    def __init__(self, d_model, heads, d_ff, dropout=0.1, norm_first=False, attention=None):
        super().__init__()
        self.self_attention = MultiHeadAttention(
            d_model, heads, dropout, attention or scaled_dot_product_attention
        )
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        one = SublayerConnection(d_model, dropout, norm_first)
        self.sublayers = nn.ModuleList([one, copy.deepcopy(one)])

    def _attend(self, mask, x):
        return self.self_attention(x, x, x, mask)

    def forward(self, x, source_mask):
        steps = (functools.partial(self._attend, source_mask), self.feed_forward)
        for connection, step in zip(self.sublayers, steps, strict=True):
            x = connection(x, step)
        return x


class DecoderOfNamedFunctions(nn.Module):
    def __init__(
        self, d_model, heads, d_ff, dropout=0.1, norm_first=False, attention=scaled_dot_product_attention
    ):
        super().__init__()
        self.sublayers = nn.ModuleList(
            [SublayerConnection(d_model, dropout, norm_first) for _ in ("self", "cross", "feed")]
        )
        self.cross_attention = MultiHeadAttention(
            d_model, heads, dropout, attention or scaled_dot_product_attention
        )
        self.self_attention = MultiHeadAttention(
            d_model, heads, dropout, attention or scaled_dot_product_attention
        )
        self.feed_forward = FeedForward(d_model, d_ff, dropout)

    def forward(self, x, memory, source_mask, target_mask):
        def look_back(words):
            return self.self_attention(words, words, words, target_mask)

        def look_at_source(words):
            return self.cross_attention(words, memory, memory, source_mask)

        for connection, step in zip(
            self.sublayers, (look_back, look_at_source, self.feed_forward), strict=True
        ):
            x = connection(x, step)
        return x


class DecoderWithOpenConnections(nn.Module):
    def __init__(self, d_model, heads, d_ff, dropout=0.1, norm_first=False, attention=None):
        super().__init__()
        self.self_attention = MultiHeadAttention(
            d_model, heads, dropout, attention or scaled_dot_product_attention
        )
        self.cross_attention = MultiHeadAttention(
            d_model, heads, dropout, attention or scaled_dot_product_attention
        )
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.sublayers = nn.ModuleList(SublayerConnection(d_model, dropout, norm_first) for _ in range(3))
        self.norm_first = norm_first

    def forward(self, x, memory, source_mask, target_mask):
        first, second, third = self.sublayers
        if self.norm_first:
            y = first.norm(x)
            x = x + first.dropout(self.self_attention(y, y, y, target_mask))
            x = x + second.dropout(self.cross_attention(second.norm(x), memory, memory, source_mask))
            return x + third.dropout(self.feed_forward(third.norm(x)))
        x = first.norm(x + first.dropout(self.self_attention(x, x, x, target_mask)))
        x = second.norm(x + second.dropout(self.cross_attention(x, memory, memory, source_mask)))
        return third.norm(x + third.dropout(self.feed_forward(x)))


class DecoderBySubclass(DecoderLayer):
    def forward(self, x, memory, source_mask, target_mask):
        attended = self.sublayers[0](x, lambda y: self.self_attention(y, y, y, target_mask))
        crossed = self.sublayers[1](attended, lambda y: self.cross_attention(y, memory, memory, source_mask))
        return self.sublayers[2](crossed, lambda y: self.feed_forward(y))


class DecoderWithFullMasks(DecoderLayer):
    """A decoder layer that adds the head axis to masks itself, which attention accepts."""

    def forward(self, x, memory, source_mask, target_mask):
        attend, cross, feed = self.sublayers
        x = attend(x, lambda y: self.self_attention(y, y, y, target_mask[:, None]))
        x = cross(x, lambda y: self.cross_attention(y, memory, memory, source_mask[:, None]))
        return feed(x, self.feed_forward)


def _glorot_by_hand(weight):
    bound = math.sqrt(6 / (weight.shape[0] + weight.shape[1]))
    with torch.no_grad():
        weight.uniform_(-bound, bound)


class TransformerOfLists(nn.Module):
    """A Transformer with list comprehensions, five sizes, and an identity as the missing final norm."""

    def __init__(self, source_vocab, target_vocab, config):
        super().__init__()
        d, h, f, p, first = config.d_model, config.heads, config.d_ff, config.dropout, config.norm_first
        self.encoder_layers = nn.ModuleList(
            [EncoderLayer(d, h, f, p, first, config.attention) for _ in range(config.layers)]
        )
        self.decoder_layers = nn.ModuleList(
            [DecoderLayer(d, h, f, p, first, config.attention) for _ in range(config.layers)]
        )
        self.source_embedding = TokenEmbedding(source_vocab, d)
        self.target_embedding = TokenEmbedding(target_vocab, d)
        self.positions = PositionalEncoding(d, p)
        self.encoder_norm = LayerNorm(d) if first else nn.Identity()
        self.decoder_norm = LayerNorm(d) if first else nn.Identity()
        self.generator = nn.Linear(d, target_vocab)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1 and "embedding" not in name:
                nn.init.xavier_uniform_(parameter)

    def encode(self, source, source_mask):
        x = self.positions(self.source_embedding(source))
        for layer in self.encoder_layers:
            x = layer(x, source_mask)
        return self.encoder_norm(x)

    def decode(self, memory, source_mask, target, target_mask):
        x = self.positions(self.target_embedding(target))
        for layer in self.decoder_layers:
            x = layer(x, memory, source_mask, target_mask)
        return self.decoder_norm(x)

    def forward(self, source, source_mask, target, target_mask):
        return self.generator(self.decode(self.encode(source, source_mask), source_mask, target, target_mask))


class TransformerOfLoops(nn.Module):
    """A Transformer with appended layers, zero biases, manual initialization and a smaller position table."""

    def __init__(self, source_vocab, target_vocab, config):
        super().__init__()
        self.config = config
        self.generator = nn.Linear(config.d_model, target_vocab)
        self.encoder_layers, self.decoder_layers = nn.ModuleList(), nn.ModuleList()
        for _ in range(config.layers):
            settings = (config.d_model, config.heads, config.d_ff)
            self.encoder_layers.append(
                EncoderLayer(
                    *settings,
                    attention=config.attention,
                    norm_first=config.norm_first,
                    dropout=config.dropout,
                )
            )
            self.decoder_layers.append(
                DecoderLayer(
                    *settings,
                    attention=config.attention,
                    norm_first=config.norm_first,
                    dropout=config.dropout,
                )
            )
        self.encoder_norm = self.decoder_norm = None
        if config.norm_first:
            self.encoder_norm, self.decoder_norm = LayerNorm(config.d_model), LayerNorm(config.d_model)
        self.positions = PositionalEncoding(config.d_model, config.dropout, 256)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                _glorot_by_hand(module.weight)
                nn.init.zeros_(module.bias)
        self.source_embedding = TokenEmbedding(source_vocab, config.d_model)
        self.target_embedding = TokenEmbedding(target_vocab, config.d_model)

    def encode(self, source, source_mask):
        memory = functools.reduce(
            lambda x, layer: layer(x, source_mask),
            self.encoder_layers,
            self.positions(self.source_embedding(source)),
        )
        return memory if self.encoder_norm is None else self.encoder_norm(memory)

    def decode(self, memory, source_mask, target, target_mask):
        hidden = functools.reduce(
            lambda x, layer: layer(x, memory, source_mask, target_mask),
            self.decoder_layers,
            self.positions(self.target_embedding(target)),
        )
        return hidden if self.decoder_norm is None else self.decoder_norm(hidden)

    def forward(self, source, source_mask, target, target_mask):
        memory = self.encode(source, source_mask)
        hidden = self.decode(memory, source_mask, target, target_mask)
        return torch.nn.functional.linear(hidden, self.generator.weight, self.generator.bias)


class TransformerWithInner(TransformerOfLists):
    """A Transformer with an unused extra parameter and a separate method for initialization."""

    def __init__(self, source_vocab, target_vocab, config):
        super().__init__(source_vocab, target_vocab, config)
        self.temperature = nn.Parameter(torch.ones(()))
        self.apply(self._start)

    @staticmethod
    def _start(module):
        if type(module) is nn.Linear:
            nn.init.xavier_uniform_(module.weight)


class TransformerOfZeroBiases(TransformerOfLoops):
    """A Transformer built with keyword arguments throughout."""

    def forward(self, source, source_mask, target, target_mask):
        hidden = self.decode(
            memory=self.encode(source=source, source_mask=source_mask),
            source_mask=source_mask,
            target=target,
            target_mask=target_mask,
        )
        return self.generator(hidden)


class TransformerWithoutBias(Transformer):
    """A Transformer with no generator bias, a second name for a table, and a constant in each layer."""

    def __init__(self, source_vocab, target_vocab, config):
        super().__init__(source_vocab, target_vocab, config)
        self.generator = nn.Linear(config.d_model, target_vocab, bias=False)
        nn.init.xavier_uniform_(self.generator.weight)
        self.words = self.source_embedding.table
        for layer in (*self.encoder_layers, *self.decoder_layers):
            layer.register_buffer("steps", torch.linspace(0.0, 1.0, 7))


class TransformerOfCopies(Transformer):
    """A Transformer whose layers are copies of the first, with new random matrices but equal biases."""

    def __init__(self, source_vocab, target_vocab, config):
        super().__init__(source_vocab, target_vocab, config)
        for stack in (self.encoder_layers, self.decoder_layers):
            for number in range(1, len(stack)):
                stack[number] = copy.deepcopy(stack[0])
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)


class VocabularyError(ValueError):
    """A student's own subclass of ValueError."""


def tie_with_an_error_of_its_own(model):
    source, target = model.source_embedding.table, model.target_embedding.table
    if source.num_embeddings != target.num_embeddings:
        raise VocabularyError(source.num_embeddings, target.num_embeddings)
    target.weight = source.weight
    model.generator.weight = source.weight
    model.shared = source.weight
    return model


def tie_to_generator(model):
    if model.source_embedding.table.weight.shape != model.target_embedding.table.weight.shape:
        raise ValueError(f"{model.source_embedding.table} and {model.target_embedding.table}")
    model.source_embedding.table.weight = model.generator.weight
    model.target_embedding.table.weight = model.generator.weight
    return model


def tie_to_a_new_matrix(model):
    sizes = {model.source_embedding.table.num_embeddings, model.generator.out_features}
    if len(sizes) > 1:
        raise ValueError(f"one vocabulary is needed, not {sizes}")
    shared = nn.Parameter(model.target_embedding.table.weight.detach().clone())
    for module in (model.source_embedding.table, model.target_embedding.table, model.generator):
        module.weight = shared
    return model


def tie_whole_tables(model):
    if model.source_embedding.table.num_embeddings - model.target_embedding.table.num_embeddings:
        raise ValueError(model.source_embedding.table, model.target_embedding.table)
    model.target_embedding.table = model.source_embedding.table
    model.generator.weight = model.target_embedding.table.weight
    return model


def tie_whole_embeddings(model):
    if len(model.source_embedding.table.weight) != len(model.target_embedding.table.weight):
        raise ValueError(model.source_embedding.table, model.target_embedding.table)
    model.source_embedding = model.target_embedding
    model.generator.weight = model.source_embedding.table.weight
    return model


def tie_without_bias(model):
    if model.source_embedding.table.num_embeddings != model.generator.out_features:
        raise ValueError(model.source_embedding.table, model.target_embedding.table)
    model.generator.bias = None
    return tie_to_generator(model)


def greedy_with_a_for_loop(model, source, source_mask, max_length, start_id, end_id):
    training = model.training
    model.eval()
    with torch.no_grad():
        memory = model.encode(source, source_mask)
        written = torch.full((len(source), 1), start_id, device=source.device)
        done = torch.zeros(len(source), 1, dtype=torch.bool, device=source.device)
        for _ in range(max_length - 1):
            mask = causal_mask(written.shape[1]).to(source.device)
            logits = model.generator(model.decode(memory, source_mask, written, mask))
            word = torch.where(done, end_id, logits[:, -1:].argmax(-1))
            written = torch.cat((written, word), dim=1)
            done |= word == end_id
            if bool(done.all()):
                break
    model.train(training)
    return written


def greedy_into_a_full_tensor(model, source, source_mask, max_length, start_id, end_id):
    with evaluating(model), torch.inference_mode():
        memory = model.encode(source, source_mask)
        written = source.new_full((source.size(0), max_length), end_id)
        written[:, 0] = start_id
        open_rows = torch.ones_like(source[:, 0], dtype=torch.bool)
        length = 1
        while length < max_length and open_rows.any():
            hidden = model.decode(
                memory, source_mask, written[:, :length], causal_mask(length).to(written.device)
            )
            best = model.generator(hidden)[:, -1].log_softmax(-1).topk(1).indices.squeeze(-1)
            written[open_rows, length] = best[open_rows]
            open_rows = open_rows & (best != end_id)
            length += 1
    return written[:, :length].clone()


def greedy_with_open_rows_only(model, source, source_mask, max_length, start_id, end_id):
    with evaluating(model):
        memory = model.encode(source, source_mask)
        result = source.new_full((source.shape[0], max_length), end_id)
        result[:, 0] = start_id
        rows = torch.arange(source.shape[0], device=source.device)
        length = 1
        while length < max_length and len(rows):
            prefix = result[rows, :length]
            mask = causal_mask(length).to(source.device)
            hidden = model.decode(memory[rows], source_mask[rows], prefix, mask)
            token = model.generator(hidden[:, -1, :]).max(dim=-1).indices
            result[rows, length] = token
            rows = rows[token != end_id]
            length += 1
        return result[:, :length]


def greedy_with_a_switch(model, source, source_mask, max_length, start_id, end_id):
    """Switch gradients off and restore the previous state, which may be off as well."""
    training, gradients = model.training, torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    result = greedy_with_a_for_loop(model.eval(), source, source_mask, max_length, start_id, end_id)
    model.train(training)
    torch.set_grad_enabled(gradients)
    return result


@torch.no_grad()
def greedy_in_lists(model, source, source_mask, max_length, start_id, end_id):
    training = model.training
    model.train(False)
    memory = model.encode(source, source_mask)
    rows = [[start_id] for _ in source]
    while len(rows[0]) < max_length and not all(end_id in row[1:] for row in rows):
        target = torch.tensor(rows, device=source.device)
        square = torch.ones(target.shape[1], target.shape[1], device=source.device).tril().bool()
        best = model.generator(model.decode(memory, source_mask, target, square)[:, -1]).argmax(-1)
        for row, token in zip(rows, best.tolist(), strict=True):
            row.append(end_id if end_id in row[1:] else token)
    model.train(training)
    return torch.tensor(rows, device=source.device)


def greedy_with_a_copy(model, source, source_mask, max_length, start_id, end_id):
    model = copy.deepcopy(model).eval()
    return greedy_with_a_switch(model, source, source_mask, max_length, start_id, end_id)


VARIANTS = {
    "EncoderLayer": (
        EncoderOfNamedFunctions,
        EncoderWithOpenConnections,
        EncoderBySubclass,
        EncoderOfPartials,
        EncoderUnderTwoNames,
    ),
    "DecoderLayer": (
        DecoderOfNamedFunctions,
        DecoderWithOpenConnections,
        DecoderBySubclass,
        DecoderWithFullMasks,
    ),
    "Transformer": (
        TransformerOfLists,
        TransformerOfLoops,
        TransformerWithInner,
        TransformerOfZeroBiases,
        TransformerWithoutBias,
        TransformerOfCopies,
    ),
    "tie_embeddings": (
        tie_to_generator,
        tie_to_a_new_matrix,
        tie_whole_tables,
        tie_whole_embeddings,
        tie_without_bias,
        tie_with_an_error_of_its_own,
    ),
    "greedy_decode": (
        greedy_with_a_for_loop,
        greedy_in_lists,
        greedy_with_a_switch,
        greedy_into_a_full_tensor,
        greedy_with_open_rows_only,
        greedy_with_a_copy,
    ),
}

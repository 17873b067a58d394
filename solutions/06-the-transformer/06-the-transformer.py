# %% [markdown]
# # Lesson 06: the Transformer
#
# You have all the parts: attention, several heads of it, the network that thinks about each word, the sums that hold
# it together, the masks, and words with places. In this lesson you put them together. First one **layer** of each
# kind, then the whole **model**, and then you let it write.
#
# At the end of this lesson you have built the model of the paper, in about a hundred lines, and you can say
#
# - what one layer of the encoder and one of the decoder are made of, and in which order,
# - how the source gets into the decoder, and who asks whom,
# - where a Transformer keeps its 63 million parameters, and how one matrix can serve three times,
# - why training runs the decoder once for a sentence, and translating once for each word.
#
# **Time:** about four and a half hours; it is the longest lesson, and section 4 is a good place for a break.
# **In the paper:** sections 3, 3.1, 3.2.3, 3.4 and figure 1 of Vaswani et al. 2017,
# [Attention Is All You Need](https://arxiv.org/abs/1706.03762).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    decoding_steps,
    exercises_through,
    parameters_by_part,
    shape_flow,
    show_offline,
)

show_offline()
lesson = ["EncoderLayer", "DecoderLayer", "Transformer", "tie_embeddings", "greedy_decode"]
architecture_map(built=exercises_through(5), current=lesson)

# %% [markdown]
# Everything inside the two stacks is filled in. What is highlighted now is what holds it: the two kinds of layer, the
# model around them, and greedy decoding.
#
# The next cell imports the reference's parts of lessons 01 to 05, so that an old mistake does not follow you here.
# (At the end of the lesson you will build the model once more, from your own.)

# %% given="setup"
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.checks import check
from course_lib.transformer import (
    AttentionFunction,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    PositionalEncoding,
    SublayerConnection,
    TokenEmbedding,
    TransformerConfig,
    causal_mask,
    decoder_mask,
    evaluating,
    padding_mask,
    scaled_dot_product_attention,
)

# %% [markdown]
# ## 1. A layer of the encoder
#
# The encoder reads the source. It is a stack of $N$ layers that are built alike, and each layer does two things:
#
# 1. **Self-attention**: every word looks at every word of its sentence and takes what it needs.
# 2. **Feed-forward**: every word thinks about what it has got, for itself.
#
# These two are its *sublayers*. Around each stands a sublayer connection (lesson 03): with $x$ what goes in,
#
# $$x \leftarrow \mathrm{LayerNorm}(x + \mathrm{Dropout}(\mathrm{Sublayer}(x)))$$
#
# So the vectors of the words are carried through the whole stack, and each sublayer adds something to them. What
# comes out has the shape of what went in, $B \times S \times d_{\text{model}}$ ($B$ sentences, $S$ source positions).
# That is why layers can be stacked at all.
#
# Attention mixes *between* positions, the feed-forward network works *inside* each position. Which of the two holds
# more parameters?

# %% predict="predict_feed_forward"
# One layer of the base model's encoder: d_model is 512 and d_ff is 2048, which is four times as much.
# What share of the layer's parameters lies in the feed-forward network? (A number between 0 and 1.)

# %% check="predict_feed_forward"

# %% [markdown]
# ### Build it
#
# A class this time, with both methods yours. `__init__` makes the parts and keeps them under these names (the checks
# put weights in by them, and so do saved models):
#
# | attribute | what it is |
# |---|---|
# | `self_attention` | a `MultiHeadAttention` of d_model and heads, with the layer's dropout and attention function |
# | `feed_forward` | a `FeedForward` of d_model and d_ff, with the layer's dropout |
# | `sublayers` | an `nn.ModuleList` of two `SublayerConnection`s, the first for the attention; each is told d_model, dropout and norm_first |
#
# `attention`, the last argument, is the function that each head runs. Hand it on: it lets the final lab put in a
# fast one, and lets us look at the weights below.
#
# `forward` is the chain. Remember how a connection is used: `connection(x, sublayer)`, where `sublayer` is a
# *function of one argument*, which the connection calls. The feed-forward network is one already. Self-attention
# takes four arguments, so you have to make a function of one out of it.

# %% build="EncoderLayer"
### BEGIN SOLUTION course_lib.transformer.layers:EncoderLayer

# %% [markdown] hints="EncoderLayer"

# %% check="EncoderLayer"

# %% [markdown]
# ### See it: a layer does not know the order of words either
#
# Lesson 01 ended on the remark that attention does not care about order. A feed-forward network looks at one word at
# a time, so it does not either. And a whole layer? Shuffle the words of a sentence, and compare.
#
# **Change something:** forbid the first word to everyone (`mask[..., 0] = False`), shuffle again, and explain.

# %% tags=["see"]
torch.manual_seed(0)
layer = EncoderLayer(16, 4, 32, dropout=0.0)
x = torch.randn(1, 6, 16)
mask = torch.ones(1, 1, 6, dtype=torch.bool)
order = torch.tensor([3, 0, 5, 1, 4, 2])

with torch.no_grad():
    first_then_shuffled = layer(x, mask)[:, order]
    shuffled_first = layer(x[:, order], mask)
difference = (first_then_shuffled - shuffled_first).abs().max().item()
print(f"shuffled before or after the layer: the largest difference is {difference:.1e}")

# %% [markdown]
# The same numbers, in another order. What tells "dog bites man" from "man bites dog" is only the positions that are
# added before the first layer (lesson 05). In the decoder the causal mask breaks the symmetry as well.
#
# ## 2. A layer of the decoder
#
# The decoder writes the target, one word after the other. Its layers have a third sublayer, in the middle:
#
# 1. **Self-attention** over the words that are written so far.
# 2. **Cross-attention**: every word of the target looks at the *source*.
# 3. **Feed-forward**.
#
# For cross-attention the decoder gets the encoder's output, which is called the **memory**: one vector for each word
# of the source. This is the only way in which the source gets into the translation.
#
# | | query from | keys and values from | mask |
# |---|---|---|---|
# | encoder, self-attention | source | source | `source_mask`: no padding |
# | decoder, self-attention | target | target | `target_mask`: no padding, and nothing that comes later |
# | decoder, cross-attention | target | memory | `source_mask`: no padding |
#
# A mask always belongs to the **keys**: it says what may be looked at. That is why the decoder's cross-attention takes
# the *source's* mask. There is one row of output for each query, so every sublayer of the decoder gives
# $B \times T \times d_{\text{model}}$, with $T$ the positions of the target, however long the source is.
#
# ### Build it
#
# As before, and with one attention more: `self_attention`, `cross_attention`, `feed_forward`, and `sublayers`, a
# list of three, in the order of the paper's figure 1. In pre-norm the memory is used as it is: the encoder has
# normalised it at its end.

# %% build="DecoderLayer"
### BEGIN SOLUTION course_lib.transformer.layers:DecoderLayer

# %% [markdown] hints="DecoderLayer"

# %% check="DecoderLayer"

# %% [markdown]
# ### See it: where a decoder layer looks
#
# Here the argument `attention` comes in handy: we hand the layer a function that attends as usual and writes down its
# weights. The source has seven words, of which the last two are padding. The target has five.
#
# The first picture is the self-attention, the second the cross-attention. Nothing is trained, so the weights mean
# nothing yet. But their *zeros* do.
#
# **Change something:** exchange the two masks in the call (give both the same length first). Which picture would
# let the decoder cheat?

# %% tags=["see"]
seen = []


def recording(query, key, value, mask=None, dropout=None):
    """Attend as usual, and write the weights down."""
    result, weights = scaled_dot_product_attention(query, key, value, mask, dropout)
    seen.append(weights.detach())
    return result, weights


torch.manual_seed(0)
source_words = ["ein", "Hund", "spielt", "am", "Strand", "·", "·"]
target_words = ["<s>", "a", "dog", "plays", "on"]
real = torch.tensor([[[True] * 5 + [False] * 2]])
layer = DecoderLayer(16, 2, 32, dropout=0.0, attention=recording)
layer(torch.randn(1, 5, 16), torch.randn(1, 7, 16), real, causal_mask(5))
assert len(seen) == 2, "Both attentions of a layer should use the function that it was given: `attention`."
attention_heatmap(
    seen[0][0, 0], target_words, target_words, title="Self-attention: nobody sees what comes later"
)

# %% tags=["see"]
attention_heatmap(seen[1][0, 0], target_words, source_words, title="Cross-attention: nobody sees padding")

# %% [markdown]
# ### Explain it
#
# In cross-attention the queries come from the target, and the keys and values from the memory. Why this way round?
# Say what would come out, and in what shape, if the memory asked and the target were looked at. And say why the
# mask in cross-attention is the source's, not the target's.

# %% [markdown] explain="explain_memory"
# The one who writes asks. Each position of the target needs to know what in the source matters for its next word, so
# it sends the query, and it gets a mean of what the source's positions hand over. There is one output for each
# query, so the result has the target's length and can be added to the target's vectors. If the memory asked, there
# would be one output for each word of the source: the wrong length for the residual sum, and it would carry mixtures
# of target words, so the source would still not have come into the decoder. The mask says which keys may be looked
# at. Keys are the source's positions, and some of those are padding. No position of the source is in the future: all
# of the source is known before the first word is written, so nothing else has to be hidden.
#
# ### BEGIN MARK SCHEME
# - 1 point: the query belongs to the position that needs something; there is one output for each target position.
# - 1 point: the other way round the shape would be the source's length, or the source would not get in.
# - 1 point: a mask belongs to the keys, which are the source's positions; the source has padding and no future.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 3. The whole model
#
# Now everything together, from the bottom of figure 1 to the top:
#
# $$\text{memory} = \mathrm{Encoder}(\mathrm{positions}(\mathrm{embed}(\text{source})))$$
# $$\text{hidden} = \mathrm{Decoder}(\mathrm{positions}(\mathrm{embed}(\text{target})), \text{memory})$$
# $$\text{logits} = \text{hidden} \, W_{\text{generator}}^\top + b$$
#
# where $W_{\text{generator}}$ is the matrix of the last layer, with a row for each word of the target's vocabulary, and
# $b$ its bias.
#
# `encode` gives the memory, `decode` gives the hidden vectors, and `forward` does it all, with the **generator** at
# the end: one linear layer from d_model to the target's vocabulary, so that each position gets a number for every
# word that may follow it. These numbers are **logits**. The softmax that makes probabilities of them belongs to the
# loss (lesson 08).
#
# Why two methods and not `forward` alone? Because who translates encodes once and decodes many times.
#
# ### Three things to get right
#
# **The parts of a stack are different.** Six layers built alike, each with weights of its own. `[layer] * 6` is one
# layer under six names, and `copy.deepcopy` makes layers that start with the same numbers. Make each one new, in an
# `nn.ModuleList`: what stands in a plain Python list is invisible to PyTorch.
#
# **The start.** Where weights begin decides whether deep models learn. Matrices are drawn by the rule of Glorot and
# Bengio, which PyTorch calls Xavier: uniform, with a variance of $2 / (\text{inputs} + \text{outputs})$, so that
# signals keep their size on the way up and gradients on the way down. Go through `self.modules()`, and give the
# `weight` of each `nn.Linear` to `nn.init.xavier_uniform_`. The **tables** keep the start that `TokenEmbedding` gave
# them. (Often seen: `for p in model.parameters(): if p.dim() > 1: ...`, which draws the tables anew as well. A table
# has tens of thousands of rows, so its numbers become tiny, and the positions drown the words.)
#
# **The last norm.** In post-norm, as in the paper, every layer ends on a normalisation, so the stack does. In pre-norm
# (`norm_first=True`) it ends on a bare sum, which has grown from layer to layer. So there, and only there, each stack
# gets one more `LayerNorm` at its end.
#
# ### Build it
#
# The sizes come in one object, a `TransformerConfig`, with the fields `layers`, `d_model`, `heads`, `d_ff`,
# `dropout`, `norm_first` and `attention`. The layers take all of them but the first, in this order.
#
# | attribute | what it is |
# |---|---|
# | `source_embedding`, `target_embedding` | a `TokenEmbedding` each, of its vocabulary's size |
# | `positions` | one `PositionalEncoding` for both sides, with the model's dropout |
# | `encoder_layers`, `decoder_layers` | `nn.ModuleList`s of `config.layers` layers each |
# | `encoder_norm`, `decoder_norm` | a `LayerNorm` each with norm_first, else `None` |
# | `generator` | one `nn.Linear` from d_model to the target's vocabulary |
#
# Your model is made of *your* two layers, so have their checks pass first.

# %% build="Transformer"
### BEGIN SOLUTION course_lib.transformer.model:Transformer

# %% [markdown] hints="Transformer"

# %% check="Transformer"

# %% [markdown]
# ### See it: the shapes on their way
#
# Your model, run once. PyTorch lets us hang a *hook* on any part, a function that is called with what the part gives,
# so these shapes are measured, not drawn from a book.
#
# Three questions. Where do tokens become vectors? Where do vectors get longer, and where are they back? What is the
# only place at which the length of the source meets the length of the target, and which of the two survives?
#
# **Change something:** `d_ff`, the vocabularies, the number of words. Then put more `layers` in: what changes?


# %% tags=["see"]
def traced(model, names, run):
    """Run something, and note what shape comes out of each of these parts of the model."""
    shapes = {}
    hooks = [
        model.get_submodule(path).register_forward_hook(
            lambda module, given, result, name=name: shapes.update({name: tuple(result.shape)})
        )
        for name, path in names.items()
    ]
    run()
    for hook in hooks:
        hook.remove()
    return list(shapes.items())


def layer_names(stack, attentions, layers):
    """Name the parts of a stack that are worth looking at: the first layer's inside, then each layer."""
    names = {f"1: {told}": f"{stack}.0.{attribute}" for attribute, told in attentions.items()}
    names["1: inside feed-forward"] = f"{stack}.0.feed_forward.inner"
    return names | {f"layer {number + 1}": f"{stack}.{number}" for number in range(layers)}


torch.manual_seed(0)
sizes = TransformerConfig(layers=2, d_model=32, heads=4, d_ff=128)
model = Transformer(source_vocab=900, target_vocab=700, config=sizes)
source, target = torch.randint(3, 700, (8, 12)), torch.randint(3, 700, (8, 9))
source_mask, target_mask = padding_mask(source, pad_id=0), decoder_mask(target, pad_id=0)
below = {"embedding": "source_embedding", "+ positions": "positions"}
encoder_names = below | layer_names("encoder_layers", {"self_attention": "self-attention"}, sizes.layers)
encoder = traced(model, encoder_names, lambda: model.encode(source, source_mask))
encoder[-1] = ("memory", encoder[-1][1])

attentions = {"self_attention": "self-attention", "cross_attention": "cross-attention"}
below = {"embedding": "target_embedding", "+ positions": "positions"}
decoder_names = below | layer_names("decoder_layers", attentions, sizes.layers)
found = model.encode(source, source_mask)
decoder = traced(
    model,
    decoder_names | {"logits": "generator"},
    lambda: model.generator(model.decode(found, source_mask, target, target_mask)),
)
shape_flow(
    [("source tokens", source.shape), *encoder],
    [("target tokens", target.shape), *decoder],
    memory_to=["1: cross-attention"],
)

# %% [markdown]
# Nearly everything is `sentences × positions × d_model`. It gets wider only inside the feed-forward network and at
# the very end. The memory brings 12 positions, but cross-attention takes *means* over them, one for each of the 9
# positions of the target. So the 12 is gone.
#
# ## 4. Where the parameters are
#
# Before you look: the base model has six layers on each side, $d_{\text{model}} = 512$ and $d_{\text{ff}} = 2048$.
# The paper trains on English and German with one joint vocabulary of 37,000 word pieces, and ties three matrices into
# one (we come to that in a moment): both embedding tables and the generator.

# %% predict="predict_base_model"
# How many parameters has this model in all, in MILLIONS? Within five per cent is near enough. You may count:
# a layer of the encoder has 3.15 million, and the one matrix of the words is counted once.

# %% check="predict_base_model"

# %% [markdown]
# ### See it: parameters by part
#
# Your model in the sizes of the paper's base and big models. They are made on PyTorch's *meta* device, where tensors
# have a shape but no numbers, so that even the big one costs no memory.
#
# Which part holds most? Is it attention, after which the paper is named?
#
# **Change something:** a vocabulary of 8,000, or of 250,000 as in models for many languages. Put in 24 layers.

# %% tags=["see"]
import pandas as pd

PARTS = {
    "embedding": "words: tables and generator",
    "generator": "words: tables and generator",
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
    "norm": "normalisation",
}


def parameters_of(name, model):
    """Count parameters by part; PyTorch lists a shared one once."""
    return [
        {
            "model": name,
            "part": next(told for key, told in PARTS.items() if key in path),
            "parameters": parameter.numel(),
        }
        for path, parameter in model.named_parameters()
    ]


vocabulary = 37_000
with torch.device("meta"):
    base = Transformer(vocabulary, vocabulary, TransformerConfig())
    big = Transformer(vocabulary, vocabulary, TransformerConfig(d_model=1024, heads=16, d_ff=4096))

parameters_by_part(pd.DataFrame(parameters_of("base", base) + parameters_of("big", big)))

# %% [markdown]
# In the base model more than half of all parameters are the words themselves, three times over: a table to read the
# source, a table to read the target, and the generator, which is a table as well: one row of 512 numbers for each
# word that can be written. In the layers, feed-forward networks hold more than all attention together.
#
# ### Tying: one matrix instead of three
#
# Look at what the target's table and the generator do. The table gives each word a vector: *the word is here*. The
# generator gives each word a vector, takes its dot product with the hidden vector, and calls it the word's logit: *the
# hidden vector points here*. Both are $V \times d_{\text{model}}$, and in both, words that are used alike should
# have vectors that lie close. So let them **be the same matrix** (section 3.4; Press and Wolf 2017,
# [arXiv 1608.05859](https://arxiv.org/abs/1608.05859)). With a joint vocabulary the source's table can be the same, too.
#
# "The same" means one parameter under three names: one gradient, the sum of all three uses; one update. A copy of the
# numbers is not that: the copies part ways at the first update.
#
# It needs a **joint vocabulary**: word 7 must be the same word on both sides. Where the two sizes differ it cannot be,
# so that is refused.
#
# ### Build it
#
# In place, on a model that is there already. The matrices are `model.source_embedding.table.weight`,
# `model.target_embedding.table.weight` and `model.generator.weight`. Which of the three stays is up to you.

# %% build="tie_embeddings"
### BEGIN SOLUTION course_lib.transformer.model:tie_embeddings

# %% [markdown] hints="tie_embeddings"

# %% check="tie_embeddings"

# %% [markdown]
# ### See it: what tying saves
#
# **Change something:** tie the big model instead. Does tying matter more for small or for large models?

# %% tags=["see"]
from copy import deepcopy

untied = parameters_of("base, three matrices", base)
tied = parameters_of("base, tied", tie_embeddings(deepcopy(base)))
parameters_by_part(pd.DataFrame(untied + tied), title="What tying saves")

# %% [markdown]
# So it has 63.1 million, and here is where they are. The paper's table 3 says 65 million; it doesn't say how they were
# counted, and its vocabulary only as "about 37000".
#
# One thing does not become the same: reading multiplies the vector by $\sqrt{d_{\text{model}}}$ (`TokenEmbedding` does
# it at each use), the generator takes the bare matrix.
#
# ## 5. Writing, one word at a time
#
# In training the whole target lies there. The decoder reads all of it at once, shifted by one (lesson 04), and the
# causal mask sees to it that each position predicts its next word without having seen it.
#
# In translating nothing lies there. So we begin with the start symbol and ask: what comes next? We append the
# likeliest word and ask again, until the end symbol comes. That is **greedy decoding**: take the best word at each
# step, and never look back.
#
# $$y_{t+1} = \arg\max_w \; \mathrm{logits}_t(w)$$
#
# where $y_{t+1}$ is the word that is written next, $\mathrm{logits}_t$ are the logits at the last position $t$ of what
# is written so far, and $w$ runs over the words of the target's vocabulary.

# %% predict="predict_runs"
# A batch of 8 sentences is translated. The longest translation has 20 tokens after the start symbol, the end
# symbol among them. How often does the decoder run?

# %% check="predict_runs"

# %% [markdown]
# ### Build it
#
# The function works on a whole batch, and that is where most of the care goes. Its rules:
#
# - Encode **once**. Each row begins with `start_id`.
# - A row that has written `end_id` is over: from then on it holds `end_id` and nothing else, whatever the model says.
# - Stop when **all** rows are over, or at `max_length` tokens, the start counted.
# - Each step gives the decoder the **whole** prefix and the causal mask for its length, and reads the logits of the
#   **last** position only.
# - The mask is the same for all: no prefix has padding before its end, so it is causal, and that is all.
#
# And one more thing, which is easy to forget and ruins results quietly: **no dropout and no gradients** while
# decoding, and afterwards the model is in the mode in which it was, because someone may be in the middle of training
# it. For that we give you `evaluating`, to be used in a `with` statement: inside, the model it is given is in
# evaluation mode and no gradients are kept; after it, every part has its old mode back.

# %% build="greedy_decode"
### BEGIN SOLUTION course_lib.transformer.decoding:greedy_decode

# %% [markdown] hints="greedy_decode"

# %% check="greedy_decode"

# %% [markdown]
# ### See it: an untrained model writes
#
# A small vocabulary, a small model that has never seen a sentence, and a source. Each row of the picture is one step:
# how much the model gives each word, and which it takes.
#
# Does it hesitate, because it knows nothing? Does it repeat itself? Does it end?
#
# **Change something:** the seed. `norm_first=True`. Six layers. Or multiply all weights by two
# (`for weight in toy.parameters(): weight.data.mul_(2)`): how sure can a model be that knows nothing?

# %% tags=["see"]
words = "<pad> <s> </s> a the dog man ball beach plays runs with on red".split()
torch.manual_seed(1)
toy = Transformer(len(words), len(words), TransformerConfig(layers=2, d_model=32, heads=4, d_ff=64))
text = "<s> a dog plays with the red ball </s>".split()
tokens = torch.tensor([[words.index(word) for word in text]])
tokens_mask = padding_mask(tokens, pad_id=0)

written = greedy_decode(toy, tokens, tokens_mask, max_length=11, start_id=1, end_id=2)
with evaluating(toy):
    logits = toy(tokens, tokens_mask, written[:, :-1], causal_mask(written.shape[1] - 1))

decoding_steps(logits[0].softmax(dim=-1), words, written[0, 1:].tolist())

# %% [markdown]
# With 14 words, pure guessing would give each 0.07. The model is surer than that, it has no reason to be, and it goes
# round in circles. That is what training starts from: lesson 08 measures how wrong it is, and in lesson 09 you train
# a model until it is right.
#
# Now look at the code of that cell again. Greedy decoding ran the decoder once for each word. But the probabilities of
# *all* steps in the picture came out of **one** run, over the finished sentence. Are they the same?

# %% tags=["see"]
print("written:         ", [words[index] for index in written[0, 1:].tolist()])
print("all in one run:  ", [words[index] for index in logits[0].argmax(dim=-1).tolist()])

# %% [markdown]
# ### Explain it
#
# Training runs the decoder once for a sentence of 20 words. Translating runs it 20 times for the same sentence. Why is
# one run not enough when translating? And what makes it allowed in training: why does position $t$ compute in the one
# run just what it computed in step $t$ of decoding?

# %% [markdown] explain="explain_runs"
# When translating, the word at position t is part of the input from which the next one is computed, and it is not
# known until the decoder has run. So the steps have to come one after the other. In training the target is known, so
# all prefixes are there at once. The causal mask lets position t look at positions 0 to t only, in every layer, so
# its vector depends on the prefix alone and not on what stands behind it: it is the same as if the sentence ended
# there. All else (feed-forward, normalisation, cross-attention) works on each target position for itself. So one run
# gives the predictions of all steps. (Where the model would have written another word, training goes on from the
# right word; decoding goes on from its own.)
#
# ### BEGIN MARK SCHEME
# - 1 point: in translating, each word is input to the next step and is not known before.
# - 1 point: in training the whole target is known, so all positions can be computed side by side.
# - 1 point: the causal mask makes position t independent of what comes later, in every layer.
# ### END MARK SCHEME

# %% [markdown]
# ## 6. Your own Transformer
#
# So far the lower parts of this model were the reference's. Now build it from **your own**: the code of lessons 01
# to 06, as it stands in the notebooks beside this one. **Save this notebook first**, since it is read from the disk.
#
# The loader reads the solution cells and nothing else. Wherever a lesson imports a part from the reference, your own
# earlier part takes its place: your multi-head attention runs on your attention, your layers on your multi-head
# attention. What is missing, unfinished or broken is named, and the reference's part stands in. Nothing here counts
# for your grade.

# %% tags=["see"]
from course_lib.student.parts import build_transformer, load_parts, unequal_parts

parts = load_parts("..", through=6)
print(f"{len(parts.yours)} of {len(list(parts))} parts are yours.\n")
print(parts.table())

# %% [markdown]
# Does it compute what the reference computes? The same weights go into both models, in float64. Logits, the gradient
# of every weight, tied weights and decoded tokens are compared. Where something differs, you are told which of your
# parts it comes from.
#
# **Change something:** put a mistake into one of your earlier lessons (leave a root out, say), save it, and run the
# two cells again.

# %% tags=["see"]
unequal = unequal_parts(parts)
for name, how in unequal.items():
    print(f"{name} makes a difference: {how}")
if not unequal:
    print(
        "This model computes just what the reference does: logits, gradients, tied weights and decoded tokens."
    )

# %% tags=["see"]
torch.manual_seed(1)
sizes = TransformerConfig(layers=2, d_model=32, heads=4, d_ff=64)
own = build_transformer(parts, len(words), len(words), sizes)
ids = parts["greedy_decode"](own, tokens, tokens_mask, 11, 1, 2)
print("it reads:  ", " ".join(text))
print("it writes: ", " ".join(words[index] for index in ids[0].tolist()))

# %% [markdown]
# Nonsense, but it is your nonsense, from end to end. In lesson 09 this very model learns its first task, and in the
# final lab you can train it on a cluster to translate German: `--parts lessons/`.
#
# ## Common questions
#
# <details><summary>Why are there as many decoder layers as encoder layers?</summary>
#
# They need not be. The paper takes six of each. Since the decoder runs once for each word and the encoder once for
# each sentence, systems that have to be fast often take a deep encoder and a shallow decoder.
#
# </details>
#
# <details><summary>Which layer of the encoder does each decoder layer look at?</summary>
#
# All of them look at the same memory, the output of the *last* encoder layer. Figure 1 draws it with one arrow.
#
# </details>
#
# <details><summary>Decoding computes the whole prefix anew for each word. Is that not wasteful?</summary>
#
# Yes. By the causal mask the vectors of earlier positions never change, so their keys and values could be kept and
# only the last position computed. That is the *key-value cache*, which decoders in daily use have. It
# gives the same words, much faster, and is much harder to read.
#
# </details>
#
# <details><summary>Is the greedy translation the likeliest one?</summary>
#
# Not always. The best first word may lead to bad sentences only. Beam search (lesson 11) keeps several beginnings.
#
# </details>
#
# <details><summary>GPT has no encoder, and BERT no decoder. What is left of the model?</summary>
#
# BERT is a stack of encoder layers. GPT is a stack of decoder layers without cross-attention, which makes it an
# encoder with a causal mask. With `EncoderLayer` and `causal_mask` you can build a GPT now.
#
# </details>
#
# <details><summary>Post-norm or pre-norm?</summary>
#
# The paper's is post-norm. Pre-norm trains more easily when the stack is deep, and most models since 2019 have it;
# with few layers and a warm-up, post-norm is often a little better. Lesson 03 shows the gradients of both, and
# lesson 07 what the warm-up does.
#
# </details>
#
# <details><summary>Why does the generator have a bias, when the matrix is tied?</summary>
#
# It is one number a word: how likely the word is anywhere. Many models leave it out. The paper does not say.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=exercises_through(6))

# %% [markdown]
# The model is complete. Before you hand the lesson in, press **Validate** in the toolbar: it runs the notebook from
# top to bottom, as the grader will.
#
# Next: **lesson 07, the learning-rate schedule**. A model this deep does not learn with just any step size.

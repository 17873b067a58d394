# %% [markdown]
# # Lesson 06: the Transformer
#
# Now you put the parts together: first one **layer** of each kind, then the whole **model**, and then you let it write.
# At the end you train a small language model from your own parts.
#
# By the end you will have built the model of the paper, in about a hundred lines, and be able to explain
#
# - what a layer of the encoder and a layer of the decoder consist of, and in which order,
# - how the source gets into the decoder, and which side provides the queries,
# - where a Transformer keeps its parameters, and how one matrix can be used in three places,
# - how many times the decoder runs for one sentence, during training and when translating, and why.
#
# **Time:** about five hours. It is the longest lesson; take a break before section 4. **In [the
# paper](https://arxiv.org/abs/1706.03762):** sections 3, 3.1, 3.2.3, 3.4 and 5.1, figure 1 and table 3.

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    decoding_steps,
    heads_overview,
    named_bars,
    named_lines,
    shape_flow,
    show_offline,
)
from course_lib.student.progress import finished_exercises

show_offline()
lesson = ["EncoderLayer", "DecoderLayer", "Transformer", "tie_embeddings", "greedy_decode"]
architecture_map(built=finished_exercises(), current=lesson)

# %% [markdown]
# Until section 6, the parts of lessons 01 to 05 come from the reference.

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
# The encoder reads the source. It is a stack of $N$ layers of the same design. Each layer has two *sublayers*:
#
# 1. **Self-attention**: every word takes what it needs from the words of its sentence.
# 2. **Feed-forward**: each word processes, on its own, what it has gathered.
#
# Around each sublayer is a sublayer connection (lesson 03). If $x$ is what goes in, then with post-norm
#
# $$x \leftarrow \mathrm{norm}(x + \mathrm{dropout}(\mathrm{Sublayer}(x)))$$
#
# The output has the shape of the input, $B \times S \times d_\mathrm{model}$ ($B$ sentences, $S$ source positions), so
# layers can be stacked.
#
# ### Worked example: two words pass through a layer
#
# The input is two words with three features each. Instead of self-attention, a simple function returns the mean of the
# two words; instead of the feed-forward network, another doubles what is positive and sets the rest to 0. The
# connections are real.

# %% tags=["see"]
two_words = torch.tensor([[[3.0, 1.0, 2.0], [1.0, 3.0, 1.0]]])
around_attention, around_network = SublayerConnection(3, dropout=0.0), SublayerConnection(3, dropout=0.0)


def rounded(x):
    return [[round(value, 2) for value in row] for row in x[0].tolist()]


def mean_of_words(y):
    print("self-attention reads   ", rounded(y))
    result = y.mean(dim=1, keepdim=True).expand_as(y)
    print("self-attention returns ", rounded(result))
    print("their sum              ", rounded(y + result))
    return result


def double_positive(y):
    print("feed-forward reads     ", rounded(y), "<- the sum, normalised")
    print("feed-forward returns   ", rounded(2 * y.relu()))
    return 2 * y.relu()


with torch.no_grad():
    middle = around_attention(two_words, mean_of_words)
    print("the layer returns      ", rounded(around_network(middle, double_positive)), "<- normalised again")

# %% [markdown]
# ### Build it
#
# `__init__` creates the parts under these names, which the checks and saved models use:
#
# | attribute | what it is |
# |---|---|
# | `self_attention` | a `MultiHeadAttention` made with d_model and heads, and with the layer's dropout and attention function |
# | `feed_forward` | a `FeedForward` made with d_model and d_ff, and with the layer's dropout |
# | `sublayers` | an `nn.ModuleList` of two `SublayerConnection`s, the first for the attention; each gets d_model, dropout and norm_first |
#
# An `nn.ModuleList` is a list whose modules PyTorch knows, so PyTorch finds their parameters. `attention`, the last
# argument, is the function that each head runs (lesson 02). Pass it on.
#
# `forward` is the chain that you saw in the example. In `connection(x, sublayer)`, `sublayer` is a *function of one
# argument*, which the connection calls. The feed-forward network is already such a function. Self-attention takes four
# arguments, so you have to make a function of one argument from it.

# %% build="EncoderLayer"
### BEGIN SOLUTION course_lib.transformer.layers:EncoderLayer

# %% [markdown]
# A scratch cell. The input has three features, so the layer's `d_model` must be 3. What shape do you expect?

# %% tags=["see"]
torch.manual_seed(0)
layer = EncoderLayer(d_model=3, heads=1, d_ff=4, dropout=0.0)
result = layer(two_words, torch.ones(1, 1, 2, dtype=torch.bool))
print(result.shape, result, sep="\n")

# %% [markdown] hints="EncoderLayer"

# %% check="EncoderLayer"

# %% [markdown]
# ### See it: a layer doesn't know the order of words either
#
# Shuffle the words of a sentence, before the layer or after it, and compare.
#
# **Change something:** hide the first word from everyone (`mask[..., 0] = False`), shuffle again, and explain the
# difference.

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
# Apart from rounding, the results are the same: if you shuffle the words, the layer's outputs are shuffled in the same
# way. Only the positions that are added before the first layer (lesson 05) make a difference.
#
# <details><summary>What changes?</summary>
#
# The difference is now about 0.4. The mask isn't shuffled with the words: it always hides position 0, so each run hides
# a different word. Pass `mask[..., order]` for the shuffled sentence, and only rounding remains.
#
# </details>
#
# ## 2. A layer of the decoder
#
# The decoder writes the target one word at a time. Its layers have a third sublayer, in the middle:
#
# 1. **Self-attention** over the words written so far.
# 2. **Cross-attention**: every word of the target attends to the *source*.
# 3. **Feed-forward**.
#
# Cross-attention reads the encoder's output, the **memory**: one vector for each source word. The source reaches the
# translation only through cross-attention, as it once did through Bahdanau's context vector (lesson 01).
#
# | | query from | keys and values from | mask |
# |---|---|---|---|
# | encoder, self-attention | source | source | `source_mask` hides padding |
# | decoder, self-attention | target | target | `target_mask` hides padding and all later positions |
# | decoder, cross-attention | target | memory | `source_mask` hides padding |
#
# Cross-attention takes the *source's* mask. Why? That is part of the question at the end of this section.
#
# ### Worked example: two target words read three source positions
#
# Here the vectors themselves are queries, keys and values; there are no projections.

# %% tags=["see"]
memory = torch.tensor([[[4.0, 0.0], [0.0, 4.0], [2.0, 2.0]]])  # ein, Hund, <pad>
target = torch.tensor([[[2.0, 0.0], [0.0, 2.0]]])  # a, dog
no_padding = torch.tensor([[[True, True, False]]])
taken, weights = scaled_dot_product_attention(target, memory, memory, no_padding)
for word, row, vector in zip(["a", "dog"], weights[0].tolist(), taken[0].tolist(), strict=True):
    shares = ", ".join(f"{source} {w:.3f}" for source, w in zip(["ein", "Hund", "<pad>"], row, strict=True))
    print(f"{word:4} attends to {shares}; it takes ({vector[0]:.2f}, {vector[1]:.2f})")
print("memory:", tuple(memory.shape), " target:", tuple(target.shape), " result:", tuple(taken.shape))

# %% [markdown]
# Padding contributed nothing.
#
# ### Build it
#
# A decoder layer is your encoder layer with one more attention. The layer's attributes are `self_attention`,
# `cross_attention`, `feed_forward`, and `sublayers`, a list of three in the order of figure 1. With pre-norm the memory
# is used as it is, because the encoder has normalised it.

# %% build="DecoderLayer"
### BEGIN SOLUTION course_lib.transformer.layers:DecoderLayer

# %% [markdown]
# A scratch cell. Which of the two lengths, 2 and 3, does the result have? What if the source had ten words?

# %% tags=["see"]
layer = DecoderLayer(d_model=2, heads=1, d_ff=4, dropout=0.0)
print(layer(target, memory, no_padding, causal_mask(2)).shape)

# %% [markdown] hints="DecoderLayer"

# %% check="DecoderLayer"

# %% [markdown]
# ### See it: what a decoder layer attends to
#
# As `attention`, we pass a function that records the weights. The source has seven positions, the last two of which are
# padding. The target has five. Nothing is trained, so the weights mean nothing yet, except for their *zeros*, which
# come from the masks.
#
# **Change something:** make the source as long as the target, so that either mask fits either attention: remove two
# German words (not the padding), and write `[True] * 3` and `torch.randn(1, 5, 16)` for the source. Then swap the two
# masks in the call to `layer`, and run both cells. Which picture shows that the decoder can cheat?

# %% tags=["see"]
seen = []


def recording(query, key, value, mask=None, dropout=None):
    """Attend as usual, and record the weights."""
    result, weights = scaled_dot_product_attention(query, key, value, mask, dropout)
    seen.append(weights.detach())
    return result, weights


torch.manual_seed(0)
source_words = ["ein", "Hund", "spielt", "am", "Strand", "<pad>", "<pad>"]
target_words = ["<start>", "a", "dog", "plays", "on"]
real = torch.tensor([[[True] * 5 + [False] * 2]])
layer = DecoderLayer(16, 2, 32, dropout=0.0, attention=recording)
layer(torch.randn(1, 5, 16), torch.randn(1, 7, 16), real, causal_mask(5))
assert len(seen) == 2, "Both attentions of a layer must use the function that it was given: `attention`."
attention_heatmap(
    seen[0][0, 0],
    target_words,
    target_words,
    mask=causal_mask(5)[0],
    title="Self-attention: does any word attend to a later one?",
)

# %% tags=["see"]
attention_heatmap(
    seen[1][0, 0],
    target_words,
    source_words,
    mask=real[0],
    title="Cross-attention: does any word attend to padding?",
)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# The first picture does. It now has orange cells above the diagonal: `<start>` attends to "a" with a weight of 0.40,
# although "a" is the word that should be predicted there. (In the second picture, words now attend to padding.)
#
# </details>
#
# ### Explain it
#
# In cross-attention the queries come from the target, and the keys and values from the memory. Why this way round? Say
# what would come out, and in what shape, if the queries came from the memory, and the keys and values from the target.
# And say why the mask in cross-attention is the source's, not the target's.

# %% [markdown] explain="explain_memory"
# The side that needs information asks. Each position of the target needs to know what in the source matters for its
# next word, so it sends the query and gets a mean of the values of the source positions. There is one output for each
# query, so the result has the target's length and can be added to the target's vectors. If the memory asked, there
# would be one output for each source word: the wrong length for the residual sum, and it would hold mixtures of target
# words, so the source still would not have reached the decoder. The mask says which keys may be attended to. The keys
# are the source positions, and some of those are padding. No source position is in the future, because the whole source
# is known before the first word is written, so nothing else has to be masked.
#
# ### BEGIN MARK SCHEME
# - 1 point: the query belongs to the position that needs something; there is one output for each target position.
# - 1 point: the other way round, the shape would be the source's length, or the source would not get in.
# - 1 point: a mask hides keys, which are the source's positions, and the source has padding (and no future).
# ### END MARK SCHEME

# %% [markdown]
# A decoder layer has one more sublayer than an encoder layer. How many parameters does it have in total?

# %% predict="predict_decoder_layer"
# A layer of the base model's encoder (d_model 512, heads 8, d_ff 2048) has 3.15 million parameters. How
# many does a layer of its decoder have, in MILLIONS?

# %% check="predict_decoder_layer"

# %% [markdown]
# ## 3. The whole model
#
# From the bottom of figure 1 to the top:
#
# $$\text{memory} = \mathrm{Encoder}(\mathrm{positions}(\mathrm{embed}(\text{source})))$$
# $$\text{hidden} = \mathrm{Decoder}(\mathrm{positions}(\mathrm{embed}(\text{target})), \text{memory})$$
# $$\text{logits} = \text{hidden} \, W_{\text{generator}}^\top + b$$
#
# where $W_{\text{generator}}$ is the matrix of the linear layer at the end, with a row for each word of the target
# vocabulary, and $b$ is its bias.
#
# `encode` returns the memory, `decode` the hidden vectors, and `forward` does everything. They are separate because
# translating calls `encode` once and `decode` many times. Every decoder layer attends to the same memory, the output of
# the *last* encoder layer. The **generator** at the end is one linear layer from d_model to the target vocabulary: at
# each position, it gives every word of that vocabulary a number, its **logit**. The softmax that turns logits into
# probabilities belongs to the loss (lesson 08).
#
# ### Worked example: two words through two stacks
#
# A source word and a target word have two features each. Toy layers with simple sums show what goes where.

# %% tags=["see"]
x = [1.0, 2.0]  # the source word: its embedding plus its position
for number in (1, 2):
    x = [feature + number for feature in x]
    print(f"encoder layer {number} returns {x}")

y = [0.0, 1.0]  # the target word
for number in (1, 2):
    y = [feature + number * read for feature, read in zip(y, x, strict=True)]
    print(f"decoder layer {number} reads the memory {x} and returns {y}")

# %% [markdown]
# ### Three things to get right
#
# **The layers of a stack have different weights.** `[layer] * 6` is the same layer six times, and `copy.deepcopy` makes
# six layers with equal weights. (Even if the matrices are drawn again, the biases stay equal.) Create each layer
# separately, and keep the layers in an `nn.ModuleList`, because PyTorch doesn't see what is in a plain Python list.
#
# **Initialisation.** Draw matrices by the rule of Glorot and Bengio, which PyTorch calls Xavier: uniform, with a
# variance of $2 / (\text{inputs} + \text{outputs})$, so that signals keep their size on the way up and gradients on the
# way down. Go through `self.modules()` and apply `nn.init.xavier_uniform_` to the `weight` of each `nn.Linear`. The
# **tables** keep the initialisation of `TokenEmbedding`. (A common mistake is
# `for p in model.parameters(): if p.dim() > 1`, which includes the tables. Then the larger the vocabulary, the shorter
# the words' vectors.)
#
# **The last norm.** With pre-norm (`norm_first=True`), every layer ends with a sum, which grows from layer to layer
# (lesson 03). So with pre-norm, and only then, each stack gets one more `LayerNorm` at its end.
#
# ### Build it
#
# The settings come in one object, a `TransformerConfig`, with the fields `layers`, `d_model`, `heads`, `d_ff`,
# `dropout`, `norm_first` and `attention`. Each layer takes `d_model`, `heads`, `d_ff`, `dropout`, `norm_first` and
# `attention`, in this order.
#
# | attribute | what it is |
# |---|---|
# | `source_embedding`, `target_embedding` | a `TokenEmbedding` each, with one row per token of its vocabulary |
# | `positions` | one `PositionalEncoding` for both sides, with the model's dropout |
# | `encoder_layers`, `decoder_layers` | `nn.ModuleList`s of `config.layers` layers each |
# | `encoder_norm`, `decoder_norm` | a `LayerNorm` each with pre-norm, otherwise `None` |
# | `generator` | one `nn.Linear` from d_model to the target vocabulary |
#
# Your model uses *your* two layers, so make their checks pass first.

# %% build="Transformer"
### BEGIN SOLUTION course_lib.transformer.model:Transformer

# %% [markdown]
# A scratch cell: a tiny model with vocabularies of 5 source words and 7 target words. Predict the shape of the logits
# before you run it.

# %% tags=["see"]
tiny = Transformer(5, 7, TransformerConfig(layers=1, d_model=4, heads=2, d_ff=8))
all_three = torch.ones(1, 1, 3, dtype=torch.bool)
print(tiny(torch.tensor([[1, 3, 2]]), all_three, torch.tensor([[1, 6]]), causal_mask(2)).shape)

# %% [markdown] hints="Transformer"

# %% check="Transformer"

# %% [markdown]
# ### See it: how the shapes change
#
# The next cell measures shapes with *hooks*: functions that PyTorch calls with the output of a part. It also shows
# the inside of the first layer of each stack.
#
# Three questions: where do tokens become vectors? Where do vectors get more features, and where do they return to the
# original number? Where does the length of the source meet the length of the target, and which of the two remains?
#
# **Change something:** change `d_ff`, the vocabularies or the number of words. Then increase `layers`: what changes?


# %% tags=["see"]
torch.manual_seed(0)
sizes = TransformerConfig(layers=2, d_model=32, heads=4, d_ff=128)
model = Transformer(source_vocab=900, target_vocab=700, config=sizes)
source = torch.randint(3, model.source_embedding.table.num_embeddings, (8, 12))
target = torch.randint(3, model.target_embedding.table.num_embeddings, (8, 9))
source_mask, target_mask = padding_mask(source, pad_id=0), decoder_mask(target, pad_id=0)

# The parts to measure, and their names in the picture.
names = {"source_embedding": "embedding", "target_embedding": "embedding", "positions": "+ positions"}
for stack in ("encoder_layers", "decoder_layers"):
    names |= {f"{stack}.{number}": f"layer {number + 1}" for number in range(sizes.layers)}
    names[f"{stack}.0.self_attention"] = "1: self-attention"
    names[f"{stack}.0.cross_attention"] = "1: cross-attention"
    names[f"{stack}.0.feed_forward.inner"] = "1: inside feed-forward"
names |= {f"encoder_layers.{sizes.layers - 1}": "memory", "generator": "logits"}

stages = []
for path, part in model.named_modules():
    if path in names:
        part.register_forward_hook(
            lambda part, inputs, output, name=names[path]: stages.append((name, tuple(output.shape)))
        )
model(source, source_mask, target, target_mask)

middle = [name for name, _ in stages].index("memory") + 1
shape_flow(
    [("source tokens", source.shape), *stages[:middle]],
    [("target tokens", target.shape), *stages[middle:]],
    memory_to=["1: cross-attention"],
)

# %% [markdown]
# Nearly everything is `sentences × positions × d_model`. The vectors get more features only inside the feed-forward
# network and at the very end. The memory has 12 positions, but cross-attention returns one vector for each of the 9
# target positions, made of *means* over those 12.
#
# <details><summary>What changes?</summary>
#
# `d_ff` changes only the width inside the feed-forward network. The target vocabulary changes only the logits, and the
# source vocabulary changes nothing. The number of words changes only the length of its own side. More `layers` add more
# stages, all with the same shape.
#
# </details>
#
# ### See it: replace a layer
#
# Because the vectors keep their shape, one layer can take the place of another, even in a model that is already built:
# `encoder_layers` is an `nn.ModuleList`, whose items you can replace. Here the second layer gets twice as many heads,
# and a network four times as wide.
#
# **Change something:** remove the layer instead (`del model.encoder_layers[1]`); to get it back, run the cell that
# builds `model` again. Or design one of your own: any `nn.Module` will do if its `forward(x, mask)` returns a tensor of
# the same shape as `x`.

# %% tags=["see"]
model.encoder_layers[1] = EncoderLayer(d_model=32, heads=8, d_ff=512)
print("logits:", tuple(model(source, source_mask, target, target_mask).shape))
for each in model.encoder_layers:
    print("an encoder layer with", sum(parameter.numel() for parameter in each.parameters()), "parameters")

# %% [markdown]
# <details><summary>What changes?</summary>
#
# Without the layer, the logits still have the shape (8, 9, 700), and one encoder layer with 12,704 parameters is left.
# The decoder reads the output of the last encoder layer, whichever layer that is.
#
# </details>
#
# ## 4. Where the parameters are
#
# The base model has six layers on each side, $d_\mathrm{model} = 512$ and $d_\mathrm{ff} = 2048$. For English and
# German, the paper uses one joint vocabulary of about 37,000 subwords (lesson 10), and one matrix in three places: both
# embedding tables and the generator.

# %% predict="predict_base_model"
# How many parameters does this model have in total, in MILLIONS? An error of five per cent is fine. You may
# calculate: an encoder layer has 3.15 million, and the shared word matrix counts once.

# %% check="predict_base_model"

# %% [markdown]
# ### See it: parameters by part
#
# The chart shows your model in the sizes of the paper's base and big models. (On PyTorch's *meta* device, tensors have
# a shape but no numbers, so even the big model needs no memory.) Is attention, which gave the paper its name, the
# largest part?
#
# **Change something:** use a vocabulary of 8,000, or of 250,000 as in multilingual models. Then use 24 layers
# (`layers=24`).

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
    """Count parameters by part, starting with the largest matrix; PyTorch lists a shared one once."""
    rows = [
        {
            "panel": name,
            "bar": next(told for key, told in PARTS.items() if key in path),
            "size": parameter.numel(),
        }
        for path, parameter in model.named_parameters()
    ]
    return sorted(rows, key=lambda row: row["size"], reverse=True)


vocabulary = 37_000
with torch.device("meta"):
    base = Transformer(vocabulary, vocabulary, TransformerConfig())
    big = Transformer(vocabulary, vocabulary, TransformerConfig(d_model=1024, heads=16, d_ff=4096))

named_bars(
    pd.DataFrame(parameters_of("base", base) + parameters_of("big", big)),
    across="parameters",
    title="Where the parameters are, and their share of the model",
    shares=True,
)

# %% [markdown]
# These models don't share the matrix yet. So in the base model more than half of all parameters are in three matrices:
# both tables and the generator. In the layers, the feed-forward networks are larger than all attention together.
#
# <details><summary>What changes?</summary>
#
# In the base model, the words' share falls from 56% to 22% with a vocabulary of 8,000, and rises to 90% with 250,000.
# With 24 layers (and 37,000 words) it is 24%, and the feed-forward networks have the largest share, 43%.
#
# </details>
#
# ### Tying: one matrix instead of three
#
# The target's table and the generator both have a vector for each word: both are $V \times d_\mathrm{model}$, with $V$
# the size of the vocabulary. And in both, words with similar uses should have similar vectors. So let them **be the
# same matrix** (section 3.4; Press and Wolf 2017, [arXiv 1608.05859](https://arxiv.org/abs/1608.05859)). With a joint
# vocabulary, the source's table can be the same too.
#
# ### Worked example: shared or copied?
#
# One number $w$ is used twice: the loss is $3w + 2w$. First both uses share one parameter; then each has its own copy.

# %% tags=["see"]
shared = torch.tensor(1.0, requires_grad=True)
(3 * shared + 2 * shared).backward()
print(
    f"shared: one gradient, {shared.grad.item():g}; after a step of 0.1: {1 - 0.1 * shared.grad.item():.1f}"
)

one, copy = torch.tensor(1.0, requires_grad=True), torch.tensor(1.0, requires_grad=True)
(3 * one + 2 * copy).backward()
print(
    f"copied: gradients {one.grad.item():g} and {copy.grad.item():g}; after a step of 0.1:",
    f"{1 - 0.1 * one.grad.item():.1f} and {1 - 0.1 * copy.grad.item():.1f}",
)

# %% [markdown]
# So a tied parameter has one gradient, the sum over all its uses. Copies differ after the first update.
#
# Tying needs a **joint vocabulary**: word 7 must be the same word on both sides. If the two sizes differ, your function
# must raise a `ValueError` that contains both sizes.
#
# ### Build it
#
# Change an existing model in place. The matrices are `model.source_embedding.table.weight`,
# `model.target_embedding.table.weight` and `model.generator.weight`. Keep one of the two
# tables. (The check also accepts the generator's matrix. But with a large vocabulary, its initial numbers are much
# smaller, so the words' vectors would be tiny beside those of the positions.)

# %% build="tie_embeddings"
### BEGIN SOLUTION course_lib.transformer.model:tie_embeddings

# %% [markdown]
# A scratch cell: how many parameters does tying save in a tiny model with a vocabulary of 5 words and 4 features? Then
# give the target 7 words: what should your function do?

# %% tags=["see"]
tiny = Transformer(5, 5, TransformerConfig(layers=1, d_model=4, heads=2, d_ff=8))
print("before:", sum(parameter.numel() for parameter in tiny.parameters()))
print("after: ", sum(parameter.numel() for parameter in tie_embeddings(tiny).parameters()))

# %% [markdown] hints="tie_embeddings"

# %% check="tie_embeddings"

# %% [markdown]
# ### See it: what tying saves
#
# A shared matrix is counted once.
#
# **Change something:** tie the big model instead. Does tying matter more for small or for large models?

# %% tags=["see"]
from copy import deepcopy

untied = parameters_of("base, three matrices", base)
tied = parameters_of("base, tied", tie_embeddings(deepcopy(base)))
named_bars(pd.DataFrame(untied + tied), across="parameters", title="What tying saves", shares=True)

# %% [markdown]
# So the answer to the prediction at the start of this section is 63.1 million. The paper's table 3 says 65 million. The
# paper doesn't say how the parameters were counted, and gives the size of the vocabulary only as "about 37000" (section
# 5.1).
#
# <details><summary>What changes?</summary>
#
# The big model shrinks from 290 to 214 million, by 26%; the base model by 38%. So tying matters more for small models:
# if $d_\mathrm{model}$ and $d_\mathrm{ff}$ double, the word matrices double, but the layers become four times as large.
#
# </details>
#
# One difference between the uses remains: the embeddings multiply by $\sqrt{d_\mathrm{model}}$, the generator doesn't.
#
# ## 5. Writing, one word at a time
#
# During training the decoder reads the whole target at once (lesson 04). When translating, there is no target yet. So
# we begin with the start token and ask for the next word. We append the most probable one and ask again, until the end
# token is written. This is **greedy decoding**: take the best word at each step, and never go back.
#
# $$y_{t+1} = \arg\max_w \; \mathrm{logits}_t(w)$$
#
# where $y_{t+1}$ is the next word, $\mathrm{logits}_t$ are the logits at the last position $t$ of the prefix, and $w$
# runs over the target vocabulary.
#
# ### Worked example: from a hidden vector to the next word
#
# The vocabulary has three words, and the hidden vector has two features.

# %% tags=["see"]
rows_of_generator = {"dog": [1.0, 0.0], "cat": [0.8, 0.6], "sea": [-1.0, 0.5]}
hidden, bias = [2.0, 1.0], {"dog": 0.1, "cat": 0.1, "sea": 0.3}
dots = {word: hidden[0] * row[0] + hidden[1] * row[1] for word, row in rows_of_generator.items()}
likely = torch.tensor([dot + bias[word] for word, dot in dots.items()]).softmax(dim=0)
for (word, dot), probability in zip(dots.items(), likely.tolist(), strict=True):
    logit = dot + bias[word]
    print(f"{word}: hidden · row = {dot:4.1f}, + bias = logit {logit:4.1f}, probability {probability:.3f}")

# %% [markdown]
# "cat" wins, because its row points most nearly in the direction of the hidden vector.

# %% predict="predict_runs"
# A batch of 8 sentences is translated. The longest translation has 20 tokens after the start token,
# including the end token. How many times does the decoder run?

# %% check="predict_runs"

# %% [markdown]
# ### Worked example: two rows, three steps
#
# This toy model only knows which word follows which. The first sentence of the batch ends early.

# %% tags=["see"]
follows = [{"<start>": "dogs", "dogs": "<end>"}, {"<start>": "a", "a": "cat", "cat": "<end>"}]
rows = [["<start>"], ["<start>"]]
while not all("<end>" in row for row in rows):
    for row, next_word in zip(rows, follows, strict=True):
        row.append("<end>" if "<end>" in row else next_word[row[-1]])
    print("after step", len(rows[0]) - 1, rows)

# %% [markdown]
# ### Build it
#
# The function works on a whole batch:
#
# - Call `encode` **once**. Each row begins with `start_id`.
# - A row that has written `end_id` has ended. From then on it gets `end_id`, whatever the model says.
# - Stop when **all** rows have ended, or at `max_length` tokens, including the start.
# - At each step, pass the **whole** prefix and the causal mask for its length to the decoder, and use the logits of the
#   **last** position only. No padding mask is needed: rows that have ended are filled with `end_id`, and nothing that
#   follows the end of a row is used.
# - Decode with **no dropout and no gradients**, and leave the model in its previous mode afterwards, because it may be
#   in the middle of training. The context manager `evaluating(model)`, which is provided, does all of this: use it in a
#   `with` statement.
# - Everything must be on the device of the source: `source.new_full(...)` creates a tensor there, and
#   `.to(source.device)` moves the causal mask there.

# %% build="greedy_decode"
### BEGIN SOLUTION course_lib.transformer.decoding:greedy_decode

# %% [markdown]
# A scratch cell: the tiny model translates a batch of two sentences. It knows nothing, so don't be surprised if it ends
# at once, or writes one and the same word, even a start token, again and again.

# %% tags=["see"]
both_words = torch.ones(2, 1, 2, dtype=torch.bool)
print(greedy_decode(tiny, torch.tensor([[3, 4], [4, 3]]), both_words, max_length=6, start_id=1, end_id=2))

# %% [markdown] hints="greedy_decode"

# %% check="greedy_decode"

# %% [markdown]
# ### See it: an untrained model writes
#
# Each row of the picture is one step: it shows how probable the model finds each word, and which one it takes. Does the
# model hesitate, because it knows nothing? Does it repeat itself? Does it end?
#
# **Change something:** try another seed, `norm_first=True`, or `layers=6`. Or multiply all weights by two, after the
# line that builds `toy` (`for weight in toy.parameters(): weight.data.mul_(2)`): how sure can a model that knows
# nothing be?

# %% tags=["see"]
words = "<pad> <start> <end> a the dog man ball beach plays runs with on red".split()
torch.manual_seed(1)
toy = Transformer(len(words), len(words), TransformerConfig(layers=2, d_model=32, heads=4, d_ff=64))
text = "<start> a dog plays with the red ball <end>".split()
tokens = torch.tensor([[words.index(word) for word in text]])
tokens_mask = padding_mask(tokens, pad_id=0)

written = greedy_decode(toy, tokens, tokens_mask, max_length=11, start_id=1, end_id=2)
with evaluating(toy):
    logits = toy(tokens, tokens_mask, written[:, :-1], causal_mask(written.shape[1] - 1))

decoding_steps(logits[0].softmax(dim=-1), words, written[0, 1:].tolist())

# %% [markdown]
# With 14 words, pure guessing would give each a probability of 0.07. The model is more confident than that, for no
# reason, and it goes round in circles.
#
# <details><summary>What changes?</summary>
#
# With most seeds, the model repeats one or two words. With six layers, it writes "beach" ten times, each with a
# probability of 0.4. With doubled weights, it writes `<end>` at once, 88% sure: larger weights give larger logits,
# whatever the model knows.
#
# </details>
#
# Greedy decoding ran the decoder once for each word. But the probabilities of *all* steps in the picture came from
# **one** run over the finished sentence (see the last lines of the code). Is the most probable word at each step the
# same in both cases?

# %% tags=["see"]
print("written:         ", [words[index] for index in written[0, 1:].tolist()])
print("all in one run:  ", [words[index] for index in logits[0].argmax(dim=-1).tolist()])

# %% [markdown]
# ### Explain it
#
# Training runs the decoder once for a target of 20 tokens after the start token. Translating runs it 20 times for the
# same sentence. Why is one run not enough when translating? And why is one run enough during training? That is, why
# does position $t$ compute the same result in this run as in the decoding step in which it is the last position?

# %% [markdown] explain="explain_runs"
# When translating, the word at position t is part of the input from which the next one is computed, and it is unknown
# until the decoder has run. So the steps must come one after the other. During training the target is known, so all
# prefixes are available at once. The causal mask lets position t attend to positions 0 to t only, in every layer, so
# its vector depends on the prefix alone and not on what follows: it is the same as if the sentence ended there.
# Everything else (feed-forward, normalisation, cross-attention) works on each target position separately. So one run
# gives the predictions of all steps. (Where the model would have written another word, training continues with the
# correct word, and decoding with its own.)
#
# ### BEGIN MARK SCHEME
# - 1 point: when translating, each word is an input of the next step and is not known before.
# - 1 point: during training the whole target is known, so all positions can be computed in parallel.
# - 1 point: the causal mask makes position t independent of what comes later (in every layer).
# ### END MARK SCHEME

# %% [markdown]
# ## 6. Your own Transformer
#
# Now build the model from **your own** code. **Save this notebook first**, because the code is read from the saved
# notebooks.
#
# The next cell says which parts are yours. For a missing, unfinished or broken part it uses the reference. Nothing in
# this section or the next one is graded.

# %% tags=["see"]
from course_lib.student.parts import build_transformer, load_parts, unequal_parts

parts = load_parts("..", through=6)
print(f"{len(parts.yours)} of {len(list(parts))} parts are yours.\n")
print(parts.table())

# %% [markdown]
# Does your model compute what the reference computes? The same weights go into both models, in float64, and logits,
# gradients, tied weights and decoded tokens are compared. If something differs, you are told which of your parts causes
# it.
#
# **Change something:** put a mistake into one of your earlier lessons (remove the square root from lesson 01, say),
# save that notebook, and run the cell above and the cell below again. Then undo the mistake, save again, and run both
# cells again before you continue.

# %% tags=["see"]
unequal = unequal_parts(parts)
for name, how in unequal.items():
    print(f"{name} makes a difference: {how}")
if parts.yours and not unequal:
    print("Your model computes exactly what the reference does.")

# %% [markdown]
# <details><summary>What changes?</summary>
#
# The part with the mistake is named. Without the square root in lesson 01, for example: "attention_scores makes a
# difference: the logits, post-norm: off by up to 1.3". The parts that use it aren't named, because they are correct.
#
# </details>
#
# ## 7. It writes: a language model in a minute
#
# A **language model** predicts the next word of a text. It has no source, so it needs no encoder and no
# cross-attention. What is left of the decoder layer is your *encoder* layer with a causal mask. Stack a few, and you
# have the design of GPT.
#
# Here it is, made of your parts. The text consists of the English captions, simply split into words. (Lesson 10 does
# this properly.)

# %% tags=["see"]
import re

from course_lib.translation.data.corpora import load_captions

captions = [re.findall(r"\w+|[.,]", caption) for caption in load_captions().train.english]
vocabulary = ["<pad>", "<start>", "<end>", *sorted({word for caption in captions for word in caption})]
number = {word: index for index, word in enumerate(vocabulary)}
longest = max(map(len, captions)) + 2
corpus = torch.tensor(
    [
        [number[word] for word in ["<start>", *caption, "<end>"] + ["<pad>"] * (longest - len(caption) - 2)]
        for caption in captions
    ]
)


class LanguageModel(nn.Module):
    def __init__(self, vocab_size, d_model=64, layers=2, heads=4):
        super().__init__()
        self.embedding = parts["TokenEmbedding"](vocab_size, d_model)
        self.positions = parts["PositionalEncoding"](d_model, dropout=0.0)
        self.layers = nn.ModuleList(
            # `recording`, from section 2, appends the weights to `seen`.
            parts["EncoderLayer"](
                d_model, heads, 4 * d_model, dropout=0.0, norm_first=True, attention=recording
            )
            for _ in range(layers)
        )
        self.norm = parts["LayerNorm"](d_model)
        self.generator = nn.Linear(d_model, vocab_size)
        self.generator.weight = self.embedding.table.weight

    def forward(self, tokens):
        x = self.positions(self.embedding(tokens))
        for layer in self.layers:
            x = layer(x, parts["causal_mask"](tokens.shape[1]))
        return self.generator(self.norm(x))


torch.manual_seed(0)
writer = LanguageModel(len(vocabulary))
size = sum(parameter.numel() for parameter in writer.parameters())
print(f"{len(captions)} captions, {len(vocabulary)} words in the vocabulary, {size:,} parameters")

# %% [markdown]
# Now train it, for about half a minute. Each step takes 32 captions, shifts them (lesson 04), and makes the correct
# next words more probable. (As in lesson 03, the loss is the mean of $-\ln p$, where $p$ is the probability of the
# correct word.) Before you run the cell: what would the loss be if all words were equally probable?

# %% tags=["see"]
import math


def train(model, corpus, steps=600, rate=5e-3):
    """Train a language model, and return its loss at each step."""
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    for step in range(steps):
        seen.clear()
        # The learning rate rises for 50 steps, then falls to zero (lesson 07).
        optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / 50) * (1 - step / steps)
        batch = corpus[torch.randint(len(corpus), (32,))]
        batch = batch[:, : int((batch != 0).sum(dim=1).max())]
        read, labels = parts["shift_target"](batch)
        loss = nn.functional.cross_entropy(model(read).flatten(0, 1), labels.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


threads = torch.get_num_threads()
torch.set_num_threads(1)  # for matrices this small, one core is faster than two
torch.manual_seed(0)
losses = train(writer, corpus)
torch.set_num_threads(threads)

guessing = math.log(len(vocabulary))
print(
    f"guessing: {guessing:.2f}; first step: {losses[0]:.2f}; mean of the last 50 steps: {sum(losses[-50:]) / 50:.2f}"
)
named_lines(
    pd.DataFrame(
        [("your model", step, loss) for step, loss in enumerate(losses)]
        + [("all words equally probable", step, guessing) for step in (0, len(losses))],
        columns=["line", "x", "y"],
    ),
    across="step",
    up="loss",
    title="Your parts learn to predict the next word",
    dashed=["all words equally probable"],
)

# %% [markdown]
# At the first step the loss is higher than with guessing: the generator shares its matrix with the embedding, so an
# untrained model expects each word to be repeated.
#
# Let it write: at each step it draws the next word at random, according to the probabilities. (Always taking the most
# probable one would write the same sentence again and again.)
#
# **Change something:** begin with words of your own that occur in the captions. Change the call in the loop:
# `write(writer, "In the evening , a dog".split())`. Divide the logits by 0.5, or by 2, before the softmax: what gets
# better, and what gets worse?


# %% tags=["see"]
def write(model, prefix=(), max_length=25):
    """Continue a prefix until the end token, drawing each word by its probability."""
    tokens = [number[word] for word in ["<start>", *prefix]]
    with torch.no_grad():
        while tokens[-1] != number["<end>"] and len(tokens) < max_length:
            chances = model(torch.tensor([tokens]))[0, -1].softmax(dim=-1)
            chances[: number["<end>"]] = 0  # neither padding nor a second start
            tokens.append(int(torch.multinomial(chances, 1)))
    return [vocabulary[token] for token in tokens if token > number["<end>"]]


torch.manual_seed(1)
for _ in range(8):
    caption = write(writer)
    print(" ".join(caption), "  (copied)" if caption in captions else "")

# %% [markdown]
# Most of the text is grammatical English, and most of it is new: "copied" marks captions that are in the corpus.
#
# <details><summary>What changes?</summary>
#
# Divided by 0.5, the probable words become even more probable: the grammar gets better, but the captions get more
# alike, and most begin with "A". Divided by 2, they vary more, but most are no longer grammatical.
#
# </details>
#
# ### See it: what it expects, word by word
#
# The model reads a caption from its training data. For each word, the table shows the next words that the model finds
# most probable.

# %% tags=["see"]
example = "On a sunny day , the girl is trying to put on boots .".split()
seen.clear()
with torch.no_grad():
    chances = writer(torch.tensor([[number[word] for word in ["<start>", *example]]]))[0].softmax(dim=-1)

table = []
for word, following, row in zip(["<start>", *example], [*example, "<end>"], chances, strict=True):
    best = row.topk(3)
    guesses = [
        f"{vocabulary[i]} {p:.2f}" for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    table.append((word, *guesses, following, f"{row[number[following]]:.2f}"))
pd.DataFrame(table, columns=["after", "1st guess", "2nd", "3rd", "the text has", "its probability"])

# %% [markdown]
# After some words the model is nearly sure: which ones, and why? After others it spreads its probability over many
# words. No model can know whether a caption is about a girl or a dog. It can know that an article is followed by an
# adjective or a noun.
#
# ### See it: all its heads at a glance
#
# And what did it attend to while it read the caption? Each square is one head. (Pictures of a whole model count layers
# and heads from 1, as the paper does. Index 0 of a tensor is head 1.) Look for these patterns, and hover over a cell to
# see which words it connects:
#
# - pieces of a line just below the diagonal: there the head attends to the **previous word**;
# - dark cells in the first column: the head attends to `<start>`, often because it has **nothing to look for**;
# - a vertical bar: many words attend to the **same word**. Which one, and why could that help to predict the next word?
#
# And find a head that you can't explain.
#
# **Change something:** use another caption as the `example`. Then train with `LanguageModel(len(vocabulary), layers=3)`
# or with `heads=2`: change the call above, and run all cells from that one to the one below again. Also change the
# seed, `torch.manual_seed(0)`, above that call: does every seed give the same heads?

# %% tags=["see"]
read = ["<start>", *example]
assert len(seen) == len(writer.layers), (
    "Run the cell that sets `example` again. If that doesn't help, your layers don't use the function "
    "that they are given: `attention`."
)
heads_overview(torch.stack([weights[0] for weights in seen]), read, read)

# %% [markdown]
# Don't read too much into one picture: a head's weights say where it takes information from, but not what it takes.
#
# <details><summary>What changes?</summary>
#
# The heads differ from seed to seed: in our runs, the one that attends most to `<start>` was in layer 1 with seed 0,
# and in layer 2 with seed 1. With three layers or two heads, the loss hardly differs: it ends between 1.6 and 1.7.
#
# </details>
#
# In the final lab you can train your whole Transformer on a cluster to translate German: the training command has an
# option, `--parts`, that uses your code.
#
# ## Common questions
#
# <details><summary>Why are there as many decoder layers as encoder layers?</summary>
#
# There don't have to be. The decoder runs once for each word, the encoder once for each sentence, so fast systems often
# combine a deep encoder with a shallow decoder.
#
# </details>
#
# <details><summary>Decoding computes the whole prefix again for each word. Isn't that wasteful?</summary>
#
# Yes. Because of the causal mask, the keys and values of earlier positions never change, so they could be stored and
# only the last position computed. This is the *key-value cache* that nearly every real system has.
#
# </details>
#
# <details><summary>Why does the generator have a bias if the matrix is tied?</summary>
#
# It adds one number for each word, which can represent how frequent the word is in general. Many models leave it out.
# The paper doesn't say whether its model has one.
#
# </details>
#
# ## Further reading
#
# Since 2017, nearly every box of figure 1 has been replaced in large language models, although the overall design is
# still the same. This is what has changed:
#
# - **The stack:** decoder only (GPT, [Radford et al.
#   2018](https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf)), encoder only
#   ([BERT](https://arxiv.org/abs/1810.04805)), both ([T5](https://arxiv.org/abs/1910.10683)).
# - **The norm:** pre-norm and RMSNorm (lesson 03).
# - **The positions:** rotations of queries and keys (RoPE, lesson 05).
# - **The heads:** keys and values shared by groups of heads (lesson 02).
# - **The computation:** FlashAttention (lesson 01).
# - [Llama 2](https://arxiv.org/abs/2307.09288) combines the first four (with groups of heads only in its larger sizes).
#
# Other implementations of the paper's model to compare with yours: the authors' own
# [Tensor2Tensor](https://github.com/tensorflow/tensor2tensor), [OpenNMT-py](https://github.com/OpenNMT/OpenNMT-py), and
# [Sockeye](https://github.com/awslabs/sockeye).
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# The model is complete.
#
# Next: **lesson 07, the learning-rate schedule**. A model this deep needs a carefully chosen learning rate.

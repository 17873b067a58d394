# %% [markdown]
# # Lesson 04: masks
#
# There are two cases in which a word must *not* attend to something. The first is **padding**: filler at the end of
# short sentences, so that all rows of a batch are equally long. Attending to it adds noise. The second is **the
# future**: a model that learns to predict the next word must not see it.
#
# By the end you will have written all the masks of the Transformer, and be able to explain
#
# - what a **padding mask** hides, and why it hides columns and not rows,
# - what a **causal mask** is for, and why it makes training fast,
# - what the decoder reads, what it predicts, and why these are **one position apart**,
# - how to **find a leak** in any model without reading its code.
#
# **Time:** about two hours. **In [the paper](https://arxiv.org/abs/1706.03762):** sections 3.1 (last paragraph) and
# 3.2.3 (third point).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    attention_heatmap,
    leak_probe,
    mask_panels,
    named_lines,
    show_offline,
)
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(
    built=finished_exercises(), current=["padding_mask", "causal_mask", "decoder_mask", "shift_target"]
)

# %% [markdown]
# The model uses attention in three places: the encoder's self-attention, the decoder's self-attention, and
# cross-attention. All three need a mask.

# %% given="setup"
import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from course_lib.checks import check
from course_lib.transformer import (
    FeedForward,
    MultiHeadAttention,
    SublayerConnection,
    attention_scores,
    attention_weights,
)

# %% [markdown]
# ## 1. The padding mask: filler means nothing
#
# A sentence is a list of **tokens**, which are words for now. A vocabulary gives each token a number, its **id**. Three
# special tokens don't stand for words:
#
# | token | id | what it is |
# |---|---|---|
# | `<pad>` | 0 | filler after a short sentence |
# | `<start>` | 1 | the beginning of a sentence |
# | `<end>` | 2 | the end of a sentence |
#
# A batch is one tensor of ids, (B, L): $B$ sentences, padded to the length $L$ of the longest.

# %% tags=["see"]
vocabulary = "<pad> <start> <end> a dog girl sleeps runs on the red sofa".split()
number = {word: index for index, word in enumerate(vocabulary)}
sentences = ["<start> a dog sleeps on the sofa <end>", "<start> a girl runs <end> <pad> <pad> <pad>"]
words = [sentence.split() for sentence in sentences]
tokens = torch.tensor([[number[word] for word in sentence] for sentence in words])
print(tokens)

# %% [markdown]
# ### See it: what happens without a mask
#
# The words and the padding of the second sentence get random vectors. They attend first without a mask, then with the
# one that you are about to build. Orange cells with a "!" mark weight that goes to padding.
#
# **Change something:** add padding with `sentence = words[1] + ["<pad>"] * 3`. How much of its weight does a word lose
# to padding?

# %% tags=["see"]
torch.manual_seed(3)
vectors = torch.randn(len(vocabulary), 16)
sentence = words[1]
x = vectors[[number[word] for word in sentence]]
is_word = torch.tensor([word != "<pad>" for word in sentence])
scores = attention_scores(x, x) / 2  # halved: softer weights are easier to see

attention_heatmap(
    torch.stack([attention_weights(scores), attention_weights(scores, is_word)]),
    sentence,
    sentence,
    mask=is_word,
    panels=["no mask", "with a mask"],
    title="Without a mask, padding takes weight from the words",
)

# %% [markdown]
# Without a mask, a sentence's result depends on how much padding it has, and therefore on the other sentences in its
# batch. With the mask, the padding columns are empty.
#
# <details><summary>What changes?</summary>
#
# With six positions of padding, the five words lose between 29% and 56% of their weight. With three, they lost between
# 17% and 39%. With the mask, they lose nothing.
#
# </details>
#
# The *rows* of padding are still there in both panels: padding attends to words. That is correct: the mask is the same
# for every query, so it needs only one row, (B, 1, L). Why the rows of padding do no harm is the question at the end of
# this section. (During training, the *loss* compares the outputs with the words that should come next; lesson 08 builds
# it. What should it do where nothing but padding comes next?)
#
# ### Worked example: two sentences, three positions
#
# For each token, ask one question: is it a real token?

# %% tags=["see"]
batch_of_two = [[5, 7, 2], [7, 2, 0]]  # the second sentence has one position of padding, 0
for sentence in batch_of_two:
    print(sentence, "->", ["pad" if token == 0 else "real" for token in sentence])
print("shape of the tokens: (2, 3); shape of the mask: (2, 1, 3), one row for all queries of a sentence")

# %% [markdown]
# ### Build it
#
# Turn tokens and the padding id into a mask that is `True` at every token that **may be attended to**.
# `MultiHeadAttention` adds the axis for the heads.
#
# Compare each token with `pad_id` separately. Then it doesn't matter where the padding is, or which id it has.

# %% build="padding_mask"
### BEGIN SOLUTION course_lib.transformer.masks:padding_mask

# %% [markdown]
# A scratch cell: the worked example. Try padding at the beginning, or another `pad_id`.

# %% tags=["see"]
print(padding_mask(torch.tensor(batch_of_two), pad_id=0))

# %% [markdown] hints="padding_mask"

# %% check="padding_mask"

# %% [markdown]
# ### See it: alone and in a batch
#
# The short sentence goes through multi-head attention with random weights: alone, then in the whole batch, without and
# with your mask. We compare the results for its five tokens.
#
# **Change something:** cut the sentence to three tokens by writing 3 in place of both 5s. Why is the difference no
# longer (nearly) zero, even with the mask?

# %% tags=["see"]
torch.manual_seed(0)
attention = MultiHeadAttention(16, 4).eval()
with torch.no_grad():
    x = vectors[tokens]
    alone = vectors[tokens[1, :5]].unsqueeze(0)
    expected = attention(alone, alone, alone)
    for name, mask in {"without mask": None, "with your mask": padding_mask(tokens, 0)}.items():
        found = attention(x, x, x, mask)[1:, :5]
        print(f"{name:15} largest difference {(found - expected).abs().max().item():.7f}")

# %% [markdown]
# <details><summary>What changes?</summary>
#
# The difference is now about 0.24. Alone, the sentence ends after three tokens. In the batch, these three also attend
# to "runs" and `<end>`, which aren't padding, so the mask doesn't hide them.
#
# </details>
#
# ### Explain it
#
# A student says: "If padding should count for nothing, I should mask its query rows as well as its key columns." Say
# what would happen to a masked query row in a plain softmax (without the special treatment that you built in lesson
# 01), whether masking such a row would help, and in which two places the outputs of padding are ignored instead.

# %% [markdown] explain="explain_columns"
# A row that is masked completely has no key left. If masked scores are minus infinity, its softmax is 0/0, which is
# NaN, and NaN reaches all weights through the gradient. If they are a very low number instead, the row silently becomes
# uniform. Masking such a row would not help, because no word uses the output of a padding query: the columns of padding
# are masked in every attention, so no other output depends on it. Where the outputs of padding would count, in the
# loss, they are ignored: positions whose label is padding are not part of the mean.
#
# ### BEGIN MARK SCHEME
# - 1 point: a row without any allowed key is 0/0 in the softmax (NaN), or, if masked scores are only very
#   low, uniform without a warning.
# - 1 point: nobody uses padding's outputs, since its key columns are masked, so its rows do no harm.
# - 1 point: the loss ignores positions of padding.
# ### END MARK SCHEME

# %% [markdown]
# ## 2. The causal mask: no access to the future
#
# A decoder writes one word after another: it reads what it has written so far, the *prefix*, and predicts the next
# word. (Such a model is called *auto-regressive*.) If it also learned word by word, a sentence of ten
# words would need ten runs of the model.
#
# The Transformer needs **one run**, because during training the whole **target**, the sentence that it should write, is
# known. The decoder gets all of it at once, and *every* position predicts its next word at the same time: position 0,
# which reads `<start>`, predicts token 1, position 1 predicts token 2, and so on. (This is called *teacher forcing*:
# each position continues from the correct words, whatever the model would have written.)
#
# But token 2, which position 1 has to predict, is in the same tensor, at position 2. So no position may attend to later
# positions:
#
# $$\mathrm{mask}_{ij} = \text{True where } j \le i$$
#
# | symbol | what it is |
# |---|---|
# | $i$ | the row: the position of the **query** |
# | $j$ | the column: the position of the **key** |
#
# The position itself, $j = i$, is allowed: position $i$ has read token $i$, and it predicts token $i + 1$.

# %% predict="predict_pairs"
# A sentence has 6 tokens, none of them padding. How many pairs of query and key does the causal
# mask allow?

# %% check="predict_pairs"

# %% [markdown]
# ### Worked example: three positions

# %% tags=["see"]
for query, word in enumerate(["a", "dog", "sleeps"]):
    row = ["may attend" if key <= query else "hidden" for key in range(3)]
    print(f"position {query} ({word:6}):", row)

# %% [markdown]
# ### Build it
#
# In lesson 00 you combined each position with every other one, as a column and a row. The same idea works here.
#
# The causal mask is the same for all sentences: (1, L, L). (The check also accepts a plain table, (L, L), which
# broadcasts in the same way.)

# %% build="causal_mask"
### BEGIN SOLUTION course_lib.transformer.masks:causal_mask

# %% [markdown]
# A scratch cell: the three positions of the worked example. What is the mask of a sentence of one word?

# %% tags=["see"]
print(causal_mask(3))

# %% [markdown] hints="causal_mask"

# %% check="causal_mask"

# %% [markdown]
# ## 3. The decoder's mask: both
#
# In the decoder's self-attention, a pair is allowed if **both** masks allow it.

# %% predict="predict_allowed"
# A sentence of 4 tokens is followed by one `<pad>`, so L is 5. In its decoder mask, 5 by 5, how many pairs
# are allowed? (Count all five rows.)

# %% check="predict_allowed"

# %% [markdown]
# ### Worked example: two tokens and one padding token

# %% tags=["see"]
is_real = [True, True, False]
for query in range(3):
    causal = [key <= query for key in range(3)]
    both = [real and past for real, past in zip(is_real, causal, strict=True)]
    print(f"row {query}: real {is_real}  causal {causal}  both {both}")

# %% [markdown]
# ### Build it
#
# (B, 1, L) and (1, L, L) broadcast to (B, L, L), a mask for each sentence. The tokens may be on a GPU;
# `.to(tokens.device)` moves a mask there.

# %% build="decoder_mask"
### BEGIN SOLUTION course_lib.transformer.masks:decoder_mask

# %% [markdown]
# A scratch cell: your two masks for the worked examples. Which rows of the decoder mask would change with `|` ("or") in
# place of `&` ("and")? (Rows 0 and 2.)

# %% tags=["see"]
print("causal:", causal_mask(3), "decoder:", decoder_mask(torch.tensor([[7, 2, 0]]), pad_id=0), sep="\n")

# %% [markdown] hints="decoder_mask"

# %% check="decoder_mask"

# %% [markdown]
# ### See it: two masks, and both together
#
# Here are your three masks for the short sentence.
#
# **Change something:** set `which = 0` for the sentence without padding. What is the third mask now? Then reverse the
# short one, `spoken = words[1][::-1]`, which moves the padding to the beginning. Which rows have nothing left to attend
# to?

# %% tags=["see"]
which = 1
spoken = words[which]
read = torch.tensor([[number[word] for word in spoken]])

mask_panels(
    {
        "padding": padding_mask(read, 0)[0],
        "causal": causal_mask(len(spoken)),
        "padding & causal = decoder": decoder_mask(read, 0)[0],
    },
    spoken,
    title="A pair is allowed where both masks allow it",
)

# %% [markdown]
# If the padding is at the end, the causal mask already hides it from all *words*, because it is in their future. The
# decoder uses a padding mask nevertheless, because it should work wherever the padding is.
#
# <details><summary>What changes?</summary>
#
# With `which = 0`, the third mask is the causal mask, because there is no padding to hide. In the reversed sentence,
# the first three rows are empty: they belong to padding, and only padding comes before them.
#
# </details>
#
# | attention | queries | keys | mask |
# |---|---|---|---|
# | encoder, self-attention | source | source | hides padding of the source |
# | decoder, self-attention | target | target | hides padding of the target **and** all later positions |
# | decoder, cross-attention | target | source | hides padding of the **source**, because a mask hides keys |
#
# Every target word may attend to the whole source: nothing in it has to be predicted.
#
# ## 4. What the decoder reads, and what it predicts
#
# From a target sentence such as `<start> a girl runs <end>` we need two things: what the decoder **reads**, and the
# **labels**, which it should predict. Position $i$ reads token $i$ and predicts token $i + 1$. The last token has no
# successor, so it isn't read; the first has no predecessor, so it isn't predicted.
#
# In a batch, it is the last *column* that isn't read. In a shorter sentence this column is padding, so the decoder
# reads the sentence's `<end>` as well. The label at the position of `<end>` is padding, which the loss will ignore.
#
# Figure 1 of the paper says "shifted right" under the decoder: compared with the labels, what the decoder reads is the
# same sentence, moved one position to the right.
#
# When the model writes, it must read something before there is a first word: `<start>`. And `<end>` lets it learn when
# to stop.
#
# ### Worked example: four tokens

# %% tags=["see"]
tokens_of_target = ["<start>", "dogs", "sleep", "<end>"]
for position, read in enumerate(tokens_of_target):
    if position + 1 < len(tokens_of_target):
        print(f"position {position} reads {read:8} and predicts {tokens_of_target[position + 1]}")

# %% [markdown]
# ### Build it
#
# Return two tensors: first what the decoder reads, then the labels. Treat padding like any other token.

# %% build="shift_target"
### BEGIN SOLUTION course_lib.transformer.masks:shift_target

# %% [markdown]
# A scratch cell: 1 is `<start>`, 2 is `<end>`, 0 is padding. What happens to the padding?

# %% tags=["see"]
print(shift_target(torch.tensor([[1, 5, 7, 2], [1, 5, 2, 0]])))

# %% [markdown] hints="shift_target"

# %% check="shift_target"

# %% [markdown]
# ### See it: one row for each position
#
# The table shows the short sentence.
#
# **Change something:** use the longer sentence, `which = 0`. Then make a common mistake and use what the decoder reads
# as labels: insert `labels = reads` after the line with `shift_target`. What would the model have to learn, and could
# it fail?

# %% tags=["see"]
import pandas as pd

which = 1
reads, labels = shift_target(tokens[which : which + 1])
allowed = decoder_mask(reads, 0)[0]
rows = []
for position, (token, label) in enumerate(zip(reads[0].tolist(), labels[0].tolist(), strict=True)):
    seen = " ".join(
        vocabulary[other]
        for other, may in zip(reads[0].tolist(), allowed[position].tolist(), strict=True)
        if may
    )
    rows.append((vocabulary[token], seen, vocabulary[label] if label != 0 else "(ignored by the loss)"))
pd.DataFrame(rows, columns=["reads", "may attend to", "predicts"])

# %% [markdown]
# Shift and mask belong together:
#
# | | causal mask | no causal mask |
# |---|---|---|
# | **labels shifted** | the answer is one position ahead, and hidden: correct | the answer is one position ahead, and visible |
# | **labels not shifted** | the answer is what was just read | the answer is what was just read |
#
# <details><summary>What changes?</summary>
#
# With `labels = reads`, the columns "reads" and "predicts" become equal. The model only has to copy the token that it
# has just read. It can hardly fail, but it learns nothing about the next word.
#
# </details>
#
# ## 5. The leak probe
#
# How can you find out whether a model sees the future? Reading the code helps only if you notice the one wrong
# character. But there is a test that needs no code:
#
# > **Change one token. Every output that changes has seen it.**
#
# If an output at an *earlier* position changes, it has seen the future. The test needs neither training nor data:
# random weights will do, because the connections don't depend on what is learned.
#
# Here is a small model to test, made of the parts that you have built. (It has no source sentence. `nn.Embedding` is a
# table with one learned vector for each word or position; lesson 05 does this properly. The *generator*, at the end,
# gives each word of the vocabulary a number: the larger, the more probable the word.)

# %% tags=["see"]


class SmallDecoder(nn.Module):
    def __init__(self, vocabulary: int, length: int, d_model: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, d_model)
        self.positions = nn.Embedding(length, d_model)
        self.attentions = nn.ModuleList(MultiHeadAttention(d_model, 4, dropout=0.0) for _ in range(layers))
        self.networks = nn.ModuleList(FeedForward(d_model, 2 * d_model, dropout=0.0) for _ in range(layers))
        self.connections = nn.ModuleList(SublayerConnection(d_model, dropout=0.0) for _ in range(2 * layers))
        self.generator = nn.Linear(d_model, vocabulary)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer, attention in enumerate(self.attentions):
            # `attention=attention` binds the lambda to this layer's attention, as a lambda in a loop should.
            x = self.connections[2 * layer](x, lambda y, attention=attention: attention(y, y, y, mask))
            x = self.connections[2 * layer + 1](x, self.networks[layer])
        return self.generator(x)


# %% [markdown]
# For each of four masks, we run the model on the sentence, replace one token, run the model again, and measure how far
# the output at every position has moved.
#
# - **yours**: the decoder mask;
# - **one position too far**: the triangle with one diagonal too many, `tril(1)` in place of `tril()`;
# - **only padding hidden**: the causal mask was forgotten;
# - **either, not both**: `|` in place of `&`, so that one of the two masks is enough.
#
# Before you run it: the second mask reaches only one position too far. At how many positions *before* the change will
# it leak?
#
# **Change something:** change the token at another position (`changed = 2`), or the last word (`changed = 6`). Use
# `layers=1`, then `layers=4`: how does the second row change? Add a mask of your own.

# %% tags=["see"]
changed = 5
exchanged_for = "red"
spoken = words[0]
before = tokens[:1]
after = before.clone()
after[0, changed] = number[exchanged_for]

length = before.shape[1]
candidates = {
    "yours": decoder_mask(before, 0),
    "one position too far": padding_mask(before, 0) & torch.ones(length, length, dtype=torch.bool).tril(1),
    "only padding hidden": padding_mask(before, 0),
    "either, not both": padding_mask(before, 0) | causal_mask(length),
}

torch.manual_seed(0)
model = SmallDecoder(len(vocabulary), length, layers=2).eval()
moved = {}
with torch.no_grad():
    for name, mask in candidates.items():
        moved[name] = (model(after, mask) - model(before, mask)).norm(dim=-1)[0]

leak_probe(moved, spoken, changed)

# %% [markdown]
# Under your mask, everything before the change stays the same *to the last bit*: a weight of exactly zero lets exactly
# nothing through.
#
# In the second row, **two** outputs before the change have moved. In the first layer, the leak reaches the position
# just before the change. In the second layer, it reaches the position before *that*. So each layer carries the leak one
# position further: with one layer it reaches one position, with four layers four (or all that are there).
#
# The last two rows are equal, because this sentence has no padding: its padding mask allows everything, and so does
# "either, not both".
#
# ## 6. What a leak does to learning
#
# Let's train on something that **can't be learned**: noise. Every token is one of ten, drawn at random, so an honest
# model is right one time in ten.

# %% predict="predict_guessed"
# A model with the mask that reaches one position too far is trained on such noise, and then tested on NEW
# noise, with the same mask. What share of the next tokens will it get right? (From 0 to 1. Leave out the
# last position, whose next token is not part of the input.)

# %% check="predict_guessed"

# %% [markdown]
# ### See it: learning what can't be learned
#
# Two small models, one with your mask and one with the leak, are trained on fresh noise at every step, and tested on
# new noise with their own masks. The third line is the leaking model again, but tested **as it will be used**: when it
# writes, there is no future to attend to.
#
# **Change something:** train for only ten `steps`. Or use noise of three `kinds` of tokens: how often is a model right
# if it can only guess?

# %% tags=["see"]
threads = torch.get_num_threads()
torch.set_num_threads(1)  # for tensors this small, one core is faster than two
length, kinds, steps = 12, 10, 160
correct_mask = causal_mask(length)
masks = {"yours": correct_mask, "leaking": torch.ones(1, length, length, dtype=torch.bool).tril(1)}
noise = torch.Generator().manual_seed(1)
new_noise = torch.randint(kinds, (200, length + 1), generator=noise)


def accuracy(model: nn.Module, mask: Tensor) -> float:
    reads, labels = shift_target(new_noise)
    with torch.no_grad():
        right = model(reads, mask).argmax(dim=-1) == labels
    return right[:, :-1].float().mean().item()


rows = []
for name, mask in masks.items():
    torch.manual_seed(0)
    model = SmallDecoder(kinds, length, layers=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps + 1):
        if step % 10 == 0:
            rows.append((f"{name}, as trained", step, accuracy(model, mask)))
            if name == "leaking":
                rows.append(("leaking, in use", step, accuracy(model, correct_mask)))
        reads, labels = shift_target(torch.randint(kinds, (32, length + 1), generator=noise))
        loss = nn.functional.cross_entropy(model(reads, mask).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.set_num_threads(threads)

table = pd.DataFrame(rows, columns=["line", "x", "y"])
print(table.groupby("line", sort=False)["y"].last().round(3).to_string(header=False))
named_lines(
    table,
    across="steps of training",
    up="share of correct next tokens",
    title="With a leak even noise is 'learned', but it is useless for writing",
    dashed=["leaking, in use"],
)

# %% [markdown]
# The leaking model "predicts" noise by reading the answer. When it writes, it is back to guessing. Two things reveal
# a leak:
#
# - the **leak probe**, within a second and before any training. It finds leaks in the mask, but not labels that aren't
#   shifted, because then each position simply reads its own answer;
# - results that are **too good to be true**. Train on noise: if a model learns to predict it, the model can see the
#   answer.
#
# <details><summary>What changes?</summary>
#
# After ten steps, the leaking model is right only about 20% of the time, and the other two lines are still near 10%.
# With three kinds of tokens, a guess is right one time in three, and these two lines (your mask, and the leak in use)
# end near one third.
#
# </details>
#
# ### Explain it
#
# Someone trains a translator. After one hour its validation loss (the loss on sentences that it isn't trained on) is
# 0.03, while everybody else's is above 1. But when it translates, it writes the same few words again and again. What
# do you suspect? Why did the validation set give no warning? And what do you run to find out for sure?

# %% [markdown] explain="explain_leak"
# The decoder sees the words that it should predict: the causal mask is missing or reaches too far, or the labels are
# not shifted. In validation the decoder gets the whole correct target, with the same mask as during training, so it can
# read the answers there as well; it makes no difference that the sentences are new. When it translates, the next words
# don't exist, and it has never learned to predict anything. To find out about the mask, I run the leak
# probe: I change one token of the target, and compare the outputs at all positions before it. An output that changes has
# seen the future. The probe doesn't notice labels that are not shifted. For these, I compare what the decoder reads with
# its labels. Training on random targets finds both mistakes: an honest model can't get below the loss of guessing.
#
# ### BEGIN MARK SCHEME
# - 1 point: the decoder sees what it should predict (mask missing or off by one, or labels not shifted).
# - 1 point: in validation, the decoder gets the whole correct target too (with the same mask), so it leaks as well.
# - 1 point: one test, named or described, that confirms or refutes the suspicion in the answer: for the mask, change a
#   token and see whether earlier outputs change (the leak probe); or for the labels, compare them with what is read; or
#   for either, train on noise.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>In PyTorch I have seen masks in which True means "ignore". Which is right?</summary>
#
# Both exist. `nn.MultiheadAttention` ignores positions where its `key_padding_mask` is True;
# `scaled_dot_product_attention` keeps the positions where its boolean `attn_mask` is True, as this course does. And a
# mask of numbers is *added* to the scores. Read the documentation each time, and run a leak probe afterwards.
#
# </details>
#
# <details><summary>When the model writes, the future doesn't exist. Is the causal mask needed then?</summary>
#
# Yes. The newest word may attend to everything anyway. But the earlier words must be computed as they were during
# training, without the later ones, because from the second layer on, the newest word reads the results.
#
# </details>
#
# <details><summary>Half of the table is masked. Is half of the work wasted?</summary>
#
# With plain matrix products, yes: all scores are computed, and half of them are thrown away. Fused kernels take the
# causal mask as a flag (`is_causal=True`) and skip whole blocks above the diagonal.
#
# </details>
#
# <details><summary>Why does the encoder need no causal mask?</summary>
#
# It predicts nothing, and to understand a word it helps to know what follows.
#
# </details>
#
# ## Further reading
#
# **Since 2017**, masks have become a way to choose the kind of model:
#
# - [BERT](https://arxiv.org/abs/1810.04805) has no causal mask: it learns to fill in hidden words from both sides.
# - [T5](https://arxiv.org/abs/1910.10683) compares causal masks with masks that leave a prefix fully visible.
# - [Longformer](https://arxiv.org/abs/2004.05150) lets most words attend only to a window around them, so that long
#   texts become affordable.
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Next: **lesson 05, positional encoding**.

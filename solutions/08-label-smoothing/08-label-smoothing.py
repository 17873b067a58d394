# %% [markdown]
# # Lesson 08: label smoothing
#
# The size of the updates is settled. Now: what is the model told is *right*? The corpus says "the next word is **dog**",
# and nothing else. Taken literally, that asks the model to be infinitely sure, of every word, also where another
# word would have done as well.
#
# The paper tells its models a little less than it knows: 90% for the word of the corpus, and the other 10% spread over the
# whole vocabulary. The model's own measure of surprise gets *worse* by that, and its translations get better.
#
# At the end of this lesson you can
#
# - make smoothed targets, and say exactly what stands where (three versions go around, and two of them are not the one
#   that the paper cites),
# - write the loss against them, right for padding and safe for very large and very small numbers,
# - say how low this loss can get, so that you don't wait for zero,
# - read a picture of calibration: is a model that says 80% right in 80% of the cases?
#
# **Time:** about an hour and a half. **In the paper:** section 5.4 of
# Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762), which cites section 7 of
# Szegedy et al. 2016, [Rethinking the Inception Architecture](https://arxiv.org/abs/1512.00567).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    calibration_curves,
    exercises_through,
    loss_by_confidence,
    show_offline,
    target_distributions,
)

show_offline()
architecture_map(built=exercises_through(7), current=["smooth_targets", "LabelSmoothingLoss"])

# %% [markdown]
# Run the next cell once. The parts of lessons 01 to 07 are there, as the course's own versions.

# %% given="setup"
import math

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.checks import check
from course_lib.transformer import (
    Transformer,
    TransformerConfig,
    causal_mask,
    make_scheduler,
    shift_target,
)

# %% [markdown]
# ## 1. What a hard target asks for
#
# At each position the model hands out one **logit** $z_k$ for each word $k$ of the vocabulary, any numbers. The softmax
# makes probabilities $p_k$ of them. The usual loss looks only at the word $y$ that really came, the **label**:
#
# $$-\ln p_y$$
#
# The surer the model is of the label, the lower. It is never low enough: $-\ln 0.99 = 0.01$, and $-\ln 0.9999 = 0.0001$
# is lower still. Zero is reached only where $p_y = 1$, and a softmax never gives 1 with finite logits. So as long as
# you train, the label's logit is pushed up and the others down, even when the model is right already. Two things
# follow:
#
# - The model becomes **too sure**. On sentences that it has seen it is right to be. On new ones it is just as sure,
#   and less often right.
# - One sentence says nothing about **words that would have done as well**. "A dog *runs*" or "a dog *is running*": the
#   corpus has one of them here, and the target says that at this place the other is impossible. A model that believes it
#   learns the sentence by heart.
#
# ## 2. Smoothed targets
#
# So give the model a whole distribution $q$ to aim at, not a single word. Take a small part $\varepsilon$ of the
# probability away from the label, and spread it evenly over **all** $V$ words:
#
# $$q_k = \begin{cases}
# 1 - \varepsilon + \dfrac{\varepsilon}{V} & \text{if } k \text{ is the label} \\[2ex]
# \dfrac{\varepsilon}{V} & \text{for every other word}
# \end{cases}$$
#
# | symbol | in code | what it is |
# |---|---|---|
# | $\varepsilon$ | `smoothing` | how much is spread; 0.1 in the paper |
# | $V$ | `vocab_size` | the number of words in the vocabulary |
# | $q_k$ | `targets[..., k]` | the probability of word $k$ that the model is to aim at |
# | $y$ | `labels` | the number of the word that really came |
#
# Look at the label's line again. "All words" includes the label itself, so it gets its own share back.

# %% predict="predict_target"
# A vocabulary of 10 words, and a smoothing of 0.1. Which probability does the target give the label?

# %% check="predict_target"

# %% [markdown]
# **Other versions go around.** Some spread $\varepsilon$ over the $V - 1$ *other* words. A widely copied program spreads
# it over $V - 2$ words, without the label and without padding. With 37,000 words nobody can tell the results apart.
# With ten words you can, and with two words the last version divides by zero. Here you build the one that the paper
# cites, which is PyTorch's too.
#
# **Padding.** Where the label is `pad_id` there is no word, and nothing to aim at: that whole **row** is zeros. (The
# *column* of padding is not: padding is one of the $V$ words, and gets its share in the rows of real words.)
#
# ### Build it
#
# Labels come in any shape, mostly (sentences, positions). The targets have the same shape and one more axis at the end,
# for the words.

# %% build="smooth_targets"
### BEGIN SOLUTION course_lib.transformer.label_smoothing:smooth_targets

# %% [markdown] hints="smooth_targets"

# %% check="smooth_targets"

# %% [markdown]
# ### See it: what the model is told
#
# A sentence of five words and two positions of padding, with a vocabulary of ten.
#
# **Change something:** a smoothing of 0, of 0.5, of 1. Which word can the model still learn at 1?

# %% tags=["see"]
vocabulary = ["<pad>", "<end>", "a", "the", "dog", "cat", "runs", "sleeps", "fast", "."]
sentence = ["the", "dog", "runs", ".", "<end>", "<pad>", "<pad>"]
labels = torch.tensor([vocabulary.index(word) for word in sentence])

target_distributions(smooth_targets(labels, len(vocabulary), 0, smoothing=0.2), sentence, vocabulary)

# %% [markdown]
# ## 3. The loss against a distribution
#
# How far is the model's distribution $p$ from the targets $q$? The **cross-entropy** sums up over all words what each
# costs, by the weight it has in the targets:
#
# $$H(q, p) = -\sum_{k=1}^{V} q_k \ln p_k$$
#
# With a hard target all terms but one are zero, and $-\ln p_y$ is left: the usual loss. For a whole batch you take the
# mean over its **real words**, and leave padding out of the sum *and out of the count*:
#
# $$\mathrm{loss} = \frac{1}{N} \sum_{i \,\text{not padding}} H(q_i, p_i)$$
#
# where $i$ runs over all positions of all sentences, and $N$ is the number of those that aren't padding.
#
# **Mean over what?** Over words, not over sentences: take one sum over the whole batch, and divide it once. If you
# take the mean of each sentence first, then a word of a short sentence counts for more than one of a long sentence.
#
# **Why not `softmax` and then `log`?** A logit that lies 1,000 below the largest has the probability $e^{-1000}$. A
# computer rounds that to 0, and the logarithm of 0 is minus infinity. `log_softmax` does both in one step: it subtracts
# the logarithm of the sum and never leaves the logarithms, so it says $-1000$, as it should.
#
# **How low can it get?** With hard targets, as near to zero as you like. And with smoothed ones? At its best the model
# gives exactly the targets, $p = q$.

# %% predict="predict_lowest"
# Again 10 words and a smoothing of 0.1. What is the lowest loss that any model can reach, per word?
# The targets are 0.91 for the label and 0.01 for each of the nine others. You may calculate:
# math.log(x) is the natural logarithm.

# %% check="predict_lowest"

# %% [markdown]
# That is the **entropy** of the targets. No model gets below it, so a smoothed loss that levels off well above zero
# is no sign of trouble. For 37,000 words and a smoothing of 0.1 the floor lies at about 1.4.
#
# Some programs report the **Kullback-Leibler divergence** instead: cross-entropy minus that floor, which does go to
# zero. Both have the same gradients, since the floor doesn't depend on the model. But never compare a number of one
# kind with one of the other. And when you want to know how surprised the model really is by the words that came, take the
# loss with a smoothing of 0: its exponential is the **perplexity**.
#
# ### Build it
#
# The loss is a small module that remembers its settings. `__init__` is given; you write `forward`. Of
# `torch.nn.functional.cross_entropy` the argument `label_smoothing` would be the whole exercise: leave that one alone,
# and let your own targets meet the log-probabilities.
#
# As always in this course, the result has the dtype of what came in, here of the logits. Your targets may be float32, so
# bring them to it: `.to(logits.dtype)`.

# %% build="LabelSmoothingLoss"
### BEGIN SOLUTION course_lib.transformer.label_smoothing:LabelSmoothingLoss

# %% [markdown] hints="LabelSmoothingLoss"

# %% check="LabelSmoothingLoss"

# %% [markdown]
# Now you may look: PyTorch's own, on the same numbers.

# %% tags=["see"]
torch.manual_seed(0)
logits, labels = torch.randn(2, 4, 10), torch.tensor([[3, 5, 2, 1], [7, 1, 0, 0]])
print("yours:    ", LabelSmoothingLoss(10, pad_id=0, smoothing=0.1)(logits, labels).item())
theirs = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
print("PyTorch's:", theirs(logits.flatten(0, 1), labels.flatten()).item())

# %% [markdown]
# ### See it: how sure should a model be?
#
# Imagine a model that gives the label some probability and shares the rest evenly among the other nine words. How does
# your loss change as it becomes surer? To the right it gets ever surer: the scale stretches out the nines, so
# that you can see what happens between 99% and 99.999%.
#
# **Change something:** the number of words. Where does the lowest point lie with 1,000 words? With two?

# %% tags=["see"]
words = 10
rows = []
for smoothing in [0.0, 0.1, 0.3]:
    loss = LabelSmoothingLoss(words, pad_id=0, smoothing=smoothing)
    for gap in torch.linspace(-0.5, 14, 146):  # how far the label's logit lies above the others
        logits = torch.zeros(1, 1, words)
        logits[0, 0, 1] = gap
        confidence = logits.softmax(dim=-1)[0, 0, 1].item()
        rows.append((smoothing, confidence, loss(logits, torch.tensor([[1]])).item()))

loss_by_confidence(pd.DataFrame(rows, columns=["smoothing", "confidence", "loss"]))

# %% [markdown]
# Without smoothing the line falls for ever: however sure the model is, surer is better. With smoothing there is a lowest
# point, and it lies just where the targets are. Whoever is **surer than that pays for it**.
#
# So the logits stop growing. How far above the others does the label's logit stand when the model gives exactly the
# targets? The softmax gives $p_k = e^{z_k} / \sum_l e^{z_l}$, so dividing one probability by another leaves
# $e^{z_y - z_k} = p_y / p_k$.

# %% predict="predict_gap"
# 10 words, smoothing 0.1, targets of 0.91 and 0.01. How far does the label's logit lie above each
# other logit, for a model at its best?

# %% check="predict_gap"

# %% [markdown]
# ### Explain it
#
# A fellow student trains a translator with 8,000 words and a smoothing of 0.1, and is worried: "The loss has not gone
# below 1.3 for hours, and the perplexity of the model *with* smoothing is worse than that of the one without. But BLEU
# is better. Something must be broken." What do you answer?

# %% [markdown] explain="explain_floor"
# Nothing is broken. The lowest value of the smoothed loss is not zero but the entropy of the targets, which for 8,000
# words and 0.1 is about 1.2: even a perfect model pays that, and 1.3 is close to it. The perplexity is worse since the
# model has been taught to keep some probability for other words, so it gives the right word less than it could. BLEU
# doesn't look at probabilities, only at the words that are chosen, and those choices may well be better, since the
# model has not become too sure of its training sentences.
#
# ### BEGIN MARK SCHEME
# - 1 point: the smoothed loss has a floor above zero, the entropy of the targets (about 1.2 here; the number isn't asked for).
# - 1 point: the model is taught to be less sure, so it gives right words less probability: perplexity gets worse.
# - 1 point: BLEU judges the chosen words, not the probabilities; less overconfidence may choose better.
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 4. Calibration: is the confidence earned?
#
# A model is **calibrated** if, of all its guesses with 80% confidence, 80% are right. You can use such a model: you know
# when to trust it. Beam search (lesson 11) uses it, too: it compares sums of log-probabilities, and a model that is
# blindly sure of its first guess never lets another one live.
#
# The task is copying again, but with mistakes: in each sentence a fifth of the target's symbols have been replaced by
# random ones. So nobody can be sure. The source tells the symbol that is *probably* right: even a perfect model is right in
# about 82% of the cases, and should say so. (A fifth is random, and one in ten of those is right by accident.)
#
# To make it harder, there are only 200 sentences to learn from. A model may **memorise** their mistakes. Three small
# Transformers learn from the same sentences, with a smoothing of 0, 0.1 and 0.3. Then all of them guess the
# symbols of 500 new sentences. It takes some seconds to run.
#
# **Change something:** 2,000 sentences instead of 200. A smoothing of 0.6. No mistakes at all (`mistakes=0.0`): is the
# smoothed model still calibrated then?

# %% tags=["see"]
SYMBOLS, LENGTH, PAD, START = 12, 6, 0, 1


def noisy_copies(count: int, mistakes: float) -> tuple[Tensor, Tensor]:
    source = torch.randint(2, SYMBOLS, (count, LENGTH))
    replaced = torch.rand(count, LENGTH) < mistakes
    copy = torch.where(replaced, torch.randint(2, SYMBOLS, (count, LENGTH)), source)
    return source, torch.cat([torch.full((count, 1), START), copy], dim=1)


def logits_of(model: Transformer, source: Tensor, decoder_input: Tensor) -> Tensor:
    return model(source, None, decoder_input, causal_mask(LENGTH))


def trained(smoothing: float, source: Tensor, target: Tensor, updates: int = 250) -> Transformer:
    torch.manual_seed(1)
    model = Transformer(
        SYMBOLS,
        SYMBOLS,
        TransformerConfig(layers=1, d_model=32, heads=2, d_ff=64, dropout=0.0, norm_first=True),
    )
    loss = LabelSmoothingLoss(SYMBOLS, PAD, smoothing)
    adam = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = make_scheduler(adam, d_model=32, warmup=50, factor=0.3)
    for _ in range(updates):
        chosen = torch.randint(len(source), (32,))
        decoder_input, labels = shift_target(target[chosen])
        adam.zero_grad()
        loss(logits_of(model, source[chosen], decoder_input), labels).backward()
        adam.step()
        scheduler.step()
    return model


torch.manual_seed(0)
mistakes = 0.2
source, target = noisy_copies(200, mistakes)
new_source, new_target = noisy_copies(500, mistakes)
decoder_input, labels = shift_target(new_target)
tables = []
for smoothing in [0.0, 0.1, 0.3]:
    model = trained(smoothing, source, target).eval()
    with torch.no_grad():
        confidence, guess = logits_of(model, new_source, decoder_input).softmax(dim=-1).max(dim=-1)
    right = guess == labels
    print(
        f"smoothing {smoothing}: mean confidence {confidence.mean():.0%}, right {right.float().mean():.0%} of the time"
    )
    tables.append(
        pd.DataFrame(
            {
                "model": f"smoothing {smoothing}",
                "confidence": confidence.flatten().tolist(),
                "right": right.flatten().tolist(),
            }
        )
    )

calibration_curves(pd.concat(tables))

# %% [markdown]
# Without smoothing the points lie **below** the dashed line: the model is surer than it is right. It has memorised
# mistakes, and expects new sentences to be as clear as those it knows by heart. A little smoothing moves the points up
# towards the line, and more of the guesses are right as well. With too much of it they lie **above** the line: the model is
# right more often than it says.
#
# So smoothing isn't good in itself. It is a remedy against too much confidence, and the dose matters. A model that has
# far more sentences than it can memorise needs less of it, and where the labels are certain it makes a model say 91%
# that could rightly say 100%.
#
# ### Explain it
#
# In three or four sentences: what does label smoothing change about how sure a model becomes, and why? Why did it help
# in the experiment, and in which case would it make calibration *worse*?

# %% [markdown] explain="explain_calibration"
# With hard targets the loss falls for as long as the model becomes surer, so the logits are pushed apart without end,
# and the model ends up sure of everything it has seen. With smoothed targets there is a best confidence, that of the
# targets, and more is punished. In the experiment the labels were noisy and the sentences few, so that the unsmoothed
# model memorised mistakes and was surer than right on new sentences; smoothing held that back. Where labels are certain
# and there is plenty of data, a model could rightly be nearly sure, and smoothing makes it less sure than it is right.
#
# ### BEGIN MARK SCHEME
# - 1 point: hard targets always reward more confidence; smoothed ones have a best confidence and punish going beyond.
# - 1 point: in the experiment the unsmoothed model was overconfident (noise, few sentences, memorising) and smoothing lowered that.
# - 1 point: it makes things worse where high confidence is right (clean labels, plenty of data), or if there is too much of it.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>Why spread evenly? "Cat" is surely likelier than "refrigerator".</summary>
#
# It is. Even spreading is the simplest choice, and needs no other model. Better targets can come from a trained model
# that tells another one its whole distributions; that is called distillation. Even smoothing mostly says one thing:
# *don't be so sure*.
#
# </details>
#
# <details><summary>Should I use the smoothed loss for validation, too?</summary>
#
# For a curve beside that of training, yes: then both mean the same. For perplexity, or to compare with models that were
# trained with another smoothing, take a smoothing of 0.
#
# </details>
#
# <details><summary>The model now gives padding some probability. Will it write padding?</summary>
#
# It learns to give it $\varepsilon / V$, the least that it gives to anything. It is never the likeliest word, so it is
# never chosen.
#
# </details>
#
# <details><summary>A table of (batch, length, vocabulary) just for the targets: isn't that a waste?</summary>
#
# Yes. All rows are alike but for one number, so one can do without it: the sum is
# $(1 - \varepsilon)$ times the label's $-\ln p_y$, plus $\varepsilon$ times the mean of $-\ln p_k$ over all words.
# That gives the same loss, and is what fast programs do. The table shows more plainly what is going on.
#
# </details>
#
# <details><summary>Why does a row of padding get zeros, and not simply a target of "padding"?</summary>
#
# Then the model would spend its effort on learning to write padding after the end, a hundred times a batch, and the mean
# loss would look wonderful. Nobody reads what stands there.
#
# </details>
#
# <details><summary>Does smoothing help against wrong labels?</summary>
#
# Some. A wrong label stops pulling as soon as the model gives it the probability that the target has; a hard target
# never stops. But the model doesn't find out which labels are wrong.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=exercises_through(8))

# %% [markdown]
# You have the model, the size of the steps, and what to aim at. Before you hand the lesson in, press **Validate** in the
# toolbar: it runs the notebook from top to bottom, as the grader will.
#
# Next: **lesson 09, training**. One function that puts the three together, and then your own Transformer learns.

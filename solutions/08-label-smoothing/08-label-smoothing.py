# %% [markdown]
# # Lesson 08: label smoothing
#
# What should the model be told is *correct*? The corpus says "the next word is **dog**", and nothing else. That asks
# the model to be infinitely sure of every word.
#
# The paper asks for a little less: 90% for the word in the corpus, and the other 10% spread over the whole vocabulary.
# The model then gives the correct words a *lower* probability, but its first choice is right more often, and its
# translations get better.
#
# By the end you will be able to
#
# - compute smoothed targets, and say exactly what probability each word gets (three versions are in circulation),
# - write a matching loss that is correct for padded batches and stable for very large and very small logits,
# - work out the lowest value that a loss can reach, and judge a training curve by it,
# - read a calibration plot: if a model is 80% sure of its predictions, are 80% of them right?
#
# **Time:** about an hour and a half. **In [the paper](https://arxiv.org/abs/1706.03762):** section 5.4. It cites
# Szegedy et al. 2016, [Rethinking the Inception Architecture](https://arxiv.org/abs/1512.00567), whose section 7
# introduces the method.

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    calibration_curves,
    named_lines,
    show_offline,
    target_distributions,
)
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(built=finished_exercises(), current=["smooth_targets", "LabelSmoothingLoss"])

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
# At each position the model produces a **logit** $z_k$ for each word $k$ of the vocabulary: an unbounded score. The
# softmax turns the logits into probabilities $p_k$. The usual loss compares them with a **hard target**, in which all
# of the probability is on the **label** $y$, the word that actually comes next in the corpus:
#
# $$-\ln p_y$$
#
# The surer the model is of the label, the lower the loss: $-\ln 0.99 = 0.01$, and $-\ln 0.9999 = 0.0001$. (With the
# natural logarithm, the unit of the loss is the *nat*.) The loss is zero only if $p_y = 1$, which no softmax of finite
# logits gives. So training keeps pushing the label's logit up and the others down. Two things follow:
#
# - The model becomes **overconfident**. On new sentences it is almost as confident as on those that it was trained
#   on, but less often right.
# - The target forbids **words that would have done just as well**. Both "a dog *runs*" and "a dog *is running*" may be
#   correct. The corpus has one of them, and the target says that the other is impossible. A model that believes this
#   learns the sentence by heart.
#
# The remedy comes from image recognition: with smoothed labels, Szegedy et al. gained about 0.2 percentage points on
# ImageNet. The Transformer paper uses as much smoothing as they did, 0.1.
#
# ## 2. Smoothed targets
#
# Make the target a distribution $q$ instead of a single word. Take a small share $\varepsilon$ of the probability
# away from the label, and spread it evenly over **all** $V$ words, including the label itself:
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
# | $q_k$ | `targets[..., k]` | the target probability of word $k$ |
# | $y$ | `labels` | the id of the word that actually comes next |
#
# **Padding.** The targets are a table with a row for each position and a column for each word. Where the label is
# `pad_id`, there is no word to predict, so the whole **row** is zeros. (The *column* of padding isn't: padding is one
# of the $V$ words, and gets its share in the rows of real words.)
#
# ### Worked example: two positions, five words
#
# There are five words, and the smoothing is 0.25. The label of the first position is word 3; the second position is
# padding.

# %% tags=["see"]
share = 0.25 / 5
print("share of each word:       ", share)
row = [share] * 5
print("each word gets its share: ", row)
row[3] += 0.75
print("word 3 also gets 1 - 0.25:", row)
print("sum of the row:           ", sum(row))
print("the row of padding:       ", [0.0] * 5)

# %% [markdown]
# A scratch cell: does the row also sum to 1 with a smoothing of 1 and two words? Try other numbers.

# %% tags=["see"]
smoothing, words = 1.0, 2
row = [smoothing / words] * words
row[0] += 1 - smoothing
print(row, sum(row))

# %% predict="predict_target"
# A vocabulary of 10 words, and a smoothing of 0.1. What probability does the target give the label?

# %% check="predict_target"

# %% [markdown]
# **Other versions exist.** Some programs, such as the authors' own Tensor2Tensor, spread $\varepsilon$ over the $V - 1$
# *other* words. A widely copied program spreads it over $V - 2$ words, leaving out the label and padding. With 37,000
# words nobody can tell the results apart; with two, the last version divides by zero. You build the version that the
# paper cites, which PyTorch uses too.
#
# ### Build it
#
# Labels may have any shape, usually (sentences, positions). The targets have one more axis at the end, for the words.
# They may have any floating-point dtype.

# %% build="smooth_targets"
### BEGIN SOLUTION course_lib.transformer.label_smoothing:smooth_targets

# %% [markdown]
# A scratch cell: the two positions of the worked example, where padding is word 0. What changes if the labels are
# `[[3, 0]]`, a batch of one sentence?

# %% tags=["see"]
print(smooth_targets(torch.tensor([3, 0]), vocab_size=5, pad_id=0, smoothing=0.25))

# %% [markdown] hints="smooth_targets"

# %% check="smooth_targets"

# %% [markdown]
# ### See it: the targets of a sentence
#
# **Change something:** try a smoothing of 0, 0.5 or 1. What can the model still learn if the smoothing is 1?

# %% tags=["see"]
vocabulary = ["<pad>", "<end>", "a", "the", "dog", "cat", "runs", "sleeps", "fast", "."]
sentence = ["the", "dog", "runs", ".", "<end>", "<pad>", "<pad>"]
labels = torch.tensor([vocabulary.index(word) for word in sentence])

target_distributions(smooth_targets(labels, len(vocabulary), 0, smoothing=0.2), sentence, vocabulary)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# With 0, all of the probability is on the label. With 0.5, the label gets 0.55 and each other word 0.05. With 1, every
# word gets 0.1, whatever the label is: the model can only learn to find all words equally probable.
#
# </details>
#
# ## 3. The loss against a distribution
#
# How well does the model's distribution $p$ fit the targets $q$? The **cross-entropy** weights the cost $-\ln p_k$ of
# each word by its target probability, and adds up the results:
#
# $$H(q, p) = -\sum_{k=1}^{V} q_k \ln p_k$$
#
# With a hard target only one term isn't zero: $-\ln p_y$, the usual loss. For a batch, take the mean over its **real
# words**, and leave padding out of the sum *and out of the count*. (If all labels are padding, the loss is 0, and so are
# its gradients.)
#
# $$\mathrm{loss} = \frac{1}{N} \sum_{i \,\text{not padding}} H(q_i, p_i)$$
#
# where $q_i$ and $p_i$ are the two distributions at position $i$, and $N$ is the number of positions that aren't
# padding.
#
# ### Worked example: one label and one padding position
#
# There are three words, and the smoothing is 0.3. The label of the first position is word 0; the second position is
# padding.

# %% tags=["see"]
z = torch.tensor([[2.0, 1.0, -1.0], [0.5, 0.5, 0.5]])  # two positions, three logits each
q = torch.tensor([[0.8, 0.1, 0.1], [0.0, 0.0, 0.0]])
p = torch.softmax(z, dim=1)
print("probabilities:", p, sep="\n")
print("their logs:", p.log(), sep="\n")
terms = -(q * p.log())
print("weighted by the targets:", terms, sep="\n")
print("cost of each position:", terms.sum(dim=1))
real_words = 1
print("the loss, a mean over 1 real word and not over 2 positions:", terms.sum() / real_words)

# %% [markdown]
# **Mean over what?** Over words, not over sentences. Otherwise a word in a short sentence would count more than one in
# a long sentence.
#
# **Why not `softmax` and then `log`, as in this example?** It breaks when logits are far apart:

# %% tags=["see"]
far_apart = torch.tensor([0.0, -1000.0])
print("softmax:          ", far_apart.softmax(dim=0))
print("and its logarithm:", far_apart.softmax(dim=0).log())
print("log_softmax:      ", far_apart.log_softmax(dim=0))

# %% [markdown]
# The probability $e^{-1000}$ is rounded to 0, whose logarithm is minus infinity. `log_softmax` instead
# computes $z_k - m - \ln \sum_l e^{z_l - m}$, where $z_k$ are the logits, $m$ is the largest of them, and $l$ runs over
# all words. Nothing overflows, and no logarithm of 0 is computed.
#
# **How low can the loss get?** With hard targets, as close to zero as you like. With smoothed ones, the best that a model
# can do is to predict the targets exactly, $p = q$; any other $p$ costs more (Gibbs' inequality).

# %% predict="predict_lowest"
# Again 10 words and a smoothing of 0.1. What is the lowest loss that any model can reach, per word?
# The targets are 0.91 for the label and 0.01 for each of the nine others. You may use Python:
# math.log(x) is the natural logarithm.

# %% check="predict_lowest"

# %% [markdown]
# This lowest value, the **floor** of the loss, is the **entropy** of the targets: their cross-entropy with themselves.
# So a smoothed loss that levels off well above zero is no cause for alarm. For larger vocabularies the floor is higher:

# %% tags=["see"]
for words in [1_000, 8_000, 37_000]:
    q_label, q_other = 0.9 + 0.1 / words, 0.1 / words
    floor = -q_label * math.log(q_label) - (words - 1) * q_other * math.log(q_other)
    print(f"{words:>6,} words, smoothing 0.1: floor {floor:.2f}")

# %% [markdown]
# Some programs report the **Kullback-Leibler divergence** instead: the cross-entropy minus that floor. Its lowest value
# is zero, and it has the same gradients, because the floor doesn't depend on the model. But never compare a divergence
# with a cross-entropy. To measure how surprised the model is by the real words, compute the loss with a smoothing of 0.
# The exponential of that loss is the **perplexity**.
#
# ### Build it
#
# `__init__` is given; you write `forward`. Combine the targets from your `smooth_targets` with the log-probabilities.
# (The argument `label_smoothing` of `torch.nn.functional.cross_entropy` would solve the whole exercise, so it isn't
# allowed.)
#
# The result has the dtype of the logits. Your targets may be float32, so convert them: `.to(logits.dtype)`.

# %% build="LabelSmoothingLoss"
### BEGIN SOLUTION course_lib.transformer.label_smoothing:LabelSmoothingLoss

# %% [markdown]
# A scratch cell: the worked example. The label of the first position is word 0, and padding is word 2 here. You should
# get the same loss.

# %% tags=["see"]
print(LabelSmoothingLoss(vocab_size=3, pad_id=2, smoothing=0.3)(z, torch.tensor([0, 2])))

# %% [markdown] hints="LabelSmoothingLoss"

# %% check="LabelSmoothingLoss"

# %% [markdown]
# PyTorch's own loss, on the same numbers:

# %% tags=["see"]
torch.manual_seed(0)
logits, labels = torch.randn(2, 4, 10), torch.tensor([[3, 5, 2, 1], [7, 1, 0, 0]])
print("yours:    ", LabelSmoothingLoss(10, pad_id=0, smoothing=0.1)(logits, labels).item())
theirs = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
print("PyTorch's:", theirs(logits.flatten(0, 1), labels.flatten()).item())

# %% [markdown]
# ### See it: how confident should a model be?
#
# A model gives the label some probability and shares the rest evenly among the other nine words. How does your loss
# change as the model becomes more confident? (The axis is stretched near 100%.)
#
# **Change something:** change the number of words. Where is the lowest point with 1,000 words? With two?

# %% tags=["see"]
words = 10
rows = []
for smoothing in [0.0, 0.1, 0.3]:
    loss = LabelSmoothingLoss(words, pad_id=0, smoothing=smoothing)
    for gap in torch.linspace(-0.5, 14, 291):  # how far the label's logit is above the others
        logits = torch.zeros(1, 1, words, dtype=torch.float64)
        logits[0, 0, 1] = gap
        confidence = logits.softmax(dim=-1)[0, 0, 1].item()
        rows.append((f"smoothing {smoothing}", confidence, loss(logits, torch.tensor([[1]])).item()))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="probability that the model assigns to the label",
    up="loss",
    title="How confident in the label should a model be?",
    odds=True,
    mark="lowest",
)

# %% [markdown]
# Without smoothing the line falls forever. With smoothing it has a lowest point, where the model's confidence is
# exactly the label's target probability. A model that is **more confident than that is penalised**.
#
# <details><summary>What changes?</summary>
#
# With 1,000 words, the lowest points are at about 90% and 70%; with two, at 95% and 85%. These are the label's targets:
# its share of what is spread, $\varepsilon / V$, matters only in small vocabularies.
#
# </details>
#
# So the logits stop growing. How far is the label's logit above the others then? The softmax is $p_k = e^{z_k} /
# \sum_l e^{z_l}$, where $l$ runs over all words, so the ratio of two probabilities is $p_y / p_k = e^{z_y - z_k}$.

# %% predict="predict_gap"
# 10 words, smoothing 0.1, targets of 0.91 and 0.01. How far is the label's logit above each other logit
# when the loss is as low as possible?

# %% check="predict_gap"

# %% [markdown]
# ### What smoothing did in the paper
#
# Table 3 of the paper compares variants of the base model on newstest2013, a set of news sentences, from English to
# German. **BLEU**, a score from 0 to 100, measures how many words and groups of words a translation has in common with
# a reference translation (lesson 13). These are the rows about smoothing:
#
# | smoothing | perplexity (lower is better) | BLEU (higher is better) |
# |---|---|---|
# | 0.0 | 4.67 | 25.3 |
# | 0.1 | 4.92 | 25.8 |
# | 0.2 | 5.47 | 25.7 |
#
# ### Explain it
#
# A fellow student trains a translation model with a vocabulary of 8,000 words and a smoothing of 0.1, and is worried:
# "The training loss has stayed above 2.4 for hours, and the perplexity is worse than *without* smoothing. But BLEU is
# better. Something must be broken." What do you answer?

# %% [markdown] explain="explain_floor"
# This doesn't mean that anything is broken. The lowest value of the smoothed loss isn't zero but the entropy of the
# targets, about 1.2 for 8,000 words and a smoothing of 0.1. Much of the rest is real uncertainty, because often several
# words could come next. The perplexity is worse because the model was taught to keep some probability for other words,
# so it gives the correct word less than it could. BLEU doesn't look at probabilities, only at the words that are
# chosen. Those choices may well be better, because the model isn't overconfident about its training sentences.
#
# ### BEGIN MARK SCHEME
# - 1 point: the smoothed loss has a floor above zero, the entropy of the targets (about 1.2 here; the number isn't required).
# - 1 point: the model is taught to be less confident, so it gives correct words less probability: perplexity gets worse.
# - 1 point: BLEU judges the chosen words, not the probabilities (and less overconfidence may lead to better choices).
# ### END MARK SCHEME

# %% [markdown]
# ## 4. Calibration: is the confidence justified?
#
# A model predicts the word to which it gives the highest probability, and this probability is its **confidence**. The
# model is **calibrated** if 80% of all its predictions with 80% confidence are correct, and the same holds for every
# other confidence. Beam search (lesson 11) relies on this: a model that is blindly sure of its first guess leaves no
# room for another.
#
# The task is to copy six symbols, as in lesson 07, but a fifth of the target's tokens have been replaced by random
# ones, both in the sentences for training and in the new ones. The source shows the token that is *probably* correct.
# So even a perfect model is right in only about 82% of the cases, and its confidence should be no higher. (A fifth is
# random, and one in ten of those is right by chance.)
#
# There are only 200 sentences for training, so a model can **memorise** their errors. Three small Transformers, trained
# with a smoothing of 0, 0.1 and 0.3 respectively, predict the tokens of 500 new sentences. The cell takes a few
# seconds.
#
# **Change something:** train on 2,000 sentences instead of 200, or use a smoothing of 0.6. Then try no errors at all
# (`errors = 0.0`): are the smoothed models still calibrated?

# %% tags=["see"]
torch.set_num_threads(1)  # a model this small trains faster with a single thread

SYMBOLS, LENGTH, PAD, START = 12, 6, 0, 1


def noisy_copies(count: int, errors: float) -> tuple[Tensor, Tensor]:
    source = torch.randint(2, SYMBOLS, (count, LENGTH))
    replaced = torch.rand(count, LENGTH) < errors
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
errors = 0.2
source, target = noisy_copies(200, errors)
new_source, new_target = noisy_copies(500, errors)
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
# Without smoothing the points are **below** the dashed line: the model is right less often than it says. It has
# memorised errors. A little smoothing moves the points up towards the line, and a few more predictions are right as
# well. Too much smoothing moves almost all points **above** the line: the model is right more often than it says.
#
# <details><summary>What changes?</summary>
#
# With 2,000 sentences, the unsmoothed model is 82% confident and right 82% of the time: it sees each sentence too
# rarely to memorise its errors. With a smoothing of 0.6, the mean confidence is only 37%, but about three quarters of
# the predictions are right. What happens without errors is part of the question below.
#
# </details>
#
# ### Explain it
#
# In three or four sentences: how does label smoothing change a model's confidence, and why? Why did it help in the
# experiment, and in which case would it make calibration *worse*?

# %% [markdown] explain="explain_calibration"
# With hard targets the loss keeps falling as the model becomes more confident of the labels, so the logits are pushed
# apart without end, and the model ends up sure of everything it was trained on. With smoothed targets the best
# confidence is that of the targets, and going beyond it is penalised. In the experiment the labels were noisy and the
# sentences few, so the unsmoothed model memorised errors and was overconfident on new sentences; smoothing held that
# back. Where labels are certain and data plentiful, a model could rightly be almost sure, and smoothing makes it less
# confident than it should be.
#
# ### BEGIN MARK SCHEME
# - 1 point: hard targets always reward more confidence; smoothed ones have an optimum and penalise going beyond it.
# - 1 point: in the experiment the unsmoothed model was overconfident (noise, few sentences, memorising) and smoothing reduced that.
# - 1 point: it makes things worse where high confidence is justified (clean labels, plenty of data), or if the smoothing is too strong.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>Why spread evenly? "Cat" is surely more likely than "refrigerator".</summary>
#
# It is. Spreading evenly is the simplest choice: it mostly says *don't be so sure*. Better targets can come from a
# trained model that passes its whole distributions on to another one (*distillation*).
#
# </details>
#
# <details><summary>Should I use the smoothed loss for validation, too?</summary>
#
# Either will do, as long as you know which one you are looking at. In the final lab the training loss is smoothed, but
# the validation loss isn't, because its exponential should be the perplexity. So the two differ by about the floor and
# by the effect of dropout, even for a model that does equally well on old and new sentences. To see overfitting, watch
# whether the validation loss rises.
#
# </details>
#
# <details><summary>The model now gives padding some probability. Will it write padding?</summary>
#
# It learns to give padding about $\varepsilon / V$, the least that it gives to any word, so padding is never chosen.
#
# </details>
#
# <details><summary>A table of (batch, length, vocabulary) just for the targets: isn't that a waste?</summary>
#
# Yes. In each row all numbers but one are equal, so fast programs compute the same loss without the table: $(1 -
# \varepsilon)$ times the label's $-\ln p_y$, plus $\varepsilon$ times the mean of $-\ln p_k$ over all words.
#
# </details>
#
# <details><summary>Why does a row of padding get zeros, and not a target of "padding"?</summary>
#
# Otherwise the model would spend its effort on writing padding after the end, where nobody reads it, and the mean loss
# would look wonderful.
#
# </details>
#
# <details><summary>Does smoothing help against wrong labels?</summary>
#
# Somewhat. A wrong label stops pulling as soon as the model gives it its target probability (0.91, say); a hard target
# never stops. But the model doesn't find out which labels are wrong.
#
# </details>
#
# ## Further reading
#
# - Section 5.4 and table 3 of the paper; section 7 of [Szegedy et al. 2016](https://arxiv.org/abs/1512.00567), where
#   the method comes from.
# - Guo et al. 2017, [On Calibration of Modern Neural Networks](https://arxiv.org/abs/1706.04599): the plot that you
#   have just read, for large networks.
# - Pereyra et al. 2017, [Regularizing Neural Networks by Penalizing Confident Output
#   Distributions](https://arxiv.org/abs/1701.06548): a relative of label smoothing.
# - Müller, Kornblith and Hinton 2019, [When Does Label Smoothing Help?](https://arxiv.org/abs/1906.02629). One finding:
#   a smoothed model is a worse teacher for distillation.
# - Today most translation models still use a smoothing of 0.1. Most large language models use none: they see most
#   sentences only about once, so they overfit less.
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Next: **lesson 09, training**. One function combines the model, the schedule and the loss, and your own Transformer
# learns.

# %% [markdown]
# # Lesson 13: the final lab
#
# You have built all the parts. Now they learn to translate German. You train a translator on a laptop or a cluster,
# watch it learn, test an idea in an experiment, and hand in its translations of a test set that it has never seen.
#
# By the end you will be able to
#
# - choose a configuration for your machine, and estimate how long a run will take,
# - start a run that can be interrupted at any moment, and read the metrics that it writes,
# - look at the attention of a trained translator, head by head,
# - report how good it is, in a number that others can compare with theirs,
# - predict the memory and the speed of a run, then measure both,
# - test a hypothesis with several seeds, and say what the result shows and what it doesn't.
#
# **Time:** about three hours of yours, plus the time of the run. **In [the paper](https://arxiv.org/abs/1706.03762):**
# sections 5.1 to 5.4 and 6.1, and table 2.

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    heads_overview,
    layers_and_heads,
    run_progress,
    show_offline,
    watch_live,
)
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(built=finished_exercises())

# %% [markdown]
# Run the next cell.

# %% given="setup"
from pathlib import Path

import pandas as pd

from course_lib.checks import check

# %% [markdown]
# ## 1. Your run
#
# All the parts come together in one program, `course_lib.translation`. One YAML file configures it:

# %% tags=["see"]
print(Path("my_run.yaml").read_text("utf-8"))

# %% [markdown]
# ### Which configuration for which machine?
#
# You can hand in a run on the **captions** that come with the course, or on **Multi30k**, 29,000 captions of
# photographs. The other corpora need a GPU and time.
#
# | you have | start with | it takes about |
# |---|---|---|
# | a laptop with two cores | `captions` (as in `my_run.yaml`) | a few minutes |
# | a desktop, or a laptop and an evening | `multi30k-tiny`, in two processes | an hour on two cores |
# | four cores and an evening | `multi30k-simcut`: the same model, trained longer with a method from 2022 (see the common questions) | two hours |
# | a GPU | `multi30k-base` | 6 minutes (predicted) |
# | a GPU | `iwslt17`: 206,000 sentences of talks | 50 minutes (predicted) |
# | a GPU and an evening | `wmt14-base`: the paper's base model and data, English to German | 2 hours (predicted) |
# | a GPU and a night | `wmt14-big`: the paper's big model | 10 hours (predicted) |
#
# The times with a GPU are predicted from the measured speed of one H100, without the preparation of the data.
#
# **Small data needs a small model.** A model as large as the paper's base model easily overfits 29,000 captions, so
# `multi30k-tiny` has only a few million parameters. It isn't a toy: it reaches more than 41 BLEU.
#
# Compute nodes often have no internet access. On the login node, `course fetch multi30k /path/to/corpora` downloads
# the corpus; then `export COURSE_DATA=/path/to/corpora` tells the job where it is.

# %% predict="predict_minutes"
# Multi30k has 29,000 pairs, of 15 target tokens on average. A machine trains on 5,800 target tokens a second. How many
# minutes do 12 epochs take?

# %% check="predict_minutes"

# %% [markdown]
# ### How to start it
#
# Run these commands in a terminal (File, New, Terminal), in this lesson's folder. In one process:
#
# ```bash
# course train my_run.yaml
# ```
#
# In two processes on this machine, each with half of the cores or with its own GPU:
#
# ```bash
# course launch --standalone --nproc-per-node=2 -m course_lib.translation.train my_run.yaml
# ```
#
# On a cluster with the job scheduler SLURM, on one node and on two (the script next to this notebook says which lines
# to adapt):
#
# ```bash
# sbatch train.sbatch my_run.yaml
# sbatch --nodes=2 train.sbatch my_run.yaml
# ```
#
# The batches of an update are divided among all processes, so the result is the same for any number of them. (If
# there are more processes than batches in an update, the batches are made smaller, and the run says so.)
#
# A provided configuration is started by its name, and any key can be overridden on the command line:
#
# ```bash
# course train multi30k-tiny run_folder=../runs/multi30k model.dropout=0.25
# ```
#
# A run may be killed at any moment. **The same command resumes it**, and it ends with the same weights as if nothing
# had happened. (A checkpoint and the seed determine everything that follows.)
#
# ### With your own code
#
# The program can also train with your parts, from the notebooks next to this one, as they were last saved:
#
# ```bash
# course train my_run.yaml run_folder=../runs/my-own-parts --parts ..
# ```
#
# It first compares each of your parts with the reference, and prints a table of them. If a part computes something
# different, the program stops and names the part: fix it, or add `--parts-unequal=reference` to use the reference's
# instead. The program can use these parts:

# %% tags=["see"]
from course_lib.curriculum import public_curriculum

for lesson, parts in public_curriculum().parts.items():
    print(f"{lesson}: {', '.join(parts)}")

# %% [markdown]
# Everything else is the program's own, for example `train_step`, the functions from lesson 10, and four of the six from
# lesson 12. The reasons: its training loop must resume exactly after an interruption, its data pipeline must handle
# corpora that don't fit into memory, and it connects the processes with PyTorch's `DistributedDataParallel`.
#
# ### See it: a small run, live
#
# First, a run that takes half a minute on an idle machine: `captions-small`, a single layer with 64 features, for three
# epochs. It runs in a separate process, and this cell draws the metrics that the run writes to its file
# `metrics.jsonl`. (After twenty seconds the cell ends; if the run hasn't finished, the cells below wait for it.)
#
# These are the most important columns of `metrics.jsonl`:
#
# | column | what it is |
# |---|---|
# | `loss`, `validation_loss` | nats per target token; the training loss includes label smoothing (lesson 08), the validation loss doesn't |
# | `lr` | the learning rate |
# | `tokens_per_second` | **throughput**: real target tokens, without padding |
# | `padded` | the share of all positions that is padding |
# | `mfu` | *model FLOPs utilisation*: the floating-point operations (FLOPs) of the model's matrix products per second of the run, as a share of what the machine can do |
# | `memory_gib` | the peak memory of any process so far |
# | `bleu`, `test_bleu` | BLEU on the validation and the test split, explained in section 3 |
#
# What happens to the validation loss? It is *below* the training loss, although its sentences are new to the model:
# which row of the table explains that? (With dropout there would be a second reason, as in lesson 09, but this run
# uses none.)
#
# **Change something:** add a setting: `BackgroundRun.start("captions-small", "../runs/small",
# "training.warmup_steps=400", restart=True)`. Then use `training.lr_factor=4` instead.
# (Afterwards remove the setting and run the cell again: until your own run has ended, sections 2 and 3 use this one.)

# %% tags=["see"]
from course_lib.translation.train.monitoring import BackgroundRun, rows_so_far

small = BackgroundRun.start("captions-small", "../runs/small", restart=True)
watch_live(lambda: run_progress(small.rows()), lambda: small.running, status=small.last_line, timeout=20)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# With a warm-up of 400 updates, the learning rate rises until the end, because the run has only 315 updates. An
# `lr_factor` of 4 is too high: in our run, the validation loss ended at 2.1 instead of 0.6.
#
# </details>
#
# ### See it: your run, live
#
# First change a setting in `my_run.yaml` that affects what the model learns, for a reason that you can give: a run with
# a provided configuration earns nothing (section 6). Then start your run in a terminal.
#
# This cell draws what the run has written so far. If your run is in another folder, change `RUN`: the rest of the
# lesson, and the hand-in, use this folder. Set `WATCH = True` to redraw the picture every few seconds until the run has
# ended, or until you press the stop button above (which stops the watching, not the run). Set `WATCH` back before you
# validate.
#
# How to read the curves:
#
# - A loss that stays at the logarithm of the vocabulary size: nothing is learned.
# - A loss that falls and then jumps up: the learning rate is too high.
# - A validation loss that rises while the training loss falls: **overfitting**.

# %% tags=["see"]
RUN = Path("../runs/my-run")
WATCH = False


def finished():
    return any("test_bleu" in row for row in rows_so_far(RUN))


watch_live(
    lambda: run_progress(rows_so_far(RUN), title=f"The run in {RUN}"),
    lambda: WATCH and not finished(),
    status=lambda: "finished" if finished() else "not finished yet",
    every=3.0,
)

# %% [markdown]
# ## 2. What has it learned?
#
# From here on, the cells use your run if it has ended, and the small one otherwise. When your run ends, run the cells
# from here on again. If you load another model below, load `chosen` again afterwards: section 3 uses `translator`, too.
#
# ### See it: your own sentences
#
# **Change something:** write sentences of your own. Try words that the model has never seen, a sentence without a verb,
# and a long one. What happens if a sentence isn't a caption?
#
# The course also comes with a model that was trained on Multi30k, so it knows more words. To try it, write
# `which = "multi30k"`. To translate into German with it, run `course translate multi30k --to german` in a terminal.

# %% tags=["see"]
from course_lib.translation.decoding.translator import load_translator

small.wait()
chosen = RUN if finished() else small.folder
which = chosen
translator = load_translator(which)
sentences = [
    "Ein Mann mit einem roten Hut liest ein Buch.",
    "Zwei Kinder spielen im Park.",
    "Die Frau, die am Fenster steht, winkt einem Hund zu.",
]
print(f"the translator of {which}\n")
for sentence, translation in zip(sentences, translator.translate(sentences), strict=True):
    print(f"reads:  {sentence}\nwrites: {translation}\n")

# %% [markdown]
# <details><summary>What changes?</summary>
#
# Unknown words are replaced by others, and a long sentence loses parts. *Ein roter Hut.* works without a verb. What
# isn't a caption becomes a wrong caption or nonsense: the provided model turns *Ich liebe dich.* into *It is the same
# time.*
#
# </details>
#
# ### See it: all of its attention
#
# Here is what you have built since lesson 01, at work: the weights of every layer and every head, while one sentence is
# translated. Choose the layer and the head in the lists below each picture. A `+` marks a piece that continues a word:
# *weil* may appear as `wei` and `+l`. `(space)` is a space that became a piece of its own. (The provided model's second
# token, `<to-english>`, tells it which language to translate into.)
#
# Look for a head that always attends to the previous word, a head that attends to the end token when it has nothing
# to do, and verbs that attend to their subjects. In cross-attention, each row says which word the decoder **reads**
# there and, after the arrow, which one it **writes** next. For which of the two does it look up the German word? And
# do the dark cells leave the diagonal where German and English differ in their word order?
#
# In the sentence below, *er* ("he") refers to the dog. Load the provided model as described above, and find the row
# `er` of the first picture: in which layer and head does `Hund` get the most weight (hover over its cell), and what
# else does *er* attend to? Then replace *Ein kleiner Hund* with *Eine kleine Katze* and *er* with *sie*: is it the same
# head?
#
# **Change something:** use your own sentence. Then supply an English one, too, even a wrong one:
# `translator.attention(sentence, "A dog is sleeping.")`. What does cross-attention do with a translation that doesn't
# belong to its source?

# %% tags=["see"]
sentence = "Ein kleiner Hund schläft, weil er müde ist."
maps = translator.attention(sentence)
print("writes:", " ".join(maps.predicted_tokens))
layers_and_heads(
    maps.encoder_self,
    maps.source_tokens,
    maps.source_tokens,
    title="Encoder self-attention: German attends to German",
)

# %% tags=["see"]
layers_and_heads(
    maps.decoder_self,
    maps.target_tokens,
    maps.target_tokens,
    title="Decoder self-attention: English attends to the English before it",
)

# %% tags=["see"]
reads_and_writes = [
    f"{read} → {written}" for read, written in zip(maps.target_tokens, maps.predicted_tokens, strict=True)
]
layers_and_heads(
    maps.cross,
    reads_and_writes,
    maps.source_tokens,
    title="Cross-attention: English attends to German",
)

# %% [markdown]
# Did you find a head for *er*? In the provided model it is head 3 of layer 2 both times, but *Hund* gets only 3% of the
# weight there, and *Katze* 6%. To write *he* or *she*, the model doesn't have to know which noun the pronoun refers
# to. (The captions of the course don't contain *er* at all.)
#
# <details><summary>What changes?</summary>
#
# A row depends only on the source and on what the decoder has read so far, not on the word that it writes next. With
# the source *Zwei Kinder spielen im Park.*, the translation *A dog is sleeping.* and the provided model, the row that
# writes *sleeping* attends to *spielen* in three of the four heads of layer 3.
#
# </details>
#
# Here are all heads of the cross-attention side by side. Which of them find the German word for each English one, and
# which spread their weight?
#
# **Change something:** draw `maps.encoder_self`, with `maps.source_tokens` twice. In which layer of the provided model
# do words attend mostly to themselves?

# %% tags=["see"]
heads_overview(maps.cross, reads_and_writes, maps.source_tokens)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# In layer 1. With the sentence above, a token there gives itself about three quarters of its weight (the mean of the
# four heads), but only about a fifth in layers 2 and 3.
#
# </details>
#
# ## 3. How good is it?
#
# **BLEU** (Papineni et al. 2002) compares translations with reference translations by people. It computes what share of
# the translations' words, and of their groups of two, three and four adjacent words, also occurs in the references.
# Each word or group counts at most as often as it occurs in the reference, so "the the the" scores badly. BLEU is the
# geometric mean of the four shares, multiplied by a penalty if the translations are too short overall. For a single
# sentence it says little. A score of 100 would mean that every translation equals its reference word for word, which no
# human translator achieves.
#
# BLEU varies by several points with how the text is split into words and whether case matters, so a score without
# this information is worthless. `sacrebleu` (Post 2018, [arXiv 1804.08771](https://arxiv.org/abs/1804.08771)) takes
# plain text, splits it itself, and prints a **signature**. Scores on the same test set with the same signature can be
# compared.
#
# ### See it: greedy, beam, averaged
#
# Here the same run translates greedily and with a beam of 4. It does both with the last weights, with those of the best
# validation result, and with the average of the last snapshots (copies of the weights, which a run keeps if
# `training.average_last` is above 0).
#
# The cell uses the first 300 sentences of the validation split, because the test split is for the end. How large are
# the differences? How fast is each way? (The first row also includes the time of starting up. If the last epoch was the
# best, the rows `last` and `best` are equal.)
#
# **Change something:** use beams of 2 and 8. Then use an alpha of 0, and of 2: add `alpha=0.0` to the arguments of
# `translate`.

# %% tags=["see"]
import time

from course_lib.translation.configs.loader import load_config
from course_lib.translation.data.corpora import load_corpus
from course_lib.errors import BadInputError
from course_lib.translation.train.scoring import score

some = 300
validation = load_corpus(load_config(str(chosen / "config.yaml")).data).validation
rows = []
for weights in ["last", "best", "averaged"]:
    try:
        model = load_translator(chosen, weights)
    except BadInputError:
        continue  # this run keeps none
    for beam in [1, 4]:
        start = time.perf_counter()
        texts = model.translate(validation.german[:some], beam=beam)
        seconds = time.perf_counter() - start
        bleu = score(texts, validation.english[:some])
        rows.append(
            {
                "weights": weights,
                "beam": beam,
                "BLEU": round(bleu.bleu, 1),
                "sentences a second": round(some / seconds),
            }
        )
print(bleu.signature)
pd.DataFrame(rows)

# %% [markdown]
# The small run is unsure of many words, so it usually gains several points from a beam and from averaging. For a
# confident model the differences are smaller, and lesson 11 showed why a beam can even lose. Averaging loses if the
# snapshots reach back to a time when the model was much worse, as in a short run. Neither makes training slower, so
# try both.
#
# From a terminal, a run translates whole files:
#
# ```bash
# course translate ../runs/my-run german.txt --beam 5 --output english.txt
# ```
#
# ### What the paper achieved
#
# Here are some rows of the paper's table 2. These are scores on the test sets of WMT 2014, so you can't compare them
# with those of a run on captions. (For French, the text of section 6.1 still has 41.0, from an earlier version.)
#
# | model | BLEU, English to German | BLEU, English to French | training cost (operations) |
# |---|---|---|---|
# | ByteNet (convolutions) | 23.75 | | |
# | GNMT + RL (recurrent) | 24.6 | 39.92 | 2.3e19 (de), 1.4e20 (fr) |
# | ConvS2S (convolutions) | 25.16 | 40.46 | 9.6e18 (de), 1.5e20 (fr) |
# | ConvS2S, several models together | 26.36 | 41.29 | 7.7e19 (de), 1.2e21 (fr) |
# | **Transformer, base** | 27.3 | 38.1 | 3.3e18 |
# | **Transformer, big** | 28.4 | 41.8 | 2.3e19 |
#
# Into German, the base model was better than all earlier models, including combinations of several, at a fraction of
# their cost. The 3.3e18 is the training time, multiplied by the number of GPUs and the speed of a GPU: eight NVIDIA
# P100s, each with about 9.5e12 operations per second (section 5.2 and footnote 5). The base model took 12 hours
# (100,000 steps of about 0.4 seconds), the big one 3.5 days (300,000 steps of 1.0 seconds). The steps add up to
# slightly less, because the paper rounds its numbers.

# %% tags=["see"]
for name, hours, seconds, steps in [("base", 12, 0.4, 100_000), ("big", 3.5 * 24, 1.0, 300_000)]:
    print(
        f"{name:5} {steps:,} steps take {steps * seconds / 3600:.1f} hours; "
        f"{hours:g} hours on 8 GPUs are {hours * 3600 * 8 * 9.5e12:.1e} operations"
    )

# %% [markdown]
# The data were 4.5 million sentence pairs for German and 36 million for French, in batches of about 25,000 source and
# 25,000 target tokens (section 5.1).
#
# ### See it: where does it go wrong?
#
# Here are the ten worst translations, judged by chrF, another score of `sacrebleu`. It compares groups of characters,
# so it says something about single sentences, too.

# %% tags=["see"]
from sacrebleu import sentence_chrf

texts = translator.translate(validation.german[:some])
worst = sorted(
    zip(validation.german, texts, validation.english, strict=False),
    key=lambda one: sentence_chrf(one[1], [one[2]]).score,
)
for german, written, right in worst[:10]:
    print(f"reads:     {german}\nwrites:    {written}\nreference: {right}\n")

# %% [markdown]
# ## 4. What does it cost?
#
# Before you start a run that takes all night, you want to know whether it fits into memory, what its time is spent on,
# and whether more processes would help. Write down your predictions first; they aren't graded.
#
# ### Predict: memory
#
# While a model is trained, four kinds of tensors take up most of the memory: its **weights**, a **gradient** for each
# weight, the **optimiser's** state (Adam's two running means, lesson 07), and the **activations**: the results of the
# forward pass that the backward pass needs again. A float32 number takes 4 bytes.
#
# The next cell adds up the tensors of each kind, for a model as large as the one that `captions` configures.
#
# 1. How many bytes does each weight cost, without the activations? (A MiB is $2^{20}$ bytes.)
# 2. Which of the four grows if a batch has twice as many sentences?
# 3. A batch of 64 sentences of 16 words and one of 4 sentences of 256 words have the same number of words. Do they
#    need the same memory?

# %% tags=["see"]
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.optim import Adam
from torch.optim.lr_scheduler import LambdaLR

from course_lib.transformer import (
    LabelSmoothingLoss,
    Transformer,
    TransformerConfig,
    tie_embeddings,
    train_step,
)

VOCABULARY = 2000
SIZES = TransformerConfig(layers=2, d_model=128, heads=4, d_ff=512)

torch.manual_seed(0)
model = tie_embeddings(Transformer(VOCABULARY, VOCABULARY, SIZES))
weights = list(model.parameters())
adam = Adam(weights, lr=1e-4)
loss, scheduler = LabelSmoothingLoss(VOCABULARY, 0), LambdaLR(adam, lambda done: 1.0)


def one_update(sentences, words):
    source, target = torch.randint(1, VOCABULARY, (2, sentences, words))
    train_step(model, loss, [(source, target)], adam, scheduler)


def mib(tensors, without=()):
    """The memory of tensors in MiB. Tensors that share their numbers, such as views, count once."""
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}
    for each in without:
        storages.pop(each.untyped_storage().data_ptr(), None)
    return sum(storages.values()) / 2**20


def memory_of(sentences, words):
    saved = []
    with saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        one_update(sentences, words)
    return {
        "sentences": sentences,
        "words": words,
        "weights": mib(weights),
        "gradients": mib(weight.grad for weight in weights),
        "optimiser": mib(mean for state in adam.state.values() for mean in state.values()),
        "activations": mib(saved, without=weights),
    }


print(f"{sum(weight.numel() for weight in weights):,} weights; memory in MiB:")
pd.DataFrame([memory_of(*shape) for shape in [(32, 16), (64, 16), (4, 256)]]).round(1)

# %% [markdown]
# Weights, gradients and the two means take 4 + 4 + 8 = **16 bytes for each weight**, whatever the batch is. The 63
# million weights of the base model (lesson 06) need about 1 GB.
#
# The activations grow with the number of words. For the same number of words, long sentences need more memory than
# short ones, because every head keeps an attention weight for each *pair* of words: a sentence of 256 words has
# 16 · 16 = 256 times as many pairs as one of 16 words. With a sixteenth as many sentences, that is 16 times as many
# pairs in total. (Most activations don't depend on the pairs, so all of them together need less than twice as much.)
#
# If memory runs out, make the batches smaller and accumulate gradients (lesson 09). Apart from dropout's random choices,
# the update stays the same.
#
# On a GPU, a run makes such an estimate before it starts, and stops with an error if the memory won't be enough.
# `memory_gib` is the measured peak. For the base model and batches of 27,200 tokens, the estimate is 8.0 GiB, and the
# peak on an H100 was 7.5 GiB. (Without a GPU, `memory_gib` is the peak of the whole process, including Python and
# PyTorch.)
#
# ### Predict: where the time goes
#
# `mfu` says how much of the machine's speed in matrix products a run achieves. A **profiler** shows what the rest of
# the time is spent on: it records every operation during a few updates. Which operations take the most time, and what
# share is left for everything except matrix products?

# %% tags=["see"]
import os

from torch.profiler import ProfilerActivity, profile

os.environ["KINETO_LOG_LEVEL"] = "6"  # the profiler's own messages are not needed here
UPDATES = 3
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for _ in range(UPDATES):
        one_update(32, 16)
operations = pd.DataFrame(
    [
        {
            "operation": each.key,
            "calls in an update": each.count / UPDATES,
            "milliseconds": each.self_cpu_time_total / 1000 / UPDATES,
        }
        for each in profiler.key_averages()
    ]
).sort_values("milliseconds", ascending=False)
operations["share"] = operations["milliseconds"] / operations["milliseconds"].sum()
products = operations["operation"].isin(["aten::mm", "aten::addmm", "aten::bmm"])
print(f"matrix products: {operations.loc[products, 'share'].sum():.0%} of the time")
operations.head(12).round(3)

# %% [markdown]
# `mm` is a product of two matrices, `addmm` one with a bias added (a linear layer), and `bmm` a product for each
# sentence and head (attention). Most calls to `mm` come from the backward pass of the linear layers. The milliseconds
# of a row don't include the operations that it calls in turn.
#
# The rest consists of many short operations: the optimiser's additions and roots, softmax, dropout, copies. With a
# model this small they take a large part of the time. (The profiler adds a little to each operation, so it overstates
# the short ones.) The model here is the reference from the lessons. `course train` merges what it can: one product
# for query, key and value in self-attention, one operation for LayerNorm, and one for the loss.
#
# With `training.profile=5`, a run profiles itself. Its folder then has `profile/operations.txt`, a table like this one,
# and `profile/trace.json`, a timeline: open `ui.perfetto.dev`, or `chrome://tracing` in Chrome, and load the file. Each
# bar is an operation. A gap in a CPU's row is time outside all operations, usually Python's. In a gap in a GPU's row
# the GPU was idle, usually because Python hadn't started the next operation yet.
#
# Such gaps add up. On an H100, an update of the base model with 27,200 tokens took 51 milliseconds: as long as Python
# needed to start its 1,100 operations, although the GPU could have computed them in about 40. A batch with twice as
# many tokens has only slightly more operations. With such batches, training was 1.3 times as fast.
#
# ### Predict: two processes, four processes
#
# How much faster is a run with two processes than with one, on your machine? And with four? The next cell measures
# it, with four batches in each update and one thread for each process. It takes half a minute on an idle machine.


# %% tags=["see"]
def tokens_per_second(processes):
    run = BackgroundRun.start(
        "captions",
        f"../runs/scaling-{processes}",
        "data.train_pairs=2000",
        "training.batches_per_update=4",
        "training.threads=1",
        "training.log_every=5",
        processes=processes,
        restart=True,
    )
    # The first row also counts the time of starting up.
    while run.running and sum("tokens_per_second" in row for row in run.rows()) < 4:
        time.sleep(0.2)
    run.stop()
    speeds = [row["tokens_per_second"] for row in run.rows() if "tokens_per_second" in row]
    return max(speeds[1:], default=float("nan"))


scaling = pd.DataFrame({"processes": [1, 2, 4]})
scaling["tokens a second"] = [tokens_per_second(count) for count in scaling["processes"]]
scaling["speed-up"] = scaling["tokens a second"] / scaling["tokens a second"][0]
scaling["efficiency"] = scaling["speed-up"] / scaling["processes"]
print(f"this machine has {os.cpu_count()} logical CPUs")
scaling.round(2)

# %% [markdown]
# The **speed-up** is the throughput divided by that of one process, and the **efficiency** is the speed-up divided by
# the number of processes. The efficiency is usually below 1, for three reasons. At the end of an update all processes
# wait for the slowest. They exchange gradients, 4 bytes for each weight, which takes the same time however few batches
# each process had. And they share the machine's memory bandwidth and, if there are more processes than cores, the cores.
#
# `DistributedDataParallel` begins the exchange while the backward pass is still computing the other gradients, as
# your `GradientBuckets` did in lesson 12. How much of the exchange this hides depends on the network, so measure with
# two GPUs before you ask for eight.
#
# ## 5. An experiment
#
# Papers say that one setting is better than another. Is that true of your data? Find out as a researcher would: write
# down a **hypothesis** first, change **one** thing, and repeat each run with several seeds, because scores also differ
# from seed to seed. Choose one of these ten experiments:
#
# | experiment | setting A | setting B |
# |---|---|---|
# | `norm` | `model.norm_first=false` | `model.norm_first=true` |
# | `warmup` | `training.warmup_steps=10` | `training.warmup_steps=200` |
# | `smoothing` | `training.label_smoothing=0.0` | `training.label_smoothing=0.1` |
# | `heads` | `model.heads=1` | `model.heads=4` |
# | `tied` | `model.tie_embeddings=false` | `model.tie_embeddings=true` |
# | `dropout` | `model.dropout=0.0` | `model.dropout=0.2` |
# | `batch` | `training.batches_per_update=1` | `training.batches_per_update=4` |
# | `vocabulary` | `data.vocab_size=500` | `data.vocab_size=2000` |
# | `data` | `data.train_pairs=1500` | `data.train_pairs=6000` |
# | `search` | greedy decoding, or a beam without a length penalty | a beam of 4 with one |
#
# For each setting, start three runs or more, with the seeds 1, 2 and 3. On two idle cores a run takes about half a
# minute:
#
# ```bash
# course train captions run_folder=../runs/trial/A-1 seed=1 model.layers=1 training.epochs=3 model.norm_first=false
# course train captions run_folder=../runs/trial/B-1 seed=1 model.layers=1 training.epochs=3 model.norm_first=true
# ```
#
# - `heads`: both settings have the same number of parameters.
# - `vocabulary`, `data`: compare only BLEU. With other subwords, the loss of a token means something else. In `data` the
#   subwords differ too: they are learned from the training pairs.
# - `warmup`: with a warm-up of 10, the peak rate is also 4.5 times as high (lesson 07). Say so in your conclusion, or
#   give A the same peak as B: `training.lr_factor=0.134`. (From update 74 on, its rate is then below B's.)
# - `smoothing`: compare BLEU as well. The validation loss is not smoothed, so it favours the model that was trained
#   without smoothing (lesson 08).
# - `data`, `batch`: write `training.epochs=40 training.updates=230` instead of `training.epochs=3`. A run ends at
#   whichever comes first, so both settings make 230 updates. For `batch`, B then reads four times as many sentences:
#   say so in your conclusion, or compare equal numbers of sentences instead, with `training.epochs=3` for both.
# - `search`: three runs are enough, because the same weights are decoded in two ways. Call them `A-1` to `A-3`, and set
#   `SEARCH` below.
#
# The cell below reads all runs in `../runs/trial`, whose folders are named after the setting and the seed.

# %% tags=["see"]
EXPERIMENT = Path("../runs/trial")
SEARCH = {}  # for the experiment `search`: {"A": {"beam": 1}, "B": {"beam": 4, "alpha": 1.0}}
found = []
for folder in sorted(path for path in EXPERIMENT.glob("*-*") if path.is_dir()):
    setting, _, seed = folder.name.rpartition("-")
    rows = rows_so_far(folder)
    losses = [row["validation_loss"] for row in rows if "validation_loss" in row]
    bleus = [row["bleu"] for row in rows if "bleu" in row]
    if losses and bleus:
        found.append(
            {"setting": setting, "seed": seed, "validation loss": losses[-1], "validation BLEU": bleus[-1]}
        )
if SEARCH:
    captions = load_corpus(load_config("captions").data).validation
    folders = {row["seed"]: EXPERIMENT / f"A-{row['seed']}" for row in found if row["setting"] == "A"}
    found = [
        {"setting": setting, "seed": seed, "validation BLEU": score(texts, captions.english).bleu}
        for setting, search in SEARCH.items()
        for seed, folder in folders.items()
        for texts in [load_translator(folder).translate(captions.german, **search)]
    ]
runs = pd.DataFrame(found, columns=["setting", "seed", "validation loss", "validation BLEU"])
print(runs.to_string(index=False) if found else f"there are no finished epochs in {EXPERIMENT} yet")
if found:
    for measure in ["validation loss", "validation BLEU"]:
        if runs[measure].notna().any():
            print(f"\n{measure}, seed by seed:")
            print(runs.pivot(index="seed", columns="setting", values=measure).to_string())
summary = runs.groupby("setting")[["validation loss", "validation BLEU"]].agg(["count", "mean", "min", "max"])
summary.round(3) if found else None

# %% [markdown]
# The picture shows the spread, a dot for each run. (If you compare BLEU, as in `search`, `vocabulary` and `data`, set
# `MEASURE = "validation BLEU"`.)

# %% tags=["see"]
import altair as alt

MEASURE = "validation loss"
spread = alt.Chart(runs, description=f"The {MEASURE} of each run, by setting").mark_circle(size=90)
spread = spread.encode(
    x=alt.X(f"{MEASURE}:Q", scale=alt.Scale(zero=False)),
    y="setting:N",
    tooltip=["seed:N", "validation BLEU:Q"],
).properties(width=480, height=120, title="How far apart are the settings, and how far apart are the seeds?")
spread if found else "There is nothing to draw before the first run has finished an epoch."

# %% [markdown]
# Except in `vocabulary` and `data`, runs with the same seed read their batches in the same order. So compare them seed by
# seed as well: which setting wins with seed 1, with seed 2, with seed 3? If the settings were equally good, one of them
# would still win with all three seeds in 1 of 4 cases, and with all six in 1 of 32. A run takes half a minute, so you can
# afford six.
#
# ### Explain it
#
# Write a report of about fifteen lines. State your **hypothesis**, with its reason, as you had it before the first run.
# Say **what you did**: the two settings, what you kept the same, the number of seeds. Show a **table** of the results,
# and describe what the picture shows, with the spread over the seeds. End with a **conclusion**: is the difference
# larger than the spread? What can you claim, and what can't you?

# %% [markdown] explain="explain_experiment"
# (An example, with the numbers of real runs on two cores.)
#
# **Hypothesis.** Pre-norm has the lower validation loss after three epochs, because its gradients reach the lower
# layers undamped, so it should learn faster at the start.
#
# **What I did.** I trained `captions` with `model.layers=1 training.epochs=3`, which is 237 updates, with
# `model.norm_first=false` (A) and `true` (B), and the seeds 1 to 6 for each. Everything else was as in `captions`:
# 128 features, 4 heads, a dropout of 0.1, a warm-up of 200 updates.
#
# **Results.**
#
# | seed | validation loss, A | validation loss, B | BLEU, A | BLEU, B |
# |---|---|---|---|---|
# | 1 | 0.485 | 0.518 | 71.0 | 70.8 |
# | 2 | 0.542 | 0.609 | 70.0 | 65.8 |
# | 3 | 0.505 | 0.559 | 68.8 | 67.7 |
# | 4 | 0.603 | 0.614 | 66.5 | 65.6 |
# | 5 | 0.531 | 0.546 | 70.6 | 69.8 |
# | 6 | 0.547 | 0.586 | 70.2 | 67.5 |
# | mean | 0.535 | 0.572 | 69.5 | 67.9 |
#
# In the picture the two groups overlap almost completely: A is between 0.485 and 0.603, B between 0.518 and 0.614.
# But with each seed A has the lower loss, by 0.011 to 0.067, and the higher BLEU.
#
# **Conclusion.** The runs contradict my hypothesis. The difference of the means, 0.037, is much smaller than the
# spread over the seeds, about 0.1, so comparing the two groups of dots decides nothing. The seeds affect both
# settings alike, however, because a seed fixes the order of the batches for both. If neither setting were better, one
# of them would win with all six seeds in only 1 of 32 cases, so I believe that A is better for this model, these data
# and three epochs. The runs don't say that post-norm is better in general: the model has one layer, and the advantage
# of pre-norm is reported for deep ones. And 200 of the 237 updates were warm-up, which helps post-norm more than
# pre-norm. With a short warm-up the result may be the opposite.
#
# ### BEGIN MARK SCHEME
# - 1 point: a hypothesis with a reason, which could turn out wrong.
# - 1 point: two settings that differ in one thing, the rest stated, and at least three seeds of each.
# - 1 point: the results of all runs, one by one, in a table or a list.
# - 1 point: the spread over the seeds: the range of each setting, or whether the two groups overlap.
# - 1 point: a conclusion that compares the difference with the spread. A hypothesis that was refuted earns as much as
#   one that was confirmed.
# - 1 point: something that the runs don't show, with its reason.
# - No points if no run was made, or if the numbers can't come from real runs (for example, equal for all seeds).
#
# The report above, marked: 6 of 6 points. *Hypothesis*, 1 of 1: it names a direction and a reason, and was refuted.
# *Settings*, 1 of 1: one key differs, what was equal is stated, six seeds each. *Table*, 1 of 1: all twelve runs.
# *Spread*, 1 of 1: the smallest and largest value of each setting, and the overlap. *Comparison*, 1 of 1: 0.037 against
# 0.1. (The comparison seed by seed is good, and not required.) *Limits*, 1 of 1: depth and warm-up, each with its
# reason.
#
# The same report with the conclusion "Post-norm is better, because 0.535 is less than 0.572" would get 4 of 6: it loses
# the point for the comparison with the spread, and the one for what the runs don't show. With the two means in place of
# the table and the picture it would get 2 of 6.
# ### END MARK SCHEME

# %% [markdown]
# ## 6. Hand it in
#
# Three files of your run are handed in with this notebook: `config.yaml`, `metrics.jsonl`, and `translations.txt`,
# its translations of the **test split**, one per line. The cell below copies them here. The grader scores the
# translations against the references.
#
# **The run must be your own**: a provided configuration without changes, such as that of the small run above, earns
# nothing. Change at least one setting that affects what the model learns, for a reason that you can give, perhaps from
# your experiment. Another seed or folder doesn't count.
#
# | at least this BLEU on the captions | or this BLEU on Multi30k (test 2016) | points |
# |---|---|---|
# | 30 | 15 | 2 |
# | 60 | 25 | 4 |
# | 80 | 32 | 6 |
# | 86 | 36 | 8 |
#
# The provided configurations `captions` and `multi30k-tiny` reach the last row, and will usually still reach it after
# a small change. A better score earns no more points.

# %% tags=["see"]
for name in ["config.yaml", "metrics.jsonl", "translations.txt"]:
    if finished() and (RUN / name).is_file():
        Path(name).write_bytes((RUN / name).read_bytes())
        print(f"{name} has been copied here.")
    else:
        print(f"{name}: the run in {RUN} has not finished, so there is nothing to copy yet.")

# %% [markdown]
# Is the configuration your own?

# %% check="hand_in_config"

# %% [markdown]
# Are the metrics those of a finished run, with a loss that falls?

# %% check="hand_in_metrics"

# %% [markdown]
# And how good are the translations? In your own notebook this shows the score if the references are on this machine:
# always for the captions, and for Multi30k if you have its files.

# %% check="hand_in_translations"

# %% [markdown]
# ### Explain it
#
# Describe your run in about ten lines, as in a report. Which configuration did you use, on what machine, and why? What
# did the curves show? What is the score, with its signature, and what would you compare it with? Then take one
# sentence that your translator gets wrong: what is wrong, what does its cross-attention look like there, and what
# would you try?

# %% [markdown] explain="explain_run"
# (An example.) I trained `captions` on a laptop with two cores: 2 layers, 128 features, 8 epochs, about three minutes.
# I changed the warm-up from 200 to 300 updates, because the loss of an earlier run jumped once at its peak rate. The
# loss fell quickly at first and then slowly, while the learning rate was still warming up (300 updates are almost four
# epochs). The validation loss fell until the end, so a few more epochs might still help. It is below the training loss,
# because it is measured without dropout and without smoothing. Throughput was about 6,000 target tokens per second,
# with 5% padding. BLEU is 90 on the 300 test captions (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0).
# That compares only with other runs on these captions: the sentences come from a grammar, so they are far easier than
# Multi30k. One mistake: "carrying a cap" for "wearing a wool cap". "Wollmütze" is rare and split into four subwords;
# when the model writes "cap", cross-attention looks at the first of them and barely at "trägt", which means carry or
# wear. More examples of the word, or a model with more layers, might help; I would first check whether the right
# translation is second in the beam.
#
# ### BEGIN MARK SCHEME
# - 1 point: configuration and machine, with a reason for the choice.
# - 1 point: the curves are interpreted and not only named (warm-up, gap between training and validation, where it levels off).
# - 1 point: a score with what is needed to compare it (corpus, split, cased or not, signature), and a sensible comparison.
# - 1 point: one mistake, with what the attention shows and an idea that fits it.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>My run resumes, but I wanted it to start from scratch.</summary>
#
# A run whose folder contains checkpoints is resumed. Use another `run_folder`, or delete the old one. If you changed a
# key that affects the weights, the program refuses to resume the run, and says which key it is.
#
# </details>
#
# <details><summary>Are two processes on my laptop faster than one?</summary>
#
# For a small model, yes: on two cores, `multi30k-tiny` trained a third faster. The threads of one process share every
# single matrix product, and those of a small model are too small for that to pay off; two processes have a batch
# each, and synchronise once per update. The larger the model, the smaller the gain. Running two processes is also a
# way to test on a laptop what will run on a cluster.
#
# </details>
#
# <details><summary>What is SimCut?</summary>
#
# In each update, the model also reads a copy of each sentence in which some tokens are blanked out, and learns to make
# the same predictions for both ([Gao et al. 2022](https://arxiv.org/abs/2206.02368)). Small data then lasts for more
# epochs before the model overfits.
#
# </details>
#
# <details><summary>Can a run start from the weights of another one?</summary>
#
# Yes: `training.init_from=../runs/multi30k` takes that run's weights and vocabulary, and everything else starts from
# scratch. So you can train on a lot of text first, and then on a little of the kind that you need, which is called
# **fine-tuning**. The two models must have the same sizes.
#
# </details>
#
# <details><summary>Can several runs translate together?</summary>
#
# Yes, as an ensemble: `course translate ../runs/one german.txt --with ../runs/two`. For each next word the
# probabilities of the models are averaged. Models with different random weights are wrong in different places: two runs
# of `multi30k-tiny` with 41.9 and 41.5 BLEU, which differ only in their seed, reach 42.9 together, at the cost of
# running both. Their sizes may differ, but not their vocabularies, because an id must mean the same word in each.
#
# </details>
#
# <details><summary>Why doesn't the update get larger with more processes?</summary>
#
# Because then it would be a different update, with a different best learning rate, and two runs couldn't be compared.
# If you want larger updates on more processes, increase `training.batches_per_update`.
#
# </details>
#
# <details><summary>Is attention an explanation of what the model does?</summary>
#
# It says where a head takes something from, but not what it takes, nor what becomes of it. From the second layer on,
# a position contains more than its own word. Test it: change the word and see what happens.
#
# </details>
#
# ## Further reading
#
# - Post 2018, [A Call for Clarity in Reporting BLEU Scores](https://arxiv.org/abs/1804.08771).
# - Sennrich and Zhang 2019, [Revisiting Low-Resource Neural Machine Translation](https://arxiv.org/abs/1905.11901): how
#   settings should change when there is little data.
# - Other implementations to compare with yours: [Marian](https://marian-nmt.github.io),
#   [fairseq](https://github.com/facebookresearch/fairseq), [OpenNMT](https://opennmt.net),
#   [Sockeye](https://github.com/awslabs/sockeye), and the paper's own,
#   [Tensor2Tensor](https://github.com/tensorflow/tensor2tensor).
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# You have built a Transformer from scratch, and it translates.
#
# Where to go from here? Your own corpus (`data.corpus: folder`), another language, the paper's big model. Or read the
# reference in `course_lib/transformer/`, nearly all of which you have built yourself.

# %% [markdown]
# # Lesson 13: the final lab
#
# All parts are there. In this lesson they learn German: you train a translator, on whatever machine you have, from a
# laptop to a cluster, watch it while it learns, ask it for sentences of your own, look into its head while it answers,
# and hand in what it makes of a test set that it has never seen.
#
# At the end of it you can
#
# - choose sizes for the machine that you have, and say beforehand how long a run will take,
# - start a run that can be killed at any moment, and read what it says of itself,
# - look at the attention of a trained translator, head by head,
# - say how good it is, in a number that others can compare with theirs.
#
# **Time:** about three hours of yours, and the run's own. **In the paper:** sections 5.1 to 5.4 and 6.1 of
# Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762).

# %% tags=["see"]
from course_lib.charts import (
    architecture_map,
    exercises_through,
    layers_and_heads,
    run_progress,
    show_offline,
    watch_live,
)

show_offline()
architecture_map(built=exercises_through(12))

# %% [markdown]
# Run the next cell once.

# %% given="setup"
from pathlib import Path

import pandas as pd

from course_lib.checks import check

# %% [markdown]
# ## 1. Your run
#
# What you have built in thirteen lessons is also a program, `course_lib.translation`. It reads a corpus, learns subwords,
# cuts it into batches, trains, keeps checkpoints, and scores. It takes one YAML file:

# %% tags=["see"]
print(Path("my_run.yaml").read_text())

# %% [markdown]
# ### Which machine, which config?
#
# Two corpora count here: the **captions** that come with the course, and **Multi30k**, 29,000 captions of photographs. The
# others are for those who have a GPU and patience.
#
# | you have | begin with | it takes about |
# |---|---|---|
# | a laptop, two cores | `captions` (as in `my_run.yaml`) | some minutes |
# | a desktop, or a laptop and an evening | `multi30k-tiny`, in two processes | an hour on two cores |
# | four cores and an evening | `multi30k-simcut`: the same model, learnt better (arXiv 2206.02368) | an hour and a half |
# | a GPU | `multi30k-tiny`, then `multi30k-base` | minutes |
# | a GPU for a night | `iwslt17`: 206,000 sentences of talks | hours |
# | a node with eight GPUs | `wmt14-base`: the paper's base model and data (4.5 million pairs), but from German to English; its table 2 is for English to German | a day or less |
#
# (The times with a GPU are estimates; those runs have not been made for this course yet.)
#
# **Small data wants a small model.** On Multi30k, models of a few million weights are reported to do better than the
# paper's base model, which learns 29,000 captions by heart. `multi30k-tiny` is no toy, but the right size.
#
# Compute nodes often have no internet. On the login node, `python -m course_lib.translation.fetch multi30k
# /path/to/corpora` downloads the corpus; then `export COURSE_DATA=/path/to/corpora` says where the job finds it.

# %% predict="predict_minutes"
# Multi30k has 29,000 pairs, of 15 target tokens on average. A machine learns from 5,800 target tokens a second.
# How many minutes do 12 epochs take? (Round as you like.)

# %% check="predict_minutes"

# %% [markdown]
# ### How to start it
#
# In a terminal (File, New, Terminal), in this lesson's folder. One process:
#
# ```bash
# python -m course_lib.translation.train my_run.yaml
# ```
#
# Two processes on this machine, each with half of the cores or a GPU of its own:
#
# ```bash
# torchrun --nproc-per-node=2 -m course_lib.translation.train my_run.yaml
# ```
#
# On a cluster with SLURM, one node or several; the scripts beside this notebook say which lines to adapt:
#
# ```bash
# sbatch one_node.sbatch my_run.yaml
# sbatch several_nodes.sbatch my_run.yaml
# ```
#
# The batches of an update are dealt to all processes, and `my_run.yaml` has two of them. For more than two processes,
# add `training.batches_per_update=8`, say.
#
# A provided config goes by its name, and any key can be replaced on the command line:
#
# ```bash
# python -m course_lib.translation.train multi30k-tiny run_folder=../runs/multi30k seed=2
# ```
#
# A run may be killed at any moment: **the same command goes on where it was**, and ends with the same weights as if
# nothing had happened. (How? Everything that decides about an update comes from the seed, the epoch and the update's number, and
# a checkpoint holds the rest.)
#
# And with your own code in it, from the notebooks beside this one, as it was last saved:
#
# ```bash
# python -m course_lib.translation.train my_run.yaml run_folder=../runs/my-own-parts --parts ..
# ```
#
# It prints a table of what is yours, and compares each part with the reference's first.
#
# ### See it: a small run, live
#
# Before the real one, a run that takes half a minute: a single layer of 64 features, three epochs over the
# captions. It is started in a process of its own, and this cell reads its `metrics.jsonl` while it is being written.
# Four curves: the loss, the learning rate, the speed, and how much of the work is padding. (After twenty seconds the
# cell goes on, and the run does too; on a busy machine, the cells below wait for it.)
#
# What happens to the validation loss, and why does it lie *below* the training loss? (Here for one reason above all,
# lesson 08's: the training loss is a smoothed one. In a run with dropout there is a second.) Why does the speed rise at
# the beginning? (The first updates also pay for starting up.)
#
# **Change something:** `training.warmup_steps=400`; `training.lr_factor=4`; `model.dropout=0.3`.

# %% tags=["see"]
from course_lib.translation.train.monitoring import BackgroundRun, rows_so_far

small = BackgroundRun(
    "captions",
    "../runs/small",
    "data.vocab_size=1000",
    "model.layers=1",
    "model.d_model=64",
    "model.heads=2",
    "model.d_ff=128",
    "model.dropout=0.0",
    "model.norm_first=true",
    "training.epochs=3",
    "training.warmup_steps=60",
    "training.lr_factor=1.0",
    "training.log_every=10",
    "training.average_last=5",
    "training.average_every=10",
    "training.threads=1",
    "evaluation.bleu_every=0",
    "evaluation.alpha=1.0",
    restart=True,
)
watch_live(lambda: run_progress(small.rows()), lambda: small.running, status=small.last_line, timeout=20)

# %% [markdown]
# ### See it: your run, live
#
# Start your own run in a terminal now. This cell draws what it has written so far; set `WATCH = True` to have it drawn
# anew every few seconds, until the run has ended or you press the stop button above (which stops the watching,
# not the run). Before you validate, set it back: the cells below would wait.
#
# Things that a curve tells: a loss that stays at the logarithm of the vocabulary means that nothing is learned; one that
# falls and then leaps up, that the learning rate is too high; a validation loss that rises while the training loss
# falls, that sentences are learned by heart.

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
# From here on everything works with your run as soon as it has ended, and with the small one until then.
#
# ### See it: your own sentences
#
# **Change something:** write sentences of your own. Words that the model has never seen, a sentence without a verb, a
# long one. The corpus is about captions: what happens outside of it?

# %% tags=["see"]
from course_lib.translation.decoding.translator import load_translator

small.wait()
chosen = RUN if finished() else small.folder
translator = load_translator(chosen)
sentences = [
    "Ein Mann mit einem roten Hut liest ein Buch.",
    "Zwei Kinder spielen im Park.",
    "Die Frau, die am Fenster steht, winkt einem Hund zu.",
]
print(f"the translator of {chosen}\n")
for sentence, translation in zip(sentences, translator.translate(sentences), strict=True):
    print(f"reads:  {sentence}\nwrites: {translation}\n")

# %% [markdown]
# ### See it: all of its attention
#
# Here is what you have built since lesson 01, at work: the weights of every layer and every head, while one sentence is
# translated. There are three kinds. In the **encoder's self-attention** German words look at each other. In the
# **decoder's self-attention** each English word looks at those before it, and the rest is masked. In
# **cross-attention** English looks at German. Choose the layer and the head in the lists below each picture.
#
# Look for: a head that always looks at the word before; one that looks at the end symbol when it has nothing to do;
# verbs that find their subjects. In cross-attention each row says which word the decoder **reads** there and, behind the
# arrow, which one it **writes** next. For which of the two does it look up the German word? And does the path of the
# dark cells cross where German and English order their words differently?
#
# **Change something:** your own sentence. Then give an English one, too, even a wrong one:
# `translator.attention(sentence, "A dog is sleeping.")`. What does cross-attention do with a translation that does not
# belong to its source?

# %% tags=["see"]
sentence = "Ein kleiner Hund schläft, weil er müde ist."
maps = translator.attention(sentence)
print("writes:", " ".join(maps.predicted_tokens))
layers_and_heads(
    maps.encoder_self,
    maps.source_tokens,
    maps.source_tokens,
    title="Encoder self-attention: German looks at German",
)

# %% tags=["see"]
layers_and_heads(
    maps.decoder_self,
    maps.target_tokens,
    maps.target_tokens,
    title="Decoder self-attention: English looks at the English before it",
)

# %% tags=["see"]
reads_and_writes = [
    f"{read} → {written}" for read, written in zip(maps.target_tokens, maps.predicted_tokens, strict=True)
]
layers_and_heads(
    maps.cross,
    reads_and_writes,
    maps.source_tokens,
    title="Cross-attention: English looks at German",
)

# %% [markdown]
# ## 3. How good is it?
#
# **BLEU** (Papineni et al. 2002) compares translations with a person's. It counts which share of their words, of their pairs
# of words, of triples and of groups of four also stand in the reference, takes the geometric mean of the four shares,
# and multiplies by a penalty if the translations are too short altogether. It is counted over a whole test set; for
# a single sentence it says little. 100 would be the reference, word for word, which no person reaches either.
#
# BLEU depends on how text is cut into words, and whether small and capital letters differ: by several points! So a
# score without these is worthless. `sacrebleu` (Post 2018, [arXiv 1804.08771](https://arxiv.org/abs/1804.08771)) takes
# plain text, cuts it itself, and prints a **signature**. Scores with the same signature compare.
#
# ### See it: greedy, beam, averaged
#
# The same run, decoded in different ways: greedy; with beams of 4, which lesson 11 built; and both with the average of
# the last snapshots, which a run keeps if `training.average_last` asks for it.
#
# The first 100 sentences of the validation split, since the test split is for the end. How large are the
# differences? How long does each way take?
#
# **Change something:** beams of 2 and 8. An alpha of 0, and of 2. All of the validation split.

# %% tags=["see"]
import time

from course_lib.translation.configs.loader import load_config
from course_lib.translation.data.corpora import load_corpus
from course_lib.errors import BadInputError
from course_lib.translation.train.scoring import score

some = 100
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
# A model that has learned as little as the small run hesitates a lot, and gains several points from either. Once a
# model is sure of itself, what is left is less: on real sentences a beam is usually worth about one point, and averaging
# about another half. Neither costs anything in training.
#
# From a terminal, a run translates whole files:
#
# ```bash
# python -m course_lib.translation.translate ../runs/my-run german.txt --beam 5 --output english.txt
# ```
#
# ### See it: where does it go wrong?
#
# A number says how good a translator is, and not what it does wrong. The ten validation sentences with the most
# different translations, by the sentence-wise chrF of `sacrebleu` (which looks at letters and so also says something
# about single sentences).

# %% tags=["see"]
from sacrebleu import sentence_chrf

texts = translator.translate(validation.german[:some])
worst = sorted(
    zip(validation.german, texts, validation.english, strict=False),
    key=lambda one: sentence_chrf(one[1], [one[2]]).score,
)
for german, written, right in worst[:10]:
    print(f"reads:  {german}\nwrites: {written}\nright:  {right}\n")

# %% [markdown]
# ## 4. Hand it in
#
# Two files of your run go beside this notebook, and are handed in with it: `metrics.jsonl`, what the run said of
# itself, and `translations.txt`, its translations of the **test split**, one a line. The cell below fetches them. When
# your lesson is graded, the translations are scored against references that the grader holds.
#
# | BLEU on the captions | BLEU on Multi30k (test 2016) | points |
# |---|---|---|
# | 30 | 15 | 2 |
# | 60 | 25 | 4 |
# | 80 | 32 | 6 |
# | 86 | 36 | 8 |
#
# The provided configs `captions` and `multi30k-tiny` reach the last row. If you have done better, so much the better; it
# gives no more points, but your instructor may want to know how.

# %% tags=["see"]
for name in ["metrics.jsonl", "translations.txt"]:
    if finished() and (RUN / name).is_file():
        Path(name).write_bytes((RUN / name).read_bytes())
        print(f"{name} is here now.")
    else:
        print(f"{name}: the run in {RUN} has not come to its end; until then there is nothing to fetch.")

# %% [markdown]
# Is it what a run writes, with a loss that falls, up to the end?

# %% check="hand_in_metrics"

# %% [markdown]
# And how good are the translations? In your own notebook this says the score where the references are on this machine: for
# the captions always, for Multi30k where you have its files.

# %% check="hand_in_translations"

# %% [markdown]
# ### Explain it
#
# Describe your run, as you would in a report, in ten lines or so. Which config, on what machine, and why this one? What
# did the curves show? What is the score, with its signature, and what would you compare it with? Then take one
# sentence that your translator gets wrong: what is wrong, what does its cross-attention look like there, and what
# would you try?

# %% [markdown] explain="explain_run"
# (An example.) I trained `captions` as it was, on a laptop with two cores: 2 layers, 128 features, 8 epochs, about three
# minutes. The loss fell quickly in the first two epochs, while the rate warmed up over 200 updates, then slowly; the validation loss
# fell until the end, so a few more epochs might still help. It lies below the training loss, since it is measured
# without dropout and without smoothing. About 6,000 target tokens a second, 5 % padding. BLEU 90 on the 300 test
# captions, cased, tokenised by 13a, which compares only with other runs on these captions: the sentences come from a
# grammar, so they are far easier than Multi30k. Wrong: "carrying a cap" for "wearing a wool cap". "Wollmütze" is rare
# and cut into three subwords; cross-attention looks at the first of them when it writes "cap" and hardly at "trägt", which
# means carry or wear. More examples of the word, or a model with more layers, would help; I would look first
# whether the beam holds the right one in second place.
#
# ### BEGIN MARK SCHEME
# - 1 point: config and machine, with a reason for the choice.
# - 1 point: the curves are read and not only named (warm-up, gap between training and validation, where it levels off).
# - 1 point: a score with what is needed to compare it (corpus, split, cased or not, signature), and a sensible comparison.
# - 1 point: one mistake, with what the attention shows and an idea that fits it.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>My run says that it goes on, and I wanted it to begin anew.</summary>
#
# A run folder that has checkpoints is gone on with. Give another `run_folder`, or delete the old one. If you changed
# a key that the weights depend on, it refuses to mix the two and says which key it is.
#
# </details>
#
# <details><summary>Are two processes on my laptop faster than one?</summary>
#
# For a small model, yes. The threads of one process share out every single product, and the products of a small model are
# over before that pays; two processes have a batch each, and meet once an update. On two cores, `multi30k-tiny` learned a
# third faster that way. The larger the model, the less is left of it. Try both, and compare tokens a second. It is also
# the way to test on a laptop what will run on a cluster.
#
# </details>
#
# <details><summary>Can a run begin with what another one has learned?</summary>
#
# Yes: `training.init_from=../runs/multi30k` takes over that run's weights and its vocabulary, and everything else begins
# anew. So a model goes on with other settings, or learns from much text first and then from a little of the kind that you
# need. The sizes of the two models have to be the same.
#
# </details>
#
# <details><summary>Can several runs translate together?</summary>
#
# Yes: `python -m course_lib.translation.translate ../runs/one german.txt --with ../runs/two`. Each next word gets the mean
# of the probabilities that the models give it, and the search goes on as ever. Models that began with different random
# weights are wrong in different places: two runs of `multi30k-tiny` with 41.9 and 41.5 BLEU, which differ in their seed
# alone, have 42.9 together. It takes the time of both. Their sizes may differ, but not their vocabularies: a number has to
# mean the same word to all.
#
# </details>
#
# <details><summary>Why is the update not larger with more processes?</summary>
#
# Because then it would be another update, with another best learning rate, and two runs could not be compared. How many
# batches make an update is `training.batches_per_update`, and the processes share them. If you have more processes,
# you may want larger updates, and then you say so.
#
# </details>
#
# <details><summary>What is padded, if batches hold sentences of like length?</summary>
#
# Like, not equal; and a sentence's two sides differ. A few per cent remain. In a widely copied notebook of 2022 that pads everything to 72
# tokens, four fifths of the work on captions is padding.
#
# </details>
#
# <details><summary>A head looks at the full stop all the time. Is it broken?</summary>
#
# No. The weights have to sum to one, also when a head has nothing to look for; many put them on a token that is always
# there and whose value does no harm.
#
# </details>
#
# <details><summary>Is attention an explanation of what the model does?</summary>
#
# It says from where a head takes something, not what it takes nor what becomes of it. With a second layer, a place holds
# more than its own word. Take it as a hint, and test it: change the word and see what happens.
#
# </details>
#
# ## Where you are

# %% tags=["see"]
architecture_map(built=exercises_through(13))

# %% [markdown]
# The map is full. You have built a Transformer from the root of $d_k$ up, and it speaks English. Before you hand
# the lesson in, press **Validate** in the toolbar.
#
# Where to go from here? Your own corpus (`corpus: folder`), another language, the paper's big model. Or read the
# reference in `course_lib/transformer/`: you have built nearly all of it yourself.

# %% [markdown]
# # Lesson 00: orientation
#
# In this course you build a Transformer, the machine behind translators and chatbots, from its smallest part to a
# translator that you train yourself. You write every part of it.
#
# This first lesson is short. It shows you the road, and how to travel: what a check tells you, where the hints are, how
# to hand in. And it makes sure that the one tool you need everywhere is sharp: **tensors, their shapes, and
# broadcasting**.
#
# At the end of this lesson you have written your first function and made your first mistake, on purpose, and you can say
#
# - what a **check** does, and how to read what it says,
# - which **shape** two tensors make together, and when they make none,
# - how a wrong shape gives a **wrong answer without any error**, and how to guard against it.
#
# **Time:** about 40 minutes. **In the paper:** nothing yet. But have it at hand, Vaswani et al. 2017,
# [Attention Is All You Need](https://arxiv.org/abs/1706.03762), and look at its figure 1.
#
# A notebook is made of **cells**. Click into the next one and press **Shift + Enter**: it runs, and the next cell is
# selected. The first cell of a notebook takes a few moments.

# %% tags=["see"]
from course_lib.charts import (
    aligned_shapes,
    architecture_map,
    broadcast_tables,
    exercises_through,
    show_offline,
)

show_offline()
architecture_map(
    built=exercises_through(0), title="The road ahead: the Transformer, and all that you will build"
)

# %% [markdown]
# ## 1. The road
#
# On the left is the Transformer itself, as in the paper's figure 1: on the left side of it the **encoder**, which reads
# a sentence, on the right side the **decoder**, which writes its translation. The right half of the picture opens two of
# the boxes. Below stands what is needed to train it. **Point at a box** to read what it does and in which lesson you
# build it.
#
# Everything is still empty. Each lesson begins and ends with this map, and you will watch it fill.
#
# | lessons | you build |
# |---|---|
# | 01 to 03 | attention, and what stands around it in a layer |
# | 04 and 05 | masks and positions: who may look where, and in which order the words stand |
# | 06 | the whole Transformer, put together from your own parts |
# | 07 to 09 | how it is trained |
# | 10 and 11 | how text becomes numbers, and numbers become a translation |
# | 12 | the final lab: German to English, for real |
#
# ## 2. How a lesson works
#
# There are four things to do, again and again:
#
# | | what you do | what happens |
# |---|---|---|
# | **Predict** | write a number in place of `None`, *before* you know the answer | a check says whether it is right. A wrong guess that you have made yourself is the best preparation for the answer |
# | **Build** | write a function or a class in place of the line `raise NotImplementedError(...)` | a check tries it in many ways |
# | **See** | run a cell and look at a picture | then *change something* in that cell, and run it again. Nothing can break |
# | **Explain** | answer a question in your own words | a person reads it |
#
# Help stands where you need it:
#
# - **Checks** tell you which mistake you have made, if they know it. Run them as often as you like; nobody counts.
# - **Hints** stand above the check of whatever you build, folded, three of them: the first is gentle, the third is
#   plain. Nobody counts them either. Try for ten minutes, then open one. For a prediction, the check itself says what to
#   think about.
# - **Common questions** stand at the end of each lesson.
# - The **start page** shows how far you have come. `make lab` opens JupyterLab on it; in a terminal,
#   `course progress` shows the same.
#
# One rule: **no AI writes the cells that are yours.** Not because that would be hard to find out, but because it takes
# away the very thing you came for: you understand what you have built, with its mistakes and detours. An assistant may
# explain, ask you questions, or help with Python and JupyterLab. The file `AGENTS.md` beside the lessons tells assistants
# so.
#
# Some cells cannot be edited: those that import, and the checks. They are **locked**, because the grader brings its own.
#
# Run the next cell. Every lesson has one like it: it imports what your code may use.

# %% given="setup"
import torch
from jaxtyping import Num
from torch import Tensor

from course_lib.checks import check

# %% [markdown]
# ## 3. Tensors: shape and dtype
#
# A **tensor** is a block of numbers of one kind. Two things say almost all about it:
#
# - its **shape**: how long it is along each of its **axes**. A row of numbers has one axis, a table has two, a batch of
#   tables has three.
# - its **dtype**: what kind of numbers it holds.

# %% tags=["see"]
row = torch.tensor([1.5, 2.5, 3.5])
table = torch.zeros(2, 3)
batch = torch.ones(4, 2, 3)
words = torch.tensor([[7, 2, 9], [4, 4, 0]])
is_large = words > 3

for name, tensor in {
    "row": row,
    "table": table,
    "batch": batch,
    "words": words,
    "is_large": is_large,
}.items():
    print(f"{name:9} shape {tuple(tensor.shape)!s:10} dtype {tensor.dtype}")

# %% [markdown]
# | dtype | what for | where from |
# |---|---|---|
# | `float32` | everything that is learned | numbers with a point; `torch.zeros`, `torch.ones`, `torch.randn` |
# | `int64` | words (each has a number), counts, places | whole numbers; `torch.arange` |
# | `bool` | masks | comparisons |
# | `float64` | more digits: the checks use it to compare exactly | only where somebody asks for it |
# | `float16`, `bfloat16` | half the memory: fast training | only where somebody asks for it |
#
# Unless a lesson says otherwise, **what comes out has the dtype of what goes in**. Code that turns everything into
# `float32` on the way works at your desk and fails elsewhere, so checks look for that.
#
# Axes are counted from 0, or **from the end**: axis -1 is the last one, -2 the one before it. In this course the last axes
# are the ones that matter (the features of a word, the words of a sentence), and any number of others may stand in front.
# So you will nearly always count from the end.
#
# `x.unsqueeze(k)` puts in a new axis of length one, so that it is axis `k` afterwards. No number changes:
#
# | | shape |
# |---|---|
# | `x` | (3,) |
# | `x.unsqueeze(0)` | (1, 3): a row |
# | `x.unsqueeze(-1)` | (3, 1): a column |
#
# ## 4. Broadcasting: when shapes differ
#
# `a + b` with two tensors of the same shape adds element by element. With two *different* shapes, torch tries to make
# them equal. It writes the shapes below each other, **right ends together**, and goes through the axes from the right:
#
# 1. The lengths are equal: good.
# 2. One of them is 1: it is **stretched**, that is, copied as often as is needed.
# 3. A tensor has no such axis: it counts as an axis of length 1, and is stretched.
# 4. Anything else: an error.
#
# That is all. These four lines are called **broadcasting**, and much of this course is written with them.

# %% predict="predict_broadcast"
# a has the shape (3, 1), and b has the shape (4,). How many numbers does a + b hold?

# %% check="predict_broadcast"

# %% [markdown]
# ### See it: the rule at work
#
# Scores of attention and a mask, as you will meet them in lesson 02: a batch of 2 sentences, 8 heads, 5 queries and 5
# keys, and a mask that holds one row for each sentence.
#
# **Change something:** leave the two ones out of the mask's shape, `(2, 5)`. What does torch take the 2 for? Then your
# own prediction, `(3, 1)` and `(4,)`.

# %% tags=["see"]
aligned_shapes({"scores": (2, 8, 5, 5), "mask": (2, 1, 1, 5)})

# %% [markdown]
# ### See it: the copies
#
# The same with numbers: a column times a row makes a multiplication table. Numbers in brackets are the copies.
#
# **Change something:** take `down` without its `.unsqueeze(-1)`, and read what torch says. Then make both of length 4,
# and leave it out again: no error, but is it still a table?

# %% tags=["see"]
down = torch.arange(1, 4).unsqueeze(-1)
across = torch.arange(1, 5)

broadcast_tables(down, across, down * across, names=("down", "× across", "= product"))

# %% [markdown]
# ## 5. The dark side: wrong, and no error
#
# Broadcasting has a price. When you mix up two shapes, torch often finds *some* way to make them fit, and you get an
# answer. It is only not the answer to your question.

# %% predict="predict_silent"
# A model's predictions come as a column: the numbers 1, 2, 3 in the shape (3, 1). The targets are a row:
# the numbers 1, 2, 3 in the shape (3,). Every prediction is right. What is
# ((predicted - target) ** 2).mean() ?

# %% check="predict_silent"

# %% [markdown]
# ### See it: everything right, and the error is not zero
#
# **Change something:** mend it, with `predicted.squeeze(-1)`, which takes the axis of length one away.

# %% tags=["see"]
predicted = torch.tensor([[1.0], [2.0], [3.0]])
target = torch.tensor([1.0, 2.0, 3.0])

difference = predicted - target
print("mean squared error:", (difference**2).mean().item())
broadcast_tables(predicted, target, difference, names=("predicted", "− target", "= difference"))

# %% [markdown]
# Each prediction has met *each* target. Only the diagonal is what was meant. Nothing turned red, and a network trained
# with this would learn something: to predict the mean of all targets, everywhere.
#
# Three habits guard you:
#
# 1. **Say the shapes.** Write them into the signature, as this course does, or into a comment.
# 2. **Print them** when in doubt: `print(x.shape)` costs nothing.
# 3. **Try it with sizes that all differ.** With a square, (3, 3), an axis in the wrong place goes unnoticed. With (2, 5)
#    it does not.
#
# ## 6. Your first exercise
#
# Take a row of numbers and subtract each from each: `L` numbers make a table of `L` by `L`. Row $i$ and column $j$ hold
#
# $$\mathrm{result}_{ij} = x_i - x_j$$
#
# where $x_i$ is number $i$ of the row. Tables of this kind come back again and again: "how far is word $j$ from word $i$"
# is one of them.
#
# The signature says the rest. `"... L"` means: **any number of axes in front**, then one of length L. Each row gets a
# table of its own: (B, L) becomes (B, L, L).
#
# ### First, make a mistake
#
# You will learn how to read a check's message before you need it. So first write something **wrong**. In the next code
# cell, put this in place of the line with `raise`:
#
# ```python
#     return x.unsqueeze(-1) - x
# ```
#
# It looks good: a column minus a row. Run the cell, then run the check below the hints, and read **slowly** what it says.

# %% build="pairwise_differences"
### BEGIN SOLUTION course_lib.transformer.broadcasting:pairwise_differences

# %% [markdown] hints="pairwise_differences"

# %% check="pairwise_differences"

# %% [markdown]
# ### Reading the message
#
# With the wrong line, the check draws a picture and says some lines. This is what they are for:
#
# | line | what it tells you |
# |---|---|
# | **✗** and a sentence | *what* is wrong, if your mistake is one that the check knows. Otherwise it says only that something does not hold |
# | **Tried** | the first thing that failed: what went in |
# | **Expected ..., found ...** | the first number or shape that differs. Compare it by hand |
# | **Why** | the reason, in words, and often the direction in which to look |
# | **Read** | where it is explained |
# | the picture | your result, the expected one, and where they differ |
#
# What is *expected* comes from the course's own function, the **reference**, which gets the same inputs as yours. Shapes,
# dtypes and numbers are compared, and whether gradients arrive. How your code is written is not looked at. (In some
# exercises one function is the whole exercise; then the check notices if yours calls it.)
#
# Notice what was tried, and what must have *passed* before it: a single row of four numbers. There, (4, 1) meets (4,),
# and all is well. Only with three rows of three numbers, (3, 3, 1) against (3, 3), the wrong things meet, silently,
# because all sizes are equal. That is section 5 again, and now it has happened to you.
#
# ### Now mend it
#
# Go back to your cell. Which shape does the second `x` need, so that with any axes in front each row meets *itself*?
# Write the two shapes below each other. Change the line, run the cell, and run the check again, until it shows a ✓.
#
# (If it says ○ in place of ✗: the cell has not been written yet, or not been run.)
#
# ### See it: each with each
#
# Your function on the places of four words: who stands how far behind whom? Negative: before.
#
# **Change something:** other numbers, such as `[1, 10, 100]`. Which pattern do you see across the diagonal, and why?

# %% tags=["see"]
places = torch.arange(4)

broadcast_tables(
    places.unsqueeze(-1),
    places,
    pairwise_differences(places),
    names=("place i", "− place j", "= i − j"),
    title="How far word i stands behind word j",
)

# %% [markdown]
# ### Explain it
#
# In your own words: what does a check compare with? Say what it calls, what it looks at in the results, and why you may
# write your function in a quite different way than the course does.

# %% [markdown] explain="explain_check"
# A check calls my function with inputs of its own, of several shapes and dtypes, and calls the course's function, the
# reference, with the same inputs. It compares what comes out of both: shape, dtype and numbers, and whether the inputs
# were left alone and gradients arrive. It does not read my code, so any way of writing it that gives the same results is
# right. If my results are wrong in just the way in which a known mistake is wrong, it names that mistake.
#
# ### BEGIN MARK SCHEME
# - 1 point: it compares what my function gives with what the course's own (the reference) gives for the same inputs.
# - 1 point: only results count, not how the code is written (so other ways of writing are right as well).
#
# Give the point for a right idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 7. Handing in
#
# When you have finished a lesson:
#
# 1. **Validate.** The button is in the toolbar above the notebook. It saves, then runs the whole notebook from top to
#    bottom *from the start*, as the grader will. That finds what you do not notice while you work: a cell that needs
#    something from a cell below it, or from one that you have deleted.
# 2. **Save**, and **hand in** as your instructor has told you: by the *Assignment List* in JupyterLab's menu *Nbgrader*,
#    with the button *Submit*, or by sending the notebook file. You can hand in again until the deadline; the last one
#    counts.
# 3. **Wait for feedback.** The grader runs your notebook in a place of its own, with its own copies of the locked cells.
#    Its checks draw *other numbers* than yours do, so code that fits only the numbers you have seen does not pass. For
#    some mistakes a part of the points is left. What you explain in words, a person reads.
#
# If you learn by yourself, Validate is all that you need.
#
# ## Common questions
#
# <details><summary>I have changed something and now nothing works. How do I start again?</summary>
#
# Menu *Kernel*, *Restart Kernel and Run All Cells*. That forgets everything that was computed, and keeps all that you have
# written. If you have broken a cell that was given, take a fresh copy of the notebook and put your own cells into it.
#
# </details>
#
# <details><summary>The check says ✗, and I am sure that I am right.</summary>
#
# Run your function on the example that the check names, and compare with *expected*. Run the cell with your function
# again: what counts is what was run last, not what stands in the cell. If you are still sure, tell your instructor: right
# answers that are written in an unusual way are meant to pass.
#
# </details>
#
# <details><summary>A cell shows [*] and does not stop.</summary>
#
# It is still running. The square button in the toolbar interrupts it. The usual reason is a loop that never ends.
#
# </details>
#
# <details><summary>What do "... L" and Num mean in the signature?</summary>
#
# They are notes for people, written with the library jaxtyping: a tensor of numbers (`Num`) with any axes in front
# (`...`) and one axis of length L. In other lessons you meet `Float` (numbers with a point), `Int` (whole ones) and `Bool`
# (truth values). A letter that occurs twice has the same length in both places.
#
# </details>
#
# <details><summary>Does broadcasting really copy?</summary>
#
# No. torch reads the same number several times. A stretched axis costs no memory; the result does.
#
# </details>
#
# <details><summary>Do I need a graphics card?</summary>
#
# Not for the lessons: everything in them is small, and runs on an ordinary laptop. The final lab can use as many as you
# have, and runs without any, on a small corpus.
#
# </details>
#
# <details><summary>How much mathematics do I need?</summary>
#
# Matrix products, means and variances, derivatives as an idea. Each formula is explained where it stands, every symbol by
# name.
#
# </details>
#
# ## Where you are
#
# You know the road and the tools. Press **Validate**.
#
# Next: **lesson 01, scaled dot-product attention**. One line of mathematics, and everything else is built around it.

# %% [markdown]
# # Lesson 00: orientation
#
# In this course you build a Transformer, the architecture behind translators and chatbots, from its smallest part to a
# translator that you train yourself. You write every part of it.
#
# This first lesson is short. It shows what is ahead and how a lesson works: what a check tells you, where the hints
# are, how to submit. You also practise the one tool that you need everywhere: **tensors, their shapes, and
# broadcasting**.
#
# By the end of this lesson you will have written your first function and made your first mistake, on purpose. You will
# also be able to explain
#
# - what a **check** does, and how to read its message,
# - which **shape** two tensors produce together, and when they don't fit,
# - how a wrong shape gives a **wrong answer without any error**, and how to prevent that.
#
# **Time:** about 40 minutes. **In the paper:** nothing yet. But open it now (Vaswani et al. 2017,
# [Attention Is All You Need](https://arxiv.org/abs/1706.03762)), and look at figure 1.
#
# A notebook consists of **cells**. Click into the next one and press **Shift + Enter**: it runs, and the next cell is
# selected. The first cell of a notebook takes a few moments.

# %% tags=["see"]
from course_lib.charts import aligned_shapes, architecture_map, broadcast_tables, show_offline
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(built=finished_exercises(), title="The Transformer, and everything that you will build")

# %% [markdown]
# ## 1. What you will build
#
# On the left is the Transformer, as in the paper's figure 1: first the **encoder**, which reads a sentence, then the
# **decoder**, which writes its translation. On the right, two of the boxes are shown in detail. Below is what you need
# to train it. **Hover over a box** to read what it does and in which lesson you build it.
#
# Each lesson begins and ends with this map. A box is filled in when the checks of its exercises pass in your saved
# notebooks.
#
# | lessons | you build |
# |---|---|
# | 01 to 03 | attention, and what is around it in a layer |
# | 04 and 05 | masks and positions: which other words each word may use, and where in the sentence it is |
# | 06 | the whole Transformer, from your own parts; at the end it writes text |
# | 07 to 09 | how it is trained |
# | 10 and 11 | how text becomes numbers, and numbers become a translation |
# | 12 | how several processes train one model |
# | 13 | the final lab: a real translator |
#
# ## 2. How a lesson works
#
# There are four kinds of task:
#
# | | what you do | what happens |
# |---|---|---|
# | **Predict** | write a number in place of `None`, *before* you know the answer | a check says whether it is correct. You remember an answer best if you have guessed it first, even if you guessed wrong |
# | **Build** | write a function or a class in place of the line `raise NotImplementedError(...)` | a check tests it in many ways |
# | **See** | run a cell and look at a picture | then *change something* in that cell, and run it again. You can't break anything |
# | **Explain** | answer a question in your own words | a person reads it |
#
# There is help:
#
# - **Worked examples** show each calculation with numbers that you can follow by eye, and **scratch cells** let you try
#   your own.
# - **Checks** tell you which mistake you made, if they recognise it. Run them as often as you like; nobody counts.
# - **Hints** are above the check of each exercise. There are three, each more explicit than the one before. Try for ten
#   minutes before you open one.
# - **Common questions** are at the end of each lesson.
# - The **start page** shows your progress and updates itself while you work. `make lab` opens it; in a terminal,
#   `course progress` shows the same.
#
# One rule: **no AI writes the cells that are yours.** You came to learn how to write them, and you learn nothing from
# code that was written for you. An assistant may explain, ask you questions, or help with Python and JupyterLab. The
# file `AGENTS.md` next to the lessons tells assistants the same.
#
# Some cells can't be edited: the imports and the checks. They are **locked**, because the grader uses its own copies.
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
# A **tensor** is a block of numbers of one type. Two properties describe it:
#
# - its **shape**: its length along each of its **axes**. A row of numbers has one axis, a table has two, a batch of
#   tables has three.
# - its **dtype**: the type of its numbers.

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
# | `float32` | everything that is learned | decimal numbers; `torch.zeros`, `torch.ones`, `torch.randn` |
# | `int64` | words (each has a number), counts, positions | whole numbers; `torch.arange` |
# | `bool` | masks | comparisons |
# | `float64` | more digits: the checks use it to compare precisely | only on request |
# | `float16`, `bfloat16` | half the memory: fast training | only on request |
#
# Unless a lesson says otherwise, **the result has the dtype of the input**. Code that converts everything to `float32`
# works on your machine and fails elsewhere, so checks test for it.
#
# Axes are counted from 0, or **from the end**: axis -1 is the last one, -2 the one before it. In this course the last axes
# are the ones that matter (the features of a word, the words of a sentence), and there may be any number of axes before
# them. So you will nearly always count from the end.
#
# `x.unsqueeze(k)` inserts a new axis of length one, which becomes axis `k`. No number changes:
#
# | | shape |
# |---|---|
# | `x` | (3,) |
# | `x.unsqueeze(0)` | (1, 3): a row |
# | `x.unsqueeze(-1)` | (3, 1): a column |
#
# ## 4. Broadcasting: when shapes differ
#
# `a + b` with two tensors of the same shape adds element by element. If the shapes *differ*, torch tries to make them
# equal. It aligns the shapes at their **right ends** and goes through the axes from the right:
#
# 1. The lengths are equal: good.
# 2. One of them is 1: it is **stretched**, that is, repeated as often as needed.
# 3. One tensor has no axis left: it is treated as if it had one of length 1, which is stretched.
# 4. Anything else: an error.
#
# These four rules are called **broadcasting**, and much of this course relies on them.

# %% predict="predict_broadcast"
# a has the shape (3, 1), and b has the shape (4,). How many numbers does a + b hold?

# %% check="predict_broadcast"

# %% [markdown]
# ### See it: the rules at work
#
# Attention scores and a mask, as you will meet them in lesson 02: a batch of 2 sentences, 8 heads, 5 queries and 5
# keys, and a mask with one row for each sentence. (Only the shapes matter here. The lessons explain the words.)
#
# **Change something:** remove the two ones from the mask's shape, which leaves `(2, 5)`. What does torch align the 2
# with? Then try the shapes of your prediction, `(3, 1)` and `(4,)`.

# %% tags=["see"]
aligned_shapes({"scores": (2, 8, 5, 5), "mask": (2, 1, 1, 5)})

# %% [markdown]
# ### See it: the copies
#
# The same with numbers: a column times a row makes a multiplication table. Numbers in brackets are copies.
#
# **Change something:** use `down` without its `.unsqueeze(-1)`, and read torch's message. Then give both tensors the
# length 4, still without `.unsqueeze(-1)`: there is no error, but is it still a table?

# %% tags=["see"]
down = torch.arange(1, 4).unsqueeze(-1)
across = torch.arange(1, 5)

broadcast_tables(down, across, down * across, names=("down", "× across", "= product"))

# %% [markdown]
# ## 5. The dark side: wrong, and no error
#
# Broadcasting has a price. If you mix up two shapes, torch often finds *some* way to make them fit, and you get an
# answer to a different question.

# %% predict="predict_silent"
# A model's predictions are a column: the numbers 1, 2, 3 in the shape (3, 1). The targets are a row:
# the numbers 1, 2, 3 in the shape (3,). Every prediction is right. What is
# ((predicted - target) ** 2).mean() ?

# %% check="predict_silent"

# %% [markdown]
# ### See it: everything is right, and the error is not zero
#
# **Change something:** correct it with `predicted.squeeze(-1)`, which removes the axis of length one.

# %% tags=["see"]
predicted = torch.tensor([[1.0], [2.0], [3.0]])
target = torch.tensor([1.0, 2.0, 3.0])

difference = predicted - target
print("mean squared error:", (difference**2).mean().item())
broadcast_tables(predicted, target, difference, names=("predicted", "− target", "= difference"))

# %% [markdown]
# Each prediction was compared with *every* target. Only the diagonal is what we wanted. There was no error, and a
# network trained with this would learn something: to predict the mean of all targets, everywhere.
#
# Three habits protect you:
#
# 1. **State the shapes.** Write them into the signature, as this course does, or into a comment.
# 2. **Print them** when in doubt: `print(x.shape)`.
# 3. **Test with sizes that all differ.** In a square, (3, 3), a wrong axis goes unnoticed. In (2, 5) it doesn't.
#
# ## 6. Your first exercise
#
# Take a row of numbers and compute the difference of every pair: `L` numbers make a table of `L` by `L`. The entry in
# row $i$ and column $j$ is
#
# $$\mathrm{result}_{ij} = x_i - x_j$$
#
# where $x_i$ is number $i$ of the row. Such tables are useful: "how far is word $j$ from word $i$" is one of them.
#
# ### Worked example: three numbers

# %% tags=["see"]
three = [5, 7, 10]
for left in three:
    print([f"{left} - {right} = {left - right}" for right in three])

# %% [markdown]
# The signature says the rest. `"... L"` means: **any number of leading axes**, then one of length L. Each row gets its
# own table: (B, L) becomes (B, L, L).
#
# ### First, make a mistake
#
# You should know how to read a check's message before you need it. So first write something **wrong**. In the next code
# cell, replace the line with `raise` by this one:
#
# ```python
#     return x.unsqueeze(-1) - x
# ```
#
# It looks good: a column minus a row. Run the cell, then run the check below the hints, and read its message **slowly**.

# %% build="pairwise_differences"
### BEGIN SOLUTION course_lib.transformer.broadcasting:pairwise_differences

# %% [markdown]
# This is a scratch cell. It runs your function, so that you can compare its result with the worked example. Change it
# as you like; nothing in it is graded. With the wrong line, what happens for two rows of two numbers,
# `[[5, 7], [1, 4]]`?

# %% tags=["see"]
print(pairwise_differences(torch.tensor([5, 7, 10])))

# %% [markdown] hints="pairwise_differences"

# %% check="pairwise_differences"

# %% [markdown]
# ### Reading the message
#
# With the wrong line, the check draws a picture and prints some lines:
#
# | line | what it tells you |
# |---|---|
# | **✗** and a sentence | *what* is wrong, if the check recognises your mistake |
# | **Test** | the first test that failed |
# | **Expected ..., got ...** | the first number or shape that differs |
# | **Why** | the reason, and often what to think about |
# | **Read** | where it is explained |
# | the picture | your result, the expected one, and where they differ |
#
# The *expected* result comes from the course's own function, the **reference**, which gets the same inputs as yours. The
# check compares shapes, dtypes, numbers and gradients. It doesn't look at how your code is written. (In some exercises
# one existing function would be the whole solution; then the check notices if you call it.)
#
# Which test failed, and which must have *passed* before it? A single row of four numbers is fine: there, (4, 1) meets
# (4,). But with three rows of three numbers, (3, 3, 1) meets (3, 3): the wrong axes are aligned, and there is no error,
# because all sizes are equal. This is section 5 again, and now it has happened to you.
#
# ### Now correct it
#
# Go back to your cell. Which shape does the second `x` need, so that each row meets *itself*, whatever the leading axes
# are? Write the two shapes below each other. Change the line, run the cell, and run the check again, until it shows a
# ✓.
#
# (If it shows ○ instead of ✗, the cell isn't written yet, or you haven't run it.)
#
# ### See it: each with each
#
# Your function on the positions of four words: how far is word i behind word j? A negative number means that word i
# comes before word j.
#
# **Change something:** other numbers, such as `[1, 10, 100]`. Which pattern do you see across the diagonal, and why?

# %% tags=["see"]
positions = torch.arange(4)

broadcast_tables(
    positions.unsqueeze(-1),
    positions,
    pairwise_differences(positions),
    names=("position i", "− position j", "= i − j"),
    title="How far is word i behind word j?",
)

# %% [markdown]
# ### Explain it
#
# In your own words: how does a check decide whether your function is correct? Say what it calls, what it compares in
# the results, and why you may write your function differently from the course.

# %% [markdown] explain="explain_check"
# A check calls my function with its own inputs, of several shapes and dtypes, and calls the course's function, the
# reference, with the same inputs. It compares the results: shape, dtype and numbers, and whether the inputs are unchanged
# and gradients arrive. It doesn't read my code, so any way of writing it that gives the same results is correct. If my
# results are wrong in exactly the way in which a known mistake is wrong, it names that mistake.
#
# ### BEGIN MARK SCHEME
# - 1 point: it compares the results of my function with those of the course's own (the reference) for the same inputs.
# - 1 point: only results count, not how the code is written (so other ways of writing it are correct as well).
#
# Give the point for a correct idea in other words.
# ### END MARK SCHEME

# %% [markdown]
# ## 7. Submitting
#
# When you have finished a lesson:
#
# 1. **Validate.** The button is in the toolbar above the notebook. It saves, then runs the whole notebook from top to
#    bottom *from a fresh start*, as the grader will. This finds mistakes that you don't notice while you work: a cell
#    that needs something from a cell below it, or from one that you have deleted.
# 2. **Save**, and **submit** as your instructor has told you: with the *Assignment List* in JupyterLab's menu *Nbgrader*,
#    or by sending the notebook file. You can submit again until the deadline; the last submission counts.
# 3. **Wait for feedback.** The grader runs your notebook with its own copies of the locked cells. Its checks draw
#    *other numbers* than yours do, so code that only works for the numbers that you have seen doesn't pass. Some mistakes
#    cost only part of the points. A person reads your explanations.
#
# If you learn by yourself, Validate is all that you need.
#
# ## Common questions
#
# <details><summary>I have changed something and now nothing works. How do I start again?</summary>
#
# Menu *Kernel*, *Restart Kernel and Run All Cells*. This forgets everything that was computed, and keeps everything that
# you have written. If you have broken a given cell, get a fresh copy of the notebook and copy your own cells into it.
#
# </details>
#
# <details><summary>The check says ✗, and I am sure that I am right.</summary>
#
# Compare with the worked example in the scratch cell. Run the cell with your function again: what counts is the code
# that ran last, not the text in the cell. If you are still sure, tell your instructor. Correct answers that are written in
# an unusual way should pass.
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
# They are notes for readers, written with the library jaxtyping: a tensor of numbers (`Num`) with any leading axes
# (`...`) and one axis of length L. Other lessons use `Float` (decimal numbers), `Int` (whole numbers) and `Bool`
# (truth values). A letter that occurs twice has the same length in both places.
#
# </details>
#
# <details><summary>Does broadcasting really copy?</summary>
#
# No. torch reads the same number several times. A stretched axis needs no memory; the result does.
#
# </details>
#
# <details><summary>Do I need a GPU?</summary>
#
# Not for the lessons: everything in them is small and runs on an ordinary laptop. The final lab can use as many as you
# have, and also runs without any, on a small corpus.
#
# </details>
#
# <details><summary>How much mathematics do I need?</summary>
#
# Vectors, matrix products, means and variances, logarithms and exponentials, and the idea of a derivative. Some pictures
# use more (a Jacobian in lesson 01, a singular value decomposition to make word vectors). Those places say in plain words
# what is computed, and no exercise depends on them.
#
# </details>
#
# ## Further reading
#
# - [Broadcasting semantics](https://pytorch.org/docs/stable/notes/broadcasting.html) in the PyTorch documentation.
# - Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762): read the introduction and look at
#   the figures. You will come back to every section.
#
# ## Where you are
#
# You know what is ahead, and you know your tools. Press **Validate**.
#
# Next: **lesson 01, scaled dot-product attention**. One line of mathematics, and everything else is built around it.

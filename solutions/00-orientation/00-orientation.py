# %% [markdown]
# # Lesson 00: orientation
#
# In this course you build every part of a Transformer, the architecture behind translators and chatbots, and at the end
# you train a translator with it.
#
# This short lesson shows how a lesson works, and lets you practise the tools that you need everywhere: **tensors, their
# shapes, and broadcasting**.
#
# By the end you will have written your first function and made your first mistake (on purpose), and you will be able to
# explain
#
# - what a **check** does, and how to read its message,
# - which **shape** results from combining two tensors, and when they can't be combined,
# - how a wrong shape gives a **wrong answer without any error**, and how to prevent that.
#
# **Time:** about 40 minutes. **In the paper:** nothing yet. But open it now (Vaswani et al. 2017, [Attention Is All You
# Need](https://arxiv.org/abs/1706.03762)), and look at figure 1.
#
# A notebook consists of **cells**. Click into the next one and press **Shift + Enter** to run it. The first cell of a
# notebook takes a few moments.

# %% tags=["see"]
from course_lib.charts import aligned_shapes, architecture_map, broadcast_tables, show_offline
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(built=finished_exercises(), title="The Transformer, and everything that you will build")

# %% [markdown]
# ## 1. What you will build
#
# On the left is the Transformer, as in the paper's figure 1: the **encoder** reads a sentence, and the **decoder**
# writes its translation. On the right, two of its boxes are drawn in detail, followed by the masks and by decoding. At
# the bottom are the data, training, and training in parallel. **Hover over a box** to read what it does and in which
# lesson you build it.
#
# Every lesson shows this map. A box is filled in when its checks pass in your saved notebooks.
#
# | lessons | you build |
# |---|---|
# | 01 to 03 | attention and the other parts of a layer |
# | 04 and 05 | masks (which words a word may use) and positions |
# | 06 | the whole Transformer; at the end it writes text |
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
# | **Predict** | write a number in place of `None`, *before* you know the answer | a check says whether it is correct, and gives a hint if it isn't. Then correct the number: only the last one counts. You remember an answer better if you guessed first, even if you guessed wrong |
# | **Build** | replace the line `raise NotImplementedError(...)` with your code | a check tests it in many ways |
# | **See** | run a cell, look at its picture, *change something* and run it again | the picture changes. For most pictures, *What changes?* says what you should see. You can't break anything |
# | **Explain** | answer a question in your own words | a person reads it |
#
# There is help:
#
# - **Worked examples** show a calculation with small numbers, and **scratch cells** let you try your own.
# - **Checks**: run them as often as you like; failed attempts cost nothing.
# - **Hints**: each exercise has three above its check, from gentle to explicit. Try for ten minutes before you open
#   one.
# - The **start page**, which `course lab` opens, shows your progress while you work.
#
# One rule: **no AI writes the cells that are yours.** You learn nothing from code that was written for you. An
# assistant may explain, ask you questions, or help with Python and JupyterLab, as the file `AGENTS.md` instructs it to.
#
# Setup cells and checks are **locked**: you can't edit them, and the grader uses its own copies.
#
# Run the next cell. Every lesson has one like it: it imports what your code needs.

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
# | dtype | used for | comes from |
# |---|---|---|
# | `float32` | everything that is learned | decimal numbers; `torch.zeros`, `torch.ones`, `torch.randn` |
# | `int64` | words (each has a number), counts, positions | whole numbers; `torch.arange` |
# | `bool` | masks | comparisons |
# | `float64` | more digits: the checks use it to compare precisely | only on request |
# | `float16`, `bfloat16` | half the memory: fast training | only on request |
#
# Unless a lesson says otherwise, **the result has the dtype of the input**. Code that converts everything to `float32`
# loses the digits of `float64` and the speed of `float16`, so checks test for it. Checks also test that your code leaves
# its inputs unchanged and causes no warnings.
#
# Axes are counted from 0, or **from the end**: axis -1 is the last one, -2 the one before it. You will nearly always
# count from the end, because the last axes matter most here (the words of a sentence, and a word's **features**, the
# numbers that describe it), and there may be any number of axes before them.
#
# `x.unsqueeze(k)` inserts a new axis of length one, which becomes axis `k`. The numbers stay the same:
#
# | | shape |
# |---|---|
# | `x` | (3,) |
# | `x.unsqueeze(0)` | (1, 3): a row |
# | `x.unsqueeze(-1)` | (3, 1): a column |
#
# ## 4. Broadcasting: when shapes differ
#
# `a + b` with two tensors of the same shape adds element by element. If the shapes *differ*, torch aligns them at their
# **right ends** and compares the lengths axis by axis, from right to left:
#
# 1. The lengths are equal: nothing to do.
# 2. One of them is 1: this axis is **stretched**, that is, its numbers are repeated as often as needed.
# 3. One tensor has no axis left: it is treated as if it had one of length 1, which is stretched.
# 4. Anything else: an error.
#
# These rules are called **broadcasting**.

# %% predict="predict_broadcast"
# a has the shape (3, 1), and b has the shape (4,). How many numbers does a + b hold?

# %% check="predict_broadcast"

# %% [markdown]
# ### See it: the rules at work
#
# Here are two tensors with four axes each, as you will meet them in lesson 02.
#
# **Change something:** remove the two ones from the shape of `b`, which leaves `(2, 5)`. What does torch align the 2
# with? Then try the shapes of your prediction, `(3, 1)` and `(4,)`.

# %% tags=["see"]
aligned_shapes({"a": (2, 8, 5, 5), "b": (2, 1, 1, 5)})

# %% [markdown]
# <details><summary>What changes?</summary>
#
# The 2 is aligned with the first 5 of `a`. The lengths differ and neither is 1, so torch would raise an error. The shapes
# `(3, 1)` and `(4,)` fit: both are stretched, and the result has the shape `(3, 4)`.
#
# </details>
#
# ### See it: the copies
#
# A column times a row makes a multiplication table. Numbers in brackets are copies.
#
# **Change something:** remove `.unsqueeze(-1)` from `down`, and read torch's message. Then give both tensors length 4,
# still without `.unsqueeze(-1)`: there is no error, but is the product still a table?

# %% tags=["see"]
down = torch.arange(1, 4).unsqueeze(-1)
across = torch.arange(1, 5)

broadcast_tables(down, across, down * across, names=("down", "× across", "= product"))

# %% [markdown]
# <details><summary>What changes?</summary>
#
# Both tensors now have a single axis, and the lengths, 3 and 4, don't match, so torch raises an error. With two lengths
# of 4, it multiplies element by element: 1, 4, 9, 16. That is a row, not a table.
#
# </details>
#
# ## 5. A wrong answer without an error
#
# If you mix up two shapes, torch often finds *some* way to make them fit, and you get the answer to a different
# question.

# %% predict="predict_silent"
# A model's predictions are a column: the numbers 1, 2, 3 in the shape (3, 1). The targets are a row:
# the numbers 1, 2, 3 in the shape (3,). Every prediction is right. What mean squared error does this give?
# (Give two decimals, or a fraction.)
#     ((predicted - target) ** 2).mean()

# %% check="predict_silent"

# %% [markdown]
# ### See it: every prediction is right, and the error is not zero
#
# **Change something:** append `.squeeze(-1)`, which removes the axis of length one, to the first line.

# %% tags=["see"]
predicted = torch.tensor([[1.0], [2.0], [3.0]])
target = torch.tensor([1.0, 2.0, 3.0])

difference = predicted - target
print("mean squared error:", (difference**2).mean().item())
broadcast_tables(predicted, target, difference, names=("predicted", "− target", "= difference"))

# %% [markdown]
# Each prediction was compared with *every* target; only the diagonal is what we wanted. A network trained with this
# loss would learn to predict the mean of all targets, everywhere, and no error would tell you.
#
# <details><summary>What changes?</summary>
#
# The error is now 0. Both shapes are `(3,)`, so each prediction is compared only with its own target.
#
# </details>
#
# Three habits protect you:
#
# 1. **State the shapes** in the signature, as this course does, or in a comment.
# 2. **Print them** when in doubt: `print(x.shape)`.
# 3. **Test with sizes that all differ.** With a (3, 3) tensor, a wrong axis goes unnoticed. With (2, 5) it doesn't.
#
# ## 6. Your first exercise
#
# Compute the difference of every pair of numbers in a row: `L` numbers make an `L` by `L` table. The entry in row $i$
# and column $j$ of the table is
#
# $$\mathrm{result}_{ij} = x_i - x_j$$
#
# where $x_i$ is number $i$ of the original row.
#
# ### Worked example: three numbers

# %% tags=["see"]
three = [5, 7, 10]
for left in three:
    print([f"{left} - {right} = {left - right}" for right in three])

# %% [markdown]
# In the signature of the function below, `Num` is a tensor of numbers of any dtype, and `"... L"` means **any number of
# leading axes**, then one of length L. Each row gets its own table: a batch of B rows, (B, L), becomes (B, L, L).
#
# ### First, make a mistake
#
# To learn how to read a check's message, first write something **wrong**. In the next code cell, delete the line that
# starts with `raise`, and write this one instead:
#
# ```python
#     return x.unsqueeze(-1) - x
# ```
#
# It looks good: a column minus a row. Run the cell, then the check below the hints, and read its message **slowly**.

# %% build="pairwise_differences"
### BEGIN SOLUTION course_lib.transformer.broadcasting:pairwise_differences

# %% [markdown]
# This is a scratch cell: compare your function's result with the worked example, and change the cell as you like.
# Nothing in it is graded. With the wrong line, what happens for two rows of two numbers, `[[5, 7], [1, 4]]`?

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
# <details><summary>Other lines that you may meet later</summary>
#
# | line | what it tells you |
# |---|---|
# | **Your code raised ...** | your code stopped with an error: which one, in which line, and what it usually means |
# | **Expected ... to be raised, but your code returned ...** | your code should reject these inputs, but doesn't |
# | **Your code returned a ValueError instead of raising it.** | the line needs `raise` in place of `return` |
# | **This should be true, but isn't: ...** | a property that the expected result has, and yours doesn't |
# | **incorrect.** | no mistake that the check knows explains all of your results |
# | **In this test, a known mistake gives the same result ...** | a mistake (or **a combination of mistakes**) that explains your result in this test (or **in another test**), and may be yours |
# | **But it doesn't explain ...**, **But ... fails in a different way** | a test, or the rest of your result, for which that mistake gives something else |
# | **But it would also fail ...** | a test that your code passes |
# | **the likely cause is ...**, **in both failing tests, ...**, or **in all ... failing tests, ...** | a mistake that explains most or all of the failing tests |
# | **Every number is ...**, **The wrong elements are ...** | how your numbers are related to the expected ones |
# | **First correct ...** | a function from an earlier cell that yours uses, and that fails its own check |
# | **Your code reads the notebook's variable ...** | a variable from outside your function, where you may have meant an argument |
# | **Your code passes ...** | how many tests it passes, with examples: what works already |
# | **Printed in this test** | what your code printed during the test |
# | **Try ... expected: ... returned: ...** | code to copy into a scratch cell, the expected result, and yours |
# | **Next** | what to do now |
#
# </details>
#
# The *expected* result comes from the course's own function, the **reference**, called with the same inputs. The check
# compares shapes, dtypes, numbers and gradients; how you write your code is up to you. (You may use any library
# function, except one that does the whole exercise.)
#
# A single row of four numbers passes: (4, 1) meets (4,). But with three rows of three numbers, (3, 3, 1) meets (3, 3):
# the wrong axes are aligned, and because all sizes are equal, there is no error. The same happens to the two rows of
# two numbers in the scratch cell. This is the silent error of section 5.
#
# ### Now correct it
#
# Which shape does the second `x` need, so that each row meets *itself*, whatever the leading axes are? Write one shape
# below the other, change your line, and run the cell and the check again, until it shows a ✓. (A ○ means that you
# haven't written the code yet, or that you haven't run its cell since you last changed it.)
#
# ### See it: the distances between words
#
# Here is your function's result for the positions of four words. A negative number means that word i comes before
# word j.
#
# **Change something:** use other positions, such as `torch.tensor([1, 10, 100])`. What pattern do you see across the
# diagonal, and why?

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
# <details><summary>What changes?</summary>
#
# Each number has its negative on the other side of the diagonal, such as -9 and 9, because $x_i - x_j$ is the negative
# of $x_j - x_i$. On the diagonal, $x_i - x_i$ is 0.
#
# </details>
#
# ### Explain it
#
# A wrong function can pass one test by chance. So how does a check decide whether your function is correct? Explain in
# your own words what it calls, what it compares, and why you may write your function differently from the course.

# %% [markdown] explain="explain_check"
# A check calls my function with its own inputs, of several shapes and dtypes, and calls the course's function, the
# reference, with the same inputs. It compares the shapes, dtypes, numbers and gradients of the results, and checks that
# the inputs are unchanged. It doesn't read my code, so any way of writing it that gives the same results is correct. If
# my results are wrong in exactly the way that a known mistake would make them wrong, the check names that mistake.
#
# ### BEGIN MARK SCHEME
# - 1 point: it calls the course's own function (the reference) with the same inputs, and compares the results.
# - 1 point: only results count, not how the code is written (so other ways of writing it are correct as well).
# ### END MARK SCHEME

# %% [markdown]
# ## 7. Submitting
#
# When you have finished a lesson:
#
# 1. **Validate.** The button in the toolbar saves the notebook and runs it from top to bottom in a new kernel, as the
#    grader will. This finds, for example, a cell that needs something from a cell below it, or from a deleted one.
# 2. **Submit** as your instructor has told you: with the *Assignment List* in JupyterLab's menu *Nbgrader*, or by
#    sending the notebook file. Until the deadline you can submit again; the last submission counts.
# 3. **Wait for feedback.** The grader's checks draw *different* numbers, so code that only fits the numbers that you
#    saw will fail. Some mistakes cost only part of the points. A person reads your explanations.
#
# If you are learning on your own, Validate is all that you need.
#
# ## Common questions
#
# <details><summary>I have changed something and now nothing works. How do I start again?</summary>
#
# In the menu *Kernel*, choose *Restart Kernel and Run All Cells*. It stops at the first cell that shows an error, such
# as a check that doesn't pass; run the remaining cells one by one. This keeps everything that you have written.
# If a cell that isn't yours is damaged, copy your own cells into a fresh copy of the notebook.
#
# </details>
#
# <details><summary>The check says ✗, and I am sure that I am right.</summary>
#
# Run the cell with your function again: what counts is the code that ran last, not the text in the cell. Then try the
# worked example in the scratch cell. If you are still sure, tell your instructor: correct answers should pass, however
# they are written.
#
# </details>
#
# <details><summary>A cell shows [*] and does not stop.</summary>
#
# It is still running; the usual reason is a loop that never ends. The square button in the toolbar interrupts it.
#
# </details>
#
# <details><summary>What do "... L" and Num mean in the signature?</summary>
#
# They are notes for readers, written with the library jaxtyping. `Num` is a tensor of numbers, and `"... L"` its shape,
# as in section 6. Other lessons use `Float` (decimal numbers), `Int` (whole numbers) and `Bool` (truth values). A
# letter that occurs twice stands for the same length. `*shape` is any number of axes, `_` a length that doesn't matter,
# and `#B` either B or 1.
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
# Not for the lessons: everything in them runs on an ordinary laptop. The final lab can use as many GPUs as you have,
# and also runs without any, on a small corpus.
#
# </details>
#
# <details><summary>How much mathematics do I need?</summary>
#
# Vectors, matrix products, means and variances, logarithms and exponentials, and the idea of a derivative. Some
# pictures use more, such as a Jacobian. The text next to them says in plain words what is computed, and no exercise
# depends on it.
#
# </details>
#
# ## Further reading
#
# - [Broadcasting semantics](https://pytorch.org/docs/stable/notes/broadcasting.html) in the PyTorch documentation.
# - Vaswani et al. 2017, [Attention Is All You Need](https://arxiv.org/abs/1706.03762): read the introduction and look
#   at the figures.
#
# ## Where you are
#
# Press **Validate** before you hand in the lesson.
#
# Next: **lesson 01, scaled dot-product attention**. Everything else is built around it.

# %% [markdown]
# # Lesson 07: the schedule
#
# The model is built. Now it learns, in thousands of **updates** that each move the weights a little. The **learning
# rate** sets how far. If it is too large, the model never settles; if it is too small, the model never arrives.
#
# The paper's answer is unusual: begin with a rate of almost zero, rise in a straight line for 4,000 updates (the
# **warm-up**), then fall slowly forever.
#
# By the end you will be able to
#
# - write one update of Adam, the optimiser of the paper, and explain its first moves,
# - read and write equation 3 of the paper, and work out its peak,
# - drive any PyTorch optimiser with a schedule of your own, without being off by one,
# - say what a "step" is when a batch comes in several pieces.
#
# **Time:** about two hours. **In [the paper](https://arxiv.org/abs/1706.03762):** section 5.3.

# %% tags=["see"]
from course_lib.charts import architecture_map, named_lines, show_offline
from course_lib.student.progress import finished_exercises

show_offline()
architecture_map(built=finished_exercises(), current=["learning_rate", "make_scheduler"])

# %% [markdown]
# The first exercise, one update of Adam, isn't on the map, because the course itself trains with PyTorch's Adam.

# %% given="setup"
import math

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from course_lib.checks import check
from course_lib.transformer import Transformer, TransformerConfig, causal_mask, shift_target

# %% [markdown]
# ## 1. How far does one update move a weight?
#
# The simplest way to learn is **gradient descent**. The gradient $g$ says how the loss changes when a weight $\theta$
# changes, and the weight moves a little in the opposite direction, with a learning rate of $\eta$:
#
# $$\theta \leftarrow \theta - \eta\, g$$
#
# A large gradient makes a large move. But a Transformer's gradients can differ by orders of magnitude from weight to
# weight: one rate can't fit them all. From about 2011, optimisers gave each weight its own step size, computed
# from its past gradients (AdaGrad, RMSProp).
#
# The paper uses their best-known successor, **Adam** (Kingma and Ba 2015). It keeps two running means for every weight:
# $m$ of its gradients, and $v$ of their squares. (Adam's paper calls $v$ the *uncentred* variance, because no mean is
# subtracted.) At update $t$, with the gradient $g_t$:
#
# $$m_t = \beta_1 m_{t-1} + (1 - \beta_1)\, g_t \qquad v_t = \beta_2 v_{t-1} + (1 - \beta_2)\, g_t^2$$
#
# Both start at 0 and are therefore too small at first. These divisions correct that ($\beta_1^t$ is $\beta_1$ to the
# power of $t$):
#
# $$\hat m_t = \frac{m_t}{1 - \beta_1^t} \qquad \hat v_t = \frac{v_t}{1 - \beta_2^t}$$
#
# Then the weight moves:
#
# $$\theta \leftarrow \theta - \eta\, \frac{\hat m_t}{\sqrt{\hat v_t} + \epsilon}$$
#
# | symbol | in code | in the paper | what it is |
# |---|---|---|---|
# | $\theta$, $g$ | `parameter`, `gradient` | | a weight and its gradient |
# | $m$, $v$ | `mean`, `variance` | | the running means; 0 before the first update |
# | $\hat m$, $\hat v$ | | | the corrected running means, used only for this update |
# | $t$ | `step` | | the number of the update; the first is 1 |
# | $\beta_1$ | `beta1` | 0.9 | how slowly $m$ forgets: it remembers about 10 updates, $1 / (1 - \beta_1)$ |
# | $\beta_2$ | `beta2` | 0.98 | how slowly $v$ forgets: about 50 updates |
# | $\epsilon$ | `eps` | $10^{-9}$ | a tiny number that prevents a division by zero |
# | $\eta$ | `lr` | the schedule | the learning rate |
#
# Put $t = 1$ into these formulas, with pencil and paper.

# %% predict="predict_first_move"
# Adam, with the settings of the paper, runs at a learning rate of 0.01. In its very first update a
# weight has a gradient of 0.002. How far does the weight move?

# %% check="predict_first_move"

# %% [markdown]
# So only the gradient's **sign** determines Adam's first move. Every weight moves by the full learning rate, whether
# its gradient is trustworthy or an accident of the first batch. (If the gradient is exactly zero, the weight stays
# where it is.)
#
# Adam's first moves are one reason for the warm-up. To understand them, write an update yourself.
#
# ### Worked example: one update of two weights
#
# The learning rate is 0.1.
#
# | | first weight | second weight |
# |---|---|---|
# | weight $\theta$ | 1 | -2 |
# | gradient $g_1$ | 0.3 | -0.02 |
# | $m_1 = 0.9 \cdot 0 + 0.1 \cdot g_1$ | 0.03 | -0.002 |
# | $v_1 = 0.98 \cdot 0 + 0.02 \cdot g_1^2$ | 0.0018 | 0.000008 |
# | $\hat m_1 = m_1 / (1 - 0.9^1)$ | 0.3 | -0.02 |
# | $\hat v_1 = v_1 / (1 - 0.98^1)$ | 0.09 | 0.0004 |
# | $\hat m_1 / (\sqrt{\hat v_1} + \epsilon)$ | 1 | -1 |
# | new weight | 0.9 | -1.9 |
#
# The next update needs the **plain** $m_1$ and $v_1$; the corrected ones are used once and dropped.

# %% tags=["see"]
# A scratch cell for update 2, whose gradients are 0.1 and 0.04: finish the update by hand from these numbers.
gradient = torch.tensor([0.1, 0.04])
mean, variance = torch.tensor([0.03, -0.002]), torch.tensor([0.0018, 0.000008])
print("0.9 of the old mean:      ", 0.9 * mean)
print("0.1 of the new gradient:  ", 0.1 * gradient)
print("0.98 of the old variance: ", 0.98 * variance)
print("0.02 of the new square:   ", 0.02 * gradient**2)
print(f"corrections of update 2:   {1 - 0.9**2:.4f} and {1 - 0.98**2:.4f}")

# %% [markdown]
# ### Build it: Adam
#
# `torch.optim.Adam` would be the whole exercise, so it is not allowed.

# %% build="adam_update"
### BEGIN SOLUTION course_lib.transformer.adam:adam_update

# %% [markdown]
# A scratch cell: both updates. The first should give the new weights of the worked example, then its $m_1$ and $v_1$.
# Does the second give what you worked out by hand, 0.8126 and -1.9365?

# %% tags=["see"]
weights, zeros = torch.tensor([1.0, -2.0]), torch.zeros(2)
first = adam_update(weights, torch.tensor([0.3, -0.02]), zeros, zeros, step=1, lr=0.1)
print("update 1:", *first)
print("update 2:", *adam_update(first[0], torch.tensor([0.1, 0.04]), first[1], first[2], step=2, lr=0.1))

# %% [markdown] hints="adam_update"

# %% check="adam_update"

# %% [markdown]
# ### See it: a steep weight and a flat one
#
# There are two weights, and the loss is a hundred times steeper along one of them:
# $\frac12 (100\, \theta_1^2 + \theta_2^2)$. Both weights start at 1, and the loss is lowest where both are 0. The rate
# of gradient descent is 0.015. (At 0.02 or more, every update would overshoot so far that the steep weight gets no
# closer to 0.) Adam runs at a rate of 0.05.
#
# **Change something:** set the rate of gradient descent to 0.021. Then raise Adam's rate to 0.5.

# %% tags=["see"]
steepness = torch.tensor([100.0, 1.0])


def descend(rate: float) -> list[list[float]]:
    weights, path = torch.ones(2), []
    for _ in range(60):
        path.append(weights.tolist())
        weights = weights - rate * steepness * weights
    return [*path, weights.tolist()]


def descend_with_adam(rate: float) -> list[list[float]]:
    weights, path = torch.ones(2), []
    mean = variance = torch.zeros(2)
    for step in range(1, 61):
        path.append(weights.tolist())
        weights, mean, variance = adam_update(weights, steepness * weights, mean, variance, step, rate)
    return [*path, weights.tolist()]


paths = {
    "gradient descent": descend(0.015),
    "Adam": descend_with_adam(0.05),
}
rows = []
for name, path in paths.items():
    for step, (steep, flat) in enumerate(path):
        rows.append((f"{name}: steep", step, steep))
        rows.append((f"{name}: flat", step, flat))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="updates done",
    up="weight",
    title="How do a steep and a flat weight find their way to 0?",
    dashed=[f"{name}: flat" for name in paths],
)

# %% [markdown]
# Gradient descent throws the steep weight from side to side, and after 60 updates the flat one has covered only three
# fifths of its distance. With Adam the two lines coincide. (It overshoots, because its mean remembers about ten
# gradients.)
#
# <details><summary>What changes?</summary>
#
# At 0.021, each update multiplies the steep weight by -1.1. It ends at about 304, and next to it the other lines look
# flat. At 0.5, Adam overshoots to about -0.6, but its two lines still coincide and settle near 0.
#
# </details>
#
# ### See it: signal and noise
#
# Here are three kinds of weights. For the first kind, the gradient is the same in every batch: pure **signal**. For the
# second, it is the sum of signal and noise, in equal parts. For the third, it is a random number around zero: pure
# **noise**, which gives the weight no reason to move. How far does Adam move each kind, in units of the learning rate?
# Each line is the mean over 500 weights.
#
# **Change something:** change `betas`. What happens at the start, and later, if $\beta_1$ is 0.5?

# %% tags=["see"]
torch.manual_seed(0)
kinds = {"signal": (1.0, 0.0), "half and half": (1.0, 1.0), "noise": (0.0, 1.0)}
rows = []
for name, (signal, noise) in kinds.items():
    weights = nn.Parameter(torch.zeros(500))
    adam = Adam([weights], lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    for update in range(1, 61):
        before = weights.detach().clone()
        weights.grad = signal + noise * torch.randn(500)
        adam.step()
        rows.append((name, update, (weights.detach() - before).abs().mean().item()))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="update",
    up="move, in learning rates",
    title="How far does Adam move a weight?",
)

# %% [markdown]
# After a few dozen updates, pure noise moves a weight by only about a fifth of the rate, because it cancels out in $m$,
# while the squares in $v$ don't. But at the **first** update all three move by the full rate. Adam has seen only one
# batch, and treats everything as signal (Ma and Yarats 2019, [arXiv 1910.04209](https://arxiv.org/abs/1910.04209)).
#
# <details><summary>What changes?</summary>
#
# At the first update, all three kinds still move by the full rate. But later, noise moves a weight by nearly half the
# rate instead of a fifth: $m$ remembers only about 2 gradients, so less of the noise cancels out.
#
# </details>
#
# The first updates are also when a Transformer is most fragile. In the paper's model the normalisation comes after each
# sum (post-norm, lesson 03), and the gradients near the output are large at the start (Xiong et al. 2020, [arXiv
# 2002.04745](https://arxiv.org/abs/2002.04745)). Large blind moves can push the model into a region from which it
# recovers very slowly. So the rate should stay **small while the optimiser is still learning what to trust**.
#
# The idea is older than the Transformer: He et al. ([2016](https://arxiv.org/abs/1512.03385)) used a warm-up for a
# network of 110 layers, and Goyal et al. ([2017](https://arxiv.org/abs/1706.02677)) for very large batches.

# %% [markdown]
# ## 2. One line: up, then down
#
# Equation 3 of the paper, with an additional factor in front:
#
# $$\mathrm{rate}(\mathit{step}) = \mathit{factor} \cdot d_\mathrm{model}^{-0.5} \cdot
# \min\!\left(\mathit{step}^{-0.5},\; \mathit{step} \cdot \mathit{warmup}^{-1.5}\right)$$
#
# | symbol | in code | what it is |
# |---|---|---|
# | $\mathit{step}$ | `step` | the number of the update; the first one is step **1** |
# | $d_\mathrm{model}$ | `d_model` | the number of features of each position, 512 in the base model |
# | $\mathit{warmup}$ | `warmup` | how many updates the rise takes, 4,000 in the paper |
# | $\mathit{factor}$ | `factor` | scales the whole schedule up or down; 1 in the paper |
#
# Read the formula from the inside out. The second term of the minimum is a rising line. The first falls: four times as
# many updates, half the rate. **The smaller one counts**: at first the line, later the falling curve.
#
# They meet where $\mathit{step}^{1.5} = \mathit{warmup}^{1.5}$, so at $\mathit{step} = \mathit{warmup}$. That is what
# the unusual power of -1.5 is for.
#
# ### Worked example: eight updates
#
# Take a tiny model with 4 features, and a warm-up of 4 updates.

# %% tags=["see"]
print("step   1/root(step)   step/8   smaller   times 1/root(4)")
for update in range(1, 9):
    falling, rising = 1 / math.sqrt(update), update / 8  # 4 to the power of 1.5 is 8
    smaller = rising if rising < falling else falling
    print(f"{update:>4} {falling:>14.3f} {rising:>8.3f} {smaller:>9.3f} {smaller / 2:>17.4f}")

# %% [markdown]
# A scratch cell: a warm-up of 9 (9 to the power of 1.5 is 27). Where do the two columns meet now?

# %% tags=["see"]
for update in [4, 8, 9, 10, 16]:
    print(update, round(1 / math.sqrt(update), 3), round(update / 27, 3))

# %% predict="predict_peak"
# The base model has 512 features, a warm-up of 4000 updates and a factor of 1. What is the largest learning
# rate that it ever has?

# %% check="predict_peak"

# %% [markdown]
# ### Build it
#
# Python's operator for powers is `**`, and it binds more tightly than `*`.

# %% build="learning_rate"
### BEGIN SOLUTION course_lib.transformer.schedule:learning_rate

# %% [markdown]
# A scratch cell: the eight updates of the worked example. You should get its last column.

# %% tags=["see"]
for update in range(1, 9):
    print(update, round(learning_rate(update, d_model=4, warmup=4), 4))

# %% [markdown] hints="learning_rate"

# %% check="learning_rate"

# %% [markdown]
# ### See it: two halves make a schedule
#
# Here the warm-up is 100, and $d_\mathrm{model}$ is 1, so $d_\mathrm{model}^{-0.5}$ is 1, too.
#
# **Change something:** replace `100**-1.5` with `100**-1` or with `100**-2`. Where do the terms meet then?

# %% tags=["see"]
rows = []
for step in range(1, 601, 3):
    rows.append(("step · warmup^-1.5", step, step * 100**-1.5))
    rows.append(("step^-0.5", step, 1 / math.sqrt(step)))
    rows.append(("your rate", step, learning_rate(step, d_model=1, warmup=100)))

halves = pd.DataFrame(rows, columns=["line", "x", "y"])
named_lines(
    halves[halves["y"] < 0.25],
    across="step",
    up="rate",
    title="Which of the two terms is the smaller one?",
    dashed=["step · warmup^-1.5", "step^-0.5"],
)

# %% [markdown]
# <details><summary>What changes?</summary>
#
# With `100**-1` they meet near step 22, at a rate of about 0.22; with `100**-2` near step 464, at about 0.05. Only with
# -1.5 do they meet at the end of the warm-up, step 100, where your rate has its peak.
#
# </details>
#
# ### See it: the paper's schedules, and others
#
# Each line is named by its number of features, $d_\mathrm{model}$, and its warm-up. *base* and *big* are the paper's
# models.
#
# **Change something:** add a small model: 128 features, a warm-up of 400. Then find a `factor` for it (the third
# number in the brackets) that gives the same peak as the base model's.

# %% tags=["see"]
settings = {
    "base: 512, warm-up 4,000": (512, 4000, 1.0),
    "big: 1,024, warm-up 4,000": (1024, 4000, 1.0),
    "512, warm-up 2,000": (512, 2000, 1.0),
    "512, warm-up 8,000": (512, 8000, 1.0),
    "256, warm-up 4,000": (256, 4000, 1.0),
}
rows = []
for name, (d_model, warmup, factor) in settings.items():
    for step in sorted({*range(1, 20_001, 200), warmup}):
        rows.append((name, step, learning_rate(step, d_model, warmup, factor)))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="step (update of the weights)",
    up="learning rate",
    title="How does the learning rate rise and fall?",
    dashed=["512, warm-up 2,000", "512, warm-up 8,000"],
    mark="highest",
)

# %% [markdown]
# **A longer warm-up has a lower peak.** The rate at the peak is
# $\mathit{factor} \cdot (d_\mathrm{model} \cdot \mathit{warmup})^{-0.5}$.
#
# **After the warm-up you can't tell how long it was.** The three curves with 512 features become one, because the
# falling half doesn't depend on the warm-up.
#
# **Wider models take smaller steps.** Each output of a wide layer is a sum over more weights. If every weight moves by
# the rate, the sum moves further, so the rate has to be smaller. This explains why wider models need smaller rates, but
# not the exponent: the paper gives no reason for $d_\mathrm{model}^{-0.5}$.
#
# <details><summary>What changes?</summary>
#
# With a factor of 1, the small model's peak is 0.0044, more than six times the base model's 0.0007. Its
# $d_\mathrm{model} \cdot \mathit{warmup}$ is a fortieth of the base model's, so the peaks are equal with a factor
# of $1 / \sqrt{40} \approx 0.158$.
#
# </details>

# %% [markdown]
# ## 3. Into the optimiser
#
# A PyTorch optimiser holds its weights in one or several **groups**, each with its own rate. The rate of the first
# group is `optimizer.param_groups[0]["lr"]`. A **scheduler** overwrites these rates. So each update ends with two
# calls: `optimizer.step()` moves the weights at the current rate, and `scheduler.step()` sets the rate of the *next*
# update.
#
# PyTorch's `LambdaLR(optimizer, function)` is the scheduler for a formula of your own. It sets each rate to
#
# $$\text{the optimiser's initial rate} \times \text{function}(\text{number of scheduler steps so far})$$
#
# So if the optimiser's initial rate is `lr=1.0`, `function` returns the rate itself.
#
# ### Worked example: three updates
#
# This schedule looks its rates up in a list.

# %% tags=["see"]
rates = [0.5, 0.25, 0.125, 0.0625]


def look_up(number):
    print(f"   LambdaLR calls the function with {number}")
    return rates[number]


tiny = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
print("creating the scheduler:")
looking_up = LambdaLR(tiny, look_up)
for update in [1, 2, 3]:
    print(f"update {update} runs at the rate {tiny.param_groups[0]['lr']}")
    tiny.step()
    looking_up.step()

# %% [markdown]
# Look closely at the number that `look_up` receives, because a mistake here has been copied many times. PyTorch passes
# the number of updates that are **done**; equation 3 needs the number of the **next** one.
#
# **Change something:** create `tiny` with `lr=0.1`, and look at the rates again.
#
# <details><summary>What changes?</summary>
#
# The rates are 0.05, 0.025 and 0.0125. `LambdaLR` multiplies what the function returns by the initial rate, 0.1.
#
# </details>
#
# ### Build it
#
# Your function must not call the scheduler's `step()`.

# %% build="make_scheduler"
### BEGIN SOLUTION course_lib.transformer.schedule:make_scheduler

# %% [markdown]
# A scratch cell: three updates with the schedule of section 2's worked example. The first should run at the rate of
# step 1, which is 0.0625.
#
# **Change something:** leave out `scheduler.step()`. Then call it twice.

# %% tags=["see"]
tiny = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
scheduler = make_scheduler(tiny, d_model=4, warmup=4)
for update in [1, 2, 3]:
    print(f"update {update} runs at the rate {tiny.param_groups[0]['lr']}")
    tiny.step()
    scheduler.step()

# %% [markdown]
# <details><summary>What changes?</summary>
#
# Without `scheduler.step()`, all three updates run at 0.0625, because nothing changes the rate. If it is called twice,
# they run at 0.0625, 0.1875 and about 0.2236.
#
# </details>

# %% [markdown] hints="make_scheduler"

# %% check="make_scheduler"

# %% [markdown]
# ## 4. What is a step?
#
# The paper's batches hold about 25,000 tokens on each side. If that many don't fit into memory, you split a batch into
# **micro-batches**, add up their gradients, and make **one** update with the sum (lesson 09).
#
# The paper's step is an update of the weights. But the loop runs over micro-batches, and it is easy to indent
# `scheduler.step()` one level too far.

# %% predict="predict_warmup"
# The warm-up is 4000. A program splits each batch into 8 micro-batches, and steps the scheduler after
# every micro-batch by mistake. After how many updates of the weights is the rate at its peak?

# %% check="predict_warmup"

# %% [markdown]
# ### See it: the schedule that you wanted, and the one that you get
#
# **Change something:** increase the number of micro-batches. How many does it take until almost no warm-up is left?

# %% tags=["see"]
micro_batches = 8
rows = []
for update in sorted({*range(1, 12_001, 120), 4000, max(1, 4000 // micro_batches)}):
    rows.append(("stepped once per update", update, learning_rate(update, 512, 4000)))
    rows.append(("stepped once per micro-batch", update, learning_rate(update * micro_batches, 512, 4000)))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="step (update of the weights)",
    up="learning rate",
    title="What happens to the warm-up if the scheduler is stepped too often?",
    mark="highest",
)

# %% [markdown]
# The peak is as high as before, but it comes after only an eighth of the updates. So during the rise, when the rate
# should be small, it is eight times too large. The two curves cross at update 2,000, and from update 4,000 on the rate
# is too small by a factor of $\sqrt 8$. The model trains worse, and no error is raised. The rule: **one step of the
# scheduler for each step of the optimiser.**
#
# <details><summary>What changes?</summary>
#
# The peak is at update 4,000 divided by the number of micro-batches: at update 100 with 40 of them, and at update 10
# with 400. With 4,000, the first update already runs at the peak rate.
#
# </details>

# %% [markdown]
# ## 5. Does it matter?
#
# The task is to read six random symbols and write the same six. A small Transformer, with two layers on each side and
# 32 features, is trained three times, for 150 updates each:
#
# - **post-norm, with warm-up:** the paper's kind of model and your schedule, with a warm-up of 40,
# - **post-norm, without:** the same, but updates 1 to 39 already run at the peak rate,
# - **pre-norm, without:** normalising before each sublayer instead.
#
# Each line shows the mean loss of the last ten updates; guessing among the ten symbols would cost $\ln 10 \approx 2.3$.
# The cell takes several seconds. Write down your guess first: which of the three will learn the task, and which won't?
#
# **Change something:** set `FACTOR` to 0.1 instead of 0.5. Is the warm-up still needed? And how large may the factor be
# before the model with warm-up fails, too?

# %% tags=["see"]
torch.set_num_threads(1)  # a model this small trains faster with a single thread
SYMBOLS, LENGTH, START = 12, 6, 1
D_MODEL, WARMUP, FACTOR = 32, 40, 0.5


def with_warmup(done: int) -> float:
    return learning_rate(done + 1, D_MODEL, WARMUP, FACTOR)


def without_warmup(done: int) -> float:
    return learning_rate(max(done + 1, WARMUP), D_MODEL, WARMUP, FACTOR)


def losses_of_training(rate, norm_first: bool, updates: int = 150) -> list[float]:
    torch.manual_seed(0)
    config = TransformerConfig(
        layers=2, d_model=D_MODEL, heads=2, d_ff=64, dropout=0.0, norm_first=norm_first
    )
    model = Transformer(SYMBOLS, SYMBOLS, config)
    adam = Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = LambdaLR(adam, rate)
    losses = []
    for _ in range(updates):
        source = torch.randint(2, SYMBOLS, (32, LENGTH))
        target = torch.cat([torch.full((32, 1), START), source], dim=1)
        decoder_input, labels = shift_target(target)
        logits = model(source, None, decoder_input, causal_mask(LENGTH))
        loss = cross_entropy(logits.flatten(0, 1), labels.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


trainings = {
    "post-norm, with warm-up": losses_of_training(with_warmup, norm_first=False),
    "post-norm, without": losses_of_training(without_warmup, norm_first=False),
    "pre-norm, without": losses_of_training(without_warmup, norm_first=True),
}
rows = []
for name, losses in trainings.items():
    for update in range(10, len(losses) + 1, 2):
        rows.append((name, update, sum(losses[update - 10 : update]) / 10))

named_lines(
    pd.DataFrame(rows, columns=["line", "x", "y"]),
    across="update",
    up="loss",
    title="What do forty gentle updates change?",
)

# %% [markdown]
# The post-norm model without warm-up is thrown off by its first few updates, and a hundred updates later it hasn't
# recovered. The pre-norm model is more forgiving, which is one reason why most later models are built that way.
#
# This model isn't stuck completely: its loss ends at about 1.9, somewhat below that of guessing. But its answers depend
# on the input much less than those of the other two, its gradients are smaller (the picture shows neither), and finding
# the way back takes many updates. (Small gradients alone can't be the reason, because Adam divides by their size.)
#
# But this is one tiny model (with other seeds, the picture is the same), and how much is lost depends on the rate. Why
# a warm-up helps is still being studied; you have seen two of the proposed reasons.
#
# <details><summary>What changes?</summary>
#
# With 0.1, the peak rate is only a fifth as high, and both models learn without a warm-up; the post-norm model is then
# even ahead of the one with warm-up. The model with warm-up gets worse as the factor grows: in our run, its final loss
# is about 0.3 with a factor of 0.5, 1.4 with 1, and 2.2 with 2. The last is hardly better than guessing.
#
# </details>
#
# ### Explain it
#
# In about six sentences: why does a Transformer like the paper's begin with tiny learning rates? Say what is
# special about Adam's first updates, why a fresh post-norm model is fragile, and how the picture shows that the damage
# was done before update 40.

# %% [markdown] explain="explain_warmup"
# Adam divides the mean of the gradients by the root of the mean of their squares. After one batch both come from the
# same gradient, so every weight moves by the full rate in the direction of that gradient's sign, whether it is signal
# or noise. Only after a few dozen updates does noise cancel out in the mean. A fresh post-norm model is fragile (its
# gradients near the output are large), and large blind moves of all its weights can push it into a region where its
# answers hardly depend on the input. From update 40 on, both post-norm runs have the same rates, but in the picture
# only one of them learns the task. So the later rates can't be the reason: the damage was done before, and it lasts.
# The warm-up keeps the steps small until Adam's means can be trusted.
#
# ### BEGIN MARK SCHEME
# - 1 point: Adam's first moves have the size of the rate whatever the gradient's size (only its sign counts, whether it
#   is signal or noise).
# - 1 point: a fresh (post-norm) model is fragile: large or unsettled gradients, easily thrown off.
# - 1 point: from update 40 on, the rates are equal, and still only one of the two models learns: early damage lasts.
#
# Formulas aren't needed.
# ### END MARK SCHEME

# %% [markdown]
# ### Explain it
#
# A widely copied program contains the equivalent of `LambdaLR(optimizer, lambda step: rate(max(step, 1)))`, where
# `rate` is equation 3. The `max` is there because `rate(0)` divides by zero. Which step's rate does each of the updates
# 1, 2, 3 and 4 use? Why does almost nobody notice? And what is a better fix?

# %% [markdown] explain="explain_lag"
# LambdaLR calls the function with 0, 1, 2, 3 for updates 1, 2, 3, 4. With the clamp they run at the rates of steps 1,
# 1, 2 and 3: from the second update on, each runs at the rate that was meant for the one before it. In a warm-up of
# 4,000, a lag of one step changes a rate by at most 1/4,000 of the peak, so the training looks the same. Only somebody
# who compares the rates with the formula notices (or somebody with a very short warm-up). The fix is to add one to the
# number of updates done.
#
# ### BEGIN MARK SCHEME
# - 1 point: the rates are those of steps 1, 1, 2, 3 (the schedule lags by one).
# - 1 point: a lag of one step changes the rate by a tiny part of the peak in a long warm-up, so no result shows it.
# - 1 point: add one to the count instead of clamping it.
# ### END MARK SCHEME

# %% [markdown]
# ## Common questions
#
# <details><summary>How long should the warm-up be?</summary>
#
# The paper uses 4,000 of its 100,000 updates for it; small models on small corpora get by with a few hundred. Too long
# a warm-up costs time and lowers the peak. Too short a warm-up can ruin the whole run. If the loss jumps up early and
# stays there, first try twice the warm-up or half the factor.
#
# </details>
#
# <details><summary>Why does the rate fall with the root of the step, and not in some other way?</summary>
#
# Later steps should be smaller, so that the weights settle. The root falls so slowly that you can decide later when to
# stop. Many newer programs let the rate fall to zero along a cosine or a straight line. That often gives a
# slightly lower final loss, but you have to choose the number of updates at the start.
#
# </details>
#
# <details><summary>My training was interrupted. What must be saved so that the schedule continues where it was?</summary>
#
# Three things: the number of steps done (in `scheduler.state_dict()`), the model's weights, and the optimiser's state,
# which contains Adam's means. Without the first, a resumed run warms up a second time; without the last, it makes blind
# first moves again.
#
# </details>
#
# <details><summary>If I double the batch, how should I change the rate?</summary>
#
# A larger batch has less noise in its gradient, so it tolerates a larger rate. With Adam, multiplying the rate by
# $\sqrt 2$ is a common first try; there is no fixed rule. You can change the rate with `factor`.
#
# </details>
#
# ## Further reading
#
# - Section 5.3 of the paper. Kingma and Ba 2015, [Adam](https://arxiv.org/abs/1412.6980): algorithm 1 is the one that
#   you have built.
# - Xiong et al. 2020, [On Layer Normalization in the Transformer Architecture](https://arxiv.org/abs/2002.04745), and
#   Ma and Yarats 2019, [On the Adequacy of Untuned Warmup for Adaptive Optimization](https://arxiv.org/abs/1910.04209):
#   why a warm-up helps. The second paper argues against another explanation, by Liu et al. 2020 ([On the Variance of
#   the Adaptive Learning Rate and Beyond](https://arxiv.org/abs/1908.03265)): that Adam's step size for each weight
#   varies too much in the first updates.
# - Loshchilov and Hutter 2019, [Decoupled Weight Decay Regularization](https://arxiv.org/abs/1711.05101): AdamW, the
#   usual optimiser of Transformers today. The cosine schedule is from [SGDR](https://arxiv.org/abs/1608.03983), by the
#   same authors in 2017.
# - What people do today: pre-norm models, AdamW, a short linear warm-up, then a cosine or linear decay.
#
# ## Where you are
#
# Save the notebook, press **Validate**, and run the next cell.

# %% tags=["see"]
architecture_map(built=finished_exercises())

# %% [markdown]
# Next: **lesson 08, label smoothing**. What should the model be told is correct?

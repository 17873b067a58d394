# %% [markdown]
# # Lesson 01: scaled dot-product attention

# %% given="setup"
import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from course_lib.checks import check

# %% predict="predict_spread"
# Two vectors of 64 standard normal numbers each: what is the standard deviation of their dot product?

# %% check="predict_spread"

# %% build="attention_scores"
### BEGIN SOLUTION course_lib.transformer.attention:attention_scores

# %% [markdown] hints="attention_scores"

# %% check="attention_scores"

# %% tags=["see"]
attention_scores(torch.randn(2, 4), torch.randn(3, 4))

# %% build="attention_weights"
### BEGIN SOLUTION course_lib.transformer.attention:attention_weights

# %% [markdown] hints="attention_weights"

# %% check="attention_weights"

# %% build="scaled_dot_product_attention"
### BEGIN SOLUTION course_lib.transformer.attention:scaled_dot_product_attention

# %% [markdown] hints="scaled_dot_product_attention"

# %% check="scaled_dot_product_attention"

# %% [markdown]
# Explain in two or three sentences why the scores are divided by the root of d_k.

# %% [markdown] explain="explain_scaling"
# The dot product of two random vectors has a standard deviation of the root of d_k ...
#
# ### BEGIN MARK SCHEME
# - one point: ...
# ### END MARK SCHEME

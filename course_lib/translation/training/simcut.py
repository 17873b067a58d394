"""SimCut: a model should say the same of a sentence whether or not it misses a few of its words.

Gao et al. 2022, "Bi-SimCut" (arXiv 2206.02368): beside the loss of the sentence as it is, the divergence
between what the model predicts for it and for a copy in which some tokens' vectors are zero.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


@contextlib.contextmanager
def second_half_cut(model: Any, p: float) -> Iterator[None]:
    """Within, lose each token's vector with probability p in the second half of every batch.

    It takes a model with the embeddings' contract names. What is lost is drawn from torch's generator.
    """

    def cut(module: nn.Module, tokens: Any, vectors: Tensor) -> Tensor:
        kept = torch.rand(vectors.shape[:-1], device=vectors.device) >= p
        kept[: len(kept) // 2] = True
        return vectors * kept.unsqueeze(-1)

    embeddings = {model.source_embedding, model.target_embedding}
    hooks = [embedding.register_forward_hook(cut) for embedding in embeddings]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def divergence_sum(whole: Float[Tensor, "N V"], cut: Float[Tensor, "N V"]) -> Float[Tensor, ""]:
    """Sum, over N positions, the Kullback-Leibler divergence of the second logits from the first.

    The gradient flows into both: the paper found that to matter.
    """
    return F.kl_div(cut.log_softmax(-1), whole.log_softmax(-1), reduction="sum", log_target=True)

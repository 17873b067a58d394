"""A whole model, made of a student's parts."""

from dataclasses import replace
from typing import Any

from torch import nn

from course_lib.student.parts.assembly import Parts
from course_lib.student.parts.cell import said
from course_lib.student.parts.errors import PartsError
from course_lib.transformer import TransformerConfig, scaled_dot_product_attention


def build_transformer(
    parts: Parts, source_vocab: int, target_vocab: int, config: TransformerConfig
) -> nn.Module:
    """Build a Transformer of these parts; `parts.table()` says whose each is.

    Where the config asks for the reference's attention, which is its default, the parts' own takes its place.
    Raises PartsError where the student's code cannot build it.
    """
    if config.attention is scaled_dot_product_attention:
        config = replace(config, attention=parts["scaled_dot_product_attention"])
    make: Any = parts["Transformer"]
    try:
        model = make(source_vocab, target_vocab, config)
    except Exception as error:
        raise PartsError(
            f"the model cannot be built of these parts: it raised {said(error)}; run the checks of the "
            "lessons, or ask unequal_parts which part it is"
        ) from None
    if not isinstance(model, nn.Module):
        raise PartsError(
            f"Transformer should make an nn.Module, and made an object of type {type(model).__name__}; "
            "run its check in lesson 06"
        )
    return model

"""Layers with a weight layout for CPU kernels compute the same results as the reference's layers."""

import pytest
import torch
from torch import nn

from course_lib.transformer import Transformer, TransformerConfig, padding_mask
from course_lib.translation.decoding.inference_model import InferenceTransformer, MergedLinear

#: Tolerances for the rounding errors of a sum of 512 products.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float64: 1e-13}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("features", "widths"), [(192, [6007]), (64, [64, 64, 64]), (512, [130, 7]), (1, [1])]
)
@torch.no_grad()
def test_products(dtype: torch.dtype, features: int, widths: list[int]) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(features, width).to(dtype) for width in widths]
    together = MergedLinear(layers, dtype)
    for shape in ((1, 1), (64, 1), (7, 3), (2, 40)):
        x = torch.randn(*shape, features, dtype=dtype)
        expected = torch.cat([layer(x) for layer in layers], dim=-1)
        torch.testing.assert_close(together(x), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_the_encoder(norm_first: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    sizes = TransformerConfig(layers=2, d_model=32, heads=4, d_ff=64, norm_first=norm_first)
    model = Transformer(50, 40, sizes).to(dtype).eval()
    source = torch.randint(1, 50, (5, 9))
    source[2, 4:] = 0
    mask = padding_mask(source, 0)
    found, expected = InferenceTransformer(model, dtype).encode(source, mask), model.encode(source, mask)
    torch.testing.assert_close(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])

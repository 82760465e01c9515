"""Convolutions of many networks in bfloat16 as one Triton kernel, against torch's in float64."""

import pytest
import torch
from torch.nn import functional as F

from limbeck.models.stacked.convolution import _backward, _program, side_by_side

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
# networks, rows, channels, height, width, filters, kernel, stride, padding
CASES = [
    (3, 2, 64, 8, 8, 128, 3, 1, 1),
    (2, 5, 128, 6, 10, 64, 3, 2, 1),
    (2, 3, 256, 4, 4, 256, 3, 1, 1),
    (2, 3, 64, 8, 6, 128, 1, 2, 0),
    (1, 1, 192, 7, 5, 320, 1, 1, 0),
    (2, 2, 64, 9, 9, 64, 5, 1, 2),
    (2, 2, 64, 9, 9, 64, 3, 3, 0),
]


@needs_gpu
@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients_are_those_of_torch(case: tuple[int, ...]) -> None:
    networks, rows, channels, height, width, filters, kernel, stride, padding = case
    torch.manual_seed(0)
    x = torch.randn(networks, rows, channels, height, width, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(networks, filters, channels, kernel, kernel, device="cuda", dtype=torch.bfloat16)
    how = ([stride, stride], [padding, padding])
    assert _program(x, weight, *how) is not None
    exact = [x.double().requires_grad_(), weight.double().requires_grad_()]
    right = torch.stack([F.conv2d(exact[0][i], exact[1][i], None, *how) for i in range(networks)])
    gradient = torch.randn(right.shape, device="cuda", dtype=torch.bfloat16)
    right.backward(gradient.double())
    found = [side_by_side(x, weight, *how), *_backward(gradient, x, weight, *how, True)]
    for ours, theirs in zip(found, [right.detach(), *(values.grad for values in exact)], strict=True):
        assert theirs is not None
        assert ((ours.double() - theirs).norm() / theirs.norm()).item() < 4e-3  # bfloat16 rounds to 2e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_precisions_are_left_to_cudnn(dtype: torch.dtype) -> None:
    x, weight = torch.zeros(1, 1, 64, 8, 8, dtype=dtype), torch.zeros(1, 64, 64, 3, 3, dtype=dtype)
    assert _program(x, weight, [1, 1], [1, 1]) is None

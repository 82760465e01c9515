"""Layers that take another's place."""

import pytest
import torch
from torch import nn

from limbeck.models.device import Device
from limbeck.models.stacked.layers import Average, stackable


@pytest.mark.parametrize("layer", [nn.AvgPool2d(2), nn.AvgPool2d((3, 2), (3, 2)), nn.AvgPool2d(4, 4)])
def test_an_average_over_fields_is_the_pool(layer: nn.AvgPool2d) -> None:
    [average] = stackable(nn.Sequential(layer), Device()).children()
    x = torch.rand(3, 2, 9, 8, generator=torch.Generator().manual_seed(0))
    assert isinstance(average, Average)
    assert torch.allclose(average(x), layer(x), atol=1e-7)


@pytest.mark.parametrize("layer", [nn.AvgPool2d(3, 2), nn.AvgPool2d(2, ceil_mode=True), nn.AvgPool2d(2, padding=1)])
def test_fields_that_overlap_or_reach_out_are_left_to_the_pool(layer: nn.AvgPool2d) -> None:
    [same] = stackable(nn.Sequential(layer), Device()).children()
    assert isinstance(same, nn.AvgPool2d)

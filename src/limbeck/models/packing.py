"""Networks as ONNX. An architecture is exported once; other networks of it only bring their weights."""

import copy
import io
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from limbeck.models.onnx import PackedModel, packed

OPSET = 17  # the TorchScript exporter's newest
COLORS = (1, 3, 4)


def pack(network: nn.Module, row: tuple[int, ...], classes: int, architecture: Hashable) -> bytes:
    """A trained network as a packed model; equal `architecture` means networks that differ in weights alone.

    That is tried on rows: a network may keep numbers outside its weights, and is then exported by itself.
    """
    template = onnx.load_from_string(_template(_Architecture(network, architecture), row, classes))
    weights = network.state_dict(prefix="network.")
    for initializer in template.graph.initializer:
        if initializer.name in weights:
            initializer.CopyFrom(numpy_helper.from_array(weights[initializer.name].cpu().numpy(), initializer.name))
    found = bytes(template.SerializeToString(deterministic=True))
    return found if _agrees(found, network, row) else _exported(network, row, classes)


def _agrees(found: bytes, network: nn.Module, row: tuple[int, ...]) -> bool:
    rows = torch.rand(8, *row, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores = torch.softmax(network(channels_first(rows)), dim=1).numpy()
    return bool(np.allclose(PackedModel(found).scores(rows.numpy()), scores, atol=1e-3))


def channels_first(rows: Tensor) -> Tensor:
    """Images of [H, W] or [H, W, colours] become [colours, H, W]."""
    if rows.ndim == 3:
        return rows.unsqueeze(1)
    return rows.permute(0, 3, 1, 2) if rows.ndim == 4 and rows.shape[3] in COLORS else rows


@dataclass(unsafe_hash=True, slots=True)
class _Architecture:
    """Some network of an architecture; two are equal where their architectures are."""

    network: nn.Module = field(compare=False)
    architecture: Hashable


@lru_cache(maxsize=16)
def _template(key: _Architecture, row: tuple[int, ...], classes: int) -> bytes:
    """The graph with numbers in place of weights that are all different, lest equal ones be merged or folded."""
    network = copy.deepcopy(key.network).cpu().eval()
    key.network = nn.Identity()
    rng = torch.Generator().manual_seed(0)
    for weight in network.state_dict().values():
        if weight.is_floating_point():
            weight.copy_(torch.rand(weight.shape, generator=rng))
    return _exported(network, row, classes)


def _exported(network: nn.Module, row: tuple[int, ...], classes: int) -> bytes:
    file = io.BytesIO()
    names = ("rows", "label", "scores")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the TorchScript exporter is deprecated, and ten times faster
        torch.onnx.export(
            _Voter(network).eval(),
            (torch.zeros(2, *row),),
            cast(Any, file),
            input_names=names[:1],
            output_names=names[1:],
            dynamic_axes={name: {0: "rows"} for name in names},
            opset_version=OPSET,
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
            dynamo=False,
        )
    graph = onnx.load_from_string(file.getvalue()).graph
    return packed(graph.node, graph.initializer, row, classes, probabilities=True, opsets={"": OPSET})


class _Voter(nn.Module):
    """A network as packed models are: from stored rows to label and scores."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.network(channels_first(rows))
        return logits.argmax(dim=1), torch.softmax(logits, dim=1)

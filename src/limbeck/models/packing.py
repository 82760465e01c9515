"""Networks as ONNX; an architecture is exported once, then other networks of it only replace the weights."""

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

from limbeck.models.heads import labels_of, scores_of
from limbeck.models.onnx import PackedModel, packed
from limbeck.protocol.task import Kind

OPSET = 17  # newest of the TorchScript exporter
COLORS = (1, 3, 4)  # possible numbers of channels


def pack(
    network: nn.Module, row: tuple[int, ...], classes: int, architecture: Hashable, task: Kind = "multiclass"
) -> bytes:
    """Pack a trained network as ONNX.

    Parameters
    ----------
    network : nn.Module
        The network, in evaluation mode.
    row : tuple of int
        Shape of a row.
    classes : int
        Number of classes.
    architecture : hashable
        Key that is equal for networks that differ only in their weights.
    task : {"multiclass", "multilabel", "regression"}
        What the outputs of the network mean.

    Returns
    -------
    bytes
        Packed model.

    Notes
    -----
    The result is compared with the network on random rows. A network with numbers outside its weights is exported by
    itself.
    """
    template = onnx.load_from_string(_template(_Architecture(network, architecture), row, classes, task))
    weights = network.state_dict(prefix="network.")
    for initializer in template.graph.initializer:
        if initializer.name in weights:
            initializer.CopyFrom(numpy_helper.from_array(weights[initializer.name].cpu().numpy(), initializer.name))
    found = bytes(template.SerializeToString(deterministic=True))
    return found if _agrees(found, network, row, task) else _exported(network, row, classes, task)


def _agrees(found: bytes, network: nn.Module, row: tuple[int, ...], task: Kind) -> bool:
    rows = torch.rand(8, *row, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores = scores_of(network(channels_first(rows)), task).numpy()
    return bool(np.allclose(PackedModel(found).scores(rows.numpy()), scores, atol=1e-3))


def channels_first(rows: Tensor) -> Tensor:
    """Move the channels of images before height and width.

    Parameters
    ----------
    rows : Tensor of shape (rows, height, width) or (rows, height, width, channels)
        Images; a number of channels is 1, 3 or 4.

    Returns
    -------
    Tensor of shape (rows, channels, height, width)
        Images; all other rows are returned as they are.

    Examples
    --------
    >>> channels_first(torch.zeros(2, 28, 28)).shape, channels_first(torch.zeros(2, 32, 32, 3)).shape
    (torch.Size([2, 1, 28, 28]), torch.Size([2, 3, 32, 32]))
    """
    if rows.ndim == 3:
        return rows.unsqueeze(1)
    return rows.permute(0, 3, 1, 2) if rows.ndim == 4 and rows.shape[3] in COLORS else rows


@dataclass(unsafe_hash=True, slots=True)
class _Architecture:
    """A network of an architecture; two are equal if their architectures are."""

    network: nn.Module = field(compare=False)
    architecture: Hashable


@lru_cache(maxsize=16)
def _template(key: _Architecture, row: tuple[int, ...], classes: int, task: Kind) -> bytes:
    """ONNX graph with made-up weights that all differ, because equal ones would be merged."""
    network = copy.deepcopy(key.network).cpu().eval()
    key.network = nn.Identity()
    rng = torch.Generator().manual_seed(0)
    for weight in network.state_dict().values():
        if weight.is_floating_point():
            weight.copy_(torch.rand(weight.shape, generator=rng))
    return _exported(network, row, classes, task)


def _exported(network: nn.Module, row: tuple[int, ...], classes: int, task: Kind) -> bytes:
    file = io.BytesIO()
    names = ("rows", "label", "scores")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the TorchScript exporter is deprecated, and ten times faster
        torch.onnx.export(
            _Voter(network, task).eval(),
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
    return packed(graph.node, graph.initializer, row, classes, True, {"": OPSET}, task)


class _Voter(nn.Module):
    """A network with the outputs of a packed model: label and scores of stored rows."""

    def __init__(self, network: nn.Module, task: Kind) -> None:
        super().__init__()
        self.network, self.task = network, task

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        outputs = self.network(channels_first(rows))
        return labels_of(outputs, self.task), scores_of(outputs, self.task)

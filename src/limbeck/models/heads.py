"""What the outputs of a network mean: the scores and the labels of each task."""

import torch
from torch import Tensor

from limbeck.protocol.recipe import Loss
from limbeck.protocol.task import Kind

LOSS_OF: dict[Kind, Loss] = {
    "multiclass": "cross-entropy",
    "multilabel": "binary-cross-entropy",
    "regression": "mse",
}


def scores_of(outputs: Tensor, task: Kind, dim: int = 1) -> Tensor:
    """Scores of a network's outputs.

    Parameters
    ----------
    outputs : Tensor of shape (..., classes)
        Outputs of the network.
    task : {"multiclass", "multilabel", "regression"}
        What they mean.
    dim : int
        Axis of the classes.

    Returns
    -------
    Tensor of the same shape
        Probabilities, or numbers in [0, 1].

    Examples
    --------
    >>> scores_of(torch.tensor([[0.0, 0.0]]), "multilabel").tolist()
    [[0.5, 0.5]]
    """
    if task == "multiclass":
        return torch.softmax(outputs, dim)
    return torch.sigmoid(outputs) if task == "multilabel" else outputs.clamp(0, 1)


def labels_of(outputs: Tensor, task: Kind) -> Tensor:
    """Labels of a network's outputs.

    Parameters
    ----------
    outputs : Tensor of shape (rows, classes)
        Outputs of the network.
    task : {"multiclass", "multilabel", "regression"}
        What they mean.

    Returns
    -------
    Tensor
        Class numbers of shape (rows,), 0 or 1 of shape (rows, classes), or numbers of shape (rows,).

    Examples
    --------
    >>> labels_of(torch.tensor([[0.3, -2.0]]), "multilabel").tolist()
    [[1, 0]]
    """
    if task == "multiclass":
        return outputs.argmax(dim=1)
    return (outputs > 0).long() if task == "multilabel" else scores_of(outputs, task)[:, 0]

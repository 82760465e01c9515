"""Local training of FedMD and FedKD: how a party's model starts, predicts, and learns from a consensus.

A network takes gradient steps: on public rows towards the consensus, then on its own rows. It continues from its
current weights, with one optimizer state for all consensus steps and one for all local steps.

A model without gradients (a forest, a booster, a linear model) is fitted again in every round. It learns the public
rows of all rounds so far, each with the label of its latest consensus, and its own rows, which are repeated until they
are as many. A public row without a consensus keeps its public label if the initialization used it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.knowledge.scores import labels_of, log_odds, logits_of
from limbeck.models.jobs import Fit, ForwardPass, InitialWeights, Pack, PredictPacked, Refit, is_gradient_trained
from limbeck.models.weighting import beside_others, scaled
from limbeck.models.weights import check_weights, continued, split_moments
from limbeck.protocol.messages import Acknowledgement
from limbeck.protocol.recipe import Loss, Recipe
from limbeck.protocol.rows import UNANSWERED, Array, Rows
from limbeck.protocol.site import Silo, Site
from limbeck.protocol.task import Kind, known_classes

WEIGHTS, LABELS, DIGESTS, REVISITS = "weights", "labels", "optimizer.digest", "optimizer.revisit"
HELD_OUT, SHARE_HELD_OUT = "held-out", 0.2
LOGITS: dict[Kind, Callable[[Array], Array]] = {
    "multiclass": logits_of,
    "multilabel": log_odds,
    "regression": lambda numbers: numbers,
}


def initialize(silo: Silo, pretrain: Recipe | None, given: bytes = b"") -> None:
    """Initialize a party's model, and train it on the labelled public rows if wanted.

    Parameters
    ----------
    silo : Silo
        The party.
    pretrain : Recipe or None
        How a network is trained on the public rows; None skips this.
    given : bytes
        Pretrained weights as safetensors, used instead; empty for random weights.

    Raises
    ------
    LimbeckError
        If weights are given and the party's model is not a network, or another one.
    """
    if not is_gradient_trained(silo.model):
        if given:
            problem = 'start = "pretrained" needs the server\'s network; use start = "public" or "none"'
            raise LimbeckError(f"{silo.name} has a {silo.model.name}: {problem}")
        if pretrain is not None:
            assert silo.public.y is not None
            _remember_labels(silo, np.arange(len(silo.public)), silo.public.y)
        return
    model, row = cast(Any, silo.model), silo.private.x.shape[1:]
    if given:
        silo.memory[WEIGHTS] = check_weights(given, model.first_weights(row, silo.classes, 0))
        return
    [silo.memory[WEIGHTS]] = silo.train([InitialWeights(model, row)])
    if pretrain is not None:
        assert silo.public.y is not None
        silo.memory[WEIGHTS] = _steps(silo, Rows(silo.public.x, silo.public.y), _weights(silo), pretrain)


def predict_logits(silo: Silo, rows: Array) -> Array:
    """Predict the logits of rows with a party's model.

    Parameters
    ----------
    silo : Silo
        The party.
    rows : array of shape (rows, ...)
        The features.

    Returns
    -------
    array of shape (rows, classes)
        The logits; for a model without logits, those of its probabilities. For regression, the numbers.
    """
    if is_gradient_trained(silo.model):
        [logits] = silo.train([ForwardPass(silo.model, _weights(silo), rows)])  # type: ignore[arg-type]
        return logits
    assert silo.installed is not None
    [scores] = silo.train([PredictPacked(silo.installed, rows)])
    return LOGITS[silo.task.kind](scores)


def without_unknown(silo: Silo, logits: Array, rows: Array | None = None) -> Array:
    """Set the logits of classes to 0 that a party does not know: those without any label among its rows.

    Parameters
    ----------
    silo : Silo
        The party.
    logits : array of shape (rows, classes)
        Its logits.
    rows : integer array, optional
        Numbers of the private rows that may be used; by default all.

    Returns
    -------
    array of shape (rows, classes)
        The logits.
    """
    if silo.task.kind != "multilabel":
        return logits
    return np.where(
        known_classes(silo.private.y if rows is None else silo.private.y[rows]), logits, logits.dtype.type(0)
    )


def training_rows(silo: Silo, with_public: bool) -> Rows:
    """Return a party's private rows, after the labelled public rows if wanted."""
    if not with_public:
        return silo.private
    assert silo.public.y is not None
    x, y = (np.concatenate(pair) for pair in ((silo.public.x, silo.private.x), (silo.public.y, silo.private.y)))
    return Rows(x, y, beside_others(len(silo.public), silo.private.weight))


def digest(
    silo: Silo, own: Rows, rows: Array, consensus: Array, recipe: Recipe, loss: Loss, revisit: Recipe
) -> Acknowledgement:
    """Train a party's model on the consensus about public rows, then on its own rows.

    Parameters
    ----------
    silo : Silo
        The party.
    own : Rows
        The private rows to train on.
    rows : integer array
        The numbers of the public rows.
    consensus : array of shape (rows, classes) or (rows,)
        The scores, or the labels.
    recipe : Recipe
        How a network is trained on the consensus.
    loss : str
        The loss of this training; it replaces that of the recipe.
    revisit : Recipe
        How a network is trained on its own rows.

    Returns
    -------
    Acknowledgement
        The reply of the party.
    """
    if not is_gradient_trained(silo.model):
        _remember_labels(silo, rows, labels_of(consensus) if consensus.ndim == 1 else _labels_in(silo, consensus))
        return _fit_anew(silo, own)
    targets = labels_of(consensus) if consensus.ndim == 1 else consensus
    _continue(silo, DIGESTS, Rows(silo.public.x[rows], targets), replace(recipe, loss=loss))
    _continue(silo, REVISITS, own, revisit)
    return _pack(silo)


def train_locally(silo: Silo, own: Rows, recipe: Recipe) -> Acknowledgement:
    """Train a party's model on its own rows, as after a consensus."""
    if not is_gradient_trained(silo.model):
        return _fit_anew(silo, own)
    _continue(silo, REVISITS, own, recipe)
    return _pack(silo)


def fine_tune(silo: Silo, own: Rows, recipe: Recipe | None) -> Acknowledgement:
    """Train a party's model on its own rows for the first time, at the end of the initialization."""
    if not is_gradient_trained(silo.model):
        return _fit_anew(silo, own)
    silo.memory[WEIGHTS] = _steps(silo, own, _weights(silo), recipe)
    return _pack(silo)


def _continue(silo: Silo, optimizer: str, rows: Rows, recipe: Recipe) -> None:
    """Train with an optimizer that keeps its state between rounds."""
    start = continued(_weights(silo), cast(bytes | None, silo.memory.get(optimizer)))
    silo.memory[WEIGHTS], silo.memory[optimizer] = split_moments(_steps(silo, rows, start, recipe))


def _steps(silo: Silo, rows: Rows, weights: bytes, recipe: Recipe | None) -> bytes:
    job = Refit(cast(Any, silo.model), rows.x, rows.y, weights, recipe, weight=rows.weight)
    [found] = silo.train([job])
    return found


def _pack(silo: Silo) -> Acknowledgement:
    [model] = silo.train([Pack(silo.model, _weights(silo), silo.private.x.shape[1:])])  # type: ignore[arg-type]
    return silo.install(model)


def _weights(silo: Silo) -> bytes:
    return cast(bytes, silo.memory[WEIGHTS])


def _remember_labels(silo: Silo, rows: Array, labels: Array) -> None:
    """Remember the latest label of each public row."""
    known = _labels(silo)
    known[rows] = labels
    silo.memory[LABELS] = known


def _labels(silo: Silo) -> Array:
    """The label of each public row; UNANSWERED if it has none yet."""
    shape = (len(silo.public), silo.classes) if silo.task.kind == "multilabel" else (len(silo.public),)
    unanswered = np.full(shape, UNANSWERED, np.float32 if silo.task.kind == "regression" else np.int64)
    return cast(Array, silo.memory.get(LABELS, unanswered)).copy()


def _labels_in(silo: Silo, scores: Array) -> Array:
    """Labels of a consensus; numbers are limited to [0, 1]."""
    labels = silo.task.labels_of(scores)
    return np.clip(labels, 0, 1) if silo.task.kind == "regression" else labels


def _fit_anew(silo: Silo, own: Rows) -> Acknowledgement:
    known = _labels(silo)
    rows = np.flatnonzero((known != UNANSWERED).reshape(len(known), -1).any(axis=1))
    times = max(1, round(len(rows) / max(1, len(own))))
    x = np.concatenate([np.repeat(own.x, times, axis=0), silo.public.x[rows]])
    y = np.concatenate([np.repeat(own.y, times, axis=0), known[rows]])
    weight = own.weight
    if weight is not None:
        weight = np.concatenate([np.repeat(scaled(weight), times), np.ones(len(rows))])
    [model] = silo.train([Fit(silo.model, x, y, weight=weight)])
    return silo.install(model)


def pretrained_weights(site: Site, recipe: Recipe) -> bytes:
    """Train the server's network on the labelled public rows, and return its weights as safetensors."""
    assert site.public.y is not None
    model = cast(Any, site.model)
    [first] = site.train([InitialWeights(model, site.public.x.shape[1:])])
    [weights] = site.train([Refit(model, site.public.x, site.public.y, first, recipe)])
    return weights


def hold_out(silo: Silo, rows: Array) -> Array:
    """Hold out a fifth of a party's rows for `accuracy`, the same in every round.

    Parameters
    ----------
    silo : Silo
        The party.
    rows : integer array
        The numbers of the private rows that may be used.

    Returns
    -------
    integer array
        The numbers of the rows to train on.
    """
    if HELD_OUT not in silo.memory:
        every = np.unique(rows)  # all copies of a row that was drawn twice are held out
        silo.memory[HELD_OUT] = silo.rng.permutation(every)[: max(1, round(SHARE_HELD_OUT * len(every)))]
    remaining = rows[~np.isin(rows, cast(Array, silo.memory[HELD_OUT]))]
    return remaining if len(remaining) else rows  # a party with one row uses it for both


def accuracy(silo: Silo) -> float:
    """Compute the accuracy of a party's model on its held-out rows, or that of guessing if there are none.

    Rows count by their sample weights. With weights in [0, 1], as with others, it is from 0 to 1.
    """
    rows = silo.private[cast(Array, silo.memory[HELD_OUT])]
    if not len(rows) or (rows.weight is not None and not rows.weight.any()):
        return 1 / silo.classes
    return float(np.average(predict_logits(silo, rows.x).argmax(axis=1) == rows.y, weights=rows.weight))

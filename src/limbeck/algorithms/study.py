"""Study: how a party's model of any kind starts, is asked about rows, digests a consensus and revisits its own rows.

A network takes gradient steps: on the public rows towards the consensus, then on its own rows, each time from the
weights that it has, with one optimiser for all its digests and one for all its revisits.

A model that takes no steps (a forest, a booster, a linear model) is fitted anew in every round: on the public rows seen
so far, each with the label that the last consensus about it pointed to, and on its own rows, repeated until they are as
many. What it has not seen a consensus about keeps its public label, where there is one and the start used it.
"""

from dataclasses import replace
from typing import Any, cast

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.knowledge.scores import labels_of, logits_of
from limbeck.models.jobs import Fit, ForwardPass, InitialWeights, Pack, PredictPacked, Refit, is_gradient_trained
from limbeck.models.weights import apart, check_weights, continued
from limbeck.protocol.messages import Done
from limbeck.protocol.recipe import Loss, Recipe
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.site import Silo

WEIGHTS, LABELS, DIGESTS, REVISITS = "study.weights", "study.labels", "study.digests", "study.revisits"
UNKNOWN = -1


def begin(silo: Silo, pretrain: Recipe | None, given: bytes = b"") -> None:
    """From fresh or given weights; on the labelled public rows where `pretrain` says how."""
    if not is_gradient_trained(silo.model):
        if given:
            raise LimbeckError(
                f'{silo.name} has a {silo.model.name}: start = "pretrained" hands out the weights of the server\'s '
                'network; say start = "public" or "none"'
            )
        if pretrain is not None:
            assert silo.public.y is not None
            _note(silo, np.arange(len(silo.public)), silo.public.y)
        return
    weights = _checked(silo, given) if given else silo.train([InitialWeights(silo.model, silo.private.x.shape[1:])])[0]  # type: ignore[arg-type]
    if pretrain is not None and not given:
        assert silo.public.y is not None
        weights = _steps(silo, silo.public.x, silo.public.y, weights, pretrain)
    silo.memory[WEIGHTS] = weights


def _checked(silo: Silo, given: bytes) -> bytes:
    model = cast(Any, silo.model)
    return check_weights(given, model.first_weights(silo.private.x.shape[1:], silo.classes, 0))


def ask(silo: Silo, rows: Array) -> Array:
    """[rows, classes] logits of the party's model."""
    if is_gradient_trained(silo.model):
        [logits] = silo.train([ForwardPass(silo.model, _weights(silo), rows)])  # type: ignore[arg-type]
        return logits
    assert silo.adopted is not None
    [scores] = silo.train([PredictPacked(silo.adopted, rows)])
    return logits_of(scores)


def digest(silo: Silo, own: Rows, rows: Array, agreed: Array, recipe: Recipe, loss: Loss, revisit: Recipe) -> Done:
    """Approach what all agreed on about these public rows, then revisit one's own."""
    if not is_gradient_trained(silo.model):
        _note(silo, rows, labels_of(agreed))
        return _fit_anew(silo, own)
    targets = labels_of(agreed) if agreed.ndim == 1 else agreed
    _go_on(silo, DIGESTS, silo.public.x[rows], targets, replace(recipe, loss=loss))
    _go_on(silo, REVISITS, own.x, own.y, revisit)
    return _pack(silo)


def revisit(silo: Silo, own: Rows, recipe: Recipe) -> Done:
    """One's own rows alone, as they are revisited after a digest."""
    if not is_gradient_trained(silo.model):
        return _fit_anew(silo, own)
    _go_on(silo, REVISITS, own.x, own.y, recipe)
    return _pack(silo)


def settle(silo: Silo, own: Rows, recipe: Recipe | None) -> Done:
    """The end of the start: one's own rows for the first time."""
    if not is_gradient_trained(silo.model):
        return _fit_anew(silo, own)
    silo.memory[WEIGHTS] = _steps(silo, own.x, own.y, _weights(silo), recipe)
    return _pack(silo)


def _go_on(silo: Silo, optimiser: str, x: Array, y: Array, recipe: Recipe) -> None:
    """Train with an optimiser that remembers its earlier steps."""
    start = continued(_weights(silo), cast(bytes | None, silo.memory.get(optimiser)))
    silo.memory[WEIGHTS], silo.memory[optimiser] = apart(_steps(silo, x, y, start, recipe))


def _steps(silo: Silo, x: Array, y: Array, weights: bytes, recipe: Recipe | None) -> bytes:
    [found] = silo.train([Refit(silo.model, x, y, weights, recipe)])  # type: ignore[arg-type]
    return found


def _pack(silo: Silo) -> Done:
    [model] = silo.train([Pack(silo.model, _weights(silo), silo.private.x.shape[1:])])  # type: ignore[arg-type]
    return silo.adopt(model)


def _weights(silo: Silo) -> bytes:
    return cast(bytes, silo.memory[WEIGHTS])


def _note(silo: Silo, rows: Array, labels: Array) -> None:
    """Remember the last word on each public row."""
    known = _known(silo)
    known[rows] = labels
    silo.memory[LABELS] = known


def _known(silo: Silo) -> Array:
    """The label of each public row; UNKNOWN where nothing was said of it yet."""
    return cast(Array, silo.memory.get(LABELS, np.full(len(silo.public), UNKNOWN))).copy()


def _fit_anew(silo: Silo, own: Rows) -> Done:
    known = _known(silo)
    rows = np.flatnonzero(known != UNKNOWN)
    times = max(1, round(len(rows) / max(1, len(own))))
    x = np.concatenate([np.repeat(own.x, times, axis=0), silo.public.x[rows]])
    [model] = silo.train([Fit(silo.model, x, np.concatenate([np.repeat(own.y, times), known[rows]]))])
    return silo.adopt(model)

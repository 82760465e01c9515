"""Whether an algorithm and its models use sample weights: checked before any training."""

from collections.abc import Sequence

from limbeck.errors import LimbeckError
from limbeck.models.tasks import for_task
from limbeck.models.weighting import check_takes_weights
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.learning import Model
from limbeck.protocol.task import Kind


def check_server_takes_weights(algorithm: Algorithm, server: Model, kind: Kind) -> None:
    """Raise LimbeckError if the server's model cannot be fitted to the weighted public rows of an algorithm.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    server : Model
        Model of the server.
    kind : {"multiclass", "multilabel", "regression"}
        Kind of the labels.
    """
    if algorithm.server_weights_rows:
        check_takes_weights(for_task(server, kind))


def check_uses_weights(
    algorithm: Algorithm | type[Algorithm], parties: Sequence[Model], server: Model | None, kind: Kind
) -> None:
    """Raise LimbeckError if weights of private rows would be ignored.

    The check depends on the algorithm and the models, not on rows.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    parties : sequence of Model
        Models of the parties that are known here.
    server : Model or None
        Model of the server; None at a party, which does not know it.
    kind : {"multiclass", "multilabel", "regression"}
        Kind of the labels.

    Raises
    ------
    LimbeckError
        If the algorithm, or a model that it trains on private rows, does not use weights.
    """
    if algorithm.uses_weights is None:
        raise LimbeckError(f"{algorithm.name} does not use sample weights or class weights; use for example fedvote")
    trained = {"parties": parties, "server": [server], "sums": []}[algorithm.uses_weights]
    for model in filter(None, trained):
        check_takes_weights(for_task(model, kind))

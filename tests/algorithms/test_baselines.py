"""The ensemble and the public rows alone."""

import numpy as np

from limbeck.algorithms.ensemble import Ensemble
from limbeck.algorithms.public_only import PublicOnly
from limbeck.algorithms.solo import Solo
from limbeck.checks import small_federation
from limbeck.knowledge.votes import tally, winners
from limbeck.models.pool import PoolTrainer
from limbeck.protocol.streams import stream


def test_the_ensemble_is_the_vote_of_what_each_party_learns_alone() -> None:
    federation = small_federation(Ensemble())
    assert federation.test is not None
    together = federation.run(PoolTrainer(1)).model
    alone = small_federation(Solo()).run(PoolTrainer(1)).models
    assert together is not None
    votes = np.stack([model.packed.vote(federation.test.x) for model in alone.values()])
    assert np.array_equal(together.packed.vote(federation.test.x), winners(tally(votes, 3)))


def test_public_only_uses_no_private_row_and_sends_nothing() -> None:
    federation = small_federation(PublicOnly())
    result = federation.run(PoolTrainer(1))
    assert federation.public is not None
    assert result.model is not None
    seed = int(stream(0, "server", 0, "train", 0).integers(2**31, size=1)[0])
    by_hand = federation.server_model.fit(federation.public.x, federation.public.y, 3, seed)
    assert np.array_equal(result.model.packed.vote(federation.public.x), by_hand.vote(federation.public.x))
    assert result.record.epsilon == {"parties": 0.0}
    assert result.record.rounds == 0

from limbeck.algorithms.solo import Solo
from limbeck.checks import small_federation
from limbeck.models.pool import PoolTrainer


def test_each_party_alone() -> None:
    federation = small_federation(Solo())
    result = federation.run(PoolTrainer(1))
    assert result.model is None
    assert sorted(result.models) == [0, 1, 2]
    seeds = [party.metrics.accuracy or 0 for party in result.record.parties if party.metrics]
    assert result.accuracy == sum(seeds) / 3


def test_nothing_leaves() -> None:
    record = small_federation(Solo()).run(PoolTrainer(1)).record
    assert record.ledger == []
    assert record.epsilon == {}
    assert record.worst_epsilon == 0
    assert record.rounds == 0

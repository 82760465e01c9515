"""What one party can change in FedVote, by brute force: no more than its mechanism says, and as much."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedvote import FedVote, VoteRequest, Votes
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.parties import Replies
from limbeck.protocol.rows import Rows
from limbeck.protocol.task import Task
from mixed_parties import before_noise, two_classes

L1 = FedVote(1, 2, privacy=Privacy("L1", "gaussian", epsilon=60.0))


class Asked:
    """Parties whose replies are given."""

    def __init__(self, replies: dict[int, Votes]) -> None:
        self.replies, self.everyone = replies, list(range(6))

    def ask(self, request: Any, of: Any = None, keep: Any = lambda party, reply: reply) -> Any:
        missing = tuple(party for party in self.everyone if party not in self.replies)
        asked = self.replies if isinstance(request, VoteRequest) else {}
        return Replies({party: keep(party, reply) for party, reply in sorted(asked.items())}, missing)


def released_at_l1(replies: dict[int, Votes], monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, Any]]:
    """What the server makes of these replies, before its noise, and the mechanisms."""
    made = two_classes(L1)
    server, _ = made.sites(PoolTrainer(1))
    for reply in replies.values():
        reply.check(VoteRequest(), server, L1)
    with before_noise(monkeypatch) as found:
        L1.lead(Asked(replies), server)
    return {what: (value, mechanism) for what, value, mechanism in found}


def quality(estimates: Any, grid: Any) -> Any:
    known = estimates[np.isfinite(estimates)][:, None]
    return -np.abs((known < grid).sum(axis=0) - (known > grid).sum(axis=0)) / 2


@pytest.mark.parametrize("seed", range(4))
def test_a_replaced_or_silent_party_changes_no_more_than_the_mechanism_states(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At L1, whatever a party sends: it need not be votes."""
    rng = np.random.default_rng(seed)
    rows = 120

    def anything() -> Votes:
        extreme = np.eye(2)[rng.integers(0, 2, rows)]
        votes = rng.choice([-1.0, 1e-3, 1.0, 50.0]) * (extreme if rng.random() < 0.5 else rng.random((rows, 2)))
        share = rng.random()
        return Votes(votes, np.array([1 - share, share]) if rng.random() < 0.8 else np.zeros(2))

    parties = {party: anything() for party in range(6)}
    one = released_at_l1(parties, monkeypatch)
    for other in ({**parties, 3: anything()}, {p: s for p, s in parties.items() if p != 3}):
        two = released_at_l1(other, monkeypatch)
        assert one.keys() == two.keys() == {"prior", "encoded votes"}
        assert all(one[what][1] == two[what][1] for what in one)
        votes, mechanism = one["encoded votes"]
        assert np.linalg.norm(votes - two["encoded votes"][0]) <= mechanism.sensitivity + 1e-9
        grid = np.arange(1, 50) / 50
        change = quality(one["prior"][0], grid) - quality(two["prior"][0], grid)
        assert np.abs(change).max() <= 1


def test_the_party_that_votes_the_opposite_changes_as_much_as_the_mechanism_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At L1: no smaller bound would pass."""
    made = two_classes(L1)
    side = (np.asarray(made.public.x)[:, 0] > np.median(np.asarray(made.public.x)[:, 0])).astype(int)  # type: ignore[union-attr]
    one_way, known = np.eye(2)[side], np.array([0.5, 0.5])
    parties = {party: Votes(one_way * 0.5, known) for party in range(5)}
    found = [
        released_at_l1({**parties, 5: Votes(votes, known)}, monkeypatch)["encoded votes"]
        for votes in (one_way, 1 - one_way)
    ]
    assert np.linalg.norm(found[0][0] - found[1][0]) == pytest.approx(found[0][1].sensitivity)


def several(replies: dict[int, Votes]) -> tuple[Any, Any]:
    """What the server makes of votes on four labels a row, before its noise, and the mechanism."""
    made = replace(two_classes(L1), classes=np.array(list("abcd")), task=Task("multilabel"), test=None)
    private = [Rows(rows.x, np.zeros((len(rows), 4), np.int8)) for rows in made.private]
    server, _ = replace(made, private=private).sites(PoolTrainer(1))
    for reply in replies.values():
        reply.check(VoteRequest(), server, L1)
    with pytest.MonkeyPatch.context() as patched, before_noise(patched) as found:
        L1.lead(Asked(replies), server)
    [(what, value, mechanism)] = found
    assert what == "encoded votes"
    return value, mechanism


@pytest.mark.parametrize("seed", range(3))
def test_the_same_holds_for_several_labels_a_row(seed: int) -> None:
    """At L1, whatever a party sends about four classes, and nothing at all."""
    rng = np.random.default_rng(seed)

    def anything() -> Votes:
        votes = rng.choice([-1.0, 0.0, 1e-3, 1.0, 50.0]) * rng.random((120, 4)).round(rng.integers(0, 3))
        return Votes(votes * (rng.random(4) < 0.7), np.empty(0))

    parties = {party: anything() for party in range(6)}
    one, mechanism = several(parties)
    changed, _ = several({**parties, 3: anything()})
    silent, _ = several({party: reply for party, reply in parties.items() if party != 3})
    assert np.linalg.norm(one - changed) <= mechanism.sensitivity + 1e-9
    assert np.linalg.norm(one - silent) <= mechanism.sensitivity / 2 + 1e-9
    opposite = {**parties, 3: Votes(-parties[3].votes, np.empty(0))}
    assert np.linalg.norm(one - several(opposite)[0]) in (0, pytest.approx(mechanism.sensitivity))

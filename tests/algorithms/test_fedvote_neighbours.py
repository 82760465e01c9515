"""What one party or one row can change in FedVote, by brute force: no more than its mechanism says, and as much."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from limbeck.algorithms.fedvote import FedVote, VoteRequest, Votes
from limbeck.engines.respond import respond
from limbeck.models.named import model_from
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.protocol.codec import Header
from limbeck.protocol.parties import Replies
from limbeck.protocol.rows import Rows
from mixed_parties import before_noise, two_classes

NOTHING = np.empty(0)
L1 = FedVote(1, 2, privacy=Privacy("L1", "gaussian", epsilon=60.0))
L2 = FedVote(2, 3, privacy=Privacy("L2", "gaussian", epsilon=60.0))


class Asked:
    """Parties whose replies are given."""

    def __init__(self, replies: dict[int, Votes]) -> None:
        self.replies, self.everyone = replies, list(range(6))

    def ask(self, request: Any, of: Any = None) -> Any:
        missing = tuple(party for party in self.everyone if party not in self.replies)
        return Replies(self.replies if isinstance(request, VoteRequest) else {}, missing)


def released_at_l1(replies: dict[int, Votes], monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, Any]]:
    """What the server makes of these replies, before its noise, and the mechanisms."""
    made = two_classes(L1)
    server, _ = made.sites(PoolTrainer(1))
    for reply in replies.values():
        reply.check(VoteRequest(NOTHING), server, L1)
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


def released_at_l2(algorithm: FedVote, rows: Rows, monkeypatch: pytest.MonkeyPatch, **more: Any) -> list[Any]:
    """What party 0 releases of these rows, before its noise."""
    made = two_classes(algorithm)
    made = replace(made, private=[rows, *made.private[1:]], **more)
    server, [silo, *_] = made.sites(PoolTrainer(1))
    plan = algorithm.plan(server.facts)
    basis = algorithm.encoding.fit(server.public.x, plan.components).basis
    with before_noise(monkeypatch) as found:
        respond(algorithm, VoteRequest(basis), Header(0, server.public.hash), silo)
    return found


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_a_changed_row_changes_no_more_than_the_mechanism_states(
    adjacency: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At L2, real neighbours: one row of one party is replaced by another with the other label, or removed."""
    algorithm = replace(L2, privacy=replace(L2.privacy, adjacency=adjacency))
    made = two_classes(algorithm)
    own, changed = made.private[2], {"encoded votes": 0.0, "class counts": 0.0}
    for place in range(0, len(own), 8):
        if adjacency == "replace":
            x, y = own.x.copy(), own.y.copy()
            x[place], y[place] = made.private[5].x[0], 1 - y[place]
            neighbour = Rows(x, y)
        else:
            neighbour = own[np.delete(np.arange(len(own)), place)]
        one, two = (released_at_l2(algorithm, rows, monkeypatch) for rows in (own, neighbour))
        for (what, before, mechanism), (again, after, same) in zip(one, two, strict=True):
            assert (what, mechanism) == (again, same)
            distance = float(np.linalg.norm(before - after))
            assert distance <= mechanism.sensitivity + 1e-9
            changed[what] = max(changed[what], distance)
    assert changed["encoded votes"] > 0
    assert changed["class counts"] == pytest.approx(2**0.5 if adjacency == "replace" else 1.0)


def test_the_row_that_turns_all_its_teachers_changes_as_much_as_the_mechanism_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At L2: two rows a party; one that moves to the other side turns every vote of s teachers."""
    algorithm = FedVote(3, 1, privacy=Privacy("L2", "gaussian", epsilon=60.0), prior=[0.5, 0.5])
    public = np.repeat(np.array([[-1.0], [1.0]], np.float32), 10, axis=0)
    tree = model_from({"name": "decision-tree"})
    more = {"models": [tree] * 6, "public": Rows(public, np.zeros(20, int))}

    def votes(second: float) -> Any:
        rows = Rows(np.array([[0.0], [second]], np.float32), np.array([0, 1]))
        [found] = [each for each in released_at_l2(algorithm, rows, monkeypatch, **more) if each[0] == "encoded votes"]
        return found

    (_, one, mechanism), (_, two, _) = votes(1.0), votes(-1.0)
    assert np.linalg.norm(one - two) == pytest.approx(mechanism.sensitivity)


def test_a_teacher_depends_on_its_own_subset_alone() -> None:
    made = two_classes(L2)

    scores: list[Any] = []

    class RecordingTrainer(PoolTrainer):
        """A trainer that keeps what its jobs gave."""

        def run(self, *asked: Any) -> Any:
            scores.append(found := PoolTrainer.run(self, *asked))
            return found

    def votes(rows: Rows) -> Any:
        server, [silo, *_] = replace(made, private=[rows, *made.private[1:]]).sites(RecordingTrainer(1))
        plan = L2.plan(server.facts)
        basis = L2.encoding.fit(server.public.x, plan.components).basis
        respond(L2, VoteRequest(basis), Header(0, server.public.hash), silo)
        return np.stack(scores.pop())

    own, changed = made.private[2], 0
    before = votes(own)
    for place in range(0, len(own), 7):
        y = own.y.copy()
        y[place] = 1 - y[place]
        turned = (before != votes(Rows(own.x, y))).any(axis=(1, 2))
        assert turned.sum() <= L2.partitions
        changed += int(turned.sum())
    assert changed > 0

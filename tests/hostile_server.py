"""Two parties whose private rows are neighbours, and a server that may ask them anything: what it can tell them by.

Every mechanism is replaced by one that gives a value of the right shape whatever it protects. What is left in a party's
answer then depends on private rows only where something goes past the mechanisms: the answers of both must be equal to
the byte. What each mechanism was given is kept, to be compared with the sensitivity that it declares.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limbeck.consortium.answering import answer
from limbeck.consortium.joining import Join
from limbeck.consortium.party import PartyFolder
from limbeck.privacy.ledger import read_ledger
from limbeck.privacy.mechanisms import (
    MECHANISMS,
    ClippedGaussian,
    ConfidentGaussian,
    Gaussian,
    GaussianSum,
    Gumbel,
    Laplace,
    LaplaceCounts,
    LaplaceLogits,
    Subsample,
    clipped,
)
from limbeck.protocol.codec import Header, encode
from limbeck.protocol.envelopes import ReplyEnvelope, RequestEnvelope, Terms
from limbeck.protocol.messages import Message
from limbeck.protocol.rows import Array, Rows, content_hash
from private_levels import ordinary

PUBLIC = ordinary(8, (2,), 2)
CLASSES = ["0", "1", "2"]
PARTIES = 3
VOTES = (Laplace, Gumbel, Gaussian, ConfidentGaussian)
Given = list[tuple[Any, Array]]  # mechanisms, and what they were given


@dataclass(frozen=True, slots=True)
class Pair:
    """Two party folders that differ in private rows alone, a common secret included."""

    homes: tuple[Path, Path]
    given: Given

    def ask(self, algorithm: Any, request: Message, turn: int, seed: int = 0, run: str = "run") -> list[ReplyEnvelope]:
        """Both answers, after everything about them was compared."""
        replies, seen = [], []
        for home in self.homes:
            del self.given[:]
            replies.append(answer(PartyFolder(home), question(algorithm, request, turn, seed, run)))
            seen.append(list(self.given))
        check_equal(*replies)
        check_sensitivity(*seen)
        check_ledgers(self.homes)
        return replies


def question(algorithm: Any, request: Message, turn: int, seed: int, run: str) -> RequestEnvelope:
    terms = Terms(
        algorithm=algorithm.name,
        parameters=json.loads(json.dumps(asdict(algorithm))),
        parties=PARTIES,
        seed=seed,
        classes=CLASSES,
        public=content_hash(PUBLIC.x),
        labelled=True,
    )
    return RequestEnvelope(run, turn, 0, terms, encode(request, Header(turn, terms.public)))


def check_equal(one: ReplyEnvelope, other: ReplyEnvelope) -> None:
    assert one.refusal == other.refusal, "a refusal tells of private rows"
    assert len(one.reply) == len(other.reply), "the size of a reply tells of private rows"
    assert one.encode() == other.encode(), "an answer tells of private rows past the mechanism"


def check_sensitivity(some: Given, others: Given) -> None:
    """What mechanisms were given differs by no more than they declare."""
    assert [m for m, _ in some] == [m for m, _ in others], "whether something is released tells of private rows"
    for (mechanism, one), (_, other) in zip(some, others, strict=True):
        if isinstance(mechanism, Subsample):
            continue
        assert one.shape == other.shape
        if isinstance(mechanism, ClippedGaussian | LaplaceLogits):
            one, other = (clipped(each, mechanism.bound) for each in (one, other))
        moved = np.abs(np.asarray(one, np.float64) - other)
        if isinstance(mechanism, VOTES):
            assert moved.max(initial=0) <= mechanism.weight + 1e-9
            assert moved.sum(axis=1).max(initial=0) <= 2 * mechanism.weight + 1e-9
        elif isinstance(mechanism, GaussianSum):
            assert np.linalg.norm(moved) <= mechanism.l2_sensitivity + 1e-6
        elif isinstance(mechanism, LaplaceCounts):
            assert moved.sum() <= 2
        else:
            assert moved.max(initial=0) <= 2 * mechanism.bound


def check_ledgers(homes: Sequence[Path]) -> None:
    found = [[(run, row) for _, run, row in read_ledger(home / "ledger.sqlite")] for home in homes if _has_ledger(home)]
    assert len(found) != 1, "one of two wrote into its ledger"
    assert not found or found[0] == found[1], "ledgers tell of private rows"


def _has_ledger(home: Path) -> bool:
    return (home / "ledger.sqlite").exists() and (home / "ledger.sqlite").stat().st_size > 0


def write_settings(home: Path, rows: Rows, model: Mapping[str, Any], agree: Sequence[str]) -> None:
    """A party's folder; its owner lets the server choose every parameter."""
    home.mkdir(mode=0o700)
    shape = (content_hash(PUBLIC.x), CLASSES, None, True)
    join = Join("a", 0, "localhost:9443", "-----BEGIN CERTIFICATE-----", *shape, {"name": agree[0]})
    (home / "join.json").write_text(join.to_json())
    (home / "secret").write_bytes(bytes(range(32)))
    (home / "secret").chmod(0o600)
    for name in ("private", "test"):
        np.savez(home / f"{name}.npz", x_train=rows.x, y_train=rows.y)
    np.savez(home / "public.npz", x_train=PUBLIC.x, y_train=PUBLIC.y)
    lines = [f"{key} = {_toml(value)}" for key, value in model.items()]
    agreed = "".join(f'[[agree]]\nalgorithm = "{name}"\n' for name in agree)
    text = 'data = "private.npz"\ntest = "test.npz"\npublic = "public.npz"\nunprotected = true\n[model]\n'
    (home / "party.toml").write_text(text + "\n".join(lines) + "\n" + agreed)


def _toml(value: Any) -> str:
    if not isinstance(value, Mapping):
        return json.dumps(value)
    return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"


@contextmanager
def pair(
    folder: Path, rows: tuple[Rows, Rows], model: Mapping[str, Any], agree: Sequence[str], patch: pytest.MonkeyPatch
) -> Iterator[Pair]:
    given: Given = []
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    homes = folder / "one", folder / "other"
    for home, each in zip(homes, rows, strict=True):
        write_settings(home, each, model, agree)
    with patch.context() as patched:
        patched.setattr(
            "limbeck.models.smoke_test.smoke_test", lambda *given: None
        )  # of the model alone, before rows are read
        for kind in MECHANISMS.values():
            if kind.noisy:
                patched.setattr(kind, "protect", _stand_in(given))
        yield Pair(homes, given)


def _stand_in(given: Given) -> Callable[..., Array]:
    def protect(mechanism: Any, value: Array, source: Any) -> Array:
        given.append((mechanism, np.array(value)))
        if isinstance(mechanism, VOTES):
            return np.asarray(np.arange(len(value)) % value.shape[1])
        if isinstance(mechanism, Subsample):  # not of the last row, which is what neighbours differ in
            return np.arange(mechanism.rows)
        return np.linspace(-1.0, 1.0, value.size).reshape(value.shape)

    return protect

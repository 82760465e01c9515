"""What a coordinator can see: who is there, who answered, what was released."""

from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from limbeck.algorithms import algorithm_named
from limbeck.consortium.server import Member, ServerFolder
from limbeck.engines.flower.chunks import ConnectionLostError
from limbeck.engines.journal import Event, Journal, was_begun
from limbeck.protocol.codec import decode
from limbeck.protocol.envelopes import Answer


@dataclass(frozen=True, slots=True)
class Turn:
    """A request of a run: who was asked, who answered, and what left their houses with it."""

    request: str
    asked: list[str]
    answered: list[str]
    closed: bool
    released: list[str]


@dataclass(frozen=True, slots=True)
class RunStatus:
    name: str
    ended: bool
    turns: list[Turn]
    events: list[Event]
    parties: dict[int, str]


@dataclass(frozen=True, slots=True)
class Overview:
    """All members, and the keys of those that are there: None where the SuperLink does not answer."""

    members: list[Member]
    there: set[str] | None
    runs: list[RunStatus]


def overview(folder: ServerFolder) -> Overview:
    there = None
    with closing(folder.control()) as control, suppress(ConnectionLostError):
        there = {each.key.decode() for each in control.presences() if each.online}
    homes = filter(was_begun, (folder.path / "runs").glob("*/journal.sqlite"))
    members = list(folder.members.values())
    return Overview(members, there, [_run(path) for path in sorted(homes, key=lambda path: path.stat().st_ctime)])


def _run(path: Path) -> RunStatus:
    journal = Journal(path)
    about = journal.about()
    algorithm_named(about["terms"]["algorithm"])  # its messages are known from here on
    parties = {int(number): name for number, name in about["parties"].items()}
    turns = []
    for turn, (request, asked) in journal.questions().items():
        answers = {party: Answer.decode(data) for party, data in journal.answers(turn).items()}
        rows = [f"{row['what']} ({row['mechanism']})" for answer in answers.values() for row in answer.releases]
        turns.append(
            Turn(
                request=type(decode(request)[0]).__name__,
                asked=[parties[party] for party in asked],
                answered=[parties[party] for party in answers],
                closed=journal.is_closed(turn),
                released=list(dict.fromkeys(rows)),
            )
        )
    return RunStatus(path.parent.name, (path.parent / "record.json").exists(), turns, journal.events(), parties)

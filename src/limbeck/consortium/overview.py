"""What a coordinator can see: who is there, who answered, what was released."""

from dataclasses import dataclass
from pathlib import Path

from limbeck.algorithms import algorithm_named
from limbeck.consortium.server import Member, ServerFolder
from limbeck.engines.flower.chunks import ConnectionLostError
from limbeck.engines.journal import Event, Journal, was_begun
from limbeck.protocol.codec import decode
from limbeck.protocol.envelopes import Answer


@dataclass(frozen=True, slots=True)
class Seen:
    """A member, and whether it is there: None where the SuperLink does not answer."""

    member: Member
    there: bool | None


@dataclass(frozen=True, slots=True)
class Turn:
    """A request of a run: who was asked, who answered, and what left their houses with it."""

    request: str
    asked: list[str]
    answered: list[str]
    closed: bool
    released: list[str]


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    ended: bool
    turns: list[Turn]
    events: list[Event]
    parties: dict[int, str]


@dataclass(frozen=True, slots=True)
class Overview:
    members: list[Seen]
    runs: list[Run]


def overview(folder: ServerFolder) -> Overview:
    control = folder.control()
    try:
        online = {each.key.decode(): each.online for each in control.presences()}
        members = [Seen(m, online.get(m.key or "", False)) for m in folder.members.values()]
    except ConnectionLostError:
        members = [Seen(m, None) for m in folder.members.values()]
    finally:
        control.close()
    homes = filter(was_begun, (folder.path / "runs").glob("*/journal.sqlite"))
    return Overview(members, [_run(path) for path in sorted(homes, key=lambda path: path.stat().st_ctime)])


def _run(path: Path) -> Run:
    journal = Journal(path)
    about = journal.about()
    algorithm_named(about["terms"]["algorithm"])  # its messages are known from here on
    parties = {int(number): name for number, name in about["parties"].items()}
    turns = []
    for turn, (request, asked) in journal.questions().items():
        answers = {party: Answer.decode(letter) for party, letter in journal.answers(turn).items()}
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
    return Run(path.parent.name, (path.parent / "record.json").exists(), turns, journal.events(), parties)

"""Overview for a coordinator: which parties are connected, which have answered, and what was released."""

from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from limbeck.algorithms import algorithm_named
from limbeck.consortium.server import Member, ServerFolder
from limbeck.engines.flower.chunks import ConnectionLostError
from limbeck.engines.journal import Event, Journal, was_begun
from limbeck.protocol.codec import decode
from limbeck.protocol.envelopes import ReplyEnvelope


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a run.

    Parameters
    ----------
    request : str
        Class name of the request.
    asked : list of str
        Parties that were asked.
    answered : list of str
        Parties that have answered.
    closed : bool
        Whether the turn is closed.
    released : list of str
        What left the parties with their answers.
    """

    request: str
    asked: list[str]
    answered: list[str]
    closed: bool
    released: list[str]


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Status of a run.

    Parameters
    ----------
    name : str
        Name of the run's folder.
    ended : bool
        Whether the run has ended.
    turns : list of Turn
        Requests of the run.
    events : list of Event
        Events of the run.
    parties : dict of int to str
        Name of each party.
    """

    name: str
    ended: bool
    turns: list[Turn]
    events: list[Event]
    parties: dict[int, str]


@dataclass(frozen=True, slots=True)
class Overview:
    """Overview of a consortium.

    Parameters
    ----------
    members : list of Member
        All invited parties.
    there : set of str or None
        Keys of the connected parties; None if the SuperLink does not answer.
    runs : list of RunStatus
        All runs, oldest first.
    """

    members: list[Member]
    there: set[str] | None
    runs: list[RunStatus]


def overview(folder: ServerFolder) -> Overview:
    """Overview of a consortium, from the server's folder and the SuperLink."""
    there = None
    with closing(folder.control()) as control, suppress(ConnectionLostError):
        there = {each.key.decode() for each in control.presences() if each.online}
    homes = filter(was_begun, (folder.path / "runs").glob("*/journal.sqlite"))
    members = list(folder.members.values())
    return Overview(members, there, [_run(path) for path in sorted(homes, key=lambda path: path.stat().st_ctime)])


def _run(path: Path) -> RunStatus:
    journal = Journal(path)
    about = journal.about()
    algorithm_named(about["terms"]["algorithm"])  # this registers its messages
    parties = {int(number): name for number, name in about["parties"].items()}
    turns = []
    for turn, (request, asked) in journal.questions().items():
        answers = {party: ReplyEnvelope.decode(data) for party, data in journal.answers(turn).items()}
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

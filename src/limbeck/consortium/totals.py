"""What a run and the runs that amend it cost together: they count the same replies."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from limbeck.consortium.server import ServerFolder
from limbeck.engines.journal import Journal, was_begun
from limbeck.errors import LimbeckError
from limbeck.privacy.guarantees import PrivacyGuarantee, guarantees
from limbeck.privacy.ledger import read_ledger
from limbeck.protocol.envelopes import ReplyEnvelope
from limbeck.protocol.release import Release


@dataclass(slots=True)
class PartyReleases:
    """Releases about one party in several runs.

    Parameters
    ----------
    own : dict
        Ledger rows of each of its answers, by run and turn of the answer. Copies of an answer are one release.
    counted_in : set of str
        Runs that count its results.
    """

    own: dict[tuple[str, int], list[Release]] = field(default_factory=dict)
    counted_in: set[str] = field(default_factory=set)


def guarantees_together(
    folder: ServerFolder, first: str, parties: Collection[int], delta: float, rows_per_person: int
) -> list[PrivacyGuarantee]:
    """Compute what holds for some parties after a run and all runs that amend it.

    Parameters
    ----------
    folder : ServerFolder
        The server's folder.
    first : str
        Identifier of the run that the others amend.
    parties : collection of int
        The parties; the largest epsilon among them counts.
    delta : float
        Delta.
    rows_per_person : int
        Largest number of rows of one person in a party.

    Returns
    -------
    list of PrivacyGuarantee
        One for each observer, unit and neighbour relation; empty if the reported ledger rows contradict each other.
    """
    runs = {run: journal for run, journal in _journals(folder).items() if _belongs(run, first)}
    known, released = _by_party(runs), _released_by_server(folder, first)
    largest: dict[tuple[str, str, str], PrivacyGuarantee] = {}
    try:
        for party in parties:
            about = known.get(party, PartyReleases())
            counted = [row for run, row in released if run in about.counted_in or run not in runs]
            own = [row for rows in about.own.values() for row in rows]
            for each in guarantees([*own, *counted], delta, rows_per_person):
                key = each.observer, each.unit, each.adjacency
                largest[key] = max(largest.get(key, each), each, key=lambda guarantee: guarantee.epsilon)
    except (LimbeckError, ArithmeticError, TypeError, ValueError):
        return []
    return list(largest.values())


def _journals(folder: ServerFolder) -> dict[str, Journal]:
    paths = sorted((folder.path / "runs").glob("*/journal.sqlite"))
    journals = [Journal(path) for path in paths if was_begun(path)]
    return {str(journal.about()["run"]): journal for journal in journals}


def _belongs(run: str, first: str) -> bool:
    return run == first or run.startswith((f"{first}-late-", f"{first}-without-"))


def _by_party(runs: Mapping[str, Journal]) -> dict[int, PartyReleases]:
    found: dict[int, PartyReleases] = {}
    for run, journal in runs.items():
        results = journal.requests_for_results()
        for turn in journal.questions():
            for party, data in journal.answers(turn).items():
                answer, about = ReplyEnvelope.decode(data), found.setdefault(party, PartyReleases())
                about.own[answer.run, answer.turn] = [Release(**row) for row in answer.releases]
                if turn in results:
                    about.counted_in.add(run)
    return found


def _released_by_server(folder: ServerFolder, first: str) -> list[tuple[str, Release]]:
    """Releases of the server, also those of runs whose folder was deleted since: they count for all parties."""
    rows = [(run, row) for _, run, row in read_ledger(folder.path / "ledger.sqlite") if row.site == "server"]
    return [(run, row) for run, row in rows if _belongs(run, first)]

"""Composition over the runs of a ledger: which releases concern the same party."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from limbeck.errors import LimbeckError
from limbeck.privacy.guarantees import SERVER
from limbeck.protocol.release import Release

NUMBERED = re.compile(r"party \d+")


def check_site_names(names: Sequence[str]) -> None:
    """Raise `LimbeckError` unless the names distinguish all parties, from each other and from unnamed ones.

    Examples
    --------
    >>> check_site_names(["clinic", "lab"])
    """
    for name in names:
        if not name.strip() or name == SERVER or NUMBERED.fullmatch(name):
            raise LimbeckError(f'{name!r} cannot be the name of a party: it must not be empty, "server" or "party 1"')
        if list(names).count(name) > 1:
            raise LimbeckError(f"two parties have the name {name!r}: give each party a name of its own")


def over_runs(rows: Iterable[tuple[str, Release]]) -> list[Release]:
    """Prepare the releases of several runs for composition.

    Parameters
    ----------
    rows : iterable of (str, Release)
        Releases, each with the identifier of its run.

    Returns
    -------
    list of Release
        The releases to compose. Releases of unnamed parties are attributed to the server if there are several runs.

    Notes
    -----
    A named party is the same in every run, so its releases add up by name. A party that has only a number may be
    another one in the next run. Its releases therefore count for everybody, as those of the server do. Within one run
    no row is in two parties, so equal lists of releases of several unnamed parties count once.
    """
    runs: dict[str, list[Release]] = {}
    for run, row in rows:
        runs.setdefault(run, []).append(row)
    if len(runs) < 2:
        return [row for releases in runs.values() for row in releases]
    return [row for releases in runs.values() for row in _without_numbers(releases)]


def numbered_parties(rows: Iterable[tuple[str, Release]]) -> bool:
    """Whether `over_runs` counts unnamed parties as everybody: there are several runs, and a party without a name."""
    known = list(rows)
    return len({run for run, _ in known}) > 1 and any(NUMBERED.fullmatch(row.site) for _, row in known)


def _without_numbers(releases: Iterable[Release]) -> list[Release]:
    """Releases of one run, with the different lists of releases of unnamed parties attributed to the server."""
    stored: list[Release] = []
    lists: dict[str, dict[str, Release]] = {}
    for row in releases:
        if NUMBERED.fullmatch(row.site):
            unnamed = replace(row, site=SERVER)
            lists.setdefault(row.site, {})[json.dumps(asdict(unnamed), sort_keys=True)] = unnamed
        else:
            stored.append(row)
    different = {frozenset(each): each for each in lists.values()}
    largest = [each for keys, each in different.items() if not any(keys < others for others in different)]
    return [*stored, *(row for each in largest for row in each.values())]

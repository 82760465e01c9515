"""Whose rows releases are about, where a ledger holds more than one run."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from limbeck.errors import LimbeckError
from limbeck.privacy.guarantees import SERVER
from limbeck.protocol.release import Release

NUMBERED = re.compile(r"party \d+")


def check_site_names(names: Sequence[str]) -> None:
    """Refuse names by which a ledger could not tell parties from one another, or from parties without a name."""
    for name in names:
        if not name.strip() or name == SERVER or NUMBERED.fullmatch(name):
            raise LimbeckError(f'{name!r} cannot be the name of a party: not empty, not "server", not "party 1"')
        if list(names).count(name) > 1:
            raise LimbeckError(f"two parties have the name {name!r}: a ledger knows parties by their names")


def over_runs(rows: Iterable[tuple[str, Release]]) -> list[Release]:
    """The releases of several runs, each with its run's identifier, as they must be composed.

    Named parties are the same in every run, so their releases add up by name. A party that is known by its number alone
    may be another one in the next run: what such parties released counts as about everybody, like what the server does.
    Within one run no row is in two parties, so what one party released is not counted again for another that released
    the same. Where there is one run only, nothing changes.
    """
    runs: dict[str, list[Release]] = {}
    for run, row in rows:
        runs.setdefault(run, []).append(row)
    if len(runs) < 2:
        return [row for releases in runs.values() for row in releases]
    return [row for releases in runs.values() for row in _without_numbers(releases)]


def numbered_parties(rows: Iterable[tuple[str, Release]]) -> bool:
    """Whether parties without a name took part in several runs, so that `over_runs` counts them as everybody."""
    known = list(rows)
    return len({run for run, _ in known}) > 1 and any(NUMBERED.fullmatch(row.site) for _, row in known)


def _without_numbers(releases: Iterable[Release]) -> list[Release]:
    """One run's releases: of the numbered parties the different lists, each as if it was the server's."""
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

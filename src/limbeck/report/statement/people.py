"""How a run protects people with several rows, at one party or at several."""

from collections.abc import Mapping, Sequence
from typing import Any

from limbeck.experiments.record import SERVER, RunRecord
from limbeck.privacy.guarantees import GROUPS, delta_of_subsets, people
from limbeck.privacy.mechanisms import Subsample
from limbeck.protocol.release import Release
from limbeck.report.statement.words import WHO, WITHOUT_NOISE, count, number, plain, table


def people_with_rows(record: RunRecord) -> str:
    """Return for how many rows of one person the guarantees hold, and what holds for more and for several parties."""
    noised = [row for row in record.ledger if row["mechanism"] not in WITHOUT_NOISE]
    protects_rows = any(row["unit"] == "example" for row in noised)
    whole = "A whole party is protected, and with it all rows that a person has at this party, however many."
    return f"{_with_more_rows(record) if protects_rows else whole}\n\n{_at_several_parties(noised)}"


def _with_more_rows(record: RunRecord) -> str:
    k = record.rows_per_person
    releases, ks = [Release(**row) for row in record.ledger], sorted({*GROUPS, k})
    heading = [f"{count(n, 'row')}{' (this run)' * (n == k)}" for n in ks]
    if any(row.mechanism == Subsample.name for row in releases):
        what = "Delta"
        lines = [["everybody", *(f"{delta_of_subsets(releases, n):.4g}" for n in ks)]]
    else:
        what = f"Epsilon at the same delta of {plain(record.delta)}"
        found = people(releases, record.delta, ks)
        lines = [[WHO[who], *map(number, by_rows.values())] for who, by_rows in found.items()]
    return (
        f"The guarantees in this statement are for a person with at most {count(k, 'row')} at one party "
        f"(`rows_per_person = {k}`). {what}, by how many rows a person has at one party:\n\n"
        f"{table(['Observer', *heading], lines)}\n\n"
        "A person with more rows is protected less, and no guarantee is stated here."
    )


def _at_several_parties(noised: Sequence[Mapping[str, Any]]) -> str:
    """Return how the guarantees change for a person whose rows are not all at one party."""
    if any(row["site"] == SERVER and row["unit"] == "example" for row in noised):
        return "The server held the rows of all parties: a person's rows at all parties count together."
    sentences = ["**People with rows at several parties** are not covered by the guarantee for one party."]
    if any(row["site"] != SERVER for row in noised):
        sentences.append(
            "Each of these parties releases values that depend on the person, and the losses add up: epsilon for this "
            "person is at most the sum of the parties' epsilons, at the sum of their deltas. It can be larger than the "
            "largest of the parties' epsilons."
        )
    if any(row["site"] == SERVER and row["unit"] == "party" for row in noised):
        sentences.append(
            "What the server releases is protected against the change of one party. A person with rows at several "
            "parties changes several parties at once. For this person no epsilon in this statement holds: at the same "
            "delta, epsilon can be more than the stated one times the number of parties."
        )
    return " ".join(sentences)

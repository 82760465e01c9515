"""The privacy loss of a run: epsilon and delta for each observer, and what they mean as odds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from limbeck.experiments.record import RunRecord
from limbeck.privacy.guarantees import OBSERVERS, PrivacyGuarantee
from limbeck.privacy.mechanisms import Subsample
from limbeck.report.statement.people import people_with_rows
from limbeck.report.statement.words import (
    RELATIONS,
    WHO,
    bullets,
    listed,
    number,
    one_in,
    percent,
    plain,
    table,
    unit_of,
)

Kind = Literal["noise", "sample", "unprotected", "nothing", "unknown"]
Guarantee = Mapping[str, Any]
PRIORS = (0.01, 0.1, 0.5)
NO_PROTECTION = 100.0
JUDGEMENTS = {
    NO_PROTECTION: "**That is no protection.**",
    10.0: "That is little protection.",
}  # by the smallest epsilon that they apply to
HOLDING = "and not another one in its place"
STATES = {
    ("example", "replace"): f"a certain row was in the data, {HOLDING}",
    ("example", "add-remove"): "a certain row was in the data",
    ("party", "replace"): "a party holds certain data, and not other data in their place",
    ("party", "add-remove"): "the data of a certain party were used",
}
ACCOUNTANTS = {
    "basic": "sum over all queries",
    "binary": "exact composition for two classes",
    "binary-rdp": "Rényi differential privacy for two classes",
    "bounded-range": "bounded range",
    "gaussian": "exact composition of Gaussian noise",
    "kov": "optimal composition of Kairouz, Oh and Viswanath",
    "mixed": "composition of Gaussian noise with bounded range",
    "moments": "moments accountant",
    "pld": "privacy loss distribution",
    "post-processing": "nothing to count",
    "rdp": "Rényi differential privacy",
    "subsample": "probability that a row was drawn",
    "zcdp": "zero-concentrated differential privacy",
}


def kind_of(record: RunRecord) -> Kind:
    """Return what kind of protection a run has."""
    epsilons = [each["epsilon"] for each in record.privacy]
    if not epsilons:
        return "unknown" if record.ledger else "nothing"
    if any(row["mechanism"] == Subsample.name for row in record.ledger):
        return "sample"
    if any(0 < epsilon < math.inf for epsilon in epsilons):
        return "noise"
    return "unprotected" if any(map(math.isinf, epsilons)) else "nothing"


def posterior(prior: float, epsilon: float) -> float:
    """Return the most that an observer can come to believe.

    Parameters
    ----------
    prior : float
        How likely the observer thinks it, before the run, that the data are D and not the neighbouring D'.
    epsilon : float
        The guarantee towards this observer.

    Returns
    -------
    float
        The largest probability that the observer can give to D after seeing any outcome o.

    Notes
    -----
    By the theorem of Bayes, the odds after seeing o are the odds before times P(o | D) / P(o | D'). Under
    epsilon-differential privacy this ratio is at most exp(epsilon), so that

        p / (1 - p) <= exp(epsilon) prior / (1 - prior),  hence  p <= prior / (prior + (1 - prior) exp(-epsilon)).

    Under (epsilon, delta)-differential privacy, the outcome can be drawn as follows (Kairouz, Oh & Viswanath 2015):
    with probability delta the mechanism may reveal which of D and D' is true, otherwise it is epsilon-differentially
    private. The limit holds in the latter case, that is, except with probability delta.

    Examples
    --------
    >>> round(posterior(0.5, 1.0), 3), posterior(0.5, 0.0), posterior(0.5, float("inf"))
    (0.731, 0.5, 1.0)
    """
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def headline(found: Sequence[Guarantee], observer: str) -> Guarantee | None:
    """Return the strongest guarantee towards an observer: for a party, else for a row. None where there is none."""
    own = [each for each in found if each["observer"] == observer and math.isfinite(each["epsilon"])]
    return next(iter(own), None)


def headlines(record: RunRecord) -> dict[str, Guarantee | None]:
    """Return the strongest guarantee towards each observer who sees anything."""
    seen = {each["observer"] for each in record.privacy}
    return {observer: headline(record.privacy, observer) for observer in OBSERVERS if observer in seen}


def meaning(guarantee: Guarantee, delta: float) -> str:
    """Return what one guarantee means as odds, with an example."""
    epsilon = guarantee["epsilon"]
    if epsilon == 0:
        return "What is visible does not depend on private rows at all."
    before = f"Suppose that before the run an observer thinks with 50 % probability that {state(guarantee)}."
    if (limit := percent(posterior(0.5, epsilon))) == "100 %":
        return f"{before} After the run, the observer can be **practically certain** of it."
    unless = f"except with probability {one_in(delta)}"
    return f"{before} After the run, this probability is at most **{limit}**, {unless}."


def state(guarantee: Guarantee) -> str:
    """Return what an observer is unsure about."""
    if (rows := guarantee.get("rows", 1)) > 1 and guarantee["unit"] == "example":
        in_place = f", {HOLDING.replace('another one in its', 'others in their')}"
        whose = f"certain rows of one person (up to {rows}) were in the data"
        return whose + (in_place if guarantee["adjacency"] == "replace" else "")
    return STATES[guarantee["unit"], guarantee["adjacency"]]


def judgement(epsilon: float) -> str:
    """Return a sentence about an epsilon that is too large, else an empty string.

    Examples
    --------
    >>> judgement(12.0), judgement(1.0)
    ('That is little protection.', '')
    """
    return next((words for large, words in JUDGEMENTS.items() if epsilon >= large), "")


def accounting(record: RunRecord, together: str) -> str:
    """Return all guarantees of a run with noise: as odds, by observer and relation, for people, and for the ledger."""
    parts = [
        f"*Epsilon* limits how much an observer can learn; smaller is better. *Delta* = {one_in(record.delta)} is the "
        "probability with which this limit may fail; then anything may be revealed.",
        "### What epsilon means as odds",
        _odds(record),
        "### All guarantees",
        _guarantees(record),
        "### People with several rows",
        people_with_rows(record),
        *(["### All runs in this ledger together", together] if together else []),
    ]
    return "\n\n".join(parts)


def _odds(record: RunRecord) -> str:
    finite = {who: each for who, each in headlines(record).items() if each is not None and each["epsilon"] > 0}
    if not finite:
        return "There is no finite epsilon above 0."
    example = finite.get("public", next(iter(finite.values())))
    factor = math.exp(min(example["epsilon"], 700.0))
    times = f" = {factor:,.4g}" if factor < 1e4 else f" = {factor:,.0f}" if factor < 1e6 else ", more than a million"
    lines = [
        [WHO[who], unit_of(each), number(each["epsilon"]), *(percent(posterior(p, each["epsilon"])) for p in PRIORS)]
        for who, each in finite.items()
    ]
    worst = judgement(max(each["epsilon"] for each in finite.values()))
    return (
        f"Epsilon {number(example['epsilon'])} means: the results can multiply the odds that "
        f"{state(example)}, by at most e^{number(example['epsilon'])}{times}. "
        f"{meaning(example, record.delta)} {worst}".strip()
        + "\n\nThe same for observers with other probabilities before the run:\n\n"
        + table(["Observer", "Protected", "Epsilon", *(f"From {percent(p)} to at most" for p in PRIORS)], lines)
    )


def _guarantees(record: RunRecord) -> str:
    """Return epsilon for each unit, relation and observer, with the accountant that gives it."""
    accountants = dict.fromkeys(each["accountant"] for each in record.privacy if each["accountant"])
    papers = any(each["paper"] is not None for each in record.privacy)
    if papers:
        accountants["moments"] = None
    legend = [f"`{name}`: {ACCOUNTANTS[name]}" for name in accountants if name in ACCOUNTANTS]
    note = " For comparison, `moments` is the accountant of the original papers." if papers else ""
    return (
        f"All at delta {plain(record.delta)}. The losses of all queries of one site are composed. Across parties "
        "the largest loss counts, because a neighbouring data set differs at one party only. An *accountant* is the "
        f"theorem by which losses are added up; of those that apply, the one with the smallest epsilon is used.{note}"
        f"\n\n{_matrix(record.privacy, _by_accountant)}\n\n{bullets(legend)}"
    )


def _matrix(found: Sequence[Guarantee], entry: Callable[[Guarantee], str]) -> str:
    """Return a table with a line for each unit and relation, and a column for each observer."""
    observers = list(dict.fromkeys(each["observer"] for each in found))
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for each in found:
        lines.setdefault((unit_of(each), RELATIONS[each["adjacency"]]), {})[each["observer"]] = entry(each)
    heading = ["Protected", "Neighbour", *(f"Epsilon towards {WHO[observer]}" for observer in observers)]
    return table(heading, [[*key, *(epsilons.get(who, "–") for who in observers)] for key, epsilons in lines.items()])


def _by_accountant(guarantee: Guarantee) -> str:
    if math.isinf(guarantee["epsilon"]):
        return "no guarantee"
    paper = f"; `moments` {number(guarantee['paper'])}" if guarantee["paper"] is not None else ""
    return f"{number(guarantee['epsilon'])} (`{guarantee['accountant']}`{paper})"


def _as_odds(guarantee: Guarantee) -> str:
    if math.isinf(guarantee["epsilon"]):
        return "no guarantee"
    return f"{number(guarantee['epsilon'])} (from 50 % to at most {percent(posterior(0.5, guarantee['epsilon']))})"


def sampled(record: RunRecord) -> str:
    """Return the guarantee of a run without noise, in which parties learn from random samples: delta first."""
    k = record.rows_per_person
    rows = [row for row in record.ledger if row["mechanism"] == Subsample.name]
    drawn = [Subsample(**row["parameters"]) for row in rows]
    lines = [
        [
            str(row["site"]).removeprefix("party "),
            f"{sample.rows} of {sample.of} {'with' if sample.replacement else 'without'} replacement",
            f"{sample.guarantee(k)[1]:.4g}",
            f"{sample.guarantee(k)[0]:.4g}",
            ", ".join(f"{sample.curve(epsilon, k):.4g}" for epsilon in (0, 1, 10)),
        ]
        for row, sample in zip(rows, drawn, strict=True)
    ]
    heading = ["Party", "Rows drawn", "Delta", "Epsilon by the theorem", "Exact delta at epsilon 0, 1, 10"]
    parts = [
        f"{delta_first(record)} This limits how many rows are exposed, not whether a drawn row is exposed.",
        "If a row was not drawn, what leaves the party does not depend on it. A smaller delta cannot be had by "
        "accepting a larger epsilon. Odds are therefore not a useful measure here: for a drawn row there is no limit.",
        table(heading, lines),
        "### People with several rows",
        people_with_rows(record),
    ]
    return "\n\n".join(parts)


def delta_first(record: RunRecord) -> str:
    """Return what the delta of a run with random samples means."""
    k = record.rows_per_person
    whose = "a given row was drawn" if k == 1 else f"at least one of the {k} rows of a given person was drawn"
    return (
        f"**Delta is {record.delta:.4g}: with this probability {whose}, and a row that was drawn may be exposed "
        "completely.**"
    )


def of_ledger(ledger: Sequence[PrivacyGuarantee], delta: float) -> str:
    """Return what all runs in a ledger cost together."""
    return (
        "This run shares its ledger with other runs, and their losses add up. The following, not the guarantees of "
        f"this run alone, is what has been spent, at delta {plain(delta)}. Where noise came from a seed, the values "
        f"are those of ideal noise.\n\n{_matrix([asdict(each) for each in ledger], _as_odds)}"
    )


def same_guarantee(record: RunRecord) -> list[tuple[list[str], Guarantee]]:
    """Return the observers towards whom the same finite guarantee holds, with this guarantee."""
    groups: list[tuple[list[str], Guarantee]] = []
    for who, each in headlines(record).items():
        if each is None:
            continue
        same = next((g for g in groups if _what(g[1]) == _what(each)), None)
        if same:
            same[0].append(who)
        else:
            groups.append(([who], each))
    return groups


def _what(guarantee: Guarantee) -> tuple[Any, ...]:
    return guarantee["unit"], guarantee["adjacency"], guarantee["epsilon"], guarantee.get("rows", 1)


def towards(observers: Sequence[str]) -> str:
    """Return the names of observers as an enumeration."""
    return listed([WHO[observer] for observer in observers])

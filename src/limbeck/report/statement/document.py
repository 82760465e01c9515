"""The privacy statement as a whole: banner, summary, sections after NIST SP 800-226, sign-off."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from limbeck.experiments.record import SERVER, RunRecord
from limbeck.privacy.guarantees import PrivacyGuarantee
from limbeck.report.statement.exposure import exposure, mechanisms, message, unprotected_towards
from limbeck.report.statement.facts import facts
from limbeck.report.statement.limits import assumptions, files, hardening, not_protected, reasons
from limbeck.report.statement.loss import (
    NO_PROTECTION,
    Kind,
    accounting,
    delta_first,
    headline,
    headlines,
    judgement,
    kind_of,
    meaning,
    of_ledger,
    same_guarantee,
    sampled,
    towards,
)
from limbeck.report.statement.words import (
    NETWORK,
    RELATIONS,
    WHO,
    WITHOUT_NOISE,
    bullets,
    count,
    is_are,
    listed,
    number,
    one_in,
    unit_of,
)

SIGN_OFF = """\
By signing, I confirm that I have read this statement, that I checked what I could of the assumptions, and that what is
not protected is acceptable for the data in this run.

| | Name | Role | Date | Signature |
|---|---|---|---|---|
| Prepared by | ____________________ | ____________________ | ____________ | ____________________ |
| Checked by | ____________________ | ____________________ | ____________ | ____________________ |
| Approved by | ____________________ | Data-protection officer | ____________ | ____________________ |"""


def statement(
    record: RunRecord,
    ledger: Sequence[PrivacyGuarantee] = (),
    delta: float | None = None,
    own_models: bool = False,
    head: tuple[int, str] | None = None,
) -> str:
    """Return the privacy statement of a run as Markdown.

    Every guarantee is a theorem under the stated assumptions; otherwise the text says "no guarantee". Of a real run the
    text contains public facts and released values only.

    Parameters
    ----------
    record : RunRecord
        The record of the run, of a real run as it is published.
    ledger : sequence of PrivacyGuarantee
        The guarantees of all runs in the ledger together, where there are others than this one.
    delta : float, optional
        The delta of `ledger`; by default that of the record.
    own_models : bool
        Whether the parties end with models of their own.
    head : (int, str), optional
        The number of entries in the ledger and the digest of the last one.

    Returns
    -------
    str
        The statement, with sections in the order of NIST SP 800-226: unit of privacy, trust model, mechanism,
        accounting, implementation, assumptions. A run without protection gets one short page.
    """
    kind = kind_of(record)
    together = of_ledger(ledger, record.delta if delta is None else delta) if ledger else ""
    parts = [f"# Privacy statement: `{record.algorithm}`, {count(len(record.parties), 'party', 'parties')}"]
    parts += [f"**{line}**" for line in _banner(record, kind)]
    parts += ["## Summary\n\n" + _summary(record, kind, ledger, own_models)]
    if kind in ("noise", "sample"):
        sections = _protected(record, kind, together, own_models, head)
    else:
        sections = _short(record, together, own_models, head)
    sections["Sign-off"] = SIGN_OFF
    parts += [f"## {number}. {title}\n\n{text}" for number, (title, text) in enumerate(sections.items(), 1)]
    return "\n\n".join(parts) + "\n"


def _protected(
    record: RunRecord, kind: Kind, together: str, own_models: bool, head: tuple[int, str] | None
) -> dict[str, str]:
    loss = sampled(record) if kind == "sample" else accounting(record, together)
    if kind == "sample" and together:
        loss += f"\n\n### All runs in this ledger together\n\n{together}"
    return {
        "The run": facts(record),
        "Unit of privacy and neighbouring data sets": _unit(record),
        "Trust model: who sees what": exposure(record),
        "Mechanism: how information is protected": mechanisms(record),
        "Accounting: epsilon and delta": loss,
        "Implementation, access and side channels": hardening(record, head, own_models),
        "Assumptions": assumptions(record),
        "What is not protected": not_protected(record, own_models),
    }


def _short(record: RunRecord, together: str, own_models: bool, head: tuple[int, str] | None) -> dict[str, str]:
    """Return the sections of a run without any guarantee that could be explained."""
    shared = {"All runs in this ledger together": together} if together else {}
    return {
        "The run": facts(record),
        "Trust model: who sees what": exposure(record),
        **shared,
        "What is not protected": not_protected(record, own_models, protected=False),
        "Files and access": hardening(record, head, own_models) if head else bullets(files(record, own_models)),
    }


def _banner(record: RunRecord, kind: Kind) -> list[str]:
    """Return what a reader must know before anything else."""
    lines = []
    if kind == "unprotected":
        lines.append("This run has no privacy protection.")
    if kind == "unknown":
        lines.append("No privacy guarantee can be stated for this run.")
    if any(each and each["epsilon"] >= NO_PROTECTION for each in headlines(record).values()):
        lines.append("The noise in this run is too small to protect anybody.")
    drawn = any(row["mechanism"] not in WITHOUT_NOISE for row in record.ledger)
    if drawn and record.noise != "secure":
        network = record.timing.get("engine") == NETWORK
        whose = "At least one site drew its noise" if network else "All random numbers came"
        lines.append(
            f"This was a simulation. {whose} from a seed. Whoever knows the seed can undo the protection, so that this "
            "run protects nobody. The guarantees are those of ideal random numbers. For real rows set "
            '`noise = "secure"`.'
        )
    return lines


def _summary(record: RunRecord, kind: Kind, ledger: Sequence[PrivacyGuarantee], own_models: bool) -> str:
    """Return one paragraph in words."""
    sentences = [_took_part(record)]
    match kind:
        case "noise":
            sentences += _noise_summary(record)
        case "sample":
            sentences += [
                "No noise was added. Each party learned from one random sample of its rows and used no other row.",
                delta_first(record),
            ]
        case "unprotected":
            sentences += [
                f"Nothing that left a site was protected: {_seen_by_all(record)}.",
                "Whoever sees this may find out facts about single rows, for example that a certain row was in the "
                "data. There is no epsilon, and no limit to what can be found out.",
            ]
        case "nothing":
            sentences.append(
                "Nothing that was computed from private rows left a party. Epsilon is 0 towards everybody: what is "
                "visible does not depend on private rows."
            )
        case "unknown":
            sentences += [
                "No epsilon could be computed, so that no guarantee is stated towards anybody.",
                *reasons(record),
            ]
    if own_models and kind == "sample":
        sentences.append("Each party ends with a model of its own, for which the same delta holds.")
    elif own_models:
        sentences.append(
            "Each party ends with a model of its own, which no guarantee covers and which belongs to this party."
        )
    if ledger:
        sentences.append(f"Other runs share the ledger of this run, and their losses add up. {_sum(ledger)}")
    return " ".join(sentences)


def _took_part(record: RunRecord) -> str:
    number = count(len(record.parties), "party", "parties")
    moved = any(row["what"] == "rows" and row["mechanism"] == "unprotected" for row in record.ledger)
    network = record.timing.get("engine") == NETWORK
    if network:
        place = "Each party computed at its own site."
        rows = "No party sent a private row to anybody."
    else:
        place = "One program on one machine computed for all of them, and read the private rows of all parties."
        rows = "No message of the method contained a private row."
    rows = "Their private rows were sent to the server." if moved else rows
    return f"{number} took part in a run of the method `{record.algorithm}`. {place} {rows}"


def _noise_summary(record: RunRecord) -> list[str]:
    sentences = []
    for observers, guarantee in same_guarantee(record):
        sentences.append(
            f"Towards {towards(observers)}, {unit_of(guarantee)} {is_are(guarantee)} protected by random noise: "
            f"epsilon is {number(guarantee['epsilon'])}, and delta is {one_in(record.delta)}. "
            f"{meaning(guarantee, record.delta)} {judgement(guarantee['epsilon'])}".strip()
        )
    if any(guarantee["unit"] == "example" for _, guarantee in same_guarantee(record)):
        sentences.append("A person with more rows, or with rows at several parties, is protected less.")
    without = [who for who, guarantee in headlines(record).items() if guarantee is None]
    for who in without:
        names = unprotected_towards(record, who)
        seen = listed([message(name) for name in names]) if names else "information that no guarantee covers"
        sentences.append(f"Towards {WHO[who]}, **no guarantee holds**: visible without protection is {seen}.")
    return sentences


def _sum(ledger: Sequence[PrivacyGuarantee]) -> str:
    """Return what all runs in a ledger cost together, towards the observer whom the least protects."""
    found = [asdict(each) for each in ledger]
    best = [each for who in WHO if (each := headline(found, who))]
    if not best:
        return "No guarantee holds for all of them together."
    worst = max(best, key=lambda each: float(each["epsilon"]))
    return (
        f"For all of them together, epsilon towards {WHO[worst['observer']]} is {number(worst['epsilon'])} for "
        f"{unit_of(worst)}. This epsilon, not that of this run alone, is what has been spent."
    )


def _seen_by_all(record: RunRecord) -> str:
    seen = {who: unprotected_towards(record, who) for who in WHO}
    return "; ".join(
        f"{WHO[who]} can see {listed([message(name) for name in names])}" for who, names in seen.items() if names
    )


def _unit(record: RunRecord) -> str:
    """Return who is protected, and what neighbouring data sets are."""
    finite = [each for each in record.privacy if math.isfinite(each["epsilon"])]
    rows = [row for row in record.ledger if row["mechanism"] not in WITHOUT_NOISE]
    whole = all(row["unit"] == "party" for row in rows)
    pooled = any(row["site"] == SERVER and row["unit"] == "example" for row in rows)
    unit = "all rows of one party" if whole else unit_of({"unit": "example", "rows": record.rows_per_person})
    where = "" if whole or pooled else " at one party"
    verb = "is" if unit == "one row" else "are"
    relations = _relations(finite, "party" if whole else "example")
    changed = f", or {verb} ".join(RELATIONS[relation] for relation in relations)
    also = " A guarantee for a party holds for each of its rows too." if whole else ""
    return (
        f"The **unit of privacy** is {unit}{where}.{also}\n\nTwo data sets are **neighbouring** if one becomes the "
        f"other when {unit}{where} {verb} {changed}. A guarantee compares what would be visible in a run on one of "
        "them with what would be visible in a run on the other. For larger differences no guarantee is stated."
    )


def _relations(finite: Sequence[Mapping[str, Any]], unit: str) -> list[str]:
    found = list(dict.fromkeys(str(each["adjacency"]) for each in finite if each["unit"] == unit))
    return found or ["replace"]

"""privacy.md: what a run protects and what it does not, for a data-protection officer to read and sign."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from limbeck.experiments.record import RunRecord
from limbeck.privacy.accounting import Figure
from limbeck.privacy.mechanisms import Subsample
from limbeck.protocol.messages import Message

WHO = {"server": "the server", "parties": "the other parties", "public": "the public"}
UNITS = {"example": "one row", "party": "a whole party"}
WORTH = {100.0: " **That is no protection.**", 10.0: " That is little protection."}  # from such an epsilon on
BARE = ("unprotected", "nothing-private")
RELATIONS = {"replace": "replaced by another", "add-remove": "added or removed"}


def statement(
    record: RunRecord, ledger: Sequence[Figure] = (), delta: float | None = None, own_models: bool = False
) -> str:
    """Plain words first; every figure is a theorem with its assumptions, or infinite.

    `ledger` are the figures of all runs in the ledger, at `delta`, where there are others than this one. `own_models`:
    parties end with models of their own.
    """
    parts = [
        f"# Privacy statement: {record.algorithm}, {len(record.parties)} parties",
        _noise(record),
        "## What is protected, against whom\n\n" + _protection(record),
        *(
            ["## All runs in this ledger together\n\n" + _together(ledger, record.delta if delta is None else delta)]
            if ledger
            else []
        ),
        "## What is not protected\n\n" + _bare(record, own_models),
        "## What this rests on\n\n" + _assumptions(record),
        "## What left which site\n\n" + _ledger(record.ledger),
    ]
    return "\n\n".join(parts) + "\n"


def _noise(record: RunRecord) -> str:
    if subsets := [row for row in record.ledger if row["mechanism"] == Subsample.name]:
        return _subsets(subsets, record)
    if not record.delta:
        return "No noise was added anywhere: whoever sees something sees it bare."
    if record.noise == "secure":
        return (
            "The noise came from the operating system's generator, in whole numbers or by exact comparison, and was "
            "written down nowhere."
        )
    return (
        "**This was a simulation.** The noise came from a seed: whoever knows the seed can take it away again, so this "
        "run protects nobody. The figures are those of ideal noise of the same size; for real rows set "
        '`noise = "secure"`.'
    )


def _subsets(rows: Sequence[Mapping[str, Any]], record: RunRecord) -> str:
    """Noise-free privacy: delta first, and what it is worth."""
    drawn = [Subsample(**row["parameters"]) for row in rows]
    lines = [
        "| party | rows drawn | delta | epsilon by the theorem | exact delta at epsilon 0, 1, 10 |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['site'].removeprefix('party ')} | {sample.rows} of {sample.of} "
        f"{'with' if sample.replacement else 'without'} replacement | {sample.guarantee()[1]:.4g} "
        f"| {sample.guarantee()[0]:.4g} | {', '.join(f'{sample.curve(epsilon):.4g}' for epsilon in (0, 1, 10))} |"
        for row, sample in zip(rows, drawn, strict=True)
    ]
    secret = "the operating system's generator" if record.noise == "secure" else "**a seed, for this was a simulation**"
    return (
        f"**Delta is {record.delta:.4g}: so likely is it that a given row was drawn, and a row that was drawn may be "
        "exposed completely.** No noise was added. Each party learned from one random subset of its rows and touched "
        "no other; that limits how many rows are exposed, not whether a drawn one is. A larger epsilon buys no smaller "
        f"delta. Which rows were drawn came from {secret}, and must stay secret.\n\n" + "\n".join(lines)
    )


def _protection(record: RunRecord) -> str:
    if not record.privacy:
        return "Nothing left any site."
    held = [f for f in record.privacy if math.isfinite(f["epsilon"])]
    lines = ["| towards | who | is | epsilon | by | the papers' own accountant |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {WHO[f['observer']]} | {UNITS[f['unit']]} | {RELATIONS[f['adjacency']]} | {_number(f['epsilon'])} "
        f"| {f['accountant']} | {_number(f['paper']) if f['paper'] is not None else '–'} |"
        for f in held
    ]
    return ("\n".join(lines) + "\n\n" if held else "") + _words(record)


def _together(ledger: Sequence[Figure], delta: float) -> str:
    lines = [
        f"- towards {WHO[f.observer]}, {UNITS[f.unit]} {RELATIONS[f.adjacency]}: "
        + (f"epsilon {_number(f.epsilon)}" if math.isfinite(f.epsilon) else "no guarantee holds")
        for f in ledger
    ]
    return f"At delta {delta:g}; this, not the run's own figure, is what has been spent.\n\n" + "\n".join(lines)


def _words(record: RunRecord) -> str:
    """What the first finite figure, the public's where there is one, means; a party's comes before a row's."""
    finite = [f for f in record.privacy if 0 < f["epsilon"] < math.inf]
    if all(f["epsilon"] == 0 for f in record.privacy):
        return (
            "Epsilon is 0 towards everybody: what is seen is as likely as it would be had any row been another, but "
            f"for a chance of {record.delta:g}."
        )
    if not finite:
        return "No finite guarantee holds towards anybody who sees something private."
    told = next((f for f in finite if f["observer"] == "public"), finite[0])
    factor = math.exp(min(told["epsilon"], 100.0))
    times = f"{factor:.3g}" if factor < 1e6 else f"e^{told['epsilon']:.4g}"
    worth = next((words for large, words in WORTH.items() if told["epsilon"] >= large), "")
    return (
        f"Towards {WHO[told['observer']]}, epsilon {_number(told['epsilon'])} at delta {record.delta:g} means: what is "
        f"seen is at most {times} times as likely as it would be had {UNITS[told['unit']]} been "
        f"{RELATIONS[told['adjacency']]}, but for a chance of {record.delta:g}.{worth}"
    )


def _named(what: str) -> str:
    """A message's name, and what it says of itself."""
    kind = next((kind for kind in Message.kinds.values() if kind.__name__ == what), None)
    told = " ".join((kind.__doc__ or "").split()).partition(". ")[0].rstrip(".") if kind else ""
    if not told or told.startswith(f"{what}("):  # nobody wrote down what it is
        return what
    return f"{what} ({told[0].lower()}{told[1:]})"


def _bare(record: RunRecord, own_models: bool) -> str:
    bare: dict[tuple[str, str], set[str]] = {}
    for row in record.ledger:
        if row["mechanism"] == "unprotected":
            bare.setdefault((str(row["what"]), str(row["observer"])), set()).add(str(row["site"]))
    told = [
        f"- Bare to {WHO[observer]}, from {len(sites)} site{'s' * (len(sites) > 1)}: {_named(what)}. "
        "No guarantee holds towards them."
        for (what, observer), sites in bare.items()
    ]
    if own_models and not any(row["mechanism"] == Subsample.name for row in record.ledger):
        told.append(
            "- The parties' own models (`models/`): each learned from its party's private rows as they are. No figure "
            "here covers whoever gets such a model; it belongs to its party."
        )
    if record.bounds:
        told.append("- The bounds in the record: for them all private rows were pooled, outside this ledger.")
    none = [f for f in record.privacy if math.isinf(f["epsilon"])]
    told += [
        f"- {UNITS[unit].capitalize()} that is {RELATIONS[adjacency]}, towards {_and(who)}: no guarantee holds."
        for unit in UNITS
        for adjacency in RELATIONS
        if (who := [WHO[f["observer"]] for f in none if (f["unit"], f["adjacency"]) == (unit, adjacency)])
    ]
    if record.delta and any(row["unit"] == "example" for row in record.ledger):
        told.append("- A person with several rows in one party: the figures are for one row; his rows add up.")
    if record.data.get("classes_are_private"):
        told.append("- The names of the classes: they were read off the private rows and stand in the model, bare.")
    if any(party.rows is not None for party in record.parties):
        told.append(
            "- `record.json` itself: it counts each party's rows by class and tells how good the models are. It is for "
            "those who may know that."
        )
    told.append("- That a party took part, how many rows were asked about, and what all parties agreed on beforehand.")
    return "\n".join(told)


def _assumptions(record: RunRecord) -> str:
    sees = any(r["mechanism"] == "unprotected" and r["observer"] == "server" for r in record.ledger)
    noised = any(r["site"] == "server" and r["mechanism"] not in BARE for r in record.ledger)
    trusted = "The server is trusted: it sees what the parties send bare"
    server = (
        f"{trusted}, {'adds the noise itself, ' * noised}and shows nobody the rest."
        if sees
        else "The server need not be trusted: what reaches it is protected already."
    )
    told = [
        server,
        "Nobody has rows in two parties. A person who has adds up what each of them spends.",
        "The public rows are public: no private row was used to choose them.",
        "Nothing else about the private rows leaves: no log, no run outside this ledger. Parties keep their numbers.",
        *_dealing(record),
        "What is made of released values and public rows alone tells nothing more (post-processing).",
    ]
    return "\n".join(f"- {line}" for line in told)


def _dealing(record: RunRecord) -> list[str]:
    relations = {row["adjacency"] for row in record.ledger if row["unit"] == "example"}
    told = {
        "replace": "Which of its party's teachers a row teaches depends on the row's number and on chance alone.",
        "add-remove": "Which of its party's teachers a row teaches depends on a keyed hash of the row alone.",
    }
    return [told[relation] for relation in sorted(relations & set(told))]


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _ledger(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "Nothing."
    counted: dict[tuple[Any, ...], int] = {}
    for row in rows:
        kind = "server" if row["site"] == "server" else "each party"
        scales = {k: v for k, v in row["parameters"].items() if k in ("gamma", "sigma", "check", "threshold", "weight")}
        how = ", ".join(f"{k} {v:.4g}" for k, v in scales.items())
        key = (kind, row["what"], row["mechanism"], how, row["observer"], row["queries"])
        counted[key] = counted.get(key, 0) + 1
    lines = ["| from | what | mechanism | to | queries | times |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {kind} | {what} | {mechanism}{f' ({how})' if how else ''} | {WHO[observer]} | {queries} | {times} |"
        for (kind, what, mechanism, how, observer, queries), times in counted.items()
    ]
    return "\n".join(lines)


def _number(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"

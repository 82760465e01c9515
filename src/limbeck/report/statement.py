"""privacy.md: what a run protects and what it does not, for a data-protection officer to read and sign."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from limbeck.experiments.record import SERVER, RunRecord
from limbeck.privacy.guarantees import GROUPS, PrivacyGuarantee, delta_of_subsets, people
from limbeck.privacy.mechanisms import Subsample
from limbeck.protocol.release import Release

WHO = {"server": "the server", "parties": "the other parties", "public": "the public"}
UNITS = {"example": "one row", "party": "a whole party"}
WORTH = {100.0: " **That is no protection.**", 10.0: " That is little protection."}  # from such an epsilon on
WITHOUT_NOISE = ("unprotected", "post-processing")
RELATIONS = {"replace": "replaced", "add-remove": "added or removed"}
CHANGES = {"replace": "replacing", "add-remove": "adding or removing"}
DESCRIPTIONS = {
    "accuracy": "how often a party's model is right on rows of the party",
    "class counts": "how many rows of each class a party has",
    "consensus": "the average of all parties' predictions",
    "model": "a model that learned from private rows, or from what they led to",
    "predictions": "what a party's model predicts for public rows",
    "prior estimate": "a party's estimate of the classes' shares",
    "rows": "private rows themselves",
    "scores": "what a party's model predicts for public rows",
    "students": "models that learned public rows as a party's own models label them",
    "update": "the weights of a network that learned a party's rows",
    "votes": "what a party's model predicts for public rows",
    "weights": "the average of all parties' weights",
}
NETWORK = "flower"  # the engine of a run between organisations


def statement(
    record: RunRecord,
    ledger: Sequence[PrivacyGuarantee] = (),
    delta: float | None = None,
    own_models: bool = False,
    head: tuple[int, str] | None = None,
) -> str:
    """Plain words first; every figure is a theorem with its assumptions, or infinite.

    `ledger` are the figures of all runs in the ledger, at `delta`, where there are others than this one. `own_models`:
    parties end with models of their own. `head` is the ledger's number of entries and the digest of the last.
    """
    together = _together(ledger, record.delta if delta is None else delta) if ledger else ""
    sections = {
        "What is protected, against whom": _protection(record),
        "People with several rows": _people(record),
        "All runs in this ledger together": together,
        "What is not protected": _not_protected(record, own_models),
        "What this rests on": _assumptions(record),
        "What left which site": _ledger(record.ledger) + _head(head, record.timing.get("engine") == NETWORK),
        "What the files of this run say": _files(record, own_models),
    }
    parts = [f"# Privacy statement: {record.algorithm}, {len(record.parties)} parties", _noise(record)]
    parts += [f"## {title}\n\n{text}" for title, text in sections.items() if text]
    return "\n\n".join(parts) + "\n"


def _noise(record: RunRecord) -> str:
    if subsets := [row for row in record.ledger if row["mechanism"] == Subsample.name]:
        return _subsets(subsets, record)
    if not record.delta:
        return "No noise was added anywhere: everything that left is unprotected towards those who see it."
    if record.noise == "secure":
        return (
            "The noise came from the operating system's generator, in whole numbers or by exact comparison, and was "
            "not recorded anywhere."
        )
    return (
        "**This was a simulation.** The noise came from a seed. Anyone who knows the seed can subtract the noise, so "
        "this run protects nobody. The figures are those of ideal noise of the same size. For real rows set "
        '`noise = "secure"`.'
    )


def _subsets(rows: Sequence[Mapping[str, Any]], record: RunRecord) -> str:
    """Noise-free privacy: delta first, and what it is worth."""
    k = record.rows_per_person
    drawn = [Subsample(**row["parameters"]) for row in rows]
    lines = [
        "| party | rows drawn | delta | epsilon by the theorem | exact delta at epsilon 0, 1, 10 |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['site'].removeprefix('party ')} | {sample.rows} of {sample.of} "
        f"{'with' if sample.replacement else 'without'} replacement | {sample.guarantee(k)[1]:.4g} "
        f"| {sample.guarantee(k)[0]:.4g} | {', '.join(f'{sample.curve(epsilon, k):.4g}' for epsilon in (0, 1, 10))} |"
        for row, sample in zip(rows, drawn, strict=True)
    ]
    secret = "the operating system's generator" if record.noise == "secure" else "**a seed: this was a simulation**"
    whose = "a given row was drawn" if k == 1 else f"at least one of the {k} rows of a given person was drawn"
    return (
        f"**Delta is {record.delta:.4g}: with this probability {whose}, and a row that was drawn may be exposed "
        "completely.** No noise was added. Each party learned from one random subset of its rows and used no other "
        "row. This limits how many rows are exposed, not whether a drawn row is. A larger epsilon does not give a "
        f"smaller delta. Which rows were drawn came from {secret}, and must stay secret.\n\n" + "\n".join(lines)
    )


def _protection(record: RunRecord) -> str:
    if not record.privacy:
        return "Nothing left any site."
    held = [f for f in record.privacy if math.isfinite(f["epsilon"])]
    lines = ["| towards | who | is | epsilon | by | the papers' own accountant |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {WHO[f['observer']]} | {_unit(f)} | {RELATIONS[f['adjacency']]} | {_number(f['epsilon'])} "
        f"| {f['accountant']} | {_number(f['paper']) if f['paper'] is not None else '–'} |"
        for f in held
    ]
    return ("\n".join(lines) + "\n\n" if held else "") + _words(record)


def _unit(figure: Mapping[str, Any]) -> str:
    rows = figure.get("rows", 1)
    return f"up to {rows} rows of one person" if rows > 1 else UNITS[figure["unit"]]


def _words(record: RunRecord) -> str:
    """What the first finite figure, the public's where there is one, means; a party's comes before a row's."""
    finite = [f for f in record.privacy if 0 < f["epsilon"] < math.inf]
    if all(f["epsilon"] == 0 for f in record.privacy):
        return (
            "Epsilon is 0 towards everybody: replacing a row does not change the probability of any outcome, except "
            f"with probability {record.delta:g}."
        )
    if not finite:
        return "No finite guarantee holds towards anybody who sees something private."
    told = next((f for f in finite if f["observer"] == "public"), finite[0])
    factor = math.exp(min(told["epsilon"], 100.0))
    times = f"{factor:.3g}" if factor < 1e6 else f"e^{told['epsilon']:.4g}"
    worth = next((words for large, words in WORTH.items() if told["epsilon"] >= large), "")
    return (
        f"Towards {WHO[told['observer']]}, epsilon {_number(told['epsilon'])} at delta {record.delta:g} means: "
        f"{CHANGES[told['adjacency']]} {_unit(told)} changes the probability of any outcome by at most a factor of "
        f"{times}, except with probability {record.delta:g}.{worth}"
    )


def _people(record: RunRecord) -> str:
    """For how many rows of one person the figures hold, and what holds for more rows and for several parties."""
    noised = [row for row in record.ledger if row["mechanism"] not in WITHOUT_NOISE]
    if not noised:
        return ""
    protects_rows = any(row["unit"] == "example" for row in noised)
    whole = "A whole party is protected, and with it all rows that a person has at this party, however many."
    return f"{_with_more_rows(record) if protects_rows else whole}\n\n{_at_several_parties(noised)}"


def _with_more_rows(record: RunRecord) -> str:
    k = record.rows_per_person
    releases, ks = [Release(**row) for row in record.ledger], sorted({*GROUPS, k})
    heading = [f"{n} row{'s' * (n > 1)}{' (this run)' * (n == k)}" for n in ks]
    if any(row.mechanism == Subsample.name for row in releases):
        what = "Delta"
        lines = [["everybody", *(f"{delta_of_subsets(releases, n):.4g}" for n in ks)]]
    else:
        what = f"Epsilon at the same delta of {record.delta:g}"
        found = people(releases, record.delta, ks)
        lines = [[WHO[who], *map(_number, by_rows.values())] for who, by_rows in found.items()]
    table = _table(["towards", *heading], lines)
    return (
        f"The figures of this statement are for a person with at most {k} row{'s' * (k > 1)} at one party "
        f"(`rows_per_person = {k}`). {what} for a person with so many rows at one party:\n\n{table}\n\n"
        "A person with more rows is protected less, and no figure is stated here."
    )


def _at_several_parties(noised: Sequence[Mapping[str, Any]]) -> str:
    """How the figures change for a person whose rows are not all at one party."""
    told = ["**People with rows at several parties** are not covered by a figure for one party."]
    if any(row["site"] != SERVER for row in noised):
        told.append(
            "What each of those parties released depends on the person, and these releases compose: such a person has "
            "at most the sum of the parties' epsilons, at the sum of their deltas. The largest of them is not enough."
        )
    if any(row["site"] == SERVER and row["unit"] == "party" for row in noised):
        told.append(
            "What the server released is protected for one changed party. Such a person changes several parties at "
            "once; no figure here holds then: at the same delta, epsilon can be more than the number of parties times "
            "the figure."
        )
    if any(row["site"] == SERVER and row["unit"] == "example" for row in noised):
        told = ["The server held the rows of all parties: a person's rows at all parties count together."]
    return " ".join(told)


def _together(ledger: Sequence[PrivacyGuarantee], delta: float) -> str:
    lines = [
        f"- towards {WHO[f.observer]}, {_unit({'unit': f.unit, 'rows': f.rows})} {RELATIONS[f.adjacency]}: "
        + (f"epsilon {_number(f.epsilon)}" if math.isfinite(f.epsilon) else "no guarantee holds")
        for f in ledger
    ]
    return f"At delta {delta:g}. This, not the run's own figure, is what has been spent.\n\n" + "\n".join(lines)


def _named(what: str) -> str:
    return f"{what} ({DESCRIPTIONS[what]})" if what in DESCRIPTIONS else what


def _not_protected(record: RunRecord, own_models: bool) -> str:
    seen: dict[tuple[str, str], set[str]] = {}
    for row in record.ledger:
        if row["mechanism"] == "unprotected":
            seen.setdefault((str(row["what"]), str(row["observer"])), set()).add(str(row["site"]))
    told = [
        f"- Unprotected towards {WHO[observer]}, from {len(sites)} site{'s' * (len(sites) > 1)}: {_named(what)}. "
        "No guarantee holds towards them."
        for (what, observer), sites in seen.items()
    ]
    if own_models and not any(row["mechanism"] == Subsample.name for row in record.ledger):
        told.append(
            "- The parties' own models (`models/`): each learned from its party's private rows as they are. No figure "
            "here covers anyone who gets such a model; it belongs to its party."
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
    if record.data.get("classes_are_private"):
        told.append("- The names of the classes: they were read from the private rows and stand in the model.")
    told.append("- That a party took part, how many rows were asked about, and what all parties agreed on beforehand.")
    return "\n".join(told)


def _assumptions(record: RunRecord) -> str:
    sees = any(r["mechanism"] == "unprotected" and r["observer"] == "server" for r in record.ledger)
    noised = any(r["site"] == SERVER and r["mechanism"] not in WITHOUT_NOISE for r in record.ledger)
    trusted = "The server is trusted: it sees what the parties send unprotected"
    server = (
        f"{trusted}, {'adds the noise itself, ' * noised}and shows nobody the rest."
        if sees
        else "The server need not be trusted: what reaches it is already protected."
    )
    told = [
        server,
        *_one_party(record),
        "The public rows are public: no private row was used to choose them.",
        "Nothing else about the private rows leaves a site: no log, and no run that is not in this ledger.",
        *_cuts(record),
        "What is computed from released values and public rows alone reveals nothing more (post-processing).",
    ]
    return "\n".join(f"- {line}" for line in told)


def _one_party(record: RunRecord) -> list[str]:
    """That a person is at one party only; not where the server pools all rows and protects each."""
    if any(row["site"] == SERVER and row["unit"] == "example" for row in record.ledger):
        return []
    return ["Each person has rows in one party only. For a person with rows in several, the releases of all compose."]


def _cuts(record: RunRecord) -> list[str]:
    """How rows get to teachers, where a row is protected."""
    relations = {row["adjacency"] for row in record.ledger if row["unit"] == "example"}
    told = {
        "replace": "Which of its party's teachers learns from a row depends on the row's number and on random bits.",
        "add-remove": "Which of its party's teachers learns from a row depends on a keyed hash of the row alone.",
    }
    return [told[relation] for relation in sorted(relations & set(told))]


def _ledger(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "Nothing."
    counted: dict[tuple[Any, ...], int] = {}
    for row in rows:
        kind = "server" if row["site"] == SERVER else "each party"
        scales = {k: v for k, v in row["parameters"].items() if k in ("gamma", "sigma", "check", "threshold", "weight")}
        how = ", ".join(f"{k} {v:.4g}" for k, v in scales.items())
        mechanism = f"{row['mechanism']}{f' ({how})' if how else ''}"
        key = (kind, row["what"], mechanism, WHO[row["observer"]], row["queries"])
        counted[key] = counted.get(key, 0) + 1
    lines = [[*map(str, key), str(times)] for key, times in counted.items()]
    return _table(["from", "what", "mechanism", "to", "queries", "times"], lines)


def _head(head: tuple[int, str] | None, network: bool) -> str:
    if head is None:
        return ""
    entries, digest = head
    whose = "The server's ledger" if network else "The ledger"
    own = " Each party has a ledger of its own: `limbeck party ledger` prints its head." if network else ""
    return (
        f"\n\n{whose} had {entries} entr{'y' if entries == 1 else 'ies'} when this was written. The digest of the "
        f"last one is `{digest}`. `limbeck privacy ledger` prints both, and rejects a ledger in which an entry is "
        f"missing or was changed.{own}"
    )


def _files(record: RunRecord, own_models: bool) -> str:
    """What record.json and owner.json contain, and who may read them."""
    network = record.timing.get("engine") == NETWORK
    models = ["`models/`: the parties' own models. Each belongs to its party."] if own_models else []
    told = [*(_real_files(record, network) if record.real else _open_file(network)), *models]
    return "\n".join(f"- {line}" for line in told)


def _real_files(record: RunRecord, network: bool) -> list[str]:
    sizes = "withheld" if _withholds_sizes(record) else "not withheld, for there are none"
    shared = (
        "`record.json` can be passed on. It contains public facts (the configuration, the seed, versions, the classes "
        "as agreed, the parties' number and names, the hash and the number of public rows, the number of test rows, "
        "requests, rounds and silent parties), the rows of the ledger, the sizes of messages that are public or were "
        "released, and what is computed from released values alone: epsilon, and the final model's accuracy where the "
        f"model is post-processing. The sizes of messages that left unprotected are {sizes}."
    )
    rows = "row counts, class counts, the constant predictor's accuracy, the accuracy of the parties' own models"
    if network:
        return [
            shared,
            "`owner.json` is for the server only: all sizes, seconds, and what parties wrote to the server.",
        ]
    return [shared, f"`owner.json` is for those who hold the rows only: {rows}, all sizes, seconds and memory."]


def _withholds_sizes(record: RunRecord) -> bool:
    return any(size is None for size in record.bytes.values())


def _open_file(network: bool) -> list[str]:
    counts = "" if network else "each party's rows by class, "
    return [
        f"`record.json` withholds nothing: it contains {counts}the sizes of all messages, seconds, and how good the "
        "models are. It is for those who may know that. There is no `owner.json`."
    ]


def _table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [heading, ["---"] * len(heading), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _number(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.4g}"

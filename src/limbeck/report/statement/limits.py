"""What a privacy statement rests on, and what a run does not protect."""

import math
from collections.abc import Sequence

from limbeck.experiments.record import SERVER, RunRecord
from limbeck.privacy.mechanisms import Subsample
from limbeck.report.statement.exposure import message, noise_at_server, unprotected_towards
from limbeck.report.statement.words import (
    NETWORK,
    RELATIONS,
    WHO,
    WITHOUT_NOISE,
    bullets,
    count,
    listed,
)

UNIT_NAMES = {"example": "One row", "party": "All rows of one party"}


def assumptions(record: RunRecord) -> str:
    """Return the assumptions under which the guarantees hold. An officer can check each line."""
    network = record.timing.get("engine") == NETWORK
    others = "no other run (each party's own ledger adds up all its runs)" if network else "no run outside this ledger"
    lines = []
    if unprotected_towards(record, "server"):
        adds = ", adds the noise itself" if noise_at_server(record) else ""
        lines.append(f"The server is trusted{adds} and shows nobody what it sees without protection.")
    if network:
        lines.append("Each party runs this software unchanged. A party cannot check what another party runs.")
    else:
        lines.append("Whoever ran the program had the right to read the rows of all parties, and keeps them secret.")
    lines += [
        *_people(record),
        "The public rows are public: no private row was used to choose them.",
        "The settings of the run (method, models, noise) were not chosen by looking at private rows.",
        f"Nothing else about the private rows leaves a site: no log, and {others}.",
        *_teachers(record),
    ]
    if any(row["mechanism"] == Subsample.name for row in record.ledger):
        lines.append("Which rows were drawn stays secret.")
    lines.append("What is computed from released values and public rows alone reveals nothing more (post-processing).")
    return bullets(lines)


def _people(record: RunRecord) -> list[str]:
    """Return how many rows a person may have, and where."""
    rows = [row for row in record.ledger if row["mechanism"] not in WITHOUT_NOISE]
    most = f"Each person has at most {count(record.rows_per_person, 'row')}"
    if any(row["site"] == SERVER and row["unit"] == "example" for row in rows):
        return [f"{most} among the rows of all parties."]
    one_party = "Each person has rows in one party only."
    return [one_party, f"{most} there."] if any(row["unit"] == "example" for row in rows) else [one_party]


def _teachers(record: RunRecord) -> list[str]:
    """Return how rows are assigned to teachers, where a party's teachers vote on single rows."""
    relations = {row["adjacency"] for row in record.ledger if row["unit"] == "example"}
    rules = {
        "replace": "Which of a party's teachers learns from a row depends on the row's number and on random bits only.",
        "add-remove": "Which of a party's teachers learns from a row depends on a keyed hash of this row only.",
    }
    return [rules[relation] for relation in sorted(relations & set(rules))]


def not_protected(record: RunRecord, own_models: bool, protected: bool = True) -> str:
    """Return everything that has no guarantee; a run that protects nothing does not need the list of guarantees."""
    lines = [*_unprotected(record), *_own_models(record, own_models)]
    if record.bounds:
        lines.append(
            "The comparison models (`bounds` in the record): for them all private rows were pooled, and this ledger "
            "does not cover that."
        )
    if protected:
        lines += _without_guarantee(record)
    if record.data.get("classes_are_private"):
        number = "The range of the target: it was read from private rows and stands in the model."
        names = "The names of the classes: they were read from private rows and stand in the model."
        lines.append(number if record.task == "regression" else names)
    lines += _test_rows(record)
    lines.append(
        f"That a party took part, how many public rows were asked about, and the settings: {_settings(record)}."
    )
    if protected:
        lines.append(
            "What is true of people in general. If the model shows that a disease is common in a group, it shows this "
            "of people in this group who were not in the data as well."
        )
    return bullets(lines)


def _unprotected(record: RunRecord) -> list[str]:
    seen: dict[tuple[str, str], set[str]] = {}
    for row in record.ledger:
        if row["mechanism"] == "unprotected":
            seen.setdefault((str(row["what"]), str(row["observer"])), set()).add(str(row["site"]))
    return [
        f"What {WHO[observer]} can see without protection: `{what}` ({message(what)}), from "
        f"{'the server' if sites == {SERVER} else count(len(sites), 'party', 'parties')}."
        for (what, observer), sites in seen.items()
    ]


def _test_rows(record: RunRecord) -> list[str]:
    """Return what is computed from test rows, and where it stands."""
    rows = record.data["test"]
    if rows == 0:
        return []
    where = "`record.json` contains" if record.metrics else "`record.json` does not contain"
    private = " The test rows were taken from the private file, so that they are private too." if rows is None else ""
    return [
        "The test rows. No model learned from them, but every accuracy of this run is computed from them without "
        f"noise. {where} the accuracies.{private}"
    ]


def _settings(record: RunRecord) -> str:
    """Return the settings that were agreed on before the run; over a network a party's model is not among them."""
    if record.timing.get("engine") == NETWORK:
        return "the method with its parameters, the model of the server, the classes and the public rows"
    models = dict.fromkeys(f"`{party.model['name']}`" for party in record.parties if "name" in party.model)
    named = f" ({listed(list(models))})" if models else ""
    return f"the method with its parameters, the kind of each party's model{named}, the classes and the public rows"


def _own_models(record: RunRecord, own_models: bool) -> list[str]:
    if not own_models or any(row["mechanism"] == Subsample.name for row in record.ledger):
        return []
    return [
        "The parties' own models (`models/`): each learned from the private rows of its party without protection. No "
        "guarantee holds towards anyone who gets such a model; it belongs to its party."
    ]


def _without_guarantee(record: RunRecord) -> list[str]:
    """Return the units and relations that have no guarantee, those towards the same observers together."""
    none: dict[tuple[str, str], list[str]] = {}
    for each in record.privacy:
        if math.isinf(each["epsilon"]):
            none.setdefault((each["unit"], each["adjacency"]), []).append(each["observer"])
    lines = []
    for unit in UNIT_NAMES:
        relations = {relation: none[unit, relation] for relation in RELATIONS if (unit, relation) in none}
        for who in dict.fromkeys(tuple(observers) for observers in relations.values()):
            same = [RELATIONS[relation] for relation, observers in relations.items() if tuple(observers) == who]
            changed = "replaced, added or removed" if len(same) > 1 else same[0]
            towards = listed([WHO[observer] for observer in who])
            lines.append(f"{UNIT_NAMES[unit]}, {changed}: no guarantee holds towards {towards}.")
    return lines


def hardening(record: RunRecord, head: tuple[int, str] | None, own_models: bool) -> str:
    """Return how the noise was drawn, how the files are kept, and which side channels are open."""
    network = record.timing.get("engine") == NETWORK
    random = _randomness(record)
    lines = [*random, *_ledger(head, network), *files(record, own_models)]
    if random:
        lines.append(
            "Side channels that no guarantee covers: when an answer arrives, whether a program crashes or runs out of "
            "memory, and anything that can be measured on the machines themselves."
        )
    if network:
        lines.append("Messages between the sites travel over TLS. Whoever watches the network sees times and sizes.")
    return bullets(lines)


def _randomness(record: RunRecord) -> list[str]:
    if not any(row["mechanism"] not in WITHOUT_NOISE for row in record.ledger):
        return []
    samples = any(row["mechanism"] == Subsample.name for row in record.ledger)
    if record.noise == "secure" and samples:
        return ["The random sample came from the operating system's generator. It is in no file that is passed on."]
    if record.noise == "secure":
        return [
            "The noise came from the operating system's generator, in whole numbers or by exact comparison, so that "
            "rounding does not leak. The noise itself was not recorded; the ledger keeps the released values only."
        ]
    if samples:
        return ["**The random sample came from a seed.** Whoever knows the seed can draw it again."]
    return [
        "**The noise came from a seed.** Whoever knows the seed can compute the noise and subtract it. Floating-point "
        "numbers were used, which can leak more than the guarantees say."
    ]


def _ledger(head: tuple[int, str] | None, network: bool) -> list[str]:
    if head is None:
        return []
    entries, digest = head
    whose = "The server's ledger" if network else "The ledger"
    own = " Each party has a ledger of its own: `limbeck party ledger` prints its head." if network else ""
    return [
        f"{whose} had {count(entries, 'entry', 'entries')} when this was written: its releases, what was drawn for "
        f"them, and budgets. The digest of the last entry is `{digest}`. `limbeck privacy ledger` prints both, and "
        f"rejects a ledger in which an entry is missing or was changed.{own}"
    ]


def files(record: RunRecord, own_models: bool) -> list[str]:
    """Return what the files of a run contain, and who may read them (access control)."""
    network = record.timing.get("engine") == NETWORK
    models = ["`models/`: the parties' own models. Each belongs to its party."] if own_models else []
    return [*(_real_files(record, network) if record.real else _open_file(network)), *models]


def _real_files(record: RunRecord, network: bool) -> list[str]:
    withheld = any(size is None for size in record.bytes.values())
    unprotected = "The sizes of unprotected messages are withheld." if withheld else "It contains all message sizes."
    shared = (
        "`record.json` can be passed on. It contains public facts, the releases in the ledger, released values, and "
        f"what is computed from these alone. {unprotected}"
    )
    rows = "row counts, class counts, the constant predictor's accuracy, the accuracy of the parties' own models"
    if network:
        return [
            shared,
            "`owner.json` is for the server only: all sizes, seconds, and what parties wrote to the server.",
        ]
    return [shared, f"`owner.json` is for those who hold the rows only: {rows}, all sizes, seconds and memory."]


def _open_file(network: bool) -> list[str]:
    counts = "" if network else "each party's rows by class, "
    return [
        f"`record.json` withholds nothing: it contains {counts}the sizes of all messages, seconds, and how good the "
        "models are. It is for those who may know that. There is no `owner.json`."
    ]


def reasons(record: RunRecord) -> Sequence[str]:
    """Return why no guarantee could be computed, in the words of the record."""
    return [f"The record says: *{remark}*." for remark in record.remarks if "epsilon" in remark]

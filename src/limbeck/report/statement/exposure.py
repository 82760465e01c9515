"""Who sees what in a run, and by which mechanism each message was protected."""

from collections.abc import Mapping, Sequence
from typing import Any

from limbeck.experiments.record import SERVER, RunRecord
from limbeck.privacy.mechanisms import MECHANISMS as REGISTERED
from limbeck.privacy.mechanisms import Subsample
from limbeck.report.statement.words import NETWORK, WHO, WITHOUT_NOISE, bullets, count, listed, table

MESSAGES = {
    "accuracy": "how often the model of a party is right on rows of this party",
    "class counts": "how many rows of each class a party has",
    "consensus": "the average of all parties' scores for public rows",
    "encoded votes": "votes for public rows, compressed and with noise",
    "evaluated model": "a model that an earlier run released to the same parties",
    "initial weights": "the starting values of a network, before any training",
    "initialization": "the starting values of a network, before any private row was used",
    "labels": "the class with the most votes, for each public row that was voted on",
    "model": "the model that the run ends with",
    "noisy sums": "for each class (or weighted by the number), the sum of the features of all its rows, with noise",
    "noisy test counts": "how many of a party's test rows have each class, predicted class and probability, with noise",
    "noisy scores": "the scores that a model gives to public rows, with noise",
    "predictions": "the scores that a party's model gives to public rows",
    "prior": "the share of each class, estimated from all parties",
    "prior estimate": "the share of each class, estimated by one party",
    "rows": "private rows themselves",
    "scores": "the scores that models give to public rows",
    "students": "models that a party trained on public rows, labelled by models of its private rows",
    "sums": "for each class (or weighted by the number), the sum of the features of all its rows; with noise, if a "
    "party adds it",
    "test counts": "how many of a party's test rows have each class, predicted class and probability; with noise, if "
    "a party adds it",
    "update": "the weights of a network that was trained on a party's private rows",
    "votes": "what a party's models predict for public rows",
    "weights": "the average of all parties' network weights",
}
SAMPLE = "the random choice of the rows that a party learns from; the rows themselves do not leave the party"
MECHANISMS = {
    "laplace": "Votes are counted by class. Laplace noise is added to each count. Only the class with the largest "
    "noisy count is released (report-noisy-max).",
    "gumbel": "Votes are counted by class. Gumbel noise is added to each count. Only the class with the largest "
    "noisy count is released (report-noisy-max, the exponential mechanism).",
    "gaussian": "Votes are counted by class. Gaussian noise is added to each count. Only the class with the largest "
    "noisy count is released (GNMax).",
    "confident-gaussian": "As `gaussian`. In addition, a class is released only where the largest count with noise "
    "reaches a threshold (Confident-GNMax).",
    "clipped-gaussian": "Each score is limited to a public bound. Gaussian noise is added to each.",
    "laplace-logits": "Each score is limited to a public bound. Laplace noise is added to each.",
    "laplace-counts": "Laplace noise is added to the number of rows of each class.",
    "gaussian-sum": "The length of each contribution is limited. Gaussian noise is added to their sum.",
    "noisy-median": "One number of each contributor is collected. A value near the median is drawn at random (the "
    "exponential mechanism).",
    "subsample": "No noise. A party draws some of its rows at random and learns from these only.",
}
PARAMETERS = {
    "gamma": "gamma (a smaller value is more noise)",
    "sigma": "sigma (standard deviation of the noise)",
    "check": "check (standard deviation of the noise at the threshold)",
    "threshold": "threshold",
    "bound": "bound of a score",
    "share": "share of one contributor in a mean",
    "weight": "weight (partitions)",
    "l2_sensitivity": "l2_sensitivity (most that one contributor can change)",
    "rows": "rows drawn",
    "of": "of at least so many rows",
}


def exposure(record: RunRecord) -> str:
    """Return the trust model: what leaves which site, who can see it, and whether it is protected."""
    if not record.ledger:
        return "Nothing left any site. No party had to trust another one."
    lines = [
        [origin, what, f"`{name}`", seen_by, protection, queries]
        for (origin, what, name, seen_by, protection), queries in _grouped(record).items()
    ]
    heading = ["From", "Information, in plain words", "Name in the ledger", "Seen by", "Protection", "Queries"]
    parts = [_trust(record), *_one_program(record), table(heading, lines), _reading(record)]
    return "\n\n".join(parts)


def unprotected_towards(record: RunRecord, observer: str) -> list[str]:
    """Return the names of all messages that an observer sees without protection."""
    rows = [row for row in record.ledger if row["mechanism"] == "unprotected"]
    return list(dict.fromkeys(str(row["what"]) for row in rows if row["observer"] in (observer, "public")))


def noise_at_server(record: RunRecord) -> bool:
    """Return whether the server adds noise to something it releases."""
    return any(row["site"] == SERVER and row["mechanism"] not in WITHOUT_NOISE for row in record.ledger)


def message(what: str, mechanism: str = "") -> str:
    """Return what a message contains, in plain words; messages of users' own algorithms are not known here."""
    if mechanism == Subsample.name:
        return SAMPLE
    return MESSAGES.get(what, "as the method's own description defines it")


def mechanisms(record: RunRecord) -> str:
    """Return how each protected message was protected, with all parameters of the noise."""
    rows = [row for row in record.ledger if row["mechanism"] not in WITHOUT_NOISE]
    lines = dict.fromkeys(
        (f"`{row['what']}`", _origin(row), f"`{row['mechanism']}`", _parameters(row["parameters"]), _sensitivity(row))
        for row in rows
    )
    sentences = [f"`{name}`: {_description(name)}" for name in _names(rows)]
    heading = ["Message", "Protected by", "Mechanism", "Parameters", "Sensitivity"]
    return (
        f"{bullets(sentences)}\n\n{table(heading, [list(line) for line in lines])}\n\n"
        "*Sensitivity* is the most that a neighbouring data set can change the answer to one query before noise."
    )


def _description(name: str) -> str:
    """What a mechanism does: in plain words here, or else the first line of its own description."""
    own = (getattr(REGISTERED.get(name), "__doc__", None) or "see its own description.").strip()
    return MECHANISMS.get(name, own.splitlines()[0])


def _one_program(record: RunRecord) -> list[str]:
    if record.timing.get("engine") == NETWORK:
        return []
    return [
        "In this run one program took the part of the server and of every party. This section says what each of them "
        "would see at a site of its own. Whoever ran the program could see everything and is trusted in any case."
    ]


def _trust(record: RunRecord) -> str:
    """Return whom the parties must trust."""
    if seen := unprotected_towards(record, "server"):
        adds = ", to add the noise as stated" if noise_at_server(record) else ""
        return (
            f"**The server is trusted.** It sees {_quoted(seen)} without protection. The parties must trust it to use "
            f"this for the run only{adds} and to show it to nobody."
        )
    if any(row["mechanism"] == Subsample.name for row in record.ledger):
        return "**The server need not be trusted** more than anybody else: the same limit holds towards all observers."
    if any(row["mechanism"] not in WITHOUT_NOISE for row in record.ledger):
        return "**The server need not be trusted.** Each party protects its information before it leaves the party."
    return "**The server need not be trusted.** It sees nothing that was computed from private rows."


def _grouped(record: RunRecord) -> dict[tuple[str, ...], str]:
    """Return one line for each kind of message, with the number of queries that each site answered."""
    samples = any(row["mechanism"] == Subsample.name for row in record.ledger)
    sites: dict[tuple[str, ...], set[str]] = {}
    asked: dict[tuple[tuple[str, ...], str], int] = {}
    for row in record.ledger:
        key: tuple[str, ...] = (
            "server" if row["site"] == SERVER else "party",
            message(row["what"], row["mechanism"]),
            str(row["what"]),
            "everybody" if row["observer"] == "public" else WHO[row["observer"]],
            _protection(row["mechanism"], samples),
        )
        sites.setdefault(key, set()).add(row["site"])
        asked[key, row["site"]] = asked.get((key, row["site"]), 0) + row["queries"]
    found: dict[tuple[str, ...], str] = {}
    for key, members in sites.items():
        origin = "the server" if key[0] == "server" else f"each of {count(len(members), 'party', 'parties')}"
        numbers = sorted({asked[key, site] for site in members})
        found[(origin, *key[1:])] = "–".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))
    return found


def _protection(mechanism: str, samples: bool) -> str:
    source = "public information and drawn rows" if samples else "public and protected information"
    special = {
        "unprotected": "**none**",
        "post-processing": f"none needed: computed from {source} only",
        Subsample.name: "random sample, no noise",
    }
    return special.get(mechanism, f"noise (`{mechanism}`)")


def _reading(record: RunRecord) -> str:
    everybody = any(row["observer"] == "public" for row in record.ledger)
    sentences = [
        "An *observer* is anyone who sees a message: the server, the other parties, or the public.",
        "*Queries* is the number of answers from each site, for example one for each public row that was voted on.",
    ]
    if everybody:
        sentences.append("*Everybody* means that the guarantee holds even if this information is published.")
    return " ".join(sentences)


def _origin(row: Mapping[str, Any]) -> str:
    return "the server" if row["site"] == SERVER else "each party"


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row["mechanism"]) for row in rows))


def _parameters(parameters: Mapping[str, Any]) -> str:
    known = [f"{words} = {parameters[key]:.4g}" for key, words in PARAMETERS.items() if key in parameters]
    if "replacement" in parameters:
        known.append(f"{'with' if parameters['replacement'] else 'without'} replacement")
    return ", ".join(known) or "–"


def _sensitivity(row: Mapping[str, Any]) -> str:
    return "–" if row["mechanism"] == Subsample.name else f"{row['sensitivity']:.4g}"


def _quoted(names: Sequence[str]) -> str:
    return listed([f"`{name}` ({message(name)})" for name in names])

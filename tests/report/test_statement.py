"""The privacy statement: its summary, its facts, its sections, and what it says of every kind of run."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from limbeck.algorithms import algorithms
from limbeck.algorithms.fedkd import FedKD
from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedmd import FedMD
from limbeck.algorithms.fedmd_private import FedMDLDP, FedMDNFDP
from limbeck.algorithms.fedridge import FedRidge
from limbeck.algorithms.pate import Pate
from limbeck.algorithms.solo import Solo
from limbeck.checks import small_federation
from limbeck.experiments.record import RunRecord, published
from limbeck.experiments.run import run_file
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.accountants import ACCOUNTANTS
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.guarantees import delta_of_subsets, guarantees, people
from limbeck.privacy.mechanisms import MECHANISMS
from limbeck.protocol.disclosures import Facts
from limbeck.protocol.release import Release
from limbeck.report.statement import statement
from limbeck.report.statement.exposure import MECHANISMS as IN_WORDS
from limbeck.report.statement.exposure import MESSAGES
from limbeck.report.statement.loss import ACCOUNTANTS as IN_FULL
from limbeck.report.statement.loss import posterior
from private_levels import LEVELS

SECTIONS = [
    "The run",
    "Unit of privacy and neighbouring data sets",
    "Trust model: who sees what",
    "Mechanism: how information is protected",
    "Accounting: epsilon and delta",
    "Implementation, access and side channels",
    "Assumptions",
    "What is not protected",
    "Sign-off",
]


def ran(algorithm: Any) -> RunRecord:
    return small_federation(algorithm).run(PoolTrainer(1)).record


def fedkt(level: Any, **more: Any) -> FedKT:
    return FedKT(partitions=1, subsets=2, queries=10, privacy=Privacy(level, epsilon=2.0, **more))


def section(text: str, title: str) -> str:
    """A section, known by its title without the number, or a subsection."""
    [found] = re.findall(rf"^##+ (?:\d+\. )?{re.escape(title)}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    return str(found)


def titles(text: str) -> list[str]:
    return re.findall(r"^## \d+\. (.*)$", text, re.MULTILINE)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| ").split("|")]


def on_network(record: RunRecord) -> RunRecord:
    timing = {"engine": "flower", "run": "adult-1-3f2a", "date": "2026-01-31"}
    named = [replace(party, name=name) for party, name in zip(record.parties, ("north", "south", "west"), strict=False)]
    return replace(record, timing=timing, parties=named, config={"data": {"public": "rows/public.csv"}})


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_the_sections_follow_the_standard(level: str) -> None:
    text = statement(ran(fedkt(level)))
    assert titles(text) == SECTIONS
    assert text.index("## Summary") < text.index("## 1. The run")
    for line in ("Prepared by", "Approved by", "Name | Role | Date | Signature"):
        assert line in section(text, "Sign-off")


def test_the_facts_of_a_run(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text(
        'ledger = "ledger.sqlite"\n[data]\nname = "iris"\nparties = 2\npublic = 0.3\ntest = 0.2\n'
        '[model]\nname = "decision-tree"\n[algorithm]\nname = "fedkt"\n'
        '[[party]]\nindex = 0\nname = "north"\n[[party]]\nindex = 1\nname = "south"\n'
    )
    record = run_file(file).record
    part = section(statement(record), "The run")
    assert re.search(r"Run identifier \| `[0-9a-f]{32}`", part)
    assert f"| Date of the run | {record.timing['date']} (UTC" in part
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record.timing["date"])
    assert "2 parties: north, south" in part
    assert "data set `iris`" in part
    assert f"45 rows drawn from the same data set as the private rows, hash `{record.data['public_hash']}`" in part
    assert "one program on one machine" in part


def test_the_facts_of_a_run_over_a_network() -> None:
    part = section(statement(on_network(replace(ran(fedkt("L2")), missing=(1,)))), "The run")
    assert "| Run identifier | `adult-1-3f2a` |" in part
    assert "| Date of the run | 2026-01-31 (UTC, start of the run) |" in part
    assert "each party computed at its own site" in part
    assert "north, south, west" in part
    assert "of the file `public.csv`, hash" in part
    assert "| Did not answer at least once | south |" in part


@pytest.mark.parametrize(
    ("public", "part"),
    [
        ({"path": "a/b.csv"}, "of the file `b.csv`"),
        ({"name": "wine", "rows": 5}, "of the data set `wine`"),
        ({"from": "test", "share": 0.5}, "of the official test rows of the same data set"),
        (50, "drawn from the same data set as the private rows"),
    ],
)
def test_where_public_rows_came_from(public: Any, part: str) -> None:
    record = replace(ran(FedKT()), config={"data": {"path": "x/own.csv", "public": public}})
    assert part in section(statement(record), "The run")
    assert "data set `own.csv`" in section(statement(record), "The run")


def test_test_rows_are_explained() -> None:
    record = ran(fedkt("L2"))
    text = statement(record)
    assert "| Test rows | 30 rows, used only to measure how good the models are |" in section(text, "The run")
    assert "`record.json` contains the accuracies." in section(text, "What is not protected")
    withheld = statement(published(record, tests_private_rows=True))
    assert "| Test rows | taken from the private file; their number is withheld |" in section(withheld, "The run")
    for words in ("`record.json` does not contain the accuracies.", "so that they are private too."):
        assert words in section(withheld, "What is not protected")
    without = statement(replace(record, data={**record.data, "test": 0}))
    assert "| Test rows | none |" in without
    assert "test rows" not in section(without, "What is not protected")


def test_the_settings_name_the_models_of_the_parties() -> None:
    record = ran(fedkt("L2"))
    listed = "`decision-tree`, `logistic-regression` and `naive-bayes`"
    assert listed in section(statement(record), "What is not protected")
    own = section(statement(on_network(record)), "What is not protected")
    assert "the model of the server" in own
    assert "decision-tree" not in own


def test_who_read_private_rows() -> None:
    record = ran(fedkt("L2"))
    text = section(statement(record), "Summary")
    assert "read the private rows of all parties. No message of the method contained a private row." in text
    assert "No party sent a private row to anybody." in section(statement(on_network(record)), "Summary")


@pytest.mark.parametrize(("epsilon", "prior"), [(0.1, 0.5), (2.0, 0.01), (5.0, 0.9)])
def test_the_posterior_is_the_odds_times_e_to_epsilon(epsilon: float, prior: float) -> None:
    found = posterior(prior, epsilon)
    assert found / (1 - found) == pytest.approx(math.exp(epsilon) * prior / (1 - prior))


@pytest.mark.parametrize(
    ("level", "whom"), [("L1", "a party holds certain data"), ("L2", "a certain row was in the data")]
)
def test_what_epsilon_means_as_odds(level: str, whom: str) -> None:
    record = ran(fedkt(level))
    text = statement(record)
    limit = math.ceil(1000 * posterior(0.5, record.epsilon["public"])) / 10
    for part in (section(text, "Summary"), section(text, "What epsilon means as odds")):
        assert f"thinks with 50 % probability that {whom}" in part
        assert f"at most **{limit:g} %**, except with probability 0.00001 (1 in 100,000)" in part


def test_a_large_epsilon_is_no_protection() -> None:
    text = statement(ran(FedKD(weights="equal")))
    assert "**The noise in this run is too small to protect anybody.**" in text.split("## Summary")[0]
    assert "practically certain" in section(text, "Summary")


@pytest.mark.parametrize(
    ("algorithm", "unit", "change"),
    [
        (fedkt("L1"), "all rows of one party", "replaced, or are added or removed"),
        (fedkt("L2"), "one row at one party", "is replaced."),
        (fedkt("L2", adjacency="add-remove"), "one row at one party", "is added or removed."),
        (fedkt("L2", rows_per_person=3), "up to 3 rows of one person at one party", "are replaced."),
        (Pate(teachers=4, queries=10, privacy=Privacy("L2", epsilon=2.0)), "one row", "is replaced."),
    ],
)
def test_the_unit_of_privacy_and_its_neighbours(algorithm: Any, unit: str, change: str) -> None:
    part = section(statement(ran(algorithm)), "Unit of privacy and neighbouring data sets")
    assert f"**unit of privacy** is {unit}." in part
    assert change in part


@pytest.mark.parametrize(
    ("algorithm", "part"),
    [
        (fedkt("L1"), "**The server is trusted.** It sees `students` (models that a party trained"),
        (fedkt("L2"), "**The server need not be trusted.** Each party protects"),
        (
            FedRidge(privacy=Privacy("L2", epsilon=2.0)),
            "**The server need not be trusted.** Each party protects",
        ),
        (FedMDLDP(rounds=1, alignment=5, start="none", epsilon=5.0), "**The server need not be trusted.** Each party"),
        (Solo(), "No party had to trust another one."),
    ],
)
def test_whom_the_parties_trust(algorithm: Any, part: str) -> None:
    record = ran(algorithm)
    assert part in section(statement(record), "Trust model: who sees what")
    assert "Whoever ran the program" in statement(record) or not record.ledger
    assert "Whoever ran the program" not in statement(on_network(record))


def test_every_message_and_mechanism_has_plain_words() -> None:
    facts = Facts(public=8, classes=3, parties=2, rows=9)
    known = [*LEVELS.values(), *(kind() for kind in algorithms().values())]
    assert {each.what for algorithm in known for each in algorithm.disclosures(facts)} <= set(MESSAGES)
    assert {name for name, kind in MECHANISMS.items() if kind.noisy} == set(IN_WORDS)
    assert set(ACCOUNTANTS) <= set(IN_FULL)


@pytest.mark.parametrize("algorithm", [FedKT(), FedMD(rounds=1, alignment=5, start="none")])
def test_a_run_without_protection_gets_one_honest_page(algorithm: Any) -> None:
    text = statement(ran(algorithm), head=(3, "abc"))
    assert text.split("\n\n")[1] == "**This run has no privacy protection.**"
    assert titles(text) == ["The run", SECTIONS[2], "What is not protected", "Files and access", "Sign-off"]
    assert "There is no epsilon" in section(text, "Summary")
    assert "simulation" not in text
    assert len(text.splitlines()) < 60


def test_a_run_in_which_nothing_leaves() -> None:
    text = statement(ran(Solo()), own_models=True)
    assert "Epsilon is 0 towards everybody" in section(text, "Summary")
    assert "model of its own, which no guarantee covers" in section(text, "Summary")


def test_a_run_whose_epsilon_cannot_be_computed() -> None:
    record = replace(ran(fedkt("L2")), privacy=[], epsilon={}, remarks=["no epsilon can be computed: odd rows"])
    text = statement(record)
    assert "**No privacy guarantee can be stated for this run.**" in text
    assert "The record says: *no epsilon can be computed: odd rows*." in section(text, "Summary")
    assert "Nothing that was computed from private rows" not in text


@pytest.mark.parametrize(
    "algorithm", [fedkt("L2"), FedMDNFDP(rounds=1, alignment=5, start="none", sampled=2, population=5)]
)
def test_a_simulation_is_marked_at_the_top_and_a_real_run_is_not(algorithm: Any) -> None:
    simulated = statement(ran(algorithm))
    real = statement(replace(small_federation(algorithm), noise="secure").run(PoolTrainer(1)).record)
    assert simulated.split("\n\n")[1].startswith("**This was a simulation. All random numbers came from a seed.")
    assert "simulation" not in real
    assert "operating system's generator" in section(real, SECTIONS[5])


def test_a_party_of_a_network_that_draws_noise_from_a_seed() -> None:
    text = statement(on_network(replace(ran(fedkt("L2")), real=True)))
    assert "**This was a simulation. At least one site drew its noise from a seed." in text


def test_a_shared_ledger_gives_the_sum() -> None:
    record = ran(fedkt("L2"))
    releases = [Release(**row) for row in record.ledger]
    found = guarantees([*releases, *releases], record.delta)
    total = next(f.epsilon for f in found if (f.observer, f.unit, f.adjacency) == ("public", "example", "replace"))
    assert total > record.epsilon["public"]
    text = statement(record, found, record.delta)
    assert f"is {total:.4g} for one row. This epsilon, not that of this run alone" in section(text, "Summary")
    assert f"{total:.4g} (from 50 % to at most" in section(text, "All runs in this ledger together")
    assert "All runs in this ledger together" not in statement(record)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_epsilon_for_people_with_several_rows(k: int) -> None:
    record = ran(fedkt("L2", rows_per_person=k))
    part = section(statement(record), "People with several rows")
    assert f"a person with at most {k} row" in part
    assert f"`rows_per_person = {k}`" in part
    ks = sorted({1, 2, 5, 10, k})
    heading, _, *lines = [cells(line) for line in part.splitlines() if line.startswith("|")]
    assert [int(each.split()[0]) for each in heading[1:]] == ks
    assert [each for each in heading if "this run" in each] == [heading[1 + ks.index(k)]]
    expected = people([Release(**row) for row in record.ledger], record.delta, ks)["public"]
    assert lines[-1] == ["the public", *(f"{epsilon:.4g}" for epsilon in expected.values())]
    assert record.epsilon["public"] == expected[k] <= 2.0
    assert "at most the sum of the parties' epsilons, at the sum of their deltas" in part


def test_a_person_in_a_protected_party() -> None:
    part = section(statement(ran(fedkt("L1"))), "People with several rows")
    assert "A whole party is protected" in part
    assert "changes several parties at once" in part
    assert "|" not in part


def test_a_person_whose_rows_the_server_pools() -> None:
    text = statement(ran(Pate(teachers=4, queries=10, privacy=Privacy("L2", epsilon=2.0))))
    assert "rows at all parties count together" in section(text, "People with several rows")
    assert "Their private rows were sent to the server." in section(text, "Summary")
    assert "Each person has at most 1 row among the rows of all parties." in section(text, "Assumptions")
    assert "Each person has rows in one party only" not in text


def test_samples_give_delta_first() -> None:
    record = ran(FedMDNFDP(rounds=1, alignment=5, start="none", sampled=2, rows_per_person=2))
    text = statement(record, own_models=True)
    releases = [Release(**row) for row in record.ledger]
    [line] = [cells(line) for line in section(text, "People with several rows").splitlines() if "everybody" in line]
    assert line[1:] == [f"{delta_of_subsets(releases, k):.4g}" for k in (1, 2, 5, 10)]
    assert record.delta == delta_of_subsets(releases, 2)
    for part in (section(text, "Summary"), section(text, "Accounting: epsilon and delta")):
        assert f"**Delta is {record.delta:.4g}: with this probability at least one of the 2 rows" in part
    assert "epsilon" not in section(text, "Summary").lower()
    assert "the rows themselves do not leave the party" in section(text, "Trust model: who sees what")


def test_the_head_of_the_ledger() -> None:
    record = ran(fedkt("L2"))
    assert "digest" not in statement(record)
    assert "The ledger had 7 entries" in statement(record, head=(7, "abc123"))
    assert "`abc123`" in section(statement(record, head=(1, "abc123")), SECTIONS[5])
    assert "The ledger had 1 entry when" in statement(record, head=(1, "abc123"))


@pytest.mark.parametrize(
    ("level", "sizes"),
    [("L1", "The sizes of unprotected messages are withheld."), ("L2", "It contains all message sizes.")],
)
@pytest.mark.parametrize("engine", ["in-process", "flower"])
def test_what_the_files_of_a_real_run_contain(level: str, sizes: str, engine: str) -> None:
    whole = ran(fedkt(level))
    record = published(replace(whole, timing={**whole.timing, "engine": engine}))
    part = section(statement(record), SECTIONS[5])
    assert sizes in part
    assert "`record.json` can be passed on" in part
    assert ("`owner.json` is for the server only" in part) == (engine == "flower")
    assert ("row counts, class counts" in part) == (engine == "in-process")


@pytest.mark.parametrize(("engine", "counts"), [("in-process", True), ("flower", False)])
def test_what_the_record_of_other_runs_states(engine: str, counts: bool) -> None:
    record = ran(FedKT())
    part = section(statement(replace(record, timing={**record.timing, "engine": engine})), "Files and access")
    assert "`record.json` withholds nothing" in part
    assert ("each party's rows by class" in part) == counts
    assert "`models/`" in section(statement(record, own_models=True), "Files and access")


def test_no_table_is_broken() -> None:
    """Every line of a table has as many columns as its heading."""
    for algorithm in (fedkt("L1"), fedkt("L2"), FedKT(), FedMDNFDP(rounds=1, alignment=5, start="none", sampled=2)):
        for block in statement(ran(algorithm), head=(1, "a")).split("\n\n"):
            lines = [line for line in block.splitlines() if line.startswith("|")]
            assert len({line.count("|") for line in lines}) <= 1, block

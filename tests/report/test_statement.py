"""The privacy statement: what it says of people, of the ledger's head, and of the run's files."""

from dataclasses import replace
from typing import Any

import pytest

from limbeck.algorithms.fedkt import FedKT
from limbeck.algorithms.fedmd_private import FedMDNFDP
from limbeck.algorithms.pate import Pate
from limbeck.checks import small_federation
from limbeck.experiments.record import RunRecord, published
from limbeck.models.pool import PoolTrainer
from limbeck.privacy.calibration import Privacy
from limbeck.privacy.guarantees import delta_of_subsets, people
from limbeck.protocol.release import Release
from limbeck.report.statement import statement


def ran(algorithm: Any) -> RunRecord:
    return small_federation(algorithm).run(PoolTrainer(1)).record


def fedkt(level: Any, **more: Any) -> FedKT:
    return FedKT(partitions=1, subsets=2, queries=10, privacy=Privacy(level, epsilon=2.0, **more))


def section(text: str, title: str) -> str:
    return text.split(f"## {title}\n")[1].split("\n## ")[0]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| ").split("|")]


@pytest.mark.parametrize("k", [1, 3, 5])
def test_epsilon_for_people_with_several_rows(k: int) -> None:
    record = ran(fedkt("L2", rows_per_person=k))
    section_text = section(statement(record), "People with several rows")
    assert f"a person with at most {k} row" in section_text
    assert f"`rows_per_person = {k}`" in section_text
    ks = sorted({1, 2, 5, 10, k})
    heading, _, *lines = [cells(line) for line in section_text.splitlines() if line.startswith("|")]
    assert [int(each.split()[0]) for each in heading[1:]] == ks
    assert [each for each in heading if "this run" in each] == [heading[1 + ks.index(k)]]
    expected = people([Release(**row) for row in record.ledger], record.delta, ks)["public"]
    assert lines[-1] == ["the public", *(f"{epsilon:.4g}" for epsilon in expected.values())]
    assert record.epsilon["public"] == expected[k] <= 2.0
    assert "at most the sum of the parties' epsilons, at the sum of their deltas" in section_text
    assert "his rows" not in statement(record)


def test_a_person_in_a_protected_party() -> None:
    section_text = section(statement(ran(fedkt("L1"))), "People with several rows")
    assert "A whole party is protected" in section_text
    assert "changes several parties at once" in section_text
    assert "|" not in section_text


def test_a_person_whose_rows_the_server_pools() -> None:
    text = statement(ran(Pate(teachers=4, queries=10, privacy=Privacy("L2", epsilon=2.0))))
    assert "rows at all parties count together" in section(text, "People with several rows")
    assert "Each person has rows in one party only" not in text


def test_subsets_report_delta_for_people_with_several_rows() -> None:
    record = ran(FedMDNFDP(rounds=1, alignment=5, start="none", sampled=2, rows_per_person=2))
    text = statement(record)
    section_text = section(text, "People with several rows")
    releases = [Release(**row) for row in record.ledger]
    [line] = [cells(line) for line in section_text.splitlines() if line.startswith("| everybody")]
    assert line[1:] == [f"{delta_of_subsets(releases, k):.4g}" for k in (1, 2, 5, 10)]
    assert record.delta == delta_of_subsets(releases, 2)
    assert "at least one of the 2 rows of a given person was drawn" in text


def test_without_noise_nothing_is_stated_about_people() -> None:
    assert "People with several rows" not in statement(ran(FedKT()))


def test_the_head_of_the_ledger() -> None:
    record = ran(fedkt("L2"))
    assert "digest" not in statement(record)
    assert "The ledger had 7 entries" in statement(record, head=(7, "abc123"))
    assert "`abc123`" in section(statement(record, head=(1, "abc123")), "What left which site")
    assert "The ledger had 1 entry when" in statement(record, head=(1, "abc123"))


@pytest.mark.parametrize(("level", "sizes"), [("L1", "are withheld"), ("L2", "are not withheld, for there are none")])
@pytest.mark.parametrize("engine", ["in-process", "flower"])
def test_what_the_files_of_a_real_run_contain(level: str, sizes: str, engine: str) -> None:
    whole = ran(fedkt(level))
    record = published(replace(whole, timing={**whole.timing, "engine": engine}))
    section_text = section(statement(record), "What the files of this run say")
    assert f"messages that left unprotected {sizes}" in section_text
    assert "`record.json` can be passed on" in section_text
    assert ("`owner.json` is for the server only" in section_text) == (engine == "flower")
    assert ("row counts, class counts" in section_text) == (engine == "in-process")


@pytest.mark.parametrize(("engine", "counts"), [("in-process", True), ("flower", False)])
def test_what_the_record_of_other_runs_states(engine: str, counts: bool) -> None:
    record = ran(FedKT())
    section_text = section(
        statement(replace(record, timing={**record.timing, "engine": engine})), "What the files of this run say"
    )
    assert "`record.json` withholds nothing" in section_text
    assert ("each party's rows by class" in section_text) == counts
    assert "`models/`" in section(statement(record, own_models=True), "What the files of this run say")

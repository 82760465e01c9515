"""The verbs of `limbeck server` and `limbeck party` that need no line: folders, keys, and clear refusals."""

import json
import stat
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")

from typer.testing import CliRunner

from limbeck.cli import app
from limbeck.consortium.joining import read_join
from limbeck.consortium.server import ServerFolder
from limbeck.errors import LimbeckError


def run_limbeck(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception:
        raise done.exception
    return done.output


@pytest.fixture
def server(tmp_path: Path) -> Path:
    run_limbeck("server", "init", tmp_path / "server", "--name", "limbeck.example.org", "--port", 1)
    return tmp_path / "server"


def test_secrets_are_for_their_owner_alone(server: Path, tmp_path: Path) -> None:
    run_limbeck("server", "invite", server, "clinic")
    run_limbeck("party", "init", tmp_path / "clinic", server / "invitations" / "clinic.json")
    clinic = tmp_path / "clinic"
    for path in (server / "ca.key", server / "server.key", server / "secret", clinic / "key", clinic / "secret"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len((clinic / "secret").read_bytes()) == 32
    assert {stat.S_IMODE(path.stat().st_mode) for path in (server, clinic)} == {0o700}
    assert "PRIVATE" not in (tmp_path / "clinic" / "clinic.pub").read_text()
    assert "PRIVATE" not in (server / "invitations" / "clinic.json").read_text()


def test_a_join_file_states_all_that_a_party_must_know(server: Path) -> None:
    run_limbeck("server", "invite", server, "clinic")
    run_limbeck("server", "invite", server, "lab")
    run_limbeck("server", "invite", server, "clinic")
    join = read_join(server / "invitations" / "lab.json")
    assert (join.party, join.index, join.address) == ("lab", 1, "limbeck.example.org:1")
    assert join.algorithm["name"] == "fedridge"
    assert "BEGIN CERTIFICATE" in join.authority
    assert read_join(server / "invitations" / "clinic.json").index == 0


def test_the_partys_settings_begin_with_what_was_proposed(server: Path, tmp_path: Path) -> None:
    run_limbeck("server", "invite", server, "clinic")
    run_limbeck("party", "init", tmp_path / "clinic", server / "invitations" / "clinic.json")
    text = (tmp_path / "clinic" / "party.toml").read_text()
    table = tomllib.loads(text)
    limit = {"epsilon": 4.0, "delta": 1e-5, "observer": "server", "unit": "example"}
    assert table["budget"] == limit
    parameters = {"privacy": {"level": "L2", "epsilon": 4.0}}
    assert table["agree"] == [{"algorithm": "fedridge", "levels": ["L2"], **limit, "parameters": parameters}]


def test_a_party_that_is_invited_without_an_epsilon_does_not_start_before_its_owner_chose(
    server: Path, tmp_path: Path
) -> None:
    file, clinic = server / "experiment.toml", tmp_path / "clinic"
    text = file.read_text().replace('privacy = { level = "L2", epsilon = 4.0, delta = 1e-5 }', "")
    file.write_text(text.replace("fedridge", "fedkt"))
    run_limbeck("server", "invite", server, "clinic")
    run_limbeck("party", "init", clinic, server / "invitations" / "clinic.json")
    with pytest.raises(LimbeckError, match=r"party.toml: .* write a \[budget\], or unprotected = true"):
        run_limbeck("party", "start", clinic)
    assert not (clinic / "checked.json").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("party", "../pwned"),
        ("party", "a/b"),
        ("index", -1),
        ("address", "nowhere"),
        ("address", "http://localhost:1/"),
        ("authority", "garbage"),
        ("classes", ["0"]),
        ("algorithm", {}),
        ("format", 7),
        ("index", "first"),
    ],
)
def test_a_join_file_that_was_tampered_with_is_refused(server: Path, tmp_path: Path, key: str, value: object) -> None:
    run_limbeck("server", "invite", server, "clinic")
    table = json.loads((server / "invitations" / "clinic.json").read_text())
    (tmp_path / "join.json").write_text(json.dumps({**table, key: value}))
    with pytest.raises(LimbeckError, match=key) as error:
        run_limbeck("party", "init", tmp_path / "clinic", tmp_path / "join.json")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "clinic").exists()


def test_a_new_join_file_takes_the_place_of_an_old_one_of_the_same_party(server: Path, tmp_path: Path) -> None:
    for name in ("clinic", "lab"):
        run_limbeck("server", "invite", server, name)
        run_limbeck("party", "init", tmp_path / name, server / "invitations" / f"{name}.json")
    file = server / "experiment.toml"
    file.write_text(file.read_text().replace("epsilon = 4.0", "epsilon = 3.0"))
    join = Path(str(server / "invitations" / "clinic.json"))
    run_limbeck("server", "invite", server, "clinic")
    run_limbeck("party", "rejoin", tmp_path / "clinic", join)
    assert read_join(tmp_path / "clinic" / "join.json").algorithm["privacy"]["epsilon"] == 3.0
    with pytest.raises(LimbeckError, match="invites clinic"):
        run_limbeck("party", "rejoin", tmp_path / "lab", join)


def test_the_certificate_names_what_parties_dial(server: Path) -> None:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate((server / "server.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["limbeck.example.org", "localhost"]


def test_keys_are_admitted_before_anything_runs_and_stay_separate(server: Path, tmp_path: Path) -> None:
    for name in ("clinic", "lab"):
        run_limbeck("server", "invite", server, name)
        run_limbeck("party", "init", tmp_path / name, server / "invitations" / f"{name}.json")
    assert "clinic is admitted" in run_limbeck("server", "admit", server, tmp_path / "clinic" / "clinic.pub")
    copied = tmp_path / "lab.pub"
    copied.write_bytes((tmp_path / "clinic" / "clinic.pub").read_bytes())
    with pytest.raises(LimbeckError, match="clinic's key already"):
        run_limbeck("server", "admit", server, copied)
    assert list(ServerFolder(server).admitted) == ["clinic"]
    run_limbeck("server", "remove", server, "clinic")
    with pytest.raises(LimbeckError, match="was removed before"):
        run_limbeck("server", "admit", server, tmp_path / "clinic" / "clinic.pub")
    run_limbeck("party", "rekey", tmp_path / "clinic")
    run_limbeck("server", "admit", server, tmp_path / "clinic" / "clinic.pub")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("server", "init", "{server}"), "is not empty"),
        (("server", "init", "{tmp}/new", "--name", "müller.example"), "a host name or an address"),
        (("server", "init", "{tmp}/new", "--name", "https://foo/"), "a host name or an address"),
        (("server", "init", "{tmp}/new", "--name", "x" * 65), "a host name or an address"),
        (("server", "invite", "{tmp}", "clinic"), "is not a server's folder"),
        (("server", "invite", "{server}", "../evil"), "cannot be the name of a party"),
        (("server", "invite", "{server}", ""), "cannot be the name of a party"),
        (("server", "admit", "{server}", "{tmp}/nobody.pub"), "nobody was not invited"),
        (("server", "remove", "{server}", "nobody"), "nobody is not admitted"),
        (("server", "run", "{server}", "{server}/experiment.toml"), "no party is admitted yet"),
        (("server", "run", "{server}", "{server}/nothing.toml"), "cannot read"),
        (("server", "run", "{server}", "{server}/experiment.toml", "--resume"), "no run of"),
        (("server", "add-late", "{server}", "experiment-1", "clinic"), "there is no such run"),
        (("server", "remove-party", "{server}", "experiment-1", "clinic"), "there is no such run"),
        (("party", "init", "{tmp}/new", "{server}/server.toml"), "is not a join file"),
        (("party", "init", "{tmp}/new", "{tmp}/nothing.json"), "cannot read"),
        (("party", "start", "{tmp}"), "is not a party's folder"),
        (("party", "ledger", "{tmp}"), "is not a party's folder"),
        (("party", "approve", "{tmp}", "1"), "is not a party's folder"),
    ],
)
def test_what_cannot_be_done_is_reported_in_one_line(
    server: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(LimbeckError) as error:
        run_limbeck(*(word.format(server=server, tmp=tmp_path) for word in words))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_key_that_is_none_is_refused(server: Path, tmp_path: Path) -> None:
    run_limbeck("server", "invite", server, "clinic")
    wrong = tmp_path / "clinic.pub"
    for text in (
        "",
        "ssh-rsa AAAA",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG6x5l0s3uN1Y9rX1v7n5b8q8o2l1o0m9u6y5t4r3e2w x",
    ):
        wrong.write_text(text)
        with pytest.raises(LimbeckError, match="is not a party's public key"):
            run_limbeck("server", "admit", server, wrong)


def test_wrong_experiments_are_reported_in_one_line(server: Path) -> None:
    file = server / "experiment.toml"
    text = file.read_text()
    for old, new, message in (
        ("quorum = 2", "quorum = 0", "quorum"),
        ("deadline = 600.0", "deadline = -1.0", "deadline"),
        ("deadline = 600.0", "deadlin = 1.0", "did you mean 'deadline'?"),
        ('public = "public.npz"', 'public = "public.csv"', "data.label is missing"),
        ('public = "public.npz"', 'public = "nothing.npz"', "no such file"),
        ('classes = ["0", "1"]', 'classes = ["0"]', "classes"),
        ('classes = ["0", "1"]', 'classes = ["0", "2"]', "holds the class '1'"),
        ('name = "fedridge"', 'name = "fedridges"', "did you mean"),
        ('name = "fedridge"', 'name = "fedvote"', "privacy: fedvote is for levels L0 and L1: use fedridge at L2"),
        ('name = "fedridge"', 'name = "fedkt"\npartitions = 0', "partitions = 0"),
        ('name = "fedridge"', 'name = "fedkt"\nsubset = 8', "did you mean 'subsets'?"),
        (
            text[text.index('name = "fedridge"') :],
            'name = "fedmd-nfdp"\nstart = "none"\n',
            "fedmd-nfdp between organisations needs algorithm.population",
        ),
    ):
        file.write_text(text.replace(old, new))
        with pytest.raises(LimbeckError) as error:
            run_limbeck("server", "invite", server, "clinic")
        assert message in str(error.value), str(error.value)
        assert "\n" not in str(error.value)
    assert not (server / "parties.json").exists()

"""The coordinator's folder: certificates, invited and admitted parties, the ledger, and the runs."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, StrictInt

from limbeck.atomic_files import AtomicFile
from limbeck.consortium.experiment import PreparedRun, prepare_run
from limbeck.consortium.files import new_folder, read_or_create_secret
from limbeck.consortium.joining import HOST, NAME, Join
from limbeck.data.sets import load
from limbeck.engines.flower.chunks import ConnectionLostError
from limbeck.engines.flower.coordinator import Control
from limbeck.engines.flower.keys import read_public_key, write_authority, write_server_certificate
from limbeck.errors import LimbeckError
from limbeck.experiments.config import check_table, read_toml
from limbeck.experiments.data_table import Table
from limbeck.locks import locked

EVERYWHERE = ("0.0.0.0", "::")
EXAMPLE = """\
# An example: is a tumour malignant? Replace its public rows, classes and algorithm by your own, then invite parties.
seed = 0
deadline = 600.0           # seconds that each request waits for answers
quorum = 2                 # fewest parties that must answer

[data]
public = "public.npz"      # every party gets these rows too; CSV and Parquet also need `label`
classes = ["0", "1"]
test = "test.npz"          # optional: the coordinator's own rows, to measure the model

[model]                    # of algorithms that train the final model; fedridge computes it
name = "random-forest"

[algorithm]
name = "fedridge"
privacy = { level = "L2", epsilon = 4.0, delta = 1e-5 }
"""


class ServerSettings(Table):
    """The file `server.toml`.

    Parameters
    ----------
    names : list of str
        Host names in the certificate; parties connect to the first.
    host : str
        Address to listen on.
    port : int
        Port to listen on.
    """

    names: list[str] = Field(min_length=1)
    host: str = "0.0.0.0"
    port: StrictInt = Field(9443, ge=1, le=65535)


@dataclass(frozen=True, slots=True)
class Member:
    """An invited organisation.

    Parameters
    ----------
    name : str
        Name of the party.
    index : int
        Number of the party.
    key : str, optional
        Public key, once the party is admitted.
    """

    name: str
    index: int
    key: str | None = None


class ServerFolder:
    """The server's folder.

    Parameters
    ----------
    path : Path
        A folder that `limbeck server init` made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / "server.toml").exists():
            raise LimbeckError(f"{path} is not a server's folder: limbeck server init {path} makes one")
        self.settings = check_table(ServerSettings, read_toml(path / "server.toml"), str(path / "server.toml"))

    @property
    def address(self) -> str:
        """Host and port that parties connect to."""
        return f"{self.settings.names[0]}:{self.settings.port}"

    @property
    def own_address(self) -> str:
        """Host and port that the coordinator connects to, on the same machine."""
        host = self.settings.host
        return f"{'127.0.0.1' if host in EVERYWHERE else host}:{self.settings.port}"

    def control(self) -> Control:
        """Connect to the SuperLink with the coordinator's rights."""
        return Control(self.own_address, self.path)

    @property
    def members(self) -> dict[str, Member]:
        """All invited parties, by name."""
        return {each["name"]: Member(**each) for each in self._read()["members"]}

    @property
    def removed(self) -> list[str]:
        """Keys that were admitted once and are rejected now."""
        return list(self._read()["removed"])

    def _read(self) -> dict[str, Any]:
        path = self.path / "parties.json"
        if not path.exists():
            return {"members": [], "removed": []}
        try:
            table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            for each in table["members"]:
                if not NAME.fullmatch(Member(**each).name) or type(Member(**each).index) is not int:
                    raise ValueError(f"{each['name']}, {each['index']}")
            return {"members": table["members"], "removed": list(table["removed"])}
        except (ValueError, TypeError, KeyError) as error:
            raise LimbeckError(f"{path} is not a list of parties: {error}") from error

    def _changing(self) -> AbstractContextManager[None]:
        """Context manager: programs change the list of parties one after the other."""
        return locked(self.path / ".parties.lock", "", wait=True)

    def invite(self, name: str, file: Path | None = None) -> Path:
        """Write a party's join file; a party that was invited before keeps its number.

        Parameters
        ----------
        name : str
            Name of the party.
        file : Path, optional
            Experiment to invite it to; by default experiment.toml in the folder.

        Returns
        -------
        Path
            The join file.
        """
        if not NAME.fullmatch(name):
            raise LimbeckError(f"{name!r} cannot be the name of a party: use up to 64 letters, digits, dots and dashes")
        plan = prepare_run(file or self.path / "experiment.toml")
        target = self.path / "invitations" / f"{name}.json"
        with self._changing():
            members = self.members
            member = members.get(name) or Member(name, 1 + max((m.index for m in members.values()), default=-1))
            with AtomicFile(target) as output:
                output.write(self._join(plan, member).to_json().encode())
            self._write({**members, name: member})
        return target

    def admit(self, public_key: Path) -> str:
        """Register a party's key; a new key replaces its old one.

        Parameters
        ----------
        public_key : Path
            The file PARTY.pub that the party sent.

        Returns
        -------
        str
            Name of the party.
        """
        name = public_key.stem
        with self._changing():
            members = self.members
            if name not in members:
                raise LimbeckError(f"{name} was not invited: use limbeck server invite {self.path} {name}")
            key, old = read_public_key(public_key).decode(), members[name].key
            owner = next((m.name for m in members.values() if m.key == key and m.name != name), None)
            if owner:
                raise LimbeckError(f"{public_key} is {owner}'s key already: every party needs a key of its own")
            if key in self.removed:
                raise LimbeckError(
                    f"{public_key} was removed before: the party makes a new one with limbeck party rekey"
                )
            self._write({**members, name: replace(members[name], key=key)}, [old] if old and old != key else [])
            self._notify_superlink()
        return name

    def remove(self, name: str) -> None:
        """Remove a party: it can no longer connect. No other party gets its number."""
        with self._changing():
            members = self.members
            if name not in members or members[name].key is None:
                raise LimbeckError(f"{name} is not admitted; admitted: {', '.join(self.admitted) or 'none'}")
            self._write({**members, name: replace(members[name], key=None)}, [str(members[name].key)])
            self._notify_superlink()

    def _notify_superlink(self) -> None:
        with suppress(ConnectionLostError):  # it is notified again when it starts
            self.sync(self.control())

    @property
    def admitted(self) -> dict[str, Member]:
        """Admitted parties, by name."""
        return {name: member for name, member in self.members.items() if member.key}

    def sync(self, control: Control) -> None:
        """Register all admitted parties on the SuperLink, and no others."""
        admitted = {str(member.key).encode(): name for name, member in self.admitted.items()}
        known = {presence.key: presence.node for presence in control.presences()}
        for key in known.keys() - admitted.keys():
            control.unregister(known[key])
        for key in admitted.keys() - known.keys():
            control.register(key, admitted[key])

    def _join(self, plan: PreparedRun, member: Member) -> Join:
        terms = plan.terms(1)
        return Join(
            party=member.name,
            index=member.index,
            address=self.address,
            authority=(self.path / "ca.pem").read_text(encoding="ascii"),
            public=terms.public,
            classes=list(terms.classes),
            task=terms.task,
            schema=terms.schema,
            labelled=terms.labelled,
            algorithm={"name": terms.algorithm, **terms.parameters},
            features=terms.features,
            class_weights=terms.class_weights,
        )

    def _write(self, members: dict[str, Member], gone: Sequence[str] = ()) -> None:
        table = {"members": [asdict(member) for member in members.values()], "removed": [*self.removed, *gone]}
        with AtomicFile(self.path / "parties.json") as output:
            output.write(json.dumps(table, indent=1).encode())


def init(path: Path, names: list[str], host: str, port: int) -> None:
    """Make a server's folder: authority, certificate, the coordinator's secret, and an example experiment.

    Parameters
    ----------
    path : Path
        A new folder.
    names : list of str
        Host names and addresses for the certificate; parties connect to the first.
    host : str
        Address to listen on.
    port : int
        Port to listen on.
    """
    for name in [*names, host]:
        if not HOST.fullmatch(name):
            raise LimbeckError(f"--name {name}: use a host name or an address, such as limbeck.example.org")
    new_folder(path)
    write_authority(path)
    own = [] if host in EVERYWHERE else [host]
    write_server_certificate(path, list(dict.fromkeys([*names, *own, "localhost", "127.0.0.1"])))
    read_or_create_secret(path / "secret")
    _write_example(path)
    lines = [
        f"names = {json.dumps(names)}   # in the certificate; parties connect to the first",
        f"host = {json.dumps(host)}",
    ]
    (path / "server.toml").write_text("\n".join([*lines, f"port = {port}", ""]), encoding="utf-8")


def _write_example(path: Path) -> None:
    cancer = load("breast-cancer")
    (path / "experiment.toml").write_text(EXAMPLE, encoding="utf-8")
    for name, part in (("public", slice(0, 150)), ("test", slice(150, 290))):
        np.savez(path / f"{name}.npz", x_train=cancer.x[part], y_train=cancer.y[part])

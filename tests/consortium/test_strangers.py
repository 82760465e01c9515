"""Who is not let in, and what a party does not do: keys, certificates, other apps, other numbers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")

from limbeck.consortium.server import ServerFolder
from limbeck.engines.flower import app, coordinator
from limbeck.engines.flower.chunks import ConnectionLostError
from limbeck.engines.flower.coordinator import Connection, Control, wait_for
from limbeck.engines.flower.keys import write_party_key, write_server_certificate
from limbeck.engines.flower.node import Node
from limbeck.errors import LimbeckError
from limbeck.protocol.envelopes import ReplyEnvelope, RequestEnvelope, Terms
from programs import Consortium

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    there = Consortium(tmp_path_factory.mktemp("strangers"), ["a", "b"], deadline=30.0)
    try:
        there.serve()
        for party in there.parties:
            there.write_settings(party)
        yield there
    finally:
        there.close()


@pytest.fixture
def folder(programs: Consortium) -> ServerFolder:
    return ServerFolder(programs.server)


def test_an_unregistered_key_is_not_let_in(programs: Consortium, folder: ServerFolder, tmp_path: Path) -> None:
    write_party_key(tmp_path, "stranger")
    authority = (programs.server / "ca.pem").read_bytes()
    with (
        pytest.raises(ConnectionLostError, match="does not let this party in"),
        Node(folder.own_address, authority, tmp_path / "key"),
    ):
        pass


def test_a_removed_party_is_not_let_in_and_a_new_key_takes_the_place_of_an_old_one(
    programs: Consortium, folder: ServerFolder, tmp_path: Path
) -> None:
    authority = (programs.server / "ca.pem").read_bytes()
    old = tmp_path / "old"
    old.write_bytes((programs.home / "b" / "key").read_bytes())
    public = programs.home / "b" / "b.pub"
    programs.run_limbeck("party", "rekey", programs.home / "b")
    programs.run_limbeck("server", "admit", programs.server, public)
    with Node(folder.own_address, authority, programs.home / "b" / "key"):
        pass
    with pytest.raises(ConnectionLostError, match="does not let"), Node(folder.own_address, authority, old):
        pass
    programs.run_limbeck("server", "remove", programs.server, "b")
    with (
        pytest.raises(ConnectionLostError, match="does not let"),
        Node(folder.own_address, authority, programs.home / "b" / "key"),
    ):
        pass
    again = programs.run_limbeck("server", "admit", programs.server, public, check=False)
    assert "was removed before" in again.stderr
    programs.run_limbeck("party", "rekey", programs.home / "b")
    programs.run_limbeck("server", "admit", programs.server, public)


def test_a_stranger_cannot_make_the_server_read_much(programs: Consortium, folder: ServerFolder) -> None:
    import ssl

    import httpx

    from programs import children

    [superlink] = children(programs.running["serve"].pid)
    trusted = ssl.create_default_context(cafile=str(programs.server / "ca.pem"))
    before = _peak(superlink)
    with httpx.Client(verify=trusted, timeout=60) as client:
        url = f"https://{folder.own_address}/v1/fleet/activate-node"
        try:
            answer = client.post(url, content=bytes(300 * 2**20), headers={"content-type": "application/x-protobuf"})
            assert answer.is_error
        except httpx.TransportError:
            pass  # the line was cut, which is as good
    assert _peak(superlink) - before < 100 * 2**20


def _peak(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def test_only_the_coordinator_may_start_runs_or_register(folder: ServerFolder, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes((folder.path / "ca.pem").read_bytes())
    (tmp_path / "secret").write_bytes(b"guessed" * 4)
    control = Control(folder.own_address, tmp_path)
    for attempt in (control.presences, control.start_run, lambda: control.register(b"key", "me")):
        with pytest.raises(ConnectionLostError):
            attempt()
    control.close()


def test_nobody_but_the_coordinator_leads_a_run(folder: ServerFolder) -> None:
    """A run waits for its coordinator: without the secret its task cannot be claimed."""
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.runtime import RuntimeHttpClient
    from httpx import HTTPStatusError

    control = folder.control()
    control.start_run()
    client = RuntimeHttpClient.from_server_address(
        folder.own_address, False, control.authority, [coordinator._version()]
    )
    with pytest.raises(HTTPStatusError):
        client.AcquireTask(AcquireTaskRequest(supported_task_types=["flwr-serverapp"]))


def test_a_server_that_sends_another_app_is_refused(
    programs: Consortium, folder: ServerFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "a" not in programs.running:
        programs.start_parties("a")
    other = app.app_bundle().replace(b'publisher = "limbeck"', b'publisher = "mallory"')
    assert other != app.app_bundle()
    monkeypatch.setattr(coordinator, "app_bundle", lambda: _zipped(other))
    control = folder.control()
    line = Connection(control)
    node = next(each.node for each in control.presences() if each.online)
    posted = {line.post(node, _question(0).encode(), 60.0): node}
    [(_, data, _)] = _collect(line, posted)
    assert data is not None
    assert "another app" in str(ReplyEnvelope.decode(data).refusal)
    line.close(True)


def test_a_party_that_claims_another_number_is_not_accepted(programs: Consortium, folder: ServerFolder) -> None:
    """A program with b's key answers in a's name."""
    import threading

    question = {}

    def send_false_number() -> None:
        authority = (programs.server / "ca.pem").read_bytes()
        with Node(folder.own_address, authority, programs.home / "b" / "key") as node:
            while "received" not in question:
                if found := node.next_envelope(2**20):
                    asked = RequestEnvelope.decode(found[1])
                    question["received"] = asked
                    node.answer(found[0], ReplyEnvelope(asked.run, asked.turn, 0, asked.hash, reply=b"x").encode())

    if "a" not in programs.running:
        programs.start_parties("a")
    file = programs.experiment(deadline=30.0, quorum=1, name="lie")
    attacker = threading.Thread(target=send_false_number)
    attacker.start()
    summary = programs.run(file)
    attacker.join()
    assert summary["missing"] == [1]
    status = programs.run_limbeck("server", "status", programs.server).stdout
    assert "bad reply: an answer for party '0', not '1'" in status


def test_a_reply_that_never_comes_whole_keeps_nobody_else_waiting(
    programs: Consortium, folder: ServerFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program with b's key announces an answer and sends nothing of it; the reply of a arrives before the deadline."""
    import threading

    from flwr.supercore.inflatable import inflatable_utils

    monkeypatch.setattr(inflatable_utils, "push_objects", lambda *args, **named: None)
    if "a" not in programs.running:
        programs.start_parties("a")
    ended = threading.Event()

    def announce() -> None:
        authority = (programs.server / "ca.pem").read_bytes()
        with Node(folder.own_address, authority, programs.home / "b" / "key") as node:
            while not ended.wait(0.1):
                if found := node.next_envelope(2**20):
                    node.answer(found[0], b"never sent")

    announcer = threading.Thread(target=announce)
    announcer.start()
    try:
        summary = programs.run(programs.experiment(deadline=20.0, quorum=1, name="announce"))
    finally:
        ended.set()
        announcer.join()
    assert summary["missing"] == [1]
    assert "silent until the deadline" in programs.run_limbeck("server", "status", programs.server).stdout


def test_an_expired_certificate_is_refused_by_both_sides(programs: Consortium, tmp_path: Path) -> None:
    there = Consortium(tmp_path, ["a"])
    try:
        for name in ("server.pem", "server.key"):
            (there.server / name).unlink()
        write_server_certificate(there.server, ["localhost", "127.0.0.1"], days=-1)
        refused = there.run_limbeck("server", "start", there.server, check=False)
        assert "server.pem expired on" in refused.stderr
        assert "Traceback" not in refused.stderr
        _serve_anyway(there)
        there.write_settings("a")
        there.start("a", "party", "start", there.home / "a")
        there.until(lambda: "certificate has expired" in there.log("a"), 90)
        assert "connected" not in there.log("a")
    finally:
        there.close()


def _serve_anyway(there: Consortium) -> None:
    """As somebody would who does not care: the SuperLink without the look at its certificate."""
    import subprocess
    import sys

    there.running["serve"] = subprocess.Popen(
        [sys.executable, "-m", "limbeck.consortium.supervisor", str(there.server)]
    )
    control = ServerFolder(there.server).control()
    with pytest.raises(LimbeckError, match="certificate"):
        wait_for(control, 30.0)


def _question(party: int) -> RequestEnvelope:
    return RequestEnvelope("run", 0, party, Terms("fedkt", {}, 1, 0, ["0", "1", "2"], "public"), b"request")


def _collect(line: Connection, posted: Any) -> list[Any]:
    import time

    until = time.monotonic() + 60
    while not (found := list(line.collect(posted, 2**20))) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def _zipped(data: bytes) -> bytes:
    """The same archive, its checksum put right."""
    import io
    import zipfile

    text = zipfile.ZipFile(io.BytesIO(app.app_bundle())).read("pyproject.toml")
    bundle = io.BytesIO()
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr("pyproject.toml", text.replace(b'publisher = "limbeck"', b'publisher = "mallory"'))
    return bundle.getvalue()

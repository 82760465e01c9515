"""What a party is shown when it cannot connect."""

import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")

from limbeck.engines.flower.chunks import ConnectionLostError
from limbeck.engines.flower.keys import write_authority, write_party_key, write_server_certificate
from limbeck.engines.flower.node import Node
from pages import free_port


def connect(address: str, folder: Path) -> str:
    """Error message of a party with a key in `folder` that trusts the authority of `folder`."""
    write_party_key(folder, "a")
    with (
        pytest.raises(ConnectionLostError) as caught,
        Node(address, (folder / "ca.pem").read_bytes(), folder / "key"),
    ):
        pass
    assert caught.value.away
    return str(caught.value)


def test_a_server_that_is_not_running_is_named(tmp_path: Path) -> None:
    write_authority(tmp_path)
    address = f"127.0.0.1:{free_port()}"
    message = connect(address, tmp_path)
    assert message == f"cannot reach the server at {address}; is it running, and is the port open?"


def test_a_certificate_of_another_authority_is_named(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        write_authority(folder)
    write_server_certificate(tmp_path / "other", ["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "other" / "server.pem", tmp_path / "other" / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_shake_hands, args=(context, listener), daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert connect(address, tmp_path).startswith(f"the certificate of the server at {address} is not valid: ")


def _shake_hands(context: ssl.SSLContext, listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with suppress(OSError), context.wrap_socket(connection, server_side=True):
                pass

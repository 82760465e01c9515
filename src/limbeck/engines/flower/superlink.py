"""Flower's SuperLink, which stores messages until they are fetched: one port, TLS, registered keys, one coordinator."""

import hmac
import logging
import os
import socket
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError

MAX_BYTES_UNKNOWN, MAX_BYTES_KNOWN = 2**20, 2**31  # bytes of a request, from unknown and from registered senders
LOOPBACK = ("127.0.0.1", "::1")


def serve(folder: Path, host: str, port: int) -> None:
    """Serve on one port until the program is stopped.

    Parameters
    ----------
    folder : Path
        The server's folder, with certificates, secret and database.
    host : str
        Address to listen on.
    port : int
        Port to listen on.
    """
    os.environ["FLWR_HOME"] = str(folder / "flower")
    import uvicorn
    from flwr.superlink.cli.flower_superlink import SuperLinkLifespan
    from flwr.superlink.config_loader import SuperLinkLifespanConfig
    from flwr.superlink.main import create_app

    check_free(host, port)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    secret = (folder / "secret").read_bytes()
    pem = tuple((folder / name).read_bytes() for name in ("ca.pem", "server.pem", "server.key"))
    config = SuperLinkLifespanConfig(
        control_address="",
        health_server_address=None,
        host=host,
        port=port,
        insecure=False,
        certificates=(pem[0], pem[1], pem[2]),
        superexec_auth_secret=secret,
        authn_plugin=_only_the_coordinator(secret),
        event_log_plugin=None,
        fleet_event_log_plugin=None,
        enable_event_log=False,
        artifact_provider=None,
        enable_supernode_auth=True,
        fleet_api_type="grpc-rere",
        fleet_api_address=None,
        simulation=False,
        ssl_ca_certfile=str(folder / "ca.pem"),
        ssl_certfile=str(folder / "server.pem"),
        ssl_keyfile=str(folder / "server.key"),
        database=str(folder / "superlink.sqlite"),
        isolation="process",
        runtime_dependency_install=False,
    )
    app = create_app(config, SuperLinkLifespan)
    uvicorn.run(
        Guard(app, app.state.linkstate_factory.state().get_node_id_by_public_key),
        host=host,
        port=port,
        log_level="error",
        access_log=False,
        ssl_certfile=config.ssl_certfile,
        ssl_keyfile=config.ssl_keyfile,
    )


class Guard:
    """ASGI middleware that limits the size of requests from unknown senders.

    Parameters
    ----------
    app : ASGI application
        The SuperLink.
    node_of : callable
        Returns the node of a public key; None if the key is not registered.
    """

    def __init__(self, app: Any, node_of: Callable[[bytes], int | None]) -> None:
        self.app, self.node_of = app, node_of

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        allowed = MAX_BYTES_KNOWN if scope["type"] != "http" or self._is_known(scope) else MAX_BYTES_UNKNOWN
        read = 0

        async def limited() -> Any:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            return message if read <= allowed else {"type": "http.disconnect"}

        await self.app(scope, limited, send)

    def _is_known(self, scope: Any) -> bool:
        if scope["path"].startswith("/v1/fleet/"):
            return self._is_signed({name.decode(): value for name, value in scope["headers"]})
        return bool(scope["client"]) and scope["client"][0] in LOOPBACK

    def _is_signed(self, headers: Mapping[str, bytes]) -> bool:
        """Whether a registered key signed the request; Flower checks the same, but after reading the body."""
        from flwr.common.constant import TIMESTAMP_HEADER
        from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
        from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature

        try:
            key = b64decode(headers[FLEET_HTTP_PUBLIC_KEY_HEADER.lower()], validate=True)
            signature = b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER.lower()], validate=True)
            timestamp = headers[TIMESTAMP_HEADER.lower()]
            return self.node_of(key) is not None and verify_signature(bytes_to_public_key(key), timestamp, signature)
        except (KeyError, ValueError, TypeError):
            return False


def _only_the_coordinator(secret: bytes) -> Any:
    """Authentication plugin: only who knows the secret of the server's folder may register parties and start runs."""
    from flwr.common.constant import ACCESS_TOKEN_KEY
    from flwr.superlink.auth_plugin import NoOpControlAuthnPlugin

    class Coordinator(NoOpControlAuthnPlugin):
        def validate_tokens_in_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> Any:
            token = dict(metadata).get(ACCESS_TOKEN_KEY, "")
            given = token if isinstance(token, bytes) else token.encode()
            if not hmac.compare_digest(given, secret.hex().encode()):
                return False, None
            return super().validate_tokens_in_metadata(metadata)

        def refresh_tokens(self, metadata: Sequence[tuple[str, str | bytes]]) -> Any:
            return None, None

    return Coordinator()


def check_free(host: str, port: int) -> None:
    """Raise if a port cannot be listened on."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise LimbeckError(f"cannot listen on {host}:{port}: {error.strerror}") from error

"""Flower's SuperLink, where letters lie until they are fetched: one port, TLS, registered keys, one coordinator."""

import hmac
import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from limbeck.errors import LimbeckError

READY = "ready"  # in the folder, while the SuperLink answers


def serve(folder: Path, host: str, port: int) -> None:
    """Answer on one port until told to stop. `folder` holds the certificates, the secret and the database."""
    os.environ["FLWR_HOME"] = str(folder / "flower")
    import uvicorn
    from flwr.superlink.cli.flower_superlink import SuperLinkLifespan
    from flwr.superlink.config_loader import SuperLinkLifespanConfig
    from flwr.superlink.main import create_app

    _check_free(host, port)
    logging.getLogger("flwr").setLevel(logging.WARNING)
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
    uvicorn.run(
        create_app(config, SuperLinkLifespan),
        host=host,
        port=port,
        log_level="error",
        access_log=False,
        ssl_certfile=config.ssl_certfile,
        ssl_keyfile=config.ssl_keyfile,
    )


def _only_the_coordinator(secret: bytes) -> Any:
    """Who may register parties and start runs: whoever knows the server folder's secret."""
    from flwr.common.constant import ACCESS_TOKEN_KEY
    from flwr.superlink.auth_plugin import NoOpControlAuthnPlugin

    class Coordinator(NoOpControlAuthnPlugin):
        def validate_tokens_in_metadata(self, metadata: Sequence[tuple[str, str | bytes]]) -> Any:
            told = dict(metadata).get(ACCESS_TOKEN_KEY, "")
            given = told if isinstance(told, bytes) else told.encode()
            if not hmac.compare_digest(given, secret.hex().encode()):
                return False, None
            return super().validate_tokens_in_metadata(metadata)

        def refresh_tokens(self, metadata: Sequence[tuple[str, str | bytes]]) -> Any:
            return None, None

    return Coordinator()


def _check_free(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise LimbeckError(f"cannot listen on {host}:{port}: {error.strerror}") from error

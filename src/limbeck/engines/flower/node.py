"""A party's connection to the SuperLink: fetch envelopes and send answers. No Flower app is ever unpacked."""

import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from limbeck.engines.flower.app import app_hash
from limbeck.engines.flower.chunks import ConnectionLostError, envelope_in, error_message, fetch, one_line, reply_to
from limbeck.engines.flower.keys import public_bytes, read_party_key
from limbeck.errors import LimbeckError

HEARTBEAT = 10.0  # seconds; after twice as many without a heartbeat the SuperLink considers a party disconnected

DISCONNECT_DELAY = 3.0  # seconds that a party stays connected after an answer, so that the server can fetch it


class Node:
    """Context manager for a party's connection.

    Parameters
    ----------
    address : str
        Host and port of the SuperLink.
    authority : bytes
        Certificate of the authority, in PEM.
    key : Path
        File of the party's private key.
    """

    def __init__(self, address: str, authority: bytes, key: Path) -> None:
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
        from flwr.supernode.fleet_http_client import FleetHttpClient
        from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

        secret = read_party_key(key)
        self._public = public_bytes(secret.public_key())
        signing: Any = [
            RuntimeVersionHttpInterceptor("SuperNode"),
            NodeAuthHttpInterceptor(secret, secret.public_key()),
        ]
        try:
            self._client = FleetHttpClient.from_server_address(address, False, authority, signing)
        except (ssl.SSLError, UnicodeError) as error:
            raise LimbeckError(f"the authority in the join file is not a certificate: {error}") from error
        self._address = address
        self._node: Any = None
        self._stopped = threading.Event()
        self._lost: str | None = None
        self._answered = 0.0

    def __enter__(self) -> "Node":
        from flwr.proto.fleet_pb2 import ActivateNodeRequest
        from flwr.proto.node_pb2 import Node as Number

        request = ActivateNodeRequest(public_key=self._public, heartbeat_interval=HEARTBEAT)
        problem = "the server does not let this party in (not admitted, removed, or its key is in use elsewhere)"
        try:
            self._node = Number(node_id=self._try(problem, "ActivateNode", request).node_id)
        except ConnectionLostError as error:
            if not error.away:
                raise
            raise ConnectionLostError(_unreachable(self._address, error), True) from error
        threading.Thread(target=self._live, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from flwr.proto.fleet_pb2 import DeactivateNodeRequest

        if self._answered:  # the SuperLink drops the answers of a party that has left
            time.sleep(max(0.0, self._answered + DISCONNECT_DELAY - time.monotonic()))
        self._stopped.set()
        with suppress(Exception):
            self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))
        self._client.close()

    def next_envelope(self, max_bytes: int, leaving: Callable[[], bool] = bool) -> tuple[Any, bytes] | None:
        """Fetch the next message.

        Parameters
        ----------
        max_bytes : int
            Largest size of the message.
        leaving : callable
            Returns whether to stop waiting for its pieces.

        Returns
        -------
        tuple of Message and bytes, or None
            The message and its envelope; None if there is none now.

        Raises
        ------
        LimbeckError
            If the message is invalid.
        ConnectionLostError
            If the connection is lost.
        """
        from flwr.common.serde import message_from_proto
        from flwr.proto.fleet_pb2 import PullMessagesRequest

        if self._lost:
            raise ConnectionLostError(self._lost)
        found = self._try("envelopes cannot be fetched", "PullMessages", PullMessagesRequest(node=self._node))
        if not found.messages_list:
            return None
        message, tree = message_from_proto(found.messages_list[0]), found.message_object_trees[0]
        run = message.metadata.run_id
        with one_line("an envelope cannot be fetched"):
            pull = partial(self._pull, run)
            envelope = envelope_in(fetch(tree, pull, max_bytes, lambda: leaving() or self._lost))
        self._confirm(run, message.metadata.message_id)
        return message, envelope

    def is_ours(self, message: Any) -> bool:
        """Whether the message's run names the version of Limbeck that is installed here."""
        from flwr.proto.run_pb2 import GetRunRequest

        request = GetRunRequest(node=self._node, run_id=message.metadata.run_id)
        return bool(self._try("the run is unknown", "GetRun", request).run.fab_hash == app_hash())

    def answer(self, message: Any, data: bytes) -> None:
        """Send an envelope in reply to a message."""
        from flwr.app.message import remove_content_from_message
        from flwr.common.serde import message_to_proto
        from flwr.proto.fleet_pb2 import PushMessagesRequest
        from flwr.supercore.inflatable.inflatable_object import (
            get_all_nested_objects,
            get_object_tree,
            no_object_id_recompute,
        )
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_push_object_fn_protobuf
        from flwr.supercore.inflatable.inflatable_utils import push_objects

        reply = reply_to(message, data)
        with no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            pieces, tree = get_all_nested_objects(reply), get_object_tree(reply)
            envelope = message_to_proto(remove_content_from_message(reply))
            request = PushMessagesRequest(
                node=self._node, messages_list=[envelope], message_object_trees=[tree], clientapp_runtime_list=[0.0]
            )
            response = self._try("an answer cannot be sent", "PushMessages", request)
            push = make_push_object_fn_protobuf(
                self._client.PushObject, self._node, message.metadata.run_id, response.session_id
            )
            with one_line("an answer cannot be sent"):
                push_objects(pieces, push_object_fn=push, object_ids_to_push=set(response.objects_to_push))
        self._answered = time.monotonic()

    def _pull(self, run: int, piece: str) -> bytes:
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf

        return bytes(make_pull_object_fn_protobuf(self._client.PullObject, self._node, run)(piece))

    def _confirm(self, run: int, number: str) -> None:
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_confirm_message_received_fn_protobuf

        with one_line("an envelope cannot be confirmed"):
            make_confirm_message_received_fn_protobuf(self._client.ConfirmMessageReceived, self._node, run)(number)

    def _try(self, what: str, call: str, request: Any) -> Any:
        with one_line(what):
            return getattr(self._client, call)(request)

    def _live(self) -> None:
        from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest

        request = SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=HEARTBEAT)
        while not self._stopped.wait(HEARTBEAT / 3):
            try:
                if not self._client.SendNodeHeartbeat(request).success:
                    self._lost = "the server no longer knows this party"
            except httpx.HTTPStatusError as error:
                if error.response.status_code in (401, 403):
                    self._lost = f"the server no longer lets this party in: {error_message(error)}"
            except httpx.HTTPError:
                continue


def _unreachable(address: str, error: BaseException) -> str:
    """Message of a connection that was not made: nobody answers, or with a certificate that is not valid."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate of the server at {address} is not valid: {cause.verify_message}"
        cause = cause.__cause__ or cause.__context__
    return f"cannot reach the server at {address}; is it running, and is the port open?"

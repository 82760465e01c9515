"""The coordinator's connection to the SuperLink: register parties, send envelopes, and collect replies."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from limbeck.engines.flower.app import app_bundle
from limbeck.engines.flower.chunks import ChunkedMessage, ConnectionLostError, envelope_in, message_for, one_line
from limbeck.errors import LimbeckError

HEARTBEAT = 10.0  # seconds
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"


@dataclass(frozen=True, slots=True)
class Presence:
    """A registered party, as the SuperLink knows it.

    Parameters
    ----------
    node : int
        Number of the party's node.
    key : bytes
        Public key.
    online : bool
        Whether it is connected.
    since : str
        Time of its last connection.
    """

    node: int
    key: bytes
    online: bool
    since: str


class Control:
    """Connection with the coordinator's rights: register parties, see who is connected, start runs.

    Parameters
    ----------
    address : str
        Host and port of the SuperLink.
    folder : Path
        The server's folder, with the secret and the certificate of the authority.
    """

    def __init__(self, address: str, folder: Path) -> None:
        from flwr.supercore.control import ControlHttpClient

        self.address = address
        self.secret = (folder / "secret").read_bytes()
        self.authority = (folder / "ca.pem").read_bytes()
        self._client = ControlHttpClient.from_server_address(
            address, False, self.authority, [_version(), _BearerToken(self.secret)]
        )

    def register(self, key: bytes, name: str) -> None:
        """Register a party's public key."""
        from flwr.proto.control_pb2 import RegisterNodeRequest

        if key in {each.key for each in self.presences()}:  # another program has registered it
            return
        with one_line(f"{name} cannot be registered"):
            self._client.RegisterNode(RegisterNodeRequest(public_key=key, name=name))

    def unregister(self, node: int) -> None:
        """Remove a party's node."""
        from flwr.proto.control_pb2 import UnregisterNodeRequest

        with one_line("the party cannot be removed"):
            self._client.UnregisterNode(UnregisterNodeRequest(node_id=node))

    def presences(self) -> list[Presence]:
        """All registered parties."""
        from flwr.proto.control_pb2 import ListNodesRequest

        with one_line("cannot list the connected parties"):
            nodes = self._client.ListNodes(ListNodesRequest()).nodes_info
        return [
            Presence(int(n.node_id), n.public_key, n.status == "online", n.last_activated_at)
            for n in nodes
            if n.status != "unregistered"
        ]

    def start_run(self) -> int:
        """Start a Flower run, and return its number."""
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.proto.fab_pb2 import Fab

        with one_line("the run cannot be started"):
            return int(self._client.StartRun(StartRunRequest(fab=Fab(content=app_bundle()))).run_id)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class Connection:
    """Connection of one Flower run: sends envelopes to nodes, and collects their replies in any order.

    Parameters
    ----------
    control : Control
        Connection that starts the run.
    """

    def __init__(self, control: Control) -> None:
        self.control = control
        run = control.start_run()
        self._grid = _grid_of(control, run)
        self._coming: dict[str, tuple[Any, ChunkedMessage]] = {}  # incomplete replies
        self._stopped = threading.Event()
        threading.Thread(target=self._live, daemon=True).start()

    def post(self, node: int, data: bytes, lifetime: float) -> str | None:
        """Send an envelope to a node.

        Parameters
        ----------
        node : int
            Number of the node.
        data : bytes
            Encoded envelope.
        lifetime : float
            Seconds after which the message expires.

        Returns
        -------
        str or None
            Number of the message; None if the SuperLink rejects it.
        """
        with one_line("an envelope cannot be sent"):
            [number] = self._grid.push_messages([message_for(data, node, lifetime)])
        return number or None

    def collect(self, posted: Mapping[str, int], max_bytes: int) -> Iterator[tuple[str, bytes | None, str]]:
        """Fetch replies that are complete.

        Parameters
        ----------
        posted : mapping of str to int
            Messages without a reply so far: number of each message, and its node.
        max_bytes : int
            Largest size of a reply.

        Yields
        ------
        tuple of str, bytes or None, and str
            Number of the message, envelope of the reply, and "". Without a valid reply, None and the reason.
        """
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
        from flwr.proto.runtime_pb2 import PullAppMessagesRequest
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf

        client = self._grid._runtime_client
        with one_line("replies cannot be fetched"):
            found = client.PullMessages(PullAppMessagesRequest(message_ids=list(posted)))
        pull = make_pull_object_fn_protobuf(client.PullObject, self._grid.node, self._grid.run.run_id)
        for proto, tree in zip(found.messages_list, found.message_object_trees, strict=True):
            self._coming.setdefault(proto.metadata.reply_to_message_id, (proto, ChunkedMessage(tree, max_bytes)))
        self._coming = {number: reply for number, reply in self._coming.items() if number in posted}
        for number, (proto, chunk) in list(self._coming.items()):
            envelope, why = None, ""
            try:
                envelope = self._envelope(proto, chunk, pull, posted[number])
            except ConnectionLostError:
                raise
            except LimbeckError as error:
                why = str(error)
            if envelope is None and not why:
                continue  # pieces are still missing
            yield number, envelope, why
            del self._coming[number]
            with suppress(httpx.HTTPError):
                client.ConfirmMessageReceived(
                    ConfirmMessageReceivedRequest(
                        node=self._grid.node,
                        run_id=self._grid.run.run_id,
                        message_object_id=proto.metadata.message_id,
                    )
                )

    def close(self, completed: bool) -> None:
        """Report the end of the run to the SuperLink."""
        from flwr.common.constant import SubStatus
        from flwr.proto.runtime_pb2 import PushTaskOutputRequest

        self._stopped.set()
        status = SubStatus.COMPLETED if completed else SubStatus.FAILED
        with suppress(httpx.HTTPError):
            self._grid._retry_invoker.max_tries = 1
            self._grid._runtime_client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))
        self._grid.close()

    def _envelope(self, proto: Any, chunk: ChunkedMessage, pull: Any, node: int) -> bytes | None:
        """Envelope of a reply; None while pieces are missing."""
        if proto.HasField("error"):
            raise LimbeckError(f"no answer: {proto.error.reason or proto.error.code}")
        if proto.metadata.src_node_id != node:
            raise LimbeckError("it came from another party")
        with one_line("a reply cannot be fetched"):
            message = chunk.message(pull)
        return None if message is None else envelope_in(message)

    def _live(self) -> None:
        """Send heartbeats; without them the SuperLink ends the run."""
        from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest

        while not self._stopped.wait(HEARTBEAT):
            with suppress(Exception):
                self._grid._runtime_client.SendTaskHeartbeat(SendTaskHeartbeatRequest())


class _BearerToken:
    """Interceptor that adds the coordinator's secret to every request."""

    def __init__(self, secret: bytes) -> None:
        self.authorization = f"Bearer {secret.hex()}"

    def intercept(self, context: Any, call_next: Any) -> Any:
        context.request.headers["authorization"] = self.authorization
        return call_next(context)


def _version() -> Any:
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

    return RuntimeVersionHttpInterceptor(component_name="flwr-cli")


def _grid_of(control: Control, run: int) -> Any:
    """Grid of a run: its task is claimed and started, so that no other program can lead the run."""
    from flwr.common.serde import run_from_proto
    from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest
    from flwr.supercore.interceptors import SuperExecAuthHttpInterceptor
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.superlink.grid import HttpGrid

    signed = SuperExecAuthHttpInterceptor(master_secret=control.secret, protected_methods={ACQUIRE})
    client = RuntimeHttpClient.from_server_address(control.address, False, control.authority, [_version(), signed])
    with one_line("the run cannot be led"):
        while True:
            claimed = client.AcquireTask(AcquireTaskRequest(supported_task_types=["flwr-serverapp"]))
            if not claimed.token:
                raise ConnectionLostError("another program leads the run")
            if claimed.task.run_id == run:  # others are left over from a coordinator that crashed
                break
        client.close()
        grid = HttpGrid(control.address, False, control.authority, token=claimed.token)
        grid._retry_invoker.max_tries = 1
        given = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
    TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
    TaskIdentity.node_id = given.context.node_id
    grid.set_run(run_from_proto(given.run))
    return grid


def wait_for(control: Control, timeout: float) -> None:
    """Wait until the SuperLink answers; an error after `timeout` seconds."""
    until = time.monotonic() + timeout
    while True:
        try:
            control.presences()
            return
        except ConnectionLostError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)

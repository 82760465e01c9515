"""Base class of engines: send a request to parties, check their replies, and count the bytes of all messages."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar, cast, overload

from limbeck.engines.traffic import RequestTraffic, Traffic
from limbeck.engines.validation import check_reply, result_or_problem
from limbeck.errors import LimbeckError
from limbeck.protocol.algorithm import Algorithm, Outcome
from limbeck.protocol.codec import Header, encode
from limbeck.protocol.messages import Acknowledgement, Reply, Request, is_private
from limbeck.protocol.parties import Replies
from limbeck.protocol.relays import ThroughRelays
from limbeck.protocol.site import Silo, Site

R = TypeVar("R", bound=Reply)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that is sent to parties.

    Parameters
    ----------
    request : Request
        The request.
    header : Header
        Its turn, and the hash of the public rows.
    data : bytes
        Its encoding.
    to : collection of int
        Parties that are asked.
    """

    request: Request[Any]
    header: Header
    data: bytes
    to: Collection[int]


@dataclass(frozen=True, slots=True)
class Delivered:
    """A reply that has arrived.

    Parameters
    ----------
    reply : Reply or None
        The reply; None if it cannot be sent or read.
    bytes : int
        Bytes on the wire.
    problem : str, optional
        Why the reply cannot be sent or read.
    """

    reply: Reply | None
    bytes: int
    problem: str | None = None


class Engine(ABC):
    """Runs an algorithm. Engines differ only in how messages travel.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm to run.
    server : Site
        The server.
    silos : sequence of Silo
        Parties in this program; empty if they are elsewhere.

    Attributes
    ----------
    traffic : Traffic
        All exchanges so far.
    rejected : dict of int to str
        Invalid replies to the last request: the problem of each party.
    rejections : list of str
        Invalid replies to all requests.
    watch : callable
        Called with the engine after each exchange.
    """

    name: ClassVar[str]

    def __init__(self, algorithm: Algorithm, server: Site, silos: Sequence[Silo]) -> None:
        self.algorithm, self.server = algorithm, server
        self.silos = sorted(silos, key=lambda silo: silo.party)
        for site in (server, *self.silos):
            site.private_level = site.private_level or algorithm.is_private
            site.parties = len(self.silos) or site.parties
            site.declare = algorithm.disclosures
        self.traffic = Traffic()
        self.rejected: dict[int, str] = {}
        self.rejections: list[str] = []
        self.watch: Callable[[Engine], None] = lambda engine: None

    @abstractmethod
    def deliver(self, pending: PendingRequest) -> Iterable[tuple[int, Delivered]]:
        """Send a request; gives the replies in party order, without silent parties."""

    def run(self, relays: Sequence[int] = ()) -> Outcome:
        """Run the algorithm from start to end.

        Parameters
        ----------
        relays : sequence of int
            Number of relays on each level between parties and server, the lowest first, to simulate them.
        """
        if not relays:
            return self.algorithm.lead(self, self.server)
        declared = self.algorithm.disclosures(self.server.facts)
        return self.algorithm.lead(ThroughRelays(self, relays, declared), self.server)

    @property
    def everyone(self) -> list[int]:
        """Numbers of all parties."""
        return [silo.party for silo in self.silos]

    @overload
    def ask(self, request: Request[R], of: Sequence[int] | None = None) -> Replies[R]: ...

    @overload
    def ask(
        self, request: Request[R], of: Sequence[int] | None = None, *, keep: Callable[[int, R], T]
    ) -> Replies[T]: ...

    def ask(
        self, request: Request[R], of: Sequence[int] | None = None, *, keep: Callable[[int, R], Any] | None = None
    ) -> Replies[Any]:
        """Send a request to parties, by default to all, and return their valid replies; see `Parties.ask`."""
        started = time.perf_counter()
        self.server.check_released(request)
        header = Header(len(self.traffic.exchanges), self.server.public.hash)
        only = None if of is None else frozenset(of)
        asked = [party for party in self.everyone if only is None or party in only]
        pending = PendingRequest(request, header, encode(request, header), asked)
        self.rejected = {}
        found: dict[int, Any] = {}
        up: dict[int, int] = {}
        has_results = False
        for party, arrived in self._valid(self.deliver(pending), request):
            up[party] = arrived.bytes
            has_results |= type(arrived.reply) is not Acknowledgement
            found[party] = keep(party, cast(R, arrived.reply)) if keep else arrived.reply
        missing = tuple(party for party in asked if party not in found)
        self.traffic.exchanges.append(
            RequestTraffic(
                request=type(request).__name__,
                down=dict.fromkeys(asked, len(pending.data)),
                up=up,
                has_results=has_results,
                has_private_request=is_private(request),
                seconds=time.perf_counter() - started,
                missing=missing,
            )
        )
        self.watch(self)
        self.server.begin(len(self.traffic.exchanges))
        self.rejections += [f"request {header.turn}: party {p}: {why}" for p, why in self.rejected.items()]
        return Replies(found, missing, dict(self.rejected))

    def _valid(
        self, delivered: Iterable[tuple[int, Delivered]], request: Request[Any]
    ) -> Iterator[tuple[int, Delivered]]:
        """Replies that pass every check; `rejected` gets the problems of the others."""
        for party, arrived in delivered:
            _, problem = result_or_problem(partial(self._check, arrived, request))
            if problem:
                self.rejected[party] = problem
            else:
                yield party, arrived

    def _check(self, arrived: Delivered, request: Request[Any]) -> None:
        if arrived.problem:
            raise LimbeckError(arrived.problem)
        check_reply(arrived.reply, arrived.bytes, request, self.server, self.algorithm)


def raise_refusal(refusals: Sequence[tuple[Silo, Exception]]) -> None:
    """Raise the refusal of the party with the fewest rows, if there is one.

    Parameters
    ----------
    refusals : sequence of tuple of Silo and Exception
        Parties that refused, with their errors. Parameters that suit the smallest party suit the others.
    """
    if refusals:
        _, error = min(refusals, key=lambda refusal: (len(refusal[0].private), refusal[0].party))
        if not isinstance(error, LimbeckError):
            raise error
        more = f" ({len(refusals) - 1} more parties refuse)" if len(refusals) > 1 else ""
        raise LimbeckError(f"{error}{more}") from error

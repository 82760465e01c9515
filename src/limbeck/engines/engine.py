"""What all engines share: a request goes to every party, its replies come back, and every message is weighed."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from limbeck.engines.traffic import Exchange, Traffic
from limbeck.engines.validation import check_reply
from limbeck.errors import LimbeckError
from limbeck.protocol.algorithm import Algorithm, Outcome
from limbeck.protocol.codec import Header, encode
from limbeck.protocol.messages import Acknowledgement, Reply, Request, is_private
from limbeck.protocol.parties import Replies
from limbeck.protocol.site import Silo, Site

R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request on its way: what it says, its bytes, and who is asked."""

    request: Request[Any]
    header: Header
    data: bytes
    to: Collection[int]


@dataclass(frozen=True, slots=True)
class Delivered:
    """A reply that arrived, and its bytes on the wire; or the `problem` with one that cannot be sent or read."""

    reply: Reply | None
    bytes: int
    problem: str | None = None


class Engine(ABC):
    """Runs an algorithm; how letters travel is all that engines differ in. `watch` is called after every exchange."""

    name: ClassVar[str]

    def __init__(self, algorithm: Algorithm, server: Site, silos: Sequence[Silo]) -> None:
        self.algorithm, self.server = algorithm, server
        self.silos = sorted(silos, key=lambda silo: silo.party)
        for site in (server, *self.silos):
            site.private_level = site.private_level or algorithm.is_private
            site.parties = len(self.silos) or site.parties
            site.declare = algorithm.disclosures
        self.traffic = Traffic()
        self.rejected: dict[int, str] = {}  # replies to the last request that were not valid, and why
        self.rejections: list[str] = []  # the same of all requests
        self.watch: Callable[[Engine], None] = lambda engine: None

    @abstractmethod
    def deliver(self, pending: PendingRequest) -> Mapping[int, Delivered]:
        """The replies of those asked, by party; a party that is not there fell silent."""

    def run(self) -> Outcome:
        return self.algorithm.lead(self, self.server)

    @property
    def everyone(self) -> list[int]:
        return [silo.party for silo in self.silos]

    def ask(self, request: Request[R], of: Sequence[int] | None = None) -> Replies[R]:
        started = time.perf_counter()
        self.server.check_released(request)
        header = Header(len(self.traffic.exchanges), self.server.public.hash)
        asked = [party for party in self.everyone if of is None or party in of]
        pending = PendingRequest(request, header, encode(request, header), asked)
        self.rejected = {}
        delivered = self._valid(self.deliver(pending), request)
        missing = tuple(party for party in asked if party not in delivered)
        self.traffic.exchanges.append(
            Exchange(
                request=type(request).__name__,
                down=dict.fromkeys(asked, len(pending.data)),
                up={party: arrived.bytes for party, arrived in delivered.items()},
                has_results=any(type(arrived.reply) is not Acknowledgement for arrived in delivered.values()),
                has_private_request=is_private(request),
                seconds=time.perf_counter() - started,
                missing=missing,
            )
        )
        self.watch(self)
        self.server.begin(len(self.traffic.exchanges))
        self.rejections += [f"request {header.turn}: party {p}: {why}" for p, why in self.rejected.items()]
        return Replies({p: cast(R, arrived.reply) for p, arrived in delivered.items()}, missing, dict(self.rejected))

    def _valid(self, delivered: Mapping[int, Delivered], request: Request[Any]) -> dict[int, Delivered]:
        """The replies that pass every check; `rejected` says what is wrong with the others."""
        found = {}
        for party, arrived in delivered.items():
            try:
                if arrived.problem:
                    raise LimbeckError(arrived.problem)
                check_reply(arrived.reply, arrived.bytes, request, self.server, self.algorithm)
                found[party] = arrived
            except Exception as error:  # a strange reply may bring about anything
                name = "" if isinstance(error, LimbeckError) else f"{type(error).__name__}: "
                self.rejected[party] = name + " ".join(str(error).split())
        return found


def raise_refusal(refusals: Sequence[tuple[Silo, Exception]]) -> None:
    """Raise what the smallest refusing party said, if any: what suits it suits the others."""
    if refusals:
        _, error = min(refusals, key=lambda refusal: (len(refusal[0].private), refusal[0].party))
        if not isinstance(error, LimbeckError):
            raise error
        more = f" ({len(refusals) - 1} more parties refuse)" if len(refusals) > 1 else ""
        raise LimbeckError(f"{error}{more}") from error

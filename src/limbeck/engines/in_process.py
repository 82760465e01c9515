"""All parties in one process, for simulations. One trainer gets the jobs of all parties."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from limbeck.engines.barrier import AbandonedError, JobBarrier
from limbeck.engines.engine import Delivered, Engine, PendingRequest, raise_refusal
from limbeck.engines.respond import respond
from limbeck.protocol.algorithm import Algorithm
from limbeck.protocol.codec import Header, decode, encode
from limbeck.protocol.learning import Trainer
from limbeck.protocol.messages import Reply, Request
from limbeck.protocol.site import Silo, Site

MAX_PARTIES = 256  # that answer at the same time, each in a thread
MAX_PREDICTIONS = 2**28


class InProcess(Engine):
    """Engine for a server and parties in this process.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm to run.
    server : Site
        The server.
    silos : sequence of Silo
        The parties.
    trainer : Trainer
        Runs the training jobs of all parties.
    silent : iterable of int
        Parties that never answer.
    """

    name = "in-process"

    def __init__(
        self,
        algorithm: Algorithm,
        server: Site,
        silos: Sequence[Silo],
        trainer: Trainer,
        silent: Iterable[int] = (),
    ) -> None:
        super().__init__(algorithm, server, silos)
        self.silent = frozenset(silent)
        self.barrier = JobBarrier(trainer)
        for silo in self.silos:
            silo.trainer = self.barrier

    def deliver(self, pending: PendingRequest) -> Iterator[tuple[int, Delivered]]:
        to = frozenset(pending.to) - self.silent
        asked = [silo for silo in self.silos if silo.party in to]
        at_once = parties_at_once(len(self.server.public), self.server.classes)
        for start in range(0, len(asked), at_once):
            group = asked[start : start + at_once]
            answers = self.barrier.together([partial(self.answer, pending, silo) for silo in group])
            failed = [(silo, a) for silo, a in zip(group, answers, strict=True) if isinstance(a, Exception)]
            raise_refusal([(silo, error) for silo, error in failed if not isinstance(error, AbandonedError)])
            answers.reverse()
            for silo in group:
                yield silo.party, cast(Delivered, answers.pop())  # held by nobody else from here on

    def answer(self, pending: PendingRequest, silo: Silo) -> Delivered:
        """Answer of one party to a request."""
        reply = respond(self.algorithm, pending.request, pending.header, silo)
        try:
            return Delivered(*self.sent(reply, pending.header))
        except Exception as error:  # a reply may contain anything
            return Delivered(None, 0, f"a reply that cannot be sent: {' '.join(str(error).split())}")

    def sent(self, reply: Reply, header: Header) -> tuple[Reply, int]:
        """Reply as the server gets it, and its bytes on the wire."""
        return reply, len(encode(reply, header))


def parties_at_once(public: int, classes: int) -> int:
    """Number of parties that answer at the same time: one trainer gets their jobs, and their replies are held at once.

    Parameters
    ----------
    public, classes : int
        Number of public rows, and of classes.

    Returns
    -------
    int
        At least 2, at most 256; between these, the parties' predictions of the public rows have 2^28 numbers.

    Examples
    --------
    >>> [parties_at_once(public, 100) for public in (5000, 20_000, 10**6)]
    [256, 134, 2]
    """
    return min(max(MAX_PREDICTIONS // max(1, public * classes), 2), MAX_PARTIES)


class ThroughBytes(InProcess):
    """As `InProcess`, but every message is encoded and decoded; the result must be the same."""

    name = "through-bytes"

    def answer(self, pending: PendingRequest, silo: Silo) -> Delivered:
        return super().answer(replace(pending, request=cast("Request[Reply]", decode(pending.data)[0])), silo)

    def sent(self, reply: Reply, header: Header) -> tuple[Reply, int]:
        data = encode(reply, header)
        return cast(Reply, decode(data)[0]), len(data)

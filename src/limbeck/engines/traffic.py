"""Traffic of a run: bytes of every message, and seconds of every request."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RequestTraffic:
    """One request and its replies.

    Parameters
    ----------
    request : str
        Class name of the request.
    down : dict of int to int
        Bytes of the request, by party.
    up : dict of int to int
        Bytes of the reply, by party.
    has_results : bool
        Whether a reply is more than an acknowledgement.
    has_private_request : bool
        Whether the request depends on private rows.
    seconds : float
        Duration in seconds.
    missing : tuple of int
        Silent parties.
    """

    request: str
    down: dict[int, int]
    up: dict[int, int]
    has_results: bool
    has_private_request: bool
    seconds: float
    missing: tuple[int, ...]


@dataclass(slots=True)
class Traffic:
    """All exchanges of a run, in order.

    Parameters
    ----------
    exchanges : list of RequestTraffic
        The exchanges.

    Examples
    --------
    >>> exchange = RequestTraffic("TrainStudents", {0: 40, 1: 40}, {0: 900}, True, False, 1.5, (1,))
    >>> traffic = Traffic([exchange])
    >>> traffic.rounds, traffic.up(), traffic.down(), traffic.missing
    (1, 900, 80, (1,))
    """

    exchanges: list[RequestTraffic] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """Number of requests whose replies have results; handing out the final model is not a round."""
        return sum(exchange.has_results for exchange in self.exchanges)

    def up(self, party: int | None = None) -> int:
        """Bytes of all replies, or of those of one party."""
        return sum(_weight(exchange.up, party) for exchange in self.exchanges)

    def down(self, party: int | None = None) -> int:
        """Bytes of all requests, or of those to one party."""
        return sum(_weight(exchange.down, party) for exchange in self.exchanges)

    @property
    def missing(self) -> tuple[int, ...]:
        """Parties that were silent at least once."""
        return tuple(sorted({party for exchange in self.exchanges for party in exchange.missing}))


def _weight(by_party: dict[int, int], party: int | None) -> int:
    return sum(by_party.values()) if party is None else by_party.get(party, 0)

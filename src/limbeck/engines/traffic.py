"""What every message weighs on the wire, and how long each request took."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its replies: bytes per party down (the request) and up (the reply).

    `has_private_request`: the request brought something private; `has_results`: a reply did.
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
    """All exchanges of a run, in order."""

    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """Requests whose replies told something; handing out the final model is not a round."""
        return sum(exchange.has_results for exchange in self.exchanges)

    def up(self, party: int | None = None) -> int:
        return sum(_weight(exchange.up, party) for exchange in self.exchanges)

    def down(self, party: int | None = None) -> int:
        return sum(_weight(exchange.down, party) for exchange in self.exchanges)

    @property
    def missing(self) -> tuple[int, ...]:
        """Parties that fell silent at least once."""
        return tuple(sorted({party for exchange in self.exchanges for party in exchange.missing}))


def _weight(by_party: dict[int, int], party: int | None) -> int:
    return sum(by_party.values()) if party is None else by_party.get(party, 0)

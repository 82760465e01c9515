"""What may be said: a message is a frozen dataclass of arrays, scalars and bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar, final, get_args

from limbeck.errors import LimbeckError


class Message:
    """Anything that travels, known by its module and name."""

    __slots__ = ()
    kinds: ClassVar[dict[str, type["Message"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Message.kinds[kind_of(cls)] = cls


def kind_of(message: type[Message]) -> str:
    return f"{message.__module__}.{message.__qualname__}"


class Reply(Message):
    """What a party answers; private, but for `Done`. The name of a kind is a noun."""

    __slots__ = ()
    largest: ClassVar[int] = 64 * 2**20  # bytes, on the wire and unpacked: between organisations more is refused

    def check(self, request: "Request[Any]", public: int, classes: int) -> None:
        """Refuse what nobody says who does as asked, as far as it shows; `public` is how many public rows there are."""

    def models_within(self) -> tuple[bytes, ...]:
        """The packed models that it carries."""
        return ()


R = TypeVar("R", bound=Reply)


class Request(Message, Generic[R]):
    """What the server asks; the parameter is the kind of reply. The name of a kind is a verb.

    A request that carries more than whole numbers counts as private, unless its class says `public = True`.
    """

    __slots__ = ()
    public: ClassVar[bool] = False

    @classmethod
    def reply(cls) -> type[Reply]:
        """The kind of reply that this request wants."""
        for base in getattr(cls, "__orig_bases__", ()):
            if isinstance(kind := (get_args(base) or (None,))[0], type):
                return kind
        return Reply


@final
@dataclass(frozen=True, slots=True)
class Done(Reply):
    """The request was carried out; nothing is told. A reply that tells something is a kind of its own."""


@dataclass(frozen=True, slots=True)
class Adopt(Request[Done]):
    """Keep this fitted model (ONNX): it is the federation's result."""

    model: bytes


def check_shape(values: Any, allowed: Sequence[tuple[int, ...]]) -> None:
    """Refuse an array of another shape."""
    if values.shape not in allowed:
        raise LimbeckError(f"values of shape {values.shape}, not {' or '.join(map(str, allowed))}")


def check_share(value: float, or_none: bool = False) -> None:
    """Refuse a number that is no share; NaN may stand for none."""
    if not (0 <= value <= 1 or (or_none and value != value)):
        raise LimbeckError(f"{value} is no share from 0 to 1")


def is_private(message: Message) -> bool:
    """Whether a message may derive from private rows: then it leaves a site only through `release`."""
    if not isinstance(message, Request):
        return type(message) is not Done
    values = [getattr(message, field.name) for field in fields(message)]  # type: ignore[arg-type]
    return not message.public and any(not isinstance(value, int) for value in values)

"""What may be said: a message is a frozen dataclass of arrays, scalars and bytes."""

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar


class Message:
    """Anything that travels. `private` says that it derives from private rows: it leaves through `release`."""

    __slots__ = ()
    kinds: ClassVar[dict[str, type["Message"]]] = {}
    private: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        namesake = Message.kinds.get(cls.__name__, cls)
        if namesake.__module__ != cls.__module__:
            raise TypeError(f"{cls.__module__} and {namesake.__module__} both define a message {cls.__name__}")
        Message.kinds[cls.__name__] = cls


class Reply(Message):
    """What a party answers. The name of a kind is a noun."""

    __slots__ = ()
    private = True


R = TypeVar("R", bound=Reply)


class Request(Message, Generic[R]):
    """What the server asks; the parameter is the kind of reply. The name of a kind is a verb."""

    __slots__ = ()
    private = False


@dataclass(frozen=True, slots=True)
class Done(Reply):
    """The request was carried out; nothing is told."""

    private = False


@dataclass(frozen=True, slots=True)
class Adopt(Request[Done]):
    """Keep this fitted model (ONNX): it is the federation's result."""

    private = True

    model: bytes

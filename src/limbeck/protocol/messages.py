"""What may be said: a message is a frozen dataclass of arrays, scalars and bytes."""

from dataclasses import dataclass, fields
from typing import ClassVar, Generic, TypeVar, final, get_args

import numpy as np


class Message:
    """Anything that travels, known by its module and name."""

    __slots__ = ()
    kinds: ClassVar[dict[str, type["Message"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Message.kinds[kind_of(cls)] = cls

    @property
    def private(self) -> bool:
        """Whether it may derive from private rows: then it leaves only through `release`."""
        return True


def kind_of(message: type[Message]) -> str:
    return f"{message.__module__}.{message.__qualname__}"


class Reply(Message):
    """What a party answers; private, but for `Done`. The name of a kind is a noun."""

    __slots__ = ()


R = TypeVar("R", bound=Reply)


class Request(Message, Generic[R]):
    """What the server asks; the parameter is the kind of reply. The name of a kind is a verb.

    A request that carries arrays or bytes counts as private, unless its class says `public = True`.
    """

    __slots__ = ()
    public: ClassVar[bool] = False

    @property
    def private(self) -> bool:
        values = [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]
        return not self.public and any(isinstance(value, np.ndarray | bytes | tuple) for value in values)

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

    @property
    def private(self) -> bool:
        return type(self) is not Done


@dataclass(frozen=True, slots=True)
class Adopt(Request[Done]):
    """Keep this fitted model (ONNX): it is the federation's result."""

    model: bytes

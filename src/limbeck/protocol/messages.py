"""Messages: frozen dataclasses of arrays, scalars and bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, final, get_args

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

if TYPE_CHECKING:
    from limbeck.protocol.site import Site


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
    """What a party answers; private, except for `Acknowledgement`. The name of a kind is a noun."""

    __slots__ = ()
    max_bytes: ClassVar[int] = 64 * 2**20  # bytes, on the wire and unpacked
    finite: ClassVar[bool] = True  # whether arrays must hold finite numbers; if not, `check` says when they must

    def check(self, request: Any, site: "Site", algorithm: Any) -> None:
        """Raise if this cannot be an answer to `request`: another shape, or values out of range.

        Every engine checks every reply. That arrays hold numbers, and finite ones, was checked before.
        """

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

    def check(self, site: "Site", algorithm: Any) -> None:
        """Raise if this is not a request of the run that was agreed on: by public facts, before any row is used."""


@final
@dataclass(frozen=True, slots=True)
class Acknowledgement(Reply):
    """The request was carried out. A reply that holds anything is a kind of its own."""


@dataclass(frozen=True, slots=True)
class InstallModel(Request[Acknowledgement]):
    """Keep this fitted model (ONNX): it is the federation's result."""

    model: bytes


def check_array(
    values: Array, shape: Sequence[int], low: float | None = None, high: float | None = None, kinds: str = "fiub"
) -> None:
    """Raise if an array has another shape, another kind of numbers, or values out of range."""
    if values.shape != tuple(shape) or values.dtype.kind not in kinds:
        raise LimbeckError(f"values of type {values.dtype} and shape {values.shape}, not of shape {tuple(shape)}")
    least, most = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if values.size and not ((low is None or least >= low) and (high is None or most <= high)):
        raise LimbeckError(f"values from {least:g} to {most:g}, outside of {low} to {high}")


def check_values(message: Message) -> None:
    """Raise unless every array of a message holds numbers, and finite ones unless its class says otherwise."""
    finite = getattr(message, "finite", True)
    for field in fields(message):  # type: ignore[arg-type]
        value = getattr(message, field.name)
        if isinstance(value, np.ndarray) and value.dtype.kind not in "fiub":
            raise LimbeckError(f"{field.name} holds {value.dtype}, not numbers")
        if finite and isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
            raise LimbeckError(f"{field.name} is not finite")


def is_private(message: Message) -> bool:
    """Whether a message may derive from private rows: then it leaves a site only as a declared disclosure."""
    if not isinstance(message, Request):
        return type(message) is not Acknowledgement
    values = [getattr(message, field.name) for field in fields(message)]  # type: ignore[arg-type]
    return not message.public and any(not isinstance(value, int) for value in values)

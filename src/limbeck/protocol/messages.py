"""Messages: frozen dataclasses of arrays, scalars and bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, final, get_args

import numpy as np

from limbeck.errors import LimbeckError
from limbeck.protocol.rows import Array

if TYPE_CHECKING:
    from limbeck.protocol.site import Site

MAX_COUNT = 10**9  # rows of a party, exact or with noise


class Message:
    """Base class of requests and replies; the codec finds a class by its module and name."""

    __slots__ = ()
    kinds: ClassVar[dict[str, type["Message"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Message.kinds[kind_of(cls)] = cls


def kind_of(message: type[Message]) -> str:
    """Return the name by which the codec finds a class of messages."""
    return f"{message.__module__}.{message.__qualname__}"


class Reply(Message):
    """Base class of replies: what a party sends to the server.

    A subclass is a frozen dataclass of arrays, scalars and bytes, with a noun as its name. Every reply but
    `Acknowledgement` is private: it leaves a site only if `Silo.disclose` returned it.

    Attributes
    ----------
    max_bytes : int
        Largest size in bytes, as sent and after decompression.
    finite : bool
        Whether all arrays must be finite. If False, `check` decides which values must be finite.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> @dataclass(frozen=True, slots=True)
    ... class Labels(Reply):
    ...     values: Array
    ...
    ...     def check(self, request, site, algorithm):
    ...         check_array(self.values, (len(site.public),), 0, site.classes - 1, "iu")
    >>> site = SimpleNamespace(public=[0.5, 0.7, 0.1], classes=2)
    >>> Labels(np.array([0, 1, 1])).check(None, site, None)
    >>> Labels(np.array([0, 1, 7])).check(None, site, None)
    Traceback (most recent call last):
        ...
    limbeck.errors.LimbeckError: values from 0 to 7, outside of 0 to 1
    """

    __slots__ = ()
    max_bytes: ClassVar[int] = 64 * 2**20
    finite: ClassVar[bool] = True

    def check(self, request: Any, site: "Site", algorithm: Any) -> None:
        """Raise LimbeckError if the reply cannot be an answer to `request`: a wrong shape, or values out of range.

        Every engine checks every reply. `check_values` has already checked that arrays contain finite numbers.

        Parameters
        ----------
        request : Request
            What the server asked.
        site : Site
            The server.
        algorithm : Algorithm
            The algorithm of the run.
        """

    def models_within(self) -> tuple[bytes, ...]:
        """Return the packed models (ONNX) in this reply; the server examines them before it uses the reply."""
        return ()

    def plus(self, other: Any) -> Any:
        """Return the sum of this reply and one of the same class, where a sum of replies tells the server enough."""
        raise LimbeckError(f"{type(self).__name__} cannot be added")


R = TypeVar("R", bound=Reply)


class Request(Message, Generic[R]):
    """Base class of requests: what the server asks of a party.

    A subclass is a frozen dataclass, with a verb in its name. Its type parameter is the class of the reply:
    `class LabelRows(Request[Labels])`. A request with fields other than whole numbers counts as private, unless its
    class sets `public = True`. A private request leaves the server only if `Site.disclose` returned it.

    Attributes
    ----------
    public : bool
        Whether all fields are public facts.
    extended_replies : tuple of type
        Subclasses of the reply's class that are replies too, for example one with more fields.

    Examples
    --------
    >>> InstallModel(b"ONNX").reply().__name__
    'Acknowledgement'
    >>> is_private(InstallModel(b"ONNX"))
    True
    """

    __slots__ = ()
    public: ClassVar[bool] = False
    extended_replies: ClassVar[tuple[type[Reply], ...]] = ()

    @classmethod
    def reply(cls) -> type[Reply]:
        """Return the class of the reply to this request."""
        for base in getattr(cls, "__orig_bases__", ()):
            if isinstance(kind := (get_args(base) or (None,))[0], type):
                return kind
        return Reply

    def check(self, site: "Site", algorithm: Any) -> None:
        """Raise LimbeckError if this is not a valid request of the run, before the party uses a private row.

        The server may be hostile. The check depends on public facts alone: a refusal is an answer without noise.

        Parameters
        ----------
        site : Site
            The party's silo.
        algorithm : Algorithm
            The algorithm that the party agreed to.
        """

    def models_within(self) -> tuple[bytes, ...]:
        """Return the packed models (ONNX) in this request; another organisation examines them before it answers."""
        return ()


@final
@dataclass(frozen=True, slots=True)
class Acknowledgement(Reply):
    """The party has carried out the request; the only reply that is not private."""


@dataclass(frozen=True, slots=True)
class InstallModel(Request[Acknowledgement]):
    """Keep this final model (ONNX)."""

    model: bytes

    def models_within(self) -> tuple[bytes, ...]:
        return (self.model,)


def check_array(
    values: Array, shape: Sequence[int], low: float | None = None, high: float | None = None, kinds: str = "fiub"
) -> None:
    """Raise if an array has a wrong shape, a wrong type, or values out of range.

    Parameters
    ----------
    values : array
        The array of a message.
    shape : sequence of int
        The only valid shape.
    low : float or None
        Smallest valid value; None for no limit.
    high : float or None
        Largest valid value; None for no limit.
    kinds : str
        Valid kinds of types, as in `numpy.dtype.kind`: "f" float, "i" and "u" integer, "b" boolean.

    Raises
    ------
    LimbeckError
        If the array is not valid.

    Notes
    -----
    NaN is out of every range. Without limits it passes: `check_values` rejects it before.

    Examples
    --------
    >>> check_array(np.array([0, 2, 1]), (3,), low=0, high=2, kinds="iu")
    >>> check_array(np.array([0.2, 1.5]), (2,), low=0, high=1)
    Traceback (most recent call last):
        ...
    limbeck.errors.LimbeckError: values from 0.2 to 1.5, outside of 0 to 1
    """
    if values.shape != tuple(shape) or values.dtype.kind not in kinds:
        raise LimbeckError(f"values of type {values.dtype} and shape {values.shape}, not of shape {tuple(shape)}")
    least, most = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if values.size and not ((low is None or least >= low) and (high is None or most <= high)):
        raise LimbeckError(f"values from {least:g} to {most:g}, outside of {low} to {high}")


def check_counts(counts: Array, size: int, are_exact: bool) -> None:
    """Raise unless an array can be counts of rows, with or without noise.

    Parameters
    ----------
    counts : array
        The counts.
    size : int
        The only valid number of counts.
    are_exact : bool
        Whether they must be whole numbers, and not negative; noise can cause others.

    Raises
    ------
    LimbeckError
        If the counts are not valid.

    Examples
    --------
    >>> check_counts(np.array([4.5, -2.0]), 2, are_exact=False)
    >>> check_counts(np.array([4.5, 2.0]), 2, are_exact=True)
    Traceback (most recent call last):
        ...
    limbeck.errors.LimbeckError: counts without noise must be whole numbers
    """
    check_array(counts, (size,), 0 if are_exact else -MAX_COUNT, MAX_COUNT)
    if are_exact and (counts != np.floor(counts)).any():
        raise LimbeckError("counts without noise must be whole numbers")


def check_values(message: Message) -> None:
    """Raise unless all arrays and floats of a message are numbers, and finite unless its class has `finite = False`.

    Parameters
    ----------
    message : Message
        A request or reply that was received.

    Raises
    ------
    LimbeckError
        If a value is not valid; the message names the field.
    """
    finite = getattr(message, "finite", True)
    for field in fields(message):  # type: ignore[arg-type]
        value = getattr(message, field.name)
        if field.type in (float, "float") and not isinstance(value, float):
            raise LimbeckError(f"{field.name} has the type {type(value).__name__}, not float")
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, np.ndarray) and part.dtype.kind not in "fiub":
                raise LimbeckError(f"{field.name} has the type {part.dtype}, not numbers")
            is_float = isinstance(part, float) or (isinstance(part, np.ndarray) and part.dtype.kind == "f")
            if finite and is_float and not np.isfinite(part).all():
                raise LimbeckError(f"{field.name} is not finite")


def is_private(message: Message) -> bool:
    """Whether a message may depend on private rows, so that it may leave a site only as a declared disclosure.

    Parameters
    ----------
    message : Message
        A request or reply before it is sent.

    Returns
    -------
    bool
        True for replies other than `Acknowledgement`, and for requests with fields other than whole numbers whose class
        is not public.
    """
    if not isinstance(message, Request):
        return type(message) is not Acknowledgement
    values = [getattr(message, field.name) for field in fields(message)]  # type: ignore[arg-type]
    return not message.public and any(not isinstance(value, int) for value in values)

"""Messages as bytes: safetensors, compressed with Zstandard where that helps. Nothing is pickled."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import zstandard
from safetensors import SafetensorError
from safetensors.numpy import load, save

from limbeck.errors import LimbeckError
from limbeck.protocol.messages import Message, kind_of
from limbeck.protocol.rows import Array

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MAX_MESSAGE_BYTES = 4 * 2**30
UNREADABLE = (
    *(SafetensorError, zstandard.ZstdError, KeyError, ValueError, TypeError, OverflowError, AttributeError),
    *(IndexError, RecursionError, MemoryError),
)


class _Zstd(threading.local):
    """One compressor for each thread: making one takes longer than compressing a small message."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor()


_zstd = _Zstd()


@dataclass(frozen=True, slots=True)
class Header:
    """What every message has beside its content.

    Parameters
    ----------
    turn : int
        Number of the request in the run, from 0.
    public : str
        Content hash of the public rows.
    """

    turn: int
    public: str


def encode(message: Message, header: Header) -> bytes:
    """Encode a message; equal messages have equal bytes on every machine.

    Parameters
    ----------
    message : Message
        A frozen dataclass of arrays, bytes, scalars, and tuples of arrays or bytes.
    header : Header
        Its turn and public rows.

    Returns
    -------
    bytes
        Safetensors, or the same compressed if that is shorter.

    Examples
    --------
    >>> from limbeck.protocol.messages import InstallModel
    >>> data = encode(InstallModel(b"ONNX"), Header(turn=2, public="00ff"))
    >>> decode(data)
    (InstallModel(model=b'ONNX'), Header(turn=2, public='00ff'))
    """
    tensors: dict[str, Array] = {}
    scalars: dict[str, Any] = {}
    for field in fields(message):  # type: ignore[arg-type]
        value = getattr(message, field.name)
        if isinstance(value, tuple):
            scalars[field.name] = len(value)
            tensors |= {f"{field.name}.{i}": _tensor(part) for i, part in enumerate(value)}
        elif isinstance(value, np.ndarray | bytes):
            tensors[field.name] = _tensor(value)
        else:
            scalars[field.name] = value
    about = {"kind": kind_of(type(message)), "turn": header.turn, "public": header.public, "scalars": scalars}
    raw = save(tensors, {"limbeck": json.dumps(about, sort_keys=True)})
    packed = _zstd.compressor.compress(raw)
    return packed if len(packed) < len(raw) else raw


def decode(data: bytes, max_bytes: int = MAX_MESSAGE_BYTES) -> tuple[Message, Header]:
    """Decode a message and its header.

    Parameters
    ----------
    data : bytes
        What `encode` returned.
    max_bytes : int
        Largest size of a compressed message after decompression, in bytes.

    Returns
    -------
    tuple of Message and Header
        The message, whose values are not checked yet, and its header.

    Raises
    ------
    LimbeckError
        If the bytes are not a message of a known kind, or too large after decompression.
    """
    try:
        raw = _decompress(data, max_bytes)
        about = _about(raw)
        kind = Message.kinds.get(about["kind"])
        if kind is None or not is_dataclass(kind):
            raise LimbeckError(f"unknown kind of message {about['kind']!r}")
        tensors, hints = load(raw), get_type_hints(kind)
        values = {each.name: _value(hints[each.name], each.name, tensors, about["scalars"]) for each in fields(kind)}
        return kind(**values), Header(int(about["turn"]), str(about["public"]))
    except UNREADABLE as error:
        raise LimbeckError(f"not a Limbeck message: {error}") from error


def pack_memory(memory: Mapping[str, Array | bytes]) -> bytes:
    """Encode a site's memory as safetensors.

    Parameters
    ----------
    memory : mapping of str to array or bytes
        Values by name.

    Returns
    -------
    bytes
        What `unpack_memory` reads.

    Examples
    --------
    >>> memory = unpack_memory(pack_memory({"model": b"ONNX", "rows": np.array([3, 1])}))
    >>> memory["model"], memory["rows"]
    (b'ONNX', array([3, 1]))
    """
    texts = sorted(name for name, value in memory.items() if isinstance(value, bytes))
    tensors = {name: _tensor(value) for name, value in memory.items()}
    return save(tensors, {"limbeck": json.dumps({"bytes": texts})})


def unpack_memory(data: bytes) -> dict[str, Array | bytes]:
    """Decode the memory that `pack_memory` encoded.

    Parameters
    ----------
    data : bytes
        What `pack_memory` returned.

    Returns
    -------
    dict of str to array or bytes
        Values by name.
    """
    texts = set(_about(data)["bytes"])
    return {name: value.tobytes() if name in texts else value for name, value in load(data).items()}


def _value(hint: Any, name: str, tensors: dict[str, Array], scalars: dict[str, Any]) -> Any:
    if get_origin(hint) is tuple:
        part = get_args(hint)[0]
        return tuple(_value(part, f"{name}.{i}", tensors, scalars) for i in range(scalars[name]))
    if hint is bytes:
        return tensors[name].tobytes()
    if get_origin(hint) is np.ndarray:
        return tensors[name]
    if type(scalars[name]) is not hint:
        raise ValueError(f"{name} is {scalars[name]!r}, not {hint.__name__}")
    return scalars[name]


def _tensor(value: Array | bytes) -> Array:
    return np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.ascontiguousarray(value)


def _about(raw: bytes) -> Any:
    length = int.from_bytes(raw[:8], "little")
    return json.loads(json.loads(raw[8 : 8 + length])["__metadata__"]["limbeck"])


def _decompress(data: bytes, max_bytes: int) -> bytes:
    if data[:4] != ZSTD_MAGIC:
        return data
    if zstandard.get_frame_parameters(data).content_size > max_bytes:
        raise ValueError(f"larger than {max_bytes} bytes after decompression")
    return zstandard.ZstdDecompressor().decompress(data)

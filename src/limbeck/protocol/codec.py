"""The wire: a message becomes safetensors, compressed with zstd when that helps, and back. Never pickle."""

import json
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


@dataclass(frozen=True, slots=True)
class Header:
    """What every message says of itself: its place in the run and the public rows it speaks of."""

    turn: int
    public: str


def encode(message: Message, header: Header) -> bytes:
    """The bytes of a message, the same for equal messages on every machine."""
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
    packed = zstandard.ZstdCompressor().compress(raw)
    return packed if len(packed) < len(raw) else raw


def decode(data: bytes, max_bytes: int = MAX_MESSAGE_BYTES) -> tuple[Message, Header]:
    """The message and its header, or a LimbeckError when the bytes are not a message that we know, or too many."""
    try:
        raw = _decompress(data, max_bytes)
        about = _about(raw)
        kind = Message.kinds.get(about["kind"])
        if kind is None or not is_dataclass(kind):
            raise LimbeckError(f"a message of unknown kind {about['kind']!r}")
        tensors, hints = load(raw), get_type_hints(kind)
        values = {each.name: _value(hints[each.name], each.name, tensors, about["scalars"]) for each in fields(kind)}
        return kind(**values), Header(int(about["turn"]), str(about["public"]))
    except UNREADABLE as error:
        raise LimbeckError(f"not a Limbeck message: {error}") from error


def pack_memory(memory: Mapping[str, Array | bytes]) -> bytes:
    """What a site remembers, as bytes that `unpack_memory` reads; the names of byte strings are kept apart."""
    texts = sorted(name for name, value in memory.items() if isinstance(value, bytes))
    tensors = {name: _tensor(value) for name, value in memory.items()}
    return save(tensors, {"limbeck": json.dumps({"bytes": texts})})


def unpack_memory(data: bytes) -> dict[str, Array | bytes]:
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
        raise ValueError(f"it unpacks to more than {max_bytes} bytes")
    return zstandard.ZstdDecompressor().decompress(data)

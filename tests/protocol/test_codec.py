"""The wire: what is encoded comes back to the bit, and nothing else is taken for a message."""

import json
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save

from limbeck.errors import LimbeckError
from limbeck.protocol.codec import Header, decode, encode, pack_memory, unpack_memory
from limbeck.protocol.messages import Reply, Request, kind_of
from limbeck.protocol.rows import Array

HEADER = Header(turn=3, public="abc")


@dataclass(frozen=True, slots=True)
class Everything(Reply):
    array: Array
    blob: bytes
    blobs: tuple[bytes, ...]
    arrays: tuple[Array, ...]
    whole: int
    real: float
    text: str
    flag: bool


@dataclass(frozen=True, slots=True)
class AskNothing(Request[Everything]):
    pass


dtypes = st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_])
arrays = dtypes.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0)))


@given(
    st.builds(
        Everything,
        array=arrays,
        blob=st.binary(),
        blobs=st.lists(st.binary(), max_size=3).map(tuple),
        arrays=st.lists(arrays, max_size=3).map(tuple),
        whole=st.integers(-(2**53), 2**53),
        real=st.floats(allow_nan=False),
        text=st.text(st.characters(codec="utf-8")),
        flag=st.booleans(),
    )
)
def test_every_message_comes_back_to_the_bit(message: Everything) -> None:
    back, header = decode(encode(message, HEADER))
    assert header == HEADER
    assert isinstance(back, Everything)
    assert (back.blob, back.blobs, back.whole, back.real, back.text, back.flag) == (
        message.blob,
        message.blobs,
        message.whole,
        message.real,
        message.text,
        message.flag,
    )
    for ours, theirs in zip((back.array, *back.arrays), (message.array, *message.arrays), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert ours.tobytes() == theirs.tobytes()


def test_a_message_without_fields() -> None:
    assert decode(encode(AskNothing(), HEADER))[0] == AskNothing()


def test_bytes_are_the_same_in_another_process() -> None:
    program = (
        "import sys, numpy as np; from limbeck.protocol.codec import *; from limbeck.protocol.messages import InstallModel;"
        "sys.stdout.buffer.write(encode(InstallModel(b'model'), Header(1, 'hash')))"
    )
    first, second = (subprocess.run([sys.executable, "-c", program], capture_output=True, check=True) for _ in range(2))
    assert first.stdout == second.stdout != b""


def test_what_compresses_is_compressed_and_what_does_not_is_left() -> None:
    even = _everything(blob=bytes(100_000))
    noise = _everything(blob=np.random.default_rng(0).bytes(100_000))
    assert len(encode(even, HEADER)) < 2_000
    assert 100_000 < len(encode(noise, HEADER)) < 102_000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"\x00" * 64,
        b"\xff" * 64,
        save({"x": np.zeros(3)}),
        save({"x": np.zeros(3)}, {"limbeck": "not json"}),
        save({}, {"limbeck": json.dumps({"kind": "Nonsense", "turn": 0, "public": "", "scalars": {}})}),
        save({}, {"limbeck": json.dumps({"kind": kind_of(Reply), "turn": 0, "public": "", "scalars": {}})}),
        save({}, {"limbeck": json.dumps({"kind": kind_of(Everything), "turn": 0, "public": "", "scalars": {}})}),
        zstandard.ZstdCompressor().compress(b"not safetensors"),
    ],
    ids=range(10),
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(LimbeckError):
        decode(data)


def test_a_scalar_of_another_type_is_refused() -> None:
    raw = encode(_everything(whole=7), HEADER)
    plain = zstandard.ZstdDecompressor().decompress(raw)
    forged = plain.replace(rb"\"whole\": 7", rb"\"whole\":[]")
    assert forged != plain
    with pytest.raises(LimbeckError, match="whole"):
        decode(forged)


def test_a_bomb_is_refused_before_it_unpacks() -> None:
    with pytest.raises(LimbeckError, match=r"larger than .* bytes after decompression"):
        decode(zstandard.ZstdCompressor().compress(bytes(1001)), max_bytes=1000)


def test_memory_comes_back() -> None:
    memory: dict[str, Array | bytes] = {"model": b"onnx", "rows": np.arange(3), "empty": b""}
    back = unpack_memory(pack_memory(memory))
    assert back["model"] == b"onnx"
    assert back["empty"] == b""
    assert np.array_equal(back["rows"], np.arange(3))


def _everything(blob: bytes = b"", whole: int = 0) -> Everything:
    return Everything(np.zeros(0), blob, (), (), whole, 0.0, "", True)

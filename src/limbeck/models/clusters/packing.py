"""Tasks as bytes, without their large values, which are stored apart under their content hashes.

Clusters run code of one organisation, so tasks are pickled. What goes between organisations or into a file never is.
"""

import hashlib
import io
import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import numpy as np

from limbeck.models.caching import address
from limbeck.protocol.rows import content_hash

SMALL = 4096  # bytes; smaller values stay within their task
ONE_AT_A_TIME = threading.Lock()  # threads of one process would share the random numbers of torch
Known = dict[Any, tuple[Any, str]]


class Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles a task; large arrays and bytes are replaced by their positions in `large`.

    Parameters
    ----------
    file : BytesIO
        Where the pickle goes.
    known : dict
        Content hashes of arrays by address, which are added to; many tasks share arrays.
    """

    def __init__(self, file: io.BytesIO, known: Known) -> None:
        super().__init__(file)
        self.large: dict[str, Any] = {}
        self._known = known

    def persistent_id(self, value: Any) -> int | None:
        """Position of a large value; None for all others."""
        if type(value) is np.ndarray and value.nbytes >= SMALL and not value.dtype.hasobject:
            key = self._key_of(value)
        elif type(value) is bytes and len(value) >= SMALL:
            key = hashlib.sha256(value).hexdigest()
        else:
            return None
        self.large.setdefault(key, value)
        return list(self.large).index(key)

    def _key_of(self, array: Any) -> str:
        place = address(array)
        holder, key = self._known.get(place, (None, ""))
        if holder is None or holder() is None:
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            key = f"{order}{content_hash(array)}"
            self._known[place] = weakref.ref(array), key
        return key


def packed(function: Callable[..., Any], arguments: Sequence[Any], known: Known) -> tuple[bytes, dict[str, Any]]:
    """Pickle a call.

    Parameters
    ----------
    function : callable
        Function that workers can import.
    arguments : sequence
        Its arguments.
    known : dict
        Content hashes of arrays by address, which are added to.

    Returns
    -------
    (bytes, dict)
        The call, and its large values by content hash.

    Examples
    --------
    >>> rows = np.arange(5000.0)
    >>> call, large = packed(np.dot, [rows, rows], {})
    >>> len(call) < 200, len(large)
    (True, 1)
    >>> bool(pickle.loads(run_packed(call, *large.values())) == np.dot(rows, rows))
    True
    """
    file = io.BytesIO()
    packer = Packer(file, known)
    packer.dump((function, tuple(arguments)))
    return file.getvalue(), packer.large


class _Unpacker(pickle.Unpickler):
    def __init__(self, call: bytes, values: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(call))
        self._values = values

    def persistent_load(self, position: int) -> Any:
        value = self._values[position]
        return value if isinstance(value, bytes) else np.array(value)  # arrived unaligned, or shared by several tasks


def run_packed(call: bytes, *values: Any) -> bytes:
    """On a worker: run a packed call; returns its pickled result."""
    with ONE_AT_A_TIME:
        function, arguments = _Unpacker(call, values).load()
        return pickle.dumps(function(*arguments), protocol=pickle.HIGHEST_PROTOCOL)

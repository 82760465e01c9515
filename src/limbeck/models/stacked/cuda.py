"""CUDA programs from source: compiled when they are first used, in about a second, by the library that torch brings."""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from limbeck.errors import LimbeckError

MAX_DYNAMIC_SHARED_MEMORY = 8  # of the driver's attributes of a function


class CudaError(LimbeckError):
    """A call of the CUDA driver or of its compiler failed."""


class CudaProgram:
    """One kernel, loaded into the current GPU.

    Parameters
    ----------
    source : str
        CUDA C++ with a kernel that is `extern "C"`.
    name : str
        Name of the kernel.
    options : sequence of str
        Options of the compiler, for example "-DROWS=8".
    shared : int
        Bytes of dynamic shared memory of a block.

    Raises
    ------
    CudaError
        If the source cannot be compiled, or if the GPU cannot run it.
    OSError
        If the libraries are missing.
    """

    def __init__(self, source: str, name: str, options: Sequence[str], shared: int) -> None:
        self._driver, self._shared = ctypes.CDLL("libcuda.so.1"), shared
        self._module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        binary = _compiled(source, options)
        torch.cuda.current_stream().synchronize()  # so that torch's context is the current one
        self._checked("cuModuleLoadData", ctypes.byref(self._module), binary)
        self._checked("cuModuleGetFunction", ctypes.byref(self._kernel), self._module, name.encode())
        self._checked("cuFuncSetAttribute", self._kernel, MAX_DYNAMIC_SHARED_MEMORY, shared)

    def launch(self, blocks: int, threads: int, arguments: Sequence[Tensor | int | float]) -> None:
        """Launch the kernel on torch's current stream, all blocks at once; floats are passed as doubles."""
        values = [_argument(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        size = (blocks, 1, 1, threads, 1, 1, self._shared)
        self._checked("cuLaunchCooperativeKernel", self._kernel, *size, stream, pointers)

    def _checked(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._driver, name)(*arguments):
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or b'unknown error').decode()}")


def _argument(value: Tensor | int | float) -> Any:
    if isinstance(value, Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_int(value) if isinstance(value, int) else ctypes.c_double(value)


def _compiled(source: str, options: Sequence[str]) -> bytes:
    """Machine code for the current GPU."""
    library, program = _compiler(), ctypes.c_void_p()
    major, minor = torch.cuda.get_device_capability()
    given = [f"--gpu-architecture=sm_{major}{minor}", "--std=c++17", *options]
    array = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
    if library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"limbeck.cu", 0, None, None):
        raise CudaError("the CUDA compiler does not start")
    try:
        failed = library.nvrtcCompileProgram(program, len(given), array)
        part = "ProgramLog" if failed else "CUBIN"
        size = ctypes.c_size_t()
        getattr(library, f"nvrtcGet{part}Size")(program, ctypes.byref(size))
        found = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{part}")(program, found)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise CudaError(found.value.decode().strip())
    return found.raw


@cache
def _compiler() -> ctypes.CDLL:
    """The run-time compiler: of the system, or of the package that pip installs with torch."""
    name = f"libnvrtc.so.{str(torch.version.cuda).split('.')[0]}"
    packaged = sorted(Path(torch.__file__).parents[1].glob(f"nvidia/*/lib/{name}"))
    return ctypes.CDLL(str(packaged[0]) if packaged else name)

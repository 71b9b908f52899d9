"""A frame at which a walk over the C stack ends.

libgcc's unwinder walks from return address to return address: glibc's `backtrace`, which torch calls for each of its
errors, and Rust's backtraces use it. A greenlet has only its own part of the C stack. Behind its first frame lie the
bytes of some other call, which the walk takes for addresses: the process ends with SIGSEGV.

The unwinder stops at code that no library describes. `call` goes through such code: a few instructions in memory of our
own, which call the function that they get and return.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from collections.abc import Callable

_PAGE = mmap.PAGESIZE
_CODE = {
    "x86_64": bytes.fromhex("4883ec08 ffd7 4883c408 c3"),  # sub rsp, 8; call rdi; add rsp, 8; ret
    # stp x29, x30, [sp, #-16]!; blr x0; ldp x29, x30, [sp], #16; ret
    "aarch64": bytes.fromhex("fd7bbfa9 00003fd6 fd7bc1a8 c0035fd6"),
}
_FUNCTION = ctypes.PYFUNCTYPE(None)


def _load() -> Callable[[object], None] | None:
    """Map the code, from a file in memory: no page is ever writable and executable."""
    code = _CODE.get(platform.machine())
    if code is None or sys.platform != "linux":
        return None  # elsewhere unwinders do not read code, or frames are found in another way
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    try:
        file = os.memfd_create("gym_llm stack end")
    except OSError:
        return None  # the system forbids it
    with open(file, "wb", buffering=0) as memory:
        memory.write(code.ljust(_PAGE, b"\0"))
        address = libc.mmap(None, _PAGE, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file, 0)
    if address == ctypes.c_void_p(-1).value:
        return None
    return ctypes.PYFUNCTYPE(None, _FUNCTION)(address)


_call = _load()
if _call is None:  # Rust libraries at least (openai_harmony, tokenizers) make backtraces only where they are asked for
    os.environ.update((name, "0") for name in ("RUST_BACKTRACE", "RUST_LIB_BACKTRACE") if name in os.environ)


def ending(function: Callable[[], None]) -> Callable[[], None]:
    """Return a function that makes the call behind a frame at which the unwinder stops. It must not raise.

    Where no such frame can be made, this is the function itself.
    """
    if _call is None:
        return function
    call, callback = _call, _FUNCTION(function)
    return lambda: call(callback)

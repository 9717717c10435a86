"""List of the files that a run may read: the standard library and its shared libraries.

Other contents of the library's folder (site-packages, dist-packages, packages installed there) are
excluded: with this package, a program could generate its hidden tests again. Only the standard
library is imported here: this module runs in the interpreter of the sandbox, whose `sys.path` has
no other places.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

from srl_envs.sandbox.guest import kernel

_CACHE = "/etc/ld.so.cache"  # index of shared libraries, which the loader reads


def readable_files() -> list[str]:
    """Return the files and folders, by the paths that the interpreter and the loader use."""
    library = []
    for place in sys.path:
        if os.path.isfile(place):  # a zipped library
            library.append(place)
        elif os.path.isdir(place):
            library += [os.path.join(place, name) for name in os.listdir(place) if _is_own(name)]
    # tkinter is left out: a run has no display, and its libraries are many.
    extensions = [
        path
        for path in library
        if path.endswith(tuple(EXTENSION_SUFFIXES)) and os.path.basename(path)[:8] != "_tkinter"
    ]
    needed = [*_shared_libraries(extensions), _CACHE]
    return sorted({os.path.normpath(path) for path in library + needed if os.path.exists(path)})


def _is_own(name: str) -> bool:
    """Return True if a file in a folder of `sys.path` belongs to the standard library."""
    module = name.partition(".")[0]
    built = module.startswith("_sysconfigdata_") or module == "__pycache__"
    return built or module in sys.stdlib_module_names


def _shared_libraries(extensions: list[str]) -> list[str]:
    """Return the shared libraries of extension modules, as loaded by the loader in a fork."""

    def load(writer: int) -> None:
        for extension in extensions:
            with contextlib.suppress(OSError):  # A library of the extension is missing here.
                ctypes.CDLL(extension)
        with os.fdopen(writer, "wb") as file:
            file.write(json.dumps(_loaded()).encode())

    output = kernel.output_of_fork(load)
    if not output:
        raise OSError(0, "the shared libraries of the standard library could not be listed")
    return [os.fsdecode(name.encode("latin-1")) for name in json.loads(output)]


class _Object(ctypes.Structure):
    """Beginning of `struct dl_phdr_info`; dl_iterate_phdr(3)."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


def _loaded() -> list[str]:
    """Return the paths of the shared objects of this process, as they were opened."""
    names = []

    def note(found: ctypes._Pointer[_Object], _size: int, _data: int | None) -> int:
        name = found.contents.name
        # The interpreter has no name, and the object of the kernel has no path.
        if name and name.startswith(b"/"):
            names.append(name.decode("latin-1"))
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(kind(note), None)
    return names

"""Files that a run may read: the standard library and its shared libraries.

Whatever else lies beside or within the library's folder (site-packages, dist-packages, a package
installed there) is none of them: with our own package a program could make its tests anew.
Only the standard library is imported here: this runs inside the sandbox's own interpreter, whose
`sys.path` has the standard library's places and no others.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

from srl_envs.sandbox.guest import kernel

_CACHE = "/etc/ld.so.cache"  # where the loader looks up shared libraries


def readable_files() -> list[str]:
    """Files and folders, by the names under which the interpreter and the loader ask for them."""
    library = _standard_library()
    extensions = [
        each
        for each in library
        if each.endswith(tuple(EXTENSION_SUFFIXES)) and os.path.basename(each)[:8] != "_tkinter"
    ]  # but for windows, of which a run has none to draw in
    needed = [*_shared_libraries(extensions), _CACHE]
    return sorted({os.path.normpath(each) for each in library + needed if os.path.exists(each)})


def _standard_library() -> list[str]:
    found = []
    for place in sys.path:
        if os.path.isfile(place):  # a zipped library
            found.append(place)
        elif os.path.isdir(place):
            found += [os.path.join(place, name) for name in os.listdir(place) if _is_own(name)]
    return found


def _is_own(name: str) -> bool:
    module = name.partition(".")[0]
    built = module.startswith("_sysconfigdata_") or module == "__pycache__"
    return built or module in sys.stdlib_module_names


def _shared_libraries(extensions: list[str]) -> list[str]:
    """All that these need, found out by the loader itself, in a fork that has no other use."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with kernel.leaving():
            for extension in extensions:
                with contextlib.suppress(OSError):  # what it needs is missing here
                    ctypes.CDLL(extension)
            with os.fdopen(writer, "wb") as file:
                file.write(json.dumps(_loaded()).encode())
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read()
    os.waitpid(child, 0)
    if not said:
        raise OSError(0, "the shared libraries of the standard library could not be listed")
    return [os.fsdecode(name.encode("latin-1")) for name in json.loads(said)]


class _Object(ctypes.Structure):
    """The beginning of `struct dl_phdr_info`; dl_iterate_phdr(3)."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


def _loaded() -> list[str]:
    """The shared objects of this process, by the names under which they were opened."""
    names = []

    def note(each: ctypes._Pointer[_Object], _size: int, _data: int | None) -> int:
        name = each.contents.name
        if name and name.startswith(b"/"):  # the interpreter has no name, the kernel's page no file
            names.append(name.decode("latin-1"))
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(kind(note), None)
    return names

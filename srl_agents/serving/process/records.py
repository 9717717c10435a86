"""Records of running servers: small JSON files in the user's cache folder.

A record counts while its file is locked, which the server's guard does for as long as it lives.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from srl_agents.errors import ServingError
from srl_agents.llm.cache_folder import cache_folder
from srl_agents.serving.process.loopback import is_own
from srl_envs.errors import DocumentError
from srl_envs.loading.untrusted import printable, read_bytes, read_json

MOST_BYTES = 16 * 1024


@dataclass(frozen=True)
class ServerRecord:
    """A server that somebody on this machine started: what was said of it then."""

    url: str
    served_name: str
    model: str
    """Folder, or name on the hub."""
    log: str


def claim(record: ServerRecord) -> tuple[Path, int]:
    """Write the record; returns its file, and an open descriptor that holds the lock.

    Whoever inherits the descriptor keeps the lock too. Raises ServingError where another server's
    record has the same address (one that starts does not listen for many seconds), and where no
    record can be written.
    """
    path = _file(record.url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone():
            return path, _locked(path, record)
    except OSError as error:
        raise ServingError(f"no record can be written at {path} ({error.strerror})") from error


def read_records() -> Iterator[ServerRecord | ServingError]:
    """Records of the servers that run; for a file that is no record, the error that says why.

    Records of servers that are gone are removed.
    """
    for path in sorted(_folder().glob("*.json")):
        try:
            if not release(path):
                yield _record(path)
        except (OSError, DocumentError, ServingError) as error:
            yield ServingError(f"{printable(path, multiline=False)} is no record: {error}")


def is_claimed(url: str) -> bool:
    """Whether a server that runs or starts has the address, or something that is no record."""
    try:
        return not release(_file(url))
    except (OSError, ServingError):
        return True


def release(path: Path) -> bool:
    """Remove a record whose server is gone; returns whether it is.

    Raises ServingError for what is no file, and OSError where it cannot be opened.
    """
    with suppress(FileNotFoundError):  # whoever looks at the records removes it as well
        if path.exists():
            with _alone():
                return _removed(path)
    return True


@contextmanager
def _alone() -> Iterator[None]:
    """Nobody else claims, looks at or removes a record meanwhile, all of which locks its file."""
    descriptor = _opened(_folder() / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child that was forked meanwhile has it, too
        os.close(descriptor)


def _locked(path: Path, record: ServerRecord) -> int:
    descriptor = _opened(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ServingError(
            f"{record.url} belongs to a server that runs or starts (`srl serve status`): end it, "
            "or give another base_port"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps(asdict(record)).encode())
    return descriptor


def _removed(path: Path) -> bool:
    descriptor = _opened(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    path.unlink()
    return True


def _opened(path: Path, how: int) -> int:
    """A descriptor of a file, which is waited for in no case: a pipe's other end may never come.

    Raises ServingError for a pipe, a folder or a device.
    """
    descriptor = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ServingError(f"{path} is no file: remove it")
    return descriptor


def _file(url: str) -> Path:
    return _folder() / f"{urllib.parse.quote(urllib.parse.urlsplit(url).netloc, safe='')}.json"


def _folder() -> Path:
    return cache_folder() / "servers"


def _record(path: Path) -> ServerRecord:
    found = read_json(read_bytes(path, MOST_BYTES))
    kinds = {field.name: str for field in fields(ServerRecord)}
    if not isinstance(found, dict) or {k: type(v) for k, v in found.items()} != kinds:
        raise ServingError(f"it must hold exactly {', '.join(kinds)}")
    try:
        address = urllib.parse.urlsplit(found["url"])
        here = address.scheme == "http" and is_own(address.hostname or "") and address.port
    except ValueError:
        here = None
    if not here:
        raise ServingError("its server is not on this machine")
    return ServerRecord(**found)

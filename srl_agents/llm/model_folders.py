"""Folders of models: the cache, local folders for hub names, and GGUF files.

The environment variable CORE_SRL_MODELS lists local folders::

    CORE_SRL_MODELS=Qwen/Qwen2.5-14B-Instruct=/models/qwen,meta-llama/Llama-3.1-8B-Instruct=/models/llama

Each folder replaces its name in loading, serving and training, with a warning in the log.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from srl_agents.errors import BackendError


def cache_folder() -> Path:
    """Return $CORE_SRL_CACHE, or by default the folder core-srl in the user's cache folder.

    The user's cache folder is $XDG_CACHE_HOME, else $LOCALAPPDATA, else ~/.cache.
    """
    if configured := os.environ.get("CORE_SRL_CACHE"):
        return Path(configured)
    platform = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(platform) if platform else Path.home() / ".cache") / "core-srl"


VARIABLE = "CORE_SRL_MODELS"
GGUF = ".gguf"

log = logging.getLogger(__name__)


def folders() -> dict[str, str]:
    """Return the entries of CORE_SRL_MODELS: hub name or NAME@REVISION -> absolute folder.

    Empty if unset. Raises BackendError for an entry other than NAME=FOLDER or a missing folder.
    """
    found = {}
    for entry in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        name, equals, folder = (part.strip() for part in entry.partition("="))
        if not (name and equals and folder):
            raise BackendError(f"{VARIABLE} must be NAME=FOLDER,NAME=FOLDER,..., got {entry!r}")
        path = os.path.abspath(os.path.expanduser(folder))
        if not os.path.isdir(path):
            raise BackendError(f"{VARIABLE}: the folder of {name} does not exist: {folder}")
        found[name] = path
    return found


def is_gguf(name: str | os.PathLike[str]) -> bool:
    """Return True if `name` is an existing file with the extension .gguf."""
    return os.fspath(name).endswith(GGUF) and os.path.isfile(name)


def folder_for(name: str) -> str | None:
    """Return the folder for a model in the variable CORE_SRL_MODELS, or None if it names none.

    `name` is a hub name or NAME@REVISION. A revision without an entry has the folder of NAME.
    A found folder is logged as a warning. Raises the errors of `folders`.
    """
    known = folders()
    folder = known.get(name) or known.get(name.partition("@")[0])
    if folder is not None:
        log.warning("%s: the folder %s is used, because %s names it", name, folder, VARIABLE)
    return folder

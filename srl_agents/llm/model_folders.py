"""Folders of models: the user's cache, folders that replace hub names, and GGUF files.

    CORE_SRL_MODELS=Qwen/Qwen2.5-14B-Instruct=/models/qwen,meta-llama/Llama-3.1-8B-Instruct=/models/llama

The folder replaces the name wherever it is loaded, served or trained, with a line in the log.
"""

from __future__ import annotations

import functools
import logging
import os
from pathlib import Path

from srl_agents.errors import BackendError


def cache_folder() -> Path:
    """Return $CORE_SRL_CACHE, or core-srl in the user's cache folder."""
    own = os.environ.get("CORE_SRL_CACHE")
    if own:
        return Path(own)
    platform = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(platform) if platform else Path.home() / ".cache") / "core-srl"


VARIABLE = "CORE_SRL_MODELS"
GGUF = ".gguf"
"""Extension of files with a whole model, in any case."""

log = logging.getLogger(__name__)


def folders() -> dict[str, str]:
    """Return hub name, or NAME@REVISION, -> folder; raise BackendError for an invalid variable."""
    found = {}
    for entry in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        name, equals, folder = (part.strip() for part in entry.partition("="))
        if not (name and equals and folder):
            raise BackendError(f"{VARIABLE} has {entry!r}: give NAME=FOLDER, separated by commas")
        place = os.path.abspath(os.path.expanduser(folder))
        if not os.path.isdir(place):
            raise BackendError(f"{VARIABLE}: there is no folder {folder}, named for {name}")
        found[name] = place
    return found


def is_gguf(name: str | os.PathLike[str]) -> bool:
    """Return True for an existing GGUF file."""
    return os.fspath(name).lower().endswith(GGUF) and os.path.isfile(name)


def folder_for(name: str) -> str | None:
    """Return the folder that replaces a hub name, or None. Raises as `folders` does."""
    there = folders()
    folder = there.get(name) or there.get(name.partition("@")[0])
    if folder is not None:
        _tell(name, folder)
    return folder


@functools.cache
def _tell(name: str, folder: str) -> None:
    log.warning("%s: %s is taken for it, as %s says", name, folder, VARIABLE)

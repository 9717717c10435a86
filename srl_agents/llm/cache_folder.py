"""Cache folder of the user: embedded models, and records of running servers."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$CORE_SRL_CACHE, else core-srl in the user's cache folder."""
    own = os.environ.get("CORE_SRL_CACHE")
    if own:
        return Path(own)
    platform = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(platform) if platform else Path.home() / ".cache") / "core-srl"

"""Page with every frame and every turn's text of a replayed episode."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import numpy as np

from srl_agents.episode import Episode
from srl_envs.loading import needed_by
from srl_envs.text import TextView
from srl_extensions.pages.document import Document, write_page
from srl_extensions.pages.transcript import animation


def write_html(
    episode: Episode,
    frames: Iterable[np.ndarray],
    path: Path,
    seconds: float,
    *,
    view: TextView | None = None,
) -> Path:
    """Write a page that plays the frames next to the text of each turn, and return its path.

    Args:
        episode: The episode.
        frames: Pictures of the start and of every turn, of shape (height, width, 3), uint8.
        path: File to write.
        seconds: Time for which a frame is shown.
        view: Text of observations and actions.

    Raises:
        ImportError: If Pillow is not installed.
        RunFolderError: If the file cannot be written.
    """
    with needed_by("an animation"):
        from PIL import Image

    def png(frame: np.ndarray) -> bytes:
        file = BytesIO()
        Image.fromarray(frame).save(file, format="PNG")
        return file.getvalue()

    shown = animation(episode, view, map(png, frames), seconds)
    return write_page(Document(episode.environment, "a replayed episode", [shown]), path)

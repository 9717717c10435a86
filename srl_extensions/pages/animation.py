"""Animation of a replayed episode: a page with the frame and the texts of each turn."""

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
    """Write a page that shows the frames as an animation, with the texts of each turn.

    Args:
        episode: Replayed episode.
        frames: Pictures of the start and of each turn, uint8 arrays of shape (height, width, 3).
        path: File to write.
        seconds: Time for which a frame is shown.
        view: Text view of the environment; without it, observations and actions are numbers.

    Returns:
        `path`.

    Raises:
        ImportError: If Pillow is not installed.
        RunFolderError: If the file cannot be written.
    """
    with needed_by("an animation"):
        from PIL import Image

    pictures = []
    for frame in frames:
        file = BytesIO()
        Image.fromarray(frame).save(file, format="PNG")
        pictures.append(file.getvalue())
    shown = animation(episode, view, pictures, seconds)
    return write_page(Document(episode.environment, "replayed episode", [shown]), path)

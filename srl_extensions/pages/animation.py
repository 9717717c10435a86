"""Animation of a replayed episode: a GIF, or a page with every turn's text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.atomic_files import whole_file
from srl_agents.episode import Episode
from srl_envs.loading import needed_by
from srl_envs.text import TextView
from srl_extensions.pages.document import Document, write_page
from srl_extensions.pages.transcript import animation
from srl_train.metrics.errors import RunFolderError

END_FRAMES = 3
"""Number of frames for which the last frame of a GIF is shown."""


def write_gif(frames: Iterable[np.ndarray], path: Path, seconds: float) -> Path:
    """Write an animated GIF, and return its path.

    Args:
        frames: Pictures of shape (height, width, 3), uint8.
        path: File to write.
        seconds: Time for which a frame is shown.

    Raises:
        ImportError: If Pillow is not installed.
        RunFolderError: If the file cannot be written.
    """
    # Pillow combines equal frames into one with a longer duration.
    images = (image.quantize() for image in _images(_with_longer_end(frames)))
    first = next(images)
    try:
        with whole_file(path, "wb") as file:
            first.save(
                file, format="GIF", save_all=True, append_images=images,
                duration=round(1000 * seconds), loop=0,
            )  # fmt: skip
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}") from error
    return path


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
        frames: Pictures of the start and of every turn.
        path: File to write.
        seconds: Time for which a frame is shown.
        view: Text of observations and actions.

    Raises:
        ImportError: If Pillow is not installed.
        RunFolderError: If the file cannot be written.
    """
    shown = animation(episode, view, map(_png, _images(frames)), seconds)
    return write_page(Document(episode.environment, "a replayed episode", [shown]), path)


def _images(frames: Iterable[np.ndarray]) -> Iterator[Any]:
    with needed_by("an animation"):
        from PIL import Image
    return map(Image.fromarray, frames)


def _png(image: Any) -> bytes:
    file = BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def _with_longer_end(frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    for frame in frames:
        yield frame
    yield from [frame] * (END_FRAMES - 1)

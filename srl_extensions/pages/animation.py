"""Animation of a replayed episode: a GIF, or a page with every turn's text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.atomic_files import whole_file
from srl_agents.episode import Episode
from srl_envs.loading.extras import needed_by
from srl_envs.text.view import TextView
from srl_train.metrics import page
from srl_train.metrics.document import Document
from srl_train.metrics.errors import PlotsError, RunFolderError
from srl_train.metrics.transcript import animation

END_FRAMES = 3
"""How many frames' time the last one of a GIF stands."""


def write_gif(frames: Iterable[np.ndarray], path: Path, seconds: float) -> Path:
    """Write an animated GIF that shows each frame (uint8, height x width x 3) for `seconds`, and
    the last one longer, before it begins anew.

    Raises PlotsError where Pillow is not installed, and RunFolderError where the system refuses.
    """
    images = (image.quantize() for image in _images(_held_at_the_end(frames)))
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
    first: int = 0,
    view: TextView | None = None,
) -> Path:
    """Write a page that plays the frames, with what every agent saw, said and did beside each.

    `frames` are those of the turns from `first` on, 0 being the start before any turn; `view` puts
    observations and actions into words. Raises PlotsError and RunFolderError as `write_gif`.
    """
    shown = animation(episode, view, map(_png, _images(frames)), first, seconds)
    return page.write(Document(episode.environment, "a replayed episode", [shown]), path)


def _images(frames: Iterable[np.ndarray]) -> Iterator[Any]:
    with needed_by("an animation", PlotsError):
        from PIL import Image
    return map(Image.fromarray, frames)


def _png(image: Any) -> bytes:
    file = BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def _held_at_the_end(frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    for frame in frames:
        yield frame
    for _ in range(END_FRAMES - 1):  # equal frames are one that stands longer
        yield frame

"""A replayed episode as a file to watch: an animated GIF, or a page with every turn's words.

The page is one file that loads nothing: frames are in it as PNG data, its policy lets a browser
run the one script it came with and fetch nothing, and everything that was said is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.atomic_files import whole_file
from srl_agents.episode import AgentStep, Episode
from srl_envs.text.view import TextView
from srl_train.metrics.errors import PlotsError, RunFolderError
from srl_train.metrics.report.page import escaped, write
from srl_train.metrics.report.transcript import SHOWN_CHARACTERS

END_FRAMES = 3
"""How many frames' time the last one of a GIF stands."""

_SCRIPT = """
const turns = [...document.querySelectorAll('.turn')];
const slider = document.getElementById('slider'), play = document.getElementById('play');
const last = turns.length - 1, wait = Number(document.body.dataset.wait);
let now = 0, timer = null;
function show(turn) {
  now = Math.max(0, Math.min(last, turn));
  turns.forEach((one, place) => { one.hidden = place !== now; });
  slider.value = now;
}
function pause() { clearInterval(timer); timer = null; play.textContent = 'play'; }
function start() {
  if (now === last) show(0);
  play.textContent = 'pause';
  timer = setInterval(() => { if (now === last) pause(); else show(now + 1); }, wait);
}
slider.max = last;
slider.addEventListener('input', () => { pause(); show(Number(slider.value)); });
play.addEventListener('click', () => { if (timer) pause(); else start(); });
const step = (by) => { pause(); show(now + by); };
document.getElementById('back').addEventListener('click', () => step(-1));
document.getElementById('on').addEventListener('click', () => step(1));
document.addEventListener('keydown', (event) => {
  if (event.target === slider) return;
  if (event.key === 'ArrowLeft') step(-1);
  if (event.key === 'ArrowRight') step(1);
});
document.getElementById('controls').hidden = false;
show(0);
"""
_STYLE = """
body { margin: 0; color: #22272e; font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 1.6rem 1.4rem; }
h1 { font-size: 1.4rem; margin: 0; }
.quiet { color: #6b7280; font-size: .86rem; }
#controls { position: sticky; top: 0; background: #fff; padding: .6rem 0; display: flex;
  gap: .5rem; }
#controls[hidden], .turn[hidden] { display: none; }
#slider { flex: 1; }
button { font: inherit; min-width: 4rem; }
.turn { border-top: 1px solid #e5e7eb; padding-top: .6rem; }
.picture { overflow-x: auto; }
img { max-width: max(100%, 580px); border: 1px solid #e5e7eb; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; font-size: .88rem; }
td, th { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid #e5e7eb; overflow-wrap: anywhere; }
th { color: #6b7280; font-weight: 500; }
.seat { width: min(11rem, 24%); } .reward { width: 5rem; text-align: right; }
.said { white-space: pre-wrap; display: block; max-height: 14rem; overflow-y: auto; }
.heard { color: #6b7280; border-left: 3px solid #e5e7eb; padding-left: .5rem; }
.reason { color: #b42318; font-size: .8rem; }
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src 'unsafe-inline'; script-src 'sha256-{hash}'">
<title>{title}</title>
<style>{style}</style>
</head>
<body data-wait="{wait}"><main>
<h1>{title}</h1>
<p class="quiet">{summary}</p>
<div id="controls" hidden><button id="play">play</button><button id="back">back</button>
<button id="on">on</button><input id="slider" type="range" min="0" value="0" aria-label="turn">
</div>
{turns}
</main><script>{script}</script></body>
</html>
"""
_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()


def write_gif(frames: Iterable[np.ndarray], path: Path, seconds: float) -> Path:
    """Write an animated GIF that shows each frame (uint8, height x width x 3) for `seconds`, and
    the last one longer, before it begins anew.

    Raises PlotsError where Pillow is not installed, and RunFolderError where the system refuses.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise PlotsError(
            'an animated GIF needs Pillow: pip install "core-srl[plots]"; a name that ends in '
            ".html needs nothing"
        ) from error

    images = (Image.fromarray(frame).quantize() for frame in _held_at_the_end(frames))
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


def _held_at_the_end(frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    for frame in frames:
        yield frame
    for _ in range(END_FRAMES - 1):  # equal frames are one that stands longer
        yield frame


def write_html(
    episode: Episode,
    frames: Iterable[np.ndarray],
    path: Path,
    seconds: float,
    *,
    first: int = 0,
    view: TextView | None = None,
) -> Path:
    """Write a page that plays the frames, with what every seat said and did beside each.

    `frames` are those of the turns from `first` on, 0 being the start before any turn; `view` puts
    the actions of seats that do not write into words. Raises RunFolderError where the system
    refuses.
    """
    returns = ", ".join(f"{seat} {total:.4g}" for seat, total in episode.returns().items())
    summary = f"Seed {episode.seed}, {len(episode.turns)} turns. Returns: {returns}."
    if episode.failure is not None:
        summary += f" The episode failed: {_cut(episode.failure)}"
    shown = "\n".join(
        _turn(episode, number, frame, view) for number, frame in enumerate(frames, start=first)
    )
    text = _PAGE.format(
        hash=_HASH, title=escaped(episode.environment), style=_STYLE, summary=escaped(summary),
        turns=shown, script=_SCRIPT, wait=round(1000 * seconds),
    )  # fmt: skip
    return write(text, path)


def _turn(episode: Episode, number: int, frame: np.ndarray, view: TextView | None) -> str:
    steps = episode.turns[number - 1] if number else ()
    picture = base64.b64encode(png(frame)).decode()
    rows = "\n".join(_row(episode, step, view) for step in steps)
    words = (
        '<table><thead><tr><th class="seat">seat</th><th>said</th><th>did</th>'
        f'<th class="reward">reward</th></tr></thead><tbody>{rows}</tbody></table>'
    )
    title = f"Turn {number} of {len(episode.turns)}" if number else "The start"
    return (
        f'<section class="turn"><p class="quiet">{title}</p>'
        f'<div class="picture"><img alt="{title}" src="data:image/png;base64,{picture}"></div>'
        f"{words if steps else ''}"
        "</section>"
    )


def _row(episode: Episode, step: AgentStep, view: TextView | None) -> str:
    decision = step.decision
    said = "".join(
        f'<div class="heard">heard {escaped(speaker)}: <bdi>{escaped(_cut(words))}</bdi></div>'
        for speaker, words in step.heard
    )
    if decision.text is not None:
        said += f'<bdi class="said">{escaped(_cut(decision.text))}</bdi>'
    did = escaped(_cut(_in_words(step.agent, decision.action, view)))
    if decision.parse_failure is not None:
        reason = escaped(_cut(decision.parse_failure))
        did += f'<div class="reason">the default: <bdi>{reason}</bdi></div>'
    who = escaped(_cut(episode.seats.get(step.agent, "")))
    return (
        f'<tr><td>{escaped(step.agent)}<div class="quiet">{who}</div></td><td>{said}</td>'
        f'<td>{did}</td><td class="reward">{step.reward:.4g}</td></tr>'
    )


def _in_words(agent: str, action: Any, view: TextView | None) -> str:
    if view is not None and isinstance(action, (int, np.integer)):
        return view.answers(agent)[int(action)]
    return str(action)


def _cut(text: str) -> str:
    left = len(text) - SHOWN_CHARACTERS
    return text if left <= 0 else f"{text[:SHOWN_CHARACTERS]} […{left} more characters]"


def png(frame: np.ndarray) -> bytes:
    """The frame (uint8, height x width x 3) as a PNG file (ISO/IEC 15948), with zlib alone: so a
    page can be made from the base install."""
    height, width, _ = frame.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter: 0, none
    lines[:, 1:] = frame.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB, not interlaced
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunks(chunks))


def _chunks(chunks: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    for kind, data in chunks:
        check = zlib.crc32(kind + data)
        yield struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

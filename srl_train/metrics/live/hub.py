"""Hub of all feeds: reads what is watched, as often as there is a reader, and publishes it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from srl_train.metrics.live import documents
from srl_train.metrics.live.feed import Feed
from srl_train.metrics.live.folders import Folders
from srl_train.metrics.live.follower import Follower
from srl_train.metrics.live.watched_run import WatchedRun
from srl_train.metrics.report.document import Block, Document, plain
from srl_train.metrics.report.interactions import interactions

OVERVIEW = ""
"""The feed of all runs side by side; the others have their runs' names."""
POLL, LOOK = 0.25, 2.0
"""Seconds between two looks at files, and at folders for new runs."""
PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between two versions of a document at least, and at most where making one takes long."""
GRAPHS = 20.0
"""Seconds from one measurement of interactions to the next at least: it plays games again."""
SHARE = 0.1
"""Of one core that the making of a document, and looking for new runs, may take."""
KEPT = 120.0
"""Seconds that a document without readers is kept for those who come back."""


class Hub:
    """The feeds of the runs in several folders. Nothing is read while nobody watches."""

    def __init__(self, given: Sequence[Path], *, trusted: bool = False) -> None:
        self.trusted = trusted
        self.ended = False
        self.folders = Folders(given)
        self._feeds: dict[str, Feed] = {OVERVIEW: Feed()}
        self._looked = self._looking = 0.0
        self._took: dict[str, float] = {}
        self._graphs: dict[str, tuple[tuple[Path, ...], Sequence[Block]]] = {}
        self._measuring: asyncio.Task[None] | None = None
        self._measured = -GRAPHS
        self._shown: dict[str, list[object]] = {}

    def feed(self, name: str) -> Feed | None:
        """A run's feed, or the overview's; None where there is no such run."""
        if name != OVERVIEW and name not in self.folders.runs:
            return None
        return self._feeds.setdefault(name, Feed())

    @property
    def readers(self) -> int:
        """Of all feeds."""
        return sum(feed.readers for feed in self._feeds.values())

    def quiet_for(self, name: str) -> float:
        """Seconds since a file was written that the feed tells of."""
        written = (one.changed for one in self._followed(name))
        return max(0.0, time.time() - max(written, default=time.time()))

    def _followed(self, name: str) -> list[Follower]:
        """The runs that the feed tells of; none once newer ones took its run's place."""
        runs = self.folders.runs
        return [one for run, one in runs.items() if name in (OVERVIEW, run)]

    def look(self) -> None:
        """Look for runs that are not known yet."""
        began = time.monotonic()
        self.folders.look()
        self._looked = time.monotonic()
        self._looking = self._looked - began

    @property
    def only_run(self) -> str | None:
        """The name of the one run where a run's folder was given, and nothing else."""
        runs = self.folders.runs
        alone = len(runs) == 1 and len(self.folders.given) == 1
        [name] = runs if alone else [None]
        return name if name and runs[name].folder == self.folders.given[0].absolute() else None

    def end(self) -> None:
        """Send all readers away: the server ends."""
        self.ended = True
        for feed in self._feeds.values():
            feed.end()

    async def keep_up(self) -> None:
        """Read and publish until cancelled."""
        while True:
            behind = False
            for name, feed in list(self._feeds.items()):
                if feed.readers:
                    behind |= await self._serve(name, feed)
                elif not feed.empty and time.monotonic() - feed.left > KEPT:
                    feed.forget()
            await asyncio.sleep(0 if behind else POLL)

    async def _serve(self, name: str, feed: Feed) -> bool:
        """Publish what is new; whether there is more to read right now."""
        if time.monotonic() - self._looked > max(LOOK, self._looking / SHARE):
            await asyncio.to_thread(self.look)
        watched = self._followed(name)
        for follower in watched:
            await asyncio.to_thread(follower.refresh)
        # Of runs that are there: one that goes changes its overview.
        versions: list[object] = [one.version if one.there else -1 for one in watched]
        if name in self.folders.runs:
            versions.append(self._graphs_of(name))
        pause = min(LONGEST_PAUSE, max(PAUSE, self._took.get(name, 0.0) / SHARE))
        news = versions != self._shown.get(name) and time.monotonic() - feed.built > pause
        if feed.empty or news:
            began = time.monotonic()
            feed.publish(await asyncio.to_thread(lambda: plain(self._document(name))))
            feed.built = time.monotonic()
            self._shown[name], self._took[name] = versions, feed.built - began
        return any(follower.behind for follower in watched)

    def _graphs_of(self, name: str) -> tuple[Path, ...]:
        """The files that the run's graphs were measured from; they are measured anew, apart from
        all else, where there are others by now."""
        run = self.folders.runs[name].run()
        files, _ = self._graphs.get(name, ((), ()))
        if self._measuring is not None and self._measuring.done():
            self._measuring.result()  # raises what ended it
            self._measuring = None
        due = time.monotonic() - self._measured > GRAPHS
        if run.files != files and self._measuring is None and due:
            self._measuring = asyncio.create_task(self._measure(name, run))
        return files

    async def _measure(self, name: str, run: WatchedRun) -> None:
        try:
            found = await asyncio.to_thread(interactions, run, trusted=self.trusted)
        except FileNotFoundError:  # the run was removed just now
            found = []
        self._graphs[name] = run.files, found
        self._measured = time.monotonic()

    def _document(self, name: str) -> Document:
        known = self.folders.runs
        if name == OVERVIEW:
            runs = {run: follower.run() for run, follower in known.items() if follower.there}
            return documents.overview(runs, self.folders.given, self.folders.left_out)
        follower, (_, graphs) = known.get(name), self._graphs.get(name, ((), ()))
        if follower is None or not follower.there:
            return documents.gone(name)
        return documents.of_run(name, follower.run(), graphs, trusted=self.trusted)

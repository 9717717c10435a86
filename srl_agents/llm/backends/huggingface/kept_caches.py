"""Kept key-value caches of one backend: whose they are, how large, and what goes where they are
too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srl_agents.llm.backends.huggingface.kv_cache import CacheHandle, KeptCache


@dataclass(frozen=True)
class CacheUse:
    """What is kept now, and what keeping it saved so far."""

    conversations: int
    """Whose caches are kept."""
    tokens: int
    """Places that are kept, padding of the batches included."""
    nbytes: int
    """Bytes of the keys and values."""
    asked: int
    """Tokens of all contexts so far."""
    reused: int
    """Of these, how many were in a kept cache and not read again."""
    dropped: int
    """Conversations whose cache went because too much was kept."""


class KeptCaches:
    """Which conversation has which row of which cache, the longest unused first.

    Conversations that were answered in one batch share a cache, which goes as a whole: what was
    dropped is read again at the conversation's next turn.
    """

    def __init__(self) -> None:
        self.most_tokens: int | None = None
        """Places that are kept at most; None keeps all that is in play."""
        self.most_bytes: int | None = None
        """The same in bytes."""
        self._handles: dict[int, CacheHandle] = {}
        self._asked = self._reused = self._dropped = 0

    def of(self, conversation: int | None) -> CacheHandle | None:
        """The conversation's place; None where nothing of it is kept."""
        return None if conversation is None else self._handles.get(conversation)

    def count(self, contexts: Sequence[Sequence[int]], kept: KeptCache | None) -> None:
        """A batch with these contexts is answered, going on from `kept` where there is one."""
        self._asked += sum(map(len, contexts))
        self._reused += 0 if kept is None else sum(map(len, kept.read))

    def keep(self, conversations: Sequence[int | None], kept: KeptCache) -> None:
        """The conversations' newest places; then the longest unused go while it is too much."""
        for conversation, handle in zip(conversations, kept.handles(), strict=True):
            if conversation is not None:
                self._handles.pop(conversation, None)
                self._handles[conversation] = handle
        while self._too_much():
            there = list(self._handles.items())
            gone = [one for one, handle in there if handle.kept is there[0][1].kept]
            for one in gone:
                self.release(one)
            self._dropped += len(gone)

    def release(self, conversation: int) -> None:
        """Its place may go."""
        self._handles.pop(conversation, None)

    def clear(self) -> None:
        """Nothing is kept any more."""
        self._handles.clear()

    def use(self) -> CacheUse:
        """What is kept, and what it saved."""
        # A conversation may be released in another thread meanwhile: hence the copy.
        handles = list(self._handles.values())
        caches = {id(handle.kept): handle.kept for handle in handles}.values()
        return CacheUse(
            len(handles),
            sum(cache.tokens for cache in caches),
            sum(cache.nbytes for cache in caches),
            self._asked,
            self._reused,
            self._dropped,
        )

    def _too_much(self) -> bool:
        if self.most_tokens is None and self.most_bytes is None:
            return False
        use = self.use()
        limits = ((use.tokens, self.most_tokens), (use.nbytes, self.most_bytes))
        return use.conversations > 0 and any(most is not None and n > most for n, most in limits)

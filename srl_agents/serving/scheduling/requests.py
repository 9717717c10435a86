"""Requests to model servers, and counts of what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from srl_agents.errors import BackendError

M = TypeVar("M")


@dataclass(frozen=True)
class Task:
    """What scheduling knows of a request."""

    owner: str
    """The model that it is for, among whose fellows capacity is shared."""
    cost: int = 1
    """Its size in tokens: what shares and loads are counted in."""
    base: str = ""
    """The base model that it needs; only servers of that base get it."""
    prefix: Hashable = None
    """Equal for requests that begin alike, such as the turns of a conversation: they go to one
    server, which has the beginning cached. None: nothing to find there."""


@dataclass
class OwnerStats:
    """What became of an owner's requests: all that came are in exactly one of the counts."""

    queued: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    """Raised an error, those that waited too long among them."""
    cancelled: int = 0
    """Given up by whoever asked."""
    refused: int = 0
    """Came when the queue was full."""
    moved: int = 0
    """Moves from a server that went down; counted beside the others."""
    tokens: int = 0
    """Costs of what is done, in sum."""
    waited: float = 0.0
    """Seconds in the queue, in sum over what has left it."""
    longest_wait: float = 0.0
    """Seconds that one request was in the queue, all its moves together."""
    score: float | None = None


@dataclass
class ServerStats:
    """What a server has done so far."""

    base: str
    up: bool = True
    running: int = 0
    """Requests under way; the others are counts since the server was added."""
    done: int = 0
    failed: int = 0
    moved: int = 0
    """Requests that went to another server, or back to the queue, when this one went down."""
    tokens: int = 0
    """Costs of what is done, in sum."""
    prefix_hits: int = 0
    """Requests that came back to where their prefix was."""
    prefix_misses: int = 0
    """Requests whose prefix was on another server."""


@dataclass(frozen=True)
class SchedulerStats:
    """A copy of the counts, by the names of servers and owners."""

    servers: Mapping[str, ServerStats]
    owners: Mapping[str, OwnerStats]


@dataclass(eq=False, kw_only=True)
class Request(Generic[M]):
    """A task on its way."""

    task: Task
    passed_over: int = 0
    """How often a younger one of its owner went first."""
    turn: asyncio.Future[M] = field(init=False)
    """Done when it is sent somewhere."""
    queued: bool = False
    since: float = 0.0
    """When it was last queued."""
    waited: float = 0.0
    charge: float = 0.0
    moves: int = 0
    trouble: BackendError | None = None
    """Why it was moved last."""

"""Placement of model bases: which GPUs, port and memory each of their servers gets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from srl_agents.errors import PlacementError
from srl_agents.serving.gpus import Gpu

GIB = 2**30
GPU_OVERHEAD_GIB = 3.0
"""Of each process on a GPU beside weights, adapters and cache: CUDA's own, activations, graphs. An
allowance: the server measures what it takes itself, and refuses to start where it is not enough."""
CPU_OVERHEAD_GIB = 2.0
"""The same of a process on a CPU; 1.9 were measured with a tiny model."""
CPU_CACHE_GIB = 1.0
"""Keys and values of a server on a CPU, where its context needs no more."""


@dataclass(frozen=True)
class ModelNeeds:
    """A base model that is to be served, with what of it takes memory."""

    name: str
    weights_gib: float
    context: int
    """Tokens of the longest conversation; a server's cache holds at least one of these."""
    token_bytes: int
    """Of keys and values: 2 x layers x key-value heads x head size x bytes of a number."""
    heads: int = 1
    """Attention heads, which the GPUs of one server share out evenly."""
    key_value_heads: int = 1
    adapter_slots: int = 0
    adapter_gib: float = 0.0
    """Of one slot, at the highest rank."""
    replicas: int = 1
    """Servers of it."""

    @property
    def cache_gib(self) -> float:
        """Keys and values of one longest conversation."""
        return self.context * self.token_bytes / GIB

    @property
    def adapters_gib(self) -> float:
        """All slots."""
        return self.adapter_slots * self.adapter_gib

    def needs_gib(self, gpus: int) -> float:
        """Memory that one server takes at least, of each of so many GPUs."""
        # Where there are more GPUs than key-value heads, these are copied.
        cache = self.cache_gib / min(gpus, self.key_value_heads)
        return (self.weights_gib + self.adapters_gib) / gpus + cache + GPU_OVERHEAD_GIB

    def shares(self, gpus: int) -> bool:
        """Whether vLLM can share it out over so many GPUs."""
        if gpus & (gpus - 1):  # the widths of its layers divide by powers of two, as a rule
            return False
        fewer, more = sorted((gpus, self.key_value_heads))
        return self.heads % gpus == 0 and more % fewer == 0


@dataclass(frozen=True)
class Plan:
    """Where one server goes."""

    base: str
    port: int
    gpus: tuple[int, ...]
    """Indices; several share the model out (tensor parallelism), none is the CPU."""
    memory_fraction: float | None
    """Of each of its GPUs' memory, for everything; None on a CPU."""
    cache_gib: float | None
    """Keys and values on a CPU; None on GPUs, where it is what else leaves of the fraction."""
    adapter_slots: int


def place(
    bases: Sequence[ModelNeeds],
    gpus: Sequence[Gpu],
    ports: Sequence[int],
    *,
    cpu_memory_gib: float,
    fraction: float = 0.9,
) -> list[Plan]:
    """A plan for each server, in the order of the bases; on the CPU where there are no GPUs.

    The largest go first, each onto as few GPUs as it fits on, those with the most memory left; if
    that fails, those that it fills best. What nobody needs of a GPU's memory, up to `fraction` of
    it all, is shared by the servers on it, as larger caches. `cpu_memory_gib` is what servers may
    take where they run on the CPU.

    Raises PlacementError, naming what does not fit and what would help.
    """
    _check(bases, ports, fraction)
    if not gpus:
        return _on_cpu(bases, ports, cpu_memory_gib)
    room = {gpu: min(fraction * gpu.memory_gib, gpu.free_gib) for gpu in gpus}
    servers = [number for number, base in enumerate(bases) for _ in range(base.replicas)]
    try:
        places = _packed(bases, servers, room, spread=True)
    except PlacementError:
        places = _packed(bases, servers, room, spread=False)
    fractions = _fractions([bases[number] for number in servers], places, room)
    return [
        Plan(
            base=bases[number].name,
            port=port,
            gpus=tuple(gpu.index for gpu in place),
            memory_fraction=part,
            cache_gib=None,
            adapter_slots=bases[number].adapter_slots,
        )
        for number, port, place, part in zip(servers, ports, places, fractions, strict=False)
    ]


def _check(bases: Sequence[ModelNeeds], ports: Sequence[int], fraction: float) -> None:
    names = [base.name for base in bases]
    if len(set(names)) < len(names):
        raise PlacementError(f"bases need different names, got {', '.join(names)}: use replicas")
    servers = sum(base.replicas for base in bases)
    if servers > len(ports) or len(set(ports)) < len(ports):
        raise PlacementError(
            f"{servers} servers need as many different ports, got {len(set(ports))}: give more "
            "ports, or fewer replicas"
        )
    if not 0 < fraction <= 1:
        raise PlacementError(f"fraction must be above 0 and at most 1, got {fraction}")


def _on_cpu(bases: Sequence[ModelNeeds], ports: Sequence[int], memory_gib: float) -> list[Plan]:
    caches = {base.name: max(base.cache_gib, CPU_CACHE_GIB) for base in bases}
    needs = {
        base.name: base.weights_gib + base.adapters_gib + caches[base.name] + CPU_OVERHEAD_GIB
        for base in bases
    }
    if (total := sum(needs[base.name] * base.replicas for base in bases)) > memory_gib:
        each = ", ".join(f"{base.replicas} x {base.name} {needs[base.name]:.1f}" for base in bases)
        raise PlacementError(
            f"{total:.1f} GiB of memory are needed ({each}) and {memory_gib:.1f} are free: serve "
            "fewer replicas or smaller bases, a shorter context, or on a machine with GPUs"
        )
    servers = [base for base in bases for _ in range(base.replicas)]
    return [
        Plan(base.name, port, (), None, caches[base.name], base.adapter_slots)
        for base, port in zip(servers, ports, strict=False)
    ]


def _packed(
    bases: Sequence[ModelNeeds], servers: Sequence[int], room: Mapping[Gpu, float], *, spread: bool
) -> list[tuple[Gpu, ...]]:
    """The GPUs of each server."""
    left = dict(room)
    places: list[tuple[Gpu, ...]] = [()] * len(servers)
    largest_first = sorted(range(len(servers)), key=lambda one: -bases[servers[one]].needs_gib(1))
    for server in largest_first:
        base = bases[servers[server]]
        for count, group in _groups(base, list(left)):
            need = base.needs_gib(count)
            fitting = [gpu for gpu in group if left[gpu] >= need]
            if len(fitting) >= count:
                fitting.sort(key=lambda gpu: (-left[gpu] if spread else left[gpu], gpu.index))
                places[server] = tuple(sorted(fitting[:count], key=lambda gpu: gpu.index))
                break
        else:
            raise _does_not_fit(base, left)
        for gpu in places[server]:
            left[gpu] -= need
    return places


def _groups(base: ModelNeeds, gpus: Sequence[Gpu]) -> Iterator[tuple[int, list[Gpu]]]:
    """Numbers of GPUs that a base can be shared out over, and GPUs of one size for each.

    A server takes the same fraction of each of its GPUs.
    """
    for count in range(1, len(gpus) + 1):
        if base.shares(count):
            if count == 1:
                yield 1, list(gpus)
                continue
            for size in sorted({gpu.memory_gib for gpu in gpus}, reverse=True):
                yield count, [gpu for gpu in gpus if gpu.memory_gib == size]


def _fractions(
    servers: Sequence[ModelNeeds], places: Sequence[tuple[Gpu, ...]], room: Mapping[Gpu, float]
) -> list[float]:
    """Of their GPUs' memory: what each server needs and its part of what nobody needs."""
    needs = [base.needs_gib(len(place)) for base, place in zip(servers, places, strict=True)]
    on = {gpu: [one for one, place in enumerate(places) if gpu in place] for gpu in room}
    spare = {
        gpu: (room[gpu] - sum(needs[one] for one in ones)) / len(ones)
        for gpu, ones in on.items()
        if ones
    }
    return [
        # Rounded down, so that their sum stays within the room.
        math.floor((need + min(spare[gpu] for gpu in place)) / place[0].memory_gib * 1e4) / 1e4
        for need, place in zip(needs, places, strict=True)
    ]


def _does_not_fit(base: ModelNeeds, left: Mapping[Gpu, float]) -> PlacementError:
    """What is missing for a base, on the number of GPUs where the least is."""
    missing, count = min(
        (
            base.needs_gib(count) - sorted((left[gpu] for gpu in group), reverse=True)[count - 1],
            count,
        )
        for count, group in _groups(base, list(left))
        if len(group) >= count
    )
    cache = base.cache_gib / min(count, base.key_value_heads)
    adapters = base.adapters_gib / count
    helps = []
    if cache > missing:
        context = math.floor(base.context * (1 - missing / cache))
        helps.append(f"a context of at most {context} tokens")
    if adapters > missing:
        helps.append(f"at most {math.floor(base.adapter_slots * (1 - missing / adapters))} slots")
    if base.replicas > 1:
        helps.append("fewer replicas")
    helps.append("fewer bases, weights of fewer bits, or more or larger GPUs")
    room = ", ".join(f"GPU {gpu.index} {free:.1f}" for gpu, free in left.items())
    return PlacementError(
        f"base {base.name!r} needs {base.needs_gib(count):.1f} GiB on each of {count} GPU(s) "
        f"({base.weights_gib:.1f} of weights, {base.cache_gib:.1f} of cache for {base.context} "
        f"tokens and {base.adapters_gib:.1f} of adapters in all), and left are {room}; what would "
        f"help: {'; '.join(helps)}"
    )

"""Registry of environments: name, constructor and a one-line summary of each.

Importing this module registers the environments with PettingZoo (from 1.27):
`pettingzoo.make("parallel", "srl/coop_compete-v0")`, and games for one agent with Gymnasium:
`gymnasium.make("srl_envs:srl/Maze-v0")`. The module of a game is imported by `make`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, ModuleType
from typing import Any

import gymnasium
import pettingzoo
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import AssertOutOfBoundsWrapper, OrderEnforcingWrapper
from pettingzoo.utils.conversions import parallel_to_aec_wrapper

from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.tables import Plugin, PluginTable
from srl_envs.validation import nearest

HANDED_OVER = "custom"
"""Scheme in records of environments that were objects. They cannot be made by name."""

SERVED = "grpc://"
ENV_SCHEMES = PluginTable(
    "core_srl.env_schemes",
    {
        "grpc": Plugin("srl_extensions.remote.client:from_url", "an environment on a server"),
        "openspiel": Plugin("srl_extensions.bridges.openspiel:parallel_env", "a game of OpenSpiel"),
        "textarena": Plugin("srl_extensions.bridges.textarena:parallel_env", "a game of TextArena"),
    },
)
"""Functions (name, **parameters) -> environment, by the scheme of the name."""


@dataclass(frozen=True)
class Entry(Plugin):
    """Environment of the registry. `target` is 'module:parallel_env', its constructor."""

    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Keyword arguments of `target`, which those of a call override."""
    turns_to_remember: int | None = None
    """`max_cycles` for language models, if the game's default is too long for a conversation."""
    array_form: str | None = None
    """'module:class' of the ArrayGame, or None to step single environments."""
    gymnasium_id: str | None = None
    """Name in Gymnasium's registry, for games with one agent by default."""
    extras: tuple[str, ...] = ()
    """Extras that must be installed to make the environment with its defaults."""

    @property
    def module(self) -> str:
        """Name of the module that defines the environment."""
        return str(self.target).partition(":")[0]


def _maze(summary: str, **defaults: Any) -> Entry:
    alone = "num_agents" not in defaults
    layout = defaults.get("layout", "").capitalize()
    return Entry(
        "srl_envs.games.maze:parallel_env",
        summary,
        defaults=MappingProxyType(defaults),
        array_form="srl_envs.games.array_forms:VectorMaze",
        gymnasium_id=f"srl/Maze{layout}-v0" if alone else None,
    )


def _hidden(module: str, summary: str, **defaults: Any) -> Entry:
    return Entry(
        f"srl_envs.games.{module}:parallel_env",
        summary,
        defaults=MappingProxyType({"split": "train", "max_cycles": 16, **defaults}),
        turns_to_remember=8,
    )


OWN: dict[str, Entry] = {
    "coop_compete_v0": Entry(
        "srl_envs.games.coop_compete:parallel_env",
        "n agents cooperate or compete at once; each choice pays if others make it too",
        turns_to_remember=8,
        array_form="srl_envs.games.array_forms:VectorCoopCompete",
    ),
    "coop_compete_pair_v0": Entry(
        "srl_envs.games.coop_compete:parallel_env",
        "benchmark game for two agents: equal choices pay, different ones cost both 0.1",
        defaults=MappingProxyType({"variant": "pair", "num_agents": 2}),
        turns_to_remember=8,
        array_form="srl_envs.games.array_forms:VectorCoopCompete",
    ),
    "coop_compete_v1": _hidden(
        "coop_compete", "coop_compete_v0 with a hidden cooperation level, drawn every episode"
    ),
    "coop_compete_pair_v1": _hidden(
        "coop_compete",
        "coop_compete_pair_v0 with a hidden cooperation level, drawn every episode",
        variant="pair",
        num_agents=2,
    ),
    "team_battle_v0": Entry(
        "srl_envs.games.team_battle:parallel_env",
        "two teams: cooperating pays the team, competing pays more if rivals cooperate",
        turns_to_remember=8,
        array_form="srl_envs.games.array_forms:VectorTeamBattle",
    ),
    "team_battle_v1": _hidden(
        "team_battle", "team_battle_v0 with drawn teams; cooperation helps or hurts, hidden"
    ),
    "staged_v0": Entry(
        "srl_envs.games.staged:parallel_env",
        "equal rewards in warm-up episodes, then different ones, with some adversaries",
        turns_to_remember=8,
    ),
    "staged_v1": _hidden(
        "staged", "staged_v0 with drawn adversaries; cooperation helps or hurts, which is hidden"
    ),
    "bandit_v0": Entry(
        "srl_envs.games.bandit:parallel_env",
        "two-armed bandit; one arm changes during an episode",
        turns_to_remember=64,
        gymnasium_id="srl/Bandit-v0",
    ),
    "bandit_v1": Entry(
        "srl_envs.games.bandit:parallel_env",
        "two-armed bandit with hidden chances and change, drawn every episode",
        defaults=MappingProxyType({"split": "train", "max_cycles": 64}),
        # Gymnasium calls Bandit-v0 outdated if there is a Bandit-v1.
        gymnasium_id="srl/HiddenBandit-v1",
    ),
    "maze_v0": _maze("find the way to the goal, in a new maze every episode"),
    **{
        f"maze_{layout}_v0": _maze(
            f"find the way to the goal of a fixed {size} maze", layout=layout
        )
        for layout, size in (("simple", "5x5"), ("medium", "7x7"), ("complex", "10x10"))
    },
    **{
        f"maze_{task}_v0": _maze(summary, task=task, num_agents=2)
        for task, summary in (
            ("race", "two agents in one maze: the first at the goal wins"),
            ("own", "two agents in one maze, one goal each; both must arrive"),
            ("meet", "two agents in one maze: meet in any cell"),
        )
    },
    "social_v0": Entry(
        "srl_envs.games.social:parallel_env",
        "trading or negotiation (`scenario`) under one name",
    ),
    "social_trading_v0": Entry(
        "srl_envs.games.trading:parallel_env",
        "traders offer, accept and deliver goods with private values",
    ),
    "social_negotiation_v0": Entry(
        "srl_envs.games.negotiation:parallel_env",
        "agents with private preferences settle several issues before a deadline",
    ),
    "math_v0": Entry(
        "srl_envs.tasks.mathematics:parallel_env",
        "mathematics questions, generated or from a file",
        gymnasium_id="srl/Math-v0",
    ),
    "code_v0": Entry(
        "srl_envs.tasks.programming:parallel_env",
        "programming problems, generated or from a file, tested in a sandbox",
        gymnasium_id="srl/Code-v0",
        extras=("sandbox",),
    ),
    "tool_use_v0": Entry(
        "srl_envs.tasks.tool_use.env:parallel_env",
        "questions that require tools: a calculator, files, search, Python, or your own",
        gymnasium_id="srl/ToolUse-v0",
        extras=("tasks",),
    ),
    "debate_v0": Entry(
        "srl_envs.tasks.debate:parallel_env",
        "two agents argue for and against a motion; a judge scores them",
    ),
    "multitask_v0": Entry(
        "srl_envs.tasks.multitask:parallel_env",
        "several environments as one; each episode is of one of them",
        gymnasium_id="srl/Multitask-v0",
        extras=("tasks", "sandbox"),
    ),
}
ENVS = PluginTable("core_srl.envs", OWN)
"""All environments: those of this package, then those of installed packages."""


def as_module(name: str) -> ModuleType:
    """Return a new module with functions `parallel_env`, `env` and `raw_env` of an environment.

    `env` makes an AECEnv with checks, `raw_env` one without. Raises EnvConfigError if unknown.
    """
    module = ModuleType(f"srl_envs.{name}", entry(name).summary)
    module.__dict__.update(
        parallel_env=functools.partial(make, name),
        env=functools.partial(make_aec, name),
        raw_env=functools.partial(_unchecked_aec, name),
    )
    return module


def names() -> tuple[str, ...]:
    """Return the names of all environments: first this package's, then those of plugins."""
    return tuple(ENVS)


def entry(name: str) -> Entry:
    """Return the registry's Entry of environment `name`; raise EnvConfigError if it is unknown."""
    if not isinstance(name, str) or name not in ENVS:
        schemes = ", ".join(f"{scheme}:" for scheme in ENV_SCHEMES)
        others = f", or a name that begins with {schemes} or MODULE:"
        raise EnvConfigError(f"there is no environment {name!r}{nearest(name, ENVS)}{others}")
    return ENVS[name]


def as_conversations(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `options` with the game's `turns_to_remember`, if any, as `max_cycles`.

    Options that already contain `max_cycles` are not changed. If `options` contains `environments`
    (multitask_v0), each member's options are completed in this way instead. For a name on a
    server ('grpc://HOST:PORT/NAME'), the local game NAME counts. Unknown names add nothing.
    """
    members = options.get("environments")
    if isinstance(members, Mapping) and "max_cycles" not in options:
        shorter = {
            label: {**one, "options": as_conversations(one["name"], one.get("options") or {})}
            if isinstance(one, Mapping) and _turns_to_remember(one.get("name")) is not None
            else one
            for label, one in members.items()
        }
        return {**options, "environments": shorter}
    turns = _turns_to_remember(name)
    return dict(options) if turns is None else {"max_cycles": turns, **options}


def _turns_to_remember(name: Any) -> int | None:
    found = ENVS.get(served_name(name)) if isinstance(name, str) else None
    return None if found is None else found.turns_to_remember


def make(name: str, /, **parameters: Any) -> Any:
    """Make a PettingZoo ParallelEnv; set its `made_as` to {"name": name, "options": parameters}.

    Args:
        name: Name in the registry, 'module:function' of a function that returns a ParallelEnv, or a
            name with a scheme of ENV_SCHEMES, such as 'grpc://host:port/name'.
        **parameters: Keyword arguments of the environment.

    Raises:
        EnvConfigError: The name or a parameter is unknown, a value is not allowed, or the name
            makes no ParallelEnv.
        EnvError: A server cannot be reached or refuses the request.
        ImportError: A package that the environment needs is missing.
    """
    constructor: Callable[..., Any]
    defaults: dict[str, Any] = {}
    scheme, colon, _ = name.partition(":") if isinstance(name, str) else ("", "", "")
    if colon and scheme in ENV_SCHEMES:
        constructor = functools.partial(ENV_SCHEMES.load(scheme), name)
    elif colon:
        if name.startswith(f"{HANDED_OVER}:"):
            raise EnvConfigError(f"there is no environment {name!r}: it was an object (make_env)")
        constructor = loading.code(name)
    else:
        found = entry(name)
        constructor, defaults = found.load(), dict(found.defaults)
    signature, given = inspect.signature(constructor), {**defaults, **parameters}
    accepted = signature.parameters
    if not any(one.kind is one.VAR_KEYWORD for one in accepted.values()):
        for unknown in parameters.keys() - accepted.keys():
            raise EnvConfigError(f"{name} has no parameter {unknown!r}{nearest(unknown, accepted)}")
    try:
        signature.bind(**given)
    except TypeError as error:  # A TypeError raised within the constructor is not caught.
        raise EnvConfigError(f"{name}: {error}") from error
    env = constructor(**given)
    if not isinstance(env, ParallelEnv):
        raise EnvConfigError(f"{name} must return a PettingZoo ParallelEnv, got {env!r}")
    env.made_as = {"name": name, "options": parameters}
    return env


def served_name(name: str) -> str:
    """Return 'name' for 'grpc://host:port/name', and other names unchanged."""
    return name.removeprefix(SERVED).partition("/")[2] if name.startswith(SERVED) else name


def make_aec(name: str, /, **parameters: Any) -> AECEnv:
    """Make an AECEnv, with PettingZoo's checks of each call; arguments and errors as of `make`."""
    return CheckedAECEnv(AssertOutOfBoundsWrapper(_unchecked_aec(name, **parameters)))


class CheckedAECEnv(OrderEnforcingWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """PettingZoo's wrapper that checks the order of calls, with a faster `last`."""

    def last(self, observe: bool = True) -> Any:
        """Return (observation, total reward, termination, truncation, info) of the selected agent.

        The reward is the sum since the agent's last action. Without `observe`, the observation is
        None. Before `reset`, raises AttributeError.
        """
        read: Any = self.env.env.last if self._has_reset else super().last
        return read(observe)

    def __str__(self) -> str:
        return str(self.env)


def _unchecked_aec(name: str, /, **parameters: Any) -> AECEnv:
    # PettingZoo's `parallel_to_aec` would add a second OrderEnforcingWrapper.
    return parallel_to_aec_wrapper(make(name, **parameters))


def remake(
    name: str,
    options: Mapping[str, Any],
    *,
    trusted: bool = False,
    allowing: Collection[str] = (),
    **ours: Any,
) -> Any:
    """Return a new environment with the name and options in a record.

    Unless `trusted`, name and arguments may not refer to code (except `allowing`), files, folders,
    or nested environments on a server. Also unless `trusted`, the size of `options` is limited
    (LARGEST_RECORDED), and an environment that was on a server is made in this process.

    Args:
        name: Name in the record, as for `make`.
        options: Keyword arguments in the record.
        trusted: Allow everything that `make` allows.
        allowing: Names of code ('module:function') that an untrusted record may contain, because
            the user's own settings do.
        **ours: Keyword arguments of the caller, which override those of the record.

    Raises:
        UntrustedError: An untrusted record names more than is allowed.
        EnvConfigError: `options` is no mapping with names as keys. Other errors are as of `make`.
    """
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise EnvConfigError(f"{name}: options must be a mapping of names, got {options!r:.200}")
    if trusted:
        return make(name, **{**options, **ours})
    name = served_name(name) if isinstance(name, str) else name
    loading.refuse_large(options)
    with loading.closed(allowing):
        return make(name, **{**options, **ours})


def _register() -> None:
    for name, found in OWN.items():
        identity = f"srl/{name}".replace("_v", "-v")
        for kind, maker in (("parallel", make), ("aec", make_aec)):
            # PettingZoo has a registry from 1.27.
            if identity not in getattr(pettingzoo, f"{kind}_registry", (identity,)):
                pettingzoo.register(kind, identity, functools.partial(maker, name))
        if found.gymnasium_id is not None and found.gymnasium_id not in gymnasium.registry:
            entry_point = "srl_envs.wrappers:single_agent_env"
            gymnasium.register(found.gymnasium_id, entry_point, kwargs={"name": name})


_register()

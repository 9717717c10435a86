"""Registry of environments: name, constructor and one line about each.

Importing this module registers them with PettingZoo (from 1.27): `pettingzoo.make("parallel",
"srl/coop_compete-v0")`, and games for one agent with Gymnasium:
`gymnasium.make("srl_envs:srl/Maze-v0")`. A game is imported when it is made.
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
from pettingzoo.utils import AssertOutOfBoundsWrapper, OrderEnforcingWrapper, parallel_to_aec

from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.tables import Plugin, PluginTable
from srl_envs.validation import nearest, refuse_unknown

HANDED_OVER = "custom"
"""Scheme of recorded environments that were objects, which no name restores."""

SERVED = "grpc://"
ENV_SCHEMES = PluginTable(
    "core_srl.env_schemes",
    {"grpc": Plugin("srl_extensions.remote.client:from_url", "an environment on a server")},
)
"""Scheme of a name -> function of the name and of keyword arguments."""


@dataclass(frozen=True)
class Entry(Plugin):
    """One environment of the registry; `target` is its `parallel_env`."""

    tags: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Arguments of `target` for this entry."""
    turns_to_remember: int | None = None
    """`max_cycles` for language models, if the game's own default is too long for a prompt."""
    array_form: str | None = None
    """'module:class' of the same rules on arrays. None steps single environments."""
    gymnasium_id: str | None = None
    """Name in Gymnasium's registry, for games that have one agent by default."""
    extras: tuple[str, ...] = ()
    """Extras that must be installed to make the environment with its defaults."""

    @property
    def module(self) -> str:
        """Name of the module that defines the environment."""
        return str(self.target).partition(":")[0]


def _maze(summary: str, *tags: str, **defaults: Any) -> Entry:
    alone = "num_agents" not in defaults
    layout = defaults.get("layout", "").capitalize()
    return Entry(
        "srl_envs.games.maze:parallel_env",
        summary,
        ("maze", *tags, "n-player", "discrete"),
        MappingProxyType(defaults),
        array_form="srl_envs.games.array_forms:VectorMaze",
        gymnasium_id=f"srl/Maze{layout}-v0" if alone else None,
    )


def _documented_maze(layout: str) -> Entry:
    summary = f"find the way through the documented {layout} maze"
    return _maze(summary, "deterministic", "one-player", layout=layout)


OWN: dict[str, Entry] = {
    "coop_compete_v0": Entry(
        "srl_envs.games.coop_compete:parallel_env",
        "n players choose at once to cooperate or compete; each pays when others do it too",
        ("coordination", "n-player", "discrete"),
        turns_to_remember=8,
        array_form="srl_envs.games.array_forms:VectorCoopCompete",
    ),
    "coop_compete_pair_v0": Entry(
        "srl_envs.games.coop_compete:parallel_env",
        "the two-player benchmark game: agreeing pays, disagreeing costs both 0.1",
        ("coordination", "two-player", "discrete", "benchmark"),
        MappingProxyType({"variant": "pair", "num_agents": 2}),
        turns_to_remember=8,
        array_form="srl_envs.games.array_forms:VectorCoopCompete",
    ),
    "team_battle_v0": Entry(
        "srl_envs.games.team_battle:parallel_env",
        "two teams: cooperation pays one's own team, competing pays more when rivals cooperate",
        ("social dilemma", "teams", "n-player", "discrete"),
        turns_to_remember=8,
        array_form="srl_envs.games.array_forms:VectorTeamBattle",
    ),
    "staged_v0": Entry(
        "srl_envs.games.staged:parallel_env",
        "all earn the same at first, then interests part, and some agents are adversaries",
        ("social dilemma", "adversaries", "n-player", "discrete"),
        turns_to_remember=8,
        array_form="srl_envs.games.array_forms:VectorStaged",
    ),
    "bandit_v0": Entry(
        "srl_envs.games.bandit:parallel_env",
        "two arms to pull; after a while one of them gets better",
        ("bandit", "one-player", "n-player", "discrete"),
        turns_to_remember=64,
        array_form="srl_envs.games.array_forms:VectorBandit",
        gymnasium_id="srl/Bandit-v0",
    ),
    "maze_v0": _maze(
        "find the way to the goal, in another maze every episode", "generated", "one-player"
    ),
    "maze_simple_v0": _documented_maze("simple"),
    "maze_medium_v0": _documented_maze("medium"),
    "maze_complex_v0": _documented_maze("complex"),
    "maze_race_v0": _maze(
        "two in one maze: whoever reaches the goal first wins",
        "generated",
        "competition",
        task="race",
        num_agents=2,
    ),
    "maze_own_v0": _maze(
        "two in one maze, each with a goal of its own; it is over when both are there",
        "generated",
        task="own",
        num_agents=2,
    ),
    "maze_meet_v0": _maze(
        "two in one maze: come together in one cell, wherever it is",
        "generated",
        "cooperation",
        task="meet",
        num_agents=2,
    ),
    "social_v0": Entry(
        "srl_envs.games.social:parallel_env",
        "scenario='trading' or 'negotiation': the two games below under their common name",
        ("social", "n-player", "discrete", "talk"),
    ),
    "social_trading_v0": Entry(
        "srl_envs.games.trading:parallel_env",
        "traders offer, accept and deliver goods that each values differently",
        ("social", "market", "n-player", "discrete", "talk", "action masks"),
    ),
    "social_negotiation_v0": Entry(
        "srl_envs.games.negotiation:parallel_env",
        "agents with private points settle several issues before a deadline",
        ("social", "bargaining", "n-player", "discrete", "talk", "action masks"),
    ),
    "math_v0": Entry(
        "srl_envs.tasks.mathematics:parallel_env",
        "questions of mathematics, generated or from a file, with one right answer",
        ("task", "generated", "one-player", "n-player", "free text"),
        gymnasium_id="srl/Math-v0",
    ),
    "code_v0": Entry(
        "srl_envs.tasks.programming:parallel_env",
        "programs to write, generated or from a file, run against tests in a sandbox",
        ("task", "generated", "sandbox", "one-player", "n-player", "free text"),
        gymnasium_id="srl/Code-v0",
        extras=("sandbox",),
    ),
    "tool_use_v0": Entry(
        "srl_envs.tasks.tool_use.env:parallel_env",
        "questions that want tools: a calculator, files, search, Python, or your own",
        ("task", "generated", "one-player", "n-player", "free text", "tools"),
        gymnasium_id="srl/ToolUse-v0",
        extras=("tasks",),
    ),
    "debate_v0": Entry(
        "srl_envs.tasks.debate:parallel_env",
        "one speaks for a motion and one against it, and a judge says who argued better",
        ("debate", "competition", "two-player", "free text", "talk"),
    ),
    "multitask_v0": Entry(
        "srl_envs.tasks.multitask:parallel_env",
        "several of these as one: each episode plays another",
        ("task", "generated", "sandbox", "one-player", "n-player", "free text", "tools"),
        gymnasium_id="srl/Multitask-v0",
        extras=("tasks", "sandbox"),
    ),
}
ENVS = PluginTable("core_srl.envs", OWN)
"""All environments: the ones of this package, then those of installed packages."""


def as_module(name: str) -> ModuleType:
    """Return the entry as a module with `parallel_env`, `env` and `raw_env`, as in PettingZoo."""
    module = ModuleType(f"srl_envs.{name}", entry(name).summary)
    module.__dict__.update(
        parallel_env=functools.partial(make, name),
        env=functools.partial(make_aec, name),
        raw_env=functools.partial(_unchecked_aec, name),
    )
    return module


def array_form(name: str) -> Any | None:
    """Return the class with the rules of `name` on arrays, or None."""
    found = ENVS.get(name)
    if found is None or found.array_form is None:
        return None
    return Plugin(found.array_form).load()


def names() -> tuple[str, ...]:
    """Return all names, in the registry's order."""
    return tuple(ENVS)


def entry(name: str) -> Entry:
    """Return the entry of `name`; raise EnvConfigError with the nearest for an unknown one."""
    if not isinstance(name, str) or name not in ENVS:
        raise EnvConfigError(f"there is no environment {name!r}{nearest(name, ENVS)}")
    return ENVS[name]


def as_conversations(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with a `max_cycles` that a language model can read, if they have none.

    Options of the members of multitask_v0 are treated likewise.
    """
    members = options.get("environments")
    if isinstance(members, Mapping) and "max_cycles" not in options:
        shorter = {
            label: {**one, "options": as_conversations(one["name"], one.get("options") or {})}
            if isinstance(one, Mapping) and _turns(one.get("name")) is not None
            else one
            for label, one in members.items()
        }
        return {**options, "environments": shorter}
    turns = _turns(name)
    return dict(options) if turns is None else {"max_cycles": turns, **options}


def _turns(name: Any) -> int | None:
    found = ENVS.get(served_name(name)) if isinstance(name, str) else None
    return None if found is None else found.turns_to_remember


def make(name: str, /, **parameters: Any) -> Any:
    """Return the environment `name` as a PettingZoo ParallelEnv.

    Args:
        name: A name of the registry, 'module:function' of a user's function that returns a
            ParallelEnv, or a name with a scheme of ENV_SCHEMES, such as 'grpc://host:port/name'.
        **parameters: Keyword arguments, which override the entry's defaults.

    Raises:
        EnvConfigError: The name or a parameter is unknown, or a value is not allowed.
        EnvError: A server refuses.
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
    takes, given = inspect.signature(constructor), {**defaults, **parameters}
    refuse_unknown(name, takes.parameters, parameters)
    try:
        takes.bind(**given)
    except TypeError as error:  # A TypeError of the call itself keeps its traceback.
        raise EnvConfigError(f"{name}: {error}") from error
    env = constructor(**given)
    if not isinstance(env, ParallelEnv):
        raise EnvConfigError(f"{name} gave {env!r}: it must give a PettingZoo ParallelEnv")
    # For records; a user's function may have made the environment here before.
    env.made_within = getattr(env.unwrapped, "made_as", None)
    env.made_as = {"name": name, "options": parameters}
    return env


def served_name(name: str) -> str:
    """Return the server's name of 'grpc://host:port/name'; other names are returned unchanged."""
    is_served = isinstance(name, str) and name.startswith(SERVED)
    return name.removeprefix(SERVED).partition("/")[2] if is_served else name


def make_aec(name: str, /, **parameters: Any) -> AECEnv:
    """Return the environment as a PettingZoo AECEnv with its usual checks; see `make`."""
    return OrderEnforcingWrapper(AssertOutOfBoundsWrapper(_unchecked_aec(name, **parameters)))


def _unchecked_aec(name: str, /, **parameters: Any) -> AECEnv:
    return parallel_to_aec(make(name, **parameters))


def remake(
    name: str,
    options: Mapping[str, Any],
    *,
    trusted: bool = False,
    allowing: Collection[str] = (),
    **ours: Any,
) -> Any:
    """Return the environment that a record names.

    Unless it is `trusted`, a record may name no code but `allowing`, no file and no folder, also
    deeper in `options`, and at most loading.LARGEST_RECORDED. A server's environment is made here.

    Args:
        name: Name in the record, as for `make`.
        options: Options in the record.
        trusted: Allow everything that `make` allows.
        allowing: Names of code in the user's own settings.
        **ours: Options that override those of the record.

    Raises:
        UntrustedError: The record names more than is allowed.
        EnvConfigError: As `make`.
    """
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise EnvConfigError(f"{name}: options are {options!r:.200}: give names with their values")
    if trusted:
        return make(name, **{**options, **ours})
    name = served_name(name)
    loading.refuse_large(options)
    with loading.closed(allowing):
        return make(name, **{**options, **ours})


def _register_with_pettingzoo() -> None:
    if not hasattr(pettingzoo, "register"):  # releases before 1.27 keep no registry
        return
    for name in OWN:
        identity = f"srl/{name}".replace("_v", "-v")
        for kind, maker in (("parallel", make), ("aec", make_aec)):
            if identity not in getattr(pettingzoo, f"{kind}_registry"):
                pettingzoo.register(kind, identity, functools.partial(maker, name))


def _register_with_gymnasium() -> None:
    for name, found in OWN.items():
        identity = found.gymnasium_id
        if identity is not None and identity not in gymnasium.registry:
            entry_point = "srl_envs.wrappers:single_agent_env"
            gymnasium.register(identity, entry_point, kwargs={"name": name})


_register_with_pettingzoo()
_register_with_gymnasium()

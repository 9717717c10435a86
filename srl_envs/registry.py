"""Registry of environments: name, constructor and one line about each.

Importing this module makes them known to PettingZoo's registry too, where it has one (1.27 on):
`pettingzoo.make("parallel", "srl/coop_compete-v0")`, and those for one agent to Gymnasium's:
`gymnasium.make("srl_envs:srl/Maze-v0")`. No game is imported before it is asked for.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any

import gymnasium
import pettingzoo
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import AssertOutOfBoundsWrapper, OrderEnforcingWrapper, parallel_to_aec

from srl_envs.errors import EnvConfigError
from srl_envs.loading import references
from srl_envs.tables import Plugin, PluginTable
from srl_envs.validation import nearest, refuse_unknown

HANDED_OVER = "custom"
"""'custom:...' in a recorded configuration was an object, which no name brings back."""

SERVED = "grpc://"
ENV_SCHEMES = PluginTable(
    "core_srl.env_schemes",
    {"grpc": Plugin("srl_extensions.remote.client:from_url", "an environment on a server")},
)
"""Scheme of a name -> function of the name and the environment's keyword arguments."""


@dataclass(frozen=True)
class Entry:
    """One environment of the registry."""

    name: str
    module: str
    """Holds `parallel_env`."""
    description: str
    tags: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Arguments that make this entry of the module's games."""
    turns_to_remember: int | None = None
    """`max_cycles` of its games as conversations, where its own is more than a model can read."""
    array_form: str | None = None
    """'module:class' of the same rules on arrays; where None, vector.make steps single ones."""
    gymnasium_id: str | None = None
    """Its name in Gymnasium's registry, for a game that is one agent's unless told otherwise."""
    extras: tuple[str, ...] = ()
    """Extras that must be installed to make the environment with its defaults."""


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "coop_compete_v0",
            "srl_envs.games.coop_compete.env",
            "n players choose at once to cooperate or compete; each pays when others do it too",
            ("coordination", "n-player", "discrete"),
            turns_to_remember=8,
            array_form="srl_envs.games.coop_compete.vector:VectorCoopCompete",
        ),
        Entry(
            "coop_compete_pair_v0",
            "srl_envs.games.coop_compete.env",
            "the two-player benchmark game: agreeing pays, disagreeing costs both 0.1",
            ("coordination", "two-player", "discrete", "benchmark"),
            MappingProxyType({"variant": "pair", "num_agents": 2}),
            turns_to_remember=8,
            array_form="srl_envs.games.coop_compete.vector:VectorCoopCompete",
        ),
        Entry(
            "team_battle_v0",
            "srl_envs.games.team_battle.env",
            "two teams: cooperation pays one's own team, competing pays more when rivals cooperate",
            ("social dilemma", "teams", "n-player", "discrete"),
            turns_to_remember=8,
            array_form="srl_envs.games.team_battle.vector:VectorTeamBattle",
        ),
        Entry(
            "staged_v0",
            "srl_envs.games.staged.env",
            "all earn the same at first, then interests part, and some agents are adversaries",
            ("social dilemma", "adversaries", "n-player", "discrete"),
            turns_to_remember=8,
            array_form="srl_envs.games.staged.vector:VectorStaged",
        ),
        Entry(
            "bandit_v0",
            "srl_envs.games.bandit.env",
            "two arms to pull; after a while one of them gets better",
            ("bandit", "one-player", "n-player", "discrete"),
            turns_to_remember=64,
            gymnasium_id="srl/Bandit-v0",
            array_form="srl_envs.games.bandit.vector:VectorBandit",
        ),
        Entry(
            "maze_v0",
            "srl_envs.games.maze.env",
            "find the way to the goal, in another maze every episode",
            ("maze", "generated", "one-player", "n-player", "discrete"),
            gymnasium_id="srl/Maze-v0",
            array_form="srl_envs.games.maze.vector:VectorMaze",
        ),
        *(
            Entry(
                f"maze_{layout}_v0",
                "srl_envs.games.maze.env",
                f"find the way through the documented {layout} maze",
                ("maze", "deterministic", "one-player", "n-player", "discrete"),
                MappingProxyType({"layout": layout}),
                gymnasium_id=f"srl/Maze{layout.capitalize()}-v0",
                array_form="srl_envs.games.maze.vector:VectorMaze",
            )
            for layout in ("simple", "medium", "complex")
        ),
        *(
            Entry(
                f"maze_{task}_v0",
                "srl_envs.games.maze.env",
                f"two in one maze{goal}",
                ("maze", "generated", *tags, "n-player", "discrete"),
                MappingProxyType({"task": task, "num_agents": 2}),
                array_form="srl_envs.games.maze.vector:VectorMaze",
            )
            for task, goal, tags in (
                ("race", ": whoever reaches the goal first wins", ("competition",)),
                ("own", ", each with a goal of its own; it is over when both are there", ()),
                ("meet", ": come together in one cell, wherever it is", ("cooperation",)),
            )
        ),
        Entry(
            "social_v0",
            "srl_envs.games.social",
            "scenario='trading' or 'negotiation': the two games below under their common name",
            ("social", "n-player", "discrete", "talk"),
        ),
        Entry(
            "social_trading_v0",
            "srl_envs.games.trading.env",
            "traders offer, accept and deliver goods that each values differently",
            ("social", "market", "n-player", "discrete", "talk", "action masks"),
        ),
        Entry(
            "social_negotiation_v0",
            "srl_envs.games.negotiation.env",
            "agents with private points settle several issues before a deadline",
            ("social", "bargaining", "n-player", "discrete", "talk", "action masks"),
        ),
        Entry(
            "math_v0",
            "srl_envs.tasks.mathematics.env",
            "questions of mathematics, generated or from a file, with one right answer",
            ("task", "generated", "one-player", "n-player", "free text"),
            gymnasium_id="srl/Math-v0",
        ),
        Entry(
            "code_v0",
            "srl_envs.tasks.programming.env",
            "programs to write, generated or from a file, run against tests in a sandbox",
            ("task", "generated", "sandbox", "one-player", "n-player", "free text"),
            gymnasium_id="srl/Code-v0",
            extras=("sandbox",),
        ),
        Entry(
            "tool_use_v0",
            "srl_envs.tasks.tool_use.env",
            "questions that want tools: a calculator, files, search, Python, or your own",
            ("task", "generated", "one-player", "n-player", "free text", "tools"),
            gymnasium_id="srl/ToolUse-v0",
            extras=("tasks",),
        ),
        Entry(
            "debate_v0",
            "srl_envs.tasks.debate.env",
            "one speaks for a motion and one against it, and a judge says who argued better",
            ("debate", "competition", "two-player", "free text", "talk"),
        ),
        Entry(
            "multitask_v0",
            "srl_envs.tasks.multitask.env",
            "several of these as one: each episode plays another",
            ("task", "generated", "sandbox", "one-player", "n-player", "free text", "tools"),
            gymnasium_id="srl/Multitask-v0",
            extras=("tasks", "sandbox"),
        ),
    )
}


def as_module(name: str) -> ModuleType:
    """The entry as a module with `parallel_env`, `env` and `raw_env`, its defaults filled in.

    This is what `import srl_envs.maze_race_v0` and `from srl_envs import maze_race_v0` give, as
    in PettingZoo.
    """
    module = ModuleType(f"srl_envs.{name}", entry(name).description)
    module.__dict__.update(
        parallel_env=functools.partial(make, name),
        env=functools.partial(make_aec, name),
        raw_env=functools.partial(_unchecked_aec, name),
    )
    return module


def array_form(name: str) -> Any | None:
    """The class with the rules of `name` on arrays; None where only single ones are stepped."""
    found = ENTRIES.get(name)
    if found is None or found.array_form is None:
        return None
    module, _, attribute = found.array_form.partition(":")
    return getattr(import_module(module), attribute)


def names() -> tuple[str, ...]:
    """All names, in the registry's order."""
    return tuple(ENTRIES)


def entry(name: str) -> Entry:
    """The entry of `name`; raises EnvConfigError with the nearest for an unknown one."""
    if not isinstance(name, str) or name not in ENTRIES:
        raise EnvConfigError(f"there is no environment {name!r}{nearest(name, ENTRIES)}")
    return ENTRIES[name]


def as_conversations(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with a `max_cycles` that a language model can read to the end where they give
    none and the game's own would be longer; those of the members of multitask_v0 likewise."""
    members = options.get("environments")
    if isinstance(members, Mapping) and "max_cycles" not in options:
        told = {
            label: {**one, "options": as_conversations(one["name"], one.get("options") or {})}
            if isinstance(one, Mapping) and _turns(one.get("name")) is not None
            else one
            for label, one in members.items()
        }
        return {**options, "environments": told}
    turns = _turns(name)
    return dict(options) if turns is None else {"max_cycles": turns, **options}


def _turns(name: Any) -> int | None:
    found = ENTRIES.get(served_name(name)) if isinstance(name, str) else None
    return None if found is None else found.turns_to_remember


def make(name: str, /, **parameters: Any) -> Any:
    """The environment `name` as a PettingZoo ParallelEnv.

    `parameters` override the entry's defaults. 'module:function' names a user's function that
    returns one; the scheme of 'grpc://host:port/name' is in ENV_SCHEMES. Raises EnvConfigError
    for an unknown name or parameter or a value that is not allowed, or EnvError of a server.
    """
    constructor: Callable[..., Any]
    defaults: dict[str, Any] = {}
    scheme, colon, _ = name.partition(":") if isinstance(name, str) else ("", "", "")
    if colon and scheme in ENV_SCHEMES:
        constructor = functools.partial(ENV_SCHEMES.load(scheme), name)
    elif colon:
        if name.startswith(f"{HANDED_OVER}:"):
            raise EnvConfigError(f"there is no environment {name!r}: it was an object (make_env)")
        constructor = references.code(name)
    else:
        found = entry(name)
        constructor, defaults = import_module(found.module).parallel_env, dict(found.defaults)
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
    """What a server calls the environment that 'grpc://host:port/name' is; others as they are."""
    is_served = isinstance(name, str) and name.startswith(SERVED)
    return name.removeprefix(SERVED).partition("/")[2] if is_served else name


def make_aec(name: str, /, **parameters: Any) -> AECEnv:
    """As `make`, as a PettingZoo AECEnv (turn by turn) with its usual checks around it."""
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
    """The environment that a record names, made as `make` does; `ours` go over its options.

    A record may be anybody's. Unless it is `trusted`, it names no code but what the user's own
    settings are `allowing`, neither here nor deeper in `options`, no file and no folder, and asks
    for no more than references.LARGEST_RECORDED: raises UntrustedError otherwise, and
    EnvConfigError as `make` does. A server that it names is not asked: the environment is made
    here.
    """
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise EnvConfigError(f"{name}: options are {options!r:.200}: give names with their values")
    if trusted:
        return make(name, **{**options, **ours})
    name = served_name(name)
    references.refuse_large(options)
    with references.closed(allowing):
        return make(name, **{**options, **ours})


def _register_with_pettingzoo() -> None:
    if not hasattr(pettingzoo, "register"):  # releases before 1.27 keep no registry
        return
    for found in ENTRIES.values():
        identity = f"srl/{found.name}".replace("_v", "-v")
        for kind, maker in (("parallel", make), ("aec", make_aec)):
            if identity not in getattr(pettingzoo, f"{kind}_registry"):
                pettingzoo.register(kind, identity, functools.partial(maker, found.name))


def _register_with_gymnasium() -> None:
    for found in ENTRIES.values():
        identity = found.gymnasium_id
        if identity is not None and identity not in gymnasium.registry:
            vector = "srl_envs.vector.make_vector:single_agent_vector"
            gymnasium.register(
                identity,
                entry_point="srl_envs.wrappers.single_agent:single_agent_env",
                # Texts are no arrays: there, make_vec steps single environments.
                vector_entry_point=None if "free text" in found.tags else vector,
                kwargs={"name": found.name},
            )


_register_with_pettingzoo()
_register_with_gymnasium()

"""Checker of the contract of environments, for those of this package and those of users.

    check_environment(lambda: MyEnvironment())

POINTS lists the contract. The checker plays a few episodes with random legal actions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence

from srl_envs.errors import ConformanceError
from srl_envs.text import LISTED, TEXT_LENGTH, ParseFailure

POINTS = {
    "make": "the checker receives a function, such as lambda: MyEnvironment()",
    "names": "names of agents are different texts of one line, metadata has a name, and teams "
    "include all agents",
    "api": "reset returns two dicts and step five, with one entry per agent, of the right types",
    "spaces": "an agent's spaces are the same object on every call and contain its observations",
    "masks": "an action mask is int8, with one entry per action and at least one legal action",
    "end": "episodes end within max_cycles, agents that ended do not return, agents that join have "
    "entries in all dicts of the step before their first action, and after the end "
    "step({}) returns five empty dicts",
    "infos": "infos are JSON data, except arrays",
    "fresh": "returned objects do not change afterwards",
    "seeds": "equal seeds give equal episodes, in a new environment or a used one",
    "text": "rules, descriptions, answers and parsing are consistent, and parse never raises",
}
"""Points of the contract, by the name that errors start with."""

UNREADABLE = ("", "   ", "\x00", "\ud800", "zxqj", "<answer>", "{}", "x" * 100_000, "我不知道")
"""Answers that name no action of any game."""

RESET = ("observations", "infos")
STEP = ("observations", "rewards", "terminations", "truncations", "infos")
KINDS: dict[str, Any] = {"rewards": (int, float), "terminations": bool, "truncations": bool}

Trace = list[tuple[Any, ...]]
"""Results of a reset and of all steps of an episode."""

_equal = partial(data_equivalence, exact=True)


def check_environment(
    make: Callable[[], Any],
    *,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    max_turns: int = 10_000,
    text: bool = True,
) -> None:
    """Check that environments fulfill the contract in POINTS.

    Args:
        make: Function that returns a new ParallelEnv, called twice. Both environments are closed
            only if all checks pass.
        seed: Seed of every reset and of the random actions.
        options: Options of every reset.
        max_turns: Number of rounds within which an episode must end, or else the check fails; the
            environment's `max_cycles` counts instead if it is smaller.
        text: True to check the text view, False for an environment without one.

    Raises:
        ConformanceError: A point of the contract is violated. Errors of `make` are not converted.
    """
    _require(callable(make), "make", "{!r} is not a function", make)
    env, twin = make(), make()
    _check_names(env)
    trace = _play(env, seed, options, max_turns)
    for other, difference in ((twin, "two instances differ"), (env, "a second episode differs")):
        _require(_equal(trace, _play(other, seed, options, max_turns)), "seeds", difference)
    if text:
        _check_text(env, trace)
    env.close()
    twin.close()


def _require(kept: bool, point: str, problem: str, *parts: Any) -> None:
    # `parts` are formatted only on failure, because the repr of an array takes long.
    if not kept:
        raise ConformanceError(f"{point}: {problem.format(*parts)} ({POINTS[point]})")


def _call(point: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return method(*args, **kwargs)
    except Exception as error:  # Wrappers fail in many ways if a game returns the wrong parts.
        problem = f"{point}: {method.__name__}{args!r:.99} raised {error!r} ({POINTS[point]})"
        raise ConformanceError(problem) from error


def _check_names(env: Any) -> None:
    agents = env.possible_agents
    _require(bool(agents) and len(set(agents)) == len(agents), "names", "agents are {!r}", agents)
    for agent in agents:
        # Names are part of prompts, reports and messages.
        proper = isinstance(agent, str) and agent.isprintable() and agent == agent.strip() != ""
        _require(proper, "names", "an agent is named {!r}", agent)
    _require(isinstance(env.metadata.get("name"), str), "names", "metadata['name'] is missing")
    _require(hasattr(env.unwrapped, "render_mode"), "names", "render_mode is missing (may be None)")
    teams = getattr(env.unwrapped, "teams", None)
    _require(teams is None or set(teams) == set(agents), "names", "teams are {!r}", teams)


def _play(env: Any, seed: int, options: Mapping[str, Any] | None, max_turns: int) -> Trace:
    """Play and check a random episode; return copies of all results, or raise ConformanceError."""
    returned: Trace = [_call("api", env.reset, seed=seed, options=deepcopy(options))]
    paired = isinstance(returned[0], tuple) and len(returned[0]) == 2
    _require(paired, "api", "reset() must return (observations, infos)")
    live = list(env.agents)
    _require(bool(live) and set(live) <= set(env.possible_agents), "api", "agents are {!r}", live)
    _check_outcome(env, live, returned[0])
    gone: set[str] = set()
    for place, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(seed + place)
    copies: Trace = deepcopy(returned)
    limit = min(max_turns, getattr(env.unwrapped, "max_cycles", None) or max_turns)
    while env.agents:
        _require(len(copies) <= limit, "end", "no end after {} turns", limit)
        obs, info = returned[-1][0], returned[-1][-1]
        outcome = _call("api", env.step, {a: _random_action(env, a, obs[a], info[a]) for a in live})
        complete = isinstance(outcome, tuple) and len(outcome) == 5
        _require(complete, "api", "step() must return five dicts")
        returned.append(outcome)
        copies.append(deepcopy(outcome))
        joined = [agent for agent in env.agents if agent not in live]
        _require(gone.isdisjoint(joined), "end", "one of {} returned", joined)
        before, live = [*live, *joined], _check_outcome(env, [*live, *joined], outcome)
        gone |= set(before) - set(live)
    _require(_equal(returned, copies), "fresh", "what a turn returned has changed")
    after = _call("end", env.step, {})
    _require(tuple(after) == ({},) * 5, "end", "step({{}}) after it gives {!r}", after)
    return copies


def _random_action(env: Any, agent: str, observation: Any, info: Mapping[str, Any]) -> Any:
    space, mask = env.action_space(agent), _mask(observation, info)
    return space.sample(mask) if isinstance(space, spaces.Discrete) else space.sample()


def _mask(observation: Any, info: Mapping[str, Any]) -> Any:
    inside = isinstance(observation, Mapping) and "action_mask" in observation
    return (observation if inside else info).get("action_mask")


def _check_outcome(env: Any, live: list[str], outcome: tuple[Any, ...]) -> list[str]:
    """Check a result of `reset` or `step`; return the agents that have not ended."""
    parts = dict(zip(RESET if len(outcome) == len(RESET) else STEP, outcome, strict=True))
    for name, values in parts.items():
        complete = isinstance(values, dict) and set(values) == set(live)
        _require(complete, "api", "{}: {!r}", name, values)
        for agent in live if name in KINDS else ():
            value = values[agent]
            proper = isinstance(value, KINDS[name]) and math.isfinite(value)
            _require(proper, "api", "{}[{!r}] is {!r}", name, agent, value)
    for agent in live:
        _check_agent(env, agent, parts["observations"][agent], parts["infos"][agent])
    if getattr(env, "state_space", None) is not None:
        state = env.state()
        _require(env.state_space.contains(state), "spaces", "state() is {!r}", state)
    ended = [parts[name] for name in ("terminations", "truncations") if name in parts]
    playing = [agent for agent in live if not any(marks[agent] for marks in ended)]
    problem = "{} have not ended, but agents are {}"
    _require(set(env.agents) == set(playing), "end", problem, playing, env.agents)
    return playing


def _check_agent(env: Any, agent: str, observation: Any, info: Any) -> None:
    space, actions = env.observation_space(agent), env.action_space(agent)
    same = space is env.observation_space(agent) and actions is env.action_space(agent)
    _require(same, "spaces", "those of {} are new objects on every call", agent)
    seen = space.contains(observation)
    kind = getattr(observation, "dtype", type(observation).__name__)
    _require(seen, "spaces", "{} observes {!r} ({}), outside {}", agent, observation, kind, space)
    _require(isinstance(info, dict), "api", "infos[{!r}] is {!r}", agent, info)
    plain = {key: value for key, value in info.items() if not isinstance(value, np.ndarray)}
    try:
        json.dumps(plain)
    except (TypeError, ValueError) as error:
        raise ConformanceError(f"infos: that of {agent} is {plain!r} ({error})") from error
    mask = _mask(observation, info)
    if mask is not None and isinstance(actions, spaces.Discrete):
        shape = (actions.n,)
        shaped = isinstance(mask, np.ndarray) and mask.shape == shape and mask.dtype == np.int8
        _require(shaped, "masks", "that of {} is {!r}", agent, mask)
        _require(bool(np.isin(mask, (0, 1)).all() and mask.any()), "masks", "{}: {!r}", agent, mask)


def _check_text(env: Any, trace: Trace) -> None:
    view: Any = getattr(env.unwrapped, "text_view", None)
    _require(view is not None, "text", "there is no text_view: use with_text, or pass text=False")
    penalty = view.parse_penalty
    _require(math.isfinite(penalty) and penalty >= 0, "text", "parse_penalty is {!r}", penalty)
    for agent in env.possible_agents:
        rules = view.rules(agent)
        _require(isinstance(rules, str) and bool(rules.strip()), "text", "rules are {!r}", rules)
        situations = [_describe(view, agent, turn[0][agent]) for turn in trace if agent in turn[0]]
        _check_answers(view, env.action_space(agent), agent, rules + " " + situations[0])


def _describe(view: Any, agent: str, observation: Any) -> str:
    before = deepcopy(observation)
    words = view.describe(agent, observation)
    good = isinstance(words, str) and bool(words.strip()) and len(words) <= TEXT_LENGTH
    _require(good, "text", "describe() returns {!r}", words)
    _require(_equal(observation, before), "text", "describe() changed the observation")
    return str(words)


def _check_answers(view: Any, space: spaces.Space[Any], agent: str, prompt: str) -> None:
    default, answers = view.default_action, view.answers(agent)
    _require(space.contains(default), "text", "default action {!r}", default)
    useless = list(UNREADABLE)
    if isinstance(space, spaces.Discrete):
        good = isinstance(answers, tuple) and len(set(answers)) == len(answers) == space.n
        _require(good, "text", "answers {!r} for {}", answers, space)
        listed = len(answers) > LISTED or all(a.casefold() in prompt.casefold() for a in answers)
        _require(listed, "text", "neither rules nor situation name each of {}", answers)
        for action, answer in enumerate(answers):
            read = view.parse(agent, f"  {answer}\n")
            _require(read == action, "text", "{!r} is read as {!r}, not {}", answer, read, action)
        useless += [f"I will not {answer}" for answer in answers[:LISTED]]
    for answer in useless:
        read = _call("text", view.parse, agent, answer)
        if isinstance(space, spaces.Discrete) or not space.contains(read):
            failed = isinstance(read, ParseFailure)
            _require(failed, "text", "{!r} is read as {!r}, not a ParseFailure", answer[:40], read)

"""Checker of the contract of environments, for those of this package and those of users.

    check_environment(lambda: MyEnvironment())

POINTS lists the contract. The checker plays a few episodes with random legal actions.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.errors import ConformanceError
from srl_envs.text import LISTED, TEXT_LENGTH, ParseFailure

POINTS = {
    "names": "names of agents are different texts of one line, metadata has a name, and teams "
    "include all agents",
    "api": "reset and step return PettingZoo's dicts, with one entry per agent, of the right types",
    "spaces": "an agent's spaces are the same object on every call and contain its observations",
    "masks": "an action mask is int8, with one entry per action and at least one legal action",
    "end": "episodes end within max_cycles, agents that ended do not return, and after the end "
    "step({}) returns five empty dicts",
    "infos": "infos are JSON data, except arrays",
    "fresh": "returned objects are not returned again and do not change afterwards",
    "seeds": "equal seeds give equal episodes, in a new environment or a used one",
    "global randomness": "the global generators of random and numpy.random are not used",
    "text": "rules, descriptions, answers and parsing are consistent, and parse never raises",
}
"""Points of the contract, by the name that errors start with."""

Trace = list[tuple[Any, ...]]


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
        make: Constructor of the environment, called twice.
        seed: Seed of the episodes.
        options: Options of every reset.
        max_turns: Number of rounds after which an episode counts as endless.
        text: Check the text view.

    Raises:
        ConformanceError: The environment violates a point of the contract.
    """
    before = _global_state()
    env, twin = make(), make()
    _check_names(env)
    trace = _play(env, seed, options, max_turns)

    def require_the_same_again(other: Any, difference: str) -> None:
        _require(_same(trace, _play(other, seed, options, max_turns)), "seeds", difference)

    require_the_same_again(twin, "two instances differ")
    require_the_same_again(env, "a second episode differs")
    _play_a_little(env, seed + 1, options)
    require_the_same_again(env, "an episode after an unfinished one differs")
    if text:
        _check_text(env, trace)
    env.close()
    twin.close()
    _require(_same(before, _global_state()), "global randomness", "its state has changed")


def _require(kept: bool, point: str, problem: str, *parts: Any) -> None:
    # `parts` are formatted only on failure, because the repr of an array takes long.
    if not kept:
        raise ConformanceError(f"{point}: {problem.format(*parts)} ({POINTS[point]})")


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
    """Play and check an episode of random legal actions.

    Returns copies of all results, with the actions of each step. Raises ConformanceError.
    """
    returned: Trace = [env.reset(seed=seed, options=deepcopy(options))]
    _require(
        isinstance(returned[0], tuple) and len(returned[0]) == 2,
        "api",
        "reset() must return (observations, infos)",
    )
    live = list(env.agents)
    _require(bool(live) and set(live) <= set(env.possible_agents), "api", "agents are {!r}", live)
    _check_turn(env, live, *returned[0])
    for place, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(seed + place)
    copies: Trace = deepcopy(returned)
    while env.agents:
        _require(len(copies) <= max_turns, "end", "no end after {} turns", max_turns)
        observations, infos = returned[-1][0], returned[-1][-1]
        actions = {a: _legal(env, a, observations[a], infos[a]) for a in live}
        outcome = env.step(deepcopy(actions))
        _require(
            isinstance(outcome, tuple) and len(outcome) == 5, "api", "step() must return five dicts"
        )
        returned.append(outcome)
        copies.append((*deepcopy(outcome), actions))
        live = _check_step(env, live, *outcome)
    limit = getattr(env.unwrapped, "max_cycles", None)
    _require(
        limit is None or len(copies) - 1 <= limit,
        "end",
        "max_cycles is {}, but the episode is longer",
        limit,
    )
    _check_freshness(returned, copies)
    try:
        after = env.step({})
    except Exception as error:
        raise ConformanceError(f"end: step({{}}) after it raised {error!r}") from error
    _require(tuple(after) == ({},) * 5, "end", "step({{}}) after it gives {!r}", after)
    return copies


def _play_a_little(env: Any, seed: int, options: Mapping[str, Any] | None) -> None:
    observations, infos = env.reset(seed=seed, options=deepcopy(options))
    env.step({a: _legal(env, a, observations[a], infos[a]) for a in env.agents})


def _legal(env: Any, agent: str, observation: Any, info: Mapping[str, Any]) -> Any:
    space, mask = env.action_space(agent), _mask(observation, info)
    return space.sample(mask) if isinstance(space, spaces.Discrete) else space.sample()


def _mask(observation: Any, info: Mapping[str, Any]) -> Any:
    if isinstance(observation, Mapping) and "action_mask" in observation:
        return observation["action_mask"]
    return info.get("action_mask")


def _check_step(
    env: Any,
    live: list[str],
    observations: Any,
    rewards: Any,
    terminations: Any,
    truncations: Any,
    infos: Any,
) -> list[str]:
    """Check the results of a step; return the agents whose episode continues."""
    _check_turn(env, live, observations, infos)
    for what, values, kinds in (
        ("rewards", rewards, (int, float)),
        ("terminations", terminations, bool),
        ("truncations", truncations, bool),
    ):
        _require(
            isinstance(values, dict) and set(values) == set(live), "api", "{}: {!r}", what, values
        )
        for agent, value in values.items():
            _require(isinstance(value, kinds), "api", "{}[{!r}] is {!r}", what, agent, value)
    for agent, reward in rewards.items():
        _require(math.isfinite(reward), "api", "rewards[{!r}] is {!r}", agent, reward)
    playing = [agent for agent in live if not (terminations[agent] or truncations[agent])]
    _require(
        set(env.agents) == set(playing),
        "end",
        "{} have not ended, but agents are {}",
        playing,
        env.agents,
    )
    return playing


def _check_turn(env: Any, live: list[str], observations: Any, infos: Any) -> None:
    for what, values in (("observations", observations), ("infos", infos)):
        _require(
            isinstance(values, dict) and set(values) == set(live), "api", "{}: {!r}", what, values
        )
    for agent in live:
        space, info = env.observation_space(agent), infos[agent]
        same = space is env.observation_space(agent)
        same = same and env.action_space(agent) is env.action_space(agent)
        _require(same, "spaces", "those of {} are new objects on every call", agent)
        seen = observations[agent]
        _require(space.contains(seen), "spaces", "{} observes {!r}, outside {}", agent, seen, space)
        _require(isinstance(info, dict), "api", "infos[{!r}] is {!r}", agent, info)
        _check_mask(env.action_space(agent), agent, _mask(seen, info))
        plain = {key: value for key, value in info.items() if not isinstance(value, np.ndarray)}
        try:
            json.dumps(plain)
        except (TypeError, ValueError) as error:
            raise ConformanceError(f"infos: that of {agent} is {plain!r} ({error})") from error
    if getattr(env, "state_space", None) is not None:
        state = env.state()
        _require(env.state_space.contains(state), "spaces", "state() is {!r}", state)


def _check_mask(space: spaces.Space[Any], agent: str, mask: Any) -> None:
    if mask is None or not isinstance(space, spaces.Discrete):
        return
    shaped = isinstance(mask, np.ndarray) and mask.shape == (space.n,) and mask.dtype == np.int8
    _require(shaped, "masks", "that of {} is {!r}", agent, mask)
    _require(bool(np.isin(mask, (0, 1)).all() and mask.any()), "masks", "{}: {!r}", agent, mask)


def _check_freshness(returned: Trace, copies: Trace) -> None:
    seen: set[int] = set()  # ids, which are unique because `returned` keeps all objects alive
    earlier: list[np.ndarray] = []
    for turn, (now, then) in enumerate(zip(returned, copies, strict=True)):
        _require(_same(now, then[: len(now)]), "fresh", "what turn {} returned has changed", turn)
        # Read-only constants may be shared.
        arrays = [array for array in _arrays(now) if array.flags.writeable]
        dicts = [
            thing for thing in (*now[0].values(), *now[-1].values()) if isinstance(thing, dict)
        ]
        for thing in (*now, *dicts, *arrays):
            _require(id(thing) not in seen, "fresh", "turn {} returned an object once more", turn)
            seen.add(id(thing))
        pairs = [*zip(arrays, earlier, strict=False), *pairwise(arrays)]
        shared = any(np.shares_memory(one, other) for one, other in pairs)
        _require(not shared, "fresh", "arrays of turn {} share memory with others", turn)
        earlier = arrays


def _arrays(thing: Any) -> Iterator[np.ndarray]:
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, Mapping):
        yield from _arrays(tuple(thing.values()))
    elif isinstance(thing, tuple | list):
        for part in thing:
            yield from _arrays(part)


def _check_text(env: Any, trace: Trace) -> None:
    view = getattr(env.unwrapped, "text_view", None)
    if view is None:
        raise ConformanceError("text: there is no text_view (or pass text=False to leave text out)")
    penalty = view.parse_penalty
    _require(math.isfinite(penalty) and penalty >= 0, "text", "parse_penalty is {!r}", penalty)
    for agent in env.possible_agents:
        rules = view.rules(agent)
        _require(isinstance(rules, str) and bool(rules.strip()), "text", "rules are {!r}", rules)
        _require(rules == view.rules(agent), "text", "rules() differ from call to call")
        situations = [_describe(view, agent, turn[0][agent]) for turn in trace if agent in turn[0]]
        _check_answers(view, env.action_space(agent), agent, rules + " " + situations[0])


def _describe(view: Any, agent: str, observation: Any) -> str:
    before = deepcopy(observation)
    words = view.describe(agent, observation)
    good = isinstance(words, str) and bool(words.strip()) and len(words) <= TEXT_LENGTH
    _require(good, "text", "describe() returns {!r}", words)
    _require(_same(observation, before), "text", "describe() changed the observation")
    _require(words == view.describe(agent, before), "text", "describe() differs from call to call")
    return str(words)


def _check_answers(view: Any, space: spaces.Space[Any], agent: str, prompt: str) -> None:
    _require(
        space.contains(view.default_action), "text", "default action {!r}", view.default_action
    )
    answers = view.answers(agent)
    discrete = isinstance(space, spaces.Discrete)
    if isinstance(space, spaces.Discrete):
        good = isinstance(answers, tuple) and len(set(answers)) == len(answers) == space.n
        _require(good, "text", "answers {!r} for {}", answers, space)
        listed = len(answers) > LISTED or all(a.casefold() in prompt.casefold() for a in answers)
        _require(listed, "text", "neither rules nor situation name each of {}", answers)
        for action, answer in enumerate(answers):
            for form in (answer, f"  {answer}\n"):
                read = view.parse(agent, form)
                _require(read == action, "text", "{!r} is read as {!r}, not {}", form, read, action)
    for answer in _useless_answers(answers):
        try:
            read = view.parse(agent, answer)
        except Exception as error:
            raise ConformanceError(f"text: parse({answer[:40]!r}) raised {error!r}") from error
        if discrete or not space.contains(read):
            failed = isinstance(read, ParseFailure)
            _require(failed, "text", "{!r} is read as {!r}, not a ParseFailure", answer[:40], read)


def _useless_answers(answers: tuple[str, ...]) -> Iterator[str]:
    yield from ("", "   ", "\n\n", "\x00", "\ud800", "zxqj", "<answer>", "</answer>", "{}", "[]")
    yield from ("x" * 100_000, "我不知道", "لا أعرف", "🤷", "ignore all previous instructions")
    for answer in answers[:LISTED]:
        yield from (f"not {answer}", f"I will not {answer}", f"anything but {answer}")
    if len(answers) > 1:
        yield from (f"{answers[0]} or {answers[1]}", f"{answers[1]}, {answers[0]}")


def _global_state() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state()


def _same(one: Any, other: Any) -> bool:
    """Return True if both are equal in value, type and shape, including nested parts."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        same_kind = one.dtype == other.dtype and one.shape == other.shape
        return bool(same_kind and one.tobytes() == other.tobytes())
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)

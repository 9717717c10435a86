"""Episodes of one trained agent for other libraries' trainers: dataset rows and token samples."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pydantic

from srl_agents.atomic_files import whole_file
from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError, PolicyError, RolloutError
from srl_agents.evaluation.episode_stats import parse_failures
from srl_agents.llm.backends.registry import api_model, is_api_name
from srl_agents.llm.backends.token_backend import Completion, Request
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.chat_policy import ChatPolicy
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy, rules_for, situation
from srl_agents.partners import WithPartners
from srl_agents.policy import AgentObservation, Policy
from srl_agents.rollout import play_many_async
from srl_agents.scripted.registry import classic_policy, is_held_out
from srl_agents.seeding import MOST
from srl_envs import loading, registry
from srl_envs.errors import DocumentError, UntrustedError
from srl_envs.scenarios import refuse_levels
from srl_envs.text import TextEnv
from srl_envs.untrusted import read_json
from srl_envs.validation import whole_number
from srl_envs.wrappers import FocalAgent
from srl_train.samples import TokenSample, sample_of
from srl_train.trajectory import shaped_game

PARTNER_TOKENS = 2048
"""Maximum number of tokens in an API partner's answer, including hidden reasoning."""
LOOP = "srl"
"""Name of our agent loop in verl."""


@pydantic.dataclasses.dataclass(frozen=True, config={"extra": "forbid", "strict": True})
class FocalGame:
    """Environment, trained agent and partners as plain data, which dataset rows contain as JSON.

    The model plays `agent` and every agent without a partner.

    Raises:
        pydantic.ValidationError: A field has the wrong type or value.
    """

    environment: str
    """Registered name, or 'module:function'."""
    agent: str
    """Agent whose tokens and reward form the sample."""
    partners: Mapping[str, str] = field(default_factory=dict)
    """Agent -> scripted policy, 'module:Class', or API model ('openai:MODEL')."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment's constructor, as JSON data."""
    max_new_tokens: Annotated[int, pydantic.Field(ge=1)] = 32
    """Maximum number of tokens in an answer, including the end-of-turn token."""

    def to_json(self) -> str:
        """Return the game as JSON text; raise TypeError for an option that is no JSON data."""
        return json.dumps(asdict(self))

    def make(self, *, trusted: bool = False) -> Any:
        """Return a new environment; `max_cycles` defaults to a value for language models.

        Args:
            trusted: Allow a game that names code or files (srl_envs.registry.remake).

        Raises:
            EnvConfigError: The environment or an option is invalid.
            UntrustedError: An untrusted game names code or files, or is too large.
            PolicyError: An agent is unknown, `agent` has a partner, or there is no text view.
        """
        options = registry.as_conversations(self.environment, self.options)
        env = registry.remake(self.environment, options, trusted=trusted)
        if getattr(env.unwrapped, "text_view", None) is None:
            raise PolicyError(f"{self.environment} has no text_view, which language models need")
        agents = env.possible_agents
        for agent in (self.agent, *self.partners):
            if agent not in agents:
                raise PolicyError(
                    f"{self.environment} has no agent {agent!r:.200}, only {', '.join(agents)}"
                )
        if self.agent in self.partners:
            raise PolicyError(f"partners must not contain the trained agent {self.agent}")
        return env

    def partner_policies(self, env: Any, *, trusted: bool = False) -> dict[str, Policy]:
        """Return agent -> policy for the agents in `partners`; equal names share a policy.

        Args:
            env: The environment, as returned by `make`.
            trusted: Allow partners that name code or an API model.

        Raises:
            PolicyError: A partner is invalid.
            BackendError: An API model's name is invalid, or its package or key is missing.
            UntrustedError: An untrusted game names an API model or code.
        """
        made: dict[str, Policy] = {}
        for name in sorted(set(self.partners.values())):
            if not is_api_name(name):
                with nullcontext() if trusted else loading.closed():
                    made[name] = classic_policy(name, env)
            elif trusted:
                sampling = Sampling(max_new_tokens=PARTNER_TOKENS)
                view = env.unwrapped.text_view
                made[name] = ChatPolicy(api_model(name), view, sampling=sampling)
            else:
                raise UntrustedError(
                    f"{name!r:.200} is an API model in an untrusted row: {loading.WAY_OUT}"
                )
        return {agent: made[partner] for agent, partner in self.partners.items()}


# Episodes on another library's engine


@dataclass(frozen=True)
class EngineAnswer:
    """Tokens of one answer from an engine."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    """Log-probability of each token, or None if the engine returns none."""
    versions: tuple[int, ...] = ()
    """Weight versions: one per token, or the oldest and the newest; empty if unknown."""


Generate = Callable[[Sequence[int], int], Awaitable[EngineAnswer]]
"""Coroutine function from (context, maximum number of new tokens) to an answer."""


class EngineBackend:
    """Sampling backend on another library's engine, for one agent in one episode.

    `name` is the engine's name in errors. `generate` samples an answer. `room` maps the number of
    tokens of the first prompt to the maximum number of tokens after it. `answers` are the engine's
    answers so far.
    """

    def __init__(
        self, name: str, chat: ChatFormat, generate: Generate, room: Callable[[int], int]
    ) -> None:
        self.name, self.chat = name, chat
        self.answers: list[EngineAnswer] = []
        self.full = False
        """True after a request that exceeds the maximum length, which ends the episode."""
        self._generate, self._room = generate, room
        self._opening: int | None = None

    async def complete(self, request: Request) -> Completion:
        """Return the engine's answer to a request, and append it to `answers`.

        Missing log-probabilities become NaN. Raise BackendError for an empty answer or another
        number of log-probabilities than tokens. If the answer could exceed the maximum length, set
        `full` and raise BackendError instead of a request.
        """
        length = len(request.context)
        if self._opening is None:
            self._opening = length
        room = self._room(self._opening) - (length - self._opening)
        if request.longest > room:
            self.full = True
            raise BackendError(
                f"a conversation of {length} tokens leaves {max(room, 0)} tokens, and an answer "
                f"needs up to {request.longest}: lower max_new_tokens or the number of steps, or "
                f"allow longer sequences in {self.name}"
            )
        answer = await self._generate(request.context, request.longest)
        logprobs = (math.nan,) * len(answer.ids) if answer.logprobs is None else answer.logprobs
        if not answer.ids or len(logprobs) != len(answer.ids):
            raise BackendError(
                f"{self.name} returned {len(answer.ids)} tokens and {len(logprobs)} "
                "log-probabilities"
            )
        self.answers.append(answer)
        return Completion(
            answer.ids,
            logprobs,
            ended=answer.ids[-1] in self.chat.stop_ids,
            model=ModelVersion(self.name, min(answer.versions, default=0)),
        )

    def release(self, conversation: int) -> None:
        """Do nothing: the engine manages its cache."""


@dataclass(frozen=True)
class FocalSample:
    """Sample of the trained agent in one episode."""

    tokens: TokenSample
    """`episode_return` is the return minus parse penalties; log-probabilities may be NaN."""
    answers: list[EngineAnswer]
    """Answers of the engine. The last one may belong to a step that did not complete."""
    parse_failures: float
    """Share of the agent's answers that could not be parsed, 0 to 1."""


async def play_focal(
    game: FocalGame,
    seed: int,
    engine: Callable[[str], EngineBackend],
    *,
    trusted: bool = False,
) -> FocalSample | None:
    """Play one episode and return the sample of the trained agent, or None if it never acted.

    `engine` maps an agent without a partner to its backend. `trusted` allows games that name code,
    files or API models. The episode ends before an answer that could exceed the maximum length of
    any backend, and the sample has the steps before. Raise RolloutError if the episode fails for
    another reason, or this happens before the agent acted. Raise TrainingError if a reward is not
    finite, and errors of `game.make` and `game.partner_policies`.
    """
    make, focal = partial(game.make, trusted=trusted), game.agent
    with closing(make()) as env:
        view, sampling = env.unwrapped.text_view, Sampling(max_new_tokens=game.max_new_tokens)
        policies = game.partner_policies(env, trusted=trusted)
        engines = {a: engine(a) for a in env.possible_agents if a not in policies}
    for agent, backend in engines.items():
        policies[agent] = TextPolicy(backend, view, sampling=sampling)
    [episode] = await play_many_async(make, policies, [seed])
    trajectory = shaped_game(episode, (focal,), lambda raw: raw, view.parse_penalty)[focal]
    tokens = sample_of(trajectory, discount=1.0, round_number=0)
    full = any(backend.full for backend in engines.values())
    if episode.failure is not None and (tokens is None or not full):
        raise RolloutError(f"the episode of {focal} with seed {seed} failed: {episode.failure}")
    if tokens is None:
        return None
    return FocalSample(tokens, engines[focal].answers, parse_failures(trajectory.steps))


# Rows of datasets


def rows(
    games: Iterable[FocalGame], seeds: Sequence[int], *, evaluation: bool = False
) -> list[dict[str, Any]]:
    """Return one dataset row per seed and game.

    Args:
        games: Games, which are trusted: code that they name is imported.
        seeds: Seeds of the episodes.
        evaluation: Allow held-out partners and levels.

    Returns:
        Rows for verl and AReaL, by seed, then game. `prompt` has the first messages, for filters by
        length; `extra_info` has `index`, `seed` and `game` (JSON). Other keys are for verl.

    Raises:
        PolicyError: `FocalGame.make` raises it, or a partner is reserved for `evaluation`.
        EnvConfigError: An environment or seed is invalid, or levels are reserved likewise.
    """
    seeds = [whole_number("seed", seed, low=0, high=MOST) for seed in seeds]
    games = list(games)
    prompts = [_prompts(game, seeds, evaluation) for game in games]
    return [
        {
            "data_source": game.environment,
            "agent_name": LOOP,
            "prompt": prompts[place][number],
            "extra_info": {
                "index": number * len(games) + place,
                "seed": seed,
                "game": game.to_json(),
            },
        }
        for number, seed in enumerate(seeds)
        for place, game in enumerate(games)
    ]


def write_rows(path: Path | str, made: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines, or raise OSError.

    Args:
        path: File, which is replaced if it exists. A missing folder is created.
        made: Rows, as returned by `rows`.
    """
    with whole_file(Path(path)) as file:
        file.writelines(json.dumps(row) + "\n" for row in made)


def game_of(row: Mapping[str, Any]) -> tuple[FocalGame, int]:
    """Return game and seed of a row; PolicyError for a bad game, EnvConfigError for a bad seed."""
    info = row.get("extra_info")
    text = info.get("game") if isinstance(info, Mapping) else None
    if not isinstance(info, Mapping) or not isinstance(text, str):
        raise PolicyError("a row must have extra_info with a game, as made by focal_game.rows")
    seed = whole_number("seed", info.get("seed"), low=0, high=MOST)
    try:
        return FocalGame(**read_json(text)), seed
    except (DocumentError, TypeError, pydantic.ValidationError) as error:
        raise PolicyError(
            f"a row's game must be a JSON object with the fields of FocalGame, got {text!r:.200}: "
            f"{error}"
        ) from error


def _prompts(game: FocalGame, seeds: Sequence[int], evaluation: bool) -> list[list[dict[str, str]]]:
    for agent, partner in game.partners.items():
        if is_held_out(partner) and not evaluation:
            raise PolicyError(
                f"{partner}, the partner of {agent}, is reserved for evaluation: use another one, "
                "or evaluation=True for rows that are not used in training"
            )
    with closing(game.make(trusted=True)) as env:
        if not evaluation:
            refuse_levels("game", game.environment, game.options, env)
        view, agent = env.unwrapped.text_view, game.agent
        starts = [AgentObservation(agent, env.reset(seed=seed)[0][agent]) for seed in seeds]
        return [
            [
                {"role": "system", "content": rules_for(view, seen)},
                {"role": "user", "content": situation(view, seen)},
            ]
            for seen in starts
        ]


class GameAgent(FocalAgent):
    """Environment for TRL's `environment_factory`, with partners in this process.

    trainer = GRPOTrainer(..., environment_factory=partial(GameAgent, game)). The reward is the
    return minus parse penalties.

    Args:
        game: Environment, trained agent, partners of all others; `max_new_tokens` is unused.
        trusted: Allow a game that names code, files or an API model.

    Raises:
        EnvConfigError: There is an agent without a partner, or the game is invalid.
        PolicyError, BackendError, UntrustedError: As in `game.make` and `game.partner_policies`.
    """

    def __init__(self, game: FocalGame, *, trusted: bool = False) -> None:
        env = game.make(trusted=trusted)
        super().__init__(TextEnv(WithPartners(env, game.partner_policies(env, trusted=trusted))))

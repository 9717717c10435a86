"""Episodes of one trained agent for other libraries' trainers: dataset rows and token samples."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from srl_agents.atomic_files import whole_file
from srl_agents.episode import Episode, ModelVersion
from srl_agents.errors import BackendError, PolicyError, RolloutError
from srl_agents.llm.backends.registry import api_model, is_api_name
from srl_agents.llm.backends.token_backend import Backend, Completion, Request
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
from srl_envs.text import FocalAgent, TextEnv
from srl_envs.untrusted import read_json
from srl_envs.validation import nearest, whole_number

PARTNER_TOKENS = 2048
"""Maximum number of tokens in an API partner's answer, including hidden reasoning."""


@dataclass(frozen=True)
class FocalGame:
    """Environment, trained agent and partners as plain data, which dataset rows contain as JSON.

    The model plays `agent` and every agent without a partner.

    Raises:
        PolicyError: If a field has the wrong type or value.
    """

    environment: str
    """Registered name, or 'module:function'."""
    agent: str
    """Agent whose tokens and reward form the sample."""
    partners: Mapping[str, str] = field(default_factory=dict)
    """Agent -> scripted policy, 'module:Class', or API model ('openai:MODEL')."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment's constructor."""
    max_new_tokens: int = 32
    """Maximum number of tokens in an answer, including the end-of-turn token."""

    def to_json(self) -> str:
        """Return the game as JSON, which `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FocalGame:
        """Return the game of a JSON text.

        Raises:
            PolicyError: If the text is not a JSON object with valid fields.
        """
        try:
            given = read_json(text)
        except (DocumentError, TypeError) as error:
            raise PolicyError(f"a row's game must be JSON, got {text!r:.200}: {error}") from error
        if not isinstance(given, dict):
            raise PolicyError(f"a row's game must be a JSON object, got {text!r:.200}")
        known = [one.name for one in fields(cls)]
        for name in given.keys() - set(known):
            raise PolicyError(f"a row's game has no field {name!r:.200}{nearest(name, known)}")
        if missing := {"environment", "agent"} - given.keys():
            raise PolicyError(f"a row's game lacks {' and '.join(sorted(missing))}")
        return cls(**given)

    def __post_init__(self) -> None:
        for name, kind, expected in (
            ("environment", str, "a name"),
            ("agent", str, "a name"),
            ("partners", Mapping, "a mapping from agents to policies"),
            ("options", Mapping, "a mapping from names to values"),
            ("max_new_tokens", int, "an integer"),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise PolicyError(f"{name} must be {expected}, got {value!r:.200}")
        if self.max_new_tokens < 1:
            raise PolicyError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")

    def make(self, *, trusted: bool = False) -> Any:
        """Return the environment.

        Args:
            trusted: Allow options that name code or files (srl_envs.registry.remake).

        Raises:
            EnvConfigError: If the environment or an option is invalid.
            UntrustedError: If an untrusted game names code or files.
            PolicyError: If an agent is unknown or the environment has no text view.
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
        """Return the policy of each agent that a partner plays.

        Raises:
            PolicyError: If a partner is invalid.
            BackendError: If the package or key of an API is missing.
            UntrustedError: If a game that is not `trusted` names an API or code.
        """
        made: dict[str, Policy] = {}
        for name in sorted({str(partner) for partner in self.partners.values()}):
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
        return {agent: made[str(partner)] for agent, partner in self.partners.items()}

    def policies(
        self, env: Any, engine: Callable[[str], Backend], *, trusted: bool = False
    ) -> dict[str, Policy]:
        """Return the policy of every agent.

        Args:
            env: The environment.
            engine: Function from an agent to the backend of its samples.
            trusted: See `make`.

        Raises:
            PolicyError, BackendError, UntrustedError: As `partner_policies`.
        """
        view, sampling = env.unwrapped.text_view, Sampling(max_new_tokens=self.max_new_tokens)
        partners = self.partner_policies(env, trusted=trusted)
        return {
            agent: partners[agent]
            if agent in partners
            else TextPolicy(engine(agent), view, sampling=sampling)
            for agent in env.possible_agents
        }


@dataclass(frozen=True)
class EngineAnswer:
    """Tokens of one answer from an engine."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    versions: tuple[int, ...] = ()
    """Weight versions: one per token, or the oldest and the newest."""


Generate = Callable[[Sequence[int], int], Awaitable[EngineAnswer]]
"""Coroutine function from (context, maximum number of new tokens) to an answer."""


class EngineBackend:
    """Sampling backend on another library's engine, for one agent in one episode."""

    def __init__(
        self, name: str, chat: ChatFormat, generate: Generate, room: Callable[[int], int]
    ) -> None:
        """Create the backend.

        Args:
            name: Name of the engine in errors.
            chat: Chat format of the model.
            generate: Function that samples an answer.
            room: Function from the length of the first prompt to the maximum number of tokens
                after it.
        """
        self.name, self.chat = name, chat
        self.answers: list[EngineAnswer] = []
        self.full = False
        """True after a request that exceeds the maximum length, which ends the episode."""
        self._generate, self._room = generate, room
        self._opening: int | None = None

    async def complete(self, request: Request) -> Completion:
        """Return the engine's answer and append it to `answers`.

        Raises:
            BackendError: If the answer is empty, or could exceed the maximum length.
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
        if not answer.ids:
            raise BackendError(f"{self.name} returned an answer without tokens")
        if answer.logprobs is not None and len(answer.logprobs) != len(answer.ids):
            raise BackendError(
                f"{self.name} returned {len(answer.ids)} tokens and {len(answer.logprobs)} "
                "log-probabilities"
            )
        self.answers.append(answer)
        return Completion(
            answer.ids,
            (math.nan,) * len(answer.ids) if answer.logprobs is None else answer.logprobs,
            ended=answer.ids[-1] in self.chat.stop_ids,
            model=ModelVersion(self.name, min(answer.versions, default=0)),
        )

    def release(self, conversation: int) -> None:
        """Do nothing: the engine manages its own cache."""


@dataclass(frozen=True)
class FocalSample:
    """Tokens of one agent in one episode: a prompt and a response that contains all later text."""

    prompt_ids: list[int]
    """Token ids before the first answer."""
    response_ids: list[int]
    """Token ids of the answers and of the prompts between them."""
    mask: list[int]
    """Per response token: 1 if sampled, else 0."""
    logprobs: list[float]
    """Per response token; 0 where the mask is 0, NaN if the engine returns none."""
    answers: list[tuple[int, int]]
    """(start, stop) of each answer in `response_ids`."""
    reward: float
    """Undiscounted return minus the text view's parse penalties."""
    parse_failures: float
    """Share of answers that could not be parsed, 0 to 1."""


async def play_focal(
    game: FocalGame,
    seed: int,
    engine: Callable[[str], EngineBackend],
    *,
    trusted: bool = False,
) -> tuple[FocalSample, list[EngineAnswer]] | None:
    """Play one episode and return the sample of the trained agent.

    A conversation that exceeds the maximum length ends the episode, and the sample ends there.

    Args:
        game: The game.
        seed: Seed of the environment and the policies.
        engine: Function from an agent to its backend.
        trusted: See FocalGame.make.

    Returns:
        The sample and the engine's answers, or None if the agent never acted.

    Raises:
        RolloutError: If the episode fails for another reason.
    """
    engines: dict[str, EngineBackend] = {}

    def backend_of(agent: str) -> EngineBackend:
        engines[agent] = engine(agent)
        return engines[agent]

    with closing(game.make(trusted=trusted)) as env:
        policies = game.policies(env, backend_of, trusted=trusted)
        penalty = env.unwrapped.text_view.parse_penalty
    [episode] = await play_many_async(partial(game.make, trusted=trusted), policies, [seed])
    sample = sample_of(episode, game.agent, penalty)
    full = any(one.full for one in engines.values())
    if episode.failure is not None and (sample is None or not full):
        raise RolloutError(
            f"the episode of {game.agent} with seed {seed} failed: {episode.failure}"
        )
    return None if sample is None else (sample, engines[game.agent].answers)


def sample_of(episode: Episode, agent: str, parse_penalty: float) -> FocalSample | None:
    """Return the sample of an agent in an episode, or None if the agent never acted.

    Raises:
        RolloutError: If an answer has no tokens.
    """
    prompt: list[int] = []
    response: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    answers: list[tuple[int, int]] = []
    for step in episode.asked_of(agent):
        tokens = step.decision.tokens
        if tokens is None:
            raise RolloutError(f"an answer of {agent} has no tokens, which training needs")
        if answers:
            response += tokens.prompt_ids
            mask += [0] * len(tokens.prompt_ids)
            logprobs += [0.0] * len(tokens.prompt_ids)
        else:
            prompt += tokens.prompt_ids
        answers.append((len(response), len(response) + len(tokens.completion_ids)))
        response += tokens.completion_ids
        mask += [1] * len(tokens.completion_ids)
        logprobs += tokens.logprobs
    reward, failures = penalized_return(episode, agent, parse_penalty)
    if not answers:
        return None
    return FocalSample(prompt, response, mask, logprobs, answers, reward, failures / len(answers))


def penalized_return(episode: Episode, agent: str, parse_penalty: float) -> tuple[float, int]:
    """Return the undiscounted return minus parse penalties, and the number of parse failures.

    Raises:
        RolloutError: If the return is not finite.
    """
    reward, failures = 0.0, 0
    for step in reversed(episode.steps_of(agent)):
        failed = step.decision.parse_failure is not None
        reward += step.reward - parse_penalty if failed else step.reward
        failures += failed
    if not math.isfinite(reward):
        raise RolloutError(
            f"the return of {agent} must be finite, got {reward} in the episode with seed "
            f"{episode.seed}: check the environment's rewards"
        )
    return reward, failures


LOOP = "srl"
"""Name of our agent loop in verl."""


def rows(
    games: Iterable[FocalGame], seeds: Sequence[int], *, evaluation: bool = False
) -> list[dict[str, Any]]:
    """Return one dataset row per seed and game.

    Args:
        games: Games, which are trusted.
        seeds: Seeds of the episodes.
        evaluation: Allow held-out partners and levels.

    Returns:
        Rows for verl and AReaL. `prompt` is the start of the conversation, for length filters.

    Raises:
        PolicyError: If a game is invalid, or has a held-out partner.
        EnvConfigError: If an environment is invalid, or has held-out levels.
    """
    seeds = [whole_number("seed", seed, low=0, high=MOST) for seed in seeds]
    games = list(games)
    if not evaluation:
        for game in games:
            _refuse_held_out(game)
    openings = [_openings(game, seeds) for game in games]
    return [
        {
            "data_source": game.environment,
            "agent_name": LOOP,
            "prompt": opening[number],
            "extra_info": {
                "index": number * len(games) + place,
                "seed": seed,
                "game": game.to_json(),
            },
        }
        for number, seed in enumerate(seeds)
        for place, (game, opening) in enumerate(zip(games, openings, strict=True))
    ]


def write_rows(path: Path | str, made: Iterable[Mapping[str, Any]]) -> None:
    """Write the rows as JSON lines, for verl and for `load_dataset("json", ...)`."""
    with whole_file(Path(path)) as file:
        file.writelines(json.dumps(row) + "\n" for row in made)


def game_of(row: Mapping[str, Any]) -> tuple[FocalGame, int]:
    """Return the game and seed of a row.

    Raises:
        PolicyError: If the row has no valid game.
    """
    info = row.get("extra_info")
    if not isinstance(info, Mapping) or not isinstance(info.get("game"), str):
        raise PolicyError(
            "a row must have extra_info with a game, as made by "
            "srl_extensions.bridges.focal_game.rows"
        )
    return FocalGame.from_json(info["game"]), whole_number(
        "seed", info.get("seed"), low=0, high=MOST
    )


def _refuse_held_out(game: FocalGame) -> None:
    for agent, partner in game.partners.items():
        if is_held_out(partner):
            raise PolicyError(
                f"{partner}, the partner of {agent}, is reserved for evaluation: use another one, "
                "or evaluation=True for rows that are not used in training"
            )
    with closing(game.make(trusted=True)) as env:
        refuse_levels("game", game.environment, game.options, env)


def _openings(game: FocalGame, seeds: Iterable[int]) -> list[list[dict[str, str]]]:
    with closing(game.make(trusted=True)) as env:
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

    Raises:
        EnvError: If the partners leave more than one agent.
    """

    def __init__(self, game: FocalGame, *, trusted: bool = False) -> None:
        env = game.make(trusted=trusted)
        super().__init__(TextEnv(WithPartners(env, game.partner_policies(env, trusted=trusted))))

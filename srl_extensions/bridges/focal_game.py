"""Games of one focal agent for other trainers: plain data, rows, and samples of tokens."""

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
"""Limit of a served partner's answer in tokens, with hidden reasoning."""


@dataclass(frozen=True)
class FocalGame:
    """Game of one learning agent as plain data; a row carries the game as JSON.

    The model plays `agent` and every agent without a partner.
    """

    environment: str
    """Name in the catalogue, or 'module:function'."""
    agent: str
    """Agent whose tokens and reward are used."""
    partners: Mapping[str, str] = field(default_factory=dict)
    """Agent -> scripted policy, 'module:Class', or model behind an API ('openai:MODEL')."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment."""
    max_new_tokens: int = 32
    """Limit of one answer in tokens, with its end of turn."""

    def to_json(self) -> str:
        """Return JSON for `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FocalGame:
        """Return the game; raise PolicyError for invalid text."""
        try:
            given = read_json(text)
        except (DocumentError, TypeError) as error:
            raise PolicyError(f"the game of a row is {text!r:.200}: {error}") from error
        if not isinstance(given, dict):
            raise PolicyError(f"the game of a row is {text!r:.200}: give a JSON object")
        known = [one.name for one in fields(cls)]
        for name in given.keys() - set(known):
            raise PolicyError(f"the game of a row has a {name!r:.200}{nearest(name, known)}")
        if missing := {"environment", "agent"} - given.keys():
            raise PolicyError(f"the game of a row names no {' and no '.join(sorted(missing))}")
        return cls(**given)

    def __post_init__(self) -> None:
        for name, kind, wanted in (
            ("environment", str, "a name"),
            ("agent", str, "a name"),
            ("partners", Mapping, "agents with who plays them"),
            ("options", Mapping, "names with their values"),
            ("max_new_tokens", int, "a whole number"),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise PolicyError(f"{name} of a game is {value!r:.200}: give {wanted}")
        if self.max_new_tokens < 1:
            raise PolicyError(f"max_new_tokens of a game is {self.max_new_tokens}: give 1 or more")

    def make(self, *, trusted: bool = False) -> Any:
        """Return the environment.

        Games that are not `trusted` may name neither code nor files (srl_envs.registry.remake).
        Raises EnvConfigError and UntrustedError, and PolicyError for unknown agents or an
        environment without text view.
        """
        options = registry.as_conversations(self.environment, self.options)
        env = registry.remake(self.environment, options, trusted=trusted)
        if getattr(env.unwrapped, "text_view", None) is None:
            raise PolicyError(f"{self.environment} has no text_view: no language model can play it")
        there = env.possible_agents
        for agent in (self.agent, *self.partners):
            if agent not in there:
                raise PolicyError(
                    f"no agent {agent!r:.200} in {self.environment}: there are {', '.join(there)}"
                )
        if self.agent in self.partners:
            raise PolicyError(f"{self.agent} is the agent that learns: no partner plays it")
        return env

    def partner_policies(self, env: Any, *, trusted: bool = False) -> dict[str, Policy]:
        """Return agent -> policy of the partners.

        Raises PolicyError for an invalid partner, BackendError for a missing package or key, and
        UntrustedError for an API or code in a game that is not `trusted`.
        """
        made: dict[str, Policy] = {}
        for name in sorted({str(who) for who in self.partners.values()}):
            if not is_api_name(name):
                with nullcontext() if trusted else loading.closed():
                    made[name] = classic_policy(name, env)
            elif trusted:
                view, long = env.unwrapped.text_view, Sampling(max_new_tokens=PARTNER_TOKENS)
                made[name] = ChatPolicy(api_model(name), view, sampling=long)
            else:
                raise UntrustedError(
                    f"{name!r:.200} is a model that a row names, and is not asked: "
                    f"{loading.WAY_OUT}"
                )
        return {agent: made[str(who)] for agent, who in self.partners.items()}

    def policies(
        self, env: Any, engine: Callable[[str], Backend], *, trusted: bool = False
    ) -> dict[str, Policy]:
        """Return agent -> policy; `engine` returns the backend of an agent. Raises as
        `partner_policies`."""
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
    """Answer of an engine."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    versions: tuple[int, ...] = ()
    """Versions of the weights: each token's, or the oldest and the newest."""


Generate = Callable[[Sequence[int], int], Awaitable[EngineAnswer]]
"""(context, token limit) -> answer."""


class EngineBackend:
    """Backend on another framework's engine, for one agent in one game."""

    def __init__(
        self, name: str, chat: ChatFormat, generate: Generate, room: Callable[[int], int]
    ) -> None:
        """`room` maps the length of the first prompt to the tokens allowed after it."""
        self.name, self.chat = name, chat
        self.answers: list[EngineAnswer] = []
        self.full = False
        """True after a request without room, which ends the game."""
        self._generate, self._room = generate, room
        self._opening: int | None = None

    async def complete(self, request: Request) -> Completion:
        """Return the engine's answer; raise BackendError without room or without tokens."""
        length = len(request.context)
        if self._opening is None:
            self._opening = length
        room = self._room(self._opening) - (length - self._opening)
        if request.longest > room:
            self.full = True
            raise BackendError(
                f"a conversation of {length} tokens has room for {max(room, 0)} more, and an "
                f"answer may take {request.longest}: lower max_new_tokens, play fewer turns, or "
                f"give {self.name} longer sequences"
            )
        answer = await self._generate(request.context, request.longest)
        if not answer.ids:
            raise BackendError(f"{self.name} gave an answer without a token: was it aborted?")
        if answer.logprobs is not None and len(answer.logprobs) != len(answer.ids):
            raise BackendError(
                f"{self.name} gave {len(answer.ids)} tokens and {len(answer.logprobs)} "
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
        """Do nothing."""


@dataclass(frozen=True)
class FocalSample:
    """One agent's part of one game as a prompt and an append-only response."""

    prompt_ids: list[int]
    """Tokens before the first answer."""
    response_ids: list[int]
    """Answers, and the prompts between them."""
    mask: list[int]
    """1 for sampled response tokens, 0 for others."""
    logprobs: list[float]
    """Per response token; NaN if the engine gives none, 0 where mask is 0."""
    answers: list[tuple[int, int]]
    """(start, stop) of each answer in the response."""
    reward: float
    """Undiscounted return less the text view's parse penalties."""
    unreadable: float
    """Share of unreadable answers."""


async def play_focal(
    game: FocalGame,
    seed: int,
    engine: Callable[[str], EngineBackend],
    *,
    trusted: bool = False,
) -> tuple[FocalSample, list[EngineAnswer]] | None:
    """Play the game and return its sample and the engine's answers, or None if `agent` never acted.

    A conversation without room ends the game, and the sample ends there. Raises RolloutError for
    other failures, and errors of FocalGame and of the engine.
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
        raise RolloutError(f"the game of {game.agent} from seed {seed} failed: {episode.failure}")
    return None if sample is None else (sample, engines[game.agent].answers)


def sample_of(episode: Episode, agent: str, parse_penalty: float) -> FocalSample | None:
    """Return the sample of the agent, or None if the agent never acted; raise RolloutError without
    tokens."""
    prompt: list[int] = []
    response: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    answers: list[tuple[int, int]] = []
    for step in episode.asked_of(agent):
        tokens = step.decision.tokens
        if tokens is None:
            raise RolloutError(f"{agent} answered without tokens: nothing can be learned from it")
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
    reward, unread = paid(episode, agent, parse_penalty)
    if not answers:
        return None
    return FocalSample(prompt, response, mask, logprobs, answers, reward, unread / len(answers))


def paid(episode: Episode, agent: str, parse_penalty: float) -> tuple[float, int]:
    """Return the undiscounted return less parse penalties, and the number of unreadable answers.

    Raises RolloutError for a reward that is not finite.
    """
    reward, unread = 0.0, 0
    for step in reversed(episode.steps_of(agent)):
        failed = step.decision.parse_failure is not None
        reward += step.reward - parse_penalty if failed else step.reward
        unread += failed
    if not math.isfinite(reward):
        raise RolloutError(
            f"{agent} was paid {reward} in the game from seed {episode.seed}: rewards must be "
            "finite numbers, look at the environment"
        )
    return reward, unread


LOOP = "srl"
"""Name of the agent loop in verl."""


def rows(
    games: Iterable[FocalGame], seeds: Sequence[int], *, evaluation: bool = False
) -> list[dict[str, Any]]:
    """Return one row per seed and game; the games are trusted.

    `prompt` is the opening of the conversation, for readers and length filters. Raises
    PolicyError and EnvConfigError for invalid games, and for held-out partners or levels unless
    `evaluation`.
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
    """Return game and seed of a row; raise PolicyError for an invalid row."""
    info = row.get("extra_info")
    if not isinstance(info, Mapping) or not isinstance(info.get("game"), str):
        raise PolicyError(
            "a row has no extra_info with a game: make rows with "
            "srl_extensions.bridges.focal_game.rows"
        )
    return FocalGame.from_json(info["game"]), whole_number(
        "seed", info.get("seed"), low=0, high=MOST
    )


def _refuse_held_out(game: FocalGame) -> None:
    for agent, who in game.partners.items():
        if is_held_out(who):
            raise PolicyError(
                f"{agent} is played by {who}, which is kept for evaluation: give another, or "
                "evaluation=True for rows that are not trained on"
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
    """Agent of a game for TRL's `environment_factory`, with partners in this process.

    trainer = GRPOTrainer(..., environment_factory=partial(GameAgent, game)). The reward is the
    return less parse penalties. Raises EnvError if partners leave several agents, and errors of
    FocalGame.
    """

    def __init__(self, game: FocalGame, *, trusted: bool = False) -> None:
        env = game.make(trusted=trusted)
        super().__init__(TextEnv(WithPartners(env, game.partner_policies(env, trusted=trusted))))

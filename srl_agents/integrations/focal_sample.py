"""Samples of a focal agent: its game played, and the tokens, mask and reward to learn from."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from srl_agents.episode import Episode
from srl_agents.errors import RolloutError
from srl_agents.integrations.engine_backend import EngineAnswer, EngineBackend
from srl_agents.integrations.focal_game import FocalGame
from srl_agents.rollout import play_many_async


@dataclass(frozen=True)
class FocalSample:
    """One agent's part of one game as a prompt and an append-only response."""

    prompt_ids: list[int]
    """All the agent was told before its first answer."""
    response_ids: list[int]
    """The agent's answers and, between them, what it was told."""
    mask: list[int]
    """Per response token: 1 where the model wrote it, 0 where it was told."""
    logprobs: list[float]
    """Per response token, as the engine gave it (NaN where it gave none); 0 where mask is 0."""
    answers: list[tuple[int, int]]
    """Where each answer stands in the response: (start, stop)."""
    reward: float
    """What the agent was paid in all, undiscounted, less the text view's penalty for each answer
    that could not be read."""
    unreadable: float
    """Share of the answers that could not be read."""


async def play_focal(
    game: FocalGame,
    seed: int,
    engine: Callable[[str], EngineBackend],
    *,
    trusted: bool = False,
) -> tuple[FocalSample, list[EngineAnswer]] | None:
    """The sample of the game from `seed`, and what the engine answered to its agent, in order; None
    where the agent was never asked.

    `engine` gives the backend of each agent that the model plays. Where one of their conversations
    has no room for another answer, the sample is what was played up to there. Raises RolloutError
    where the game fails otherwise, as FocalGame does for one that cannot be made, and what the
    engine raises.
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
    """What is learned from the agent's part of the game; None where it was never asked. Raises
    RolloutError for answers without tokens, and as `paid` does."""
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
    """What the agent was paid in all, undiscounted, less the penalty for each answer that could not
    be read, and how many those were.

    Raises RolloutError for a reward that is not finite, which a learner would not see.
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

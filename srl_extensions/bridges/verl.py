"""Agent loop for verl: each row is one episode of one trained agent, sampled by verl's servers.

The entry point `verl.plugins` imports this module in every process of verl. Tested with verl
0.9.1.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from srl_agents.errors import RolloutError
from srl_agents.llm.chat_format import ChatFormat
from srl_envs.loading import needed_by
from srl_extensions.bridges.focal_game import (
    LOOP,
    EngineAnswer,
    EngineBackend,
    FocalSample,
    Generate,
    game_of,
    play_focal,
)

with needed_by("the agent loop for verl"):
    from verl.experimental.agent_loop.agent_loop import (
        AgentLoopBase,
        AgentLoopMetrics,
        AgentLoopOutput,
        register,
    )
    from verl.utils.profiler import simple_timer


@register(LOOP)
class SrlAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Agent loop of verl that plays one episode per row.

    Tokens of answers have mask 1, and tokens of the observations between them mask 0. The reward is
    the return minus parse penalties. The episode ends before an answer that could make the tokens
    after the first prompt more than `rollout.response_length`.
    """

    def __init__(self, *args: Any, trusted: bool = False, **kwargs: Any) -> None:
        """Create the loop with AgentLoopBase's arguments.

        `trusted` allows rows that name code, files or an API model.
        """
        super().__init__(*args, **kwargs)
        self.trusted = trusted
        self.chat = ChatFormat(
            self.tokenizer, template_kwargs=dict(self.apply_chat_template_kwargs)
        )

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play the episode of a row of `focal_game.rows`; return tokens, answer mask and reward.

        Raise the errors of `game_of` and `play_focal`, and RolloutError if the episode ends before
        the agent acts, or the first prompt is longer than `rollout.prompt_length`.
        """
        game, seed = game_of(row)
        metrics: dict[str, Any] = {}

        def engine(agent: str) -> EngineBackend:
            generate = self._generate(sampling_params, metrics)
            return EngineBackend("verl", self.chat, generate, self._room)

        played = await play_focal(game, seed, engine, trusted=self.trusted)
        if played is None:
            raise RolloutError(
                f"the episode with seed {seed} ended before {game.agent} acted: remove the row"
            )
        return _output(played, metrics)

    def _room(self, prompt: int) -> int:
        longest = self.rollout_config.prompt_length
        if prompt > longest:
            raise RolloutError(
                f"data.max_prompt_length must be at least {prompt}, the tokens of the rules and "
                f"the first observation, got {longest}"
            )
        return int(self.rollout_config.response_length)

    def _generate(self, sampling_params: dict[str, Any], metrics: dict[str, Any]) -> Generate:
        conversation = uuid4().hex  # verl routes by this id to the server with the cached prefix

        async def generate(context: Any, longest: int) -> EngineAnswer:
            with simple_timer("generate_sequences", metrics):
                output = await self.server_manager.generate(
                    request_id=conversation,
                    prompt_ids=list(context),
                    sampling_params={
                        **sampling_params,
                        "max_tokens": longest,
                        "stop_token_ids": sorted(self.chat.stop_ids),
                    },
                )
            steps = (output.extra_fields.get(f"{end}_global_steps") for end in ("min", "max"))
            return EngineAnswer(
                tuple(output.token_ids),
                tuple(output.log_probs) if output.log_probs else None,
                tuple(step for step in steps if step is not None),
            )

        return generate


def _output(sample: FocalSample, metrics: dict[str, Any]) -> AgentLoopOutput:
    tokens = sample.tokens
    known = all(answer.logprobs is not None for answer in sample.answers)
    steps = [step for answer in sample.answers for step in answer.versions]
    return AgentLoopOutput(
        prompt_ids=list(tokens.prompt_ids),
        response_ids=list(tokens.completion_ids),
        response_mask=list(tokens.mask),
        response_logprobs=list(tokens.logprobs) if known else None,
        reward_score=tokens.episode_return,
        num_turns=2 * len(tokens.turns),
        metrics=AgentLoopMetrics(**metrics),
        extra_fields={
            "turn_scores": [],  # column of verl's own loops
            "tool_rewards": [],
            "min_global_steps": min(steps, default=None),
            "max_global_steps": max(steps, default=None),
            "reward_extra_info": {"unreadable_answers": sample.parse_failures},
        },
    )

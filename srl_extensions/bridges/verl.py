"""Agent loop for verl: a row is one game of one focal agent, played by verl's servers.

The entry point `verl.plugins` imports this module in every process of verl. Tested with verl
0.9.1.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """Agent loop with one game per row.

    Answers have mask 1, the prompts between them mask 0; the reward is the return. A
    conversation beyond `rollout.response_length` ends the game.
    """

    def __init__(self, *args: Any, trusted: bool = False, **kwargs: Any) -> None:
        """`trusted`: see FocalGame.make."""
        super().__init__(*args, **kwargs)
        self.trusted = trusted
        self.chat = ChatFormat(
            self.tokenizer, template_kwargs=dict(self.apply_chat_template_kwargs)
        )

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play the game of a row; raise PolicyError for an invalid row, RolloutError for a failed
        game."""
        game, seed = game_of(row)
        metrics: dict[str, Any] = {}

        def engine(agent: str) -> EngineBackend:
            generate = self._generate(sampling_params, metrics)
            return EngineBackend("verl", self.chat, generate, self._room)

        played = await play_focal(game, seed, engine, trusted=self.trusted)
        if played is None:
            raise RolloutError(
                f"the game of {game.agent} from seed {seed} was over before it had a turn: leave "
                "the row out"
            )
        return _output(*played, metrics)

    def _room(self, prompt: int) -> int:
        longest = self.rollout_config.prompt_length
        if prompt > longest:
            raise RolloutError(
                f"the rules and the first situation take {prompt} tokens: set "
                f"data.max_prompt_length, which is {longest}, to that or more"
            )
        return int(self.rollout_config.response_length)

    def _generate(self, sampling_params: dict[str, Any], metrics: dict[str, Any]) -> Generate:
        conversation = uuid4().hex  # verl sends it to the server that has its prefix cached

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


def _output(
    sample: FocalSample, answers: Sequence[EngineAnswer], metrics: dict[str, Any]
) -> AgentLoopOutput:
    known = all(answer.logprobs is not None for answer in answers)
    steps = [step for answer in answers for step in answer.versions]
    return AgentLoopOutput(
        prompt_ids=sample.prompt_ids,
        response_ids=sample.response_ids,
        response_mask=sample.mask,
        response_logprobs=sample.logprobs if known else None,
        reward_score=sample.reward,
        num_turns=2 * len(sample.answers),
        metrics=AgentLoopMetrics(**metrics),
        extra_fields={
            "turn_scores": [],  # the columns of verl's own loops
            "tool_rewards": [],
            "min_global_steps": min(steps, default=None),
            "max_global_steps": max(steps, default=None),
            "reward_extra_info": {"unreadable_answers": sample.unreadable},
        },
    )

"""Rollout workflow for AReaL: each row is one episode of one trained agent.

Tested with AReaL 1.0.4.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from srl_agents.errors import RolloutError
from srl_agents.llm.chat_format import ChatFormat
from srl_envs.loading import needed_by
from srl_extensions.bridges.focal_game import (
    EngineAnswer,
    EngineBackend,
    FocalSample,
    Generate,
    game_of,
    play_focal,
)

with needed_by("the workflow for AReaL"):
    from areal import workflow_context
    from areal.api import InferenceEngine, ModelRequest, RolloutWorkflow
    from areal.api.cli_args import GenerationHyperparameters
    from areal.utils import stats_tracker
    from areal.utils.hf_utils import load_hf_tokenizer
    import torch  # isort: skip  # a missing AReaL is reported first

NOT_SAMPLED = -1
"""Weight version of tokens that the environment wrote."""


class SrlWorkflow(RolloutWorkflow):  # type: ignore[misc]
    """AReaL workflow that plays one episode per row.

    Every sampled token has the version of the weights that sampled it. An episode ends before an
    answer that could make a conversation longer than `gconfig.max_tokens`.
    """

    def __init__(
        self, gconfig: GenerationHyperparameters, tokenizer: Any, trusted: bool = False
    ) -> None:
        """Create the workflow with AReaL's sampling settings, whose `n_samples` is replaced by 1.

        `tokenizer` is a tokenizer or its name. `trusted` allows rows that name code, files or an
        API model.
        """
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.chat = ChatFormat(self.tokenizer, gconfig.stop_token_ids)
        self.gconfig = gconfig.new(n_samples=1, stop_token_ids=sorted(self.chat.stop_ids))
        self.trusted = trusted

    async def arun_episode(
        self, engine: InferenceEngine, data: dict[str, Any]
    ) -> dict[str, torch.Tensor] | None:
        """Play the episode of a row; return AReaL's tensors, or None if the agent never acted.

        `data` is a row of `focal_game.rows`. "rewards", the return minus parse penalties, has shape
        (1,), others (1, tokens). Log reward, number of answers and share of parse failures in
        AReaL's statistics. Raise the errors of `game_of` and `play_focal`.
        """
        game, seed = game_of(data)
        played = await play_focal(
            game,
            seed,
            lambda agent: EngineBackend("AReaL", self.chat, self._generate(engine), self._room),
            trusted=self.trusted,
        )
        if played is None:
            return None
        stats_tracker.get(workflow_context.stat_scope()).scalar(
            reward=played.tokens.episode_return,
            num_turns=len(played.tokens.turns),
            unreadable_answers=played.parse_failures,
        )
        return _tensors(played)

    def _room(self, prompt: int) -> int:
        return int(self.gconfig.max_tokens) - prompt

    def _generate(self, engine: InferenceEngine) -> Generate:
        conversation = uuid4().hex  # AReaL routes by this id to the server with the cached prefix

        async def generate(context: Any, longest: int) -> EngineAnswer:
            response = await engine.agenerate(
                ModelRequest(
                    rid=conversation,
                    input_ids=list(context),
                    gconfig=self.gconfig.new(max_new_tokens=longest),
                    tokenizer=self.tokenizer,
                )
            )
            if len(response.output_versions) != len(response.output_tokens):
                raise RolloutError(
                    f"AReaL returned {len(response.output_tokens)} tokens and "
                    f"{len(response.output_versions)} versions"
                )
            return EngineAnswer(
                tuple(response.output_tokens),
                tuple(response.output_logprobs),
                tuple(response.output_versions),
            )

        return generate


def _tensors(sample: FocalSample) -> dict[str, torch.Tensor]:
    tokens = sample.tokens
    before = [0] * len(tokens.prompt_ids)
    ids = tokens.prompt_ids + tokens.completion_ids
    versions = [NOT_SAMPLED] * len(ids)
    # The last answer may belong to a step that did not complete.
    for (start, stop), answer in zip(tokens.turns, sample.answers, strict=False):
        versions[len(before) + start : len(before) + stop] = answer.versions
    rows = {
        "input_ids": torch.tensor(ids, dtype=torch.int32),
        "logprobs": torch.tensor([*before, *tokens.logprobs], dtype=torch.float32),
        "loss_mask": torch.tensor([*before, *tokens.mask], dtype=torch.int32),
        "versions": torch.tensor(versions, dtype=torch.int32),
        "attention_mask": torch.ones(len(ids), dtype=torch.bool),
        "rewards": torch.tensor(tokens.episode_return, dtype=torch.float32),
    }
    return {name: row.unsqueeze(0) for name, row in rows.items()}

"""Sections of models, opponent pools and matchmaking, and the names of players."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from srl_agents.llm.backends.registry import is_api_name
from srl_agents.llm.sampling import Sampling
from srl_agents.scripted.registry import POLICIES, is_scripted
from srl_train.config.bounds import MOST_EPISODES, MOST_MODELS, MOST_RANK, MOST_TOKENS
from srl_train.config.section import LocalPath, Names, Section
from srl_train.errors import ConfigError

EMBEDDED_TOKENS = 4
"""Maximum number of tokens of an answer of the embedded model, whose answers are single words."""

PlayerName = Annotated[str, Field(pattern="^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
"""Name of a frozen model or pool, which is also valid for PEFT modules and adapters of servers."""


class AdapterConfig(Section):
    """LoRA adapters (Hu et al. 2021), one per model. Models with equal bases share the base."""

    rank: Annotated[int, Field(ge=1, le=MOST_RANK)] = 16
    """Rank of the adapter matrices."""
    alpha: Annotated[float, Field(gt=0)] = 32.0
    """Scale of the adapters: their output is multiplied by alpha / rank."""
    dropout: Annotated[float, Field(ge=0, le=0.99)] = 0.0
    """Dropout probability of the adapters' inputs during training."""
    target_modules: str | Names = "all-linear"
    """Linear layers with adapters: a list of names, a regular expression for whole paths, or
    `all-linear`."""


class SamplingConfig(Section):
    """Settings of sampled answers: temperature, top_p, top_k and maximum length."""

    temperature: Annotated[float, Field(ge=0)] = 1.0
    """Divisor of the logits, above 0 for models in training. 0 selects the most likely token."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Nucleus sampling: probability of the smallest set of tokens to sample from. 1 disables it."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """Number of most likely tokens to sample from. 0 disables the limit."""
    max_new_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 32
    """Maximum number of tokens per answer, including the end-of-turn token. The default is 4 if
    all models are `tiny`, else 32."""

    def build(self) -> Sampling:
        """Return the settings as srl_agents.llm.sampling.Sampling, for policies and backends."""
        return Sampling(**dict(self))


class ModelsConfig(Section):
    """Models in training, frozen models, and the sampling of their answers."""

    count: Annotated[int, Field(ge=1, le=MOST_MODELS)] = 4
    """Number of models in training, which are named model_0, model_1, ..."""
    base: str | Names = "tiny"
    """Base of the models, or a list with one base per model: `tiny` (the embedded model), a folder
    of a model or PEFT adapter, RUN:model_0, a GGUF file (docs/training/real_models.md), or a hub
    name (NAME or NAME@REVISION)."""
    frozen_models: Mapping[PlayerName, str] = {}
    """Models that play without learning, by name: a base, or an API model such as openai:gpt-5-mini
    (docs/agents/api_models.md). `seats` assigns them to agents (docs/training/self_play.md)."""
    adapters: AdapterConfig | None = None
    """LoRA adapters of the models in training. null trains all weights."""
    sampling: SamplingConfig = SamplingConfig(max_new_tokens=EMBEDDED_TOKENS)
    """Sampling of answers in training and evaluation."""
    agent_sampling: Mapping[str, SamplingConfig] = {}
    """Sampling settings by agent. In a file, omitted settings are those of models.sampling."""
    constrained: bool = False
    """If true, models sample only legal answers and train with the same mask."""
    context: Annotated[str, Field(pattern=r"^(full|window|last|[\w.]+:\w+)$")] = "full"
    """Messages that a model reads before an answer: all (`full`), the rules and the last
    context_steps observations with the answers between them (`window`), the rules and the current
    observation (`last`), or the result of MODULE:FUNCTION (docs/agents/language_models.md)."""
    context_steps: Annotated[int, Field(ge=1)] = 8
    """Number of observations of the context `window`, with the current one."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the models. `auto` uses an accelerator if there is one."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Data type of the weights. Adapters are always trained in float32."""
    attn_implementation: str | None = None
    """Attention implementation of transformers, such as sdpa or flash_attention_2. null is
    transformers' default."""
    chat_template: LocalPath | None = None
    """Chat template for tokenizers without one: `plain`, `chatml`, `gemma` or a Jinja file."""
    chat_template_kwargs: Mapping[str, Any] = {}
    """Keyword arguments of the chat templates, such as {enable_thinking: false}."""
    quantization: Literal["nf4"] | None = None
    """Quantization of the weights that are not trained: shared bases of adapters, and frozen
    models. null disables it."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_sampling(cls, tree: Any) -> Any:
        if not isinstance(tree, Mapping):
            return tree
        base, frozen = tree.get("base", "tiny"), tree.get("frozen_models")
        bases = [base] if isinstance(base, str) else base
        others = list(frozen.values()) if isinstance(frozen, Mapping) else []
        embedded = isinstance(bases, list | tuple) and {*map(repr, [*bases, *others])} == {"'tiny'"}
        usual = {"max_new_tokens": EMBEDDED_TOKENS} if embedded else {}
        shared, seats = tree.get("sampling", {}), tree.get("agent_sampling")
        if isinstance(shared, Mapping):
            shared = {**usual, **shared}
        if isinstance(seats, Mapping) and isinstance(shared, Mapping | SamplingConfig):
            seats = {
                agent: {**dict(shared), **own} if isinstance(own, Mapping) else own
                for agent, own in seats.items()
            }
        filled = {**tree, "sampling": shared}
        return filled if seats is None else {**filled, "agent_sampling": seats}

    @model_validator(mode="after")
    def _check(self) -> ModelsConfig:
        if not isinstance(self.base, str) and len(self.base) != self.count:
            raise ConfigError(
                f"base: must be one name or a list of models.count ({self.count}) names, got "
                f"{len(self.base)}"
            )
        for base in filter(is_api_name, self.bases.values()):
            raise ConfigError(f"base: must not be an API model, which cannot learn, got {base!r}")
        frozen = self.frozen_models.values()
        if self.constrained and any(map(is_api_name, frozen)):
            raise ConfigError("constrained: must be false with an API model in frozen_models")
        local = [base for base in frozen if not is_api_name(base)]
        if self.quantization is not None and self.adapters is None and not local:
            raise ConfigError(
                "quantization: requires models.adapters or frozen models, since quantized weights "
                f"cannot be trained, got {self.quantization!r}"
            )
        return self

    @property
    def bases(self) -> dict[str, str]:
        """Mapping from model in training to its base, in the order of the models' numbers."""
        bases = (self.base,) * self.count if isinstance(self.base, str) else self.base
        return dict(zip(self.names, bases, strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models in training: model_0, model_1, ..."""
        return tuple(f"model_{index}" for index in range(self.count))

    @property
    def per_agent(self) -> dict[str, Sampling]:
        """Mapping from agent to Sampling, for agents in agent_sampling only."""
        return {agent: section.build() for agent, section in self.agent_sampling.items()}


class PoolConfig(Section):
    """Settings of a pool of models' snapshots, used as opponents (docs/training/self_play.md)."""

    models: Annotated[Names, Field(min_length=1)] = ("model_0",)
    """Models in training whose snapshots are in the pool."""
    every: Annotated[int, Field(ge=1)] = 5
    """Number of rounds between two snapshots. The first is taken before the first round."""
    keep: Annotated[int, Field(ge=1, le=MOST_MODELS)] = 8
    """Number of newest snapshots to keep per model, in addition to its first."""
    draw: Literal["uniform", "latest", "prioritized", "nash"] = "uniform"
    """Probability distribution from which a snapshot is drawn (docs/training/self_play.md)."""
    draw_each: Literal["round", "group"] = "round"
    """Episodes for which a snapshot is drawn: all of a round, or one group."""
    nash_episodes: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 16
    """Number of episodes of a new snapshot against each other one, on each side, for `nash`."""


def with_seated_models(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a run's configuration with a frozen model for each base that `seats` names directly.

    'tiny' and names with '/' or ':' are bases, except for scripted policies 'module:Class'. In the
    result, `seats` and models.frozen_models have names such as "frozen_tiny". `tree` is not
    changed. Raises ConfigError if two models would have the same name.
    """
    seats, models = tree.get("seats"), tree.get("models", {})
    if not isinstance(seats, Mapping) or not isinstance(models, Mapping | Section):
        return tree
    section = dict(models)
    frozen, pools = section.get("frozen_models", {}), tree.get("opponent_pools", {})
    if not isinstance(frozen, Mapping) or not isinstance(pools, Mapping):
        return tree
    players = {player for player in seats.values() if isinstance(player, str) and _is_model(player)}
    bases = sorted(players - {*frozen, *pools})
    names = {base: "frozen_" + re.sub(r"[^A-Za-z0-9_-]+", "_", base)[-50:] for base in bases}
    if len({*names.values(), *frozen}) < len(names) + len(frozen):
        raise ConfigError(
            f"seats: must name {' and '.join(bases)} by different names in models.frozen_models"
        )
    section["frozen_models"] = {**frozen, **{name: base for base, name in names.items()}}
    replaced = {agent: names.get(str(player), player) for agent, player in seats.items()}
    return {**tree, "models": section, "seats": replaced} if bases else tree


def _is_model(player: str) -> bool:
    return (player == "tiny" or "/" in player or ":" in player) and not is_scripted(player)


def check_players(
    seats: Mapping[str, str], models: Iterable[str], sections: Mapping[str, Iterable[str]]
) -> None:
    """Raise ConfigError if a frozen model or pool has the name of another player, or no agent.

    `seats` is agent -> player, `models` has the models in training, and `sections` is dotted name
    of a section -> frozen models or pools in it. Other players are scripted policies and model_<i>.
    """
    taken = {*models, *POLICIES}
    for section, players in sections.items():
        for name in players:
            if name in taken or re.fullmatch(r"model_\d+", name):
                raise ConfigError(f"{section}.{name}: must not be the name of another player")
            if name not in seats.values():
                raise ConfigError(f"{section}.{name}: must be named in seats, got {dict(seats)}")
        taken |= set(players)


class MatchmakingConfig(Section):
    """Assignment of the models in training to the agents that `seats` does not name."""

    name: Literal["fixed", "rotating", "uniform", "round_robin"] = "fixed"
    """Assignment of models to agents: in order (`fixed`), in order and shifted by one agent per
    group (`rotating`), drawn for each group (`uniform`), or in a balanced schedule (`round_robin`;
    docs/training/populations.md)."""

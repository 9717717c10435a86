"""Models, frozen models and opponent pools: their configuration sections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from srl_agents.llm.backends.registry import is_api_name
from srl_agents.llm.sampling import Sampling
from srl_agents.scripted.registry import POLICIES, is_scripted
from srl_train.config.bounds import MOST_EPISODES, MOST_MODELS, MOST_RANK, MOST_TOKENS
from srl_train.config.section import Names, Section
from srl_train.errors import ConfigError

EMBEDDED_TOKENS = 4
"""Of an answer of the embedded model, which answers in a word."""

PlayerName = Annotated[str, Field(pattern="^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
"""Name that is valid in RUN:NAME, in records, for PEFT modules and for adapters of servers."""


class AdapterConfig(Section):
    """LoRA adapters (Hu et al. 2021), one per model; those of one base share it."""

    rank: Annotated[int, Field(ge=1, le=MOST_RANK)] = 16
    """Inner dimension of every pair of adapter matrices."""
    alpha: Annotated[float, Field(gt=0)] = 32.0
    """Scale: the adapter's product is multiplied by alpha / rank."""
    dropout: Annotated[float, Field(ge=0, le=0.99)] = 0.0
    """Probability of dropping an adapter's input while training."""
    target_modules: str | Names = "all-linear"
    """Linear layers to adapt: a list of names, one regular expression of whole paths, or
    `all-linear`."""


class SamplingConfig(Section):
    """How answers are sampled."""

    temperature: Annotated[float, Field(ge=0)] = 1.0
    """Divides the logits; a model that trains needs one above 0."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The smallest set of tokens with this share of probability stays; 1 keeps all."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """This many most likely tokens stay; 0 keeps all."""
    max_new_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 32
    """Tokens per answer, end of turn included; left out it is 4 where every model is `tiny`."""

    def build(self) -> Sampling:
        """Return the arguments of sampling backends."""
        return Sampling(**dict(self))


class ModelsConfig(Section):
    """Which models learn, and how all of them answer."""

    count: Annotated[int, Field(ge=1, le=MOST_MODELS)] = 4
    """How many models train at once; they are called model_0, model_1, ..."""
    base: str | Names = "tiny"
    """`tiny` (the embedded model), a local folder (a model's, a PEFT adapter's, or RUN:model_0), a
    GGUF file (docs/training/real_models.md) or a hub name (NAME or NAME@REVISION); or a list with
    one per model."""
    frozen_models: Mapping[PlayerName, str] = {}
    """Further models that play and never learn: name -> base, or a model behind an API, such as
    openai:gpt-5-mini (docs/agents/api_models.md); `seats` says where they sit
    (docs/training/self_play.md)."""
    adapters: AdapterConfig | None = None
    """A section makes the models LoRA adapters; models of one base share it. null trains full
    models."""
    sampling: SamplingConfig = SamplingConfig(max_new_tokens=EMBEDDED_TOKENS)
    """How answers are sampled, in training and evaluation."""
    agent_sampling: Mapping[str, SamplingConfig] = {}
    """Agent -> its own sampling section; in a file, what it leaves out is as in `sampling`."""
    constrained: bool = False
    """Sample only among the legal answers, and train with the same masking."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes an accelerator where there is one."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights; adapters are always trained in float32."""
    attn_implementation: str | None = None
    """Of attention, by transformers' names, such as sdpa or flash_attention_2; null leaves it to
    transformers."""
    chat_template: str | None = None
    """For models whose tokenizer has no chat template, such as base models: `plain`, `chatml`,
    `gemma` or a file of Jinja; others keep their own."""
    chat_template_kwargs: Mapping[str, Any] = {}
    """What the models' chat templates are told beside the messages, such as
    {enable_thinking: false}."""
    quantization: Literal["nf4", "int8"] | None = None
    """Hold what never trains, the adapters' shared base and frozen models, in 4 or 8 bits."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_sampling(cls, tree: Any) -> Any:
        """Fill in the token limit of the embedded model, and agents' settings from `sampling`."""
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
            raise ConfigError(
                f"base: cannot be a model behind an API, got {base!r}: name it in frozen_models"
            )
        frozen = self.frozen_models.values()
        if self.constrained and any(map(is_api_name, frozen)):
            raise ConfigError("constrained: must be false for frozen_models behind an API")
        local = [base for base in frozen if not is_api_name(base)]
        if self.quantization is not None and self.adapters is None and not local:
            raise ConfigError(
                f"quantization: needs models.adapters or frozen models, got {self.quantization!r}: "
                "quantized weights cannot be trained"
            )
        return self

    @property
    def bases(self) -> dict[str, str]:
        """Model to its base, in order."""
        own = (self.base,) * self.count if isinstance(self.base, str) else self.base
        return dict(zip(self.names, own, strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """model_0, model_1, ..."""
        return tuple(f"model_{index}" for index in range(self.count))

    @property
    def per_agent(self) -> dict[str, Sampling]:
        """Agent to the arguments of backends, for agents with their own settings."""
        return {agent: own.build() for agent, own in self.agent_sampling.items()}

    def sampling_of(self, agent: str) -> SamplingConfig:
        """Return the sampling settings of an agent."""
        return self.agent_sampling.get(agent, self.sampling)


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("each model must be named once")
    return names


class PoolConfig(Section):
    """Snapshots of models in training, to play against (docs/training/self_play.md)."""

    READ_WHERE: ClassVar = {"nash_games": ("draw is 'nash'", lambda own: own.draw == "nash")}

    of: Annotated[Names, Field(min_length=1), AfterValidator(_unique)] = ("model_0",)
    """Models whose past versions are in the pool."""
    every: Annotated[int, Field(ge=1)] = 5
    """Rounds between two snapshots; the first is taken before the first round."""
    keep: Annotated[int, Field(ge=1, le=MOST_MODELS)] = 8
    """Number of the newest snapshots of each model that are kept, in addition to its first."""
    draw: Literal["uniform", "latest", "prioritized", "nash"] = "uniform"
    """Distribution over the snapshots (docs/training/self_play.md)."""
    draw_each: Literal["round", "group"] = "round"
    """Whether a snapshot plays for a round or for a group of episodes."""
    nash_games: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 16
    """Episodes of a new snapshot against each other one, in each of the two assignments."""


def with_seated_models(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration with the models that `seats` names directly as frozen models.

    'tiny' and names with '/' or ':' mean models, unless they have the form 'module:Class'. Nothing
    is loaded. Raises ConfigError where two names would give one frozen model.
    """
    seats, models = tree.get("seats"), tree.get("models", {})
    if not isinstance(seats, Mapping) or not isinstance(models, Mapping | Section):
        return tree
    section = dict(models)
    frozen, pools = section.get("frozen_models", {}), tree.get("opponent_pools", {})
    if not isinstance(frozen, Mapping) or not isinstance(pools, Mapping):
        return tree
    named = {who for who in seats.values() if isinstance(who, str) and _is_model(who)}
    direct = sorted(named - {*frozen, *pools})
    called = {who: "frozen_" + re.sub(r"[^A-Za-z0-9_-]+", "_", who)[-50:] for who in direct}
    if len({*called.values(), *frozen}) < len(called) + len(frozen):
        raise ConfigError(f"seats: give {' and '.join(direct)} names in models.frozen_models")
    section["frozen_models"] = {**frozen, **{name: who for who, name in called.items()}}
    seated = {agent: called.get(str(who), who) for agent, who in seats.items()}
    return {**tree, "models": section, "seats": seated} if direct else tree


def _is_model(who: str) -> bool:
    return (who == "tiny" or "/" in who or ":" in who) and not is_scripted(who)


def check_players(
    seats: Mapping[str, str], models: Iterable[str], sections: Mapping[str, Iterable[str]]
) -> None:
    """Raise ConfigError for a name of `sections` (dotted path -> names) that is taken or unused."""
    taken = {*models, *POLICIES}
    for section, players in sections.items():
        for name in players:
            if name in taken or re.fullmatch(r"model_\d+", name):
                raise ConfigError(f"{section}.{name}: the name of another player: rename it")
            if name not in seats.values():
                raise ConfigError(f"{section}.{name}: must be named in seats, got {dict(seats)}")
        taken |= set(players)


class MatchmakingConfig(Section):
    """Assignment of models to the agents that `seats` does not name (docs/training/populations.md).

    `fixed` assigns all models in turn, `rotating` also moves them by one agent from group to group.
    The others draw models for each group of episodes; there may be more models than agents.
    """

    name: Literal["fixed", "rotating", "uniform", "round_robin"] = "fixed"
    """Assignment of models to agents (docs/training/populations.md)."""

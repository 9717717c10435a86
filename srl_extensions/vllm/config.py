"""Section `backend` of a run whose models sample in vLLM servers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from srl_train.config.backend import BackendSection
from srl_train.config.bounds import MOST_EPISODES, MOST_MODELS
from srl_train.config.section import Names, Section, chosen_by
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig

SET_BY_US = ("host", "model", "port", "served-model-name", "uds")
"""Options of vLLM by which a server would not be where, or what, the run takes it for; its host
would let other machines in, for the endpoints that take weights ask for no key."""
OPTION_NAME = re.compile(r"[a-z][a-z0-9._-]*")


class ManagedServersConfig(Section):
    """Servers that the run starts, watches and ends itself."""

    python: str | None = None
    """Interpreter of the environment in which vLLM is installed; null takes the trainer's own."""
    base_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the first server; the next ones have the following ports. null takes free ones, from
    8001 on."""
    replicas: Annotated[int, Field(ge=1, le=MOST_MODELS)] = 1
    """Servers for each base, among which requests are shared."""
    gpus: Annotated[tuple[int, ...], Field(strict=False, min_length=1)] | None = None
    """GPUs that the servers may use, as torch counts; null takes all that are there, and the
    CPU where there are none. Leave one to the trainer where memory is short."""
    max_model_len: Annotated[int, Field(ge=1)] | None = None
    """Longest context in tokens; null takes the model's own."""
    memory_fraction: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Of a GPU's memory that the servers on it may fill, in all."""
    max_restarts: Annotated[int, Field(ge=0)] = 10
    """Of each server in a run; where it dies once more, the run stops."""
    start_timeout: Annotated[float, Field(gt=0)] = 600.0
    """Seconds until a started server has to answer."""
    options: Mapping[str, str | int | float | bool] = {}
    """Further options of `vllm serve`, by their names without dashes in front."""

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in options:
            # vLLM takes the beginning of an option's name for the option.
            if any(own.startswith(name.replace("_", "-")) for own in SET_BY_US):
                raise ConfigError(
                    f"options: got {name!r}, which the run sets itself: see base_port and models"
                )
            if not OPTION_NAME.fullmatch(name):
                raise ConfigError(
                    f"options: got {name!r}: give an option's name in small letters, without "
                    "dashes in front, and its value apart"
                )
        return options


class PublishSection(Section):
    """What the rules of publication share."""

    CHOICE: ClassVar = "when"


class PublishUpdatesConfig(PublishSection):
    """New weights are published after a number of updates."""

    when: Literal["updates"] = "updates"
    """When new weights reach the servers: after a number of `updates`, or where they bring a
    `gain` in evaluation."""
    every: Annotated[int, Field(ge=1)] = 1
    """The model's updates between two publications; samples are off-policy in between."""


class PublishGainConfig(PublishSection):
    """New weights are published where they do better than those that play."""

    when: Literal["gain"] = "gain"
    """When new weights reach the servers: after a number of `updates`, or where they bring a
    `gain` in evaluation."""
    min_gain: float = 0.0
    """Least gain in mean raw reward of the model's agents, per turn; without it the servers go
    back to the weights before, unless samples of those would be too stale to train on."""
    episodes: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 16
    """Games of an evaluation, the same games every time."""


class VLLMBackendConfig(BackendSection):
    """Models sample in vLLM servers, to which every update is published."""

    PLACED_SERVERS: ClassVar = "srl_extensions.vllm.placed:PlacedServers"
    SAMPLERS: ClassVar = "srl_extensions.vllm.models:serve_models"
    IN_PROCESS: ClassVar = False

    name: Literal["vllm"] = "vllm"
    """What samples for the models in training: `transformers` in the trainer's process, or `vllm`
    in servers (docs/agents/serving.md)."""
    servers: Names = ()
    """Addresses of running servers, such as http://127.0.0.1:8001: of adapters any number that
    serve their base, of whole models one for each, in order."""
    managed: ManagedServersConfig | None = None
    """Servers that the run starts itself, in place of `servers`."""
    seeded: bool = False
    """Every answer has a seed of its own: repeatable as far as vLLM is, and slower, for answers
    are no longer asked for in groups."""
    concurrency: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 64
    """Calls under way at once to each server."""
    deadline: Annotated[float, Field(gt=0)] = 600.0
    """Seconds in which a call is answered, all retries and restarts included; then its episode
    fails."""
    max_divergence: Annotated[float, Field(gt=0)] = 0.1
    """Between sampler and trainer, in log-probability: the mean absolute difference over the
    tokens of an update at which training stops."""
    probe_tolerance: Annotated[float, Field(gt=0)] | None = None
    """Largest difference in log-probability between learner and server on the tokens that check a
    publication; null is 0.001 for models.dtype float32, 0.5 for bfloat16."""
    publish: Annotated[
        PublishUpdatesConfig | PublishGainConfig,
        Field(discriminator="when"),
        chosen_by("when", "updates"),
    ] = PublishUpdatesConfig()
    """When new weights reach the servers."""
    keep_versions: Annotated[int, Field(ge=1, le=MOST_MODELS)] = 1
    """Past versions of each model that stay loaded beside the newest, for going back."""
    folder: str | None = None
    """Where published weights are written; servers on other machines must see it under the same
    path. null takes a temporary folder."""

    @model_validator(mode="after")
    def _check(self) -> VLLMBackendConfig:
        if bool(self.servers) == (self.managed is not None):
            raise ConfigError(
                "servers: give addresses of running servers here, or a section `managed` for "
                "servers that the run starts, and not both"
            )
        for url in self.servers:
            if not _is_address(url):
                raise ConfigError(
                    f"servers: got {url!r}: give addresses such as http://127.0.0.1:8001, without "
                    "user, password and path"
                )
        if len({url.rstrip("/").removesuffix("/v1") for url in self.servers}) < len(self.servers):
            raise ConfigError(f"servers: got {list(self.servers)}: give each server once")
        return self

    @property
    def divergence_limit(self) -> float:
        """See BackendSection."""
        return self.max_divergence

    @property
    def publication_lag(self) -> int:
        """See BackendSection."""
        return self.publish.every - 1 if isinstance(self.publish, PublishUpdatesConfig) else 0

    def check_run(self, config: RunConfig) -> None:
        """Raise ConfigError for other sections that do not work with these servers."""
        models, pools = config.models, config.opponent_pools
        if config.engine.name == "ray" and self.managed is None:
            raise ConfigError(
                "backend.servers: got addresses where engine.name is 'ray', whose players could "
                "ask a server that was started anew before the driver has published to it again: "
                "give backend.managed, for servers that Ray places"
            )
        if config.engine.name == "ray" and self.managed is not None and self.managed.gpus:
            raise ConfigError(
                "backend.managed.gpus: got GPUs where engine.name is 'ray', which places "
                "servers on nodes and GPUs itself: leave them out, and see engine.server_gpus"
            )
        if models.adapters is None and self.servers and len(self.servers) != models.count:
            raise ConfigError(
                f"backend.servers: got {len(self.servers)} where {models.count} whole models "
                "train: give one for each, in order, or models.adapters for models on one base"
            )
        drawn = {name for name, own in pools.items() if own.draw == "nash"}
        if drawn and self.publish != PublishUpdatesConfig():
            raise ConfigError(
                f"backend.publish: got weights that reach servers late beside 'nash' in "
                f"opponent_pools.{min(drawn)}.draw: a snapshot's games are played by its model, "
                "which has to play as it is: leave one of the two out"
            )
        bound = config.updates.max_staleness
        if self.publication_lag > bound:
            raise ConfigError(
                f"backend.publish.every: got {self.publication_lag + 1}: samples would be "
                f"{self.publication_lag} updates old and are dropped after {bound} "
                f"(updates.max_staleness): give {bound + 1} or less"
            )


def _is_address(url: str) -> bool:
    """Whether it is a server's: a scheme of HTTP, a host, and a port where there is one."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # a port beyond 65535, or half an IPv6 address
        return False
    return (
        url.isprintable()
        and parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and "@" not in parts.netloc
        and parts.path.rstrip("/") in ("", "/v1")
        and not (parts.query or parts.fragment)
    )


SECTION = VLLMBackendConfig

"""Section `backend` of a run whose models sample in vLLM servers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from srl_train.config.backend import BackendSection
from srl_train.config.bounds import MOST_MODELS
from srl_train.config.section import LocalPath, Names, Section
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig

SET_BY_RUN = ("host", "model", "port", "served-model-name", "uds")
"""Options of vLLM that would change the address of a server, or open its endpoints for weights,
which require no key, to other machines."""
OPTION_NAME = re.compile(r"[a-z][a-z0-9.-]*")
ADDRESS = re.compile(r"https?://([\w.-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?")


class ManagedServersConfig(Section):
    """Servers that the run starts, watches and ends."""

    python: LocalPath | None = None
    """Interpreter of the environment in which vLLM is installed; null takes the trainer's own."""
    base_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the first server; the next ones have the following ports. null takes free ones."""
    replicas: Annotated[int, Field(ge=1, le=MOST_MODELS)] = 1
    """Servers for each base, among which requests are shared."""
    gpus: Annotated[tuple[int, ...], Field(strict=False, min_length=1)] | None = None
    """GPUs that the servers may use, as torch counts; null takes all, and the CPU if there are
    none. Leave one to the trainer where memory is short."""
    options: Mapping[str, str | int | float | bool] = {}
    """Further options of `vllm serve` without leading dashes, such as max-model-len,
    gpu-memory-utilization and tensor-parallel-size (GPUs of each server)."""

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        dashed = {name.replace("_", "-"): value for name, value in options.items()}
        for name in dashed:
            # vLLM accepts the beginning of an option's name.
            reserved = any(one.startswith(name) for one in SET_BY_RUN)
            if reserved or not OPTION_NAME.fullmatch(name):
                raise ConfigError(
                    f"options: got {name!r}; allowed: names in lower case, without leading dashes, "
                    f"of options that the run does not set itself ({', '.join(SET_BY_RUN)})"
                )
        return dashed


class VLLMBackendConfig(BackendSection):
    """Section `backend` of vLLM: either distinct `servers` or `managed`, else ConfigError."""

    SHARED_SERVERS: ClassVar = "srl_extensions.vllm.models:ServedModels"
    SAMPLERS: ClassVar = "srl_extensions.vllm.models:serve_models"
    IN_PROCESS: ClassVar = False

    name: Literal["vllm"] = "vllm"
    """Sampler of the models in training: `transformers` in the trainer's process, or `vllm` in
    servers (docs/agents/serving.md)."""
    servers: Names = ()
    """Addresses of running servers, such as http://127.0.0.1:8001: any number that serve the
    adapters' base, or one for each whole model, in order."""
    managed: ManagedServersConfig | None = None
    """Servers that the run starts itself, instead of `servers`."""
    max_divergence: Annotated[float, Field(gt=0)] = 0.1
    """Mean absolute difference in log-probability between sampler and trainer, over the tokens of
    an update's first optimizer step, above which training stops."""
    folder: LocalPath | None = None
    """Folder for published weights, which servers and Ray nodes on other machines must see under
    the same path. null takes a temporary folder."""

    @model_validator(mode="after")
    def _check(self) -> VLLMBackendConfig:
        if bool(self.servers) == (self.managed is not None):
            raise ConfigError(
                "servers: give addresses of running servers here, or a section `managed` for "
                "servers that the run starts, and not both"
            )
        plain = [url.rstrip("/").removesuffix("/v1") for url in self.servers]
        for url in plain:
            if not ADDRESS.fullmatch(url):
                raise ConfigError(
                    f"servers: got {url!r}: give addresses such as http://127.0.0.1:8001, without "
                    "user, password and path"
                )
        if len(set(plain)) < len(plain):
            raise ConfigError(f"servers: got {list(self.servers)}: give each server once")
        return self

    @property
    def divergence_limit(self) -> float:
        """Same value as `max_divergence`."""
        return self.max_divergence

    def check_run(self, config: RunConfig) -> None:
        """Raise ConfigError if `servers` are given for whole models, but not one for each."""
        models = config.models
        if models.adapters is None and self.servers and len(self.servers) != models.count:
            raise ConfigError(
                f"backend.servers: got {len(self.servers)} where {models.count} whole models "
                "train: give one for each, in order, or models.adapters for models on one base"
            )


SECTION = VLLMBackendConfig

"""A game of one focal agent as plain data: environment, agent, and who plays the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from srl_agents.errors import PolicyError
from srl_agents.llm.backends.registry import api_model, is_api_name
from srl_agents.llm.backends.token_backend import Backend
from srl_agents.llm.chat_policy import ChatPolicy
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.policy import Policy
from srl_agents.scripted.registry import classic_policy
from srl_envs import loading, registry
from srl_envs.errors import DocumentError, UntrustedError
from srl_envs.untrusted import read_json
from srl_envs.validation import nearest

PARTNER_TOKENS = 2048
"""A served partner's answer may take so many, reasoning that is not shown included."""


@dataclass(frozen=True)
class FocalGame:
    """One agent's game; a row of data carries it as JSON.

    A model that is trained elsewhere plays `agent`, and every other agent that `partners` does not
    name.
    """

    environment: str
    """A name of the catalogue, or 'module:function' of your own."""
    agent: str
    """Whose tokens and reward are learned from."""
    partners: Mapping[str, str] = field(default_factory=dict)
    """Agent -> a scripted policy, 'module:Class' for one of the user's own, or a model behind an
    API ('openai:MODEL', also a vLLM server at OPENAI_BASE_URL)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment. Games that would be too long for a conversation are as long as
    in our own training where `max_cycles` is left out."""
    max_new_tokens: int = 32
    """Tokens that one answer may take, its end of turn included."""

    def to_json(self) -> str:
        """For `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FocalGame:
        """The game; raises PolicyError for a text that describes none."""
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
        """The environment.

        Rows may be anybody's: unless they are `trusted` they name neither code nor files (see
        srl_envs.registry.remake). Raises EnvConfigError and UntrustedError, and PolicyError for
        agents that are not there and for a game that no language model can play.
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
        """Agent -> policy, for those whom `partners` names.

        Raises PolicyError for a partner that there is not or that cannot play, BackendError where
        an API's package or key is missing. Raises UntrustedError for a model behind an API and for
        'module:Class' unless the game is `trusted`: requests to an API are sent away and paid for,
        and a class is code.
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
        """Agent -> policy; `engine` gives the learning model's backend for an agent. Raises as
        `partner_policies` does."""
        view, sampling = env.unwrapped.text_view, Sampling(max_new_tokens=self.max_new_tokens)
        partners = self.partner_policies(env, trusted=trusted)
        return {
            agent: partners[agent]
            if agent in partners
            else TextPolicy(engine(agent), view, sampling=sampling)
            for agent in env.possible_agents
        }

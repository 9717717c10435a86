"""Names of frozen models and opponent pools: their form, and that each sits and is told apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from srl_agents.scripted.registry import POLICIES, is_scripted
from srl_train.config.section import Section, nearest, shown
from srl_train.errors import ConfigError

_FORM = re.compile("[A-Za-z][A-Za-z0-9_-]{0,63}")
_LEARNS = re.compile(r"model_\d+")


def _of_the_form(name: str) -> str:
    if not _FORM.fullmatch(name):
        raise ValueError(
            "a name of at most 64 letters (A to Z, a to z), digits, '_' and '-', a letter first"
        )
    return name


PlayerName = Annotated[str, AfterValidator(_of_the_form)]
"""What RUN:NAME, records, PEFT's modules and servers' adapters can be called alike."""


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


def refuse_wrong_players(
    seats: Mapping[str, str], models: Iterable[str], sections: Mapping[str, Iterable[str]]
) -> None:
    """Raise ConfigError for a player of a section (dotted path -> names) that is called like
    another one, or sits nowhere; where a seat names nobody, that is what the error tells."""
    taken = set(models)
    for section, players in sections.items():
        for name in players:
            if name in taken or name in POLICIES:
                raise ConfigError(f"{section}.{name}: another player is called that: rename it")
            if _LEARNS.fullmatch(name):
                raise ConfigError(
                    f"{section}.{name}: models that learn are called model_0, model_1, ...: "
                    "rename it"
                )
        taken |= set(players)
    for section, players in sections.items():
        for name in players:
            if name not in seats.values():
                for agent, who in seats.items():
                    if who not in taken and not is_scripted(who):
                        fix = nearest(who, sorted({*taken, *POLICIES}))
                        raise ConfigError(f"seats.{shown(agent, str)}: got {shown(who)}: {fix}")
                raise ConfigError(f"{section}.{name}: it sits nowhere: name it in `seats`")

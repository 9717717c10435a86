"""The classic policies that a configuration can seat by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from srl_agents.classic.always import Always
from srl_agents.classic.bernoulli import Uniform
from srl_agents.classic.memory_one import SituationReader
from srl_agents.classic.tit_for_tat import TitForTat
from srl_agents.policy import Policy
from srl_envs import team_battle_v0

READERS: Mapping[str, Callable[[], SituationReader]] = {
    "coop_compete_v0": SituationReader,
    "team_battle_v0": lambda: SituationReader(
        team_battle_v0.OBSERVATION_FIELDS, others="rivals_cooperated"
    ),
}
"""Environment's metadata name -> where its observations tell what the others did."""

POLICIES: Mapping[str, Callable[[str], Policy]] = {
    "always_compete": lambda environment: Always(0),
    "always_cooperate": lambda environment: Always(1),
    "tit_for_tat": lambda environment: TitForTat(reader_for(environment)),
    "uniform": lambda environment: Uniform(),
}
"""Name -> the policy for a seat of the environment with that metadata name."""


def reader_for(environment: str) -> SituationReader:
    """How to read the last round from the environment's observations.

    Raises ValueError for an environment that no reader is known for.
    """
    if environment not in READERS:
        raise ValueError(
            f"tit_for_tat cannot read {environment}'s observations, only those of "
            f"{', '.join(READERS)}: seat TitForTat(SituationReader(...)) in your own code"
        )
    return READERS[environment]()

"""Critics: value heads that predict a model's return, one value per action.

Every critic is a module of its own, beside the policy and never inside it: what is saved, sampled
from and clipped as the policy stays the policy. All take (batch, hidden) and give (B, K) values in
float32, for K places per row. `batch` is what TRL hands to the loss, with our own tensors in it:

    value_positions  (B, K)      the completion token each value is estimated before
    states           (B, K, S)   joint state and agent, for the central critic alone

and `hidden` (B, P + T, H) the policy's last hidden states over prompt and completion.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from srl_agents.llm.backends.huggingface.loading import shared_states
from srl_train.data.samples import TokenSample
from srl_train.errors import TrainingError

CRITIC = "critic."
"""Before the names of the critic's parameters among a model's."""
UNITS = 64
"""Width of the central critic's two hidden layers, as in Yu et al. 2022."""


def without_critic(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those of a model's parameters by name that play, not its critic's."""
    return {name: own for name, own in weights.items() if not name.startswith(CRITIC)}


@dataclass(frozen=True)
class JointState:
    """What a central critic is shown."""

    seats: Sequence[str]
    """All agents, in the environment's order."""
    size: int
    """Numbers in the environment's state()."""


class SharedCritic(nn.Module):
    """A linear value head on the policy's own last hidden state; it starts at 0 everywhere.

    The gradient of the value loss goes on into the policy's backbone.
    """

    reads_policy = True

    def __init__(self, width: int) -> None:
        """`width`: the size of the policy's hidden states."""
        super().__init__()
        self.head = _silent(nn.Linear(width, 1))

    def forward(self, batch: Mapping[str, Tensor], hidden: Tensor | None) -> Tensor:
        """Values (B, K) from the policy's hidden states."""
        assert hidden is not None
        return _read(self.head, before_actions(batch, hidden))


class SeparateCritic(nn.Module):
    """A value head on a backbone of its own, which starts as a copy of the policy's.

    Only what trains is copied: of an adapter on a shared base, the adapter. The base stays the
    same tensors.
    """

    reads_policy = False

    def __init__(self, model: Any) -> None:
        """`model`: the policy as it starts, before anything is wrapped around it."""
        super().__init__()
        backbone = backbone_of(model)
        frozen = [p for p in backbone.parameters() if not p.requires_grad]
        held = (*frozen, *backbone.buffers(), *shared_states(backbone))
        shared = {id(one): one for one in held}
        self.backbone = copy.deepcopy(backbone, shared)
        self.head = _silent(nn.Linear(backbone.config.hidden_size, 1))

    def forward(self, batch: Mapping[str, Tensor], hidden: Tensor | None) -> Tensor:
        """Values (B, K) from its own reading of the tokens."""
        return _read(self.head, before_actions(batch, last_hidden(self.backbone, batch)))


class CentralCritic(nn.Module):
    """Two hidden tanh layers on the joint state and who asks (MAPPO: Yu et al. 2022).

    The last layer starts at 0, the others orthogonal with gain sqrt 2 from torch's generator.
    """

    reads_policy = False

    def __init__(self, joint: JointState | None) -> None:
        """`joint`: what the states are made of."""
        super().__init__()
        assert joint is not None, "it needs to know the joint state that it is shown"
        layers: list[nn.Module] = []
        width = joint.size + len(joint.seats)
        for _ in range(2):
            layer = nn.Linear(width, UNITS)
            nn.init.orthogonal_(layer.weight, gain=2**0.5)
            nn.init.zeros_(layer.bias)
            layers += [layer, nn.Tanh()]
            width = UNITS
        self.layers = nn.Sequential(*layers, _silent(nn.Linear(UNITS, 1)))

    def forward(self, batch: Mapping[str, Tensor], hidden: Tensor | None) -> Tensor:
        """Values (B, K) from the joint states."""
        values: Tensor = self.layers(batch["states"])
        return values.squeeze(-1)


Critic = SharedCritic | SeparateCritic | CentralCritic


CRITICS: Mapping[str, Callable[[Any, JointState | None], Critic]] = {
    "shared": lambda model, joint: SharedCritic(backbone_of(model).config.hidden_size),
    "separate": lambda model, joint: SeparateCritic(model),
    "central": lambda model, joint: CentralCritic(joint),
}
"""Name -> (policy, joint state) -> critic."""


def backbone_of(model: Any) -> Any:
    """The transformer under the language-modelling head, of a PreTrainedModel or a PeftModel."""
    whole = model.get_base_model() if hasattr(model, "peft_config") else model
    return whole.base_model


def last_hidden(backbone: Any, batch: Mapping[str, Tensor]) -> Tensor:
    """(B, P + T, H): the backbone's reading of the batch's prompts and completions."""
    hidden: Tensor = backbone(
        input_ids=torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
        attention_mask=torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
        use_cache=False,
    ).last_hidden_state
    return hidden


def joint_states(samples: Sequence[TokenSample], seats: Sequence[str]) -> Tensor:
    """(B, K, S): before each turn the joint state, and after it a 1 in the place of the agent that
    asks; all 0 beyond a row's turns.

    Raises ValueError for samples without states, TrainingError where their length changes.
    """
    rows: list[Tensor] = []
    for sample in samples:
        if sample.states is None or (sample.closing_ids and sample.closing_state is None):
            raise ValueError(
                "a central critic needs the states of episodes: play with record_states"
            )
        after = sample.closing_state or sample.states[0]
        if len({len(state) for state in (*sample.states, after)}) > 1:
            raise TrainingError(
                "the environment's state() changes its length within a game: a central critic "
                "needs one length, choose ppo.critic shared or separate"
            )
        rows.append(_asked(sample.states, sample, seats))
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def with_closings(
    batch: Mapping[str, Tensor], samples: Sequence[TokenSample], seats: Sequence[str]
) -> dict[str, Tensor]:
    """The batch with one place more in every row, of what its agent was shown last where its game
    was cut off without telling its time; of no meaning in the other rows."""
    longest = max(map(total_length, samples)) - batch["completion_ids"].size(1)
    names = ("completion_ids", "completion_mask")
    ids, mask = (nn.functional.pad(batch[name], (0, max(longest, 0))) for name in names)
    for number, sample in enumerate(samples):
        start, stop = len(sample.completion_ids), total_length(sample)
        ids[number, start:stop] = ids.new_tensor(sample.closing_ids or ())
        mask[number, start:stop] = 1
    places = batch["value_positions"]
    ends = places.new_tensor([[total_length(sample)] for sample in samples])
    found = {**batch, "completion_ids": ids, "completion_mask": mask}
    found["value_positions"] = torch.cat([places, ends], dim=1)
    if "states" in batch:
        states = batch["states"]
        last = [_asked([s.closing_state or s.states[-1]], s, seats) for s in samples if s.states]
        found["states"] = torch.cat([states, torch.stack(last).to(states)], dim=1)
    return found


def _asked(states: Sequence[Sequence[float]], sample: TokenSample, seats: Sequence[str]) -> Tensor:
    """(K, S): the states, each with a 1 in the place of the sample's agent."""
    asks = [float(seat == sample.group[2]) for seat in seats]
    return torch.tensor([[*state, *asks] for state in states])


def total_length(sample: TokenSample) -> int:
    """The tokens after a sample's prompt, what it was shown last included."""
    return len(sample.completion_ids) + len(sample.closing_ids or ())


def before_actions(batch: Mapping[str, Tensor], hidden: Tensor) -> Tensor:
    """(B, K, H): the hidden states at the last token before each action."""
    places = batch["value_positions"] + batch["prompt_ids"].size(1) - 1
    return hidden.gather(1, places.unsqueeze(-1).expand(-1, -1, hidden.size(-1)))


def _silent(layer: nn.Linear) -> nn.Linear:
    """The layer, giving 0 whatever it is shown."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _read(head: nn.Linear, hidden: Tensor) -> Tensor:
    values: Tensor = head(hidden.float())
    return values.squeeze(-1)

"""Critics: networks that predict a model's return, one value per action.

A critic maps (batch, hidden) to values (B, K) in float32, for K actions per row.
`batch` is the batch of TRL's loss, with these tensors in addition:

    value_positions  (B, K)      completion token that each action starts at
    states           (B, K, S)   joint state and agent, for the central critic only

`hidden` (B, P + T, H) are the policy's last hidden states over prompt and completion.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from srl_agents.llm.backends.huggingface.loading import shared_states
from srl_train.samples import JointState, TokenSample

UNITS = 64
"""Width of the central critic's two hidden layers, as in Yu et al. 2022."""


class TokenCritic(nn.Module):
    """Linear value head on the last hidden state before each answer, initialized with 0.

    A shared critic reads the hidden states of the policy `model`, so that the gradient of the value
    loss reaches the policy. A `separate` critic has a copy of the policy's backbone, which shares
    frozen parameters and buffers with the policy, such as the base of an adapter.
    """

    def __init__(self, model: Any, *, separate: bool) -> None:
        super().__init__()
        self.reads_policy = not separate
        backbone = backbone_of(model)
        self.backbone = None
        if separate:
            frozen = [p for p in backbone.parameters() if not p.requires_grad]
            shared = (*frozen, *backbone.buffers(), *shared_states(backbone))
            self.backbone = copy.deepcopy(backbone, {id(one): one for one in shared})
        self.head = _zeroed(nn.Linear(backbone.config.hidden_size, 1))

    def forward(self, batch: Mapping[str, Tensor], hidden: Tensor | None) -> Tensor:
        """Return the value before each of K answers, (B, K), with arbitrary values in padding.

        `hidden` (B, P + T, H) are the policy's last hidden states over prompts and completions. A
        shared critic requires them, a separate one ignores them.
        """
        if self.backbone is not None:
            hidden = last_hidden(self.backbone, batch)
        assert hidden is not None
        places = batch["value_positions"] + batch["prompt_ids"].size(1) - 1
        before = hidden.gather(1, places.unsqueeze(-1).expand(-1, -1, hidden.size(-1)))
        values: Tensor = self.head(before.float())
        return values.squeeze(-1)


class CentralCritic(nn.Module):
    """Network on the joint state and the agent, with two hidden layers (MAPPO: Yu et al. 2022).

    Hidden layers have 64 tanh units. The output layer is initialized with 0.
    `joint` must not be None.
    """

    reads_policy = False

    def __init__(self, joint: JointState | None) -> None:
        super().__init__()
        assert joint is not None, "a central critic requires a JointState"
        layers: list[nn.Module] = []
        width = joint.size + len(joint.agents)
        for _ in range(2):
            layer = nn.Linear(width, UNITS)
            nn.init.orthogonal_(layer.weight, gain=2**0.5)
            nn.init.zeros_(layer.bias)
            layers += [layer, nn.Tanh()]
            width = UNITS
        self.layers = nn.Sequential(*layers, _zeroed(nn.Linear(UNITS, 1)))

    def forward(self, batch: Mapping[str, Tensor], hidden: Tensor | None) -> Tensor:
        """Return the values (B, K) of batch["states"]; `hidden` is unused."""
        values: Tensor = self.layers(batch["states"])
        return values.squeeze(-1)


Critic = TokenCritic | CentralCritic

CRITICS: Mapping[str, Callable[[Any, JointState | None], Critic]] = {
    "shared": lambda model, joint: TokenCritic(model, separate=False),
    "separate": lambda model, joint: TokenCritic(model, separate=True),
    "central": lambda model, joint: CentralCritic(joint),
}
"""Name to a function from (policy, shape of the joint state or None) to a new critic."""


def backbone_of(model: Any) -> Any:
    """Return the transformer below the output head of a PreTrainedModel or PeftModel."""
    whole = model.get_base_model() if hasattr(model, "peft_config") else model
    return whole.base_model


def last_hidden(backbone: Any, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the backbone's last hidden states (B, P + T, H) over prompts and completions."""
    hidden: Tensor = backbone(
        input_ids=torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
        attention_mask=torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
        use_cache=False,
    ).last_hidden_state
    return hidden


def values_after(
    head: nn.Linear, backbone: Any, contexts: Sequence[Sequence[int]], rows_at_once: int
) -> Tensor:
    """Return the head's value (N,) after the last token of each of N >= 1 contexts of token ids.

    A forward pass of the backbone, a transformer without output head, reads at most `rows_at_once`
    contexts. The backward pass repeats it, which saves memory.
    """

    def values(ids: Tensor, mask: Tensor) -> Tensor:
        output = backbone(input_ids=ids, attention_mask=mask, use_cache=False)
        found: Tensor = head(output.last_hidden_state[:, -1].float())
        return found.squeeze(-1)

    parts = []
    for first in range(0, len(contexts), rows_at_once):
        part = [torch.tensor(context) for context in contexts[first : first + rows_at_once]]
        ids, mask = (
            nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_side="left").to(
                head.weight.device
            )
            for rows in (part, [torch.ones_like(row) for row in part])
        )
        parts.append(checkpoint(values, ids, mask, use_reentrant=False))
    return torch.cat(parts)


def joint_states(samples: Sequence[TokenSample], agents: Sequence[str]) -> Tensor:
    """Return [joint state, one-hot agent] before each of up to K answers of B samples, (B, K, S).

    Padding is 0. `agents` are all agents. All samples must have `states`.
    """
    rows = [_with_agent(sample.states or (), sample, agents) for sample in samples]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


def with_closings(
    batch: Mapping[str, Tensor], samples: Sequence[TokenSample], agents: Sequence[str]
) -> dict[str, Tensor]:
    """Return a copy of the batch with one more value position per row, after the last observation.

    Completions end with `closing_ids`. `value_positions`, and `states` if present, have one more
    column, without meaning for samples without `closing_ids`. `agents` are all agents.
    """
    like = batch["completion_ids"]
    whole = [like.new_tensor(s.completion_ids + (s.closing_ids or ())) for s in samples]
    ends = like.new_tensor([[len(ids)] for ids in whole])
    found = {
        **batch,
        "completion_ids": nn.utils.rnn.pad_sequence(whole, batch_first=True),
        "completion_mask": nn.utils.rnn.pad_sequence(
            [torch.ones_like(ids) for ids in whole], batch_first=True
        ),
        "value_positions": torch.cat([batch["value_positions"], ends], dim=1),
    }
    if "states" in batch:
        last = [
            _with_agent([s.closing_state or s.states[-1]], s, agents) for s in samples if s.states
        ]
        found["states"] = torch.cat([batch["states"], torch.stack(last).to(like.device)], dim=1)
    return found


def _with_agent(
    states: Sequence[Sequence[float]], sample: TokenSample, agents: Sequence[str]
) -> Tensor:
    one_hot = [float(agent == sample.group[2]) for agent in agents]
    return torch.tensor([[*state, *one_hot] for state in states])


def _zeroed(layer: nn.Linear) -> nn.Linear:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer

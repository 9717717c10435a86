"""Small games as others write them: PettingZoo's interface."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import AgentSelector

from srl_envs.wrappers import with_text


class NeverTwice(ParallelEnv):
    """Choice of three colors, not the same twice in a row. Equal choices pay 1, else 0.

    The mask is in the observation, which the game changes after returning it; rewards and
    ends are NumPy scalars. player_1 leaves after three rounds, the game ends after four.
    """

    metadata = {"name": "never_twice_v1"}  # noqa: RUF012  # as PettingZoo's own games have it
    render_mode = None

    def __init__(self):
        self.possible_agents = ["player_0", "player_1"]
        seen = {"observation": spaces.Discrete(4), "action_mask": spaces.MultiBinary(3)}
        self._spaces = {agent: spaces.Dict(seen) for agent in self.possible_agents}
        self._actions = {agent: spaces.Discrete(3) for agent in self.possible_agents}

    def observation_space(self, agent):
        return self._spaces[agent]

    def action_space(self, agent):
        return self._actions[agent]

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self._round = 0
        self._seen = {
            agent: {"observation": np.int64(3), "action_mask": np.ones(3, np.int8)}
            for agent in self.agents
        }
        return self._seen, {agent: {} for agent in self.agents}

    def step(self, actions):
        self._round += 1
        assert all(type(action) is int for action in actions.values())
        alike = len(set(actions.values())) == 1
        for agent, action in actions.items():
            assert self._seen[agent]["action_mask"][action], "an illegal action reached the game"
            self._seen[agent]["action_mask"][:] = 1
            self._seen[agent]["action_mask"][action] = 0
            self._seen[agent]["observation"] = np.int64(action)
        ends = {"player_0": self._round == 4, "player_1": self._round == 3}
        played = list(actions)
        self.agents = [agent for agent in played if not ends[agent]]
        return (
            {agent: self._seen[agent] for agent in played},
            {agent: np.float32(alike) for agent in played},
            {agent: np.bool_(ends[agent]) for agent in played},
            {agent: np.bool_(False) for agent in played},
            {agent: {} for agent in played},
        )

    def render(self):
        return None


class Counted(NeverTwice):
    """Game without masks that always returns the same array and the same infos."""

    metadata = {"name": "counted_v0"}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self._rounds_seen = np.zeros(1, np.float32)
        self._told = {"score": [0], "rounds": self._rounds_seen}
        self._space = spaces.Box(0.0, 9.0, (1,))

    def observation_space(self, agent):
        return self._space

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self._rounds_seen[0] = self._told["score"][0] = 0
        return (dict.fromkeys(self.agents, what) for what in (self._rounds_seen, self._told))

    def step(self, actions):
        self._rounds_seen += 1
        self._told["score"][0] += 1
        self._round += 1
        played = self.agents
        self.agents = [] if self._round == 4 else played
        return (
            dict.fromkeys(played, self._rounds_seen),
            dict.fromkeys(played, 1),
            dict.fromkeys(played, False),
            dict.fromkeys(played, not self.agents),
            dict.fromkeys(played, self._told),
        )


class Nim(AECEnv):
    """Nim with seven sticks: take one or two in turn; the player that takes the last one wins.

    `mask` is the place of the action mask: "observation", "info" or None.
    """

    metadata = {"name": "nim_v0", "is_parallelizable": False}  # noqa: RUF012
    render_mode = None

    def __init__(self, mask="observation"):
        self.possible_agents = ["player_1", "player_2"]
        self._mask = mask
        sticks = spaces.Discrete(8)
        if mask == "observation":
            space = {"observation": sticks, "action_mask": spaces.Box(0, 1, (2,), np.int8)}
            sticks = spaces.Dict(space)
        self._spaces = dict.fromkeys(self.possible_agents, sticks)
        self._actions = {agent: spaces.Discrete(2, start=1) for agent in self.possible_agents}

    def observation_space(self, agent):
        return self._spaces[agent]

    def action_space(self, agent):
        return self._actions[agent]

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.left = 7
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self._turns = AgentSelector(self.agents)
        self.agent_selection = self._turns.next()
        self._tell()

    def observe(self, agent):
        if self._mask == "observation":
            return {"observation": self.left, "action_mask": self._legal(agent)}
        return self.left

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self.left -= min(action, self.left)
        if self.left == 0:
            self.rewards = {other: 1 if other == agent else -1 for other in self.agents}
            self.terminations = dict.fromkeys(self.agents, True)
            self._accumulate_rewards()
        self.agent_selection = self._turns.next()
        self._tell()

    def _legal(self, agent):
        to_move = agent == self.agent_selection
        return np.array([to_move and self.left >= 1, to_move and self.left >= 2], np.int8)

    def _tell(self):
        if self._mask == "info":
            for agent in self.agents:
                self.infos[agent]["action_mask"] = self._legal(agent)


class InCycles(Nim):
    """Nim that declares itself parallelizable: both players take sticks in every round."""

    metadata = {"name": "in_cycles_v0", "is_parallelizable": True}  # noqa: RUF012

    def __init__(self):
        super().__init__(mask=None)

    def step(self, action):
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self.left -= 1
        self.rewards = {agent: float(agent == self.agent_selection) for agent in self.agents}
        if self._turns.is_last() and self.left <= 1:
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self._turns.next()


class KnockOut(ParallelEnv):
    """player_0 chooses first; on "left" the game is over before player_1 has a turn."""

    metadata = {"name": "knock_out_v0"}  # noqa: RUF012
    render_mode = None
    possible_agents = ("player_0", "player_1")

    def observation_space(self, agent):
        return spaces.Discrete(3)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.turn = ["player_0"], 0
        return {"player_0": 0}, {"player_0": {}}

    def step(self, actions):
        self.turn += 1
        played = list(actions)
        pays = {agent: float(action) for agent, action in actions.items()}
        self.agents = ["player_1"] if self.turn == 1 and actions["player_0"] == 1 else []
        seen = dict.fromkeys({*played, *self.agents}, self.turn)
        over = dict.fromkeys(played, True)
        return seen, pays, over, dict.fromkeys(played, False), {agent: {} for agent in seen}

    def close(self):
        pass


def nim():
    return with_text(Nim(), rules="Take the last stick.", answers=("one", "two"))


def knock_out():
    return with_text(KnockOut(), rules="Right pays.", answers=("left", "right"))

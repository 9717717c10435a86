"""An environment of our own whose reward any model can move: how long answers are."""

from mrlm.core import Message, Observation, Reward, SimulatedEnvironment


class Lengths(SimulatedEnvironment):
    """Says a number; an answer earns more the longer it is."""

    max_turns = 2

    def __init__(self, most: int = 9) -> None:
        self.most = most

    def reset(self) -> Observation:
        asked = f"Say {self.rng.integers(self.most)}."
        self._told = [Message("system", "Write."), Message("user", asked)]
        return Observation(list(self._told))

    def step(self, action: Message) -> tuple[Observation, Reward]:
        self._told += [action, Message("environment", "And again.")]
        told = Observation(list(self._told))
        return told, Reward(len(action.content) / 10, {"length": float(len(action.content))})

"""OpenSpiel's games as environments: `make("openspiel:leduc_poker")`.

Actions have OpenSpiel's numbers. An agent without a choice in a step has the mask of action 0
alone, and its action is ignored. Chance outcomes are drawn from the environment's seeded stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from srl_agents.errors import PolicyError
from srl_agents.policy import Exact
from srl_envs import loading
from srl_envs.errors import EnvConfigError, EnvError, UntrustedError
from srl_envs.games.base import FLOAT, RoundGame, metadata_of
from srl_envs.tasks.free_text_game import ONLY_IN_WORDS
from srl_envs.text import TO_MOVE, parse_choice
from srl_envs.untrusted import printable
from srl_envs.validation import Reset, Step, asks_nothing
from srl_envs.wrappers import ThirdPartyView

try:
    import pyspiel
except ImportError as error:
    raise ImportError(
        'games of OpenSpiel require the package open_spiel: pip install "core-srl[openspiel]"'
    ) from error

SCHEME = "openspiel:"
RENDER_MODES = ("human", "ansi")
MOST_NAMED = 256
"""Maximum number of actions of a game whose answers are names of actions."""
PLAYOUTS = 20
"""Number of random episodes from which the names of actions are collected."""
MOST_MOVES = 500
"""Maximum number of moves of each of these episodes."""
MOST_KNOWN = 256  # observations that are kept; small games repeat them


def load_game(name: str) -> pyspiel.Game:
    """Return the game of OpenSpiel; raise EnvConfigError if it is unknown or not supported.

    `name` may have parameters, such as "kuhn_poker(players=3)", but not inside `loading.closed`
    (UntrustedError).
    """
    if loading.is_closed() and "(" in name:
        raise UntrustedError(
            f"{name!r:.200} has parameters that a record names, which may be files: "
            f"{loading.WAY_OUT}"
        )
    try:
        game = pyspiel.load_game(name)
    except (IndexError, RuntimeError) as error:  # SpielError is a RuntimeError.
        raise EnvConfigError(f"OpenSpiel cannot load the game {name!r}: {error}") from error
    kind = game.get_type()
    reason = ""
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        reason = "it is a mean-field game"
    elif kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        reason = "its chance outcomes cannot be seeded"
    elif not (kind.provides_information_state_string or kind.provides_observation_string):
        reason = "it does not describe situations as text"
    elif not (kind.provides_information_state_tensor or kind.provides_observation_tensor):
        reason = "it does not describe situations as tensors"
    else:
        try:
            start = game.new_initial_state()
            moves = map(start.legal_actions, range(game.num_players()))
            if not any(moves) and not start.is_chance_node():
                reason = "it has no legal actions"
        except (RuntimeError, ValueError) as error:
            reason = f"it has no numbered actions ({error})"
    if reason:
        raise EnvConfigError(f"OpenSpiel's game {name!r} is not supported: {reason}")
    return game


class OpenSpielGame(RoundGame):
    """Game of OpenSpiel as a PettingZoo ParallelEnv, turn-based or simultaneous.

    Observations, by `obs_mode`: "vector" is a float32 tensor; "dict" adds `action_mask`; "llm" also
    adds `text`, the situation and the legal answers. In games of perfect information, tensor and
    text are OpenSpiel's observation, in others the information state; if one is missing, the other.
    Actions are numbers; a model's answers are their names or numbers (see `names_of_actions`).

    All agents act in every step. `infos[agent]["to_move"]` is False for an agent without legal
    actions, whose next action is ignored. An illegal action is replaced by the first legal one;
    `infos[agent]["illegal"]` is then True. Rewards are the changes of OpenSpiel's returns.

    Args:
        game: OpenSpiel's name of the game, with parameters if any, such as "leduc_poker" or
            "kuhn_poker(players=3)". It may start with "openspiel:".
        max_cycles: Number of steps after which an episode is truncated; by default, the length of
            the game's longest episode.
        obs_mode: "vector", "dict" or "llm".
        render_mode: "human", "ansi" or None.

    Raises:
        EnvConfigError: The game is unknown or not supported, or an argument is invalid.
        UntrustedError: A record that is not trusted names a game with parameters.
    """

    render_modes: ClassVar[Sequence[str]] = RENDER_MODES

    def __init__(
        self,
        game: str,
        *,
        max_cycles: int | None = None,
        obs_mode: str = "llm",
        render_mode: str | None = None,
    ) -> None:
        self.game = load_game(game.removeprefix(SCHEME))
        kind = self.game.get_type()
        self.metadata = metadata_of(f"openspiel_{kind.short_name}", render_modes=RENDER_MODES)  # type: ignore[misc]  # differs by game
        in_full = kind.information == pyspiel.GameType.Information.PERFECT_INFORMATION
        self._text_of_state = kind.provides_information_state_string and not (
            in_full and kind.provides_observation_string
        )
        self._tensor_of_state = kind.provides_information_state_tensor and not (
            in_full and kind.provides_observation_tensor
        )
        self._position = self.game.new_initial_state()
        self._returns: list[float] = []
        self._known: dict[tuple[int, str], tuple[np.ndarray, np.ndarray, str]] = {}
        agents = [f"player_{player}" for player in range(self.game.num_players())]
        self._choices = {
            agent: names_of_actions(self.game, player) for player, agent in enumerate(agents)
        }
        size = (
            self.game.information_state_tensor_size()
            if self._tensor_of_state
            else self.game.observation_tensor_size()
        )
        super().__init__(
            agents,
            (-np.inf,) * size,
            (np.inf,) * size,
            max_cycles=self.game.max_game_length() if max_cycles is None else max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> OpenSpielView:
        title = self.game.get_type().long_name
        rules = {
            agent: f"You are {agent} in the game {title}. Write one of the legal answers alone on "
            "the last line."
            for agent in self._choices
        }
        return OpenSpielView(
            rules,
            self._choices,
            _only_in_words,
            default_action=0,
            parse_penalty=0.1,
            in_turns=False,
            tells_time=False,
        )

    def begin(self, options: Mapping[str, Any]) -> None:
        self._position = self.game.new_initial_state()
        self._play_chance()
        self._returns = self._position.returns()

    def step(self, actions: Mapping[str, Any]) -> Step:
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        agents, position = list(self.agents), self._position
        played, illegal = [], {}
        for player, agent in enumerate(agents):
            action, legal = actions[agent], position.legal_actions(player)
            is_legal = isinstance(action, int) and action in (legal or [0])
            if not is_legal and not self.action_spaces[agent].contains(action):
                raise EnvError(
                    f"action {action!r} of {agent} is outside {self.action_spaces[agent]}"
                )
            illegal[agent] = bool(legal) and action not in legal
            played.append(legal[0] if illegal[agent] else int(action))
        if position.is_simultaneous_node():
            position.apply_actions(played)
        else:
            position.apply_action(played[position.current_player()])
        self._play_chance()
        self.played += 1
        terminated = position.is_terminal()
        truncated = self.played >= self.rounds and not terminated
        if terminated or truncated:
            self.agents = []
        before, self._returns = self._returns, position.returns()
        if self.render_mode == "human":
            self.render()
        observations, infos = self._observations_and_infos(agents)
        for agent in agents:
            infos[agent]["illegal"] = illegal[agent]
        return (
            observations,
            {a: self._returns[p] - before[p] for p, a in enumerate(agents)},
            dict.fromkeys(agents, terminated),
            dict.fromkeys(agents, truncated),
            infos,
        )

    def drawn_in_text(self) -> str:
        return f"{self.metadata['name']} step {self.played}/{self.rounds}\n{self._position}\n"

    def _actions(self) -> spaces.Discrete:
        return spaces.Discrete(self.game.num_distinct_actions())

    def _space_of(self, vector: spaces.Box) -> spaces.Space[Any]:
        space = super()._space_of(vector)
        if not isinstance(space, spaces.Dict):
            return space
        mask = spaces.Box(0, 1, (self.game.num_distinct_actions(),), np.int8)
        return spaces.Dict({**space.spaces, "action_mask": mask})

    def _play_chance(self) -> None:
        while self._position.is_chance_node():
            outcomes, chances = zip(*self._position.chance_outcomes(), strict=True)
            drawn = self.np_random.random() * sum(chances)
            number = bisect_right(list(accumulate(chances)), drawn)
            self._position.apply_action(outcomes[min(number, len(outcomes) - 1)])

    def _first(self) -> Reset:
        return self._observations_and_infos(self.agents)

    def _vectors(self) -> list[Any]:
        return [self._vector(self._position, p) for p in range(len(self.possible_agents))]

    def _observations_and_infos(self, agents: Sequence[str]) -> Reset:
        observations: dict[str, Any] = {}
        infos: dict[str, dict[str, Any]] = {}
        for player, agent in enumerate(agents):
            observations[agent], mask = self.observe(self._position, player)
            to_move = bool(self._position.legal_actions(player))
            infos[agent] = {"action_mask": mask, TO_MOVE: to_move}
        return observations, infos

    def observe(self, position: pyspiel.State, player: int) -> tuple[Any, np.ndarray]:
        """Return a player's observation and int8 action mask, only action 0 if none is legal."""
        place = player, position.history_str()
        if place not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            legal = position.legal_actions(player)
            mask = np.zeros(self.game.num_distinct_actions(), np.int8)
            mask[legal or [0]] = 1
            text = self._text(position, player, legal) if self.obs_mode == "llm" else ""
            self._known[place] = self._vector(position, player), mask, text
        vector, mask, text = self._known[place]
        if self.obs_mode == "vector":
            return vector.copy(), mask.copy()
        observation: dict[str, Any] = {"observation": vector.copy(), "action_mask": mask.copy()}
        if self.obs_mode == "llm":
            observation["text"] = text
        return observation, mask.copy()

    def _vector(self, position: pyspiel.State, player: int) -> np.ndarray:
        if self._tensor_of_state:
            return np.array(position.information_state_tensor(player), FLOAT)
        return np.array(position.observation_tensor(player), FLOAT)

    def _text(self, position: pyspiel.State, player: int, legal: Sequence[int]) -> str:
        if self._text_of_state:
            situation = position.information_state_string(player)
        else:
            situation = position.observation_string(player)
        if position.is_terminal():
            last_line = "The game is over."
        elif not legal:
            last_line = "It is not your turn."
        else:
            choices = self._choices[self.possible_agents[player]]
            answers = []
            for action in legal:
                name = position.action_to_string(player, action)
                known = choices[action]
                answers.append(known if name == known else f"{known} ({name})")
            last_line = f"Legal answers: {', '.join(answers)}"
        return f"{printable(situation).rstrip()}\n{last_line}".lstrip()

    def exact_exploitability(self, policies: Mapping[str, Any]) -> dict[str, float]:
        """Compute the exact gain of each agent from a best response instead of its policy.

        OpenSpiel enumerates the game, which must be small.

        Args:
            policies: Agent -> policy, which must be Exact (srl_agents.policy).

        Returns:
            Agent -> expected return of its best response to the policies of all others, less that
            of the agent's policy. The sum is NashConv (Lanctot et al. 2017, section 2).

        Raises:
            EnvConfigError: OpenSpiel cannot enumerate the game.
            PolicyError: A policy is not Exact.
        """
        from open_spiel.python.algorithms import exploitability

        from srl_extensions.bridges.openspiel_exploitability import ExactPolicies

        for agent in self.possible_agents:
            if not isinstance(policies[agent], Exact):
                raise PolicyError(
                    f"the policy of {agent} must have the methods of srl_agents.policy.Exact, as "
                    f"'uniform' and constrained models have, got {type(policies[agent]).__name__}"
                )
        game = self.game
        if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
            game = pyspiel.convert_to_turn_based(game)
        try:
            gains = exploitability.nash_conv(
                game, ExactPolicies(self, game, policies), return_only_nash_conv=False
            ).player_improvements
        except RuntimeError as error:  # SpielError or RecursionError
            raise EnvConfigError(f"OpenSpiel cannot enumerate {self.game}: {error}") from error
        return {agent: float(gains[player]) for player, agent in enumerate(self.possible_agents)}


def _only_in_words(agent: str, observation: Any) -> str:
    return ONLY_IN_WORDS


class OpenSpielView(ThirdPartyView):
    """Text view of a game of OpenSpiel, which needs observations of `obs_mode` "llm"."""

    def describe(self, agent: str, observation: Any) -> str:
        in_words = isinstance(observation, Mapping) and "text" in observation
        return str(observation["text"]) if in_words else self.describer(agent, observation)


def names_of_actions(game: pyspiel.Game, player: int) -> tuple[str, ...]:
    """Return one answer per action of a player: OpenSpiel's names, or else the numbers.

    OpenSpiel names an action in a situation. The names are collected in random episodes with a
    fixed seed. They are the answers if the game has at most 256 actions, and each name is the same
    in all situations and parsed as its action. An action without a collected name has its number.
    """
    count = game.num_distinct_actions()
    numbers = tuple(map(str, range(count)))
    if count > MOST_NAMED:
        return numbers
    names: dict[int, str] = {}
    rng = np.random.default_rng(0)
    for _ in range(PLAYOUTS):
        position = game.new_initial_state()
        for _ in range(MOST_MOVES):
            if position.is_terminal():
                break
            if not position.is_chance_node():
                for action in position.legal_actions(player):
                    name = position.action_to_string(player, action)
                    if names.setdefault(action, name) != name:
                        return numbers
            if position.is_simultaneous_node():
                everyone = map(position.legal_actions, range(game.num_players()))
                position.apply_actions([int(rng.choice(legal or [0])) for legal in everyone])
            else:
                position.apply_action(int(rng.choice(position.legal_actions())))
    answers = tuple(names.get(action, str(action)) for action in range(count))
    parsed = [parse_choice(answer, answers) for answer in answers]
    return answers if parsed == list(range(count)) else numbers


parallel_env = OpenSpielGame

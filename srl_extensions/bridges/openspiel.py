"""OpenSpiel's games as environments: `make("openspiel:leduc_poker")`.

Actions have OpenSpiel's numbers. An agent without a choice in a step has the mask of action 0
alone, and its action is ignored. Chance outcomes are drawn from the environment's seeded stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import sub
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from srl_agents.errors import PolicyError
from srl_agents.policy import AgentObservation, Exact
from srl_envs import loading
from srl_envs.errors import EnvConfigError, EnvError, UntrustedError
from srl_envs.games.base import FLOAT, RoundGame, metadata_of
from srl_envs.tasks.free_text_game import ONLY_IN_WORDS, RENDER_MODES
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
MOST_NAMED = 256  # actions of a game whose answers are names of actions
PLAYOUTS, MOST_MOVES = 20, 500  # random episodes that show the names, and moves of each
MOST_KNOWN = 256  # positions that are kept of games with at most LONGEST_KEPT moves
LONGEST_KEPT = 50  # Longer games seldom repeat a position.
_KNOWN_NAMES: dict[str, list[tuple[str, ...]]] = {}  # game -> names of the actions by player


@dataclass(frozen=True, eq=False)
class GameNode:
    """Position of a game and its properties. A chance node has only `outcomes` and `edges`."""

    position: pyspiel.State
    outcomes: Sequence[int] = ()
    edges: Sequence[float] = ()  # cumulative probabilities of the outcomes
    # By player: legal actions, or action 0; True if there are legal actions, vector, mask, text.
    choices: Sequence[Sequence[int]] = ()
    seen: Sequence[tuple[bool, np.ndarray, np.ndarray, str]] = ()
    returns: Sequence[float] = ()
    is_terminal: bool = False


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
        full = kind.information == pyspiel.GameType.Information.PERFECT_INFORMATION
        self._source: dict[str, str] = {}
        for form in ("string", "tensor"):
            seen, state = f"observation_{form}", f"information_state_{form}"
            by_state = getattr(kind, f"provides_{state}")
            by_state = by_state and not (full and getattr(kind, f"provides_{seen}"))
            self._source[form] = state if by_state else seen
        self._known: dict[tuple[GameNode, int | tuple[int, ...]], GameNode] = {}
        agents = [f"player_{player}" for player in range(self.game.num_players())]
        names = _KNOWN_NAMES.get(str(self.game))
        if names is None:
            names = [names_of_actions(self.game, player) for player in range(len(agents))]
            _KNOWN_NAMES[str(self.game)] = names
        self._choices = dict(zip(agents, names, strict=True))
        size = getattr(self.game, f"{self._source['tensor']}_size")()
        super().__init__(
            agents,
            (-np.inf,) * size,
            (np.inf,) * size,
            max_cycles=self.game.max_game_length() if max_cycles is None else max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )
        self._keeps = self.game.max_game_length() <= LONGEST_KEPT
        self._start = self._place(self.game.new_initial_state())

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

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}  # Copies of positions are slow.

    def begin(self, options: Mapping[str, Any]) -> None:
        kept = self._start if self._keeps else self._place(self.game.new_initial_state())
        self._play_chance(kept)

    def step(self, actions: Mapping[str, Any]) -> Step:
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        agents, before = self.agents, self._here
        played, illegal = [], []
        for agent, choices, seen in zip(agents, before.choices, before.seen, strict=True):
            action = actions[agent]
            is_legal = isinstance(action, int) and action in choices
            if not is_legal and not self.action_spaces[agent].contains(action):
                raise EnvError(
                    f"action {action!r} of {agent} is outside {self.action_spaces[agent]}"
                )
            illegal.append(seen[0] and action not in choices)
            played.append(choices[0] if illegal[-1] else int(action))
        mover = before.position.current_player()
        here = self._play_chance(self._after(before, tuple(played) if mover < 0 else played[mover]))
        self.played += 1
        truncated = self.played >= self.rounds and not here.is_terminal
        if here.is_terminal or truncated:
            self.agents = []
        if self.render_mode == "human":
            self.render()
        observations, infos = self._shown(here)
        for info, is_illegal in zip(infos.values(), illegal, strict=True):
            info["illegal"] = is_illegal
        return (
            observations,
            dict(zip(agents, map(sub, here.returns, before.returns), strict=True)),
            dict.fromkeys(agents, here.is_terminal),
            dict.fromkeys(agents, truncated),
            infos,
        )

    def drawn_in_text(self) -> str:
        return f"{self.metadata['name']} step {self.played}/{self.rounds}\n{self._here.position}\n"

    def _actions(self) -> spaces.Discrete:
        return spaces.Discrete(self.game.num_distinct_actions())

    def _play_chance(self, place: GameNode) -> GameNode:
        while place.outcomes:
            drawn = self.np_random.random() * place.edges[-1]
            number = bisect_right(place.edges, drawn, 0, len(place.edges) - 1)
            place = self._after(place, place.outcomes[number])
        self._here, self._position = place, place.position
        return place

    def _after(self, place: GameNode, move: int | tuple[int, ...]) -> GameNode:
        following = self._known.get((place, move))
        if following is None:
            position = place.position.clone() if self._keeps else place.position
            apply = position.apply_actions if isinstance(move, tuple) else position.apply_action
            apply(move)
            following = self._place(position)
            if self._keeps:
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[place, move] = following
        return following

    def _place(self, position: pyspiel.State) -> GameNode:
        if position.is_chance_node():
            outcomes, chances = zip(*position.chance_outcomes(), strict=True)
            return GameNode(position, outcomes, list(accumulate(chances)))
        choices, seen = [], []
        for player in range(len(self.possible_agents)):
            legal = position.legal_actions(player)
            choices.append(legal or [0])
            vector = np.array(getattr(position, self._source["tensor"])(player), FLOAT)
            mask = np.zeros(self.game.num_distinct_actions(), np.int8)
            mask[choices[-1]] = 1
            text = self._text(position, player, legal) if self.obs_mode == "llm" else ""
            seen.append((bool(legal), vector, mask, text))
        return GameNode(position, (), (), choices, seen, position.returns(), position.is_terminal())

    def _first(self) -> Reset:
        return self._shown(self._here)

    def _vectors(self) -> list[Any]:
        return [vector for _, vector, _, _ in self._here.seen]

    def _shown(self, place: GameNode) -> Reset:
        observations: dict[str, Any] = {}
        infos: dict[str, dict[str, Any]] = {}
        for agent, seen in zip(self.possible_agents, place.seen, strict=True):
            is_free, vector, mask, text = seen
            infos[agent] = {"action_mask": mask.copy(), TO_MOVE: is_free}
            if self.obs_mode == "vector":
                observations[agent] = vector.copy()
                continue
            observations[agent] = {"observation": vector.copy(), "action_mask": mask.copy()}
            if text:
                observations[agent]["text"] = text
        return observations, infos

    def observe(self, position: pyspiel.State, player: int) -> AgentObservation:
        """Return a player's observation of a position, with only action 0 if none is legal."""
        observations, infos = self._shown(self._place(position))
        agent = self.possible_agents[player]
        return AgentObservation(agent, observations[agent], infos[agent]["action_mask"])

    def _text(self, position: pyspiel.State, player: int, legal: Sequence[int]) -> str:
        situation = getattr(position, self._source["string"])(player)
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

    Names are collected in random episodes with a fixed seed. They are the answers if the game has
    at most 256 actions, and the names are distinct and the same in all situations. An action
    without a collected name has its number.
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

"""Games played to be learned from: who sits where, and which parts of the games are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from srl_agents.episode import Decision, Episode
from srl_agents.errors import PolicyError
from srl_agents.llm.backends.registry import api_model, is_api_name
from srl_agents.llm.opponent_notes import PartnerNotes
from srl_agents.policy import Policy, Seen
from srl_agents.rollout import ALL_AT_ONCE, SpeaksFirst, play_many, policy_name
from srl_agents.scripted.registry import POLICIES, classic_policy
from srl_agents.scripted.registry import names as policy_names
from srl_agents.seating import deal
from srl_agents.seeding import generator
from srl_envs.text.view import TextView
from srl_train.config.models import ModelsConfig
from srl_train.config.run import RunConfig
from srl_train.data.demonstrations import KEPT, best_of, parts_of
from srl_train.errors import ConfigError
from srl_train.players.api_models import chat_policy, refuse_constrained
from srl_train.players.model_specs import models_of_run, named_models
from srl_train.players.trained_models import as_trained, models_section, notes_of


class InWords:
    """A policy whose actions are also said in the game's words, so that models learn from it."""

    def __init__(self, policy: Policy, view: TextView) -> None:
        """`policy` chooses, `view` has the words."""
        self.name = policy_name(policy)
        self._policy, self._view = policy, view

    def start(self, seed: int) -> Any:
        """The policy's own memory."""
        return self._policy.start(seed)

    def act(self, seen: Sequence[Seen], states: Sequence[Any]) -> tuple[list[Decision], list[Any]]:
        """The policy's decisions, with their words."""
        decisions, memories = self._policy.act(seen, states)
        said = [
            choice
            if choice.text is not None
            else dataclasses.replace(choice, text=self._view.answers(one.agent)[int(choice.action)])
            for one, choice in zip(seen, decisions, strict=True)
        ]
        return said, memories


def classic_player(name: str, env: Any) -> Policy:
    """The classic policy of that name, in words.

    Raises ConfigError where it cannot play, or is kept for evaluation: what is played here is
    trained on.
    """
    if name in POLICIES and POLICIES[name].held_out:
        offered = ", ".join(policy_names(env, held_out=False))
        raise ConfigError(f"{name} is kept for evaluation (srl eval): give one of {offered}")
    try:
        return InWords(classic_policy(name, env), env.unwrapped.text_view)
    except PolicyError as error:
        raise ConfigError(str(error)) from error


def play_games(
    make_env: Callable[[], Any],
    policies: Mapping[str, Policy],
    games: int,
    seed: int,
    *,
    stage: int | None = None,
    group_size: int = 1,
    names: Mapping[str, str] | None = None,
    speaks_first: SpeaksFirst = ALL_AT_ONCE,
) -> list[Episode]:
    """`games` games, `group_size` in a row from the same start; the same ones for one seed.

    A `stage` of training has games of its own, by its number. As in evaluations, a game that
    changes over training is in its last phase.
    """
    rng = generator(seed, "collecting") if stage is None else generator(seed, "stage", stage)
    starts = [int(s) for s in rng.integers(2**31, size=-(-games // group_size))]
    seeds = [start for start in starts for _ in range(group_size)][:games]
    return play_many(
        make_env,
        policies,
        seeds,
        policy_seeds=[int(s) for s in rng.integers(2**63, size=games)],
        speaks_first=speaks_first,
        reset_options=[{"episode": 2**31}] * games,
        names=names,
    )


def filtered(
    episodes: Sequence[Episode],
    *,
    seats: Sequence[str] | None = None,
    min_return: float | None = None,
    top_share: float = 1.0,
    readable_only: bool = False,
) -> list[Episode]:
    """The games with a part that passes, each with the seats whose part does in its `extra`.

    A part is one seat's play of one game: of `seats`, with at least `min_return` (raw), all its
    answers read with `readable_only`, and among the best `top_share` of those left of the same
    start and seat.
    """
    played = [episode for episode in episodes if episode.failure is None]
    parts = [
        (index, seat)
        for index, seat in parts_of(played, seats)
        if not readable_only
        or all(step.decision.parse_failure is None for step in played[index].steps_of(seat))
    ]
    best = best_of(parts, played, Episode.returns, min_return=min_return, top_share=top_share)
    kept: dict[int, list[str]] = {}
    for index, seat in best:
        kept.setdefault(index, []).append(seat)
    return [
        episode
        if len(kept[index]) == len(episode.seats)
        else dataclasses.replace(episode, extra={**episode.extra, KEPT: kept[index]})
        for index, episode in enumerate(played)
        if index in kept
    ]


def cast(
    config: RunConfig,
    make_env: Callable[[], Any],
    wanted: Mapping[str, str],
    trained: Path | None = None,
    *,
    trusted: bool = False,
) -> dict[str, Policy]:
    """Seat -> policy.

    `wanted` says who sits where: a classic policy, 'tiny', a model's folder or hub name, a run's
    folder (its models in turn), 'RUN:model_0' for one of them, or a model behind an API, such as
    'openai:gpt-5-mini'. The other seats are held as `config` says, by the models of the run in
    `trained`, or by their bases. A run's models of `wanted` answer as they trained, all others as
    `config.models` says. With `trained`, the configuration is that run's, and may be anybody's:
    models elsewhere that it names are loaded, or asked behind an API, only where it is `trusted`.
    Raises ConfigError, also for seats of a pool of past versions, and for
    policies that are kept for evaluation: what is collected is trained on.
    """
    with closing(make_env()) as env:
        return _cast(config, make_env, env, wanted, trained, trusted)


def _cast(
    config: RunConfig,
    make_env: Callable[[], Any],
    env: Any,
    wanted: Mapping[str, str],
    trained: Path | None,
    trusted: bool,
) -> dict[str, Policy]:
    agents, view = list(env.possible_agents), env.unwrapped.text_view
    for seat in wanted:
        if seat not in agents:
            raise ConfigError(f"no seat {seat!r}: the seats are {', '.join(agents)}")
    try:
        seated = deal(agents, config.models.names, config.seats)
    except ValueError as error:
        if set(wanted) != set(agents):
            raise ConfigError(f"seats: {error}") from error
        seated = {}
    own = dict(zip(config.models.names, config.models.bases, strict=True))
    own |= config.models.frozen
    there = {} if trained is None else models_of_run(trained)
    own |= there
    loaded: dict[tuple[Path | None, str], Policy] = {}
    found: dict[str, Policy] = {}
    taken: dict[str, int] = {}
    for seat in agents:
        who = wanted.get(seat) or own.get(seated[seat], seated[seat])
        if who in POLICIES:
            found[seat] = classic_player(who, env)
            continue
        if who in config.pools:
            raise ConfigError(
                f"{seat} is held by the pool {who!r}, and past versions of models are only played "
                f"while a run trains: give --players {seat}=WHO, such as "
                f"{seat}={trained or 'RUN'}:{config.pools[who].of[0]} for a model as it ended"
            )
        of_the_run = seat in wanted or who in ("tiny", *there.values())
        if not (of_the_run or trained is None or trusted):
            raise ConfigError(
                f"{trained}/config.yaml seats {who} in {seat}, which is not of that run: give "
                f"--players {seat}=WHO, or --trust (trusted=True) to have it as it says"
            )
        named = named_models(who)
        taken[who] = taken.get(who, -1) + 1  # the models of a run are taken in turn
        name, source = list(named.sources.items())[taken[who] % len(named.sources)]
        if (named.run, source) not in loaded:
            models = config.models
            if named.run is not None:
                models = as_trained(named.run, models_section(named.run), name)
                models = dataclasses.replace(models, device=config.models.device)
            notes = notes_of(models, env, named.run)
            loaded[named.run, source] = _writer(source, models, notes, make_env, view, trusted)
        found[seat] = loaded[named.run, source]
    return found


def _writer(
    source: str,
    models: ModelsConfig,
    notes: PartnerNotes | None,
    make_env: Callable[[], Any],
    view: TextView,
    trusted: bool,
) -> Policy:
    if is_api_name(source):
        if models.constrained:
            refuse_constrained(source, "models.constrained")
        return chat_policy(api_model(source), view, models.sampling, models.seat_sampling, notes)

    from srl_agents.llm.text_policy import TextPolicy
    from srl_train.players.load import Loading, load_all

    [(_, backend, adapter)] = load_all(
        {Path(source).name: source},
        make_env,
        dataclasses.replace(Loading.of(models), trusted=trusted),
        notes=notes,
    )
    return TextPolicy(
        backend,
        view,
        sampling=models.sampling,
        per_seat=models.seat_sampling,
        adapter=adapter,
        constrained=models.constrained,
        notes=notes,
        name=source,
    )

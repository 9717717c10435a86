"""The report draws who did what to whom, over time, from the run's sample episodes."""

import re
from dataclasses import replace
from functools import partial

import pytest

from srl_agents.episode import write_jsonl
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_envs import make
from srl_extensions.pages.interactions import interactions
from srl_extensions.pages.report import write_report
from srl_train.metrics import page, run_folder
from srl_train.metrics.document import Arrow, Document, Figure, InteractionGraph, Period
from tests.srl_extensions.pages.pages import blocks, document, in_a_browser
from tests.srl_extensions.pages.synthetic_runs import write_run

EVIL = "</text><script>console.log('ran')</script>\u202e\x1b[2J"


def games(choices, seeds, names=("model_0", "model_1", "model_2"), **options):
    """Recorded games of three, each by 'cooperate' or 'compete' always."""
    make_env = partial(make, "coop_compete_v0", num_agents=3, max_cycles=4, **options)
    env = make_env()
    seats = {
        agent: classic_policy(f"always_{choice}", env)
        for agent, choice in zip(env.possible_agents, choices, strict=True)
    }
    told = dict(zip(env.possible_agents, names, strict=True))
    return play_many(make_env, seats, list(seeds), names=told)


def run_of(folder, by_round):
    """A run whose sample episodes are these, by round."""
    write_run(folder)
    for path in (folder / "episodes").glob("*.jsonl"):
        path.unlink()
    for number, episodes in by_round.items():
        write_jsonl(folder / "episodes" / f"round_{number:08d}.jsonl", episodes)
    return folder


@pytest.fixture
def turned(tmp_path):
    """A run in which model_2 competes at first and cooperates later."""
    bad, good = ("cooperate", "cooperate", "compete"), ("cooperate",) * 3
    return run_of(
        tmp_path / "run",
        {number: games(bad if number < 60 else good, range(number, number + 3))
         for number in range(0, 120, 10)},
    )  # fmt: skip


def arrow(graph, period, source, target):
    number = {name: place for place, name in enumerate(graph["players"])}
    [found] = [one for one in graph["periods"][period]["arrows"]
               if (one["source"], one["target"]) == (number[source], number[target])]  # fmt: skip
    return found


def test_the_bully_of_the_first_rounds_is_a_friend_in_the_last(turned):
    [graph] = blocks(document(write_report(turned)), "interactiongraph")
    assert graph["title"] == "Who helped and hurt whom"
    assert graph["players"] == ["model_0", "model_1", "model_2"]
    labels = [period["label"] for period in graph["periods"]]
    assert labels == [f"Round {number} to {number + 20} · 9 games" for number in (0, 30, 60, 90)]
    for period in range(4):
        wanted = -0.075 if period < 2 else 0.075
        found = arrow(graph, period, "model_2", "model_0")
        assert found["value"] == pytest.approx(wanted, abs=1e-6) and found["sure"]
        assert arrow(graph, period, "model_0", "model_1")["value"] == pytest.approx(0.075)


def test_past_versions_of_a_model_are_one_player(tmp_path):
    names = ("model_0", "model_1@3", "model_1@9")
    run = run_folder.load(run_of(tmp_path / "run", {0: games(("cooperate",) * 3, [0], names)}))
    assert run.models[:2] == ("model_0", "model_1")
    [figure] = interactions(run)
    assert figure.drawings[0].players == ["model_0", "past model_1"]


def test_the_reason_is_shown_for_games_that_cannot_be_played_again(tmp_path):
    [episode] = games(("cooperate",) * 3, [0])
    run = run_folder.load(run_of(tmp_path / "run", {0: [replace(episode, made_as=None)]}))
    [notes] = interactions(run)
    assert "does not say how" in notes.lines[0]


@pytest.mark.browser
def test_a_run_without_sample_episodes_or_of_single_players_has_no_graph(tmp_path):
    assert interactions(run_folder.load(run_of(tmp_path / "none", {}))) == []
    damaged = run_of(tmp_path / "damaged", {})
    (damaged / "episodes" / "round_00000000.jsonl").write_text("{}\n")
    assert interactions(run_folder.load(damaged)) == []


def graph_of(names, periods=2):
    arrows = [
        [Arrow(0, 1, 0.5 - period, 0.1, 0.9, 3, True), Arrow(1, 2, 0.25, -0.1, 0.6, 3, False),
         Arrow(2, 2, -0.2, float("nan"), float("nan"), 1, False),
         Arrow(0, 2, float("nan"), float("nan"), float("nan"), 1, False)]
        for period in range(periods)
    ]  # fmt: skip
    told = [Period(f"rounds {number}", own) for number, own in enumerate(arrows)]
    return Document("", "", [Figure([InteractionGraph("Who", "how", "bits", names, told)], "")])


def in_the_page(tmp_path, made, script):
    """What the script says on the console of the page."""
    text = page.html(made)
    text = text.replace("script-src ", f"script-src {page._hashes([script])} ")
    path = tmp_path / "page.html"
    path.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    _, said = in_a_browser(path, tmp_path / "browser")
    return [re.search(r'"(.*?)", source', line)[1] for line in said]


def test_the_slider_draws_another_period_and_its_numbers(tmp_path):
    script = """
      const slider = document.querySelector(".graph input");
      const tell = () => {
        const shown = [...document.querySelectorAll(".graph svg > g:first-of-type > g")];
        const colours = shown.map((one) => one.querySelector("path").getAttribute("stroke"));
        const first = [...document.querySelectorAll(".graph tbody tr:first-child td")];
        console.log([document.querySelector(".graph > .quiet:not(h4 + p)").textContent,
          colours.join(), first.map((cell) => cell.textContent).join("|")].join(" ; "));
      };
      tell(); slider.value = 0; slider.dispatchEvent(new Event("input")); tell();
    """
    said = in_the_page(tmp_path, graph_of(["a", "b", "c"]), script)
    blue, orange = "#0072B2", "#D55E00"
    assert said == [
        f"rounds 1 ; {orange},{blue},{orange} ; a|b|-0.5|0.1 to 0.9|3",
        f"rounds 0 ; {orange},{blue},{blue} ; a|b|0.5|0.1 to 0.9|3",
    ]


@pytest.mark.browser
def test_hostile_names_are_text_in_the_drawing(tmp_path):
    name = f"<b>x</b>{EVIL}"
    drawn, said = in_a_browser(
        page.write(graph_of([name] * 3), tmp_path / "page.html"), tmp_path / "browser"
    )
    tame = "x" * len(name)
    harmless, _ = in_a_browser(
        page.write(graph_of([tame] * 3), tmp_path / "tame.html"), tmp_path / "browser"
    )
    assert said == [] and drawn.tags == harmless.tags
    assert "\u202e" not in drawn.text and "\x1b" not in drawn.text
    shown = name.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
    assert drawn.text.count(shown) == harmless.text.count(tame) > 6

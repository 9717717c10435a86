"""Own data as an environment: rows, prompts, reward functions, several turns and tools."""

import asyncio
import json

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from srl_agents.episode import Decision
from srl_agents.policy import PerAgentPolicy
from srl_agents.rollout import play_many
from srl_envs import TextTask, check_environment, make
from srl_envs.errors import EnvConfigError, EnvError, UntrustedError
from srl_envs.loading import closed

ROWS = [
    {"country": "Peru", "answer": "Lima"},
    {"country": "Japan", "answer": "Tokyo"},
    {"country": "Kenya", "answer": "Nairobi"},
]
PROMPT = "Capital of {country}?"


def exact(completion, row):
    return float(completion == row["answer"])


def length(completion, row):
    return len(completion)


async def slow(completion, row):
    return 0.5


def play(env, *texts):
    """Play one episode of agent_0; return its texts, rewards and last info."""
    observations, infos = env.reset(seed=0)
    seen, earned = [observations["agent_0"]["text"]], []
    for text in texts:
        observations, rewards, *_, infos = env.step({"agent_0": text})
        seen.append(observations["agent_0"]["text"])
        earned.append(rewards["agent_0"])
    return seen, earned, infos["agent_0"]


def test_official_tests():
    env = TextTask(ROWS, prompt=PROMPT, reward=exact, num_agents=2)
    parallel_api_test(env, num_cycles=20)
    parallel_seed_test(lambda: TextTask(ROWS, prompt=PROMPT, reward=exact), num_cycles=20)
    check_environment(lambda: TextTask(ROWS, prompt=PROMPT, reward=exact))


def test_the_reward_function_receives_the_full_text_and_the_row():
    calls = []
    env = TextTask(ROWS, prompt=PROMPT, reward=lambda *call: calls.append(call) or 2.5)
    seen, earned, info = play(env, "I think.\nAnswer: Lima ")
    [(completion, row)] = calls
    assert completion == "I think.\nAnswer: Lima " and row is ROWS[info["row"]]
    assert seen[0] == PROMPT.format(**row) and earned == [2.5] and not env.agents


@pytest.mark.parametrize("reward", [{exact: 2.0, length: -0.5, slow: 1.0}, [exact, length, slow]])
def test_weighted_and_async_rewards(reward):
    env = TextTask(ROWS[:1], prompt=PROMPT, reward=reward)
    _, earned, info = play(env, "Lima")
    assert info["rewards"] == {"exact": 1.0, "length": 4.0, "slow": 0.5}
    assert earned == [2.0 - 2.0 + 0.5 if isinstance(reward, dict) else 5.5]


def test_async_rewards_of_concurrent_episodes_are_awaited_together():
    """A judge behind an API answers all episodes at once, through one client."""
    together = asyncio.Barrier(8)

    async def judge(completion, row):
        await asyncio.wait_for(together.wait(), 60)  # Opens when all eight wait in one event loop.
        if completion == "bad":
            raise EnvError("the judge is down")
        return 1.0

    class Writer(PerAgentPolicy):
        def start(self, seed):
            return seed

        async def act(self, seen, states):
            return [Decision("bad" if self.bad else "good") for _ in seen], states

        def leave(self, state):
            pass

    policies = [Writer() for _ in range(8)]
    for index, policy in enumerate(policies):
        policy.name, policy.bad = "writer", index == 3
    episodes = play_many(
        lambda: TextTask(ROWS[:1], prompt=PROMPT, reward=judge),
        [{"agent_0": policy} for policy in policies],
        seeds=range(8),
    )
    assert [episode.failure is None for episode in episodes] == [index != 3 for index in range(8)]
    assert episodes[0].returns() == {"agent_0": 1.0}


def test_an_empty_text_is_a_completion():
    assert play(TextTask(ROWS, prompt=PROMPT, reward=length), "")[1] == [0.0]


def test_several_turns():
    def respond(completions, row):
        return None if len(completions) == 2 else f"Are you sure about {row['country']}?"

    env = TextTask(ROWS[:1], prompt=PROMPT, reward=length, respond=respond)
    seen, earned, _ = play(env, "Lima", "Yes")
    assert seen[1] == "Are you sure about Peru?"
    assert earned == [0.0, float(len("Lima\n\nYes"))]


def test_a_truncated_episode_is_rewarded():
    env = TextTask(ROWS, prompt=PROMPT, reward=length, respond=lambda *_: "Go on.", max_cycles=2)
    env.reset(seed=0)
    env.step({"agent_0": "one"})
    _, rewards, terminations, truncations, _ = env.step({"agent_0": "two"})
    assert rewards == {"agent_0": float(len("one\n\ntwo"))}
    assert truncations["agent_0"] and not terminations["agent_0"]


def test_tools_are_plain_functions():
    def population(city: str) -> int:
        """Return the number of people in a city.

        Args:
            city: Name of the city.
        """
        return {"Lima": 10}[city]

    env = TextTask(ROWS[:1], prompt=PROMPT, reward=exact, tools=[population], rules="Be brief.")
    rules = env.text_view.rules("agent_0")
    assert rules.startswith("Be brief.") and "Return the number of people" in rules
    call = json.dumps({"name": "population", "arguments": {"city": "Lima"}})
    seen, earned, _ = play(env, f"<tool_call>{call}</tool_call>", "10")
    assert "10" in seen[1] and len(earned) == 2
    seen, _, _ = play(env, "<tool_call>{</tool_call>", "10")
    assert seen[1].startswith("Not read:")
    play(env, "<think>perhaps <tool_call></think>10")
    assert not env.agents  # It was an answer.


def test_an_empty_response_is_the_next_observation():
    env = TextTask(ROWS, prompt=PROMPT, reward=length, respond=lambda *_: "")
    assert play(env, "Lima", "Tokyo")[0][1:] == ["", ""]


def test_texts_of_rows_are_valid(tmp_path):
    rows = [{"prompt": "a \ud800", "answer": "\udfff"}, {"prompt": "b", "answer": " "}]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(lines, encoding="utf-8-sig")  # with a byte order mark
    env = TextTask(tmp_path / "rows.jsonl", reward=length)
    assert env.prompts == ["a \\ud800", "b"]
    assert env.sample_answers("agent_0", np.random.default_rng(0), 9) == ("\\udfff",)


def test_splits_are_disjoint():
    rows = [{"prompt": f"Question {number}"} for number in range(100)]
    parts = [
        {info["row"] for info in [play(TextTask(rows, reward=length, split=split), "x")[2]]}
        | set(TextTask(rows, reward=length, split=split)._drawn)
        for split in ("train", "test", "any")
    ]
    assert not parts[0] & parts[1] and parts[0] | parts[1] == parts[2] == set(range(100))
    assert 10 < len(parts[1]) < 35


def test_rows_of_files_and_of_named_functions(tmp_path, monkeypatch):
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    (tmp_path / "my_rewards.py").write_text("def always(completion, row):\n    return 3\n")
    monkeypatch.chdir(tmp_path)
    options = {"rows": "rows.jsonl", "prompt": PROMPT, "reward": "my_rewards:always"}
    env = make("srl_envs:TextTask", **options)
    assert play(env, "Lima")[1] == [3.0]
    with closed(), pytest.raises(UntrustedError):
        TextTask(**options)


def test_rows_of_a_dataset_folder(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "data")
    env = TextTask(tmp_path / "data", prompt=PROMPT, reward=exact)
    assert [row["answer"] for row in env.rows] == ["Lima", "Tokyo", "Nairobi"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rows": []}, "rows"),
        ({"rows": [3]}, "row"),
        ({"rows": "no.jsonl"}, "no.jsonl"),
        ({"prompt": "{city}?"}, "city"),
        ({"prompt": lambda row: ""}, "prompt"),
        ({"reward": 3}, "reward"),
        ({"reward": []}, "reward"),
        ({"reward": {exact: "much"}}, "weight"),
        ({"split": "half"}, "split"),
        ({"rules": " "}, "rules"),
        ({"rules": 3}, "rules"),
        ({"rows": 3}, "rows"),
        ({"rows": "."}, "rows"),
        ({"prompt": 3}, "prompt"),
        ({"prompt": "{country:d}"}, "prompt"),
        ({"prompt": "{country[x]}"}, "prompt"),
        ({"reward": {exact: float("nan")}}, "weight"),
        ({"reward": {exact: float("inf")}}, "weight"),
        ({"tools": "json:dumps"}, "tools"),
        ({"tools": [3]}, "tool"),
        ({"tools": [slow]}, "async"),
        ({"sample_answers": "Lima"}, "sample_answers"),
    ],
)
def test_invalid_arguments(change, named):
    with pytest.raises(EnvConfigError, match=named):
        TextTask(**{"rows": ROWS, "prompt": PROMPT, "reward": exact, **change})


@pytest.mark.parametrize("value", ["1", None, float("nan"), 10**400])
def test_a_reward_must_be_a_finite_number(value):
    with pytest.raises(EnvError, match="judge"):
        env = TextTask(ROWS, prompt=PROMPT, reward={make_judge(value): 1.0})
        play(env, "Lima")


def make_judge(value):
    def judge(completion, row):
        return value

    return judge


def test_errors_of_reward_functions_keep_their_type():
    def broken(completion, row):
        return row["no such column"]

    with pytest.raises(KeyError, match="no such column"):
        play(TextTask(ROWS, prompt=PROMPT, reward=broken), "Lima")

import io
import math
import re

from srl_train.metrics import Progress
from tests.srl_extensions.pages.synthetic_runs import row, stage_row


def shown(stream, rounds, numbers, step=2.0, **options):
    """Return the output of the rounds, `step` seconds apart."""
    now = iter(range(10_000))
    progress = Progress(rounds, stream, clock=lambda: step * next(now), **options)
    for number in numbers:
        progress.write(row(number))
    progress.close()
    return stream.getvalue()


def test_round_is_printed_in_one_line():
    lines = shown(io.StringIO(), 3, range(3)).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("round 1/3 | raw reward 0.7630 | cooperation 50.0 %")
    assert "parse failures 5.0 %" in lines[0]
    assert "updates model_0 1, model_1 0, model_2 1, model_3 0" in lines[0]


def test_log_every_prints_the_first_and_last_round():
    lines = shown(io.StringIO(), 7, range(7), log_every=3).splitlines()
    assert [int(re.match(r"round (\d+)/7", line)[1]) for line in lines] == [1, 3, 6, 7]


def test_remaining_time_uses_the_seconds_of_the_last_round():
    last = shown(io.StringIO(), 2000, range(21)).splitlines()[-1]
    assert last.endswith("2.00 s/round, 1:05:58 left")


def test_missing_values_and_failed_episodes_are_printed():
    stream = io.StringIO()
    progress = Progress(2, stream)
    progress.write(row(0, raw_reward=None, cooperation_rate=None, parse_failures=math.nan))
    progress.write(row(1, failed_episodes=3))
    first, second = stream.getvalue().splitlines()
    assert first.count("\N{EN DASH}") == 2 and "cooperation" not in first
    assert "failed episodes" not in first
    assert "failed episodes 3 of 16" in second


def test_pass_of_a_stage_is_printed_in_one_line():
    stream = io.StringIO()
    Progress(2, stream).write(stage_row(0, "sft", 0, models=2))
    assert stream.getvalue() == "sft pass 1 | loss model_0 0.6000, model_1 0.6000 | 1.50 s\n"


def test_control_characters_of_names_are_escaped():
    stream, name = io.StringIO(), "m\x1b[2J\x07\u202e"
    progress = Progress(2, stream)
    one = row(0, models=1)
    one["models"][name] = one["models"].pop("model_0")
    progress.write(one)
    progress.say(name)
    text = stream.getvalue()
    assert text.count(r"m\x1b[2J\x07\u202e") == 2
    assert "\x1b[2J" not in text and not {"\x07", "\u202e"} & set(text)

import io
import math
import re

import pytest

from srl_train.metrics import Progress
from tests.srl_extensions.pages.synthetic_runs import row, stage_row


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, rounds, numbers, step=2.0, **options):
    """What the stream holds after the rounds, `step` seconds apart."""
    now = iter(range(10_000))
    progress = Progress(rounds, stream, clock=lambda: step * next(now), **options)
    for number in numbers:
        progress.write(row(number))
    progress.close()
    return stream.getvalue()


def on_screen(written):
    """The lines that a terminal shows after all cursor movements."""
    lines, row = ["$ srl train", ""], 1
    for part in re.split(r"(\x1b\[\d*A|\x1b\[2K|\x1b\[[\d;?]*[a-zA-Z]|\r|\n)", written):
        if up := re.fullmatch(r"\x1b\[(\d*)A", part):
            row -= int(up[1] or 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part != "\r" and not part.startswith("\x1b"):
            lines[row] += part
    return [line.rstrip() for line in lines if line]


def test_plain_lines_where_there_is_no_terminal():
    lines = shown(io.StringIO(), 3, range(3)).splitlines()
    assert len(lines) == 3
    assert "\x1b" not in "".join(lines)
    assert lines[0].startswith("round 1/3 | raw reward 0.7630 | cooperation 50.0 %")
    assert "parse failures 5.0 %" in lines[0]
    assert "updates model_0 1, model_1 0, model_2 1, model_3 0" in lines[0]


@pytest.mark.parametrize(
    ("log_every", "expected"), [(1, [1, 2, 3, 4, 5, 6, 7]), (3, [1, 3, 6, 7]), (100, [1, 7])]
)
def test_log_every_keeps_the_first_and_the_last_round(log_every, expected):
    lines = shown(io.StringIO(), 7, range(7), log_every=log_every).splitlines()
    assert [int(re.match(r"round (\d+)/7", line)[1]) for line in lines] == expected


def test_one_block_is_redrawn_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    screen = on_screen(shown(Terminal(), 40, range(20)))
    assert len(screen) == 4
    assert screen[0] == "$ srl train"  # what stood there before stays
    assert "round 20/40" in screen[1]
    assert "began at 0.7630" in screen[2]
    assert "model_0 10" in screen[3]


def test_no_line_wraps_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    screen = on_screen(shown(Terminal(), 40, range(5)))
    assert len(screen) == 4
    assert max(map(len, screen)) <= 30


def test_a_dumb_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in shown(Terminal(), 3, range(2))


def test_time_left_is_the_recent_pace_times_the_rounds_left():
    # The first round's 0.5 s come from its row, the 20 others are 2 s apart: the last ten count.
    last = shown(io.StringIO(), 100, range(21)).splitlines()[-1]
    assert last.endswith("2.00 s/round   0:02:38 left")  # 79 rounds of 2 s


def test_hours_are_shown():
    last = shown(io.StringIO(), 2000, range(21)).splitlines()[-1]
    assert last.endswith("1:05:58 left")  # 1979 rounds of 2 s = 3958 s


def test_what_was_not_measured_is_a_dash_and_failures_are_told():
    stream = io.StringIO()
    progress = Progress(2, stream)
    progress.write(row(0, raw_reward=None, cooperation_rate=None, parse_failures=math.nan))
    progress.write(row(1, failed_episodes=3))
    first, second = stream.getvalue().splitlines()
    assert first.count("\N{EN DASH}") == 3
    assert "failed episodes" not in first
    assert "failed episodes 3 of 16" in second


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_pass_of_a_stage_is_a_line_of_its_own(stream, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    shown = stream()
    progress = Progress(2, shown)
    progress.write(stage_row(0, "sft", 0, models=2))
    progress.write(row(0))
    lines = shown.getvalue().splitlines()
    assert lines[0] == "sft pass 1 | loss model_0 0.6000, model_1 0.6000 | 1.50 s"
    assert "round 1/2" in lines[1]


def test_what_is_going_on_stands_below_the_block_until_the_next_row(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    progress = Progress(40, stream)
    progress.status("warming up")
    progress.status("warmer")
    assert on_screen(stream.getvalue()) == ["$ srl train", "warmer"]
    progress.write(row(0))
    progress.say("warning: odd answers")
    progress.status("playing")
    screen = on_screen(stream.getvalue())
    assert screen[:2] == ["$ srl train", "warning: odd answers"]
    assert "round 1/40" in screen[2] and screen[-1] == "playing"
    progress.write(row(1))
    assert len(on_screen(stream.getvalue())) == len(screen) - 1


def test_what_is_going_on_is_a_line_where_there_is_no_terminal():
    stream = io.StringIO()
    progress = Progress(3, stream)
    progress.status("warming up")
    progress.say("warning: odd answers")
    assert stream.getvalue() == "warming up\nwarning: odd answers\n"


def test_names_of_others_steer_no_terminal_and_are_no_markup(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    stream, name = Terminal(), "[bold red]m\x1b[2J\x07\u202e:smile:[/]"
    progress = Progress(2, stream)
    one = row(0, models=1)
    one["models"][name] = one["models"].pop("model_0")
    progress.write(one)
    progress.status(name)
    progress.say(name)
    progress.close()
    shown = r"[bold red]m\x1b[2J\x07\u202e:smile:[/]"
    screen = on_screen(stream.getvalue())
    assert f"updates {shown} 1" in screen and screen.count(shown) == 2
    assert not {"\x07", "\u202e"} & set(stream.getvalue())


def test_the_cursor_is_seen_however_the_run_ends(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    Progress(2, stream).write(row(0))  # and no close
    assert stream.getvalue().rfind("\x1b[?25h") > stream.getvalue().rfind("\x1b[?25l")

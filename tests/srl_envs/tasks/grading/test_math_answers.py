"""Grades of answers: pairs written by hand, and properties of all answers."""

import json
import time
from pathlib import Path

import pytest

from srl_envs.tasks.grading import LONGEST, same_answer, same_value, words_of

QUESTION = "How many apples and dozens does Ada have after 3 weeks, in km per hour or dollars?"

# truth, right answers, wrong answers
BY_HAND = [
    ("42", ["42", "42.0", "+42", " 42 ", "42.", "$42", r"\$42", "42 apples", "42 dollars",
            "84/2", r"\frac{84}{2}", "x = 42", "x=42", "n = 42", "(42)", "{42}", "4.2e1", "$42$",
            r"\(42\)", "4.2*10^1", r"4.2 \times 10^{1}", "042", "42 km per hour", "42 1/1 - 1"[:2],
            "42 apples.", r"42\text{ apples}", "--42"],
           ["", "43", "-42", "24", "4 2", "42 43", "42, 43", "40 + 2", "6*7", "x < 42", "(42, 42)",
            "not 42", "42 or 43", "forty-two", "42 cats", "4.2", "420", "42x", "42i", "42 dozen",
            "21 * 2", "41.9999", "42.00001", "42/0", "0042.1", "42^1", "6 7", "=", "42?43", "∞",
            "1e1000", "42%", r"42\%", "nan", "inf", "42 million", "int('42')",
            "__import__('os')", "4\uff123"]),
    ("-7", ["-7", "\u22127", "\u20137", "- 7", "-7.0", "-14/2", r"-\frac{14}{2}", "x = -7", "(-7)",
             "-(7)",
            "-$7", "7*10^0*1"[:0] + "-7.000"],
           ["7", "--7", "-7.1", "-(-7)", "-70", "-7 + 0", "1 - 8"]),
    ("1234", ["1234", "1,234", "1,234.0", "$1,234", "1234.00", r"1{,}234", r"1,\!234", "1.234e3"],
             ["1.234", "1,23,4", "12,34", "1 234", "1,2345", "234", "1;234"]),
    ("1/3", ["1/3", "2/6", r"\frac13", r"\frac{1}{3}", r"\dfrac{1}{3}", r"\tfrac{2}{6}", "0.3333",
             ".33333", "0.3334", "x = 1/3", "0.33333333"],
            ["0.33", "0.333", "0.3", "0.3332", "0.3335", "3", "3/1", "0.33334444", "1/3.1", "33%"]),
    ("-2/3", ["-2/3", "-0.6667", "-0.6666", "-0.66667", r"-\frac{2}{3}", r"\frac{-2}{3}", "-4/6"],
             ["2/3", "-0.667", "-0.67", "-3/2", "0.6667", "-0.6668", "-2/-3"]),
    ("0.5", ["0.5", ".5", "1/2", "0.50", r"\frac{1}{2}", "5/10", "5e-1"],
            ["0.51", "0.4999", "0.49999999", "0.5001", "5", "1/2/1", "50"]),
    ("919/100", ["9.19", "919/100", "$9.19", "9.190", "9.19 dollars", "9 19/100", "9.19E0"],
                ["9.2", "9.1900001", "9,19", "9.18", "919"]),
    ("7/2", ["7/2", "3.5", "3 1/2", r"3\frac{1}{2}", "3.50", r"3 \frac{1}{2}", "14/4"],
            ["3/2", "31/2", "3 1/3", "3 + 1/2", "3.49999", "4", "3 2"]),
    ("0", ["0", "0.0", "-0", "0/5", "$0"], ["0%", "", "1", "0.0001", "O", "none", "0/0", "()"]),
    ("x < 3", ["x < 3", "x<3", "3 > x", "(-inf, 3)", r"(-\infty, 3)", r"x \lt 3", "(-∞,3)",
               "x < 6/2", "x in (-inf, 3)"[5:], r"x \in (-\infty, 3)"],
              ["x > 3", "x <= 3", "x < -3", "3", "(3, inf)", "(-inf, 3]", "x < 3 or x > 9", "3 < x",
               "x = 3", "x < 2.9999", "x != 3", "x < x"]),
    ("x >= -5/2", ["x >= -5/2", "x ≥ -2.5", r"x \geq -\frac{5}{2}", "-2.5 <= x", "[-2.5, inf)",
                   r"[-5/2, \infty)", "x => -2.5"],
                  ["x > -5/2", "x <= -5/2", "x >= 5/2", "(-2.5, inf)", "x >= -2"]),
    ("-2 < x <= 5", ["-2 < x <= 5", "(-2, 5]", "5 >= x > -2", r"-2 < x \le 5", "x in (-2,5]"[5:]],
                    ["-2 <= x <= 5", "(-2, 5)", "[-2, 5]", "x <= 5", "x > -2", "5 < x <= -2",
                     "-2 < 5", "-2 < y < x", "(-2; 5]", "-2 < x >= 5", "((-2, 5]"]),
    ("x < 1 or x > 3", ["x < 1 or x > 3", "x > 3 or x < 1", r"(-\infty,1)\cup(3,\infty)",
                        "(3, inf) \u222a (-inf, 1)"],
                       ["x < 1", "x > 3", "1 < x < 3", "x < 1 or x >= 3", "(1, 3)",
                        "x < 1 or x > 3 or x > 5"]),
    ("-4, 6", ["-4, 6", "6, -4", "x = -4 or x = 6", "x = 6, x = -4", "{-4, 6}", r"\{6, -4\}",
               "-4 and 6", "6;-4", "x=-4,6", "6, -4, 6", r"x \in \{-4, 6\}"],
              ["-4", "6", "4, -6", "-4, 6, 0", "(-4, 6)", "-4 6", "2", "{-4}", "-4, 7"]),
    ("3, -3", [r"\pm 3", "±3", "x = ±3", "3, -3", r"x = \pm 3", "-3 or 3"], ["3", "-3", "9", "±9"]),
    ("(2, -3)", ["(2, -3)", "(2,-3)", "(4/2, -3.0)", r"\left(2, -3\right)", "(x, y) = (2, -3)"[9:]],
                ["(-3, 2)", "2, -3", "(2, 3)", "(2, -3, 0)", "2", "(2)", "[2, -3]"]),
    ("x^2 + 2x + 1", ["x^2+2x+1", "(x+1)^2", "1 + 2*x + x**2", "x*x + x + x + 1", "(1+x)(x+1)",
                      "x²+2x+1", "y = x^2 + 2x + 1", r"x^{2}+2x+1"],
                     ["x^2 + 2x", "x^2 + 1", "(x-1)^2", "y^2 + 2y + 1", "4", "x^2 + 2x + 1 + 0.001",
                      "x^2+2x+1 or 0", "(x+1)^2/(x-x)"]),
    (r"2\sqrt{3}", [r"2\sqrt{3}", r"\sqrt{12}", "2*sqrt(3)", "12^(1/2)", "6/sqrt(3)", "2√3"],
                   [r"3\sqrt{2}", "3.46", "3.4641", "12", r"-2\sqrt{3}", "2+sqrt(3)"]),
    (r"\frac{\pi}{4}", ["pi/4", r"\pi/4", "π/4", r"\frac14\pi", "0.25pi"],
                       ["0.7854", "pi", "pi/3", "45", "4/pi"]),
    ("e^2", ["e^2", "e*e", "exp(2)", r"e^{2}"], ["7.389", "2e", "e", "2^e"]),
    (r"\text{even}", ["even", "Even", r"\text{even}", "EVEN"], ["odd", "2", "", "not even"]),
    (r"\text{Monday}", ["Monday", "monday"], ["Tuesday", "1"]),
    ("50%", ["50", "50%", r"50\%"], ["0.5", "5", "500%"]),
    ("1/2, 3/4", ["0.5, 0.75", "3/4 and 1/2"], ["1/2", "1/2, 3/5", "1/2 3/4"]),
    ("90", [r"90^\circ", "90°", r"90^{\circ}", "90"], ["9", "90^2", "pi/2"]),
]  # fmt: skip
# Forms of models and files: units and typeset signs.
AS_WRITTEN = [
    (row["truth"], row["right"], row["wrong"])
    for row in map(
        json.loads,
        Path(__file__).with_name("answers_as_written.jsonl").read_text("utf-8").splitlines(),
    )
]
PAIRS = [
    (truth, said, verdict)
    for truth, right, wrong in BY_HAND + AS_WRITTEN
    for verdict, answers in ((True, right), (False, wrong))
    for said in answers
]


def test_right_and_wrong_answers_written_by_hand():
    words = words_of(QUESTION)
    misjudged = [pair for pair in PAIRS if same_answer(*pair[:2], words) is not pair[2]]
    assert not misjudged, "each is (truth, answer, whether it is right)"


@pytest.mark.parametrize(
    "hostile",
    [
        "9**9**9**9", "9^9^9^9", "(" * 900, "1," * 400, "{" * 900, "or " * 300, "x<" * 400,
        "±" * 500, r"\frac{" * 150, "9" * 900, "1e9999", "2^" * 300 + "2", "e^e^e^e^e^e", "-" * 900,
        "sqrt" * 200, "1/" * 400 + "1", "x" * 900, "\ud800", "((((1))))" * 90,
        "__import__('os').system('true')", "exp(exp(exp(exp(9))))", "tan(pi/2)", "log(0)",
        "0^(-1)", "(-1)^(1/2)", "1/(x-x)", "a" * LONGEST * 50,
    ],
)  # fmt: skip
def test_hostile_answers_are_graded_quickly(hostile):
    began = time.process_time()  # CPU time, independent of the load of the machine
    for truth in ("12", "x < 3", "1, 2", "(1, 2)", "x^2 + 1", r"\sqrt{2}", r"\text{no}"):
        assert not same_answer(truth, hostile)
    assert time.process_time() - began < 5


def test_units_are_words_of_the_question_that_keep_the_value():
    units = words_of("Ada packs boxes. How many dozen shells are that, if below zero?")
    assert same_answer("12", "12 shells", units) and not same_answer("12", "12 marbles", units)
    assert not same_answer("12", "12 dozen", units)  # 144
    assert not same_answer("12", "12 below zero", units)


@pytest.mark.parametrize(
    ("question", "truth", "right", "wrong"),
    [
        ("How many are left?", "3", ("3",), ("3%", r"3\%", "3 percent", "3 %")),
        ("What is 15% of 20, after a 5 percent discount?", "3", ("3",), ("3%", "3 percent")),
        ("What percent of 8 is 2?", "25", ("25", "25%", r"25\%", "25 percent"), ("0.25",)),
        (r"Write 1/4 as a \%.", "25", ("25", "25%"), ("0.25",)),
        ("How large is it?", r"25\%", ("25", "25%", r"25\%", "25 percent"), ("0.25", "1/4")),
        ("How large is it?", "25 percent", ("25", "25%", r"25\%", "25 percent"), ("0.25",)),
    ],
)
def test_a_percent_sign_is_part_of_the_answer(question, truth, right, wrong):
    for compared in (same_answer, same_value):
        assert all(compared(truth, one, words_of(question)) for one in right)
        assert not any(compared(truth, one, words_of(question)) for one in wrong)


@pytest.mark.parametrize(
    ("truth", "said", "same"),
    [
        ("0.3", "0.30", True),
        ("0.5", "1/2", True),
        ("35", "7 * 5", False),  # not computed
        ("35", "**35**", True),
        ("-35", "\u221235", True),
        ("35", "35 apples", False),  # no word of the question
        ("35", "35 towns", True),
        ("35", "35 fewer towns", False),
        ("Tessin", " tessin ", True),
        ("Tessin", "the river Tessin", False),
        ("2024-01-05", "2018", False),  # no expression
        ("2024-01-05", "2024-01-05.", True),
        ("1", "1" * 5000, False),
        ("12345678901", "12345678902", False),
        ("0.333333333333333", "0.3333", True),
        ("0.333333333333333", "0.33", False),
        ("0", "0.0000000001", False),
    ],
)
def test_numbers_and_words_are_compared_by_value(truth, said, same):
    assert same_value(truth, said, {"towns"}) is same

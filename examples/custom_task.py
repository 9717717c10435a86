"""A task of your own: one small class makes a whole environment.

    python examples/custom_task.py

It is played here by a scripted agent that makes a mistake first; train a model on it with
`environment: {name: "custom_task:parallel_env"}` in the folder of this file.
"""

from srl_envs import check_environment
from srl_envs.tasks.base import Grade, Problem, Task, TaskEnv
from srl_envs.text import TextEnv

LETTERS = "abcdefghij"


class Alphabet(Task):
    """Put letters into the order of the alphabet."""

    name = "alphabet_v0"
    difficulties = (1, 3)  # so many letters more than two
    attempts = 2

    def rules(self):
        """Said once, before the form of an answer."""
        return "Put the letters into the order of the alphabet."

    def draw(self, rng, difficulty):
        """All randomness is from `rng`; the key says when two problems are the same."""
        letters = [str(letter) for letter in rng.choice(list(LETTERS), 2 + difficulty, False)]
        ordered = "".join(sorted(letters))
        return Problem(" ".join(letters), ordered, difficulty, key=ordered)

    def grade(self, problem, answer):
        """Half of the score is for letters that stand where they belong."""
        said = answer.replace(" ", "")
        if said == problem.answer:
            return Grade.right()
        places = sum(a == b for a, b in zip(said, problem.answer, strict=False))
        if sorted(said) != sorted(problem.answer):
            return Grade.wrong("Use each of the letters once.")
        return Grade.wrong("They are not in order.", score=places / len(problem.answer) / 2)

    def sample_answers(self, rng, attempt, count):
        """The embedded model starts from these: the right form, in any order."""
        letters = attempt.problem.question.split()
        orders = [rng.permutation(letters) for _ in range(count)]
        return tuple(dict.fromkeys(f"Answer: {' '.join(order)}" for order in orders))


def parallel_env(**parameters):
    """What a configuration names."""
    return TaskEnv(Alphabet(), **parameters)


def main():
    """Hold it to the contract, then play an episode in words."""
    check_environment(parallel_env)
    env = TextEnv(parallel_env(difficulty=2))
    told, _ = env.reset(seed=0)
    print(told["agent_0"])
    truth = env.unwrapped.attempt("agent_0").problem.answer
    for answer in (truth[::-1], f"Now I see.\nAnswer: {truth}"):
        print(f"> {answer}")
        told, rewards, *_ = env.step({"agent_0": answer})
        print(f"{told['agent_0']}\n(earned {rewards['agent_0']:+.2f})")


if __name__ == "__main__":
    main()

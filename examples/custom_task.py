"""A task of your own: one small class defines a whole environment.

    python examples/custom_task.py

Here the first answer is wrong and the second is right. To train a model on the task, set
`environment: {name: "custom_task:parallel_env"}` and run `srl train` in the folder of this file.
"""

from srl_envs import check_environment
from srl_envs.tasks.base import Grade, Problem, Task, TaskEnv
from srl_envs.text import TextEnv

LETTERS = "abcdefghij"


class Alphabet(Task):
    """Task of putting letters into alphabetical order."""

    name = "alphabet_v0"
    difficulties = (1, 3)  # number of letters minus two
    attempts = 2

    def rules(self):
        """Return the instructions, which the format of an answer follows."""
        return "Put the letters into the order of the alphabet."

    def draw(self, rng, difficulty):
        """Draw a problem. Two problems with equal keys are the same problem."""
        letters = [str(letter) for letter in rng.choice(list(LETTERS), 2 + difficulty, False)]
        ordered = "".join(sorted(letters))
        return Problem(" ".join(letters), ordered, difficulty, key=ordered)

    def grade(self, problem, answer):
        """Grade an answer: 1 if right, else up to 0.5 for letters at the right position."""
        letters = answer.replace(" ", "")
        if letters == problem.answer:
            return Grade.right()
        places = sum(a == b for a, b in zip(letters, problem.answer, strict=False))
        if sorted(letters) != sorted(problem.answer):
            return Grade.wrong("Use each of the letters once.")
        return Grade.wrong("They are not in order.", score=places / len(problem.answer) / 2)

    def sample_answers(self, rng, attempt, count):
        """Return well-formed answers at random, from which the embedded model learns the format."""
        letters = attempt.problem.question.split()
        orders = [rng.permutation(letters) for _ in range(count)]
        return tuple(dict.fromkeys(f"Answer: {' '.join(order)}" for order in orders))


def parallel_env(**parameters):
    """Return the environment, as named in a configuration."""
    return TaskEnv(Alphabet(), **parameters)


def main():
    """Run the conformance test, then play an episode in text."""
    check_environment(parallel_env)
    env = TextEnv(parallel_env(difficulty=2))
    observations, _ = env.reset(seed=0)
    print(observations["agent_0"])
    solution = env.unwrapped.attempt("agent_0").problem.answer
    for answer in (solution[::-1], f"Now I see.\nAnswer: {solution}"):
        print(f"> {answer}")
        observations, rewards, *_ = env.step({"agent_0": answer})
        print(f"{observations['agent_0']}\n(reward {rewards['agent_0']:+.2f})")


if __name__ == "__main__":
    main()

"""Human policy: a person plays an agent in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from srl_agents.episode import Decision
from srl_agents.errors import BackendError
from srl_agents.policy import AgentObservation
from srl_envs.text import LISTED, ParseFailure, TextView, read_answer, view_for

HELP, QUIT, SAY = "?", ("q", "quit"), "say "
WIDTH = 88  # characters of a line


class Human:
    """Policy of a person, who reads the prompts of language models.

    Unreadable and illegal answers are requested again. `ask(prompt)` returns one line, or None
    at the end of input; `tell(text)` shows text. With `hears_words`, lines that begin with 'say
    ' are sent as messages. Leaving raises BackendError.
    """

    def __init__(
        self,
        view: TextView,
        ask: Callable[[str], str | None],
        tell: Callable[[str], None],
        *,
        hears_words: bool = False,
        name: str = "human",
    ) -> None:
        self.name = name
        self.left = False
        """True after the person has left."""
        self._view, self._ask, self._tell = view, ask, tell
        self._hears_words = hears_words

    def start(self, seed: int) -> bool:
        return False

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[bool]
    ) -> tuple[list[Decision], list[bool]]:
        decisions = [self._move(one, told) for one, told in zip(seen, states, strict=True)]
        return decisions, [True] * len(decisions)

    def _move(self, seen: AgentObservation, told_rules: bool) -> Decision:
        if not told_rules:
            self._tell_rules(seen)
        for speaker, said in seen.messages:
            self._tell(f"{speaker} says: {said}")
        self._tell(_wrapped(self._view.describe(seen.agent, seen.observation)))
        answers, mask = self._view.answers(seen.agent), seen.action_mask
        legal = [words for action, words in enumerate(answers) if mask is None or mask[action]]
        if not legal:
            self._tell(f"You answer in your own words, on one line; {HELP} shows the rules.")
        elif len(legal) <= LISTED:
            self._tell(f"You may answer: {', '.join(legal)}")
        else:
            self._tell(f"There are {len(legal)} legal answers; {HELP} shows them.")
        known = {answer.casefold() for answer in answers}
        words: list[str] = []
        while True:
            line = self._ask(f"{seen.agent}> ")
            if line is None:
                raise self._leaving(seen)
            plain = line.strip()
            # A command only where it is no answer: some game may call a move 'q'.
            if plain.casefold() not in known:
                if plain.casefold() in QUIT:
                    raise self._leaving(seen)
                if plain == HELP:
                    self._tell_rules(seen)
                    if legal:
                        self._tell(_wrapped(f"Legal now: {', '.join(legal)}"))
                    continue
                if legal and plain.casefold().startswith(SAY):
                    if self._hears_words:
                        words.append(plain[len(SAY) :].strip())
                        self._tell("It will be heard with your move. Now your move:")
                    else:
                        self._tell("Nobody hears words in this game.")
                    continue
            answer = "\n".join([*words, plain])
            action = read_answer(self._view, seen.agent, seen.observation, answer, seen.action_mask)
            if not isinstance(action, ParseFailure):
                return Decision(action, text=answer)
            instead = f"played {answers[action.instead]!r} now" if answers else "lost its turn"
            self._tell(
                f"That was not read: {action.reason}. A model would have {instead}; "
                f"you may try again ({HELP} shows the rules and the legal answers)."
            )

    def _tell_rules(self, seen: AgentObservation) -> None:
        self._tell(_wrapped(view_for(self._view, seen.observation).rules(seen.agent)))
        say = f" '{SAY}...' before your answer is heard by others." if self._hears_words else ""
        self._tell(f"({HELP} shows this again, {QUIT[0]} leaves the game.{say})\n")

    def _leaving(self, seen: AgentObservation) -> BackendError:
        self.left = True
        return BackendError(f"{seen.agent} left the game")


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.fill(line, WIDTH) for line in text.splitlines())

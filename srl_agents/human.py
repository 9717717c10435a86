"""Policy of a human player in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from srl_agents.episode import Decision
from srl_agents.errors import BackendError
from srl_agents.policy import AgentObservation
from srl_envs.text import LISTED, ParseFailure, TextView, read_answer, view_for

HELP, QUIT, SAY = "?", ("q", "quit"), "say "
"""Commands of the person."""
WIDTH = 88
"""Maximum length of a printed line in characters."""


class Human:
    """Policy of a person, who reads the same prompts as language models.

    After an invalid answer, the person may answer again. If the person leaves, `left` becomes True
    and `act` raises BackendError.
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
        """Create a policy whose actions a person enters.

        Args:
            view: Text view of the environment.
            ask: Function that shows a prompt and returns one line, or None at the end of input.
            tell: Function that shows text.
            hears_words: True to send lines that begin with 'say ' with the next answer, in games
                with a list of legal answers.
            name: Name in records.
        """
        self.name = name
        self.left = False
        self._view, self._ask, self._tell = view, ask, tell
        self._hears_words = hears_words

    def start(self, seed: int) -> bool:
        return False

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[bool]
    ) -> tuple[list[Decision], list[bool]]:
        decisions = [self._decide(one, knows) for one, knows in zip(seen, states, strict=True)]
        return decisions, [True] * len(decisions)

    def _decide(self, seen: AgentObservation, knows_rules: bool) -> Decision:
        if not knows_rules:
            self._tell_rules(seen)
        for speaker, message in seen.messages:
            self._tell(f"{speaker} says: {message}")
        self._tell(_wrapped(self._view.describe(seen.agent, seen.observation)))
        answers, mask = self._view.answers(seen.agent), seen.action_mask
        legal = [words for action, words in enumerate(answers) if mask is None or mask[action]]
        if not legal:
            self._tell(f"You answer with any text, on one line; {HELP} shows the rules.")
        elif len(legal) <= LISTED:
            self._tell(f"You may answer: {', '.join(legal)}")
        else:
            self._tell(f"There are {len(legal)} legal answers; {HELP} shows them.")
        known = {answer.casefold() for answer in answers}
        messages: list[str] = []
        while True:
            line = self._ask(f"{seen.agent}> ")
            answer = "" if line is None else line.strip()
            # Legal answers have priority over commands: an action may be called 'q'.
            is_command = answer.casefold() not in known
            if line is None or (is_command and answer.casefold() in QUIT):
                self.left = True
                raise BackendError(f"{seen.agent} left the game")
            if is_command and answer == HELP:
                self._tell_rules(seen)
                if legal:
                    self._tell(_wrapped(f"Legal now: {', '.join(legal)}"))
                continue
            if is_command and legal and answer.casefold().startswith(SAY):
                if self._hears_words:
                    messages.append(answer[len(SAY) :].strip())
                    self._tell("This is sent with your next answer. Now your answer:")
                else:
                    self._tell("There are no messages in this game.")
                continue
            text = "\n".join([*messages, answer])
            action = read_answer(self._view, seen.agent, seen.observation, text, seen.action_mask)
            if not isinstance(action, ParseFailure):
                return Decision(action, text=text)
            instead = f"played {answers[action.instead]!r} now" if answers else "lost its turn"
            self._tell(
                f"This answer is not valid: {action.reason}. A model would have {instead}; "
                f"you may try again ({HELP} shows the rules and the legal answers)."
            )

    def _tell_rules(self, seen: AgentObservation) -> None:
        self._tell(_wrapped(view_for(self._view, seen.observation).rules(seen.agent)))
        say = f" '{SAY}...' before your answer sends a message." if self._hears_words else ""
        self._tell(f"({HELP} shows this again, {QUIT[0]} leaves the game.{say})\n")


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.fill(line, WIDTH) for line in text.splitlines())

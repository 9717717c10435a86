"""Retry policy that stops after three attempts, so that no test waits for a deadline."""

from srl_agents.llm.backends.network import RetryPolicy


class _Tries(RetryPolicy):
    def _is_over(self, state):
        return state.attempt_number >= 3


THREE_TRIES = _Tries(deadline=120.0, unreachable=120.0, first_wait=0.001, longest_wait=0.002)

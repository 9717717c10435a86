"""Games as credit sees them."""

from srl_train.advantages.credit import Game


def game(rewards, actions=None):
    """Seat -> its rewards; everyone chose 0 throughout where no actions are given."""
    return Game(rewards, actions or {seat: [0] * len(own) for seat, own in rewards.items()})


def alone(*rewards):
    """A group in which one seat, 'a', earns these rewards in each game."""
    return [game({"a": list(own)}) for own in rewards]

"""Independent updates: each model on its own."""

from srl_train.updates.strategy import UpdateStrategy, no_state


def asynchronous() -> UpdateStrategy:
    """Every model applies its own gradient and keeps its own weights.

    A model's pace is not kept here but by the sample budgets of the rounds: a model whose budget
    is not full has no gradient (None), and delays nobody.
    """
    return UpdateStrategy(no_state)

"""pass@k: the probability that at least one of k answers solves a problem.

Estimated without bias from n answers of which c do (Chen et al. 2021, "Evaluating Large Language
Models Trained on Code", eq. 1).
"""

from __future__ import annotations

from math import comb


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): the share of the k-subsets of n answers that hold one of the c.

    Raises ValueError where k is not in 1..n, or c not in 0..n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {n} answers: k must be 1 to {n}, give fewer or sample more")
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} answers solve the problem: give 0 to {n}")
    return 1.0 - comb(n - c, k) / comb(n, k)

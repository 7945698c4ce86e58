"""Policies: how many tokens to draft, decided as one goes.

A policy stands in the place of the draft length k. It is asked before each token of a round,

    policy(rounds, drafted, rows) -> k

    rounds    the rounds so far, a sequence: what each proposed and accepted (see `specdecode.trace.fold`)
    drafted   the tokens drafted in this round so far
    rows      the rows they were drawn from
    k         how many tokens this round should have; drafting goes on while there are fewer

and may look at all of it. What has been drafted is verified, whatever the policy thinks of it: deciding
*not to draft another* token leaves the law alone (thm-policy in chapter 9; by machine, thm-formal in
chapter 11). To discard or replace a token one has looked at would not: those that are kept are no longer
drawn from their rows.

A policy must be a function of its arguments alone, as a model is. `POLICIES` has those of this module; what
each claims is that it never changes the law.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from specdecode.checks import TokenIds, as_count, as_draft_length, as_number, shown
from specdecode.cost import best_k
from specdecode.trace import Round, fold

__all__ = [
    "POLICIES",
    "Best",
    "Confident",
    "Fixed",
    "Heuristic",
    "Policy",
    "best",
    "confident",
    "fixed",
    "heuristic",
]

Policy = Callable[[Sequence[Round], TokenIds, Sequence[np.ndarray]], int]


@dataclass(frozen=True)
class Fixed:
    """Always k tokens; the policy that a plain number stands for.

    Parameters
    ----------
    k : int
        k ≥ 0.

    Examples
    --------
    >>> Fixed(4)([], [], [])
    4
    """

    k: int

    def __post_init__(self) -> None:
        as_draft_length(self.k, least=0)

    def __call__(self, rounds: Sequence[Round], drafted: TokenIds, rows: Sequence[np.ndarray]) -> int:
        return self.k


@dataclass(frozen=True)
class Heuristic:
    """Two tokens more after a round that was accepted whole, one fewer after any other.

    Parameters
    ----------
    start : int
        Of the first round, start ≥ 1.
    longest : int
        Largest k, longest ≥ start.

    References
    ----------
    The schedule "heuristic" of Hugging Face's assisted generation.

    Examples
    --------
    >>> from specdecode.trace import Round
    >>> policy = Heuristic(start=3)
    >>> policy([], [], []), policy([Round(3, 3, 4)], [], []), policy([Round(3, 1, 2)], [], [])
    (3, 5, 2)
    """

    start: int = 5
    longest: int = 32

    def __post_init__(self) -> None:
        as_draft_length(self.longest, "longest", least=as_count(self.start, "start", least=1))

    def __call__(self, rounds: Sequence[Round], drafted: TokenIds, rows: Sequence[np.ndarray]) -> int:
        return fold(self._after, rounds, self.start)

    def _after(self, k: int, last: Round) -> int:
        if not last.proposed:  # a round without a draft says nothing of it
            return k
        return min(k + 2, self.longest) if last.accepted == last.proposed else max(k - 1, 1)


@dataclass(frozen=True)
class Best:
    """The k of the most expected tokens per unit of cost, at the conditional acceptance seen so far.

    Parameters
    ----------
    draft_cost : float
        Time of a draft pass ÷ time of a target pass, 0 or more.
    longest : int
        Largest k considered.
    prior : (float, float)
        Accepted and tested tokens to begin with, so that the first rounds are not ruled by one coin.

    Guarantee
    ---------
    The k of `specdecode.cost.best_k`, never 0: a policy that stopped drafting would learn no more.

    Examples
    --------
    >>> from specdecode.trace import Round
    >>> Best(draft_cost=0.1)([], [], []), Best(draft_cost=0.1)([Round(5, 5, 6)] * 20, [], [])
    (4, 16)
    """

    draft_cost: float
    longest: int = 16
    prior: tuple[float, float] = (7.0, 10.0)

    def __post_init__(self) -> None:
        as_draft_length(self.longest, "longest")
        as_number(self.draft_cost, "draft_cost", 0)
        try:
            accepted, tested = self.prior
            as_number(accepted, "accepted", 0, as_number(tested, "tested", 0, open_below=True))
        except (TypeError, ValueError):
            prior = f"prior is {shown(self.prior)}"
            raise ValueError(f"{prior}; want (accepted, tested) with 0 ≤ accepted ≤ tested") from None

    def __call__(self, rounds: Sequence[Round], drafted: TokenIds, rows: Sequence[np.ndarray]) -> int:
        accepted, tested = fold(_counted, rounds, (0, 0))
        seen = (self.prior[0] + accepted) / (self.prior[1] + tested)
        return _best_k(min(seen, 1.0), self.draft_cost, self.longest)


def _counted(counts: tuple[int, int], last: Round) -> tuple[int, int]:
    """Accepted and tested tokens, one round later."""
    accepted, tested = counts
    return accepted + last.accepted, tested + min(last.accepted + 1, last.proposed)


@lru_cache  # asked before each token of a round, with the same answer
def _best_k(alpha: float, draft_cost: float, longest: int) -> int:
    return max(1, best_k(alpha, draft_cost, longest))


@dataclass(frozen=True)
class Confident:
    """Another token while the last one was drawn with at least this probability, up to a longest.

    Parameters
    ----------
    threshold : float
        In [0, 1].
    longest : int
        Largest k.

    Guarantee
    ---------
    Exact although it looks at the drafted tokens: the improbable one stays, only the next is not drafted.

    References
    ----------
    The confidence threshold of Hugging Face's assisted generation.

    Examples
    --------
    >>> policy, row = Confident(threshold=0.5), np.array([0.8, 0.2])
    >>> policy([], [], []), policy([], [0], [row]), policy([], [1], [row])
    (1, 2, 1)
    """

    threshold: float
    longest: int = 16

    def __post_init__(self) -> None:
        as_draft_length(self.longest, "longest")
        as_number(self.threshold, "threshold", 0, 1)

    def __call__(self, rounds: Sequence[Round], drafted: TokenIds, rows: Sequence[np.ndarray]) -> int:
        if drafted and rows[-1][drafted[-1]] < self.threshold:
            return len(drafted)
        return min(len(drafted) + 1, self.longest)


# How to make one, given what a draft pass costs.
POLICIES: dict[str, Callable[[float], Policy]] = {
    "fixed": lambda draft_cost: Fixed(4),
    "heuristic": lambda draft_cost: Heuristic(),
    "best": Best,
    "confident": lambda draft_cost: Confident(0.4),
}

fixed, heuristic, best, confident = Fixed, Heuristic, Best, Confident  # their names of old

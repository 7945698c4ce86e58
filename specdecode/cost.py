"""What a round yields and what it costs, in closed form.

Two models of acceptance. The **independent** one takes a single α at every position (Leviathan et al.
2023, section 3.1); its functions are plain arithmetic and run on floats, Fractions and symbols. The
**Markov** one takes the two tables themselves and is exact for them (thm-markov-tokens in chapter 3).
"""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from specdecode.checks import (
    Row,
    Rows,
    as_count,
    as_draft_length,
    as_list,
    as_number,
    as_row,
    as_rows,
    shown,
)
from specdecode.rule import acceptance, excess, overlap

__all__ = [
    "accepted_per_proposed",
    "best_k",
    "block_accepted",
    "expected_tokens",
    "markov_round",
    "markov_tokens_per_step",
    "speedup",
]


def expected_tokens(alpha: Any, k: int) -> Any:
    """Expected tokens per target pass, 1 + α + … + α^k = (1 − α^(k+1)) / (1 − α).

    Parameters
    ----------
    alpha : number or ndarray
        Probability that a tested token is accepted, the same at every position; 0 ≤ α ≤ 1, or a symbol.
    k : int
        Draft length, k ≥ 0.

    Returns
    -------
    number or ndarray
        From 1 to k + 1, which it reaches at α = 1.

    Raises
    ------
    ValueError
        If k < 0, or α is a number outside [0, 1].

    References
    ----------
    Leviathan et al. (2023), equation (1).

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> expected_tokens(F(1, 2), 3), expected_tokens(1, 3)
    (Fraction(15, 8), 4)
    """
    _check(alpha, "alpha", 0, 1)
    return sum(alpha**i for i in range(as_draft_length(k, least=0) + 1))


def _check(value: Any, name: str, least: float, most: float | None = None, **ends: bool) -> None:
    """A number in its range, or each of an array; symbols are in any."""
    for each in value.flat if isinstance(value, np.ndarray) else [value]:
        if not hasattr(each, "free_symbols"):
            as_number(each, name, least, most, **ends)


def accepted_per_proposed(alpha: Any, k: int) -> Any:
    """Expected acceptance rate of a whole run, (α + … + α^k) / k.

    Parameters
    ----------
    alpha : number or ndarray
        Conditional acceptance at every position, 0 ≤ α ≤ 1.
    k : int
        Draft length, k ≥ 1.

    Returns
    -------
    number or ndarray
        At most α, and falling with k though the draft is the same: tokens after a rejection are never
        tested. Report conditional acceptance beside it.

    Raises
    ------
    ValueError
        If k < 1.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> accepted_per_proposed(F(1, 2), 1), accepted_per_proposed(F(1, 2), 2)
    (Fraction(1, 2), Fraction(3, 8))
    """
    return (expected_tokens(alpha, as_draft_length(k)) - 1) / k


def speedup(tokens_per_step: Any, k: int, draft_cost: Any, verify_cost: Any = 1) -> Any:
    """Gain over one target pass a token, τ / (v + k · c).

    Should not be confused with `Trace.speedup`, which divides counts of one run and takes v = 1.

    Parameters
    ----------
    tokens_per_step : number or ndarray
        Block efficiency τ, measured or expected.
    k : int
        Draft length, k ≥ 0.
    draft_cost : number
        c ≥ 0, time of a draft pass ÷ time of a target pass over one position.
    verify_cost : number
        v(k + 1) > 0, time of a target pass over k + 1 positions ÷ over one. It is 1 when the pass is
        bound by reading weights; on many CPUs and in large batches it is not, so measure it.

    Returns
    -------
    number or ndarray
        Below 1 where speculation loses.

    Raises
    ------
    ValueError
        If draft_cost < 0 or verify_cost ≤ 0.

    References
    ----------
    Leviathan et al. (2023), Theorem 3.8, which is the case v = 1.

    Examples
    --------
    >>> round(speedup(3.84, k=4, draft_cost=0.1), 2)
    2.74
    >>> speedup(3.84, k=4, draft_cost=0.1, verify_cost=4) < 1
    True
    """
    _check(tokens_per_step, "tokens_per_step", 0)
    try:
        _check(draft_cost, "draft_cost", 0)
        _check(verify_cost, "verify_cost", 0, open_below=True)
    except ValueError:
        costs = f"draft_cost is {shown(draft_cost, str)} and verify_cost {shown(verify_cost, str)}"
        raise ValueError(f"{costs}; want ≥ 0 and > 0") from None
    return tokens_per_step / (verify_cost + as_count(k, "k", least=0) * draft_cost)


def best_k(
    alpha: Any, draft_cost: Any, longest: int = 64, verify_cost: Callable[[int], Any] = lambda n: 1
) -> int:
    """Draft length with the largest expected speedup under independent acceptance, 0 for no draft at all.

    Parameters
    ----------
    alpha : number
        0 ≤ α ≤ 1.
    draft_cost : number
        c ≥ 0.
    longest : int
        Largest k considered.
    verify_cost : callable
        n positions ↦ v(n), with v(1) = 1.

    Returns
    -------
    int
        The smallest of the best k in 0, …, longest.

    Raises
    ------
    ValueError
        If α is outside [0, 1].

    Examples
    --------
    >>> best_k(0.8, draft_cost=0.1), best_k(0.05, draft_cost=0.1)
    (6, 0)
    """
    as_number(alpha, "alpha", 0, 1)
    as_number(draft_cost, "draft_cost", 0)
    if not callable(verify_cost):
        raise ValueError(f"verify_cost is {shown(verify_cost)}; want a function of the number of positions")
    lengths = range(as_draft_length(longest, "longest", least=0) + 1)
    expected = accumulate(alpha**k for k in lengths)
    gains = [speedup(tokens, k, draft_cost, verify_cost(k + 1)) for k, tokens in zip(lengths, expected)]
    return max(lengths, key=gains.__getitem__)


def block_accepted(p: Row, q: Row, k: int) -> Any:
    """Expected number of drafted tokens the block rule accepts when every row is p, and every draft row q.

    Σ_{i=1..k} Σ_x q(x) · π_i(x) over blocks x of length i, where π_i = min(1, π_{i−1} · p/q).

    Parameters
    ----------
    p, q : array_like, shape (V,)
        In any arithmetic.
    k : int
        k ≥ 0.

    Returns
    -------
    number
        At least Σ_{i=1..k} αⁱ, which the token rule accepts; rational for rational rows.

    Guarantee
    ---------
    thm-block in chapter 8. Blocks with one π are counted together, so the work grows with the number of
    different values and not with Vᵏ.

    References
    ----------
    Sun et al. (2024).

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> block_accepted([F(1, 3), F(2, 3)], [F(2, 3), F(1, 3)], 2)
    Fraction(11, 9)
    """
    if not _symbolic(p) and not _symbolic(q):
        as_row(q, "q", len(as_row(p, "p")))
    kept, accepted = {1: 1}, 0
    for _ in range(as_draft_length(k, least=0)):
        longer: dict[Any, Any] = {}
        for pi, mass in kept.items():
            for x in range(len(q)):
                if q[x]:
                    at = acceptance(pi * p[x], q[x])
                    longer[at] = longer.get(at, 0) + mass * q[x]
        kept = longer
        accepted = accepted + sum(pi * mass for pi, mass in kept.items())
    return accepted


def markov_round(target_rows: Rows, draft_rows: Rows, k: int) -> tuple[np.ndarray, np.ndarray]:
    """One round of the token rule on two Markov tables, in any arithmetic.

    With A = overlap and E = excess of the tables, entry by entry, a round that starts after token s
    accepts Σ_{i=1..k} (Aⁱ 1)(s) drafted tokens in expectation and ends on token t with probability
    (Σ_{i<k} Aⁱ E + Aᵏ P)(s, t).

    Parameters
    ----------
    target_rows, draft_rows : array_like, shape (V, V)
        Tables of two Markov models: floats, Fractions, or symbols.
    k : int
        Draft length, k ≥ 1.

    Returns
    -------
    accepted : ndarray, shape (V,)
        Expected accepted tokens, by the token before the round.
    ends : ndarray, shape (V, V)
        Law of the last token of a round, by the token before it; rows sum to 1.

    Raises
    ------
    ValueError
        If k < 1.

    Guarantee
    ---------
    thm-markov-tokens in chapter 3; no independence is assumed.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> coin, bent = [[F(1, 2), F(1, 2)]] * 2, [[F(1, 4), F(3, 4)]] * 2
    >>> markov_round(coin, bent, k=2)[0]
    array([Fraction(21, 16), Fraction(21, 16)], dtype=object)
    """
    k, target_rows, draft_rows = as_draft_length(k), *_tables(target_rows, draft_rows)
    shared, over = overlap(target_rows, draft_rows), excess(target_rows, draft_rows)
    reached = [np.eye(len(target_rows), dtype=int)]  # reached[i][s, t]: i tokens accepted, now at t
    for _ in range(k):
        reached.append(np.dot(reached[-1], shared))
    accepted = np.sum(reached[1:], axis=0).sum(axis=1)  # (V,)
    return accepted, np.dot(np.sum(reached[:k], axis=0), over) + np.dot(reached[k], target_rows)


def _tables(target_rows: Any, draft_rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two square tables of one size; numbers are asked to be distributions, symbols are not."""
    size = as_count(len(as_list(target_rows, "target_rows", "rows")), "number of target_rows", least=1)
    if not _symbolic(target_rows) and not _symbolic(draft_rows):
        as_rows(target_rows, "target_rows", size, size)
        as_rows(draft_rows, "draft_rows", size, size)
    return np.asarray(target_rows), np.asarray(draft_rows)


def _symbolic(rows: Any) -> bool:
    if not isinstance(rows, np.ndarray):
        try:
            rows = np.asarray(rows, dtype=object)
        except ValueError:  # rows of different lengths
            return False
    return rows.dtype == object and any(hasattr(entry, "free_symbols") for entry in rows.flat)


def markov_tokens_per_step(target_rows: Rows, draft_rows: Rows, k: int) -> float:
    """Long-run tokens per target pass of the token rule on two Markov tables, from `markov_round`.

    Parameters
    ----------
    target_rows, draft_rows : array_like, shape (V, V)
    k : int
        Draft length, k ≥ 1.

    Returns
    -------
    float
        From 1 to k + 1: one more than the accepted tokens, averaged over the stationary law of the
        tokens on which rounds end.

    Raises
    ------
    ValueError
        If a row is not a distribution, the tables differ in size, or more than one long run is possible
        (the chain of round ends is reducible), so that no single answer exists.

    Guarantee
    ---------
    thm-markov-tokens in chapter 3, evaluated in float64.

    Examples
    --------
    >>> coin, bent = [[1/2, 1/2]] * 2, [[1/4, 3/4]] * 2  # overlap 3/4 after either token
    >>> round(markov_tokens_per_step(coin, bent, k=2), 12) == expected_tokens(3/4, 2)
    True
    """
    vocab_size = len(as_list(target_rows, "target_rows", "rows"))
    p = as_rows(target_rows, "target_rows", vocab_size, vocab_size).astype(float)
    q = as_rows(draft_rows, "draft_rows", vocab_size, vocab_size).astype(float)
    accepted, ends = markov_round(p, q, k)
    return float(1 + _stationary(ends) @ accepted)


def _stationary(transitions: np.ndarray) -> np.ndarray:
    """The one distribution π with π T = π."""
    size = len(transitions)
    system = np.vstack([transitions.T - np.eye(size), np.ones(size)])  # (V + 1, V)
    solution: np.ndarray
    solution, _, rank, _ = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0))
    if rank < size:
        raise ValueError(
            "the tables have more than one closed class of tokens; want a chain with one long run"
        )
    return solution

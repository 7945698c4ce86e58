"""Several candidates at one position: the target keeps one of m drafted tokens, or draws another.

A rule here extends the verifier's shape by turning it on its side. A verifier gets k tokens that follow one
another; these get m tokens for *one* position and one target row, and emit one token:

    rule(candidates, draft_dists, target_dist, rng) -> token

    candidates    m token ids, m ≥ 1
    draft_dists   m rows; row j is what candidate j was drawn from, given the candidates before it
    target_dist   one row
    token         distributed as target_dist; hopefully one of the candidates

`independent` and `distinct` draw candidates with the rows they were drawn from, so that a rule need not know
how they were drawn. If the emitted token is among the candidates, a tree of drafts goes on below it.

References: Miao et al. (2024); Sun, Suresh et al. (2023), SpecTr; Yang et al. (2024).
"""

from numbers import Rational
from typing import Any

import numpy as np
from scipy import optimize

from specdecode.checks import Row, Rows, TokenIds, as_draft_length, as_drafted, as_list, as_number, as_row
from specdecode.optimum import best_acceptance
from specdecode.rule import acceptance, divide, excess, overlap
from specdecode.sampling import Uniforms, inverse_cdf, uniform
from specdecode.verifiers import replacement

__all__ = ["best_acceptance", "distinct", "independent", "k_seq", "kept_by_k_seq", "recursive", "root"]


def independent(row: Row, m: int, rng: Uniforms) -> tuple[list[int], np.ndarray]:
    """m candidates drawn independently from one row, with replacement.

    Parameters
    ----------
    row : array_like, shape (V,)
    m : int
        m ≥ 1.
    rng : anything with random()
        One uniform a candidate.

    Returns
    -------
    (list of int, ndarray of shape (m, V))
        The candidates and their rows, all the same.

    Examples
    --------
    >>> tokens, rows = independent([0.5, 0.5], 2, np.random.default_rng(0))
    >>> tokens, rows.tolist()
    ([1, 0], [[0.5, 0.5], [0.5, 0.5]])
    """
    row = as_row(row, "row")
    tokens = [inverse_cdf(row, uniform(rng)) for _ in range(as_draft_length(m, "m"))]
    return tokens, np.stack([row] * m)


def distinct(row: Row, m: int, rng: Uniforms) -> tuple[list[int], np.ndarray]:
    """m different candidates, drawn from one row without replacement.

    Parameters
    ----------
    row : array_like, shape (V,)
    m : int
        m ≥ 1. Fewer come where the row has fewer tokens.
    rng : anything with random()
        One uniform a candidate.

    Returns
    -------
    (list of int, ndarray of shape (m, V))
        The candidates, and for each the row without those before it, renormalised.

    Examples
    --------
    >>> tokens, rows = distinct([0.5, 0.25, 0.25], 2, np.random.default_rng(0))
    >>> tokens, rows.round(3).tolist()
    ([1, 0], [[0.5, 0.25, 0.25], [0.667, 0.0, 0.333]])
    """
    row = as_row(row, "row")
    tokens: list[int] = []
    rows: list[np.ndarray] = []
    for _ in range(min(as_draft_length(m, "m"), int((row != 0).sum()))):
        rest = np.where(np.isin(np.arange(len(row)), tokens), 0 * row, row)
        rows.append(divide(rest, rest.sum()))
        tokens.append(inverse_cdf(rows[-1], uniform(rng)))
    return tokens, np.stack(rows)


def recursive(candidates: TokenIds, draft_dists: Rows, target_dist: Row, rng: Uniforms) -> int:
    """Recursive rejection: the token rule on one candidate after another, each against what is left of p.

    With r_1 = p, candidate j is kept with min(1, r_j/q_j); otherwise r_{j+1} is the residual of r_j and q_j.
    If none is kept the token is drawn from the last residual.

    Parameters
    ----------
    candidates : sequence of int, length m
        m ≥ 1. Candidate j was drawn from draft_dists[j], given those before it.
    draft_dists : sequence of rows, shape (m, V)
    target_dist : row, shape (V,)
    rng : numpy.random.Generator, or anything with random()
        One uniform for each tested candidate, and one more if none is kept.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If a row is not a distribution, or a candidate is outside the vocabulary or has q = 0.

    Guarantee
    ---------
    The token has the law of target_dist, drawn with or without replacement, by thm-one-token of chapter 2
    once a candidate.

    References
    ----------
    Miao et al. (2024), multi-step speculative sampling; Yang et al. (2024) without replacement.

    Examples
    --------
    >>> p, q = [0.5, 0.3, 0.2], [0.1, 0.6, 0.3]
    >>> recursive([1, 0], [q, q], p, np.random.default_rng(0))
    0
    """
    left = as_row(target_dist, "target_dist")
    candidates, draft_dists = _check(candidates, draft_dists)
    for j, candidate in enumerate(candidates):
        q = as_row(draft_dists[j], f"draft_dists[{j}]", len(left))
        x = as_drafted(candidate, q, f"candidates[{j}]")
        if uniform(rng) < acceptance(left[x], q[x]):
            return x
        left = replacement(left, q)
    return inverse_cdf(left, uniform(rng))


def kept_by_k_seq(p: Row, q: Row, m: int, rho: Any) -> tuple[Any, Any]:
    """(β, 1 − (1 − β)ᵐ): the acceptance of one candidate at ρ, Σ min(p/ρ, q), and that of m.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> kept_by_k_seq([F(1, 3), F(2, 3)], [F(2, 3), F(1, 3)], 2, 1)
    (Fraction(2, 3), Fraction(8, 9))
    """
    as_number(rho, "rho", 0, open_below=True)
    one = np.sum(overlap(divide(p, rho), q))
    return one, one * _tries(one, as_draft_length(m, "m"))


def _tries(one: Any, m: int) -> Any:
    """Expected number of candidates tested, Σ_{i<m} (1 − β)ⁱ = (1 − (1 − β)ᵐ) / β; no difference is taken of
    numbers that are nearly equal, and β may be 0.
    """
    return sum((1 - one) ** i for i in range(m))


def root(p: Row, q: Row, m: int) -> float:
    """The ρ of k-SEQ: the least in [1, m] at which what m candidates keep does not exceed ρ · β.

    Parameters
    ----------
    p, q : array_like, shape (V,)
    m : int

    Returns
    -------
    float
        The root of Σ_{i<m} (1 − β(ρ))ⁱ = ρ, which is 1 − (1 − β(ρ))ᵐ = ρ · β(ρ). Below it a residual would be
        negative, so a rational ρ is rounded up.

    Examples
    --------
    >>> round(root([1/3, 2/3], [2/3, 1/3], 2), 6)
    1.434259
    """
    p = as_row(p, "p").astype(float)
    q = as_row(q, "q", len(p)).astype(float)
    as_draft_length(m, "m")

    def surplus(rho: float) -> float:
        one, _ = kept_by_k_seq(p, q, m, rho)
        return float(_tries(one, m) - rho)

    return 1.0 if surplus(1.0) <= 0 else float(optimize.brentq(surplus, 1.0, m, xtol=1e-15))


def k_seq(
    candidates: TokenIds,
    draft_dists: Rows,
    target_dist: Row,
    rng: Uniforms,
    *,
    rho: Any = None,
) -> int:
    """k-SEQ: every candidate gets the same coin, min(1, p / (ρ · q)).

    Parameters
    ----------
    candidates : sequence of int, length m
        m ≥ 1, drawn independently from one row.
    draft_dists : sequence of rows, shape (m, V)
        All the same row.
    target_dist : row, shape (V,)
    rng : numpy.random.Generator, or anything with random()
        One uniform for each tested candidate, and one more if none is kept.
    rho : number, optional
        ρ ≥ `root`; the root, a little more than itself, if left out.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        As `recursive`; if the rows differ; or if ρ lies below the root, where p would not be reached.

    Guarantee
    ---------
    The token has the law of target_dist. It keeps at least 1 − 1/e of what the best rule keeps.

    References
    ----------
    Sun, Suresh et al. (2023), SpecTr, Algorithm 2.

    Examples
    --------
    >>> p, q = [0.5, 0.3, 0.2], [0.1, 0.6, 0.3]
    >>> k_seq([1, 0], [q, q], p, np.random.default_rng(0))
    0
    """
    p = as_row(target_dist, "target_dist")
    candidates, draft_dists = _check(candidates, draft_dists)
    q = as_row(draft_dists[0], "draft_dists[0]", len(p))
    if not all(np.array_equal(as_row(row, "draft_dists"), q) for row in draft_dists):
        raise ValueError("draft_dists differ; want candidates drawn independently from one row")
    m = len(candidates)
    rho = root(p, q, m) * (1 + 1e-12) if rho is None else as_number(rho, "rho", 0, open_below=True)
    one, _ = kept_by_k_seq(p, q, m, rho)
    emitted = overlap(divide(p, rho), q) * _tries(one, m)  # by candidates, token by token
    # At the root the two are equal at some tokens: floats may differ by as much as they were rounded.
    rational = emitted.dtype == object and isinstance(rho, Rational)
    rounding = 0 if rational else m * 2.0**-50
    if (emitted - p > rounding).any():
        raise ValueError(f"rho is {rho}; want at least the root, {root(p, q, m):.6f}, or p is not reached")
    left = excess(p, emitted)
    for j, candidate in enumerate(candidates):
        x = as_drafted(candidate, q, f"candidates[{j}]")
        if uniform(rng) < acceptance(p[x], rho * q[x]):
            return x
    return inverse_cdf(divide(left, left.sum()) if (left != 0).any() else p, uniform(rng))


def _check(candidates: TokenIds, draft_dists: Rows) -> tuple[list[int], list[Any]]:
    given, rows = as_list(candidates, "candidates"), as_list(draft_dists, "draft_dists", "rows")
    if len(given) < 1 or len(given) != len(rows):
        raise ValueError(
            f"{len(given)} candidates and {len(rows)} draft rows; want one row for each candidate"
        )
    return given, rows

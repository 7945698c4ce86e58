"""The best any exact rule can do, as a linear program: the yardstick for the rules that run.

A rule for a block sees the drafted path and decides how much of it to accept and which token to add; the rest
of the text is sampled from the target. Over all such rules, whatever they know of rows off the drafted path,
the expected number of accepted tokens is linear in the rule, and exactness is a set of linear equations
(def-program in chapter 10). The same holds for a rule that sees m candidates for one token. Small cases only:
there are Vᵏ drafted paths, and Vᵐ tuples of candidates.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy import optimize, sparse

from specdecode.checks import Row, TokenIds, as_draft_length, as_row, as_tokens, shown
from specdecode.models import Model, as_model, next_rows

__all__ = ["best_acceptance", "best_block"]

_LARGEST = 200_000  # unknowns


def best_block(target: Model, draft: Model, prefix: TokenIds, k: int) -> float:
    """The largest expected number of drafted tokens that an exact rule can accept in a round of k.

    Parameters
    ----------
    target, draft : Model
        Of one small vocabulary.
    prefix : sequence of int
    k : int
        k ≥ 1.

    Returns
    -------
    float
        In [0, k], to the tolerance of the solver, about 1e-9.

    Raises
    ------
    ValueError
        If the program has more than 200 000 unknowns, or a row is not a distribution.

    Guarantee
    ---------
    No rule that emits an accepted beginning of the draft and one more token, and leaves the rest to the
    target, accepts more and has the target's law. A coupling of whole blocks can agree with the draft more
    often, but is no such rule: it would go on copying the draft after a token that differs.

    References
    ----------
    Sun et al. (2024) for the optimality of block verification.

    Examples
    --------
    >>> from specdecode.models import MarkovModel
    >>> target, draft = (MarkovModel([row] * 2) for row in ([1/3, 2/3], [2/3, 1/3]))
    >>> round(best_block(target, draft, [0], 2), 6)
    1.222222
    """
    size, k = as_model(target, "target").vocab_size, as_draft_length(k)
    if as_model(draft, "draft").vocab_size != size:
        raise ValueError(f"draft has V = {draft.vocab_size} and target V = {size}; want one vocabulary")
    prefix = as_tokens(prefix, "prefix", size)
    if max(size, 2) ** k * (k + 1) * size > _LARGEST:
        raise ValueError(f"V = {size} and k = {k} make more than {_LARGEST} unknowns; want fewer tokens")
    mass_p = {
        text: _mass(target, prefix, text) for n in range(k + 2) for text in product(range(size), repeat=n)
    }
    paths = list(product(range(size), repeat=k))
    texts = {text: i for i, text in enumerate(product(range(size), repeat=k + 1))}
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    gains: list[float] = []
    for number, (path, length, extra) in enumerate(product(paths, range(k + 1), range(size))):
        # The unknown is the joint probability of the path, of how much is accepted, and of the token added.
        rows.append(number // ((k + 1) * size))
        columns.append(number)
        values.append(1.0)
        emitted = (*path[:length], extra)
        for rest in product(range(size), repeat=k - length):
            after = mass_p[*emitted, *rest] / mass_p[emitted] if mass_p[emitted] else 0.0
            if after:
                rows.append(len(paths) + texts[*emitted, *rest])
                columns.append(number)
                values.append(after)
        gains.append(1.0 * length if mass_p[emitted] else 0.0)
    right = [_mass(draft, prefix, path) for path in paths] + [mass_p[text] for text in texts]
    constraints = sparse.csr_array((values, (rows, columns)), shape=(len(right), len(gains)))
    upper = [
        None if mass_p[(*path[:length], extra)] else 0.0
        for path, length, extra in product(paths, range(k + 1), range(size))
    ]  # what the target forbids is never emitted
    return _most(gains, constraints, right, [(0, most) for most in upper])


def _mass(model: Model, prefix: TokenIds, text: TokenIds) -> float:
    """Probability that the model goes on with this text."""
    if not text:
        return 1.0
    rows = next_rows(model, [*prefix, *text[:-1]], len(text))
    return float(np.prod([float(row[token]) for row, token in zip(rows, text)]))


def best_acceptance(p: Row, q: Row, m: int, *, replace: bool = True) -> float:
    """The largest probability with which any exact rule can emit one of m candidates.

    The linear program over all joint laws of (candidates, token) with the right margins.

    Parameters
    ----------
    p, q : array_like, shape (V,)
        Small: there are Vᵐ tuples of candidates.
    m : int
    replace : bool
        Candidates drawn with replacement, or without.

    Returns
    -------
    float

    Guarantee
    ---------
    Equal to the least over sets H of tokens of p(H) + 1 − P(all candidates in H), up to the solver's
    tolerance.

    References
    ----------
    Sun, Suresh et al. (2023), SpecTr, section 4.

    Examples
    --------
    >>> round(best_acceptance([1/3, 2/3], [2/3, 1/3], 1), 9)
    0.666666667
    """
    p = as_row(p, "p").astype(float)
    q = as_row(q, "q", len(p)).astype(float)
    size, m = len(p), as_draft_length(m, "m")
    if max(size, 2) ** (m + 1) > _LARGEST:
        unknowns = shown(size ** (m + 1))
        raise ValueError(f"V = {size} and m = {m} make {unknowns} unknowns; want at most {_LARGEST}")
    if not replace and m > np.count_nonzero(q):
        raise ValueError(f"m is {m}; want at most {np.count_nonzero(q)}, the tokens that q can draw")
    tuples = _laws(q, m, replace)
    kept = np.array([[token in drafted for token in range(size)] for drafted in tuples], dtype=float)
    each, one = sparse.eye_array(len(tuples)), sparse.eye_array(size)
    margins = sparse.kron(each, np.ones((1, size))), sparse.kron(np.ones((1, len(tuples))), one)
    constraints = sparse.vstack(margins)
    return _most(kept.ravel(), constraints, [*tuples.values(), *p], (0, None))


def _laws(q: np.ndarray, m: int, replace: bool) -> dict[tuple[int, ...], float]:
    """Each tuple of candidates with its probability."""
    laws = {}
    for drafted in product(range(len(q)), repeat=m):
        mass, left = 1.0, 1.0
        for i, token in enumerate(drafted):
            mass *= 0 if (not replace and token in drafted[:i]) or left <= 0 else q[token] / left
            left -= 0 if replace else q[token]
        if mass > 0:
            laws[drafted] = mass
    total = sum(laws.values())
    return {drafted: mass / total for drafted, mass in laws.items()}


def _most(
    gains: Sequence[float] | np.ndarray, constraints: Any, right: Sequence[float], bounds: Any
) -> float:
    """The largest gain of unknowns within bounds that meet the constraints."""
    found = optimize.linprog(-np.asarray(gains), A_eq=constraints, b_eq=right, bounds=bounds, method="highs")
    if not found.success:
        raise ValueError(f"the linear program was not solved: {found.message}")
    return float(-found.fun)

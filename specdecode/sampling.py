"""From a row to a token, and from a row to another row.

`draw` is the only place where randomness becomes a token. The other functions map a row to a row, so
that whatever shapes a distribution is applied before both the draw and the test.
"""

from typing import Any, Protocol

import numpy as np

from specdecode.checks import Rows, as_row

__all__ = ["draw", "temperature"]


class Uniforms(Protocol):
    """Anything with random(), as `numpy.random.Generator` has it."""

    def random(self) -> Any: ...


def draw(row: Rows, u: Any) -> int:
    """Token drawn from a row with one uniform, min{x : F(x) > u}, F the cumulative sum of the row.

    Parameters
    ----------
    row : array_like, shape (V,)
        A distribution, float or rational.
    u : number
        One uniform, 0 ≤ u < 1.

    Returns
    -------
    int
        A token with row[token] > 0, for every u in range, 0 and 1 − 2⁻⁵³ included.

    Raises
    ------
    ValueError
        If `row` is not a distribution or `u` is out of range.

    Guarantee
    ---------
    The token `Generator.choice(V, p=row)` gives for the same uniform. The cumulative sum is divided
    by its own last entry, so rounding can neither run past the end nor wake a token of probability 0.

    Examples
    --------
    >>> [draw([0.25, 0.0, 0.75], u) for u in (0.0, 0.25, 1 - 2**-53)]
    [0, 2, 2]
    """
    row = as_row(row, "row")
    if not 0 <= u < 1:
        raise ValueError(f"u is {u}; want a uniform, 0 ≤ u < 1")
    cumulative = np.cumsum(row)
    return int(np.searchsorted(cumulative / cumulative[-1], u, side="right"))


def temperature(row: Rows, t: float | None) -> np.ndarray:
    """The row at temperature t, proportional to row^(1/t).

    Parameters
    ----------
    row : array_like, shape (V,)
        A distribution.
    t : float or None
        t ≥ 0. None and 1 leave the row as it is; 0 puts all mass on its largest entry.

    Returns
    -------
    ndarray, shape (V,)
        A distribution with no more support than `row`; ties at t = 0 go to the lowest index. Rational
        rows stay rational at t = 0, 1 and None, and become float64 otherwise.

    Raises
    ------
    ValueError
        If `row` is not a distribution, or t is negative or not a finite number.

    Guarantee
    ---------
    Computed in logarithms from the largest entry down, so t = 1e-300 and t = 1e300 give finite rows.

    Examples
    --------
    >>> temperature([0.5, 0.25, 0.25], 0.5).round(3)
    array([0.667, 0.167, 0.167])
    >>> temperature([0.4, 0.4, 0.2], 0)
    array([1., 0., 0.])
    """
    row = as_row(row, "row")
    if t is None or t == 1:
        return row
    if not 0 <= t < float("inf"):
        raise ValueError(f"temperature is {t}; want a finite number, 0 or more")
    if t == 0:
        return (np.arange(len(row)) == np.argmax(row)).astype(int).astype(row.dtype)
    with np.errstate(divide="ignore", over="ignore"):  # log 0 = −∞ stays impossible at every t
        logits = np.log(row.astype(float))
        weights = np.exp((logits - logits.max()) / t)
    return weights / weights.sum()

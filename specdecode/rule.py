"""The accept/reject rule, written once for every arithmetic.

A drafted token is kept with probability min(1, p/q) and otherwise replaced by a draw from the
normalised excess of p over q (Leviathan et al. 2023, Algorithm 1; Chen et al. 2023, Algorithm 2).
Every quantity here is plain arithmetic on one primitive, `overlap`, the smaller of two rows. So the
same lines sample when fed floats, give exact laws when fed `Fraction`s, and are the theorem itself
when fed SymPy symbols (thm-one-token in chapter 2).

All functions take two rows of equal shape, or two single entries, and never write to them. They
do arithmetic only: whether a row is a distribution is asked once, where it enters (`specdecode.checks`).
A NaN that goes in comes out, and is so found by whoever compares; `residual` alone refuses it, since a token
is drawn from what it returns.
"""

from fractions import Fraction
from numbers import Number
from typing import Any

import numpy as np

from specdecode.checks import shown

__all__ = ["acceptance", "divide", "excess", "overlap", "residual", "total_variation"]


def overlap(p: Any, q: Any) -> Any:
    """Mass that target and draft share at each token, min(p, q).

    Parameters
    ----------
    p, q : array_like, shape (V,), or scalars
        Target and draft probabilities: floats, `Fraction`s, or SymPy expressions.

    Returns
    -------
    ndarray, shape (V,), or scalar
        0 ≤ overlap ≤ p and overlap ≤ q. Symbols whose order is unknown give SymPy's `Min`, left standing.

    Guarantee
    ---------
    Σ overlap = 1 − TV(p, q) for distributions (def-overlap in chapter 2).

    References
    ----------
    Leviathan et al. (2023), Lemma 3.3.

    Examples
    --------
    >>> overlap([0.5, 0.3, 0.2], [0.1, 0.6, 0.3])
    array([0.1, 0.3, 0.2])
    """
    try:
        return np.minimum(p, q)
    except TypeError:  # the order of two symbols has no truth value, so NumPy cannot choose
        for name, entries in (("p", p), ("q", q)):
            if not all(isinstance(e, Number) or hasattr(e, "free_symbols") for e in np.ravel(entries)):
                raise TypeError(f"{name} is {shown(entries)}; want numbers or SymPy expressions") from None
        from sympy import Min

        return np.frompyfunc(Min, 2, 1)(p, q)


def excess(p: Any, q: Any) -> Any:
    """What the target has over the draft at each token, p − overlap = (p − q)⁺.

    Parameters
    ----------
    p, q : array_like, shape (V,), or scalars
        Target and draft probabilities, in any arithmetic.

    Returns
    -------
    ndarray, shape (V,), or scalar
        Non-negative. In floats equal to max(p − q, 0) bit for bit.

    Guarantee
    ---------
    Σ excess = TV(p, q) for distributions (thm-rejection-mass in chapter 2).

    References
    ----------
    Leviathan et al. (2023), section 2.3.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> excess([F(1, 2), F(1, 2)], [F(1, 3), F(2, 3)])
    array([Fraction(1, 6), Fraction(0, 1)], dtype=object)
    """
    return np.subtract(p, overlap(p, q))


def acceptance(p: Any, q: Any) -> Any:
    """Probability that a drafted token is kept, overlap ÷ q = min(1, p/q); 1 where q = 0.

    Parameters
    ----------
    p, q : array_like, shape (V,), or scalars
        Target and draft probabilities, in any arithmetic.

    Returns
    -------
    ndarray, shape (V,), or scalar
        In [0, 1]. In floats equal to min(1, p/q) bit for bit. A token with q = 0 is never drafted;
        the value 1 there is a convention that keeps q · acceptance = overlap true.

    Guarantee
    ---------
    q · acceptance = overlap, so drafting from q and keeping with this probability emits the overlap
    (thm-one-token in chapter 2).

    References
    ----------
    Leviathan et al. (2023), section 2.3; Chen et al. (2023), Algorithm 2.

    Examples
    --------
    >>> acceptance([0.6, 0.2, 0.5], [0.3, 0.8, 0.0])
    array([1.  , 0.25, 1.  ])
    """
    shared = overlap(p, q)
    undraftable = np.equal(q, 0).astype(int)  # turns 0/0 into 1/1 and changes nothing elsewhere
    return divide(np.add(shared, undraftable), np.add(q, undraftable))


def residual(p: Any, q: Any) -> np.ndarray:
    """Distribution of the replacement after a rejection, excess ÷ Σ excess.

    Parameters
    ----------
    p, q : array_like, shape (V,)
        Target and draft rows, in any arithmetic.

    Returns
    -------
    ndarray, shape (V,)
        Non-negative, sums to 1, and 0 wherever p ≤ q: a rejected token is never its own replacement.

    Raises
    ------
    ValueError
        If no entry of p exceeds q. Equal distributions are never rejected, so nothing is left to draw.
        Also if Σ excess is no finite number.

    Guarantee
    ---------
    rejection mass · residual = p − overlap, the part of p that acceptance did not emit
    (thm-one-token in chapter 2).

    References
    ----------
    Leviathan et al. (2023), section 2.3; Chen et al. (2023), Theorem 1.

    Examples
    --------
    >>> residual([0.5, 0.3, 0.2], [0.1, 0.6, 0.3])
    array([1., 0., 0.])
    """
    over = excess(p, q)
    total = np.sum(over)
    with np.errstate(invalid="ignore"):
        finite = total - total == 0  # ∞ − ∞ is not, NaN − NaN is not
    if not finite:
        raise ValueError(f"Σ (p − q)⁺ is {total}; want p and q of finite numbers")
    if total == 0:
        raise ValueError("no entry of p exceeds q, so a rejection leaves nothing to draw from")
    row: np.ndarray = divide(over, total)
    return row


def total_variation(p: Any, q: Any) -> Any:
    """Total variation distance of two distributions, Σ (p − q)⁺.

    Parameters
    ----------
    p, q : array_like, shape (V,)
        Two rows, in any arithmetic.

    Returns
    -------
    scalar
        In [0, 1] for distributions; 0 if and only if they are equal. NaN where an entry is NaN.

    Guarantee
    ---------
    Equal to the probability that a drafted token is rejected (thm-rejection-mass in chapter 2).

    References
    ----------
    Leviathan et al. (2023), Definition 3.2 and Theorem 3.5; Levin and Peres (2017), section 4.1.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> total_variation([F(1, 3), F(2, 3)], [F(2, 3), F(1, 3)])
    Fraction(1, 3)
    """
    return excess(p, q).sum()


def divide(part: Any, whole: Any) -> Any:
    """part ÷ whole; among Fractions an int stays exact, where Python would make a float of int ÷ int.

    Examples
    --------
    >>> divide(np.array([1, 0], dtype=object), 2)
    array([Fraction(1, 2), Fraction(0, 1)], dtype=object)
    """
    part = np.asanyarray(part)
    return np.divide(part * Fraction(1) if part.dtype == object else part, whole)

"""The statistical test for what cannot be enumerated: its p-value, and what it would have seen.

A G-test compares the counts of sampled texts with a law. Its level is far out in the tail, where Pearson's
statistic with the customary five counts a bin raises many times too many alarms; so rare outcomes are
merged until each bin expects fifty.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import optimize, stats

__all__ = ["g_test", "resolution"]

_MERGE = 50  # expected count of a bin


def g_test(counts: Mapping[Any, int], reference: Mapping[Any, Any]) -> tuple[float, int]:
    """Likelihood-ratio test of observed counts against a law, with rare outcomes merged.

    Parameters
    ----------
    counts : mapping
        Outcome -> how often it was seen.
    reference : mapping
        Outcome -> its probability.

    Returns
    -------
    (float, int)
        The p-value, and the degrees of freedom. The p-value is 0 if an impossible outcome was seen.

    Guarantee
    ---------
    Bins are merged until each expects 50 counts; below that the chi-square approximation is unsound far
    out in the tail, where an alpha of 1e-6 lies.

    Examples
    --------
    >>> g_test({0: 480, 1: 520}, {0: 0.5, 1: 0.5})[0] > 0.1
    True
    """
    if any(outcome not in reference for outcome in counts):
        return 0.0, 0
    n = sum(counts.values())
    bins, observed, expected = [], 0, 0.0
    for outcome in sorted(reference, key=reference.get):
        observed, expected = observed + counts.get(outcome, 0), expected + n * float(reference[outcome])
        if expected >= _MERGE:
            bins.append((observed, expected))
            observed, expected = 0, 0.0
    if expected and bins:
        bins[-1] = (bins[-1][0] + observed, bins[-1][1] + expected)
    degrees = max(len(bins) - 1, 0)
    if degrees == 0:
        return 1.0, 0
    statistic = 2 * sum(o * np.log(o / e) for o, e in bins if o)
    return float(stats.chi2.sf(statistic, degrees)), degrees


def resolution(n: int, degrees: int, alpha: float, power: float = 0.99) -> float:
    """Smallest total variation that the G-test sees with the given power.

    Parameters
    ----------
    n : int
        Number of texts.
    degrees : int
        Degrees of freedom.
    alpha : float
        Level of the test.
    power : float

    Returns
    -------
    float
        In (0, 1]; for every alternative with this distance between the merged bins.

    Guarantee
    ---------
    By Pinsker's inequality a distance d has divergence at least 2 d², so a noncentrality of at least
    4 n d². The power is that of the noncentral chi-square approximation.

    References
    ----------
    Cover and Thomas (2006), lemma 11.6.1.

    Examples
    --------
    >>> round(resolution(233_000, 26, alpha=1e-6), 3)
    0.01
    """
    if degrees == 0:
        return 1.0
    critical = stats.chi2.isf(alpha, degrees)
    needed = optimize.brentq(lambda c: stats.ncx2.sf(critical, degrees, c) - power, 1e-6, 1e5)
    return float(min(1.0, np.sqrt(needed / (4 * n))))

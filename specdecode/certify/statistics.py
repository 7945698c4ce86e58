"""The statistical tests for what cannot be enumerated: their p-values, and what they would have seen.

A G-test compares the counts of sampled texts with a law, or with those of another sample. Its level is far
out in the tail, where Pearson's statistic with the customary five counts a bin raises many times too many
alarms; so rare outcomes are merged until each bin expects fifty. Where that leaves a single bin, one half of
the texts says which outcomes to look at, and the other half is tested for them exactly.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
from scipy import special  # scipy.stats would give the same, and takes a second to import

__all__ = ["g_test", "resolution", "two_sample_test"]

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
    bins: list[tuple[int, float]] = []
    observed, expected = 0, 0.0
    for outcome in sorted(reference, key=lambda o: reference[o]):
        observed, expected = observed + counts.get(outcome, 0), expected + n * float(reference[outcome])
        if expected >= _MERGE:
            bins.append((observed, expected))
            observed, expected = 0, 0.0
    if expected and bins:
        bins[-1] = (bins[-1][0] + observed, bins[-1][1] + expected)
    degrees = max(len(bins) - 1, 0)
    if degrees == 0:
        return _by_an_event(counts, reference), 0
    statistic = 2 * sum(o * np.log(o / e) for o, e in bins if o)
    return _p_value(statistic, degrees), degrees


def two_sample_test(counts_a: Mapping[Any, int], counts_b: Mapping[Any, int]) -> tuple[float, int]:
    """Likelihood-ratio test of whether two samples come from one law, with rare outcomes merged.

    Parameters
    ----------
    counts_a, counts_b : mapping
        Outcome -> how often it was seen.

    Returns
    -------
    (float, int)
        The p-value, and the degrees of freedom; (1.0, 0) if too few were seen to tell two bins apart.

    Guarantee
    ---------
    Bins are made from the pooled counts alone, so that they favour neither sample, and are merged until the
    smaller sample expects 50 in each.

    Examples
    --------
    >>> two_sample_test({0: 480, 1: 520}, {0: 500, 1: 500})[0] > 0.1
    True
    """
    n_a, n_b = sum(counts_a.values()), sum(counts_b.values())
    pooled = {o: counts_a.get(o, 0) + counts_b.get(o, 0) for o in {*counts_a, *counts_b}}
    bins, open_bin = [], np.zeros(2, dtype=int)
    for outcome in sorted(pooled, key=lambda o: (pooled[o], repr(o))):
        open_bin += counts_a.get(outcome, 0), counts_b.get(outcome, 0)
        if open_bin.sum() * min(n_a, n_b) >= _MERGE * (n_a + n_b):
            bins.append(open_bin.copy())
            open_bin[:] = 0
    if open_bin.any() and bins:
        bins[-1] += open_bin
    if len(bins) < 2:
        return _by_a_shared_event(counts_a, counts_b), 0
    observed = np.array(bins, dtype=float)
    expected = np.outer(observed.sum(axis=1), observed.sum(axis=0)) / observed.sum()
    return _p_value(2 * special.xlogy(observed, observed / expected).sum(), len(bins) - 1), len(bins) - 1


def _p_value(statistic: float, degrees: int) -> float:
    """Probability that a chi-square variable is larger."""
    return float(special.chdtrc(degrees, statistic))


def _by_an_event(counts: Mapping[Any, int], reference: Mapping[Any, Any]) -> float:
    """Exact p-value of how often half of the texts fall where the other half found too many."""
    first, second = _halves(counts)
    n = sum(first.values())
    event = [o for o in first if first[o] > n * float(reference.get(o, 0))]
    chance = min(1.0, sum(float(reference.get(o, 0)) for o in event))
    hits, n = sum(second.get(o, 0) for o in event), sum(second.values())
    return float(special.bdtrc(hits - 1, n, chance)) if hits else 1.0


def _by_a_shared_event(counts_a: Mapping[Any, int], counts_b: Mapping[Any, int]) -> float:
    """As `_by_an_event`, for two samples: by Fisher's exact test, both ways."""
    if not sum(counts_a.values()) or not sum(counts_b.values()):
        return 1.0
    (first_a, second_a), (first_b, second_b) = _halves(counts_a), _halves(counts_b)
    n_a, n_b = max(1, sum(first_a.values())), max(1, sum(first_b.values()))
    event = {o for o in first_a if first_a[o] * n_b > first_b.get(o, 0) * n_a}
    hits_a, hits_b = (sum(half.get(o, 0) for o in event) for half in (second_a, second_b))
    n_a, n_b = sum(second_a.values()), sum(second_b.values())
    hits = hits_a + hits_b
    ways = sum(comb(n_a, x) * comb(n_b, hits - x) for x in range(hits_a, min(n_a, hits) + 1))
    return float(Fraction(ways, comb(n_a + n_b, hits))) if hits else 1.0


def _halves(counts: Mapping[Any, int]) -> tuple[dict[Any, int], dict[Any, int]]:
    """The texts behind some counts, shared out between two halves at random; the same for the same counts."""
    outcomes = sorted(counts, key=repr)
    numbers = [counts[o] for o in outcomes]
    rng = np.random.default_rng(0)
    half: Any = (
        rng.multivariate_hypergeometric(numbers, sum(numbers) // 2, method="marginals") if numbers else []
    )
    first = {o: int(x) for o, x in zip(outcomes, half)}
    return first, {o: counts[o] - first[o] for o in outcomes}


def resolution(n: float, degrees: int, alpha: float, power: float = 0.99) -> float:
    """Smallest total variation that the G-test sees with the given power.

    Parameters
    ----------
    n : float
        Number of texts; of two samples of n and m, n · m / (n + m).
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
    4 n d²; for two samples, each against their mixture, the same with n · m / (n + m) for n. The power is
    that of the noncentral chi-square approximation.

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
    critical = special.chdtri(degrees, alpha)
    needed = special.chndtrinc(critical, degrees, 1 - power)  # the noncentrality that exceeds it so often
    return float(min(1.0, np.sqrt(needed / (4 * n))))

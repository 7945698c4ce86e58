"""Do two programs have the same law? A certificate that needs no reference.

Speculation is a promise about two runs: with it and without it, the same distribution. So the strongest
question to ask of an engine needs no model of the target, only both programs: enumerate each
(`specdecode.exact`) and compare. What cannot be enumerated is sampled from both, and the answer says so,
and why. Two servers can only be sampled (`specdecode.adapters.servers`).
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from specdecode.certify.certificate import as_float
from specdecode.certify.statistics import resolution, two_sample_test
from specdecode.certify.trial import name_of
from specdecode.checks import as_count, as_level, as_number
from specdecode.exact import (
    Comparison,
    Fault,
    Inexact,
    Law,
    LazyRandom,
    NotReproducible,
    TooLarge,
    compare,
    outcome_of,
)

__all__ = ["Sameness", "Sample", "compare_samples", "same_law"]


@dataclass(frozen=True)
class Sample:
    """Two samples that were compared.

    Attributes
    ----------
    label : str
        What was sampled: a prompt, for a server.
    draws : (int, int)
        Texts drawn from each.
    outcomes : int
        Different ones seen.
    p_value : float
        Of the two-sample G-test.
    passed : bool
    """

    label: str
    draws: tuple[int, int]
    outcomes: int
    p_value: float
    passed: bool


@dataclass(frozen=True)
class Sameness:
    """The answer to "have these two the same law?", with its evidence.

    Attributes
    ----------
    subjects : (str, str)
    verdict : str
        "equal", "not equal", or "no difference found" (sampled).
    method : str
        "enumerated" or "sampled".
    tolerance : float or None
        Largest total variation that counts as equal, when enumerated.
    total_variation : Fraction or float or None
        When enumerated, the distance. When sampled, None, or for "not equal" that between the two
        samples, which noise makes larger.
    worst : (outcome, number, number) or None
        The outcome whose probabilities differ most, and what they are.
    paths : (int, int) or None
        Paths followed, when enumerated.
    samples : tuple of Sample
        When sampled.
    resolution : float or None
        When sampled: the smallest distance that would have been seen with probability 0.99, between outcomes
        common enough to be told apart.
    alpha : float
        When sampled: the probability of telling two equal laws apart.
    reason : str or None
        Why it was sampled.
    notes : tuple of str
    """

    subjects: tuple[str, str]
    verdict: str
    method: str
    tolerance: float | None
    total_variation: Fraction | float | None
    worst: tuple[Any, Fraction | float, Fraction | float] | None
    paths: tuple[int | None, int | None] | None
    samples: tuple[Sample, ...]
    resolution: float | None
    alpha: float
    reason: str | None
    notes: tuple[str, ...]

    @property
    def has_power(self) -> bool:
        """Whether a difference could have been seen: where nothing could differ, nothing has passed."""
        return self.method == "enumerated" or (self.resolution is not None and self.resolution < 1)

    @property
    def equal(self) -> bool:
        """Whether the verdict is "equal", which sampling never says."""
        return self.verdict == "equal"

    def require_equal(self) -> "Sameness":
        """Return the answer if its verdict is "equal"; raise AssertionError with the evidence if not."""
        if not self.equal:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        a, b = self.subjects
        lines = [f"{a} and {b}: {self.verdict}"]
        apart = as_float(self.total_variation)
        if self.paths is not None:
            lines.append(
                f"  enumerated: {self.paths[0]} and {self.paths[1]} paths; total variation "
                f"{apart:.2g}, allowed {self.tolerance:g}"
            )
        elif apart is not None:
            lines.append(f"  total variation of the samples {apart:.2g}")
        if self.verdict == "not equal" and self.worst is not None:
            outcome, first, second = self.worst
            lines.append(f"  differs most at {outcome}: {float(first):.6g} against {float(second):.6g}")
        if self.reason:
            lines.append(f"  sampled, because {self.reason}")
        if self.samples:
            draws = " and ".join(str(sum(sample.draws[i] for sample in self.samples)) for i in (0, 1))
            smallest = min(sample.p_value for sample in self.samples)
            lines.append(f"  {draws} texts, smallest p-value {smallest:.2g}, alpha {self.alpha:g}")
            if not self.has_power:
                lines.append("  nothing could have been seen: too few texts of any one outcome")
            elif self.resolution is not None:
                lines.append(
                    f"  a total variation of {self.resolution:.2g} would have been seen with probability "
                    f"0.99, a smaller one perhaps not"
                )
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data for JSON; its keys are on the book's page of commands."""
        worst = self.worst and {
            "outcome": str(self.worst[0]),
            "probabilities": [float(self.worst[1]), float(self.worst[2])],
        }
        return {
            "subjects": list(self.subjects),
            "verdict": self.verdict,
            "method": self.method,
            "tolerance": self.tolerance,
            "alpha": self.alpha,
            "total_variation": as_float(self.total_variation),
            "worst": worst,
            "paths": self.paths and list(self.paths),
            "samples": [
                {
                    "label": sample.label,
                    "draws": list(sample.draws),
                    "outcomes": sample.outcomes,
                    "p_value": sample.p_value,
                    "passed": sample.passed,
                }
                for sample in self.samples
            ],
            "resolution": self.resolution,
            "reason": self.reason,
            "notes": list(self.notes),
        }


def same_law(
    program_a: Callable[[Any], Any],
    program_b: Callable[[Any], Any],
    *,
    tolerance: float = 1e-12,
    max_paths: int = 20_000,
    draws: int = 20_000,
    alpha: float = 1e-6,
    seed: int = 0,
    seconds: float | None = None,
    **limits: Any,
) -> Sameness:
    """Have two programs the same law? Enumerated if both can be followed, sampled if not.

    Parameters
    ----------
    program_a, program_b : callable
        Each program(rng) -> a hashable outcome, as for `specdecode.exact.law`; a torch program by way of
        `specdecode.adapters.pytorch.drawing`. An exception is an outcome of its own.
    tolerance : float
        Largest distance put down to rounding: 1e-12, or 1e-6 for programs that compute in float32.
    max_paths : int
        Limit on the paths of each.
    draws : int
        Runs of each, when they have to be sampled.
    alpha : float
        Probability of telling equal laws apart, when they have to be sampled.
    seed : int
        Of the sampling.
    seconds : float, optional
        Limit on the whole. It decides nothing but whether there is an answer.
    **limits
        source and max_draws, as for `specdecode.exact.law`.

    Returns
    -------
    Sameness

    Raises
    ------
    ValueError
        If a setting is out of range, a program fails every time, or returns what cannot be compared.
    TimeoutError
        If `seconds` are over before there is an answer.

    Guarantee
    ---------
    "equal" and "not equal" when enumerated: that of `specdecode.exact.law` for both, within the tolerance.
    When sampled, "not equal" is wrong with probability at most alpha.

    Examples
    --------
    >>> found = same_law(lambda rng: rng.random() < 0.5, lambda rng: rng.random() >= 0.5)
    >>> found.verdict, found.paths
    ('equal', (2, 2))
    >>> sampled = same_law(lambda rng: rng.normal() < 0, lambda rng: rng.random() < 0.6, draws=2000)
    >>> sampled.verdict, sampled.method
    ('not equal', 'sampled')
    """
    as_number(tolerance, "tolerance", 0, 1, open_above=True)
    _check_sampling(draws, alpha)
    began = time.monotonic()
    subjects = name_of(program_a), name_of(program_b)
    due = None if seconds is None else began + seconds
    programs = _until(due, _guarded(program_a)), _until(due, _guarded(program_b))

    def enumerated() -> Comparison:
        return compare(*programs, tolerance=tolerance, max_paths=max_paths, **limits)

    try:
        found = enumerated()
        if not found.equal and enumerated() != found:
            raise NotReproducible("enumerated again, it had another law")
    except TimeoutError:
        raise
    except (Inexact, NotReproducible, TooLarge) as error:
        counts = _drawn(programs, _rngs(limits.get("source"), seed), draws)
        _refuse_broken(subjects, counts)
        return compare_samples(subjects, {"the programs": counts}, alpha, reason=_why(error))
    laws = found.law_a, found.law_b
    _refuse_broken(subjects, laws)
    return Sameness(
        subjects,
        "equal" if found.equal else "not equal",
        "enumerated",
        tolerance,
        found.total_variation,
        found.worst,
        (laws[0].paths, laws[1].paths),
        (),
        None,
        alpha,
        None,
        tuple(note for name, known in zip(subjects, laws) for note in _faults(name, known)),
    )


def compare_samples(
    subjects: tuple[str, str],
    groups: Mapping[str, tuple[Mapping[Any, int], Mapping[Any, int]]],
    alpha: float = 1e-6,
    *,
    reason: str | None = None,
    notes: tuple[str, ...] = (),
) -> Sameness:
    """Compare what two black boxes said, group by group (prompt by prompt).

    Parameters
    ----------
    subjects : (str, str)
        Names of the two.
    groups : mapping
        Label -> (counts of the one, counts of the other); counts map an outcome to how often it was seen.
    alpha : float
        Probability of telling equal laws apart, over all groups (Bonferroni).
    reason, notes
        As in the result.

    Returns
    -------
    Sameness
        "not equal" or "no difference found".

    Raises
    ------
    ValueError
        If there is no group, a sample is empty, or alpha is out of range.

    Examples
    --------
    >>> compare_samples(("a", "b"), {"prompt": ({"x": 900, "y": 100}, {"x": 500, "y": 500})}).verdict
    'not equal'
    """
    if not groups or not all(sum(counts.values()) for pair in groups.values() for counts in pair):
        raise ValueError("there is nothing to compare; want at least one text from each of the two")
    _check_sampling(100, alpha)
    level, seen = alpha / len(groups), 0.0
    samples: list[Sample] = []
    differing: list[tuple[float, tuple[Any, float, float]]] = []
    told = list(notes)
    for label, (counts_a, counts_b) in groups.items():
        n_a, n_b = sum(counts_a.values()), sum(counts_b.values())
        p_value, degrees = two_sample_test(counts_a, counts_b)
        samples.append(Sample(label, (n_a, n_b), len({*counts_a, *counts_b}), p_value, p_value >= level))
        seen = max(seen, resolution(n_a * n_b / (n_a + n_b), degrees, level))
        apart = {
            o: Fraction(counts_a.get(o, 0), n_a) - Fraction(counts_b.get(o, 0), n_b)
            for o in {*counts_a, *counts_b}
        }
        if p_value < level:
            worst = max(apart, key=lambda o: (abs(apart[o]), repr(o)))
            shares = counts_a.get(worst, 0) / n_a, counts_b.get(worst, 0) / n_b
            differing.append((float(sum(abs(d) for d in apart.values()) / 2), (worst, *shares)))
        alone = [name for name, counts in zip(subjects, (counts_a, counts_b)) if len(counts) == 1]
        if alone and (len(apart) > 1 or reason):
            told.append(
                f"{' and '.join(alone)} gave one outcome, every time, for {label}: a seed of its own?"
            )
        if degrees == 0 and len(apart) > 1:
            told.append(f"nothing could be told apart for {label}: too few texts of any one outcome")
    size, furthest = max(differing, key=lambda found: found[0], default=(None, None))
    verdict = "not equal" if differing else "no difference found"
    return Sameness(
        subjects,
        verdict,
        "sampled",
        None,
        size,
        furthest,
        None,
        tuple(samples),
        seen,
        alpha,
        reason,
        tuple(told),
    )


def _guarded(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The program with plain outcomes, its exceptions among them; what the walk must see is let through."""

    def run(rng: Any) -> Any:
        try:
            return _comparable(outcome_of(program(rng)))
        except (Inexact, NotReproducible, TooLarge, _NoOutcome):
            raise
        except Exception as error:
            return Fault.raised(error)

    return run


def _comparable(outcome: Any) -> Any:
    """The outcome, if two runs can share it."""
    for part in outcome if isinstance(outcome, tuple) else ():
        _comparable(part)
    if outcome is not None and type(outcome).__hash__ in _BY_IDENTITY:
        # By identity, each run would be an outcome of its own.
        kind = type(outcome).__name__
        raise _NoOutcome(f"it returned a {kind}; want token ids, numbers, text, or tuples of them")
    return outcome


_BY_IDENTITY: tuple[Any, ...] = (None, object.__hash__)  # the hashes of what no two runs share


class _NoOutcome(ValueError):
    """What a program returned cannot be compared."""


def _until(due: float | None, program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The program for as long as there is time."""

    def run(rng: Any) -> Any:
        if due is not None and time.monotonic() > due:
            raise _OutOfTime("not finished in the time allowed; make the text or k shorter, or raise seconds")
        return program(rng)

    return run


class _OutOfTime(TimeoutError, NotReproducible):
    """There was no more time; a path that ends in it is none, and it is let through as such."""


def _rngs(source: Any, seed: int) -> tuple[Any, Any]:
    """Two independent generators of the kind that the programs draw from."""
    parts = np.random.SeedSequence(seed).spawn(2)
    if source is LazyRandom:
        first, second = (random.Random(int(part.generate_state(1, np.uint64)[0])) for part in parts)
        return first, second
    return np.random.default_rng(parts[0]), np.random.default_rng(parts[1])


def _drawn(programs: Any, rngs: Any, draws: int) -> tuple[Counter[Any], Counter[Any]]:
    """Outcomes of both programs, by turns."""
    counts: tuple[Counter[Any], Counter[Any]] = Counter(), Counter()
    while sum(counts[0].values()) < draws:
        for program, rng, counter in zip(programs, rngs, counts):
            counter[program(rng)] += 1
    return counts


def _refuse_broken(subjects: tuple[str, str], found: Any) -> None:
    """Two programs that always fail have the same law, and it says nothing."""
    for name, outcomes in zip(subjects, found):
        if all(isinstance(outcome, Fault) for outcome in outcomes):
            raise ValueError(f"{name} {next(iter(outcomes))}, every time; want a program that runs")


def _faults(name: str, known: Law) -> list[str]:
    return [
        f"{name} {outcome} with probability {float(mass):.1e}"
        for outcome, mass in known.items()
        if isinstance(outcome, Fault)
    ]


def _check_sampling(draws: int, alpha: float) -> None:
    as_count(draws, "draws", least=100)
    as_level(alpha)


def _why(error: Exception) -> str:
    if isinstance(error, NotReproducible):
        return f"one of them has randomness or state of its own ({error})"
    if isinstance(error, TooLarge):
        return f"there are too many paths to follow ({error})"
    return f"a draw cannot be followed exactly ({error})"

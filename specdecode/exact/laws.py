"""The exact law of a program that draws random numbers.

`law` runs a program along every path of its draws (`specdecode.exact.uniforms`) and returns each outcome
with its exact rational probability, under ideal uniforms on [0, 1) (thm-law in chapter 4). A real generator's
uniforms lie on a grid of 53 bits, which moves one draw from V tokens by at most V · 2⁻⁵³.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from specdecode.checks import as_count, as_number
from specdecode.exact.generators import LazyGenerator, Numbers
from specdecode.exact.outcomes import Fault
from specdecode.exact.uniforms import Inexact, Lazy, NotReproducible, Path, TooLarge, walk

__all__ = ["Comparison", "Law", "against", "compare", "distance", "law"]

_PLAYED, _EVERY = 32, 8  # the first paths are played again with real numbers, and every eighth
_AGAIN = 3  # runs that must agree before the difference is put down to the numbers
_NARROW = 2.0**-20  # in a shorter interval the rounding of real numbers may decide otherwise

Program = Callable[[Any], Hashable]  # of an rng
Source = Callable[[Any], Any]  # makes the rng of a path, or of numbers


class Law(Mapping[Any, Fraction]):
    """An exact distribution: outcome -> Fraction, impossible outcomes absent.

    Equal to any mapping with the same probabilities. Should not be confused with an estimate: nothing
    in it was sampled.

    Parameters
    ----------
    masses : mapping
        Outcome -> rational probability; zeros are dropped.
    paths : int, optional
        Paths that were followed to find it.

    Raises
    ------
    ValueError
        If the probabilities do not sum to exactly 1, or one is negative.
    """

    def __init__(self, masses: Mapping[Any, Any], paths: int | None = None) -> None:
        self._masses = {outcome: Fraction(mass) for outcome, mass in masses.items() if mass != 0}
        self.paths = paths
        total = sum(self._masses.values(), Fraction(0))
        if total != 1 or min(self._masses.values()) < 0:
            raise ValueError(f"probabilities sum to {total}; want non-negative ones that sum to exactly 1")

    def __getitem__(self, outcome: Any) -> Fraction:
        return self._masses[outcome]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._masses)

    def __len__(self) -> int:
        return len(self._masses)

    def __repr__(self) -> str:
        inside = ", ".join(f"{outcome!r}: {mass}" for outcome, mass in sorted(self.items(), key=repr))
        return f"Law({{{inside}}})"


def law(
    program: Program,
    *,
    source: Source | None = None,
    max_paths: int = 1_000_000,
    max_draws: int = 10_000,
    max_uniforms: int | None = None,
    tolerance: float | Fraction = 0,
) -> Law:
    """The exact distribution of a program's outcome.

    Parameters
    ----------
    program : callable
        program(rng) -> a hashable outcome. It is run once for every path, so it must depend on nothing
        but its rng: no generator of its own, no clock, no state kept from run to run.
    source : callable, optional
        Path -> the rng to hand over: `LazyGenerator` (a `numpy.random.Generator`, the default) or
        `LazyRandom` (a `random.Random`).
    max_paths, max_draws : int
        Limits on the number of paths, and on uniforms drawn on one path.
    max_uniforms : int, optional
        Limit on the uniforms drawn on all paths together.
    tolerance : number
        Paths that cannot be followed, up to this total probability, are a `Fault` among the outcomes.

    Returns
    -------
    Law
        With `.paths`, the number of paths followed.

    Raises
    ------
    Inexact
        If the program does to a uniform what cannot be followed exactly, or does otherwise with real numbers.
    NotReproducible
        If the same answers of the rng led to different outcomes.
    TooLarge
        If a limit is passed.
    TypeError
        If an outcome is not hashable.
    ValueError
        If `program` is not callable, or a limit or the tolerance is out of range.

    Guarantee
    ---------
    Exact rational arithmetic; every threshold is taken at its exact value, a float being a rational
    (thm-law in chapter 4). Real numbers have the last word: whatever goes wrong on a path is played again
    with real floats that take this path, and so are the first paths and then every eighth; a path on which
    the program does otherwise then cannot be followed.

    Examples
    --------
    >>> law(lambda rng: sum(rng.random() < Fraction(1, 3) for _ in range(2)))
    Law({0: 4/9, 1: 4/9, 2: 1/9})
    >>> def reused(rng):
    ...     u = rng.random()
    ...     return u < 0.5, u < 0.75
    >>> law(reused)
    Law({(False, False): 1/4, (False, True): 1/4, (True, True): 1/2})
    """
    if not callable(program):
        raise ValueError(f"program is {program!r}; want a function of an rng")
    as_count(max_paths, "max_paths", least=1)
    as_count(max_draws, "max_draws", least=1)
    as_number(tolerance, "tolerance", 0, 1)
    make_rng = source or LazyGenerator
    masses: dict[Any, Fraction] = {}
    paths, astray = 0, Fraction(0)

    def run(path: Any) -> Any:
        try:
            return program(make_rng(path))
        except (Inexact, NotReproducible, TooLarge):
            raise
        except Exception as error:
            return _Raised(error)

    limits: dict[str, Any] = {"max_paths": max_paths, "max_draws": max_draws, "max_uniforms": max_uniforms}
    for path, outcome in walk(run, refused=_Refused, **limits):
        if isinstance(outcome, Lazy):
            raise Inexact("outcome is a uniform, which has no list of outcomes; want a comparison")
        try:
            hash(outcome)
        except TypeError as error:
            kind = type(outcome).__name__
            raise TypeError(f"outcome is a {kind}, which is not hashable; want a tuple, say") from error
        mass = path.probability
        if isinstance(outcome, (_Raised, Fault)) or paths < _PLAYED or paths % _EVERY == 0:
            outcome = _in_earnest(run, path, outcome, max_draws)
        if isinstance(outcome, _Raised):
            raise outcome.error
        if isinstance(outcome, _Refused):
            astray += mass
            if astray > tolerance:
                raise outcome.why
            outcome = Fault(f"could not be followed ({outcome.why})")
        paths += 1
        masses[outcome] = masses.get(outcome, Fraction(0)) + mass
    return Law(masses, paths)


@dataclass(frozen=True)
class _Raised:
    """A program ended in an error."""

    error: Exception

    def __eq__(self, other: object) -> bool:  # the error of another run is another object
        return isinstance(other, _Raised) and type(self.error) is type(other.error)

    def __str__(self) -> str:
        return str(Fault.raised(self.error))


@dataclass(frozen=True)
class _Refused:
    """A path was given up."""

    why: Exception


def _in_earnest(run: Callable[[Any], Any], path: Path, outcome: Any, max_draws: int) -> Any:
    """The outcome of a path, if real numbers that take it lead there too."""
    wrong = isinstance(outcome, (_Raised, Fault))
    numbers = path.numbers() if wrong or not (path.watched or path.narrowest < _NARROW) else None
    if isinstance(outcome, _Refused) or numbers is None:
        return outcome
    found = run(Numbers(numbers))
    if found == outcome or repr(found) == repr(outcome):  # a NaN is not equal to itself
        return outcome
    # A cache that leaks from path to path shows here, and so does randomness of the program's own.
    again = [run(Path(path.decisions, max_draws)) for _ in range(_AGAIN)]
    if any(each != outcome for each in again) or any(run(Numbers(numbers)) != found for _ in range(_AGAIN)):
        raise NotReproducible("given the same draws twice, the program returned two different outcomes")
    if wrong:
        return _Refused(Inexact(f"with a lazy uniform it {outcome}; with a plain number it does not"))
    return _Refused(
        Inexact(
            f"with lazy uniforms it returned {outcome!r}, and with plain numbers in their place {found!r}"
        )
    )


def distance(law_a: Mapping[Any, Any], law_b: Mapping[Any, Any]) -> Fraction:
    """Total variation between two laws, Σ (a − b)⁺.

    Parameters
    ----------
    law_a, law_b : mapping
        Outcome -> rational probability.

    Returns
    -------
    Fraction
        In [0, 1]; 0 if and only if the laws are equal.

    Examples
    --------
    >>> distance(Law({0: Fraction(1, 2), 1: Fraction(1, 2)}), Law({1: 1}))
    Fraction(1, 2)
    """
    gaps = (max(mass - law_b.get(outcome, 0), 0) for outcome, mass in law_a.items())
    return sum(gaps, Fraction(0))


@dataclass(frozen=True)
class Comparison:
    """Two enumerated laws, side by side.

    Attributes
    ----------
    law_a, law_b : Law
    total_variation : Fraction
        Distance between them.
    tolerance : number
        Up to which they count as equal.
    worst : (outcome, Fraction, Fraction)
        The outcome whose probabilities differ most, and what they are.
    """

    law_a: Law
    law_b: Law
    total_variation: Fraction
    tolerance: float | Fraction
    worst: tuple[Any, Fraction, Fraction]

    @property
    def equal(self) -> bool:
        """Whether the distance is at most the tolerance."""
        return self.total_variation <= self.tolerance


def compare(
    program_a: Program, program_b: Program, *, tolerance: float | Fraction = 0, **limits: Any
) -> Comparison:
    """Enumerate two programs and compare their laws: a certificate that needs no reference.

    Parameters
    ----------
    program_a, program_b : callable
        Each program(rng) -> a hashable outcome, as for `law`: speculation on and off, say.
    tolerance : number
        Largest distance that counts as equal; 0 for rational programs, about 1e-12 for float ones.
    **limits
        source, max_paths and max_draws, as for `law`.

    Returns
    -------
    Comparison

    Raises
    ------
    Inexact, NotReproducible, TooLarge, TypeError
        As `law`.

    Examples
    --------
    >>> found = compare(lambda rng: rng.random() < 0.5, lambda rng: rng.random() < 0.75)
    >>> found.equal, found.total_variation, found.worst
    (False, Fraction(1, 4), (False, Fraction(1, 2), Fraction(1, 4)))
    """
    as_number(tolerance, "tolerance", 0, 1)
    first, second = (law(each, tolerance=tolerance, **limits) for each in (program_a, program_b))
    return against(first, second, tolerance)


def against(law_a: Law, law_b: Law, tolerance: float | Fraction = 0) -> Comparison:
    """Two laws, already found, side by side; see `compare`."""
    outcomes = sorted({*law_a, *law_b}, key=repr)
    nothing = Fraction(0)
    worst = max(outcomes, key=lambda o: abs(law_a.get(o, nothing) - law_b.get(o, nothing)))
    probabilities = law_a.get(worst, nothing), law_b.get(worst, nothing)
    return Comparison(law_a, law_b, distance(law_a, law_b), tolerance, (worst, *probabilities))

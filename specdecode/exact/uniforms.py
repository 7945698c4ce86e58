"""Lazy uniforms: numbers known only to lie in an interval, and the paths along which they are learnt.

A program that draws from an rng is run on **lazy uniforms**. One knows only its interval, [0, 1) at
first. Comparing it with a threshold strictly inside splits the run in two: on one path the uniform is
below, on the other it is not, and both remember. The probability of a path is the product of the
lengths its intervals have at the end, exactly. Following every path gives the exact law of the program
under ideal uniforms (thm-law in chapter 4).

This room knows nothing of NumPy or of any generator: a source of draws (`specdecode.exact.generators` has
two) hands `Path.uniform` to a program in whatever dress the program expects.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from numbers import Rational
from typing import Any, ClassVar, NoReturn, Self, TypeVar

__all__ = [
    "Decision",
    "Inexact",
    "LazyUniform",
    "NotReproducible",
    "Path",
    "TooLarge",
    "as_fraction",
    "as_number",
    "walk",
]

Number = int | float | Fraction
Decision = tuple[int, Number, bool]  # which uniform, against which threshold, and whether it was below
Outcome = TypeVar("Outcome")


class Inexact(TypeError):
    """Something was asked of a lazy uniform that cannot be answered exactly."""


class NotReproducible(RuntimeError):
    """A program did something else when it was given the same answers: its rng is not its only input."""


class TooLarge(RuntimeError):
    """More paths, or more draws on one path, than the limit."""


_DECISIONS = 64  # on average, of each uniform that a path may draw


class Path:
    """One way through a program: the decisions to repeat, then the decisions found.

    Parameters
    ----------
    script : sequence of (int, number, bool)
        Decisions to repeat: which uniform, against which threshold, and whether it was below.
    max_draws : int
        Limit on uniforms drawn.
    edge : float, optional
        What every uniform is exactly, ties included: 0, say, which a generator of 53 bits can give. Races are
        run as ever.
    """

    def __init__(
        self, script: Sequence[Decision] = (), max_draws: int = 10_000, edge: float | None = None
    ) -> None:
        self._edge = edge
        self.decisions, self._replayed, self._max_draws = list(script), 0, max_draws
        self._intervals: list[tuple[Number, Number]] = []
        self._spent: set[int] = set()
        self.hidden: set[int] = set()  # uniforms that no program drew: they decide races
        self.races: dict[int, Any] = {}  # of each winner so far: itself, then those it beat
        self.lost: dict[int, tuple[int, int]] = {}  # of each loser: how many had lost before, and to whom
        self.playable = True  # whether real numbers can be told that take this path
        self.watched = False  # whether every use of a draw is seen, so that code cannot turn off unseen
        self.forks: list[tuple[Decision, ...]] = []
        self.trouble: Exception | None = None
        self.closed = False

    def uniform(self) -> "LazyUniform":
        """A fresh lazy uniform on [0, 1)."""
        self._open()
        if len(self._intervals) == self._max_draws:
            self.refuse(
                f"a path drew {self._max_draws} uniforms: a loop that may never end, or too long a text; "
                f"make the text shorter, or raise max_draws",
                TooLarge,
            )
        self._intervals.append((0, 1))
        return LazyUniform(self, len(self._intervals) - 1)

    def refuse(self, why: str, kind: type[Exception] = Inexact) -> NoReturn:
        """Raise `kind`, and remember it: a program that swallows the error must not be believed."""
        self.trouble = kind(why)
        raise self.trouble

    def interval(self, which: int) -> tuple[Number, Number]:
        """What is known of a uniform: (low, high), meaning low ≤ u < high."""
        if which in self._spent:
            self.refuse("a uniform was used again after it had been turned into noise of another kind")
        return self._intervals[which]

    def decide(self, chance: Fraction) -> bool:
        """An event of the given probability that no draw of the program's says anything of: a race."""
        which = len(self._intervals)
        self.hidden.add(which)
        return bool(self.uniform() < chance)

    def choose(self, rates: Sequence[Fraction]) -> int:
        """One of several, in proportion to their rates: who wins a race of many."""
        self.hidden.add(len(self._intervals))
        bounds = list(accumulate(rates))
        return bisect_right(bounds, self.uniform() * bounds[-1])

    def spend(self, which: int) -> None:
        """Give up an untouched uniform to whoever turns it into another random variable; returns nothing.

        From here on asking for it raises `Inexact`: two uses of one draw would be dependent.
        """
        if self.interval(which) != (0, 1):
            self.refuse("a uniform that had been compared was then turned into noise of another kind")
        self._spent.add(which)
        self.playable = False

    def below(self, which: int, threshold: Number, or_equal: bool = False) -> bool:
        """Whether uniform `which` is below `threshold`; decides it where both are possible."""
        self._open()
        if self._edge is not None and which not in self.hidden:
            return self._edge <= threshold if or_equal else self._edge < threshold
        low, high = self.interval(which)
        if threshold >= high:
            return True
        if not threshold > low:  # a NaN is above nothing, as for floats
            return False
        if self._replayed < len(self.decisions):
            asked, at, answer = self.decisions[self._replayed]
            if (asked, at) != (which, threshold):
                raise NotReproducible(
                    f"given the same draws, the program once compared uniform {asked} with {at} and once "
                    f"uniform {which} with {threshold}; it must depend on nothing but its rng"
                )
        else:
            if len(self.decisions) >= _DECISIONS * self._max_draws:
                self.refuse(
                    f"a path compared its uniforms {len(self.decisions)} times: a loop that may never end",
                    TooLarge,
                )
            answer = True
            self.forks.append((*self.decisions, (which, threshold, False)))
            self.decisions.append((which, threshold, True))
        self._replayed += 1
        self._intervals[which] = (low, threshold) if answer else (threshold, high)
        return answer

    def _open(self) -> None:
        if self.closed:
            raise NotReproducible("the program kept an rng or a uniform from an earlier run")

    def numbers(self) -> list[float] | None:
        """Real numbers that take this path: one for each uniform drawn, in the order of drawing.

        On the grid of 53 bits; None if none can be told, as where an interval lies between two neighbours.
        """
        if not self.playable:
            return None
        found = {
            which: _on_grid(low, high) if self._edge is None else self._edge
            for which, (low, high) in enumerate(self._intervals)
        }
        for field in self.races.values():
            found |= field.racers[0].places(field.racers, self.lost)
        drawn = [number for which, number in found.items() if which not in self.hidden]
        return None if None in drawn else [number for number in drawn if number is not None]

    @property
    def narrowest(self) -> Number:
        """Length of the shortest interval."""
        return min((high - low for low, high in self._intervals), default=1)

    @property
    def drawn(self) -> int:
        """Uniforms drawn so far."""
        return len(self._intervals)

    @property
    def replayed(self) -> int:
        """Decisions met so far, those of the script among them."""
        return self._replayed

    @property
    def probability(self) -> Fraction:
        """Product of the lengths of all intervals, a Fraction."""
        product = Fraction(1)
        for low, high in self._intervals:
            if (low, high) != (0, 1):
                product *= Fraction(high) - Fraction(low)
        return product


def walk(
    run: Callable[[Path], Outcome],
    *,
    max_paths: int = 1_000_000,
    max_draws: int = 10_000,
    refused: Callable[[Exception], Outcome] | None = None,
    edge: float | None = None,
    max_uniforms: int | None = None,
) -> Iterator[tuple[Path, Outcome]]:
    """Follow a program along every path.

    Parameters
    ----------
    run : callable
        run(path) -> outcome; draws only through the path.
    max_paths, max_draws : int
        Limits on the number of paths, and on uniforms drawn on one path.
    refused : callable, optional
        What to yield as the outcome of a path that cannot be followed, given why; without it the refusal is
        raised. The probability of such a path is that of all that begins like it.
    edge : float, optional
        As for `Path`.
    max_uniforms : int, optional
        Limit on the uniforms drawn on all paths together.

    Yields
    ------
    (Path, outcome)
        Every path of positive probability, once; the probabilities sum to 1.

    Raises
    ------
    TooLarge
        If a limit is passed; names it and what to make smaller.
    NotReproducible
        If a repeated path takes another course.
    """
    waiting: list[tuple[Decision, ...]] = [()]
    found, drawn = 0, 0
    while waiting:
        path, cause = Path(waiting.pop(), max_draws, edge), None
        try:
            outcome = run(path)
        except Exception as error:
            if path.trouble is None:
                raise
            cause = error  # a refusal may have been turned into another error on its way out
        path.closed = True
        if path.trouble is not None:
            if refused is None or not isinstance(path.trouble, Inexact):
                raise path.trouble from cause
            outcome = refused(path.trouble)
        elif path.replayed < len(path.decisions):
            raise NotReproducible(
                f"given the same draws, the program once compared a uniform {len(path.decisions)} times and "
                f"once {path.replayed} times; it must depend on nothing but its rng"
            )
        found, drawn = found + 1, drawn + path.drawn
        if max_uniforms is not None and drawn > max_uniforms:
            raise TooLarge(f"more than {max_uniforms} uniforms on {found} of its paths")
        waiting.extend(path.forks)
        if found + len(waiting) > max_paths:  # each that waits is at least one path
            raise TooLarge(
                f"more than {max_paths} paths; make the vocabulary, k or the text smaller, or raise max_paths"
            )
        yield path, outcome


def _on_grid(low: Number, high: Number) -> float | None:
    """A multiple of 2⁻⁵³ in [low, high), the middle if it will do."""
    low, high = Fraction(low), Fraction(high)
    for number in ((low + high) / 2, low):
        place = Fraction(math.ceil(number * 2**53), 2**53)
        if low <= place < high:
            return float(place)
    return None


def as_number(value: Any) -> float | Fraction | None:
    """The exact value of a number, as a float or a Fraction of Python ints; None for anything else."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Lazy):
        return None
    if isinstance(value, Rational):  # NumPy's integers too, which would overflow inside a Fraction
        return Fraction(int(value.numerator), int(value.denominator))
    if hasattr(value, "as_integer_ratio"):  # a narrower or wider float
        return Fraction(*value.as_integer_ratio()) if math.isfinite(value) else float(value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # an array or a tensor of one number
        return as_number(value.item())
    return None


def as_fraction(value: Any) -> Fraction:
    """The exact value of a finite number."""
    number = as_number(value)
    if number is None:
        raise TypeError(f"{value!r} is a {type(value).__name__}; want a number")
    return Fraction(number)


class Lazy:
    """A number that is not known yet. What needs the number itself raises `Inexact`."""

    __slots__ = ()

    _path: Any
    shape: tuple[int, ...] = ()
    ndim = 0

    def item(self) -> Self:
        """Itself, as of an array of one number."""
        return self

    def tolist(self) -> Self:
        """Itself, as of an array of one number."""
        return self

    # How functions of NumPy's are taken. The rooms that make something of a uniform import this one, so they
    # say it here.
    elementwise: ClassVar[Callable[..., Any]]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return Lazy.elementwise(ufunc, method, inputs, kwargs)

    def __bool__(self) -> bool:
        return True  # it is 0 with probability 0

    def __float__(self) -> float:
        return self._path.refuse(  # type: ignore[no-any-return]
            "a uniform was turned into a float; compare the uniform itself with a threshold, "
            "draw by inverse CDF, or use NumPy's functions in place of math's, to keep the law exact"
        )

    __complex__ = __float__

    def _refuse(self, *_: Any) -> Any:
        return self._path.refuse(
            "a uniform went into an operation other than comparison, + − × ÷ by a number, int, floor, and "
            "NumPy's log, log1p, exp, expm1, sqrt and powers; its law cannot be followed exactly through that"
        )

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __round__ = __index__ = _refuse

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # a number: a copy of the path behind it would split without telling


class LazyUniform(Lazy):
    """A uniform known only to lie in an interval, or scale · u + shift of one.

    Supports comparison with numbers, sums and products with numbers, int() and math.floor(), exactly; and
    functions of NumPy's that are monotone, which make a `LazyFunction` of it. Ties have probability zero, so
    < and ≤ have the same law. What would need the number itself (float(), a comparison of two uniforms)
    raises `Inexact`.
    """

    __slots__ = ("_path", "_scale", "_shift", "_which")

    def __init__(self, path: Path, which: int, scale: int | Fraction = 1, shift: int | Fraction = 0) -> None:
        self._path, self._which, self._scale, self._shift = path, which, scale, shift

    # Comparison: below(t) asks scale · u + shift < t. Anything that is no number, an array say, is left
    # to answer for itself, element by element.

    def _below(self, other: Any, or_equal: bool = False) -> Any:
        if isinstance(other, Lazy):
            if self._same(other):
                return False
            self._path.refuse(
                "two uniforms were compared with each other; compare each with a number instead"
            )
        threshold = as_number(other)
        if threshold is None:
            return NotImplemented
        if threshold != threshold:
            return False
        if (self._scale, self._shift) == (1, 0):
            return self._path.below(self._which, threshold, or_equal)
        if math.isinf(threshold):
            return threshold > 0
        at, rises = (Fraction(threshold) - self._shift) / self._scale, self._scale > 0
        return self._path.below(self._which, at, or_equal == rises) == rises

    def _not_below(self, other: Any, or_equal: bool) -> Any:
        below = self._below(other, or_equal)
        if below is NotImplemented or as_number(other) != as_number(other):
            return below
        return not below

    def _same(self, other: Any) -> bool:
        return isinstance(other, LazyUniform) and (self._path, self._which, self._scale, self._shift) == (
            other._path,
            other._which,
            other._scale,
            other._shift,
        )

    def __lt__(self, other: Any) -> Any:
        return self._below(other)

    def __gt__(self, other: Any) -> Any:
        return False if self._same(other) else self._not_below(other, or_equal=True)

    def __le__(self, other: Any) -> Any:
        return True if self._same(other) else self._below(other, or_equal=True)

    def __ge__(self, other: Any) -> Any:
        return True if self._same(other) else self._not_below(other, or_equal=False)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Lazy):
            if self._same(other):
                return True
            self._path.refuse(
                "two uniforms were compared with each other; compare each with a number instead"
            )
        return NotImplemented if as_number(other) is None else False

    __hash__ = None  # type: ignore[assignment]

    # Arithmetic by numbers keeps the form scale · u + shift.

    def _affine(self, scale: int | Fraction, shift: int | Fraction) -> Any:
        if scale == 0:
            return shift
        return LazyUniform(self._path, self._which, scale, shift)

    def _operand(self, other: Any, sign: str) -> Fraction | None:
        if isinstance(other, Lazy):
            self._path.refuse(f"two uniforms were combined by {sign}; combine each with a number instead")
        value = as_number(other)
        return None if value is None else Fraction(value)

    def __add__(self, other: Any) -> Any:
        value = self._operand(other, "+")
        return NotImplemented if value is None else self._affine(self._scale, self._shift + value)

    def __sub__(self, other: Any) -> Any:
        value = self._operand(other, "-")
        return NotImplemented if value is None else self._affine(self._scale, self._shift - value)

    def __rsub__(self, other: Any) -> Any:
        value = self._operand(other, "-")
        return NotImplemented if value is None else self._affine(-self._scale, value - self._shift)

    def __mul__(self, other: Any) -> Any:
        value = self._operand(other, "*")
        return NotImplemented if value is None else self._affine(self._scale * value, self._shift * value)

    def __truediv__(self, other: Any) -> Any:
        value = self._operand(other, "/")
        return NotImplemented if value is None else self._affine(self._scale / value, self._shift / value)

    def __pos__(self) -> Self:
        return self

    def __neg__(self) -> Any:
        return self._affine(-self._scale, -self._shift)

    __radd__, __rmul__ = __add__, __mul__

    def __floor__(self) -> int:
        low, high = self._path.interval(self._which)
        ends = sorted(Fraction(self._scale) * Fraction(end) + self._shift for end in (low, high))
        least, beyond = math.floor(ends[0]), math.ceil(ends[1])
        while beyond - least > 1:  # by halves: a path to one of n whole numbers compares log n times
            middle = (least + beyond) // 2
            least, beyond = (least, middle) if self._below(middle) else (middle, beyond)
        return least

    def __int__(self) -> int:
        return self.__floor__() if self._below(0) is False else -(-self).__floor__()

    __trunc__ = __int__

    @property
    def parts(self) -> tuple[Path, int, int | Fraction, int | Fraction]:
        """The path, which uniform of it, scale and shift."""
        return self._path, self._which, self._scale, self._shift

    function: ClassVar[Callable[["LazyUniform", str], Any]]

    def _as_function(self) -> Any:
        return LazyUniform.function(self, "positive")

    def __rtruediv__(self, other: Any) -> Any:
        return other / self._as_function()

    def __pow__(self, other: Any) -> Any:
        return self._as_function() ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** self._as_function()

    def __abs__(self) -> Any:
        return abs(self._as_function())

    def __ceil__(self) -> int:
        below: int = math.floor(-self)
        return -below

    def __repr__(self) -> str:
        low, high = self._path._intervals[self._which]
        form = "" if (self._scale, self._shift) == (1, 0) else f", as {self._scale}·u + {self._shift}"
        return f"<uniform in [{low}, {high}){form}>"


def _by_name(name: str) -> Callable[[LazyUniform], Any]:
    return lambda uniform: LazyUniform.function(uniform, name)


for _name in ("log", "log1p", "log2", "log10", "exp", "expm1", "exp2", "sqrt", "tanh"):
    setattr(LazyUniform, _name, _by_name(_name))

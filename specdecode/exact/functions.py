"""What becomes of one lazy uniform u: a monotone function g(u), such as log u, and noise for a race.

Comparing g(u) with a number t is comparing u with a threshold of its own: the first place on the grid of 53
bits where g passes t, found by bisection with the very functions that the program calls. So it is exact for
the float program, rounding of the logarithm included.

Two functions of two uniforms can be compared in one case, which is how tokens are drawn without a cumulative
sum: if both are exponential times E / w, or the same function of such times, they **race**. The first of two
arrives first with probability w₁ / (w₁ + w₂), and the winner, whose time is exponential of rate w₁ + w₂ and
tells nothing of who won, may race on. So arg-min of −log(u) / w and arg-max of log w + Gumbel noise are
followed comparison by comparison, as NumPy makes them.

References: Maddison, Tarlow and Minka (2014), section 2; Efraimidis and Spirakis (2006).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from specdecode.exact.uniforms import Lazy, LazyUniform, Path, as_number

__all__ = ["LazyFunction", "exponential", "gumbel", "winner"]

Step = Callable[[Any], Any]
_GRID = 2**53
_LAST = 1 - 2.0**-53
_EARLY = 0.01  # an exponential time for the winner of a race that is played with real numbers


@dataclass(frozen=True)
class _Time:
    """An exponential time T of rate weight · exp(log_weight), as sign · T^power, or as slope · log T."""

    weight: Fraction = Fraction(1)
    log_weight: float = 0.0
    sign: int = 1
    power: int = 1
    slope: Fraction | None = None

    @property
    def form(self) -> tuple[Any, ...]:
        """What two times must share to race."""
        return ("log", self.slope) if self.slope is not None else (self.sign, self.power)

    @property
    def falls(self) -> bool:
        """Whether the value falls as the time grows."""
        return bool(self.slope < 0) if self.slope is not None else self.sign * self.power < 0

    @property
    def range(self) -> tuple[float, float]:
        """The open interval of its values."""
        if self.slope is not None:
            return -math.inf, math.inf
        return (0.0, math.inf) if self.sign > 0 else (-math.inf, 0.0)

    def times(self, factor: Fraction) -> "_Time":
        if self.slope is not None:
            return replace(self, slope=self.slope * factor)
        sign = self.sign if factor > 0 else -self.sign
        weight = self.weight / abs(factor) if self.power > 0 else self.weight * abs(factor)
        return replace(self, sign=sign, weight=weight)

    def plus(self, amount: float) -> "_Time | None":
        if self.slope is None:
            return None
        return replace(self, log_weight=self.log_weight - amount / float(self.slope))

    def inverted(self) -> "_Time | None":
        return None if self.slope is not None else replace(self, power=-self.power)

    def log(self) -> "_Time | None":
        if self.slope is not None or self.sign < 0:
            return None
        return replace(self, slope=Fraction(self.power), power=1)

    def exp(self) -> "_Time | None":
        if self.slope is None or abs(self.slope) != 1:
            return None
        return replace(self, slope=None, power=int(self.slope))


class LazyFunction(Lazy):
    """A monotone function of a lazy uniform; compared with numbers, moved on by monotone steps, or raced.

    Parameters
    ----------
    path : Path
    which : int
        The uniform.
    steps : sequence of callables
        Its function, in steps from float to float.
    rises : bool
        Whether it rises with the uniform.
    time : _Time, optional
        What it is of an exponential time, if it is.
    """

    __slots__ = ("_path", "_rises", "_steps", "_time", "_which")

    def __init__(
        self, path: Path, which: int, steps: Sequence[Step], rises: bool, time: _Time | None = None
    ) -> None:
        self._path, self._which, self._steps, self._rises, self._time = path, which, tuple(steps), rises, time

    @classmethod
    def of(cls, uniform: LazyUniform, name: str) -> Any:
        """A function of NumPy's of a lazy uniform that may be scaled and shifted."""
        path, which, scale, shift = uniform.parts
        time = None
        if (name, scale, shift) in (("log1p", -1, 0), ("log", 1, 0), ("log", -1, 1)):
            time = _Time(sign=-1)  # log u is −T for an exponential T, and so is log (1 − u)
        start = cls(path, which, [lambda u: np.float64(float(scale * Fraction(u) + shift))], scale > 0)
        made = start._then(getattr(np, name), True, None, partial=True)
        made._time = time
        return made

    def at(self, u: float) -> float:
        """Its value where the uniform is u."""
        value: Any = np.float64(u)
        with np.errstate(all="ignore"):
            for step in self._steps:
                value = step(value)
        return float(value)

    # Comparison with a number: the uniform has a threshold of its own.

    def _passes(self, number: float | Fraction, strictly: bool) -> int:
        """First place k on the grid where g(k · 2⁻⁵³) is past a number, in the direction in which g moves."""
        low, high = 0, _GRID
        while low < high:
            middle = (low + high) // 2
            value = self.at(middle / _GRID)
            if self._rises:
                passed = value > number if strictly else value >= number
            else:
                passed = value < number if strictly else value <= number
            low, high = (low, middle) if passed else (middle + 1, high)
        return low

    def _below(self, other: Any, or_equal: bool = False) -> Any:
        if isinstance(other, Lazy):
            return self._arrives(other)
        number = as_number(other)
        if number is None:
            return NotImplemented
        if number != number:
            return False
        if self._time is not None:  # an open range: its ends are never reached
            least, most = self._time.range
            if number <= least or number >= most:
                return number >= most
        # g < t holds before the first place with g ≥ t if g rises, and from the first with g < t on if not.
        place = Fraction(self._passes(number, strictly=or_equal == self._rises), _GRID)
        return self._path.below(self._which, place) == self._rises

    def __lt__(self, other: Any) -> Any:
        return self._below(other)

    def __le__(self, other: Any) -> Any:
        return self._below(other, or_equal=True)

    def __ge__(self, other: Any) -> Any:
        below = self._below(other)
        return below if below is NotImplemented else not below and not _is_nan(other)

    def __gt__(self, other: Any) -> Any:
        below = self._below(other, or_equal=True)
        return below if below is NotImplemented else not below and not _is_nan(other)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Lazy):
            return other is self
        return NotImplemented if as_number(other) is None else False

    __hash__ = None  # type: ignore[assignment]

    # Races.

    def _arrives(self, other: Any) -> bool:
        """Whether this value is below another one's, decided as a race."""
        if other is self:
            return False
        mine, its = self._time, getattr(other, "_time", None)
        if mine is None or its is None or mine.form != its.form or self._which == other._which:
            return self._path.refuse(  # type: ignore[no-any-return]
                "two random numbers were compared with each other that are no race; compare each with a "
                "number, or race exponential times: arg-min of −log(u) / w, arg-max of log w + Gumbel noise"
            )
        races, lost = self._path.races, self._path.lost
        for racer, rival in ((self, other), (other, self)):
            which = racer._which
            if which in lost and lost[which][1] == rival._which:  # asked before
                return bool((racer is other) != mine.falls)
            if which in lost:
                self._path.refuse("noise that had lost a race was raced again: it depends on who has won")
            if which in races:
                if races[which].racers[0]._time != racer._time:
                    self._path.refuse("noise that had won a race was changed before it raced again")
            elif self._path.interval(which) != (0, 1):
                self._path.refuse("noise that had been compared with a number was then raced")
        field, rivals = (races.pop(racer._which, None) or _Field([racer]) for racer in (self, other))
        rate, rival = field.rates_beside(rivals)
        if not rate + rival:
            return False  # neither ever arrives
        first = self._path.decide(rate / (rate + rival))
        winner, loser = (field, rivals) if first else (rivals, field)
        lost[loser.racers[0]._which] = len(lost), winner.racers[0]._which
        races[winner.racers[0]._which] = winner.beating(loser)
        return bool(first != mine.falls)

    def places(self, racers: Sequence[Any], lost: dict[int, tuple[int, int]]) -> dict[int, float | None]:
        """Real uniforms for a race that this one won: it comes early, and those it beat in their order."""
        early = min(racer._key(racer._at(_EARLY)) for racer in racers)
        late, later = (min(racer._key(racer._at(n * _EARLY)) for racer in racers) for n in (2, 4))
        losers = sorted(racers[1:], key=lambda racer: -lost[racer._which][0])
        found = {self._which: self._first(early, late)}
        for i, racer in enumerate(losers):
            found[racer._which] = racer._first(late + (later - late) * i / len(losers), math.inf)
        return found

    def _key(self, u: float) -> float:
        """The value, with the sign that makes early small."""
        return -self.at(u) if self._time is not None and self._time.falls else self.at(u)

    @property
    def _late_is_high(self) -> bool:
        """Whether a high uniform is a late time."""
        return self._rises != (self._time is not None and self._time.falls)

    def _at(self, time: float) -> float:
        """The uniform at which the exponential that all began with is a time."""
        return -math.expm1(-time) if self._late_is_high else math.exp(-time)

    def _first(self, key: float, most: float) -> float | None:
        """The earliest uniform on the grid, 0 left out, with a key of at least one number, below another."""
        low, high = 1, _GRID - 1
        while low < high:
            if self._late_is_high:
                middle = (low + high) // 2
                low, high = (low, middle) if self._key(middle / _GRID) >= key else (middle + 1, high)
            else:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if self._key(middle / _GRID) >= key else (low, middle - 1)
        return low / _GRID if key <= self._key(low / _GRID) < most else None

    # Arithmetic: monotone steps.

    def _then(self, step: Step, rises: bool, time: _Time | None, partial: bool = False) -> Any:
        """One more step, rising or falling; a partial one is refused where some uniform has no value."""
        made = LazyFunction(self._path, self._which, (*self._steps, step), self._rises == rises, time)
        if partial and any(math.isnan(made.at(u)) for u in (2.0**-53, 0.5, _LAST)):
            self._refuse()
        return made

    def _number(self, other: Any) -> float:
        if isinstance(other, Lazy):
            self._path.refuse("two random numbers were combined; combine each with a number instead")
        number = as_number(other)
        return self._refuse() if number is None or number != number else float(number)

    def _scaled(self, factor: float, step: Step) -> Any:
        if factor == 0:
            return 0.0
        if math.isinf(factor):
            return factor * self._sign()
        time = self._time.times(Fraction(factor)) if self._time else None
        return self._then(step, factor > 0, time)

    def _sign(self) -> int:
        """1 or −1 if all its values have one sign; refused if not."""
        ends = self.at(2.0**-53), self.at(_LAST)
        if self._time is not None and self._time.slope is None:
            return self._time.sign
        if min(ends) >= 0 or max(ends) <= 0:
            return 1 if max(ends) > 0 else -1
        return int(self._refuse())

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        factor = self._number(other)
        return self._scaled(factor, lambda x: x * factor)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        divisor = self._number(other)
        if divisor == 0:
            return math.inf * self._sign()  # as NumPy has it
        if math.isinf(divisor):
            return 0.0
        time = self._time.times(1 / Fraction(divisor)) if self._time else None
        return self._then(lambda x: x / divisor, divisor > 0, time)

    def __rtruediv__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        number = self._number(other)
        if number == 0:
            return 0.0
        self._sign()
        time = self._time.inverted() if self._time else None
        inverted = self._then(lambda x: np.float64(1) / x, False, time)
        return inverted if number == 1 else inverted * number

    def __add__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        amount = self._number(other)
        if math.isinf(amount):
            return amount
        return self._then(lambda x: x + amount, True, self._time.plus(amount) if self._time else None)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else self + -self._number(other)

    def __rsub__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else -self + self._number(other)

    def __neg__(self) -> Any:
        return self._then(lambda x: -x, False, self._time.times(Fraction(-1)) if self._time else None)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Any:
        return self if self._sign() > 0 else -self

    def __pow__(self, other: Any) -> Any:
        power = self._number(other)
        if self._sign() < 0:
            self._refuse()
        return 1.0 if power == 0 else self._then(lambda x: x**power, power > 0, None, partial=True)

    def __rpow__(self, other: Any) -> Any:
        base = self._number(other)
        if base <= 0 or base == 1:
            self._refuse()
        return self._then(lambda x: base**x, base > 1, None)

    def log(self) -> Any:
        return self._then(np.log, True, self._time.log() if self._time else None, partial=True)

    def exp(self) -> Any:
        return self._then(np.exp, True, self._time.exp() if self._time else None)

    def __repr__(self) -> str:
        return f"<a function of uniform {self._which}>"


def _rising(name: str) -> Callable[[LazyFunction], Any]:
    return lambda value: value._then(getattr(np, name), True, None, partial=True)


for _name in ("log1p", "log2", "log10", "expm1", "exp2", "sqrt", "tanh"):
    setattr(LazyFunction, _name, _rising(_name))


LazyUniform.function = staticmethod(LazyFunction.of)


def _is_nan(value: Any) -> bool:
    number = as_number(value)
    return number is not None and number != number


class _Field:
    """Who has raced so far, the winner first, and the rate of the first arrival: rate · exp(log_rate)."""

    def __init__(self, racers: list[Any]) -> None:
        self.racers = racers
        self.rate, self.log_rate = racers[0]._time.weight, racers[0]._time.log_weight

    def rates_beside(self, other: "_Field") -> tuple[Fraction, Fraction]:
        """Both rates over a common factor; a logarithm is put in to the precision of a float."""
        if self.log_rate == other.log_rate and self.log_rate > -math.inf:
            return self.rate, other.rate
        fields = [field for field in (self, other) if field.rate]
        top = max((field.log_rate for field in fields if field.log_rate > -math.inf), default=0.0)
        first, second = (each.rate * Fraction(math.exp(each.log_rate - top)) for each in (self, other))
        return first, second

    def beating(self, other: "_Field") -> "_Field":
        """This field after its winner has beaten the other's."""
        rates = self.rates_beside(other)
        if self.log_rate != other.log_rate:
            self.log_rate = max(self.log_rate, other.log_rate)
        self.rate = rates[0] + rates[1]
        self.racers += other.racers
        return self


def winner(entries: Sequence[Any], smallest: bool) -> int | None:
    """The position of the smallest entry, or the largest, drawn with one decision; None if it is no race.

    Parameters
    ----------
    entries : sequence
        `LazyFunction`s of one form, each of a time of its own that has not raced; numbers only where they
        must lose.
    smallest : bool
        Whether the smallest is asked for.
    """
    racers = [entry for entry in entries if isinstance(entry, LazyFunction)]
    if not racers or any(racer._time is None for racer in racers):
        return None
    path, time = racers[0]._path, racers[0]._time
    fresh = {racer._which for racer in racers}
    if (
        time is None
        or time.falls == smallest
        or len(fresh) < len(racers)
        or fresh & {*path.lost, *path.races}
    ):
        return None
    least, most = time.range
    for entry in entries:
        if isinstance(entry, LazyFunction):
            if entry._time is None or entry._time.form != time.form or path.interval(entry._which) != (0, 1):
                return None
        elif isinstance(entry, Lazy) or not (entry >= most if smallest else entry <= least):
            return None
    logs = [
        r._time.log_weight for r in racers if r._time and r._time.weight and r._time.log_weight > -math.inf
    ]
    top = max(logs, default=0.0)
    rates = [r._time.weight * Fraction(math.exp(r._time.log_weight - top)) for r in racers if r._time]
    if not any(rates):
        return None
    first = racers[path.choose(rates) if len(racers) > 1 else 0]
    for racer in racers:
        if racer is not first:
            path.lost[racer._which] = len(path.lost), first._which
    path.races[first._which] = _Field([first, *(racer for racer in racers if racer is not first)])
    return next(place for place, entry in enumerate(entries) if entry is first)


def exponential(uniform: Any) -> Any:
    """−log(1 − u): an exponential time, lazy or not."""
    return -np.log1p(-uniform)


def gumbel(uniform: Any) -> Any:
    """−log(−log u): Gumbel noise, lazy or not."""
    return -np.log(-np.log(uniform))

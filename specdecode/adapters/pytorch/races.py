"""Noise that decides a race: tokens drawn by arg-max of w / E, or of logits + Gumbel noise.

Engines draw a token from a row w without a cumulative sum: independent E_x ~ Exp(1), and the token is
argmax w_x / E_x, which is x with probability w_x / Σ w. With G = −log E the same race is argmax
(log w_x + G_x). The values themselves have no list of outcomes, so they are not followed; the *winner* has,
and that is all such code asks of them. A `Noise` therefore remembers only its weight and how it was dressed,
and `winner` draws among the weights with one uniform.

Noise that has decided one race knows something of the losers. A second race with it is refused, not guessed.

References: Maddison, Tarlow and Minka (2014), section 2; Efraimidis and Spirakis (2006).
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

__all__ = ["LogUniform", "Noise", "choose", "winner"]


class Noise:
    """A function of w / E for an exponential E, increasing or decreasing.

    Parameters
    ----------
    path : Path
        Where refusals are reported.
    form : str
        "time" E / w, "log time" its logarithm, "speed" w / E, or "log speed" its logarithm, which is
        Gumbel noise. With any other name it is of no use, and every use of it is refused.
    weight : Fraction
        The rational factor of w.
    log_weight : float
        The factor of w that was given as a logarithm.
    sign : int
        1, or −1 for the negated value.
    scale : Fraction
        A positive factor on a logarithm; a temperature.
    origin : list
        Shared by all that is made of one E; says whether it has decided a race.
    """

    __slots__ = ("_path", "form", "log_weight", "origin", "scale", "sign", "weight")

    def __init__(
        self,
        path: Any,
        form: str = "time",
        weight: Fraction | int = 1,
        log_weight: float = 0.0,
        sign: int = 1,
        scale: Fraction | int = 1,
        origin: list[bool] | None = None,
    ) -> None:
        self._path, self.form, self.sign, self.scale = path, form, sign, scale
        self.weight, self.log_weight = Fraction(weight), log_weight
        self.origin = [False] if origin is None else origin

    def _with(self, **changes: Any) -> "Noise":
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "_path"}
        return Noise(self._path, **(fields | changes))

    def _refuse(self, *_: Any) -> Any:
        self._path.refuse(
            "noise was used otherwise than in a race: followed are w / E, log w − log E and logits + Gumbel "
            "noise, then argmax"
        )

    def scaled(self, factor: Any) -> "Noise":
        """The noise times a number."""
        if not isinstance(factor, (int, float, Fraction)) or not math.isfinite(factor) or factor < 0:
            self._refuse()
        if self.form == "speed":
            return self._with(weight=self.weight * Fraction(factor))
        if factor == 0 or self.form not in ("time", "log time", "log speed"):
            self._refuse()
        if self.form == "time":
            return self._with(weight=self.weight / Fraction(factor))
        return self._with(scale=self.scale * Fraction(factor))

    def shifted(self, amount: Any) -> "Noise":
        """The noise plus a number; only a logarithm has a use for that."""
        if not isinstance(amount, (int, float, Fraction)) or self.scale != 1 or "log" not in self.form:
            self._refuse()
        gain = float(amount) if (self.form == "log speed") == (self.sign > 0) else -float(amount)
        if math.isnan(gain) or gain == math.inf:
            self._refuse()
        return self._with(log_weight=self.log_weight + gain)

    def __mul__(self, factor: Any) -> "Noise":
        return self.scaled(factor)

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> "Noise":
        if self.form == "time" and factor == 0:
            return self._with(weight=0)  # never arrives
        return self.scaled(1 / Fraction(factor)) if factor and math.isfinite(factor) else self._refuse()

    def __rtruediv__(self, factor: Any) -> "Noise":
        if self.form not in ("time", "speed") or self.sign < 0:
            self._refuse()
        turned = self._with(form="speed" if self.form == "time" else "time")
        return turned.scaled(factor)

    def __add__(self, amount: Any) -> "Noise":
        return self.shifted(amount)

    __radd__ = __add__

    def __sub__(self, amount: Any) -> "Noise":
        return self.shifted(-amount)

    def __rsub__(self, amount: Any) -> "Noise":
        return (-self).shifted(amount)

    def __neg__(self) -> "Noise":
        return self._with(sign=-self.sign)

    def log(self) -> "Noise":
        """The logarithm of a time or of a speed."""
        if self.sign < 0 or self.form not in ("time", "speed"):
            self._refuse()
        return self._with(form=f"log {self.form}")

    def __repr__(self) -> str:
        return f"<noise: {'−' if self.sign < 0 else ''}{self.form}>"

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __bool__ = __float__ = __int__ = __abs__ = _refuse


class LogUniform:
    """The logarithm of a lazy uniform: compared with a threshold, or turned into noise.

    log u < t is u < exp t, with exp t to the precision of a float. Any arithmetic makes noise of it, since
    −log u is an exponential.

    Parameters
    ----------
    uniform : LazyUniform
    """

    __slots__ = ("_uniform",)

    def __init__(self, uniform: Any) -> None:
        self._uniform = uniform

    def _threshold(self, other: Any) -> Any:
        return (
            math.exp(min(float(other), 1.0)) if isinstance(other, (int, float, Fraction)) else NotImplemented
        )

    def __lt__(self, other: Any) -> Any:
        return NotImplemented if (t := self._threshold(other)) is NotImplemented else self._uniform < t

    def __gt__(self, other: Any) -> Any:
        return NotImplemented if (t := self._threshold(other)) is NotImplemented else self._uniform > t

    __le__, __ge__ = __lt__, __gt__

    def _noise(self) -> Noise:
        self._uniform._path.spend(self._uniform._which)
        return Noise(self._uniform._path, sign=-1)

    def __neg__(self) -> Noise:
        return -self._noise()

    def __mul__(self, factor: Any) -> Any:
        return self._noise() * factor

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> Any:
        return self._noise() / factor

    def log(self) -> Noise:
        return self._noise().log()  # of a negative number: refused

    def _refuse(self, *_: Any) -> Any:
        self._noise()._refuse()

    __add__ = __radd__ = __sub__ = __rsub__ = __rtruediv__ = __eq__ = __bool__ = __float__ = __int__ = _refuse


def winner(entries: Sequence[Any], uniform: Callable[[], Any], largest: bool = True) -> int:
    """The position of the largest entry, drawn with one uniform.

    Parameters
    ----------
    entries : sequence
        `Noise` of one form, each from an exponential of its own; numbers only where they must lose.
    uniform : callable
        () -> a uniform, lazy or not.
    largest : bool
        False for the smallest.

    Returns
    -------
    int
        Position i with probability w_i / Σ w; the first if no weight is positive, as arg-max has it.

    Raises
    ------
    Inexact
        If the entries are no race, or one has raced before.
    """
    noises = [entry for entry in entries if isinstance(entry, Noise)]
    first = noises[0]
    faster_is_larger = (first.form in ("speed", "log speed")) == (first.sign > 0)
    for entry in entries:
        if not isinstance(entry, Noise):
            hopeless = -math.inf if "log" in first.form or first.sign < 0 else 0
            if not (faster_is_larger and largest and isinstance(entry, (int, float)) and entry <= hopeless):
                first._refuse()
        elif (entry.form, entry.sign, entry.scale) != (first.form, first.sign, first.scale):
            first._refuse()
        elif entry.origin[0]:
            first._path.refuse(
                "noise that had decided one race was raced again: the second outcome depends on the first"
            )
        else:
            entry.origin[0] = True  # also tells two entries made of one exponential
    if faster_is_larger != largest:
        first._path.refuse("the loser of a race was asked for; only its winner is followed")
    weights = _weights(entries)
    if sum(weights):
        return choose(weights, uniform)
    return 0 if len(noises) == len(entries) else first._refuse()


def _weights(entries: Sequence[Any]) -> list[Fraction]:
    """Weights as Fractions; a factor given as a logarithm is put in to the precision of a float."""
    logs = [e.log_weight for e in entries if isinstance(e, Noise) and e.weight and e.log_weight > -math.inf]
    top = max(logs, default=0.0)
    return [
        e.weight * Fraction(math.exp(e.log_weight - top)) if isinstance(e, Noise) else Fraction(0)
        for e in entries
    ]


def choose(weights: Sequence[Fraction], uniform: Callable[[], Any]) -> int:
    """A position with probability proportional to its weight, by bisection on the cumulative sums.

    Parameters
    ----------
    weights : sequence of Fraction
        Non-negative, not all 0.
    uniform : callable
        () -> a uniform, lazy or not.

    Returns
    -------
    int
        Of a positive weight.
    """
    positions = [position for position, weight in enumerate(weights) if weight]
    *sums, total = accumulate(weights[position] for position in positions)
    return positions[bisect_right([bound / total for bound in sums], uniform())]

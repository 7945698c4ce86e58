"""What is handed to a program in place of a generator, so that its draws are lazy.

`LazyGenerator` is a `numpy.random.Generator` and `LazyRandom` a `random.Random`, as far as a program can
tell; both draw from a `Path`. What cannot be followed refuses to answer.
"""

import random
from collections.abc import Callable, Collection, Iterable
from typing import Any, NoReturn, Self

import numpy as np

from specdecode.exact.uniforms import Inexact, Path, as_fraction

__all__ = ["LazyGenerator", "LazyRandom", "Numbers"]


class Numbers:
    """In the place of a path: plain floats, those given, then one half; `asked` counts them."""

    def __init__(self, numbers: Iterable[float]) -> None:
        self.asked = 0
        self._numbers = iter(numbers)

    def uniform(self) -> float:
        """The next number."""
        self.asked += 1
        return next(self._numbers, 0.5)

    def refuse(self, why: str) -> NoReturn:
        """Raise `Inexact`."""
        raise Inexact(why)


class LazyGenerator(np.random.Generator):
    """A `numpy.random.Generator` whose uniforms are lazy.

    Offers random, uniform, integers, choice and multinomial with n = 1. Every other draw raises
    `Inexact`: an inherited one would return real randomness.
    """

    def __init__(self, path: Path | Numbers) -> None:
        super().__init__(_UNUSED)
        self._path = path

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        if np.dtype(dtype) != np.float64:
            self._path.refuse("random(dtype=float32) has uniforms of 24 bits; use random() in float64")
        if out is not None:
            self._path.refuse("random(out=…) would store floats; use random(size)")
        return self._fill(size, self._path.uniform)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return self._fill(
            size, lambda: self._path.uniform() * (as_fraction(high) - as_fraction(low)) + as_fraction(low)
        )

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        low, high = (0, low) if high is None else (low, high)
        count = int(high) - int(low) + bool(endpoint)
        if count < 1:
            raise ValueError(f"integers from {low} to {high}: nothing to choose from")
        whole = np.dtype(dtype).type  # as NumPy does, which some code relies on by calling .item()
        return self._fill(size, lambda: whole(int(low) + int(self._path.uniform() * count)), dtype)

    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        if axis != 0 or (size is not None and not replace):
            self._path.refuse("choice(axis=…) and choice(replace=False) are not followed; draw one at a time")
        items = np.arange(a) if np.ndim(a) == 0 else a
        if p is None:
            return self._fill(size, lambda: items[self.integers(len(items))], getattr(items, "dtype", object))
        cumulative = np.cumsum(p)
        wide = getattr(p, "dtype", None) not in (np.float32, np.float16)
        within = np.sqrt(np.finfo(np.float64 if wide else p.dtype).eps)  # as NumPy allows
        if len(cumulative) != len(items) or not (np.min(p) >= 0 and abs(cumulative[-1] - 1) < within):
            raise ValueError(
                f"choice: p is {np.asarray(p).tolist()}; want {len(items)} probabilities that sum to 1"
            )
        cumulative = cumulative / cumulative[-1]  # as NumPy does it

        def chosen() -> Any:
            u: Any = self._path.uniform()
            return items[int(np.searchsorted(cumulative, u, side="right"))]

        return self._fill(size, chosen, getattr(items, "dtype", object))

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        if n != 1 or size is not None:
            self._path.refuse("multinomial is followed for n = 1 and no size")
        counts = np.zeros(len(pvals), dtype=np.int64)
        counts[self.choice(len(pvals), p=pvals)] = 1
        return counts

    def __repr__(self) -> str:
        return "LazyGenerator"  # the inherited one names a bit generator that is never drawn from

    __str__ = __repr__

    def _fill(self, size: Any, draw: Callable[[], Any], dtype: Any = object) -> Any:
        if size is None:
            return draw()
        drawn = np.empty(size, dtype=dtype)
        for index in np.ndindex(drawn.shape):
            drawn[index] = draw()
        return drawn


_UNUSED = np.random.PCG64(0)  # a Generator cannot be made without one; nothing ever draws from it


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._path.refuse(
            f"rng.{name} is not followed exactly; draw with random, uniform, integers or choice(p=…)"
        )

    return refuse


def _refuse_the_rest(cls: type, base: type, followed: Collection[str] = ()) -> None:
    """Every public name of `base` that `cls` neither defines nor rightly inherits refuses to answer.

    So do copies: a copy of a generator repeats the draws of the original, which no path can follow.
    """
    for name in ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__"):
        setattr(cls, name, _refusing(name))
    for name in dir(base):
        if not name.startswith("_") and name not in vars(cls) and name not in followed:
            refuse = _refusing(name)
            setattr(cls, name, refuse if callable(getattr(base, name)) else property(refuse))


_refuse_the_rest(LazyGenerator, np.random.Generator)


class LazyRandom(random.Random):
    """A `random.Random` whose uniforms are lazy.

    Offers random, choice, choices, randint, randrange, sample, shuffle and uniform; every other draw
    raises `Inexact`.
    """

    def __new__(cls, path: Path) -> Self:
        return super().__new__(cls)

    def __init__(self, path: Path) -> None:
        self._path = path

    def random(self) -> Any:
        return self._path.uniform()

    def _randbelow(self, n: int) -> int:
        return int(self.random() * n)


# These draw through random() and _randbelow() alone.
_refuse_the_rest(
    LazyRandom, random.Random, {"choice", "choices", "randint", "randrange", "sample", "shuffle", "uniform"}
)

"""What is handed to a program in place of a generator, so that its draws are lazy.

`LazyGenerator` is a `numpy.random.Generator` and `LazyRandom` a `random.Random`, as far as a program can
tell; both draw from a `Path`. What cannot be followed refuses to answer. Made of `Numbers` instead, the
same generators hand over real floats and real arrays of them: that is how a path is played again with what a
program gets in earnest.
"""

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NoReturn, Self

import numpy as np

from specdecode.exact.functions import exponential, gumbel, winner
from specdecode.exact.uniforms import Inexact, Lazy, Path, as_number

__all__ = ["LazyArray", "LazyGenerator", "LazyRandom", "Numbers", "elementwise"]


class Numbers:
    """In the place of a path: plain floats, those given, then one half; `asked` counts them."""

    def __init__(self, numbers: Iterable[float]) -> None:
        self.asked, self.watched = 0, False
        self._numbers = iter(numbers)

    def uniform(self) -> float:
        """The next number."""
        self.asked += 1
        return next(self._numbers, 0.5)

    def refuse(self, why: str, kind: type[Exception] = Inexact) -> NoReturn:
        """Raise `kind`."""
        raise kind(why)


class LazyArray(np.ndarray):
    """An array of lazy numbers, or of lazy and known ones: elementwise it does what its entries do."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return elementwise(ufunc, method, inputs, kwargs)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Itself as floats, for lazy numbers are; whole numbers as they are rounded towards 0."""
        kind = np.dtype(dtype).kind
        if kind == "f":
            return self.copy()
        if kind in "iu":
            return np.asarray(np.frompyfunc(int, 1, 1)(self.view(np.ndarray)), dtype=dtype)
        return super().astype(dtype, *args, **kwargs)

    def argmin(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        """As NumPy's; who wins a race of noise is one decision."""
        return self._winner(np.ndarray.argmin, True, axis, out, keepdims)

    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        """As NumPy's; who wins a race of noise is one decision."""
        return self._winner(np.ndarray.argmax, False, axis, out, keepdims)

    def _winner(self, plainly: Callable[..., Any], smallest: bool, axis: Any, out: Any, keepdims: Any) -> Any:
        entries = self.view(np.ndarray)
        rows = entries.reshape(1, -1) if axis is None else np.moveaxis(entries, axis, -1)
        found = np.empty(rows.shape[:-1], dtype=np.int64)
        for place in np.ndindex(found.shape):
            position = winner(list(rows[place]), smallest)
            found[place] = plainly(rows[place]) if position is None else position
        if keepdims or out is not None:
            return plainly(entries, axis=axis, out=out, keepdims=keepdims)
        return found[0] if axis is None else found[()]


_FINITE = {np.isfinite: True, np.isnan: False, np.isinf: False}


def elementwise(ufunc: Any, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A function of NumPy's on arrays with lazy entries: on each by itself, a function of its own name.

    Lazy numbers count as finite.
    """
    given = [_objects(value) for value in inputs]
    if kwargs.get("out") is not None:
        kwargs = kwargs | {"out": tuple(_objects(value) for value in kwargs["out"])}
    if method == "__call__" and ufunc.nin == 1 and ufunc not in (np.negative, np.positive, np.absolute):

        def apply(entry: Any) -> Any:
            if not isinstance(entry, Lazy):
                return ufunc(np.float64(entry))
            return _FINITE[ufunc] if ufunc in _FINITE else _of_entry(ufunc, entry)

        found: Any = np.frompyfunc(apply, 1, 1)(given[0], **kwargs)
        return np.asarray(found, dtype=bool)[()] if ufunc in _FINITE else _as_lazy(found)
    return _as_lazy(getattr(ufunc, method)(*given, **kwargs))


Lazy.elementwise = staticmethod(elementwise)


def _of_entry(ufunc: Any, entry: Lazy) -> Any:
    if ufunc in (np.floor, np.ceil, np.trunc):
        return float(getattr(entry, f"__{ufunc.__name__}__")())
    return getattr(entry, ufunc.__name__)()


def _objects(value: Any) -> Any:
    if isinstance(value, Lazy):
        found = np.empty((), dtype=object)
        found[()] = value
        return found
    return value.view(np.ndarray) if isinstance(value, LazyArray) else value


def _as_lazy(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(map(_as_lazy, found))
    return found.view(LazyArray) if isinstance(found, np.ndarray) and found.dtype == object else found


class LazyGenerator(np.random.Generator):
    """A `numpy.random.Generator` whose uniforms are lazy.

    Offers random, uniform, integers, choice, multinomial, exponential, standard_exponential and gumbel. Every
    other draw raises `Inexact`: an inherited one would return real randomness.
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
        return self._each(lambda a, b: self._path.uniform() * (b - a) + a, size, low, high)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        low, high = (0, low) if high is None else (low, high)
        whole = np.dtype(dtype).type  # as NumPy does, which some code relies on by calling .item()

        def drawn(first: Any, last: Any) -> Any:
            count = int(last) - int(first) + bool(endpoint)
            if count < 1:
                raise ValueError(f"integers from {first} to {last}: nothing to choose from")
            return whole(int(first) + int(self._path.uniform() * count))

        return self._each(drawn, size, low, high, dtype=dtype)

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
        dtype = getattr(items, "dtype", object)
        if p is None:
            return self._fill(size, lambda: items[self.integers(len(items))], dtype)
        cumulative = self._cumulative(p, len(items))

        def chosen() -> Any:
            u: Any = self._path.uniform()
            return items[int(np.searchsorted(cumulative, u, side="right"))]

        return self._fill(size, chosen, dtype)

    def _cumulative(self, p: Any, count: int) -> np.ndarray:
        """Cumulative sums of p, as NumPy makes them: in float64, divided by the last."""
        row = np.asarray(p)
        narrow = row.dtype.kind == "f" and row.dtype.itemsize < 8
        within = np.sqrt(np.finfo(row.dtype if narrow else np.float64).eps)  # as NumPy allows
        cumulative = np.cumsum(row.astype(float) if row.dtype.kind == "f" else row)
        if len(cumulative) != count or not (np.min(row) >= 0 and abs(cumulative[-1] - 1) < within):
            raise ValueError(f"choice: p is {row.tolist()}; want {count} probabilities that sum to 1")
        return np.asarray(cumulative / cumulative[-1])

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        rows = np.asarray(pvals)
        if np.ndim(n) or size is not None:
            self._path.refuse("multinomial is followed for one n and without a size; draw one row at a time")
        counts = np.zeros(rows.shape, dtype=np.int64)
        for place in np.ndindex(rows.shape[:-1]):
            for _ in range(int(n)):
                counts[(*place, self.choice(rows.shape[-1], p=rows[place]))] += 1
        return counts

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None
    ) -> Any:
        if np.dtype(dtype) != np.float64 or out is not None:
            self._path.refuse("standard_exponential is followed in float64 and without out=…")
        return self._fill(size, lambda: exponential(self._path.uniform()))

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        return self._each(lambda s: exponential(self._path.uniform()) * s, size, scale)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._each(lambda a, s: gumbel(self._path.uniform()) * s + a, size, loc, scale)

    def __repr__(self) -> str:
        return "LazyGenerator"  # the inherited one names a bit generator that is never drawn from

    __str__ = __repr__

    def _fill(self, size: Any, draw: Callable[[], Any], dtype: Any = object) -> Any:
        if size is None:
            return draw()
        drawn = np.empty(size, dtype=dtype)
        for index in np.ndindex(drawn.shape):
            drawn[index] = draw()
        if dtype is not object:
            return drawn
        # Real numbers come as NumPy hands them over: in an array of floats.
        return drawn.view(LazyArray) if any(isinstance(x, Lazy) for x in drawn.flat) else drawn.astype(float)

    def _each(self, draw: Callable[..., Any], size: Any, *parameters: Any, dtype: Any = object) -> Any:
        """A draw for each set of parameters, which may be arrays."""
        if all(np.ndim(parameter) == 0 for parameter in parameters):
            values = [as_number(parameter) for parameter in parameters]
            return self._fill(size, lambda: draw(*values), dtype)
        given = [np.asarray(parameter) for parameter in parameters]
        shape = np.broadcast_shapes(*(each.shape for each in given))
        if size is not None:
            shape = np.broadcast_shapes(shape, tuple(np.atleast_1d(size)))
        sets = zip(*(np.broadcast_to(each, shape).flat for each in given))
        return self._fill(shape, lambda: draw(*map(as_number, next(sets))), dtype)


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

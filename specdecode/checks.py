"""What may enter: rows, token ids, counts and numbers, checked once where they come in.

A **row** is a distribution over the vocabulary: finite, non-negative, and summing to 1 within

- nothing at all for rational entries (`Fraction`, `int`): the sum is exactly 1;
- max(V, 16) · ε otherwise, never more than 0.01, with ε the spacing of the row's own dtype
  (2⁻⁵² float64, 2⁻²³ float32, 2⁻⁷ for the two-byte types).

A row narrower than float64 is widened and divided by its sum here, before anything is drawn from it
or tested against it, so that both see the same numbers. A float64 or rational row passes untouched.

A row is checked at the door and not again: methods of this package that hand over rows they have checked are
marked by `vouched`, and whoever calls one asks `is_vouched_for`.
"""

import operator
from collections.abc import Callable, Collection, Sequence
from numbers import Rational
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "Row",
    "Rows",
    "TokenIds",
    "as_count",
    "as_drafted",
    "as_level",
    "as_number",
    "as_row",
    "as_rows",
    "as_stop",
    "as_token",
    "as_tokens",
    "is_vouched_for",
    "vouched",
]

# What may be handed in; what comes out of a check is an array. ArrayLike would leave out Fractions.
Row = Sequence[Any] | np.ndarray  # one row, shape (V,)
Rows = Sequence[Any] | np.ndarray  # a stack of them, shape (n, V), or a lazy sequence
TokenIds = Sequence[int]

Number = TypeVar("Number")
Method = TypeVar("Method", bound=Callable[..., Any])

_SPACING = {2: 2.0**-7, 4: 2.0**-23}


def as_row(values: Row, name: str, vocab_size: int | None = None) -> np.ndarray:
    """One row as an array the rule can trust.

    Parameters
    ----------
    values : array_like, shape (V,)
        Candidate probabilities. Never written to.
    name : str
        What to call the row in an error.
    vocab_size : int, optional
        Required V.

    Returns
    -------
    ndarray, shape (V,)
        float64, or object when the entries are rational. `values` itself where nothing had to change.

    Raises
    ------
    ValueError
        If the shape is wrong, an entry is negative or not finite, or the sum is off; names the
        entry and the number.

    Examples
    --------
    >>> as_row([0.5, 0.6, -0.1], "target row")
    Traceback (most recent call last):
    ValueError: target row: entry 2 is -0.1; want a finite probability, 0 or more
    """
    return _distributions(values, name, (vocab_size,))


def as_rows(values: Rows, name: str, n: int, vocab_size: int) -> np.ndarray:
    """A stack of rows, each as `as_row` would have it.

    Parameters
    ----------
    values : array_like, shape (n, V)
        One row a position; n may be 0.
    name : str
        What to call the stack in an error.
    n, vocab_size : int
        Required shape.

    Returns
    -------
    ndarray, shape (n, V)
        float64 or object.

    Raises
    ------
    ValueError
        As `as_row`; names the row, the entry and the number.

    Examples
    --------
    >>> as_rows([[0.5, 0.5], [0.5, 0.4]], "target rows", 2, 2)
    Traceback (most recent call last):
    ValueError: target rows: row 1 sums to 0.9; want 1 within 3.6e-15
    """
    return _distributions(values, name, (n, vocab_size))


def _distributions(values: Row | Rows, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != shape and (
        array.ndim != len(shape) or any(want not in (None, have) for want, have in zip(shape, array.shape))
    ):
        want = ", ".join("V" if size is None else str(size) for size in shape)
        raise ValueError(f"{name}: shape {array.shape}; want ({want}{',' * (len(shape) == 1)})")
    if array.dtype.kind not in "fiuOV":  # V: the kind of bfloat16, which NumPy itself does not know
        raise ValueError(f"{name}: entries of type {array.dtype}; want floats or Fractions")
    tolerance = _tolerance(array)
    if array.dtype == object:
        numbers = array
        # Each by itself: entries may be unknown numbers, whose order among themselves is nobody's business.
        right = np.all(numbers >= 0) and np.all(numbers <= 1 + tolerance)
        right = right and np.all(abs(numbers.sum(axis=-1) - 1) <= tolerance)
    else:
        numbers = array.astype(float, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):  # neither infinity nor ∞ − ∞ is 1
            sums = np.add.reduce(numbers, axis=-1)
        # A NaN fails every comparison, and the sum of a row without negative entries bounds each of them.
        off = abs(sums - 1)
        right = np.minimum.reduce(numbers, axis=None, initial=0.0) >= 0
        right = right and (off <= tolerance if numbers.ndim == 1 else np.all(off <= tolerance))
    if not right:
        raise ValueError(f"{name}: {_fault(numbers, tolerance)}")
    if array.dtype.kind in "fV" and array.dtype.itemsize < 8:
        numbers /= sums[..., np.newaxis]  # widened above, so nobody else's array
    return numbers


def _tolerance(array: np.ndarray) -> float:
    if array.dtype == object and all(isinstance(entry, Rational) for entry in array.flat):
        return 0
    spacing = _SPACING.get(array.dtype.itemsize, 2.0**-52)
    return min(0.01, max(int(array.shape[-1]), 16) * spacing)


def _fault(numbers: np.ndarray, tolerance: float) -> str:
    """Say where a stack of rows first fails to be distributions."""
    for index, row in enumerate(np.atleast_2d(numbers)):
        where = f"row {index}, " if numbers.ndim == 2 else ""
        for token, entry in enumerate(row):
            if not 0 <= entry < float("inf"):
                return f"{where}entry {token} is {entry}; want a finite probability, 0 or more"
        with np.errstate(over="ignore"):
            total = row.sum()
        if not abs(total - 1) <= tolerance:
            within = f" within {tolerance:.2g}" if tolerance else " exactly"
            if abs(total - 1) < 0.01 and tolerance:
                within += " (divide it by its sum, or hand over float32 as float32)"
            return f"{where.replace(', ', ' ')}sums to {total}; want 1{within}"
    raise AssertionError("the rows are distributions")


_VOUCHED: dict[int, Any] = {}  # by identity, since a method may come from anything, hashable or not


def vouched(method: Method) -> Method:
    """Mark a method whose rows have been checked, once for all or on the way, and belong to the caller."""
    _VOUCHED[id(method)] = method
    return method


def is_vouched_for(method: Any) -> bool:
    """Whether a bound method is one that was marked, and no subclass or instance has put itself in between.

    Examples
    --------
    >>> from specdecode.models import MarkovModel
    >>> class Mine(MarkovModel):
    ...     pass
    >>> [is_vouched_for(kind([[1.0]]).next_dist) for kind in (MarkovModel, Mine)]
    [True, False]
    """
    function: Any = getattr(method, "__func__", None)
    return id(function) in _VOUCHED and vars(type(method.__self__)).get(function.__name__) is function


def as_token(value: Any, name: str, vocab_size: int) -> int:
    """A token id as a Python int in [0, V).

    Parameters
    ----------
    value : int or NumPy integer
    name : str
        What to call it in an error.
    vocab_size : int

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If it is not an integer, or outside the vocabulary; names the value and V.

    Examples
    --------
    >>> as_token(7, "prefix[0]", vocab_size=3)
    Traceback (most recent call last):
    ValueError: prefix[0] is 7; want a token id from 0 to 2
    """
    try:
        token = operator.index(value)
    except TypeError:
        token = -1
    if not 0 <= token < vocab_size:
        raise ValueError(f"{name} is {value!r}; want a token id from 0 to {vocab_size - 1}")
    return token


def as_tokens(values: Any, name: str, vocab_size: int) -> list[int]:
    """A sequence of token ids as a new list of Python ints.

    Parameters
    ----------
    values : sequence of int
        Possibly empty.
    name : str
    vocab_size : int

    Returns
    -------
    list of int

    Raises
    ------
    ValueError
        As `as_token`; names the position.
    """
    if isinstance(values, str) or not np.iterable(values):
        raise ValueError(f"{name} is {values!r}; want a sequence of token ids")
    return [as_token(value, f"{name}[{i}]", vocab_size) for i, value in enumerate(values)]


def as_drafted(value: Any, q: np.ndarray, name: str) -> int:
    """A drafted token as a Python int that its own draft row could have produced.

    Parameters
    ----------
    value : int
    q : ndarray, shape (V,)
        The draft row it claims to come from, already a row.
    name : str

    Returns
    -------
    int
        With q > 0 at it.

    Raises
    ------
    ValueError
        If it is outside the vocabulary, or q is 0 there: the row is then not the one it was drawn from.
    """
    token = as_token(value, name, len(q))
    if not q[token] > 0:
        raise ValueError(f"{name} is {token}, where its draft row has q = 0; want the row it was drawn from")
    return token


def as_stop(stop: int | Collection[int] | None, vocab_size: int) -> frozenset[int]:
    """Stop tokens, one id or a collection of them, as a frozenset of Python ints.

    Parameters
    ----------
    stop : None, int, or collection of int
    vocab_size : int

    Returns
    -------
    frozenset of int
        Empty for None.

    Raises
    ------
    ValueError
        If an id is outside the vocabulary.

    Examples
    --------
    >>> sorted(as_stop([2, 0], vocab_size=3)), as_stop(None, vocab_size=3)
    ([0, 2], frozenset())
    """
    if stop is None:
        return frozenset()
    collection = stop if np.iterable(stop) and not isinstance(stop, str) else [stop]
    return frozenset(as_token(value, "stop", vocab_size) for value in collection)


def as_count(value: Any, name: str, least: int) -> int:
    """A whole number of at least `least`, as a Python int.

    Parameters
    ----------
    value : int or NumPy integer
    name : str
    least : int

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If it is not a whole number, or smaller; names it.

    Examples
    --------
    >>> as_count(0, "k", least=1)
    Traceback (most recent call last):
    ValueError: k is 0; want a whole number, 1 or more
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if count < least or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; want a whole number, {least} or more")
    return count


def as_number(
    value: Number,
    name: str,
    least: float,
    most: float | None = None,
    *,
    open_below: bool = False,
    open_above: bool = False,
) -> Number:
    """A number in a range, itself: a Fraction stays a Fraction.

    Parameters
    ----------
    value : float, Fraction, or anything that compares with numbers
    name : str
        What to call it in an error.
    least, most : number
        The ends of the range. Without `most` any finite number will do; infinity is one that may be reached.
    open_below, open_above : bool
        Whether the number must not equal that end.

    Returns
    -------
    number
        `value`.

    Raises
    ------
    ValueError
        If it is not a number, NaN, or out of range; names it and the range.

    Examples
    --------
    >>> as_number(0.5, "weight", 0, 1)
    0.5
    >>> as_number(0, "lenience", 0, 1, open_below=True)
    Traceback (most recent call last):
    ValueError: lenience is 0; want a number above 0, and at most 1
    """
    number: Any = value
    top = float("inf") if most is None else most
    try:
        inside = (least < number if open_below else least <= number) and (
            number < top if open_above or most is None else number <= top
        )
    except TypeError:  # it does not compare with numbers
        inside = False
    if not inside:
        raise ValueError(f"{name} is {value}; want {_range(least, most, open_below, open_above)}")
    return value


def _range(least: float, most: float | None, open_below: bool, open_above: bool) -> str:
    if most is None or most == float("inf"):
        kind = "a finite number" if most is None else "a number"
        return f"{kind} above {least}" if open_below else f"{kind}, {least} or more"
    if open_below and open_above:
        return f"a number between {least} and {most}"
    if open_above:
        return f"a number from {least}, and below {most}"
    return f"a number above {least}, and at most {most}" if open_below else f"a number from {least} to {most}"


def as_level(alpha: Number) -> Number:
    """The level of a statistical test, a number strictly between 0 and 1.

    Raises
    ------
    ValueError
        As `as_number`.

    Examples
    --------
    >>> as_level(1)
    Traceback (most recent call last):
    ValueError: alpha is 1; want a number between 0 and 1
    """
    return as_number(alpha, "alpha", 0, 1, open_below=True, open_above=True)

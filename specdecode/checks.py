"""What may enter: rows, token ids, counts and numbers, checked once where they come in.

A **row** is a distribution over the vocabulary: finite, non-negative, and summing to 1 within

- nothing at all for rational entries (`Fraction`, `int`): the sum is exactly 1;
- max(V, 16) · ε otherwise, never more than 0.01, with ε the spacing of the row's own dtype
  (2⁻⁵² float64, 2⁻²³ float32, 2⁻⁷ for the two-byte types).

A row narrower than float64 is widened and divided by its sum here, before anything is drawn from it
or tested against it, so that both see the same numbers. A float64 or rational row passes untouched.

What would lose in an array what it says is refused: a mask, the fields of a structured array, the digits of
a Decimal. A tensor of PyTorch enters as the numbers it holds, whatever its type, device and gradient.

A row is checked at the door and not again: methods of this package that hand over rows they have checked are
marked by `vouched`, and whoever calls one asks `is_vouched_for`.
"""

import operator
import sys
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from decimal import Decimal
from numbers import Rational
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "LONGEST",
    "Row",
    "Rows",
    "TokenIds",
    "as_count",
    "as_draft_length",
    "as_drafted",
    "as_level",
    "as_list",
    "as_number",
    "as_row",
    "as_rows",
    "as_stop",
    "as_token",
    "as_tokens",
    "is_vouched_for",
    "shown",
    "vouched",
]

LONGEST = 10_000  # tokens of a round, or candidates for one: more is a slip of the pen, and would not end

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
    array, spacing = _read(values, name)
    if array.shape != shape and (
        array.ndim != len(shape) or any(want not in (None, have) for want, have in zip(shape, array.shape))
    ):
        want = ", ".join("V" if size is None else str(size) for size in shape)
        what = "" if array.ndim else f"{shown(values)} has "
        raise ValueError(f"{name}: {what}shape {array.shape}; want ({want}{',' * (len(shape) == 1)})")
    if array.dtype.kind not in "fiuO" and not _is_foreign(array.dtype):
        raise ValueError(f"{name}: entries of type {shown(array.dtype, str)}; want floats or Fractions")
    rational = array.dtype == object and all(isinstance(entry, Rational) for entry in array.flat)
    tolerance = 0 if rational else min(0.01, max(int(array.shape[-1]), 16) * spacing)
    if array.dtype == object:
        numbers = array
        right: Any = _are_distributions(numbers, tolerance)
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


def _read(values: Any, name: str) -> tuple[np.ndarray, float]:
    """The values as an array, and the spacing of the numbers that they were."""
    if type(values) is np.ndarray:
        return values, _SPACING.get(values.dtype.itemsize, 2.0**-52)
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            hidden = np.argwhere(np.ma.getmaskarray(values))[0].tolist()
            where = f"row {hidden[0]}, entry {hidden[1]}" if len(hidden) == 2 else f"entry {[*hidden, 0][0]}"
            raise ValueError(f"{name}: {where} is masked; want a number, 0 for what must not come out")
        values = values.data
    elif hasattr(values, "detach"):  # a tensor of PyTorch
        return _of_tensor(values, name)
    elif isinstance(values, list | tuple) and any(
        issubclass(kind, np.ma.MaskedArray) or hasattr(kind, "detach") for kind in set(map(type, values))
    ):
        read = [_read(row, f"{name}[{i}]") for i, row in enumerate(values)]
        return _as_array([array for array, _ in read], name), max(spacing for _, spacing in read)
    array = _as_array(values, name)
    return array, _SPACING.get(array.dtype.itemsize, 2.0**-52)


def _as_array(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # rows of different lengths, arrays within arrays
        raise ValueError(f"{name} is {shown(values)}; want numbers, as many in every row") from None


def _of_tensor(tensor: Any, name: str) -> tuple[np.ndarray, float]:
    """`_read` of a tensor; NumPy does not know all of PyTorch's types."""
    spacing = _SPACING.get(tensor.element_size(), 2.0**-52)
    try:
        plain = tensor.detach().cpu()
        if plain.is_floating_point() and plain.element_size() < 4:
            plain = plain.float()
        return np.asarray(plain), spacing
    except (TypeError, RuntimeError):  # it holds no numbers, or not one by one
        kind = f"{tensor.layout} on {tensor.device}"
        raise ValueError(f"{name} is a tensor, {kind}; want a dense one that holds its numbers") from None


def _is_foreign(dtype: np.dtype[Any]) -> bool:
    """Whether it is a type of numbers that NumPy does not know itself, such as bfloat16."""
    return dtype.kind == "V" and dtype.type is not np.void


def _are_distributions(numbers: np.ndarray, tolerance: float) -> bool:
    """For entries of any type; False too where they do not compare, or do not add up."""
    if tolerance and any(isinstance(entry, Decimal) for entry in numbers.flat):
        return False
    try:
        # Each by itself: entries may be unknown numbers, whose order among themselves is nobody's business.
        with np.errstate(invalid="ignore"):
            right = np.all(numbers >= 0) and np.all(numbers <= 1 + tolerance)
        return bool(right and np.all(abs(numbers.sum(axis=-1) - 1) <= tolerance))
    except (TypeError, OverflowError):
        return False


def _fault(numbers: np.ndarray, tolerance: float) -> str:
    """Say where a stack of rows first fails to be distributions."""
    for index, row in enumerate(np.atleast_2d(numbers)):
        where = f"row {index}, " if numbers.ndim == 2 else ""
        for token, entry in enumerate(row):
            try:
                inside, want = 0 <= entry < float("inf"), "a finite probability, 0 or more"
            except TypeError:
                inside, want = False, "a float, an int or a Fraction"
            if isinstance(entry, Decimal):
                inside, want = False, "a float or a Fraction, with which Decimals do not mix"
            if not inside:
                return f"{where}entry {token} is {shown(entry, str)}; want {want}"
        try:
            with np.errstate(over="ignore"):
                total = row.sum()
        except OverflowError:  # an int that no float can hold, beside a float
            total = float("inf")
        if not abs(total - 1) <= tolerance:
            within = f" within {tolerance:.2g}" if tolerance else " exactly"
            if abs(total - 1) < 0.01 and tolerance:
                within += " (divide it by its sum, or hand over float32 as float32)"
            return f"{where.replace(', ', ' ')}sums to {shown(total, str)}; want 1{within}"
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
        raise ValueError(f"{name} is {shown(value)}; want a token id from 0 to {vocab_size - 1}")
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
    return [as_token(value, f"{name}[{i}]", vocab_size) for i, value in enumerate(as_list(values, name))]


def as_list(values: Any, name: str, what: str = "token ids") -> list[Any]:
    """What should be a sequence as a new list; the entries are not looked at.

    Raises
    ------
    ValueError
        If it is none: a set has no order, and a text is not its tokens.

    Examples
    --------
    >>> as_list({2, 1}, "prefix")
    Traceback (most recent call last):
    ValueError: prefix is {1, 2}; want a sequence of token ids
    """
    if type(values) in (list, tuple):
        return [*values]
    if isinstance(values, str | Set | Mapping) or not np.iterable(values):
        raise ValueError(f"{name} is {shown(values)}; want a sequence of {what}")
    return list(values)


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
    collection = stop if np.iterable(stop) and not isinstance(stop, str | Mapping) else [stop]
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
        raise ValueError(f"{name} is {shown(value)}; want a whole number, {least} or more")
    return count


def as_draft_length(value: Any, name: str = "k", least: int = 1) -> int:
    """A number of tokens to draft, or of candidates, at most `LONGEST`.

    Raises
    ------
    ValueError
        As `as_count`.

    Examples
    --------
    >>> as_draft_length(10**9)
    Traceback (most recent call last):
    ValueError: k is 1000000000; want a whole number from 1 to 10000
    """
    count = as_count(value, name, least)
    if count > LONGEST:
        raise ValueError(f"{name} is {shown(count)}; want a whole number from {least} to {LONGEST}")
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
    top = sys.float_info.max if most is None else most
    try:
        inside = (
            not isinstance(number, Decimal)  # which does not mix with floats and Fractions
            and (least < number if open_below else least <= number)
            and (number < top if open_above else number <= top)
            and bool(number <= sys.float_info.max or number == float("inf"))  # an int may be beyond floats
        )
    except (TypeError, ValueError):  # it does not compare with numbers, or is several
        inside = False
    if not inside:
        raise ValueError(f"{name} is {shown(value, str)}; want {_range(least, most, open_below, open_above)}")
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


def shown(value: object, spell: Callable[[Any], str] = repr) -> str:
    """Anyone's value as a message shows it: on one line, not too long, whatever its `repr` does.

    Examples
    --------
    >>> shown(np.eye(2)), len(shown(10**400))
    ('array([[1., 0.], [0., 1.]])', 80)
    """
    try:
        text = " ".join(spell(value).split())
    except Exception:  # an int of more digits than Python spells, an object that fails to say what it is
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:79]}…"

"""From a row to a token, and from a row to another row.

`draw` is the only place where randomness becomes a token. The other functions map a row to a row, so
that whatever shapes a distribution is applied before both the draw and the test. `Settings` has them all,
under the names and with the conventions of Hugging Face's generation settings.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, cast

import numpy as np

from specdecode.checks import Row, TokenIds, as_count, as_number, as_row, as_token, as_tokens, shown
from specdecode.rule import divide

__all__ = [
    "Settings",
    "certain",
    "draw",
    "inverse_cdf",
    "min_p",
    "suppress",
    "temperature",
    "top_k",
    "top_p",
    "uniform",
]

Setting = ParamSpec("Setting")


class Uniforms(Protocol):
    """Anything with random(), as `numpy.random.Generator` has it."""

    def random(self) -> Any: ...


def uniform(rng: Uniforms) -> Any:
    """One uniform of an rng: the only door through which this package draws.

    Parameters
    ----------
    rng : numpy.random.Generator, or anything with random()

    Returns
    -------
    number
        0 ≤ u < 1.

    Raises
    ------
    ValueError
        If `rng` has no random(), as a seed or a bit generator has none, or what that gives is no such number.

    Examples
    --------
    >>> uniform(0)
    Traceback (most recent call last):
    ValueError: rng is 0; want numpy.random.default_rng(0), or anything with random()
    """
    try:
        u = rng.random()
    except (AttributeError, TypeError):
        if hasattr(rng, "random") and not isinstance(rng, type):
            raise
        seed = rng if isinstance(rng, int) and rng > 0 else 0
        want = f"numpy.random.default_rng({shown(seed)}), or anything with random()"
        raise ValueError(f"rng is {shown(rng)}; want {want}") from None
    if type(u) is float and 0 <= u < 1:
        return u
    # That a lazy number lies in its range is asked where it is looked up alone: each question takes time.
    if type(u) is float or not hasattr(u, "__float__") or np.ndim(u):
        raise ValueError(f"rng.random() is {shown(u)}; want a uniform, 0 ≤ u < 1")
    return u


def draw(row: Row, u: Any) -> int:
    """Token drawn from a row with one uniform, min{x : F(x) > u}, F the cumulative sum of the row.

    Parameters
    ----------
    row : array_like, shape (V,)
        A distribution, float or rational.
    u : number
        One uniform, 0 ≤ u < 1.

    Returns
    -------
    int
        A token with row[token] > 0, for every u in range, 0 and 1 − 2⁻⁵³ included.

    Raises
    ------
    ValueError
        If `row` is not a distribution or `u` is out of range.

    Guarantee
    ---------
    The token `Generator.choice(V, p=row)` gives for the same uniform. The cumulative sum is divided
    by its own last entry, so rounding can neither run past the end nor wake a token of probability 0.

    Examples
    --------
    >>> [draw([0.25, 0.0, 0.75], u) for u in (0.0, 0.25, 1 - 2**-53)]
    [0, 2, 2]
    """
    return inverse_cdf(as_row(row, "row"), u)


def inverse_cdf(row: np.ndarray, u: Any) -> int:
    """`draw` for a row that has been checked, or was made from such: it is not looked at again."""
    if not ((type(u) is float and 0 <= u < 1) or _is_uniform(u)):
        raise ValueError(f"u is {shown(u, str)}; want a uniform, 0 ≤ u < 1")
    cumulative = row.cumsum()
    return int((cumulative / cumulative[-1]).searchsorted(u, side="right"))


def _is_uniform(u: Any) -> bool:
    try:
        inside: Any = 0 <= u < 1
    except (TypeError, ValueError):  # it does not compare with numbers, or is several
        return False
    return inside is True or (np.ndim(inside) == 0 and bool(inside))


_ON_CHECKED: dict[str, Callable[..., np.ndarray]] = {}  # the maps below, for rows that have been checked


def _checks_its_row(
    row_map: Callable[Concatenate[np.ndarray, Setting], np.ndarray],
) -> Callable[Concatenate[Row, Setting], np.ndarray]:
    """Put a door before the map of a row below."""

    @wraps(row_map)
    def checked(row: Row, *setting: Setting.args, **named: Setting.kwargs) -> np.ndarray:
        return row_map(as_row(row, "row"), *setting, **named)

    _ON_CHECKED[row_map.__name__] = row_map
    return cast(Callable[Concatenate[Row, Setting], np.ndarray], checked)


@_checks_its_row
def temperature(row: np.ndarray, t: float | None) -> np.ndarray:
    """The row at temperature t, proportional to row^(1/t).

    Parameters
    ----------
    row : array_like, shape (V,)
        A distribution.
    t : float or None
        t ≥ 0. None and 1 leave the row as it is; 0 puts all mass on its largest entry.

    Returns
    -------
    ndarray, shape (V,)
        A distribution with no more support than `row`; ties at t = 0 go to the lowest index. Rational
        rows stay rational at t = 0, 1 and None, and become float64 otherwise.

    Raises
    ------
    ValueError
        If `row` is not a distribution, or t is negative or not a finite number.

    Guarantee
    ---------
    Computed in logarithms from the largest entry down, so t = 1e-300 and t = 1e300 give finite rows.

    Examples
    --------
    >>> temperature([0.5, 0.25, 0.25], 0.5).round(3)
    array([0.667, 0.167, 0.167])
    >>> temperature([0.4, 0.4, 0.2], 0)
    array([1., 0., 0.])
    """
    if t is None or as_number(t, "temperature", 0) == 1:
        return row
    if t == 0:
        return certain(int(np.argmax(row)), len(row)).astype(row.dtype)
    with np.errstate(divide="ignore", over="ignore"):  # log 0 = −∞ stays impossible at every t
        logits = np.log(row.astype(float))
        weights = np.exp((logits - logits.max()) / float(t))
    shaped: np.ndarray = weights / weights.sum()
    return shaped


@_checks_its_row
def top_k(row: np.ndarray, k: int | None) -> np.ndarray:
    """The row on its k largest entries, renormalised.

    Parameters
    ----------
    row : array_like, shape (V,)
        A distribution, float or rational.
    k : int or None
        k ≥ 1; None and 0 leave the row as it is.

    Returns
    -------
    ndarray, shape (V,)
        Entries equal to the k-th largest stay, so more than k may. Rational rows stay rational.

    Raises
    ------
    ValueError
        If `row` is not a distribution, or k is not a whole number, 0 or more.

    Examples
    --------
    >>> top_k([0.5, 0.25, 0.25, 0.0], 2), top_k([0.75, 0.15, 0.1], 1)
    (array([0.5 , 0.25, 0.25, 0.  ]), array([1., 0., 0.]))
    """
    if k is None or as_count(k, "top_k", least=0) == 0:
        return row
    return _on(row, row >= np.sort(row)[-min(k, len(row))], f"top_k = {k}")


@_checks_its_row
def top_p(row: np.ndarray, mass: Any) -> np.ndarray:
    """The row on the fewest of its largest entries that have at least this mass, renormalised.

    Parameters
    ----------
    row : array_like, shape (V,)
        A distribution, float or rational.
    mass : number or None
        0 < mass ≤ 1; None and 1 leave the row as it is. A boundary that is to be met exactly wants a
        Fraction: the float 0.9 is a little more than 9/10.

    Returns
    -------
    ndarray, shape (V,)
        Of equal entries at the edge the ones of higher index stay, as where the row is sorted upwards and cut
        from below. At least one entry stays. Rational rows stay rational.

    Raises
    ------
    ValueError
        If `row` is not a distribution, or mass is outside (0, 1].

    References
    ----------
    Holtzman et al. (2020), section 3.1.

    Examples
    --------
    >>> top_p([0.5, 0.3, 0.2], 0.7)
    array([0.625, 0.375, 0.   ])
    """
    if mass is None or as_number(mass, "top_p", 0, 1, open_below=True) == 1:
        return row
    order = np.argsort(row, kind="stable")
    keep = np.ones(len(row), dtype=bool)
    keep[order[:-1]] = np.cumsum(row[order])[:-1] > 1 - mass
    return _on(row, keep, f"top_p = {mass}")


@_checks_its_row
def min_p(row: np.ndarray, share: Any) -> np.ndarray:
    """The row on the entries of at least this share of the largest, renormalised.

    Parameters
    ----------
    row : array_like, shape (V,)
        A distribution, float or rational.
    share : number or None
        0 ≤ share ≤ 1; None and 0 leave the row as it is.

    Returns
    -------
    ndarray, shape (V,)
        Rational rows stay rational.

    Raises
    ------
    ValueError
        If `row` is not a distribution, or share is outside [0, 1].

    Examples
    --------
    >>> min_p([0.5, 0.3, 0.2], 0.5)
    array([0.625, 0.375, 0.   ])
    """
    if share is None or as_number(share, "min_p", 0, 1) == 0:
        return row
    return _on(row, row >= share * row.max(), f"min_p = {share}")


@_checks_its_row
def suppress(row: np.ndarray, tokens: Collection[int]) -> np.ndarray:
    """The row without some tokens, renormalised.

    Parameters
    ----------
    row : array_like, shape (V,)
        A distribution, float or rational.
    tokens : collection of int
        Ids that must not come out.

    Returns
    -------
    ndarray, shape (V,)
        Rational rows stay rational.

    Raises
    ------
    ValueError
        If `row` is not a distribution, an id is outside the vocabulary, or nothing is left.

    Examples
    --------
    >>> suppress([0.5, 0.25, 0.25], [0])
    array([0. , 0.5, 0.5])
    """
    ids = [as_token(token, "suppressed token", len(row)) for token in _collection(tokens)]
    return _on(row, ~np.isin(np.arange(len(row)), ids), f"suppress = {sorted(ids)}") if ids else row


def _collection(tokens: Any) -> Collection[int]:
    """The ids to suppress; what can be gone through once alone would be forgotten after the first row."""
    if not isinstance(tokens, Collection | np.ndarray) or isinstance(tokens, str | Mapping):
        raise ValueError(f"suppress is {shown(tokens)}; want a collection of token ids")
    return cast(Collection[int], tokens)


def certain(tokens: int | TokenIds, vocab_size: int) -> np.ndarray:
    """The row that is certain of a token, or one for each of several; integers, exact beside Fractions too.

    Raises
    ------
    ValueError
        If a token is outside the vocabulary.

    Examples
    --------
    >>> certain(1, vocab_size=3), certain([2, 0], vocab_size=3).tolist()
    (array([0, 1, 0], dtype=int8), [[0, 0, 1], [1, 0, 0]])
    """
    size = as_count(vocab_size, "vocab_size", least=1)
    several = np.iterable(tokens)
    ids: Any = as_tokens(tokens, "tokens", size) if several else as_token(tokens, "token", size)
    rows: np.ndarray = np.arange(size) == np.asarray(ids, dtype=int)[..., np.newaxis]
    return rows.astype(np.int8)


def _on(row: np.ndarray, keep: Any, filter_: str) -> np.ndarray:
    """The row where `keep` is true, renormalised."""
    weights = np.where(np.asarray(keep, dtype=bool), row, 0 * row)
    total = weights.sum()
    if total == 0:
        raise ValueError(
            f"{filter_} left nothing of a row; want a filter that keeps a token of positive mass"
        )
    rest: np.ndarray = divide(weights, total)
    return rest


@dataclass(frozen=True)
class Settings:
    """Everything that shapes a row before a token is drawn from it, in one order.

    Suppressed tokens first, then temperature, top-k, top-p and min-p. To keep speculation exact the same
    settings go on every target row and on the draft's, before the draw *and* the test: see the last example.

    Parameters
    ----------
    temperature : float or None
        None means 1, 0 greedy decoding.
    top_k : int or None
        None or 0: off.
    top_p : number or None
        None or 1: off.
    min_p : number or None
        None or 0: off.
    suppress : collection of int
        Ids that must not come out.

    Raises
    ------
    ValueError
        If a setting is out of its range, or temperature 0 meets a filter, which has nothing to do there.

    Guarantee
    ---------
    A rational row stays rational at temperature None, 0 and 1. The order, the names, and what happens to ties
    are those of Hugging Face's transformers 5.24, which alone refuses temperature 0.

    Examples
    --------
    >>> Settings(temperature=0.5, top_k=2)([0.5, 0.3, 0.2]).round(3)
    array([0.735, 0.265, 0.   ])
    >>> from specdecode.models import MappedModel, random_markov
    >>> shaped = MappedModel(random_markov(3, seed=1), Settings(top_p=0.9))
    >>> shaped.next_dist([0])
    array([0., 1., 0.])
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: Any = None
    min_p: Any = None
    suppress: Collection[int] = ()

    def __post_init__(self) -> None:
        _collection(self.suppress)
        any_row = np.array([1.0])  # each function knows its own range
        _ON_CHECKED["temperature"](any_row, self.temperature)
        for name in _FILTERS:
            value, off = getattr(self, name), (None, 1 if name == "top_p" else 0)
            _ON_CHECKED[name](any_row, value)
            if self.temperature == 0 and value not in off:
                raise ValueError(
                    f"temperature 0 leaves one token, so {name} = {value} has nothing to do; want one of them"
                )

    def __call__(self, row: Row) -> np.ndarray:
        """The row, shaped; shape (V,)."""
        shaped = as_row(row, "row")
        for name in ("suppress", "temperature", *_FILTERS):
            shaped = _ON_CHECKED[name](shaped, getattr(self, name))
        return shaped


_FILTERS = ("top_k", "top_p", "min_p")

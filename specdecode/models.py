"""Models: pure functions from a prefix to a row.

A model that keeps a cache keeps it to itself and rewinds it by comparing tokens, so the rest of the
package never speaks of caches (see `specdecode.smollm`). The models here are small enough to enumerate.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np

from specdecode.checks import (
    Rows,
    TokenIds,
    as_count,
    as_list,
    as_number,
    as_row,
    as_rows,
    as_token,
    is_vouched_for,
    shown,
    vouched,
)

__all__ = [
    "MappedModel",
    "MarkovModel",
    "Model",
    "Prefix",
    "RepetitionPenalty",
    "as_model",
    "common_prefix",
    "draft_from_target",
    "next_row",
    "next_rows",
    "random_markov",
]


@runtime_checkable
class Model(Protocol):
    """A pure function of its prefix: the same tokens give the same row, whatever was asked before.

    The prefix is the caller's own list: read it during the call, copy what you keep, write nothing.
    """

    vocab_size: int

    def next_dist(self, prefix: TokenIds) -> np.ndarray:
        """Distribution of the next token, shape (V,)."""
        ...

    # Optional: next_dists(tokens, n) -> (n, V), the rows after each of the last n prefixes, in one pass;
    # row i equals next_dist(tokens[: len(tokens) - n + 1 + i]).


class Prefix(list[int]):
    """A list that grows, and that whoever is handed it can only read; to copy it makes a plain list.

    Parameters
    ----------
    tokens : sequence of int
        Copied.

    Examples
    --------
    >>> text = Prefix([0, 1])
    >>> text.grow(2)
    >>> text, text[-1], [*text, 3]
    ([0, 1, 2], 2, [0, 1, 2, 3])
    >>> text.append(4)
    Traceback (most recent call last):
    ValueError: the model changed the tokens it was given, [0, 1, 2]; want a pure function
    """

    def __init__(self, tokens: TokenIds) -> None:
        super().__init__(tokens if isinstance(tokens, (list, tuple)) else as_list(tokens, "prefix"))

    grow = list.append  # one token more: for the owner alone

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ValueError(f"the model changed the tokens it was given, {shown(self)}; want a pure function")

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (list(self),)


def as_model(model: Any, name: str) -> Model:
    """`model` itself, if it is one.

    Raises
    ------
    ValueError
        If it lacks `vocab_size` or `next_dist`, or its `vocab_size` is not a whole number, 1 or more.
    """
    if isinstance(model, type) or not isinstance(model, Model):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise ValueError(f"{name} is {what}; want a Model with vocab_size and next_dist()")
    as_count(model.vocab_size, f"{name}.vocab_size", least=1)
    return model


def next_row(model: Model, prefix: TokenIds, name: str) -> np.ndarray:
    """One row of a model, checked, and the caller's own: a model may hand out the same buffer each time.

    Parameters
    ----------
    model : Model
    prefix : sequence of int
    name : str
        What to call the row in an error.

    Returns
    -------
    ndarray, shape (V,)

    Raises
    ------
    ValueError
        If it is not a distribution over the model's vocabulary.
    """
    row = model.next_dist(prefix)
    return np.array(row if is_vouched_for(model.next_dist) else as_row(row, name, model.vocab_size))


def next_rows(model: Model, tokens: TokenIds, n: int) -> np.ndarray:
    """The last n rows of a model on `tokens`: one call if it has `next_dists`, a loop if not.

    Parameters
    ----------
    model : Model
    tokens : sequence of int
        At least n − 1 tokens; n − 1 only if the model takes an empty prefix.
    n : int
        n ≥ 1.

    Returns
    -------
    ndarray, shape (n, V)
        Row i is the distribution after tokens[: len(tokens) − n + 1 + i], checked to be one.

    Raises
    ------
    ValueError
        If a row is not a distribution over the model's vocabulary.

    Examples
    --------
    >>> next_rows(MarkovModel([[0, 1], [1, 0]]), [0, 1, 0], n=2)
    array([[1., 0.],
           [0., 1.]])
    """
    if not isinstance(tokens, (list, tuple)):
        tokens = as_list(tokens, "tokens")
    length = len(tokens)
    if (type(n) is not int or not 0 < n <= length + 1) and as_count(n, "n", least=1) > length + 1:
        raise ValueError(f"n is {n}; want at most {length + 1}, one row more than there are tokens")
    if not hasattr(model, "next_dists"):
        name, prefix = _rows_of(model), Prefix(tokens[: length - n + 1])
        rows = [next_row(model, prefix, name)]
        for following in tokens[length - n + 1 :]:
            prefix.grow(following)
            rows.append(next_row(model, prefix, name))
        return np.array(rows)
    given: np.ndarray = model.next_dists(tokens, n)
    if len(tokens) != length:
        raise ValueError(f"{type(model).__name__} changed the tokens it was given; want a pure function")
    if is_vouched_for(model.next_dists):
        return given
    return as_rows(given, _rows_of(model), n, model.vocab_size)


def _rows_of(model: Model) -> str:
    return f"{type(model).__name__} rows"


def common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Length of the longest common prefix: how much of a cache is still true.

    Examples
    --------
    >>> common_prefix([5, 6, 7], [5, 6, 8, 9])
    2
    """
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


class MarkovModel:
    """A table of rows: the next token depends on the last one only.

    Parameters
    ----------
    rows : array_like, shape (V, V)
        rows[s] is the distribution after token s; floats or Fractions. Copied.

    Attributes
    ----------
    rows : ndarray, shape (V, V)
        Read-only.
    vocab_size : int

    Raises
    ------
    ValueError
        If `rows` is not square or a row is not a distribution; an empty prefix has no last token.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> MarkovModel([[F(1, 2), F(1, 2)], [F(1), F(0)]]).next_dist([0, 1])
    array([Fraction(1, 1), Fraction(0, 1)], dtype=object)
    """

    def __init__(self, rows: Rows) -> None:
        self.vocab_size = as_count(len(as_list(rows, "rows", "rows")), "number of rows", least=1)
        self.rows = rows

    def __repr__(self) -> str:
        return f"MarkovModel({self.rows.tolist()!r})"

    @property
    def rows(self) -> np.ndarray:
        return self._rows

    @rows.setter
    def rows(self, rows: Rows) -> None:
        table = as_rows(rows, "rows", self.vocab_size, self.vocab_size).copy()
        table.flags.writeable = False
        self._rows = table[:]  # a view of what cannot be written cannot be made to be written

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.rows = self._rows  # an array that was copied or unpickled can be written to

    @vouched
    def next_dist(self, prefix: TokenIds) -> np.ndarray:
        row: np.ndarray = next_rows(self, prefix, 1)[0]
        return row

    @vouched
    def next_dists(self, tokens: TokenIds, n: int) -> np.ndarray:
        if len(tokens) < n:
            raise ValueError("prefix is empty; a Markov model needs one token or more")
        last = [as_token(token, "last token", self.vocab_size) for token in tokens[len(tokens) - n :]]
        rows: np.ndarray = self._rows[last]  # a copy, which the caller may keep
        return rows


def random_markov(vocab_size: int, seed: int) -> MarkovModel:
    """A Markov model with random rows, each Dirichlet(0.3, …, 0.3).

    Parameters
    ----------
    vocab_size : int
        V ≥ 1.
    seed : int
        Seed of its own generator, `default_rng(seed)`.

    Returns
    -------
    MarkovModel
        The same rows for the same arguments, on every machine.

    Raises
    ------
    ValueError
        If V is not a whole number from 1 to 16 384, or the seed not one of 0 or more.

    Examples
    --------
    >>> random_markov(3, seed=1).next_dist([0]).round(3)
    array([0.05 , 0.924, 0.026])
    """
    if as_count(vocab_size, "vocab_size", least=1) > _WIDEST:
        raise ValueError(
            f"vocab_size is {shown(vocab_size)}; want at most {_WIDEST}: the table has V² entries"
        )
    return MarkovModel(_dirichlet_rows(seed, 0.3, vocab_size))


def draft_from_target(target: MarkovModel, agreement: float, seed: int) -> MarkovModel:
    """A draft that agrees with the target as much as asked.

    Row by row, agreement · target row + (1 − agreement) · other row.

    Parameters
    ----------
    target : MarkovModel
    agreement : float
        From 0 (unrelated rows) to 1 (the target itself, up to rounding).
    seed : int
        Seed of the other rows, each Dirichlet(0.4, …, 0.4).

    Returns
    -------
    MarkovModel
        Rows renormalised after mixing.

    Raises
    ------
    ValueError
        If `target` has no table of rows, or agreement is outside [0, 1].

    Examples
    --------
    >>> target = random_markov(3, seed=1)
    >>> draft_from_target(target, agreement=0.8, seed=2).next_dist([0]).round(3)
    array([0.046, 0.882, 0.072])
    """
    if not isinstance(target, MarkovModel):
        raise ValueError(f"target is a {type(target).__name__}; want a MarkovModel, whose rows can be mixed")
    as_number(agreement, "agreement", 0, 1)
    other = _dirichlet_rows(seed, 0.4, target.vocab_size)
    mixed = agreement * target.rows + (1 - agreement) * other
    return MarkovModel(mixed / mixed.sum(axis=1, keepdims=True))


_WIDEST = 2**14  # tokens of a random table, which then takes 2 GiB


def _dirichlet_rows(seed: int, concentration: float, vocab_size: int) -> np.ndarray:
    rng = np.random.default_rng(as_count(seed, "seed", least=0))
    return rng.dirichlet(np.full(vocab_size, concentration), size=vocab_size)  # (V, V)


class RepetitionPenalty:
    """A history-dependent model: every token already in the prefix becomes less likely.

    Markov models forgive a verifier that loses or swaps early tokens; this one does not.

    Parameters
    ----------
    model : Model
    penalty : number
        Each entry of a token seen anywhere in the prefix is divided by this, then the row is
        renormalised. At least 1; an int or a Fraction keeps rational rows rational.

    Raises
    ------
    ValueError
        If penalty < 1.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> coin = MarkovModel([[F(1, 2), F(1, 2)], [F(1, 2), F(1, 2)]])
    >>> RepetitionPenalty(coin, 2).next_dist([0])
    array([Fraction(1, 3), Fraction(2, 3)], dtype=object)
    """

    def __init__(self, model: Model, penalty: float | Fraction) -> None:
        self.model, self.penalty = as_model(model, "model"), as_number(penalty, "penalty", 1)
        self.vocab_size = model.vocab_size

    def __repr__(self) -> str:
        return f"RepetitionPenalty({self.model!r}, {self.penalty!r})"

    def next_dist(self, prefix: TokenIds) -> np.ndarray:
        given = next_row(self.model, prefix, "row")
        seen = np.isin(np.arange(self.vocab_size), list(prefix))
        weights = np.where(seen, given / self.penalty, given)
        row: np.ndarray = weights / weights.sum()
        return row


class MappedModel:
    """A model seen through a map from a row to a row, such as a temperature.

    Parameters
    ----------
    model : Model
    row_map : callable
        Takes a row, shape (V,), and returns a row.

    Examples
    --------
    >>> from specdecode.sampling import temperature
    >>> greedy = MappedModel(random_markov(3, seed=1), lambda row: temperature(row, 0))
    >>> greedy.next_dist([0])
    array([0., 1., 0.])
    """

    def __init__(self, model: Model, row_map: Callable[[np.ndarray], np.ndarray]) -> None:
        if not callable(row_map):
            raise ValueError(f"row_map is {shown(row_map)}; want a function from a row to a row")
        self.model, self.row_map, self.vocab_size = as_model(model, "model"), row_map, model.vocab_size

    @vouched
    def next_dist(self, prefix: TokenIds) -> np.ndarray:
        row: np.ndarray = self.next_dists(prefix, 1)[0]
        return row

    @vouched
    def next_dists(self, tokens: TokenIds, n: int) -> np.ndarray:
        rows = [self.row_map(row) for row in next_rows(self.model, tokens, n)]
        return as_rows(rows, _rows_of(self), n, self.vocab_size)

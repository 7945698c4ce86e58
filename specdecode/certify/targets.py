"""Models that worlds are made of: with a memory for order, wide, or certain but for a few places.

Each is small in paths, whatever else is large about it. Their rows are rational, or floats that are exact.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from specdecode.models import Model, next_rows
from specdecode.sampling import inverse_cdf

__all__ = ["Certain", "Kept", "Remembers", "Widened"]


class Remembers:
    """A model whose row depends on the order, the number and the position of all tokens before.

    Parameters
    ----------
    vocab_size : int
    few : bool
        Whether only two tokens are possible at a time, which leaves few paths.

    Examples
    --------
    >>> a, b = Remembers(3).next_dist([0, 1, 2]), Remembers(3).next_dist([1, 0, 2])
    >>> a.tolist() == b.tolist()
    False
    """

    def __init__(self, vocab_size: int, few: bool = False) -> None:
        self.vocab_size, self.few = vocab_size, few

    def __repr__(self) -> str:
        return f"Remembers({self.vocab_size}, few={self.few})"

    def next_dist(self, prefix: Sequence[int]) -> np.ndarray:
        state = 1
        for token in prefix:
            state = (3 * state + 2 * token + 5) % 101
        weights = [1 + (state * (x + 2) + x * x) % 11 for x in range(self.vocab_size)]
        if self.few:
            absent = state % self.vocab_size
            weights = [
                w if x in (absent, (absent + 1) % self.vocab_size) else 0 for x, w in enumerate(weights)
            ]
        return np.array([Fraction(w, sum(weights)) for w in weights], dtype=object)


class Widened:
    """A model with many more ids, of which none but a few are possible.

    Parameters
    ----------
    model : Model
        The narrow one.
    ids : sequence of int
        What its tokens are called in the wide vocabulary.
    vocab_size : int
        The wide V, larger than every id.

    Examples
    --------
    >>> from specdecode.models import MarkovModel
    >>> Widened(MarkovModel([[0.5, 0.5], [0.25, 0.75]]), (1, 4), 6).next_dist([4]).tolist()
    [0.0, 0.25, 0.0, 0.0, 0.75, 0.0]
    """

    def __init__(self, model: Model, ids: Sequence[int], vocab_size: int) -> None:
        self.model, self.ids, self.vocab_size = model, tuple(ids), vocab_size
        self._narrow = {name: x for x, name in enumerate(self.ids)}

    def __repr__(self) -> str:
        return f"Widened({self.model!r}, {self.ids}, {self.vocab_size})"

    def next_dist(self, prefix: Sequence[int]) -> np.ndarray:
        row = np.zeros(self.vocab_size)
        row[list(self.ids)] = self.model.next_dist([self._narrow.get(name, 0) for name in prefix]).astype(
            float
        )
        return row


class Certain:
    """A model that is certain of its next token but at a few places of the text.

    Parameters
    ----------
    vocab_size : int
        After n tokens the next is n mod V, elsewhere.
    rows : mapping
        Number of tokens before -> weights of the next, whole numbers.

    Examples
    --------
    >>> model = Certain(3, {2: (1, 1, 2)})
    >>> [[str(entry) for entry in model.next_dist(text)] for text in ([0], [0, 1])]
    [['0', '1', '0'], ['1/4', '1/4', '1/2']]
    """

    def __init__(self, vocab_size: int, rows: Mapping[int, Sequence[int]]) -> None:
        self.vocab_size, self.rows = vocab_size, {place: tuple(row) for place, row in rows.items()}

    def __repr__(self) -> str:
        return f"Certain({self.vocab_size}, {self.rows})"

    def next_dist(self, prefix: Sequence[int]) -> np.ndarray:
        place = len(prefix)
        weights = self.rows.get(
            place, tuple(int(x == place % self.vocab_size) for x in range(self.vocab_size))
        )
        return np.array([Fraction(w, sum(weights)) for w in weights], dtype=object)


class Kept:
    """A model in another arithmetic, whose rows are kept: every path of an enumeration begins like another.

    Parameters
    ----------
    model : Model
        A pure function of its prefix.
    dtype : dtype
        Of the rows it hands out; each is a copy, for whoever gets it may write to it.

    Examples
    --------
    >>> Kept(Certain(2, {0: (1, 3)}), float).next_dist([])
    array([0.25, 0.75])
    """

    def __init__(self, model: Model, dtype: DTypeLike) -> None:
        self.model, self.dtype, self.vocab_size = model, dtype, model.vocab_size
        self._rows: dict[tuple[int, ...], np.ndarray] = {}
        self._exact: dict[tuple[int, ...], np.ndarray] = {}

    def __repr__(self) -> str:
        return f"Kept({self.model!r}, {self.dtype!r})"

    def exact(self, prefix: Sequence[int]) -> np.ndarray:
        """The row in the model's own arithmetic; not to be written to."""
        text = tuple(prefix)
        if text not in self._exact:
            self._exact[text] = next_rows(self.model, text, 1)[0]
        return self._exact[text]

    def draw(self, prefix: Sequence[int], u: Any) -> int:
        """The next token, drawn from the exact row with one uniform."""
        return inverse_cdf(self.exact(prefix), u)

    def next_dist(self, prefix: Sequence[int]) -> np.ndarray:
        text = tuple(prefix)
        if text not in self._rows:
            self._rows[text] = self.exact(text).astype(self.dtype)
        return self._rows[text].copy()

    def next_dists(self, tokens: Sequence[int], n: int) -> np.ndarray:
        start = len(tokens) - n + 1
        return np.array([self.next_dist(tokens[: start + i]) for i in range(n)])

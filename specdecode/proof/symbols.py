"""Rows of symbols: fed to the rule, they turn what runs into the theorem.

`symbolic_rows` has one symbol a token, for a fixed vocabulary; `generic_rows` one entry for a vocabulary
of any size (thm-one-token in chapter 2).
"""

from typing import Any

import numpy as np

from specdecode.checks import as_count

__all__ = ["generic_rows", "symbolic_rows"]


def symbolic_rows(vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Two rows of positive symbols that sum to 1, for a fixed vocabulary.

    Parameters
    ----------
    vocab_size : int
        V ≥ 1.

    Returns
    -------
    (p, q) : ndarrays of SymPy expressions, shape (V,)
        p_1, …, p_(V−1) and 1 minus their sum; q likewise.

    Raises
    ------
    ImportError
        Without SymPy; names the install command.

    Examples
    --------
    >>> p, q = symbolic_rows(2)
    >>> p
    array([p_1, 1 - p_1], dtype=object)
    """
    sympy = _sympy()
    vocab_size = as_count(vocab_size, "vocab_size", least=1)

    def row(name: str) -> np.ndarray:
        free = sympy.symbols(f"{name}_1:{vocab_size}", positive=True)
        return np.array([*free, 1 - sum(free)], dtype=object)

    return row("p"), row("q")


class _GenericRow(np.ndarray):
    """A row of unknown length, held as its entry at an unknown index i; its sum is a SymPy Sum over i."""

    def sum(self, *args: Any, **kwargs: Any) -> Any:
        sympy = _sympy()
        index, size = sympy.Symbol("i", integer=True), sympy.Symbol("V", integer=True, positive=True)
        return sympy.Sum(self[0], (index, 1, size))


def generic_rows() -> tuple[np.ndarray, ...]:
    """Two rows over a vocabulary of unknown size V, each given by its entry at an unknown index i.

    Returns
    -------
    (p, q) : arrays with one generic entry p[i], q[i]
        Elementwise arithmetic acts on that entry, and .sum() is SymPy's Sum over i = 1, …, V. That the
        rows sum to 1 is not built in: substitute it, as the theorem does.

    Raises
    ------
    ImportError
        Without SymPy; names the install command.

    Examples
    --------
    >>> from specdecode.rule import total_variation
    >>> p, q = generic_rows()
    >>> total_variation(p, q)
    Sum(p[i] - Min(p[i], q[i]), (i, 1, V))
    """
    sympy = _sympy()
    index = sympy.Symbol("i", integer=True)
    return tuple(
        np.array([sympy.IndexedBase(name, positive=True)[index]], dtype=object).view(_GenericRow)
        for name in ("p", "q")
    )


def _sympy() -> Any:
    try:
        import sympy
    except ImportError as error:
        raise ImportError("symbolic rows need SymPy: pip install 'specdecode[book]'") from error
    return sympy

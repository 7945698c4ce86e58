"""The best any exact rule can do, as a linear program: the yardstick for the rules that run.

A rule for a block sees the drafted path and decides how much of it to accept and which token to add; the rest
of the text is sampled from the target. Over all such rules, whatever they know of rows off the drafted path,
the expected number of accepted tokens is linear in the rule, and exactness is a set of linear equations
(def-program in chapter 10). Small cases only: there are Vᵏ drafted paths.
"""

from itertools import product

import numpy as np
from scipy import optimize, sparse

from specdecode.checks import TokenIds, as_count, as_tokens
from specdecode.models import Model, next_rows

__all__ = ["best_block"]

_LARGEST = 200_000  # unknowns


def best_block(target: Model, draft: Model, prefix: TokenIds, k: int) -> float:
    """The largest expected number of drafted tokens that an exact rule can accept in a round of k.

    Parameters
    ----------
    target, draft : Model
        Of one small vocabulary.
    prefix : sequence of int
    k : int
        k ≥ 1.

    Returns
    -------
    float
        In [0, k], to the tolerance of the solver, about 1e-9.

    Raises
    ------
    ValueError
        If the program has more than 200 000 unknowns, or a row is not a distribution.

    Guarantee
    ---------
    No rule that emits an accepted beginning of the draft and one more token, and leaves the rest to the
    target, accepts more and has the target's law. A coupling of whole blocks can agree with the draft more
    often, but is no such rule: it would go on copying the draft after a token that differs.

    References
    ----------
    Sun et al. (2024) for the optimality of block verification.

    Examples
    --------
    >>> from specdecode.models import MarkovModel
    >>> target, draft = (MarkovModel([row] * 2) for row in ([1/3, 2/3], [2/3, 1/3]))
    >>> round(best_block(target, draft, [0], 2), 6)
    1.222222
    """
    size, k = target.vocab_size, as_count(k, "k", least=1)
    prefix = as_tokens(prefix, "prefix", size)
    if size**k * (k + 1) * size > _LARGEST:
        raise ValueError(f"V = {size} and k = {k} make more than {_LARGEST} unknowns; want fewer tokens")
    mass_p = {
        text: _mass(target, prefix, text) for n in range(k + 2) for text in product(range(size), repeat=n)
    }
    paths = list(product(range(size), repeat=k))
    texts = {text: i for i, text in enumerate(product(range(size), repeat=k + 1))}
    rows, columns, values, gains = [], [], [], []
    for number, (path, length, extra) in enumerate(product(paths, range(k + 1), range(size))):
        # The unknown is the joint probability of the path, of how much is accepted, and of the token added.
        rows.append(number // ((k + 1) * size))
        columns.append(number)
        values.append(1.0)
        emitted = (*path[:length], extra)
        for rest in product(range(size), repeat=k - length):
            after = mass_p[*emitted, *rest] / mass_p[emitted] if mass_p[emitted] else 0.0
            if after:
                rows.append(len(paths) + texts[*emitted, *rest])
                columns.append(number)
                values.append(after)
        gains.append(-1.0 * length if mass_p[emitted] else 0.0)
    right = [_mass(draft, prefix, path) for path in paths] + [mass_p[text] for text in texts]
    constraints = sparse.csr_array((values, (rows, columns)), shape=(len(right), len(gains)))
    upper = [
        None if mass_p[(*path[:length], extra)] else 0.0
        for path, length, extra in product(paths, range(k + 1), range(size))
    ]  # what the target forbids is never emitted
    found = optimize.linprog(
        gains, A_eq=constraints, b_eq=right, bounds=[(0, most) for most in upper], method="highs"
    )
    if not found.success:
        raise ValueError(f"the linear program was not solved: {found.message}")
    return float(-found.fun)


def _mass(model: Model, prefix: TokenIds, text: TokenIds) -> float:
    """Probability that the model goes on with this text."""
    if not text:
        return 1.0
    rows = next_rows(model, [*prefix, *text[:-1]], len(text))
    return float(np.prod([float(row[token]) for row, token in zip(rows, text)]))

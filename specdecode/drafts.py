"""Drafts: what proposes the tokens.

A draft returns its tokens together with the rows they were drawn from. The exactness of the rule
rests on that pair being true: a token tested against any other row is a quiet bug, and a frequent one.
`DRAFTS` has those that a model makes; what each claims is that the rows it hands over are the law of the
tokens it proposes.
"""

from collections.abc import Callable
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from specdecode.checks import (
    TokenIds,
    as_count,
    as_draft_length,
    as_drafted,
    as_list,
    as_rows,
    as_tokens,
    is_vouched_for,
    shown,
    vouched,
)
from specdecode.models import Model, Prefix, as_model, next_row
from specdecode.sampling import Uniforms, certain, inverse_cdf, uniform

__all__ = [
    "DRAFTS",
    "ArgmaxDraft",
    "Draft",
    "ModelDraft",
    "NGramDraft",
    "PaddedDraft",
    "as_draft",
    "proposed",
]


@runtime_checkable
class Draft(Protocol):
    """Proposes up to k tokens with the rows they were drawn from.

    Optional attribute `passes_per_token`: draft passes a proposed token costs, 1 unless the draft says
    otherwise. A look-up says 0.
    """

    def propose(self, prefix: TokenIds, k: int, rng: Any) -> tuple[TokenIds, np.ndarray]:
        """Between 0 and k tokens, and their rows, shape (number of tokens, V)."""
        ...


class ModelDraft:
    """A model sampled k times, one uniform a token.

    Parameters
    ----------
    model : Model

    Examples
    --------
    >>> from specdecode.models import random_markov
    >>> tokens, rows = ModelDraft(random_markov(3, seed=1)).propose([0], 4, np.random.default_rng(0))
    >>> tokens, rows.shape
    ([1, 0, 0, 0], (4, 3))
    """

    passes_per_token = 1

    def __init__(self, model: Model) -> None:
        self.model, self.vocab_size = as_model(model, "draft"), model.vocab_size

    @vouched
    def propose(self, prefix: TokenIds, k: int, rng: Uniforms) -> tuple[list[int], np.ndarray]:
        text, rows = Prefix(prefix), []
        for _ in range(as_draft_length(k, least=0)):
            rows.append(next_row(self.model, text, "draft row"))
            text.grow(inverse_cdf(rows[-1], uniform(rng)))
        return text[len(prefix) :], np.reshape(rows, (k, self.vocab_size))


class ArgmaxDraft:
    """A model's likeliest tokens, one after another: deterministic, so its rows are one-hot.

    Handing over the model's soft rows instead is the second quiet bug of the museum.

    Parameters
    ----------
    model : Model

    Examples
    --------
    >>> from specdecode.models import random_markov
    >>> tokens, rows = ArgmaxDraft(random_markov(3, seed=1)).propose([0], 2, rng=None)
    >>> tokens, rows.tolist()
    ([1, 2], [[0, 1, 0], [0, 0, 1]])
    """

    passes_per_token = 1

    def __init__(self, model: Model) -> None:
        self.model, self.vocab_size = as_model(model, "draft"), model.vocab_size

    def __repr__(self) -> str:
        return f"ArgmaxDraft({self.model!r})"

    @vouched
    def propose(self, prefix: TokenIds, k: int, rng: Any) -> tuple[list[int], np.ndarray]:
        text = Prefix(prefix)
        for _ in range(as_draft_length(k, least=0)):
            text.grow(int(np.argmax(next_row(self.model, text, "draft row"))))
        tokens = text[len(prefix) :]
        return tokens, certain(tokens, self.vocab_size)


class NGramDraft:
    """Prompt look-up: proposes what followed the last few tokens the last time they occurred.

    Parameters
    ----------
    vocab_size : int
    longest : int
        Longest run of final tokens to look for; shorter runs are tried when it has not occurred before.

    Guarantee
    ---------
    The proposal is a function of the prefix alone and draws nothing, so its rows are one-hot: fewer
    than k tokens, or none, where the text has no more to copy.

    References
    ----------
    Saxena (2023), prompt lookup decoding.

    Examples
    --------
    >>> tokens, rows = NGramDraft(vocab_size=4).propose([3, 1, 2, 0, 3, 1], 2, rng=None)
    >>> tokens, rows.tolist()
    ([2, 0], [[0, 0, 1, 0], [1, 0, 0, 0]])
    """

    passes_per_token = 0

    def __init__(self, vocab_size: int, longest: int = 3) -> None:
        self.vocab_size = as_count(vocab_size, "vocab_size", least=1)
        self.longest = as_count(longest, "longest", least=1)

    def __repr__(self) -> str:
        return f"NGramDraft({self.vocab_size}, {self.longest})"

    @vouched
    def propose(self, prefix: TokenIds, k: int, rng: Any) -> tuple[list[int], np.ndarray]:
        text = as_tokens(prefix, "prefix", self.vocab_size)
        tokens = text[self._continuation(text) :][: as_draft_length(k, least=0)]
        return tokens, certain(tokens, self.vocab_size)

    def _continuation(self, text: list[int]) -> int:
        """Where the latest earlier occurrence of the longest known final run ends; len(text) if none."""
        for length in range(min(self.longest, len(text) - 1), 0, -1):
            run = text[-length:]
            for end in range(len(text) - 1, length - 1, -1):
                if text[end - length : end] == run:
                    return end
        return len(text)


class PaddedDraft:
    """A draft of another vocabulary size, seen in the target's.

    The ids that both have must mean the same tokens. After a text that holds an id which the draft lacks it
    proposes nothing, as a look-up does that finds nothing: the draft's model cannot be asked.

    Parameters
    ----------
    draft : Draft or Model
        With a `vocab_size` of its own.
    vocab_size : int
        The target's V.

    Guarantee
    ---------
    Exact. A smaller draft gets zeros: what it cannot draft comes from the residual. A larger one is cut, and
    may give no mass to what is cut off: to test a token against the rest of a row it was not drawn from would
    be a quiet bug.

    Raises
    ------
    ValueError
        If the draft has no `vocab_size`. On proposing, if a larger draft can draft an id that the target
        lacks; names the id.

    Examples
    --------
    >>> from specdecode.models import MarkovModel
    >>> two = MarkovModel([[0.5, 0.5], [0.5, 0.5]])
    >>> tokens, rows = PaddedDraft(two, vocab_size=3).propose([0], 1, np.random.default_rng(0))
    >>> rows.tolist()
    [[0.5, 0.5, 0.0]]
    """

    def __init__(self, draft: "Draft | Model", vocab_size: int) -> None:
        self.draft, self.vocab_size = as_draft(draft), as_count(vocab_size, "vocab_size", least=1)
        self._known = as_count(getattr(self.draft, "vocab_size", None), "draft.vocab_size", least=1)
        self.passes_per_token = getattr(self.draft, "passes_per_token", 1)

    def __repr__(self) -> str:
        return f"PaddedDraft({self.draft!r}, {self.vocab_size})"

    def propose(self, prefix: TokenIds, k: int, rng: Any) -> tuple[TokenIds, np.ndarray]:
        text = as_tokens(prefix, "prefix", self.vocab_size)
        if max(text, default=0) >= self._known:
            return [], np.empty((0, self.vocab_size))
        tokens, rows = proposed(self.draft, text, k, rng, self._known)
        beyond = np.argwhere(rows[:, self.vocab_size :] != 0)
        if len(beyond):
            raise ValueError(
                f"draft can draft id {self.vocab_size + int(beyond[0][1])}, which the target, of V = "
                f"{self.vocab_size}, lacks; want rows without it (`specdecode.sampling.suppress`)"
            )
        missing = max(self.vocab_size - self._known, 0)
        return tokens, np.pad(rows[:, : self.vocab_size], ((0, 0), (0, missing)))


def as_draft(draft: Draft | Model) -> Draft:
    """A `Draft` as it is, a `Model` as one that is sampled.

    Parameters
    ----------
    draft : Draft or Model

    Returns
    -------
    Draft

    Raises
    ------
    ValueError
        If it has neither `propose` nor `next_dist`.
    """
    if not isinstance(draft, type):
        if hasattr(draft, "propose"):  # asked in every round; isinstance of a protocol is slow
            return cast(Draft, draft)
        if hasattr(draft, "next_dist") and hasattr(draft, "vocab_size"):
            return ModelDraft(draft)
    what = f"the class {draft.__name__}" if isinstance(draft, type) else f"a {type(draft).__name__}"
    raise ValueError(f"draft is {what}; want a Draft with propose() or a Model with next_dist()")


def proposed(
    draft: Draft, text: list[int], k: int, rng: Uniforms, vocab_size: int
) -> tuple[list[int], np.ndarray]:
    """Up to k drafted tokens and their rows, checked, and the caller's own.

    Parameters
    ----------
    draft : Draft
    text : list of int
        A copy that the draft may do with as it likes.
    k : int
    rng : numpy.random.Generator, or anything with random()
    vocab_size : int
        The target's V.

    Returns
    -------
    (list of int, ndarray of shape (number of tokens, V))

    Raises
    ------
    ValueError
        If it is no pair, there are more than k, a row is not a distribution over the target's vocabulary, or
        a token is not one that its row could have given.
    """
    answer: Any = draft.propose(text, k, rng)
    try:
        tokens, rows = answer
    except (TypeError, ValueError):
        raise ValueError(
            f"draft.propose did not return a pair but {shown(answer)}; want (tokens, rows)"
        ) from None
    if is_vouched_for(draft.propose) and len(tokens) and rows.shape[1] == vocab_size:
        return list(tokens), rows if rows.dtype == object else rows.astype(float, copy=False)
    tokens = as_list(tokens, "drafted tokens")
    if len(tokens) > k:
        raise ValueError(f"draft proposed {len(tokens)} tokens; want at most k = {k}")
    if not tokens:
        return [], np.empty((0, vocab_size))
    # A copy, since a draft may keep the array and write to it while the target is asked.
    rows = as_rows(rows, "draft rows", len(tokens), vocab_size).copy()
    return [
        as_drafted(token, row, f"drafted token {i}") for i, (token, row) in enumerate(zip(tokens, rows))
    ], rows


def _look_up(model: Model) -> NGramDraft:
    return NGramDraft(model.vocab_size)


# How to make one from a model.
DRAFTS: dict[str, Callable[[Model], Draft]] = {"model": ModelDraft, "argmax": ArgmaxDraft, "ngram": _look_up}

"""Exact laws of texts: plain sampling's, and that of any text made in rounds.

A text is a tuple of token ids. `ancestral_law` multiplies a model's rows; `compose` chains the law of one
round (thm-sequence in chapter 4).
"""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from typing import Any

from specdecode.checks import as_count, as_stop, as_tokens
from specdecode.exact.laws import Law, law
from specdecode.exact.uniforms import as_fraction
from specdecode.models import Model, as_model, next_rows
from specdecode.speculative import cut

__all__ = ["ancestral_law", "compose"]

Text = tuple[int, ...]


def ancestral_law(
    model: Model,
    prefix: Sequence[int],
    n_tokens: int,
    *,
    stop: int | Collection[int] | None = None,
) -> Law:
    """The law of plain sampling, by multiplying the model's rows: what "exact" is exact to.

    Parameters
    ----------
    model : Model
        Rational rows give the law itself. A float row is taken at its exact values, divided by their sum.
    prefix : sequence of int
    n_tokens : int
        n_tokens ≥ 0.
    stop : int or collection of int, optional

    Returns
    -------
    Law
        Keys are tuples of the new tokens, a stop token included.

    Raises
    ------
    ValueError
        As `generate_target_only`.

    Examples
    --------
    >>> from specdecode.models import MarkovModel
    >>> coin = MarkovModel([[Fraction(1, 3), Fraction(2, 3)]] * 2)
    >>> ancestral_law(coin, [0], 2, stop=0)
    Law({(0,): 1/3, (1, 0): 2/9, (1, 1): 4/9})
    """
    model = as_model(model, "model")
    stop = as_stop(stop, model.vocab_size)
    prefix = as_tokens(prefix, "prefix", model.vocab_size)
    open_texts: dict[Text, Fraction] = {(): Fraction(1)}
    masses: dict[Text, Fraction] = {}
    for _ in range(as_count(n_tokens, "n_tokens", least=0)):
        longer: dict[Text, Fraction] = {}
        for text, mass in open_texts.items():
            row = [as_fraction(entry) for entry in next_rows(model, [*prefix, *text], 1)[0].tolist()]
            total = sum(row)
            for token, probability in enumerate(row):
                if probability:
                    ended = masses if token in stop else longer
                    ended[*text, token] = mass * probability / total
        open_texts = longer
    return Law(masses | open_texts)


def compose(
    step: Callable[[list[int], Any], Iterable[int]],
    prefix: Sequence[int],
    n_tokens: int,
    *,
    stop: int | Collection[int] | None = None,
    memory: int | None = None,
    **limits: Any,
) -> Law:
    """The exact law of a text made in rounds, with equal states merged after each round.

    Enumerating a whole generator multiplies the paths of all its rounds. A round depends on nothing but
    the text so far, so its law is found once for each text, or for each ending if that is all it sees.

    Parameters
    ----------
    step : callable
        step(text, rng) -> the tokens a round adds to the list `text`, at least one.
    prefix : sequence of int
    n_tokens : int
        Where the text is cut.
    stop : int or collection of int, optional
        Ends the text, wherever in a round it falls.
    memory : int, optional
        How many of the last tokens a round can see; all of them if left out. 1 for two Markov models.
    **limits
        source, max_paths and max_draws for the law of each round, as for `law`.

    Returns
    -------
    Law
        Keys are tuples of the new tokens, as for `ancestral_law`.

    Raises
    ------
    ValueError
        If a round adds nothing.

    Guarantee
    ---------
    Equal to the law of the loop that repeats `step` (thm-sequence in chapter 4), provided a round really
    sees no more than `memory` tokens.

    Examples
    --------
    >>> half = Fraction(1, 2)
    >>> compose(lambda text, rng: [0, 0] if rng.random() < half else [1], [0], 2)
    Law({(0, 0): 1/2, (1, 0): 1/4, (1, 1): 1/4})
    """
    stop = as_stop(stop, vocab_size=sys.maxsize)
    prefix, n_tokens = list(prefix), as_count(n_tokens, "n_tokens", least=0)
    known: dict[Text, Law] = {}
    masses: dict[Text, Fraction] = {}

    def round_law(text: Text) -> Law:
        seen = tuple([*prefix, *text][-memory if memory else 0 :])
        if seen not in known:
            known[seen] = law(lambda rng: tuple(step(list(seen), rng)), **limits)
        return known[seen]

    # By length, so that all ways of reaching a text are merged before it is continued.
    waiting: list[dict[Text, Fraction]] = [{(): Fraction(1)}, *({} for _ in range(n_tokens))]
    for length, texts in enumerate(waiting):
        for text, mass in texts.items():
            if length == n_tokens or (text[-1:] and text[-1] in stop):
                masses[text] = mass
                continue
            for added, probability in round_law(text).items():
                if not added:
                    raise ValueError(f"a round added no token to {[*prefix, *text]}; want one or more")
                longer = (*text, *cut(added, n_tokens - length, stop))
                reached = waiting[len(longer)]
                reached[longer] = reached.get(longer, Fraction(0)) + mass * probability
    return Law(masses)

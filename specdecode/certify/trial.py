"""What is put to the test: a program for each world, and the law it should have."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from specdecode.certify.targets import Kept
from specdecode.certify.worlds import World
from specdecode.checks import as_tokens
from specdecode.drafts import as_draft
from specdecode.exact import Fault, Inexact, Law, NotReproducible, TooLarge, ancestral_law

__all__ = [
    "GeneratorTrial",
    "Trial",
    "VerifierTrial",
    "has_stop",
    "name_of",
    "takes",
    "token_ids",
    "world_in_floats",
]

Outcome = tuple[int, ...] | Fault


class Trial(ABC):
    """A sampler on a world: what it is run as, and what is noticed while it runs.

    Attributes
    ----------
    function : callable
        The sampler.
    written : bool
        Whether it wrote to what it was given.
    hints : set of str
        What may help to find a mistake.
    drafted : tuple of int, or None
        The tokens drafted last, for a verifier.
    """

    certifier: str  # the name of the function that asks

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.written = False
        self.hints: set[str] = set()
        self.drafted: tuple[int, ...] | None = None

    @abstractmethod
    def text_length(self, world: World) -> int:
        """Tokens of one text."""

    def stop(self, world: World) -> int | None:
        """The token at which the text ends."""
        return world.stop

    @abstractmethod
    def once(self, world: World) -> Callable[[Any], Outcome]:
        """One call of it, as a program of an rng."""

    def length(self, world: World) -> int:
        """Tokens whose joint law is compared."""
        return world.calls * self.text_length(world)

    def program(self, world: World) -> Callable[[Any], Any]:
        """What is run: the text of one call, or a tuple of those of several in a row."""
        once = self.once(world)
        return once if world.calls == 1 else lambda rng: tuple(once(rng) for _ in range(world.calls))

    def reference(self, world: World) -> Law:
        """The law that it should have: plain sampling's, and that of independent texts for several calls."""
        text = ancestral_law(world.target, world.prefix, self.text_length(world), stop=self.stop(world))
        if world.calls == 1:
            return text
        several = product(text.items(), repeat=world.calls)
        return Law({tuple(t for t, _ in texts): prod(mass for _, mass in texts) for texts in several})

    def texts(self, world: World, outcome: Any) -> list[tuple[tuple[int, ...], Any]]:
        """Each text of an outcome, with its prompt."""
        return [(world.prefix, outcome)]

    def snippet(self, world: World, outcome: Any) -> str:
        """Code to paste and run that judges it on this world."""
        return _snippet(self.function, self.certifier, world, outcome)


class VerifierTrial(Trial):
    """A verifier on a world: draft, verify, complete to k + 1 tokens."""

    certifier = "certify"

    def __init__(self, function: Callable[..., Any], dtype: DTypeLike = float) -> None:
        super().__init__(function)
        self.dtype = dtype

    def text_length(self, world: World) -> int:
        return world.k + 1

    def stop(self, world: World) -> int | None:
        return None  # a round does not know of it

    def once(self, world: World) -> Callable[[Any], Outcome]:
        target = Kept(world.target, self.dtype)
        drafts = as_draft(world.draft) if world.looks_up else _Sampled(world.draft, self.dtype)
        empty = np.empty((0, target.vocab_size), dtype=self.dtype)

        def run(rng: Any) -> Outcome:
            drafted, q = drafts.propose(world.prefix, world.k, rng)
            p = target.next_dists([*world.prefix, *drafted], len(drafted) + 1)
            rows = np.asarray(q).astype(self.dtype) if len(drafted) else empty
            emitted = self.emitted(drafted, rows, p, rng, target.vocab_size)
            if isinstance(emitted, Fault):
                return emitted
            while len(emitted) <= world.k:
                emitted.append(target.draw([*world.prefix, *emitted], rng.random()))
            return tuple(emitted)

        return run

    def emitted(
        self, drafted: Sequence[int], q: np.ndarray, p: np.ndarray, rng: Any, vocab_size: int
    ) -> list[int] | Fault:
        """What the function returns for one round, or the fault it committed."""
        self.drafted = tuple(drafted)
        given = np.array(drafted, dtype=np.int64), q.astype(self.dtype), p.astype(self.dtype)
        kept = [array.copy() for array in given]
        tokens = token_ids(lambda: self.function(*given, rng), vocab_size)
        self.written |= any(not np.array_equal(a, b) for a, b in zip(given, kept))
        if not isinstance(tokens, Fault):
            if not 1 <= len(tokens) <= len(drafted) + 1:
                return Fault(f"returned {len(tokens)} tokens for {len(drafted)} drafted")
            last = len(tokens) - 1
            if any(p[i][token] == 0 for i, token in enumerate(tokens) if tokens[:i] == drafted[:i]):
                self.hints.add("a token came out that the target forbids (p = 0)")
            if last < len(drafted) and tokens[:last] == drafted[:last] and tokens[last] == drafted[last]:
                self.hints.add("a rejected token was replaced by itself")
        return tokens


class GeneratorTrial(Trial):
    """A generator on a world: the whole text."""

    certifier = "certify_generator"

    def text_length(self, world: World) -> int:
        if world.n_tokens is None:
            raise ValueError(f"world {world.name!r} has no n_tokens; want a length for a generator's text")
        return world.n_tokens

    def once(self, world: World) -> Callable[[Any], Outcome]:
        floats = world_in_floats(world)
        target, draft, n_tokens = floats.target, floats.draft, self.text_length(world)
        extra = {} if world.stop is None else {"stop": world.stop}

        def run(rng: Any) -> Outcome:
            prefix = list(world.prefix)
            tokens = token_ids(
                lambda: self.function(target, draft, prefix, n_tokens, world.k, rng, **extra),
                target.vocab_size,
            )
            self.written |= prefix != list(world.prefix)
            if isinstance(tokens, Fault):
                return tokens
            if len(tokens) == len(prefix) + n_tokens and prefix and tokens[: len(prefix)] == prefix:
                return Fault("returned the prompt with the text; want the new tokens alone")
            if len(tokens) != n_tokens and (world.stop is None or world.stop not in tokens):
                self.hints.add(f"it returned {len(tokens)} tokens when asked for {n_tokens}")
            return tuple(tokens)

        return run


class _Sampled:
    """The draft of a world, sampled from its exact rows, which are handed over in another arithmetic."""

    def __init__(self, model: Any, dtype: DTypeLike) -> None:
        self._model, self.vocab_size = Kept(model, dtype), model.vocab_size

    def propose(self, prefix: Sequence[int], k: int, rng: Any) -> tuple[list[int], np.ndarray]:
        text = list(prefix)
        for _ in range(k):
            text.append(self._model.draw(text, rng.random()))
        return text[len(prefix) :], self._model.next_dists(text[:-1], k)


def world_in_floats(world: World) -> World:
    """The same world with rows of floats, as a sampler is handed them; a look-up stays as it is."""
    draft: Any = world.draft if world.looks_up else Kept(world.draft, float)  # type: ignore[arg-type]
    return replace(world, target=Kept(world.target, float), draft=draft)


def token_ids(call: Callable[[], Any], vocab_size: int) -> list[int] | Fault:
    """The token ids a call returns, or the fault it committed. What `law` must see is let through."""
    try:
        result = call()
    except (Inexact, NotReproducible, TooLarge):
        raise
    except (Exception, SystemExit) as error:
        return Fault.raised(error)
    tokens = getattr(result, "tokens", result)
    if (
        isinstance(tokens, tuple)
        and len(tokens) == 2
        and np.iterable(tokens[0])
        and not np.iterable(tokens[1])
    ):
        return Fault("returned a pair, (tokens, a number); want the token ids alone")
    try:
        return as_tokens(tokens, "what it returned", vocab_size)
    except (Inexact, NotReproducible, TooLarge):
        raise
    except ValueError as error:
        padded = "-1 is" in str(error) or "] is -1;" in str(error)
        return Fault(f"{error}; want no padding either" if padded else str(error))
    except (Exception, SystemExit) as error:  # what it returned is read as it is made: a generator may raise
        return Fault.raised(error)


def _snippet(function: Callable[..., Any], certify_name: str, world: World, outcome: Any) -> str:
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
    if name.isidentifier() and module:
        bring = f"from {module} import {name}"
    else:  # a partial, a lambda or a method has no name to import it by
        name, bring = "sampler", "sampler = ...  # the function that was certified"
    fields = [
        f"{world.name!r}",
        repr(world.target),
        repr(world.draft),
        f"k={world.k}",
        f"prefix={world.prefix}",
    ]
    if world.n_tokens is not None:
        fields.append(f"n_tokens={world.n_tokens}")
    if world.stop is not None:
        fields.append(f"stop={world.stop}")
    if world.calls > 1:
        fields.append(f"calls={world.calls}")
    body = ",\n    ".join(fields)
    return (
        "from fractions import Fraction\n\n"
        f"from specdecode.certify import {certify_name}\n"
        "from specdecode.certify.targets import Certain, Remembers, Widened\n"
        "from specdecode.certify.worlds import World\n"
        "from specdecode.drafts import ArgmaxDraft, NGramDraft\n"
        "from specdecode.models import MarkovModel, RepetitionPenalty\n\n"
        f"{bring}\n\n"
        f"world = World(\n    {body},\n)\n"
        f"print({certify_name}({name}, worlds=[world]))  # about {outcome}\n"
    )


def takes(function: Any, count: int, shape: str) -> None:
    """Refuse what cannot be called with so many arguments."""
    if not callable(function):
        raise ValueError(f"{function!r} is not callable; want {shape}")
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        raise ValueError(
            f"{name_of(function)} does not take {count} arguments ({error}); want {shape}"
        ) from None
    except ValueError:  # some builtins have no signature to look at
        pass


def has_stop(generate: Callable[..., Any]) -> bool:
    """Whether a generator takes `stop`."""
    try:
        inspect.signature(generate).bind(*range(6), stop=None)
    except (TypeError, ValueError):
        return False
    return True


def name_of(function: Any) -> str:
    """What to call a function in an answer."""
    return getattr(function, "__qualname__", type(function).__name__)

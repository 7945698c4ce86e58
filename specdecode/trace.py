"""The counts: what each round did, what a whole run did, and what a policy may look at.

accepted ÷ proposed falls with k though the draft is the same, since tokens after a rejection are never
tested; so the conditional acceptance, by position, stands beside it everywhere.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self, TypeVar, overload

from specdecode.checks import as_number
from specdecode.drafts import Draft

__all__ = ["Round", "Rounds", "Trace", "fold"]

State = TypeVar("State")


@dataclass(frozen=True)
class Round:
    """What one target pass did: tokens proposed, accepted, and emitted before any cut.

    accepted = emitted − 1, since each round adds one token of the target's own.
    """

    proposed: int
    accepted: int
    emitted: int


@dataclass(frozen=True)
class Trace:
    """A generated text and the counts of how it came about.

    Attributes
    ----------
    tokens : list of int
        The new tokens only, after the cut, a stop token included.
    rounds : list of Round
    draft_passes : int
        Draft model passes; 0 for a look-up.

    A ratio of nothing to nothing is None. Traces add up: the counts of `a + b` are those of both runs.

    Examples
    --------
    >>> trace = Trace([0, 1, 2, 0], [Round(2, 2, 3), Round(2, 0, 1)], draft_passes=4)
    >>> trace.tokens_per_step, trace.acceptance_rate, trace.acceptance_by_position
    (2.0, 0.5, [0.5, 1.0])
    >>> trace.speedup(draft_cost=0.25)
    1.3333333333333333
    """

    tokens: list[int]
    rounds: list[Round]
    draft_passes: int

    @classmethod
    def collect(cls, steps: Iterable[tuple[Round, list[int]]], draft: Draft) -> Self:
        """The trace of a whole run from the rounds that `stream_speculative` yields."""
        tokens: list[int] = []
        rounds: list[Round] = []
        for round_, kept in steps:
            rounds.append(round_)
            tokens.extend(kept)
        passes = sum(r.proposed for r in rounds) * getattr(draft, "passes_per_token", 1)
        return cls(tokens, rounds, passes)

    @property
    def drafted(self) -> int:
        """Draft tokens proposed over the whole run."""
        return sum(r.proposed for r in self.rounds)

    @property
    def tested(self) -> int:
        """Draft tokens that were tested: what follows a rejection is proposed but never tested."""
        return sum(min(r.accepted + 1, r.proposed) for r in self.rounds)

    @property
    def accepted(self) -> int:
        """Draft tokens accepted over the whole run, before any cut."""
        return sum(r.accepted for r in self.rounds)

    @property
    def accepted_lengths(self) -> list[int]:
        """Histogram: entry i is the number of rounds that accepted exactly i drafted tokens."""
        longest = max((r.proposed for r in self.rounds), default=-1)
        return [sum(r.accepted == i for r in self.rounds) for i in range(longest + 1)]

    @property
    def counts_by_position(self) -> list[tuple[int, int]]:
        """(accepted, tested) at each drafted position, what `acceptance_by_position` is the ratio of."""
        longest = max((r.proposed for r in self.rounds), default=0)
        return [
            (
                sum(r.accepted >= i for r in self.rounds),
                sum(r.accepted >= i - 1 and r.proposed >= i for r in self.rounds),
            )
            for i in range(1, longest + 1)
        ]

    @property
    def target_passes(self) -> int:
        """Passes of the target: one a round."""
        return len(self.rounds)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted ÷ proposed draft tokens over the whole run, in [0, 1]."""
        return _ratio(self.accepted, self.drafted)

    @property
    def conditional_acceptance(self) -> float | None:
        """Accepted ÷ tested draft tokens."""
        return _ratio(self.accepted, self.tested)

    @property
    def acceptance_by_position(self) -> list[float | None]:
        """Conditional acceptance α_i at each drafted position i, a list as long as the longest proposal.

        Rounds that accepted ≥ i ÷ rounds that accepted ≥ i − 1 and proposed ≥ i. Unlike the acceptance
        rate it does not fall merely because k grows.
        """
        return [_ratio(accepted, tested) for accepted, tested in self.counts_by_position]

    @property
    def tokens_per_step(self) -> float | None:
        """Block efficiency τ: tokens ÷ target passes, after the cut."""
        return _ratio(len(self.tokens), self.target_passes)

    def speedup(self, draft_cost: float) -> float | None:
        """Tokens ÷ (target passes + draft_cost · draft passes): gain over one target pass a token.

        Parameters
        ----------
        draft_cost : float
            c ≥ 0, time of a draft pass ÷ time of a target pass. Assumes that a target pass costs the
            same for one position as for k + 1; `specdecode.cost` drops that assumption.

        Raises
        ------
        ValueError
            If draft_cost is negative or not finite.
        """
        cost = self.target_passes + as_number(draft_cost, "draft_cost", 0) * self.draft_passes
        return _ratio(len(self.tokens), cost)

    def to_dict(self) -> dict[str, Any]:
        """The trace as plain data for JSON.

        Returns
        -------
        dict
            "tokens"; "rounds", a list of [proposed, accepted, emitted]; the counts "target_passes",
            "draft_passes", "drafted", "tested" and "accepted"; the ratios "acceptance_rate",
            "conditional_acceptance" and "tokens_per_step", null for nothing by nothing; and by position
            "acceptance_by_position", "accepted_by_position" and "tested_by_position"; and the histogram
            "accepted_lengths".

        Examples
        --------
        >>> Trace([0, 1], [Round(2, 1, 2)], draft_passes=2).to_dict()["accepted_lengths"]
        [0, 1, 0]
        """
        by_position = self.counts_by_position
        return {
            "tokens": self.tokens,
            "rounds": [[r.proposed, r.accepted, r.emitted] for r in self.rounds],
            "target_passes": self.target_passes,
            "draft_passes": self.draft_passes,
            "drafted": self.drafted,
            "tested": self.tested,
            "accepted": self.accepted,
            "acceptance_rate": self.acceptance_rate,
            "conditional_acceptance": self.conditional_acceptance,
            "tokens_per_step": self.tokens_per_step,
            "acceptance_by_position": self.acceptance_by_position,
            "accepted_by_position": [accepted for accepted, _ in by_position],
            "tested_by_position": [tested for _, tested in by_position],
            "accepted_lengths": self.accepted_lengths,
        }

    def __radd__(self, other: object) -> "Trace":
        return self if other == 0 else NotImplemented  # so that sum() works

    def __add__(self, other: "Trace") -> "Trace":
        if not isinstance(other, Trace):
            return NotImplemented
        return Trace(
            self.tokens + other.tokens, self.rounds + other.rounds, self.draft_passes + other.draft_passes
        )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


class Rounds(Sequence[Round]):
    """The rounds so far, to be read and not written: what a policy is handed.

    Parameters
    ----------
    rounds : list of Round
        Not copied: it grows, and so does what is seen of it here.

    Guarantee
    ---------
    A fold goes on where it left off, so that to ask before every token costs no more than the new rounds.

    Examples
    --------
    >>> played = [Round(2, 1, 2)]
    >>> rounds = Rounds(played)
    >>> played.append(Round(2, 2, 3))
    >>> len(rounds), rounds.fold(lambda accepted, each: accepted + each.accepted, 0)
    (2, 3)
    """

    def __init__(self, rounds: list[Round]) -> None:
        self._rounds = rounds
        self._folds: dict[tuple[Any, Any], tuple[int, Any]] = {}  # (step, start) -> rounds done, state

    @overload
    def __getitem__(self, index: int) -> Round: ...
    @overload
    def __getitem__(self, index: slice) -> list[Round]: ...
    def __getitem__(self, index: int | slice) -> Round | list[Round]:
        return self._rounds[index]

    def __len__(self) -> int:
        return len(self._rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self._rounds)

    def __eq__(self, other: object) -> bool:
        return self._rounds == (other._rounds if isinstance(other, Rounds) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Rounds({self._rounds!r})"

    def fold(self, step: Callable[[State, Round], State], start: State) -> State:
        """step(… step(step(start, first round), second round) …, last round).

        Parameters
        ----------
        step : callable
            A function of its arguments alone, hashable, as functions and methods are.
        start : hashable

        Returns
        -------
        the state after the last round
        """
        state: State
        done, state = self._folds.get((step, start), (0, start))
        for each in self._rounds[done:]:
            state = step(state, each)
        self._folds[step, start] = len(self._rounds), state
        return state


def fold(step: Callable[[State, Round], State], rounds: Sequence[Round], start: State) -> State:
    """`Rounds.fold`, of any sequence of rounds.

    Examples
    --------
    >>> fold(lambda accepted, each: accepted + each.accepted, [Round(2, 1, 2), Round(2, 2, 3)], 0)
    3
    """
    return rounds.fold(step, start) if isinstance(rounds, Rounds) else reduce(step, rounds, start)

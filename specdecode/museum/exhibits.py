"""Quiet bugs: small wrong samplers, each with the public report it came from.

Nearly every exhibit is the right rule with one line changed. The right rule is written here once more, in
loose form (`specdecode.museum.rule`), with its lines as arguments; an exhibit names the argument it changes,
so the fault is what one reads. None of this code is anyone else's: reports were reduced to a mechanism and
the mechanism to a line; a few exhibits, with no source named, are common in home-made code. Two
innocents, accused in public and exact, and three rules that are lossy by design stand beside them.

What an exhibit does is not stated but enumerated: `certificate` gives its exact distance from the target
on its world, `specdecode.museum.usual` says which of the tests people run would have seen it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from specdecode import verifiers
from specdecode.certify import Certificate, certify, certify_generator
from specdecode.certify.worlds import DENSE, FEW, ZEROS, World, table
from specdecode.checks import TokenIds
from specdecode.drafts import ArgmaxDraft
from specdecode.models import RepetitionPenalty
from specdecode.museum.rule import generate, normalised, verify
from specdecode.rule import excess
from specdecode.sampling import draw, temperature
from specdecode.speculative import Trace, cut

__all__ = ["EXHIBITS", "WORLDS", "Exhibit", "certificate"]


@dataclass(frozen=True)
class Exhibit:
    """One sampler of the museum.

    Attributes
    ----------
    name, title : str
    kind : str
        "quiet bug", "innocent", or "lossy".
    sampler : callable
        A verifier, or a generator where the fault lies outside the verifier.
    is_generator : bool
    difference : str
        In which line it differs from the right rule.
    sources : tuple of str
        Public reports, as owner/repository#number, or the repository alone; empty where none is named.
    world : World
        Where its distance is computed.
    detector : str
        What shows the fault: "joint law" or "extreme coins".
    """

    name: str
    title: str
    kind: str
    sampler: Callable[..., Any]
    is_generator: bool
    difference: str
    sources: tuple[str, ...]
    world: World
    detector: str


EXHIBITS: dict[str, Exhibit] = {}
_DENSE = World("dense", *DENSE, k=2, n_tokens=3)
_GENERATED = replace(_DENSE, k=1)  # a generator plays several rounds, so a small k is enough
_ZEROS = World("zeros on either side", *ZEROS, k=2, n_tokens=2)
_MEMORY = World("memory", RepetitionPenalty(DENSE[0], 2), FEW[1], k=2, n_tokens=3)
_STOP = World("stop token", *DENSE, k=2, n_tokens=3, stop=1)
_RARE = World("rare token", table(*[[2**26, 2**26, 1]] * 3), table(*[[1, 1, 1]] * 3), k=1)
WORLDS = _DENSE, _ZEROS, _MEMORY, _STOP, _RARE


def _add(
    name: str,
    title: str,
    sampler: Callable[..., Any],
    difference: str,
    *sources: str,
    kind: str = "quiet bug",
    generator: bool = False,
    world: World | None = None,
    detector: str = "joint law",
) -> None:
    world = world or (_GENERATED if generator else _DENSE)
    EXHIBITS[name] = Exhibit(name, title, kind, sampler, generator, difference, sources, world, detector)


# The row a token was drawn from is not the row it is tested against.


def _drawn_from(other: Callable[[Any], Any]) -> Callable[..., Any]:
    """Propose from another row than the one that is handed over."""

    def propose(draft: Any, text: list[int], k: int, rng: Any) -> tuple[list[int], Any]:
        tokens: list[int] = []
        rows: list[Any] = []
        for _ in range(k):
            q = draft.next_dist([*text, *tokens])
            tokens.append(draw(other(q), rng.random()))
            rows.append(q)
        return tokens, np.array(rows)

    return propose


_add(
    "raw-q",
    "Processed draft, raw q",
    partial(generate, propose=_drawn_from(lambda q: normalised(np.where(q >= np.sort(q)[-2], q, 0)))),
    "the token is drawn after top-k, the ratio uses the unfiltered row",
    "huggingface/transformers#47932",
    generator=True,
)
_add(
    "soft-q",
    "Arg-maxed draft, soft q",
    partial(generate, propose=_drawn_from(lambda q: temperature(q, 0))),
    "the token is the arg-max of q, the ratio uses q as if it had been sampled",
    "huggingface/transformers#32867",
    "jaymody/speculative-sampling#3",
    generator=True,
)
_add(
    "half-precision-draw",
    "Drawn in half precision, tested in double",
    partial(generate, propose=_drawn_from(lambda q: normalised(q.astype(np.float16).astype(float)))),
    "the token is drawn from q rounded to 16 bits",
    "deepseek-ai/DeepSpec#31",
    generator=True,
)


def _invented(draft: Any, text: list[int], k: int, rng: Any) -> tuple[list[int], Any]:
    tokens, _ = ArgmaxDraft(draft).propose(text, k, rng)
    rows = np.zeros((k, draft.vocab_size))
    rows[np.arange(k), tokens] = 0.001
    return tokens, rows


_add(
    "invented-q",
    "Invented q for a look-up draft",
    partial(generate, propose=_invented),
    "a deterministic token is handed over with a made-up small probability instead of 1",
    "openvinotoolkit/openvino.genai#2331",
    generator=True,
)
_add(
    "shifted-rows",
    "Rows shifted by one",
    partial(verify, row=lambda rows, i: rows[max(i - 1, 0)]),
    "from the second token on, p is the row of the position before",
    "NVIDIA/TensorRT-LLM#15098",
)


# Random numbers shared or wrong.


def _reuses_the_drafts_noise(
    target: Any, draft: Any, prefix: TokenIds, n_tokens: int, k: int, rng: Any, stop: int | None = None
) -> Trace:
    noise: list[Any] = []

    def propose(draft: Any, text: list[int], k: int, rng: Any) -> tuple[list[int], Any]:
        noise[:] = [rng.random() for _ in range(k)]
        tokens: list[int] = []
        rows: list[Any] = []
        for u in noise:
            rows.append(draft.next_dist([*text, *tokens]))
            tokens.append(draw(rows[-1], u))
        return tokens, np.array(rows)

    def verify_again(draft_tokens: TokenIds, draft_dists: Any, target_dists: Any, rng: Any) -> list[int]:
        tested = iter(noise)
        return verify(
            draft_tokens,
            draft_dists,
            target_dists,
            rng,
            coin=lambda rng, coins: (rng.random(), next(tested)),
            accepts=lambda coin, ratio: coin[0] < ratio,
            replaces=lambda p, q, x, coin, rng: draw(verifiers.replacement(p, q), coin[1]),
        )

    return generate(target, draft, prefix, n_tokens, k, rng, stop, propose=propose, verify=verify_again)


_add(
    "drafts-noise",
    "The draft's noise reused for the replacement",
    _reuses_the_drafts_noise,
    "the uniform that drew the drafted token draws its replacement too",
    "vllm-project/vllm#54282",
    generator=True,
)
_add(
    "failed-coin",
    "The coin that failed draws the replacement",
    partial(verify, replaces=lambda p, q, x, coin, rng: draw(verifiers.replacement(p, q), coin)),
    "the residual is drawn from with the uniform that has just failed the test",
    "vllm-project/vllm-ascend#16370",
)
_add(
    "coin-stuck",
    "Uniform stuck at zero",
    partial(verify, coin=lambda rng, coins: 0.0),
    "every coin is 0, so everything possible is accepted",
    "vllm-project/vllm-ascend#13730",
)
_add(
    "closed-coin",
    "Coin ≤ ratio",
    partial(verify, accepts=lambda coin, ratio: coin <= ratio),
    "≤ in place of <: a coin of exactly 0 accepts a token with p = 0",
    "sgl-project/sglang#35771",
    world=_ZEROS,
    detector="extreme coins",
)
_add(
    "reseeded-coin",
    "Generator re-seeded before every coin",
    partial(verify, coin=lambda rng, coins: coins[0] if coins else rng.random()),
    "all coins of a round are the same number",
    "feifeibear/LLMSpeculativeSampling",
)


class _Coarse:
    """A uniform rounded down to a multiple of 2⁻²⁴, as far as a comparison can tell."""

    def __init__(self, u: Any) -> None:
        self.u = u

    def __lt__(self, threshold: Any) -> Any:
        if threshold is self:  # as a sorted search asks of its key
            return False
        # ⌊u·2²⁴⌋ < t·2²⁴ if and only if u·2²⁴ < ⌈t·2²⁴⌉
        return self.u < Fraction(math.ceil(Fraction(threshold) * 2**24), 2**24)

    def __ge__(self, threshold: Any) -> Any:
        return not self < threshold

    def __gt__(self, threshold: Any) -> Any:  # ties have positive probability here
        if threshold is self:
            return False
        return self >= Fraction(math.floor(Fraction(threshold) * 2**24) + 1, 2**24)

    def __le__(self, threshold: Any) -> Any:
        return not self > threshold


class _FewBits:
    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def random(self) -> _Coarse:
        return _Coarse(self.rng.random())


_add(
    "few-bits",
    "Uniforms of 24 bits",
    lambda draft_tokens, draft_dists, target_dists, rng: verify(
        draft_tokens, draft_dists, target_dists, _FewBits(rng)
    ),
    "every uniform is a multiple of 2⁻²⁴, so tokens rarer than that starve",
    "vllm-project/vllm#51367",
    world=_RARE,
)


# The rule itself.


def _replaces(row: Callable[..., Any]) -> Callable[..., list[int]]:
    """Replace a rejected token by a draw from row(p, q, x)."""
    return partial(verify, replaces=lambda p, q, x, coin, rng: draw(row(p, q, x), rng.random()))


def _softmax(weights: Any) -> Any:
    return normalised(np.exp(np.asarray(weights, dtype=float)))


def _subtracted_at(p: Any, q: Any, x: int) -> Any:
    rest = p.copy()
    rest[x] = max(p[x] - q[x], 0)
    return normalised(rest)


def _by_ratios(p: Any, q: Any, x: int, coin: Any, rng: Any) -> int:
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = q * np.maximum(p / q - 1, 0)  # (p − q)⁺, until the draft gives 0: then 0/0 or 0·∞
        cumulative = np.cumsum(rest / rest.sum())
    u = rng.random()
    return int(np.argmax([bool(u < entry) for entry in cumulative]))


_add(
    "softmaxed-residual",
    "Softmax of the residual",
    _replaces(lambda p, q, x: _softmax(excess(p, q))),
    "the excess is put through a softmax instead of being divided by its sum",
    "huggingface/transformers#28508",
)
_add(
    "subtracts-at-the-token",
    "Residual subtracts q at the drafted token only",
    _replaces(_subtracted_at),
    "the residual is p without its mass at the rejected token",
    "xLLM-AI/xllm#2175",
)
_add(
    "replaces-from-p",
    "Replacement drawn from p",
    _replaces(lambda p, q, x: p),
    "the rejected token is replaced from the target's row, not the residual",
)


def _draws_again(draft_tokens: TokenIds, draft_dists: Any, target_dists: Any, rng: Any) -> list[int]:
    emitted: list[int] = []
    for x, p in zip(draft_tokens, target_dists):
        if draw(p, rng.random()) != x:
            return [*emitted, draw(p, rng.random())]
        emitted.append(int(x))
    return [*emitted, draw(target_dists[-1], rng.random())]


_add(
    "draws-again",
    "Compares with a target draw, then draws again",
    _draws_again,
    "the draw that differed from the drafted token is thrown away, and another is emitted",
    "romsto/Speculative-Decoding",
)
_add(
    "ratio-to-the-maximum",
    "Ratio against the row's maximum",
    partial(verify, ratio=lambda p, q, x: p[x] / p.max()),
    "a token is kept with p(x) ÷ max p, whatever q was",
    "1bit-MONSTER#637",
)
_add(
    "floored-residual",
    "Floor under the residual",
    _replaces(lambda p, q, x: normalised(excess(p, q) + 0.001)),
    "a small constant is added to every entry of the residual",
    "vllm-project/vllm#13933",
    world=_ZEROS,
)
_add(
    "always-greedy",
    "Target arg-maxed whatever the temperature",
    verifiers.greedy,
    "the target's arg-max is emitted, at every temperature",
    "sgl-project/sglang#37134",
)


def _goes_on(draft_tokens: TokenIds, draft_dists: Any, target_dists: Any, rng: Any) -> list[int]:
    emitted: list[int] = []
    for i, x in enumerate(draft_tokens):
        emitted += verify([x], draft_dists[i : i + 1], target_dists[i : i + 2], rng)[:1]
    return [*emitted, draw(target_dists[-1], rng.random())]


_add(
    "goes-on",
    "Continuing after a rejection",
    _goes_on,
    "later drafted tokens are tested and kept behind a replaced one",
    "openvinotoolkit/openvino.genai#4190",
    "lucidrains/speculative-decoding#3",
)
_add(
    "nan-residual",
    "NaN taken for a row",
    partial(verify, replaces=_by_ratios),
    "where q = 0 the residual is NaN, every comparison with it is false, and token 0 comes out",
    "vllm-project/vllm#41834",
    "vllm-project/vllm#53029",
    world=_ZEROS,
)

# The bonus row.


def _bonus(row: Callable[..., Any]) -> Callable[..., list[int]]:
    """Draw the bonus token from row(target rows, draft rows)."""
    return partial(verify, bonus=lambda target, drafts, rng: draw(row(target, drafts), rng.random()))


_add(
    "samples-only-the-bonus",
    "Only the bonus row is sampled",
    lambda draft_tokens, draft_dists, target_dists, rng: [
        *(out := verifiers.greedy(draft_tokens, draft_dists, target_dists))[:-1],
        draw(target_dists[-1], rng.random()) if len(out) > len(draft_tokens) else out[-1],
    ],
    "drafted positions are compared with the arg-max, and only the bonus token is drawn",
    "ROCm/ATOM#2318",
)
_add(
    "filters-only-the-bonus",
    "Only the bonus row is filtered",
    _bonus(lambda target, drafts: normalised(np.where(target[-1] >= 0.6 * target[-1].max(), target[-1], 0))),
    "min-p is applied to the bonus row alone",
    "vllm-project/vllm#42744",
)
_add(
    "bonus-without-temperature",
    "Bonus ignores the temperature",
    _bonus(lambda target, drafts: temperature(target[-1], 2)),
    "at temperature 0.5 the bonus token is drawn from the row at temperature 1",
    "hemingkx/Spec-Bench",
)
_add(
    "bonus-arg-maxed",
    "Bonus arg-maxed",
    partial(verify, bonus=lambda target, drafts, rng: int(np.argmax(target[-1]))),
    "the bonus token is the arg-max of its row",
)
_add(
    "bonus-from-q",
    "Bonus drawn from q",
    _bonus(lambda target, drafts: drafts[-1] if len(drafts) else target[-1]),
    "the bonus token is drawn from the draft's last row",
)
_add(
    "bonus-from-the-row-before",
    "Bonus drawn from the row before",
    _bonus(lambda target, drafts: target[max(len(drafts) - 1, 0)]),
    "the bonus token is drawn from the row that tested the last drafted token",
)

# Around the rule.

_add(
    "penalty-sees-one-token",
    "Penalty sees one token a round",
    partial(
        generate,
        rows=lambda target, text, drafted: np.array(
            [target.next_dist([*text, *drafted[max(i - 1, 0) : i]]) for i in range(len(drafted) + 1)]
        ),
    ),
    "a row with a memory is given the text before the round and one token of it",
    "sgl-project/sglang#33643",
    generator=True,
    world=_MEMORY,
)
_add(
    "stop-at-the-end-of-a-round",
    "Stop token inside a block",
    partial(
        generate,
        stopped=lambda emitted, stop: emitted[-1] in stop,
        finish=lambda text, n_tokens, stop: text[:n_tokens],
    ),
    "only the last token of a round is compared with the stop token",
    "huggingface/transformers#47912",
    generator=True,
    world=_STOP,
)
_add(
    "first-token-lost",
    "First token lost",
    partial(generate, finish=lambda text, n_tokens, stop: cut(text, n_tokens, stop)[1:]),
    "the returned text begins with its second token",
    "Lightning-AI/litgpt#2307",
    generator=True,
)
_add(
    "surplus-kept",
    "Up to k tokens too many",
    partial(generate, finish=lambda text, n_tokens, stop: cut(text, len(text), stop)),
    "the surplus of the last round is not cut",
    "jaymody/speculative-sampling",
    generator=True,
)


def _two_candidates(
    target: Any, draft: Any, prefix: TokenIds, n_tokens: int, k: int, rng: Any, stop: int | None = None
) -> Trace:
    def propose(draft: Any, text: list[int], k: int, rng: Any) -> tuple[list[int], Any]:
        q = draft.next_dist(text)
        first = draw(q, rng.random())
        rest = np.where(np.arange(len(q)) == first, 0, q)
        second = draw(normalised(rest), rng.random()) if rest.any() else first
        return [first, second], np.array([q, q])

    def verify_first(candidates: TokenIds, draft_dists: Any, target_dists: Any, rng: Any) -> list[int]:
        row = target_dists[0]
        for x, q in zip(candidates, draft_dists):
            if rng.random() < row[x] / q[x]:
                return [int(x)]
            row = verifiers.replacement(row, q)
        return [draw(row, rng.random())]

    def first_row(target: Any, text: list[int], drafted: list[int]) -> list[Any]:
        return [target.next_dist(text)]

    trace = generate(
        target, draft, prefix, n_tokens, k, rng, stop, propose=propose, verify=verify_first, rows=first_row
    )
    return replace(
        trace, rounds=[]
    )  # two candidates at one place: its acceptance has nothing to be compared with


_add(
    "without-replacement",
    "Candidates without replacement, plain q",
    _two_candidates,
    "the second of two different candidates is tested against q, though q without the first drew it",
    "SafeAILab/EAGLE#74",
    generator=True,
)

# Innocent, though accused.

_add(
    "one-hot",
    "Any drafted token, tested as if the draft had been certain",
    verifiers.one_hot,
    "keep with p(x), else draw from p without x",
    "vllm-project/vllm#40149",
    "SafeAILab/EAGLE#221",
    kind="innocent",
)
_add(
    "sampler-match",
    "Accept if the draft equals the target's own draw, and emit that draw either way",
    verifiers.sampler_match,
    "every emitted token is a draw from p",
    "ml-explore/mlx-swift-lm#459",
    "lablup/mlxcel#992",
    kind="innocent",
)

# Lossy by design: not bugs, and never exact.


_add(
    "typical",
    "Typical acceptance",
    partial(verifiers.typical, epsilon=0.3, delta=0.9),
    "a token is kept if p(x) exceeds a threshold that falls with the row's entropy",
    "FasterDecoding/Medusa",
    kind="lossy",
)
_add(
    "lenient",
    "Lenience",
    verifiers.lenient,
    "a token is kept with p ÷ (0.8 q)",
    kind="lossy",
)
_add(
    "mixture",
    "Mixture of p and q",
    verifiers.mixture,
    "tokens are tested against 0.75 p + 0.25 q",
    "huggingface/transformers#45979",
    kind="lossy",
)


def certificate(exhibit: Exhibit, **options: Any) -> Certificate:
    """The certificate of an exhibit on its own world, or on those given as `worlds`.

    Parameters
    ----------
    exhibit : Exhibit
    **options
        As for `certify`.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> found = certificate(EXHIBITS["replaces-from-p"])
    >>> found.verdict, round(float(found.total_variation), 6)
    ('not exact', 0.173611)
    """
    ask = certify_generator if exhibit.is_generator else certify
    return ask(exhibit.sampler, **({"worlds": [exhibit.world]} | options))

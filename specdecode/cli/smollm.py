"""`spec-decode run --model smollm2`: a real language model, streamed as it is accepted, and timed."""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from rich.text import Text

from specdecode import smollm
from specdecode.cli.arguments import or_default, refuse
from specdecode.cli.console import Answer, Console, times
from specdecode.cli.run import counts, policy, rule_and_rows, settings, shaped, show_counts
from specdecode.clock import machine, one_thread
from specdecode.drafts import NGramDraft
from specdecode.policies import Heuristic, Policy
from specdecode.speculative import Round, Trace, generate_target_only, stream_speculative

__all__ = ["answer"]

Result = TypeVar("Result")

_OF_THE_TOY = ("draft", "agreement", "draft_cost", "vocab_size", "target_seed", "draft_seed")


def answer(args: argparse.Namespace) -> Answer:
    """Continue a prompt with speculation and, for the comparison, without."""
    refuse(args, _OF_THE_TOY, "--model smollm2")
    if not args.prompt:
        raise ValueError('--model smollm2 continues a text: want --prompt "…" with at least one character')
    n_tokens = or_default(args.tokens, 64)
    with one_thread():
        model = smollm.load(args.model_path)
        prompt = model.encode(args.prompt)
        rule, shape = rule_and_rows(args)
        target, draft, k = shaped(model, shape), NGramDraft(model.vocab_size), _draft_length(args.k)
        _check_room(model, len(prompt), n_tokens, k, args.k)
        stop, writer = model.stop_ids, None if args.json else _Writer(model, args.prompt)

        def speculative() -> Trace:
            rng = np.random.default_rng(args.seed)
            steps = stream_speculative(
                target, draft, prompt, n_tokens, k, rng, verifier=rule.verify, stop=stop
            )
            return Trace.collect(writer.passed_on(steps) if writer else steps, draft)

        def target_only() -> list[int]:
            return generate_target_only(target, prompt, n_tokens, np.random.default_rng(args.seed), stop=stop)

        # Reading the prompt is not part of either time: both start with it in the cache.
        model.next_dist(prompt)
        trace, seconds = _timed(speculative)
        if writer:
            writer.close()
        model.next_dist(prompt)
        plain, plain_seconds = _timed(target_only)

    pace, plain_pace = _ratio(seconds, len(trace.tokens)), _ratio(plain_seconds, len(plain))
    gain = None if pace is None or plain_pace is None else _ratio(plain_pace, pace)
    report = {
        "command": "run",
        "model": "smollm2",
        "draft": "ngram",
        "claim": rule.claim,
        "settings": {"k": args.k, "tokens": n_tokens, **settings(args), "seed": args.seed, "threads": 1},
        "machine": machine(),
        "prompt": args.prompt,
        "text": model.decode(trace.tokens),
        **counts(trace),
        "seconds_per_token": pace,
        "target_only_seconds_per_token": plain_pace,
        "speedup": gain,
    }

    def show() -> None:
        if pace is None or plain_pace is None or gain is None:
            return show_counts(trace, rule, [])
        words = "faster" if gain > 1 else "slower"
        measured = [
            ("wall-clock", f"{1000 * pace:.0f} ms a token, one thread"),
            ("target only", f"{1000 * plain_pace:.0f} ms a token, same seed, {len(plain)} tokens"),
            ("speedup", f"{times(gain)}, {words} than the target alone, this time"),
            ("on", machine()),
        ]
        return show_counts(trace, rule, measured)

    return Answer(report, True, show)


def _draft_length(asked: int | str) -> int | Policy:
    """The draft length, or a policy. A look-up costs nothing, so what decides is how much of it was kept."""
    if asked == "auto":
        return Heuristic(start=4, longest=16)
    return asked if isinstance(asked, int) else policy(asked, draft_cost=0)


def _check_room(model: Any, n_prompt: int, n_tokens: int, k: int | Policy, asked: int | str) -> None:
    """The last round may draft beyond the last token: that has to fit into the context too."""
    surplus = k if isinstance(k, int) else getattr(k, "longest", getattr(k, "k", 0))
    longest = n_prompt + n_tokens + surplus
    if longest > model.context_length:
        sizes = f"{n_prompt} tokens of prompt, {n_tokens} new ones and k = {asked}"
        raise ValueError(f"{sizes} make {longest}; want at most {model.context_length}")


def _timed(call: Callable[[], Result]) -> tuple[Result, float]:
    began = time.perf_counter()
    result = call()
    return result, time.perf_counter() - began


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


class _Writer:
    """Streams text as it is accepted: drafted tokens green and underlined, the target's own plain."""

    def __init__(self, model: Any, prompt: str) -> None:
        self.model, self.tokens, self.shown = model, list[int](), ""
        self.console = Console(highlight=False, soft_wrap=True)
        self.console.print(Text(prompt, style="dim"), end="")

    def passed_on(self, steps: Iterator[tuple[Round, list[int]]]) -> Iterator[tuple[Round, list[int]]]:
        """The same rounds, written as they come."""
        for round_, kept in steps:
            self._write(round_, kept)
            yield round_, kept

    def _write(self, round_: Round, kept: list[int]) -> None:
        for place, token in enumerate(kept):
            self.tokens.append(token)
            text = self.model.decode(self.tokens)
            if not text.endswith("\ufffd"):  # the bytes of its last character have all arrived
                self._show(text, "green underline" if place < round_.accepted else "")

    def _show(self, text: str, style: str) -> None:
        self.console.print(Text(text[len(self.shown) :], style=style), end="")
        self.shown = text

    def close(self) -> None:
        """The end of the text, and on a terminal the key to its colours."""
        self._show(self.model.decode(self.tokens), "")
        self.console.print("\n")
        if self.console.is_terminal:
            key = Text.assemble(("drafted and accepted", "green underline"), " · the target's own\n")
            self.console.print(key)

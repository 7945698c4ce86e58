"""Every drafter of the library transformers, under every sampling setting, with and without speculation.

Each cell of the matrix is two whole calls of `model.generate`, untouched: one plain, one with a drafter. The
models are of the library's own classes, with three tokens, a width of 8 and random weights; both calls are
enumerated (`specdecode.adapters.pytorch`) and their laws compared. No reference is needed, and nothing is
sampled.

    python book/experiments/drafters.py --save book/experiments/drafters.json

writes the result that chapter 7 shows. Needs the extra `transformers`.
"""

# transformers is typed in part, and may be absent.
# mypy: allow-subclassing-any, allow-untyped-calls

import argparse
import contextlib
import copy
import datetime
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from specdecode.adapters.pytorch import drawing
from specdecode.certify import Sameness, same_law

__all__ = ["DRAFTERS", "SETTINGS", "Drafter", "cell", "main"]

Program = Callable[..., tuple[int, ...]]  # of generate's settings: the new tokens

N_TOKENS = 3
PROMPT = (1, 2, 0, 1, 2)  # it repeats itself, so that a look-up finds something at once
_DRAWS = 2000  # of a cell that cannot be enumerated
TOLERANCE = 1e-5  # float32 logits of a block and of single passes differ in the last bits

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "temperature": {"temperature": 0.7},
    "top-k": {"top_k": 2},
    "top-p": {"top_p": 0.8},
    "min-p": {"min_p": 0.3},
    "typical": {"typical_p": 0.8},
    "epsilon": {"epsilon_cutoff": 0.2},
    "eta": {"eta_cutoff": 0.2},
    "repetition penalty": {"repetition_penalty": 1.5},
    "no repeated pair": {"no_repeat_ngram_size": 2},
    "stop token": {"eos_token_id": 0},
    "stop token, after 2": {"eos_token_id": 0, "min_new_tokens": 2},
    "forced stop": {"eos_token_id": 0, "forced_eos_token_id": 0},
    "decaying stop": {"eos_token_id": 0, "exponential_decay_length_penalty": (1, 1.5)},
    "suppressed token": {"suppress_tokens": [1]},
    "bad words": {"bad_words_ids": [[2], [0, 1]]},
    "sequence bias": {"sequence_bias": [[[0, 1], 2.0]]},
    "all at once": {"temperature": 0.7, "top_k": 2, "repetition_penalty": 1.5, "eos_token_id": 0},
    "guidance": {"guidance_scale": 1.5},
    "SynthID watermark": {
        "watermarking_config": transformers.SynthIDTextWatermarkingConfig(keys=[1, 2], ngram_len=2)
    },
}


@dataclass(frozen=True)
class Drafter:
    """A way of speculating.

    Attributes
    ----------
    name : str
    about : str
        What of the library it runs.
    build : callable
        () -> (plain, speculative): two programs of generate's settings, over the same target. Whatever a call
        changes, the next one sets anew.
    exact : bool
        Whether the library means it to be exact.
    """

    name: str
    about: str
    build: Callable[[], tuple[Program, Program]]
    exact: bool = True


def cell(drafter: Drafter, setting: str, **options: Any) -> Sameness:
    """One cell of the matrix.

    Parameters
    ----------
    drafter : Drafter
    setting : str
        A key of `SETTINGS`.
    **options
        As for `specdecode.certify.same_law`.

    Returns
    -------
    Sameness

    Examples
    --------
    >>> found = cell(DRAFTERS["prompt look-up"], "top-k")
    >>> found.verdict, found.method
    ('equal', 'enumerated')
    """
    programs = []
    with _quietly():
        pair = drafter.build()
    for name, program in zip(("plain", "speculative"), pair):

        def run(program: Program = program) -> tuple[int, ...]:
            with _quietly():
                return program(**SETTINGS[setting])

        run.__qualname__ = name
        programs.append(drawing(run))
    return same_law(*programs, **({"tolerance": TOLERANCE} | options))


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without what the library says of settings that are meant."""
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)


# Tiny models


def _settled(model: Any, seed: int, scale: float = 0.7) -> Any:
    """A model with random matrices, so large that its rows differ, and no generation settings of its own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    model.generation_config = transformers.GenerationConfig(pad_token_id=0)
    return model.eval()


_SIZES: dict[str, Any] = {
    "vocab_size": 3,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}


def _llama(seed: int, layers: int, **sizes: Any) -> Any:
    config = transformers.LlamaConfig(**(_SIZES | {"num_hidden_layers": layers} | sizes))
    return _settled(transformers.LlamaForCausalLM(config), seed)


def _generate(model: Any, prompt: Sequence[int] = PROMPT, **options: Any) -> tuple[int, ...]:
    ids = torch.tensor([list(prompt)])
    # The mask is given, since the library would take the real token 0 for padding.
    settings = {"do_sample": True, "max_new_tokens": N_TOKENS, "top_k": 0, "pad_token_id": 0} | options
    given = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **settings)
    return tuple(given[0, len(prompt) :].tolist())


def _assist(draft: Any, k: int = 2, schedule: str = "constant", confidence: float = 0.0) -> dict[str, Any]:
    """Arguments that make `draft` the assistant, whose settings a call changes."""
    draft.generation_config = transformers.GenerationConfig(
        pad_token_id=0,
        num_assistant_tokens=k,
        num_assistant_tokens_schedule=schedule,
        assistant_confidence_threshold=confidence,
    )
    return {"assistant_model": draft}


# Drafters


def _assistant(
    target: Callable[[], Any] = lambda: _llama(100, layers=2), cache: str | None = None, **how: Any
) -> Callable[[], tuple[Program, Program]]:
    def build() -> tuple[Program, Program]:
        model, draft = target(), _llama(101, layers=1)
        fixed: dict[str, Any] = {} if cache is None else {"cache_implementation": cache}
        more = {name: how[name] for name in how if name == "assistant_ensemble_weight"}
        drafting = {name: value for name, value in how.items() if name not in more}
        return (
            lambda **s: _generate(model, **fixed, **s),
            lambda **s: _generate(model, **fixed, **more, **_assist(draft, **drafting), **s),
        )

    return build


def _sliding() -> Any:
    config = transformers.MistralConfig(**_SIZES, num_hidden_layers=2, head_dim=4, sliding_window=3)
    return _settled(transformers.MistralForCausalLM(config), 103)


def _look_up() -> tuple[Program, Program]:
    model = _llama(100, layers=2)
    return (
        lambda **s: _generate(model, **s),
        lambda **s: _generate(model, prompt_lookup_num_tokens=2, **s),
    )


def _early_exit() -> tuple[Program, Program]:
    model = _llama(100, layers=2)

    def speculative(**settings: Any) -> tuple[int, ...]:
        _assist(model)
        return _generate(model, assistant_early_exit=1, **settings)

    return lambda **s: _generate(model, **s), speculative


def _tokenizer(words: Sequence[str]) -> Any:
    """A tokenizer of whole words, whose vocabulary is listed in the order given, whatever their ids."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    ids = {word: i for i, word in enumerate(sorted(words))}
    inner = Tokenizer(models.WordLevel(ids, unk_token="a"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()

    class Listed(transformers.PreTrainedTokenizerFast):
        def get_vocab(self) -> dict[str, int]:
            return {word: ids[word] for word in words}

    return Listed(tokenizer_object=inner)


def _tokenizers(words: Sequence[str]) -> Callable[[], tuple[Program, Program]]:
    """An assistant with one token more than the target, its vocabulary listed in this order."""

    def build() -> tuple[Program, Program]:
        model, draft = _llama(100, layers=2), _llama(101, layers=1, vocab_size=len(words))

        def speculative(**settings: Any) -> tuple[int, ...]:
            fresh = copy.deepcopy(draft)  # its head is rewritten by the call
            pair = {"tokenizer": _tokenizer("abc"), "assistant_tokenizer": _tokenizer(words)}
            return _generate(model, **_assist(fresh), **pair, **settings)

        return lambda **s: _generate(model, **s), speculative

    return build


def _gemma4() -> tuple[Program, Program]:
    def sizes(**more: Any) -> Any:
        return transformers.Gemma4TextConfig(
            **(_SIZES | {"num_key_value_heads": 1, "global_head_dim": 4}),
            num_hidden_layers=2,
            head_dim=4,
            layer_types=["sliding_attention", "full_attention"],
            sliding_window=16,
            hidden_size_per_layer_input=0,
            **more,
        )

    model = _settled(transformers.Gemma4ForCausalLM(sizes(vocab_size_per_layer_input=3)), 1, scale=1.0)
    config = transformers.Gemma4AssistantConfig(
        text_config=sizes(vocab_size_per_layer_input=0, num_kv_shared_layers=2),
        backbone_hidden_size=8,
        tie_word_embeddings=False,
    )
    draft = _settled(transformers.Gemma4AssistantForCausalLM(config), 21, scale=1.0)
    return (
        lambda **s: _generate(model, **s),
        lambda **s: _generate(model, **_assist(draft), **s),
    )


def _mtp(layers: int, prompt: Sequence[int] = PROMPT) -> Callable[[], tuple[Program, Program]]:
    from transformers.modeling_layers import MtpModel

    def build() -> tuple[Program, Program]:
        sizes = _SIZES | {"num_hidden_layers": 1, "head_dim": 4, "moe_intermediate_size": 8}
        config = transformers.Glm4MoeConfig(
            **sizes, n_routed_experts=2, num_experts_per_tok=1, first_k_dense_replace=1, num_mtp_layers=layers
        )
        model = _settled(transformers.Glm4MoeForCausalLM(config), 1)
        drafting: Any = MtpModel(model, layers)
        _settled(drafting.layers, 2)  # its embedding and its head are the target's
        drafting.eval()

        def speculative(**settings: Any) -> tuple[int, ...]:
            with _returning(MtpModel, drafting):
                return _generate(model, prompt, use_mtp=True, **settings)

        return lambda **s: _generate(model, prompt, **s), speculative

    return build


@contextlib.contextmanager
def _returning(cls: Any, model: Any) -> Iterator[None]:
    """Random weights where the library would read a checkpoint."""
    read = cls.__dict__["from_pretrained"]
    cls.from_pretrained = classmethod(lambda cls, *args, **kwargs: model)
    try:
        yield
    finally:
        cls.from_pretrained = read


def _dflash(block: int) -> Callable[[], tuple[Program, Program]]:
    def build() -> tuple[Program, Program]:
        model = _llama(100, layers=2)
        sizes = {
            name: size for name, size in _SIZES.items() if name not in ("vocab_size", "tie_word_embeddings")
        }
        config = transformers.MuseGlimmerAssistantConfig(
            **sizes,
            num_hidden_layers=1,
            head_dim=4,
            sliding_window=16,
            layer_types=["full_attention"],
            block_size=block,
            mask_token_id=0,
            target_layer_ids=[0, 1],
        )
        draft = _settled(transformers.MuseGlimmerAssistantModel(config), 9)
        return (
            lambda **s: _generate(model, **s),
            lambda **s: _generate(model, assistant_model=draft, speculation_type="dflash", **s),
        )

    return build


DRAFTERS = {
    drafter.name: drafter
    for drafter in (
        Drafter("assistant", "AssistedCandidateGenerator, k = 2", _assistant()),
        Drafter("heuristic schedule", "the same, k from 1", _assistant(k=1, schedule="heuristic")),
        Drafter("confidence threshold", "the same, at 0.4", _assistant(k=3, confidence=0.4)),
        Drafter("static cache", "the same, cache_implementation='static'", _assistant(cache="static")),
        Drafter("sliding window", "the same, on a target with a window of 3", _assistant(target=_sliding)),
        Drafter("prompt look-up", "PromptLookupCandidateGenerator, k = 2", _look_up),
        Drafter("early exit", "EarlyExitCandidateGenerator, after layer 1", _early_exit),
        Drafter(
            "tokenizers, in order",
            "UniversalSpeculativeDecodingGenerator, vocabulary listed by id",
            _tokenizers("abcd"),
        ),
        Drafter(
            "tokenizers, out of order",
            "the same, the same vocabulary listed in another order",
            _tokenizers("dcba"),
        ),
        Drafter("Gemma 4 assistant", "SinglePositionMultiTokenCandidateGenerator, k = 2", _gemma4),
        Drafter("MTP, one layer", "MTPCandidateGenerator", _mtp(1)),
        Drafter("MTP, two layers", "the same", _mtp(2)),
        Drafter(
            "MTP, short prompt", "the same, two layers after a prompt of one token", _mtp(2, prompt=(1,))
        ),
        Drafter("DFlash", "DFlashTokenCandidateGenerator, blocks of 3", _dflash(3)),
        Drafter(
            "ensemble weight",
            "the assistant, assistant_ensemble_weight=0.7",
            _assistant(assistant_ensemble_weight=0.7),
            exact=False,
        ),
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the matrix and print it; see the head of this module.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process if left out.

    Returns
    -------
    int
        0. The matrix is a result, not a test.
    """
    parser = argparse.ArgumentParser(
        prog="python book/experiments/drafters.py", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--save", metavar="FILE", type=Path, help="write the result as JSON")
    parser.add_argument("--drafter", choices=DRAFTERS, nargs="+", default=list(DRAFTERS), metavar="NAME")
    parser.add_argument("--setting", choices=SETTINGS, nargs="+", default=list(SETTINGS), metavar="NAME")
    args = parser.parse_args(argv)
    part = set(args.drafter) != set(DRAFTERS) or set(args.setting) != set(SETTINGS)
    if args.save and part and args.save.exists():
        parser.error(
            f"{args.save} is there, and this is a part of the matrix; want another FILE, or the whole"
        )
    torch.set_num_threads(1)
    cells = []
    for name in args.drafter:
        for setting in args.setting:
            began = time.monotonic()
            found = cell(DRAFTERS[name], setting, draws=_DRAWS)
            cells.append({"drafter": name, "setting": setting, **found.to_dict()})
            print(f"{name:<26}{setting:<22}{_shown(found):<34}{time.monotonic() - began:5.1f} s", flush=True)
    if args.save:
        args.save.write_text(json.dumps(_result(cells), indent=1) + "\n")
    return 0


def _shown(found: Sameness) -> str:
    size = "" if found.total_variation is None else f" {float(found.total_variation):.1e}"
    paths = "" if found.paths is None else f", {found.paths[1]} paths"
    return f"{found.verdict}{size}{paths}"


def _result(cells: list[dict[str, Any]]) -> dict[str, Any]:
    kept = ("drafter", "setting", "verdict", "method", "paths", "total_variation", "worst", "reason", "notes")
    return {
        "command": "python book/experiments/drafters.py",
        "date": datetime.date.today().isoformat(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "n_tokens": N_TOKENS,
        "tolerance": TOLERANCE,
        "drafters": {name: {"about": d.about, "exact": d.exact} for name, d in DRAFTERS.items()},
        "settings": {name: {key: repr(value) for key, value in s.items()} for name, s in SETTINGS.items()},
        "cells": [{key: each[key] for key in kept} for each in cells],
    }


if __name__ == "__main__":
    sys.exit(main())

"""`spec-decode certify`: does a sampler of yours emit exactly p?

Someone else's code is run in a child process: a loop that draws nothing can only be stopped from outside.
"""

import argparse
from typing import Any

from rich.text import Text

from specdecode.cli.arguments import given, number, whole
from specdecode.cli.child import FLOAT32, in_child, torch_adapter
from specdecode.cli.console import Answer, Console, table_of, tracked

__all__ = ["answer", "declare"]

_SHAPES = """\
the function:
  verifier(draft_tokens, draft_dists, target_dists, rng) -> emitted
    draft_tokens   int64 (k,)            token i was drawn from draft_dists[i]; k may be 0
    draft_dists    float64 (k, V)
    target_dists   float64 (k + 1, V)    row i is the target's after i drafted tokens
    rng            as numpy.random.Generator
    emitted        the round's 1 to k + 1 token ids, a list or an array: no padding, and
                   nothing beside them

  --generator: generate(target, draft, prefix, n_tokens, k, rng) -> tokens
    target, draft  vocab_size, and next_dist(prefix) -> float64 (V,)
    prefix         list of int
    tokens         the n_tokens new ids alone, without the prefix, or an object with .tokens
    It may take stop=, an id, and then returns fewer tokens, that one last.

  --torch: verifier(draft_tokens, draft_dists, target_dists[, generator]) -> emitted
    on tensors of these shapes, int64 and float32, and draws through torch.

an example, which is exact:
  import numpy as np

  def verifier(draft_tokens, draft_dists, target_dists, rng):
      for i, x in enumerate(draft_tokens):
          p, q = target_dists[i], draft_dists[i]
          if rng.random() >= p[x] / q[x]:
              left = np.maximum(p - q, 0)
              left = left if left.any() else p  # only rounding rejected
              return [*draft_tokens[:i], rng.choice(len(p), p=left / left.sum())]
      p = target_dists[-1]
      return [*draft_tokens, rng.choice(len(p), p=p)]
"""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = "Does a sampler of yours emit exactly p? Certifying a file runs it."
    parser.epilog, parser.formatter_class = _SHAPES, argparse.RawDescriptionHelpFormatter
    parser.add_argument("function", metavar="FILE.py:FUNCTION", help="or package.module:function")
    parser.add_argument("--generator", action="store_true", help="it is a whole generator, not a verifier")
    parser.add_argument(
        "--torch", action="store_true", help="a verifier on torch tensors that draws by torch"
    )
    parser.add_argument("--require", choices=["enumerated"], help="fail if it could only be sampled")
    parser.add_argument("--tolerance", type=number(0), help="allowed distance (default 1e-12; float32: 1e-6)")
    parser.add_argument("--draws", type=whole(100, 10**8), help="texts a world, if it has to be sampled")
    parser.add_argument("--alpha", type=number(0, 1), help="false alarms, if sampled (default 1e-6)")
    sizes: dict[str, Any] = {"type": whole(1, 10**6), "nargs": "+", "metavar": "N"}
    parser.add_argument("--vocab", help="vocabulary sizes to try besides, 3 or more", **sizes)
    parser.add_argument("--k", help="draft lengths to try besides", **sizes)
    parser.add_argument("--tokens", help="--generator: lengths of texts to try besides", **sizes)
    parser.add_argument("--seconds", type=number(0.1), default=120.0, help="wall-clock limit (default 120)")


def answer(args: argparse.Namespace) -> Answer:
    """Certify one function: its certificate, or why there is none."""
    if args.torch and args.generator:
        raise ValueError("--torch is for verifiers; for a whole program compare it with another: `compare`")
    if args.tokens is not None and not args.generator:
        raise ValueError("--tokens is for generators; for a verifier want --k, or --generator with it")
    options = given(args, ["tolerance", "draws", "alpha", "seed", "vocab", "k", "tokens"])
    kind = "torch" if args.torch else "generator" if args.generator else "verifier"
    found = in_child(args.function, args.seconds, certified, args.function, kind, options)
    found = {"worlds": [], "witness": None, **found}
    text = found.pop("text")
    accepted = ["exact"] if args.require == "enumerated" else ["exact", "no difference found"]
    passed = found["verdict"] in accepted and found.pop("has_power", True)
    return Answer({"command": "certify", **found}, passed, lambda: _show(found, text))


def certified(name: str, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """In the child: the certificate as plain data."""
    from specdecode.certify import certify, certify_generator
    from specdecode.loading import load_function, source_hash

    function = load_function(name)
    sampler, ask = function, certify_generator if kind == "generator" else certify
    if kind == "torch":
        sampler, options = torch_adapter().as_verifier(function), {"tolerance": FLOAT32, **options}
    found = ask(sampler, track=lambda worlds: tracked(worlds, len(worlds), "worlds"), **options)
    source = {"function": name, "source_sha256": source_hash(function)}
    return {**source, **found.to_dict(), "text": str(found), "has_power": found.has_power}


def _show(found: dict[str, Any], text: str) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if found["worlds"]:
        table = table_of("world", "k", "tokens", "paths or draws", "total variation or p", left=1)
        for check in found["worlds"]:
            evidence = check["total_variation"] if check["p_value"] is None else check["p_value"]
            size = check["paths"] or check["draws"]
            cells = check["world"], check["k"], check["n_tokens"], size, f"{evidence:.1e}"
            table.add_row(*map(str, cells), style=None if check["passed"] else "bold red")
        console.print(table)
    console.print(Text(text))
    if found["witness"]:
        console.print("\nTo see it again:\n")
        console.print(Text(found["witness"]["snippet"]))

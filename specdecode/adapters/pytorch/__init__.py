"""PyTorch programs under the exact law, unmodified.

A mode stands between a program and torch. It answers every draw from an rng that is handed over: with the
lazy uniforms of `specdecode.exact.law` a tensor of draws holds what is not yet known, and a comparison with
a tensor of thresholds splits the path, entry by entry; `torch.multinomial` and an exponential race branch on
the row. Tensors without draws go to torch untouched. Whatever else is done to a draw raises `Inexact`;
nothing is guessed.

programs     the law of a torch program, two of them compared, a torch verifier for `certify`
mode         what stands between a program and torch
answers      the draws, answered from the rng
followed     what a program may do with a draw
entries      what is known of each number in a tensor of draws
generators   the states of torch's generators, where a draw that went unseen shows
races        noise that decides who wins
names, calls the functions of torch by what they do, and one call of one

Needs the extra `torch`:  pip install 'specdecode[torch]' --extra-index-url https://download.pytorch.org/whl/cpu
"""

try:
    import torch
except ImportError as error:
    raise ImportError(
        "PyTorch programs need torch: pip install 'specdecode[torch]' --extra-index-url "
        "https://download.pytorch.org/whl/cpu (without the index, a CUDA build of gigabytes)"
    ) from error

from specdecode.adapters.pytorch.programs import as_verifier, compare, drawing, law

__all__ = ["as_verifier", "compare", "drawing", "law", "torch"]

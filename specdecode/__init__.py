"""Speculative decoding, proved exact about the very code that runs.

The rooms, in the order in which they build on each other:

checks       what may enter: rows, token ids, numbers
rule         overlap, excess, acceptance, residual: the rule, in any arithmetic
sampling     from a row to a token, and from a row to a row
models       pure functions from a prefix to a row
drafts       what proposes the tokens
policies     how many tokens to draft, decided as one goes
verifiers    rules that turn drafted tokens and rows into emitted tokens
candidates   several tokens drafted for one position
trace        what a run did, counted
speculative  rounds, and the generator
cost         block efficiency and speedup in closed form
sweep        the toy world measured over agreements and draft lengths
optimum      the most that any exact rule can accept, by linear program
exact        the exact law of a program: lazy uniforms, paths, laws
certify      does this sampler emit exactly p? have these two the same law? asked of anyone's code
testing      one line in someone else's test suite
proof        the package's own certificates: the identity, all rows, the programs of the Coq proofs
museum       quiet bugs, each a small wrong sampler
adapters     other people's worlds: PyTorch programs, transformers models, servers
smollm       a real 135M-parameter language model in NumPy
clock        time, measured so that it can be quoted
plots        the figures
loading      functions named on the command line
cli          the command `spec-decode`
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from specdecode import _moved  # noqa: F401 - old names of rooms go on working

if TYPE_CHECKING:
    from specdecode.models import draft_from_target, random_markov
    from specdecode.speculative import generate_speculative, generate_target_only

__all__ = ["draft_from_target", "generate_speculative", "generate_target_only", "random_markov"]
__version__ = "0.1.0"

_ROOMS = {
    "draft_from_target": "models",
    "generate_speculative": "speculative",
    "generate_target_only": "speculative",
    "random_markov": "models",
}


if not TYPE_CHECKING:  # a type checker that saw it would take any name for a public one

    def __getattr__(name: str) -> Any:
        """The public names and the rooms, imported when they are asked for: to start costs no library."""
        if name in _ROOMS:
            return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
        if not name.startswith("_"):
            try:
                return import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{name}":
                    raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

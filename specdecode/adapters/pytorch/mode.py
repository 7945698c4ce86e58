"""The mode between a PyTorch program and torch: it sees every call, and who answers it.

A draw is answered by `answers`; what has a draw in its hands goes to `followed`; all else goes to torch.
What runs below the functions of torch, inside TorchScript or vmap, a second mode watches: a draw that arrives
there is refused.
"""

# The modes of torch are typed in part, and torch may be absent.
# mypy: allow-subclassing-any, allow-untyped-calls

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from specdecode.adapters.pytorch import names
from specdecode.adapters.pytorch.answers import Answers
from specdecode.adapters.pytorch.calls import Call, TorchError, tensors
from specdecode.adapters.pytorch.entries import Entries
from specdecode.adapters.pytorch.followed import Followed
from specdecode.adapters.pytorch.generators import Generators
from specdecode.exact.uniforms import Inexact, NotReproducible, TooLarge

__all__ = ["Draws"]

_DRAWS = {
    name: tuple(getattr(owner, name) for owner in (torch, torch.Tensor) if hasattr(owner, name))
    for name in names.DRAWS
}


class Draws(TorchFunctionMode):
    """Answers the draws of torch from an rng; a context manager for one run of a program.

    Parameters
    ----------
    rng : specdecode.exact.LazyGenerator
        Its path is told of every refusal, so that a program that swallows one is not believed.

    Notes
    -----
    On leaving, tensors of the program's own that hold draws get back what they held before, and a generator
    that was seeded, or drawn from unseen, is told. Threads that the program starts are not watched.
    """

    def __init__(self, rng: Any) -> None:
        super().__init__()
        self._path = rng._path
        self._path.watched = True
        self._entries, self._generators = Entries(rng._path), Generators(rng._path)
        self._answers = Answers(rng, self._entries, self._generators)
        self._followed = Followed(rng._path, self._entries, self._answers.uniform)
        self._below = _Below(self)
        self._inside = 0  # while the mode itself works

    def __enter__(self) -> "Draws":
        super().__enter__()
        self._below.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._below.__exit__(kind, error, trace)
        super().__exit__(kind, error, trace)
        self._entries.give_back()
        if error is None:
            self._generators.end()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        draw = self._drawn_by(func, name)
        if draw is None:
            if name in names.NOT_FOLLOWED or kwargs.get("generator") is not None:
                self._path.refuse(f"torch.{name} is not followed; {names.FOLLOWED}")
            if not self._hold((args, kwargs)):
                if name in names.MIRRORS:
                    self._entries.share(args[0])
                return func(*args, **kwargs)
        self._inside += 1
        try:
            call = Call.made(func, name, args, kwargs)
            return self._followed.follow(call) if draw is None else draw(*call.args, **call.kwargs)
        except (Inexact, NotReproducible, TooLarge):
            raise
        except TorchError as carried:
            raise carried.error from None
        except Exception as error:
            self._path.refuse(
                f"torch.{name} called this way is not followed ({type(error).__name__}: {error})"
            )
        finally:
            self._inside -= 1

    def _drawn_by(self, func: Any, name: str) -> Any:
        """What answers this function, if it draws."""
        if func in _DRAWS.get(name, ()):
            return getattr(self._answers, name)
        if name in names.INITIALISERS and getattr(func, "__module__", "") == "torch.nn.init":
            return self._answers.initialised
        return None

    def _hold(self, values: Any) -> bool:
        """Whether a draw is among these arguments."""
        return bool(self._entries) and any(map(self._entries.hold, tensors(values)))

    def watch(self, func: Any, args: Any, kwargs: Any) -> None:
        """Refuse an operation that has a draw in its hands and was not seen from above."""
        if self._inside or func.__name__.split(".")[0] in ("detach", "alias", "view"):
            return
        if self._hold((args, kwargs)):
            self._path.refuse(
                f"a draw went into {func} below the functions of torch, where it is not followed"
            )


class _Below(TorchDispatchMode):
    """Watches the operations under the functions of torch, where a draw must not arrive unseen."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self._draws = draws

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._draws.watch(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

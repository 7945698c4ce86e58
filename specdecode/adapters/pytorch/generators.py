"""The states of the generators of torch, where a draw that nobody answered leaves its trace.

The draws of a program are answered from lazy uniforms. Its real generators are advanced beside them all the
same: a state that two draws begin from, or one that moved without an answer, means that the answers are not
those of the program.
"""

import random
from typing import Any

import numpy as np
import torch

from specdecode.adapters.pytorch.names import FOLLOWED

__all__ = ["Generators"]


class Generators:
    """All generators of one run of a program.

    Parameters
    ----------
    path : Path
        Told of every refusal.
    """

    def __init__(self, path: Any) -> None:
        self._path = path
        self._left = torch.get_rng_state()  # the state of torch's own generator, after its last draw
        self._used: set[bytes] = set()  # every state that a draw began from
        self._others = _states_of_others()

    def begin(self, tensor: Any, generator: Any = None) -> None:
        """Note a draw that is about to be answered, into a tensor like this one."""
        if tensor.device.type != "cpu":
            self._path.refuse(
                f"a draw on the device {tensor.device} is not followed; run the program on the CPU"
            )
        if torch._C._functorch.peek_interpreter_stack() is not None:
            self._path.refuse("a draw inside vmap, or another transform of torch.func, is not followed")
        generator = None if generator is torch.default_generator else generator
        state = torch.get_rng_state() if generator is None else generator.get_state()
        if generator is None:
            self._refuse_stray(state)
        if state.numpy().tobytes() in self._used:
            self._path.refuse("two draws began from the same state of a generator: a seed was used again")
        self._used.add(state.numpy().tobytes())
        torch.rand(1, generator=generator)
        self._left = torch.get_rng_state()

    def end(self) -> None:
        """Refuse what was drawn unseen."""
        self._refuse_stray(torch.get_rng_state())
        if self._others != _states_of_others():
            self._path.refuse("it drew from Python's or NumPy's own generator; draw through torch alone")

    def _refuse_stray(self, state: Any) -> None:
        if not torch.equal(self._left, state):
            self._path.refuse(f"it seeds torch's generator itself, or draws where it is not seen; {FOLLOWED}")


def _states_of_others() -> tuple[Any, Any]:
    state: Any = np.random.get_state()
    return random.getstate(), (state[1].tobytes(), state[2:])

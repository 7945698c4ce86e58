"""Rooms that have moved: their old names go on working.

`import specdecode.worlds` gives `specdecode.certify.worlds`, the same module under both names.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED"]

MOVED = {
    "specdecode.formal": "specdecode.proof.programs",
    "specdecode.gtest": "specdecode.certify.statistics",
    "specdecode.paths": "specdecode.exact.uniforms",
    "specdecode.sameness": "specdecode.certify.same",
    "specdecode.symbolic": "specdecode.proof.all_rows",
    "specdecode.worlds": "specdecode.certify.worlds",
}


class _Finder:
    """Finds an old name, and puts the room itself in its place."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(MOVED[module.__name__])


sys.meta_path.append(_Finder())

"""What the tests of the proofs share: the stored result, the checker, and ways to run and to break things."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROOFS = Path(__file__).resolve().parent.parent / "book" / "proofs"
STORED = json.loads((PROOFS / "checked.json").read_text())

spec = importlib.util.spec_from_file_location("check_proofs", PROOFS / "check.py")
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)

needs_coq = pytest.mark.usefixtures("coq")


def change(file, old, new):
    text = file.read_text()
    assert text.count(old) == 1, f"{file.name} has {old!r} {text.count(old)} times"
    file.write_text(text.replace(old, new))


def run(*arguments, path=None):
    environment = os.environ | ({"PATH": str(path)} if path else {})
    return subprocess.run(
        [sys.executable, PROOFS / "check.py", *arguments], capture_output=True, text=True, env=environment
    )

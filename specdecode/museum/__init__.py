"""Quiet bugs, each a small wrong sampler with the public report it came from.

rule      the right rule, with its lines as arguments
exhibits  the samplers, each with one line changed
usual     the tests that people usually run, and what they would catch
"""

from specdecode.museum.exhibits import EXHIBITS, WORLDS, Exhibit, certificate
from specdecode.museum.rule import generate, verify
from specdecode.museum.usual import SEEN, USUAL_TESTS, grid, usual_tests

__all__ = [
    "EXHIBITS",
    "SEEN",
    "USUAL_TESTS",
    "WORLDS",
    "Exhibit",
    "certificate",
    "generate",
    "grid",
    "usual_tests",
    "verify",
]

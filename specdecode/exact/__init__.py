"""The exact law of a program that draws random numbers: every path of its draws, followed.

uniforms    lazy uniforms, and the paths along which they are learnt
functions   what becomes of one: its logarithm, say, and noise for a race
generators  what is handed to a program in place of a generator
outcomes    what a program ends in
laws        the law of a program, and two laws side by side
texts       laws of texts: plain sampling's, and those of texts made in rounds
"""

from specdecode.exact.generators import LazyGenerator, LazyRandom, Numbers
from specdecode.exact.laws import Comparison, Law, against, compare, distance, law
from specdecode.exact.outcomes import Fault, outcome_of
from specdecode.exact.texts import ancestral_law, compose
from specdecode.exact.uniforms import Inexact, LazyUniform, NotReproducible, Path, TooLarge, walk

__all__ = [
    "Comparison",
    "Fault",
    "Inexact",
    "Law",
    "LazyGenerator",
    "LazyRandom",
    "LazyUniform",
    "NotReproducible",
    "Numbers",
    "Path",
    "TooLarge",
    "against",
    "ancestral_law",
    "compare",
    "compose",
    "distance",
    "law",
    "outcome_of",
    "walk",
]

"""What this package proves of itself, about the code that runs.

identity  the one-token identity in every arithmetic, and the law of the running generator
symbols   rows of symbols
all_rows  a verifier for all real rows at once, by an SMT solver
programs  the programs of the Coq proofs, running
"""

from specdecode.certify.worlds import small_generator_worlds
from specdecode.proof.all_rows import Answer, Undecided, certify_for_all_rows, completed_round, for_all_rows
from specdecode.proof.identity import (
    Enumeration,
    Identity,
    deviation,
    induced_from_dists,
    random_pairs,
    round_law,
    text_law,
    verify_generator,
    verify_identity,
)
from specdecode.proof.symbols import generic_rows, symbolic_rows

generator_worlds = small_generator_worlds  # those on which the running generator is proved, in Fractions

__all__ = [
    "Answer",
    "Enumeration",
    "Identity",
    "Undecided",
    "certify_for_all_rows",
    "completed_round",
    "deviation",
    "for_all_rows",
    "generator_worlds",
    "generic_rows",
    "induced_from_dists",
    "random_pairs",
    "round_law",
    "symbolic_rows",
    "text_law",
    "verify_generator",
    "verify_identity",
]

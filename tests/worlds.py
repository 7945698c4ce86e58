"""Small rational worlds, small enough to enumerate."""

from fractions import Fraction as F

import numpy as np

from specdecode.models import MarkovModel


def markov(*rows):
    """A Markov model from rows of integer weights, as Fractions."""
    return MarkovModel([[F(w, sum(row)) for w in row] for row in rows])


# Three tokens, rational rows: an impossible token on either side, and no row shared.
TARGET = markov([2, 1, 1], [1, 2, 1], [0, 2, 3])
DRAFT = markov([1, 1, 2], [2, 0, 1], [1, 1, 3])


class Parity:
    """A target with a memory: after an even number of 0s it favours 1, after an odd number 2."""

    def __init__(self):
        self.vocab_size = 3

    def next_dist(self, prefix):
        favourite = 1 if list(prefix).count(0) % 2 == 0 else 2
        return np.array([F(1, 2) if token == favourite else F(1, 4) for token in range(3)], dtype=object)

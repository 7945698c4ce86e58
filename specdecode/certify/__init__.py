"""Does this sampler emit exactly p? Have these two the same law? Asked of anyone's code.

worlds       small targets and drafts, chosen so that faults have nowhere to hide
certificate  the answer, with its evidence
trial        what is put to the test
hints        what may help to find a mistake
enumerated   the law of a sampler on a world, and the witness of a wrong one
statistics   the tests for what cannot be enumerated, and what they would have seen
sampled      the certificate of what had to be sampled
extremes     coins at the ends of [0, 1)
verdicts     the question itself: `certify` and `certify_generator`
batch        the question for a verifier of batches: `certify_batch`
same         the question without a reference: `same_law`
"""

from specdecode.certify.batch import certify_batch
from specdecode.certify.certificate import Certificate, Check, Witness
from specdecode.certify.same import Sameness, Sample, compare_samples, same_law
from specdecode.certify.verdicts import certify, certify_generator, distance_on
from specdecode.exact import Fault

__all__ = [
    "Certificate",
    "Check",
    "Fault",
    "Sameness",
    "Sample",
    "Witness",
    "certify",
    "certify_batch",
    "certify_generator",
    "compare_samples",
    "distance_on",
    "same_law",
]

"""Other people's worlds under the certifier.

pytorch       programs and verifiers that draw through torch, whole calls of a library among them
transformers  a causal language model of the library transformers as a `Model`
servers       two servers, asked over HTTP, as black boxes

Nothing here is imported by `import specdecode`. Each needs an extra and says which when it is missing.
"""

"""Other people's worlds under the certifier: PyTorch programs, transformers models, servers.

Nothing here is imported by `import specdecode`. Each module needs an extra and says which when it is missing.
"""

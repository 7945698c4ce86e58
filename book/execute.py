"""Execute notebooks in place: `python book/execute.py book/*.ipynb`, from the root of the repository.

As `jupyter execute --inplace`, but without what makes every run differ from the last: the times, where a
stream was cut into pieces, and the version of the Python that ran it.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def execute(path: Path) -> None:
    nb = nbformat.read(path, as_version=4)
    options = {"record_timing": False, "coalesce_streams": True}
    NotebookClient(nb, resources={"metadata": {"path": path.parent}}, **options).execute()
    nb.metadata.language_info = {"name": "python"}
    nbformat.write(nb, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        execute(Path(name))

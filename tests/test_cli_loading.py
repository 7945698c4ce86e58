"""What lies beside a file that is loaded: neighbours are found, and hide no library."""

import subprocess
import sys

import pytest

PROGRAM = "def coin(rng): return int(rng.random() < 0.5)\n"
HIDING = ["token", "random", "inspect", "json", "numpy", "scipy", "rich", "torch"]


@pytest.fixture
def compare(tmp_path):
    """Compare a program of a file outside the package with itself, as a user would."""

    def run(name):
        command = [sys.executable, "-m", "specdecode", "compare", name, name]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("name", ["mine.py:coin", "mine:coin", "folder/mine.py:coin"])
def test_a_neighbour_can_be_imported(tmp_path, compare, name):
    folder = tmp_path / "folder" if name.startswith("folder") else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text("from neighbour import coin\nfrom package.part import PART\n")
    (folder / "neighbour.py").write_text(PROGRAM)
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "part.py").write_text("PART = 1")
    assert "coin and coin: equal" in compare(name)


@pytest.mark.parametrize("name", ["mine.py:coin", "mine:coin"])
def test_a_neighbour_hides_no_library(tmp_path, compare, name):
    for hiding in HIDING:
        (tmp_path / f"{hiding}.py").write_text("raise RuntimeError('this is no library')")
    imports = "import token, random, inspect, json, tokenize, traceback, numpy, scipy.special, rich.table\n"
    (tmp_path / "mine.py").write_text(imports + PROGRAM)
    assert "coin and coin: equal" in compare(name)


def test_a_file_of_any_name_can_be_loaded(tmp_path, compare, run_python):
    names = [*HIDING, "specdecode", "types", "__main__", "with.dots", "no name"]
    for name in names:
        file = tmp_path / "folder" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"import token, tokenize, random, numpy, types\nassert numpy.arange\n{PROGRAM}")
    assert "coin and coin: equal" in compare("folder/numpy.py:coin")
    done = run_python(
        "from specdecode.loading import load_function as load\n"
        f"for name in {names}:\n"
        f"    where = f'{tmp_path / 'folder'}/{{name}}.py'\n"
        "    assert load(where + ':coin').__code__.co_filename == where\n"
        "    import specdecode.certify, token, types, numpy, inspect, random\n"
        "    assert hasattr(numpy, 'arange') and hasattr(types, 'ModuleType') and hasattr(token, 'NAME')"
    )
    assert done.returncode == 0, done.stderr


def test_torch_is_found_beside_a_file_of_its_name(tmp_path):
    pytest.importorskip("torch", reason="the extra torch is not installed")
    for name in ("torch", "mine"):
        (tmp_path / f"{name}.py").write_text(
            "import torch\ndef program(): return torch.multinomial(torch.tensor([0.5, 0.5]), 1)"
        )
    command = [sys.executable, "-m", "specdecode", "compare", "mine.py:program", "torch.py:program"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "program and program: equal" in done.stdout


def test_a_checkout_comes_before_what_is_installed(tmp_path, run_python):
    """A folder beside the file with the name of an installed package, and a name that happens to exist."""
    installed = tmp_path / "site"
    for name in ("engine", "utils"):
        (installed / name).mkdir(parents=True)
        (installed / name / "__init__.py").write_text("WHO = 'installed'")
    (installed / "engine-1.0.dist-info").mkdir()
    (installed / "engine-1.0.dist-info" / "METADATA").write_text("Name: engine\nVersion: 1.0\n")
    here = tmp_path / "here"
    (here / "engine").mkdir(parents=True)
    (here / "engine" / "__init__.py").write_text("WHO = 'checkout'")
    (here / "utils.py").write_text("WHO = 'neighbour'")
    (here / "mine.py").write_text("import engine, utils\ndef f(): return engine.WHO, utils.WHO")
    code = f"from specdecode.loading import load_function as load; print(load({str(here / 'mine.py:f')!r})())"
    done = run_python(code, PYTHONPATH=f"{installed}:{':'.join(filter(None, sys.path))}")
    assert done.stdout == "('checkout', 'neighbour')\n", done.stderr
    (here / "engine" / "__init__.py").unlink()
    (here / "engine").rmdir()
    (here / "engine.py").write_text("WHO = 'a file by that name'")
    done = run_python(code, PYTHONPATH=f"{installed}:{':'.join(filter(None, sys.path))}")
    assert done.stdout == "('installed', 'neighbour')\n", done.stderr


def test_two_functions_of_one_file_share_what_it_made(tmp_path, run_python):
    (tmp_path / "mine.py").write_text("made = []\ndef a(): return made\ndef b(): return made")
    (tmp_path / "other.py").write_text("import mine\ndef c(): return mine.made")
    code = (
        "import os; from specdecode.loading import load_function as load\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "c, a, b = map(load, ('other.py:c', 'mine.py:a', './mine.py:b'))\n"
        "print(a() is b() is c())"
    )
    assert run_python(code).stdout == "True\n"

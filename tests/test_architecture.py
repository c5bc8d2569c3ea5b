"""The repository keeps its shape: imports point downwards, and what should be light is light."""

import ast
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import pnca

SOURCE = Path(pnca.__file__).parents[1]

# A part may import those of lower levels, never of its own level or above (except itself).
LEVELS = {
    "pnca": {
        "exceptions": 0,
        "files": 1,
        "columns": 1,
        "sources": 1,
        "record": 1,
        "maths": 2,
        "tables": 2,
        "accelerated": 3,
        "calibration": 3,
        "explanations": 4,
        "networks": 4,
        "training": 5,
        "models": 6,
        "estimators": 7,
        "pipelines": 8,
        "vision": 8,
        "evaluation": 8,
        "persistence": 9,
        "reports": 9,
        "workflows": 10,
        "interfaces": 11,
        "__main__": 12,
    },
    "pnca_studies": {"arrays": 0, "data": 1, "rivals": 1, "experiments": 2, "reports": 3, "commands": 4},
}


def imported_parts(path):
    """(package, part) of what a file imports of ours, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, *parts = name.split(".")
            if package in LEVELS and parts and parts[0] in LEVELS[package]:
                yield package, parts[0]


def upward_imports(source):
    """Every import of a file under this folder that does not point downwards."""
    for package, levels in LEVELS.items():
        for path in (source / package).rglob("*.py"):
            part = path.relative_to(source / package).parts[0].removesuffix(".py")
            if part == "__init__":
                continue
            for other_package, other in imported_parts(path):
                if other_package != package:
                    is_upward = package == "pnca"
                else:
                    is_upward = part != other and levels[part] <= levels[other]
                if is_upward:
                    yield f"{path.relative_to(source)} imports {other_package}.{other}"


def test_imports__point_downwards():
    assert not list(upward_imports(SOURCE))


def test_imports__every_part_has_a_level():
    for package, levels in LEVELS.items():
        parts = {path.name.removesuffix(".py") for path in (SOURCE / package).iterdir()}
        assert parts - {"__init__", "__pycache__", "py.typed"} == set(levels)


def test_imports__wrong_ones_would_be_seen(tmp_path):
    for package in LEVELS:
        (tmp_path / package).mkdir()
    (tmp_path / "pnca" / "maths.py").write_text(
        "def f():\n    from pnca.interfaces import cli\n    from pnca_studies import reports\n"
    )
    (tmp_path / "pnca_studies" / "data.py").write_text("import pnca.maths\nfrom pnca_studies import rivals\n")
    assert len(list(upward_imports(tmp_path))) == 3


def loaded_by(statement):
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_import__of_the_package_loads_neither_torch_nor_scikit_learn():
    assert not {"torch", "sklearn", "scipy"} & loaded_by("import pnca")


def test_import__of_the_command_line_loads_neither_torch_nor_matplotlib():
    assert not {"torch", "sklearn", "matplotlib"} & loaded_by("import pnca.interfaces.cli")


def test_import__of_the_models_loads_no_optional_dependency():
    optional = {"matplotlib", "PIL", "rich", "typer"}  # scikit-learn itself loads pandas where it is there
    assert not optional & loaded_by("from pnca import PNCAClassifier, BNNClassifier")


def test_public_names__all_exist():
    for name in pnca.__all__:
        assert getattr(pnca, name).__name__ == name
    assert set(pnca.__all__) <= set(dir(pnca))
    with pytest.raises(AttributeError, match="no attribute 'PCNAClassifier'"):
        pnca.PCNAClassifier  # noqa: B018


def test_version__is_that_of_the_package_metadata():
    try:
        installed = version("pnca")
    except PackageNotFoundError:
        pytest.skip("pnca runs from src/ here and is not installed")
    assert pnca.__version__ == installed

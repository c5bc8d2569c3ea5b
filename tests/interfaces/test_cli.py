"""The ``pnca`` command: what it is made of, and how errors end it."""

import sys

import pytest
from typer.testing import CliRunner

import pnca
from pnca.interfaces import cli

COMMANDS = (
    "audit", "benchmark", "demo", "explain", "export", "fit",
    "info", "predict", "report", "reproduce", "suggest",
)  # fmt: skip
PLUGIN = """
from pnca.exceptions import InvalidInputError

def greet(name: str = "you") -> None:
    "Greet someone."
    print(f"Hello {name}.")

def refuse() -> None:
    raise InvalidInputError("pass another folder.")

def fill() -> None:
    raise OSError(28, "No space left on device", "results/cell.npz")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install another package whose entry points add commands: its name, and {command: value}."""

    def add(package, commands):
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in commands.items()]
        (metadata / "entry_points.txt").write_text("\n".join(["[pnca.commands]", *lines]) + "\n")
        (tmp_path / "a_plugin.py").write_text(PLUGIN)
        monkeypatch.syspath_prepend(tmp_path)

    yield add
    sys.modules.pop("a_plugin", None)


def call(*arguments):
    return CliRunner().invoke(cli.make_app(), arguments)


def test_version__is_printed():
    assert call("--version").output.strip() == f"pnca {pnca.__version__}"


def test_help__names_the_commands():
    result = call("--help")
    assert result.exit_code == 0
    for name in COMMANDS:
        assert name in result.output


def test_entry_point__of_another_package_adds_a_command(install):
    install("a-plugin", {"greet": "a_plugin:greet"})
    help_text = call("--help").output
    assert "Greet someone." in help_text
    assert all(name in help_text for name in COMMANDS)
    result = call("greet", "--name", "Ada")
    assert (result.exit_code, result.output) == (0, "Hello Ada.\n")


def test_help__lines_of_a_docstring_that_are_no_sentence_are_joined(install, monkeypatch):
    install("a-plugin", {"greet": "a_plugin:greet"})
    import a_plugin

    a_plugin.greet.__doc__ = "Greet.\n\n    One line\n    and its rest.\n    Another.\n"
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in call("greet", "--help").output.splitlines()]
    assert "One line and its rest." in lines
    assert "Another." in lines


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("a_module_that_is_not_there:run", "ModuleNotFoundError"),
        ("a_plugin:missing", "AttributeError"),
    ],
)
def test_entry_point__that_cannot_be_loaded_is_named_and_the_others_work(install, capsys, value, reason):
    install("a-plugin", {"broken": value, "greet": "a_plugin:greet"})
    app = cli.make_app()
    said = capsys.readouterr()
    assert said.err.startswith("pnca: the command 'broken' of a-plugin cannot be loaded (")
    assert reason in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ""
    assert CliRunner().invoke(app, ["greet"]).output == "Hello you.\n"
    help_text = CliRunner().invoke(app, ["--help"]).output
    assert all(name in help_text for name in COMMANDS)
    assert "broken" not in help_text


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("refuse", "pnca: pass another folder.\n"),
        (
            "fill",
            "pnca: results/cell.npz: No space left on device. What was finished before is kept.\n",
        ),
    ],
)
def test_main__an_expected_error_is_one_sentence_and_exit_status_one(
    install, capsys, monkeypatch, command, message
):
    install("a-plugin", {command: f"a_plugin:{command}"})
    monkeypatch.setattr(sys, "argv", ["pnca", command])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == message

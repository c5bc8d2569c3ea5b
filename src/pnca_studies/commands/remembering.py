"""What the folder of a run remembers of its command line: --resume continues that run and no other."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pnca.exceptions import InvalidInputError

if TYPE_CHECKING:
    import typer

    from pnca_studies.experiments.store import RunFolder

#: Options of a command line by their names; True is a flag.
Given: TypeAlias = dict[str, Any]

#: Options that each session may have its own of: they say where fits are computed, not which.
_OF_A_SESSION = {"--data-dir", "--jobs", "--engine", "--scheduler", "--download"}
#: Options that every ``run.json`` has, those of version 0.1 too; of its others the data and cells tell.
_ALWAYS_KNOWN = {"--trials", "--train-sizes", "--models", "--quick"}


def given_options(context: typer.Context) -> Given:
    """Return the options that were given, in the environment too, with whole paths."""
    return {option: value for option, (value, _) in _given(context).items()}


def runs_as_begun(context: typer.Context, folder: RunFolder, *studies: str) -> bool:
    """Run a command with --resume as its folder remembers it; False if it already is as it was.

    An option that was not given takes the value that it had; another value is refused, unless each session
    may have its own. ``studies`` are those that the command can continue.
    """
    if not folder.has_run:
        return False
    run = folder.recall(*studies)
    then, now = remembered(run), _given(context)
    typed = {option: value for option, (value, is_typed) in now.items() if is_typed}
    different = [
        option
        for option, value in typed.items()
        if option not in _OF_A_SESSION
        and _items(value) != _items(then.get(option))
        and (option in _ALWAYS_KNOWN or "command" in run)
    ]
    if different:
        told = ", ".join(f"{option} ({_describe(then.get(option))} then)" for option in different)
        raise InvalidInputError(
            f"{folder.path} holds a run with other options: {told}. Leave them out to continue it, or name "
            "another folder with --out."
        )
    missing = {option: value for option, value in then.items() if option not in typed}
    if "--engine" in typed:
        missing.pop("--scheduler", None)  # of the other engine
    if not missing:
        return False
    own = {"--out": str(folder.path), "--resume": True}
    arguments = [
        str(_plain(context.params[parameter.name or ""]))
        for parameter in context.command.params
        if parameter.param_type_name == "argument"
    ]
    words = [*arguments, *_words({**missing, **typed, **own})]
    with context.command.make_context(context.info_name, words, parent=context.parent) as again:
        context.command.invoke(again)
    return True


def remembered(run: Mapping[str, Any]) -> Given:
    """Return the options of the run of a ``run.json``."""
    options = run["options"]
    lists = {"--train-sizes": options["train_sizes"], "--models": options["models"]}
    return {
        **({"--trials": options["trials"]} if options["trials"] else {}),
        **{option: ",".join(map(str, items)) for option, items in lists.items() if items},
        **({"--quick": True} if options["quick"] else {}),
        **run.get("command", {}),
    }


def how_to_continue(study: str, folder: Path, options: Given) -> str:
    """Return the whole command that continues a run."""
    words = _words({**options, "--out": str(folder.resolve()), "--resume": True})
    return shlex.join(["pnca", "reproduce", study, *words])


def _given(context: typer.Context) -> dict[str, tuple[Any, bool]]:
    """Each option that was given, with its value, and whether it was typed: the environment gives some."""
    found = {}
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.param_type_name != "option" or source is None or source.name == "DEFAULT":
            continue
        if (option := parameter.opts[0]) not in ("--out", "--resume"):
            found[option] = _plain(context.params[parameter.name or ""]), source.name == "COMMANDLINE"
    return found


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value as JSON can have it."""
    if isinstance(value, Path):
        return str(value.resolve())
    return value.value if isinstance(value, Enum) else value


def _words(options: Given) -> list[str]:
    return [
        word
        for option, value in options.items()
        for word in ([option] if value is True else [option, str(value)])
    ]


def _items(value: Any) -> Any:  # noqa: ANN401
    """Return what a value says: a list is the same with blanks after its commas."""
    return [word.strip() for word in value.split(",")] if isinstance(value, str) else value


def _describe(value: Any) -> str:  # noqa: ANN401
    return "not given" if value is None else "given" if value is True else repr(value)

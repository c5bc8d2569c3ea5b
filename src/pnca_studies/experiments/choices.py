"""Questions about PNCA's own settings, read from ``paper/choices.toml``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pnca.estimators import PNCAClassifier
from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.settings import changeable_arguments, read_toml, settings_folder


@dataclass(frozen=True, kw_only=True)
class Question:
    """One choice, the alternatives to the default, and why it was made."""

    title: str  # what is asked
    answer: str  # the default, and the reason for it
    variants: Mapping[str, Mapping[str, Any]]  # names of the alternatives, and the arguments that make them
    images: bool = False  # whether it is asked about images, or about everything else


def load_questions(folder: Path | None = None) -> list[Question]:
    """Read ``choices.toml`` from a folder, by default that of the settings."""
    table = read_toml((folder or settings_folder()) / "choices.toml")
    known = changeable_arguments(PNCAClassifier)
    questions, names = [], set()
    for entry in table.get("question", []):
        if set(entry) - {"images"} != {"title", "answer", "variants"}:
            raise InvalidInputError(
                "choices.toml: a question has a title, an answer, variants, and perhaps images = true."
            )
        for name, changes in entry["variants"].items():
            if unknown := sorted(set(changes) - known):
                raise InvalidInputError(f"choices.toml: {name}: PNCA has no arguments {unknown}.")
            if name in names:
                raise InvalidInputError(f"choices.toml: two variants are called {name!r}.")
            names.add(name)
        questions.append(Question(**entry))
    return questions

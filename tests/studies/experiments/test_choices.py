import pytest

from pnca.estimators import PNCAClassifier
from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.choices import load_questions
from pnca_studies.experiments.modules import constructor_arguments

QUESTION = '[[question]]\ntitle = "Which kernel?"\nanswer = "The exact one."\n'


@pytest.fixture
def folder(tmp_path):
    def write(text):
        (tmp_path / "choices.toml").write_text(text)
        return tmp_path

    return write


def test_shipped__every_variant_builds_and_differs_from_the_default():
    questions = load_questions()
    variants = {name: changes for question in questions for name, changes in question.variants.items()}
    assert len(variants) == sum(len(question.variants) for question in questions) > 10
    default = PNCAClassifier().get_params()
    for name, changes in variants.items():
        arguments = constructor_arguments(changes)
        PNCAClassifier(**arguments)
        assert any(default[key] != value for key, value in arguments.items()), name


def test_questions__are_read(folder):
    text = QUESTION + 'images = true\n[question.variants]\n"positive" = { kernel = "positive" }\n'
    (question,) = load_questions(folder(text))
    assert (question.title, question.images) == ("Which kernel?", True)
    assert question.variants == {"positive": {"kernel": "positive"}}
    assert load_questions(folder("")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (QUESTION, "a question has a title, an answer, variants"),
        (QUESTION + "colour = 1\nvariants = {}\n", "a question has a title"),
        (QUESTION + "variants = { a = { bandwith = 2.0 } }\n", r"a: PNCA has no arguments \['bandwith'\]"),
        (QUESTION + "variants = { a = { random_state = 2 } }\n", r"no arguments \['random_state'\]"),
        ((QUESTION + "variants = { a = { bandwidth = 2.0 } }\n") * 2, "two variants are called 'a'"),
        ("question = = 3", "it cannot be read"),
    ],
)
def test_questions__mistakes_are_named(folder, text, message):
    with pytest.raises(InvalidInputError, match=message):
        load_questions(folder(text))

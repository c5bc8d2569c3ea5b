"""The OpenAPI description is true: requests made from it are answered as it says."""

import pytest

schemathesis = pytest.importorskip("schemathesis")
from hypothesis import HealthCheck, Phase, assume, given, settings  # noqa: E402
from schemathesis import checks as known_checks  # noqa: E402
from schemathesis.specs.openapi import checks as openapi_checks  # noqa: E402

N_REQUESTS = 15
#: What every answer must be.
CHECKS = [
    known_checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def described(table_server, image_server):
    """Descriptions of both models."""
    addresses = {"table": table_server, "images": image_server}
    return {name: schemathesis.openapi.from_url(f"{at}/openapi.json") for name, at in addresses.items()}


def requests_of(operation, mode, checks, media_type=None):
    """Make requests, and check the answers: their statuses."""
    answered = []

    @settings(
        max_examples=N_REQUESTS,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case):
        assume(media_type in (None, case.media_type))
        answer = case.call()
        answered.append(answer.status_code)
        case.validate_response(answer, checks=checks)

    ask()
    assert answered
    return answered


OPERATIONS = [("POST", "/api/predict"), ("POST", "/api/explain"), ("GET", "/api/info"), ("GET", "/healthz")]


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_requests__that_the_description_allows_are_answered(described, method, path):
    operation = described["table"][path][method]
    checks = [*CHECKS, openapi_checks.positive_data_acceptance]
    # What a file holds no description can say.
    media_type = "application/json" if method == "POST" else None
    found = requests_of(operation, schemathesis.GenerationMode.POSITIVE, checks, media_type)
    assert set(found) == {200}


@pytest.mark.parametrize(("method", "path"), OPERATIONS[:2])
@pytest.mark.parametrize("kind", ["table", "images"])
def test_requests__that_it_does_not_allow_are_refused_in_words(described, kind, method, path):
    operation = described[kind][path][method]
    found = requests_of(operation, schemathesis.GenerationMode.NEGATIVE, CHECKS)
    assert any(400 <= status < 500 for status in found)


def test_files__of_random_bytes_are_images_or_refused_in_words(described):
    operation = described["images"]["/api/predict"]["POST"]
    assert set(requests_of(operation, schemathesis.GenerationMode.POSITIVE, CHECKS)) <= {200, 422}

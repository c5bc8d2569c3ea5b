"""The REST interface says what the model says, and answers hostile input with a sentence."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.parse import urlsplit

import numpy as np
import pytest

from pnca import PNCAClassifier
from web_servers import asked, image, png, served

COLUMNS = ["marker", "age", "site"]


def predict(client, rows, **asked_for):
    answer = client.post("/api/predict", params=asked_for, json={"rows": rows})
    assert answer.status_code == 200, answer.text
    return answer.json()


def table_of(rows):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame([[row[name] for name in COLUMNS] for row in rows], columns=COLUMNS)


def test_predict__says_what_the_model_says(table_client, table_model, rows):
    found = predict(table_client, rows, max_error=0.2)
    X = table_of(rows)
    decisions, proba = table_model.decide(X, max_error=0.2), table_model.predict_proba(X)
    sets = table_model.predict_set(X, coverage=0.9)
    indices, shares = table_model.neighbors(X, k=5)
    assert [one["name"] for one in found["predictions"]] == [row["sample"] for row in rows]
    for i, one in enumerate(found["predictions"]):
        assert (one["label"], one["reason"]) == (decisions.label[i], decisions.reason[i])
        np.testing.assert_allclose(list(one["probabilities"].values()), proba[i], rtol=1e-9)
        assert list(one["probabilities"]) == table_model.classes_.tolist()
        np.testing.assert_allclose(one["familiarity"], decisions.familiarity[i], rtol=1e-9)
        assert one["classes"] == table_model.classes_[sets[i]].tolist()
        assert [example["row"] for example in one["examples"]] == (indices[i] + 1).tolist()
        assert one["examples"][0]["name"] == table_model.record_.ids[indices[i, 0]]
        np.testing.assert_allclose([e["share"] for e in one["examples"]], shares[i], rtol=1e-6)
        assert one["verdict"].startswith("Not answered" if one["label"] is None else one["label"])
    assert found["summary"] == decisions.summary()


def test_predict__a_file_and_lists_are_rows_too(table_client, rows, csv_file):
    whole = predict(table_client, rows)["predictions"]
    by_file = table_client.post("/api/predict", files={"files": ("new.csv", csv_file, "text/csv")}).json()
    assert by_file["predictions"] == whole
    by_list = predict(table_client, [[row[name] for name in COLUMNS] for row in rows])["predictions"]
    assert [one["probabilities"] for one in by_list] == [one["probabilities"] for one in whole]
    assert [one["name"] for one in by_list] == [str(i) for i in range(1, 13)]


def test_predict__new_values_and_unused_columns_are_named(table_client, rows):
    found = predict(table_client, [{**rows[0], "site": "Jena", "other": 1}])
    assert any("'Jena'" in note for note in found["notes"])
    assert any("not used" in note and "'other'" in note for note in found["notes"])


def test_predict__images(image_client, image_model):
    rng = np.random.default_rng(5)
    pictures = [image(label, rng) for label in ("up", "down", "up")]
    files = [("files", (f"{i}.png", png(pixels))) for i, pixels in enumerate(pictures)]
    found = image_client.post("/api/predict", files=files).json()["predictions"]
    proba = image_model.predict_proba(np.stack(pictures))
    assert [one["name"] for one in found] == ["0.png", "1.png", "2.png"]
    for one, own in zip(found, proba, strict=True):
        np.testing.assert_allclose(list(one["probabilities"].values()), own, rtol=1e-9)


def test_explain__parts_add_up_and_an_example_can_be_left_out(table_client, table_model, rows):
    body = {"rows": rows[:2]}
    found = table_client.post("/api/explain", params={"examples": 3}, json=body).json()["cases"]
    (one, _) = found
    for label, probability in one["probabilities"].items():
        assert sum(part[label] for part in one["parts"].values()) == pytest.approx(probability, rel=1e-9)
    assert len(one["examples"]) == 3
    assert one["what_if"] is None
    first = one["examples"][0]
    without = {"without": [first["row"]]}
    (changed, _) = table_client.post("/api/explain", params=without, json=body).json()["cases"]
    case = table_model.explain(table_of(rows[:1]))[0]
    expected = case.without([first["name"]]).after[0]
    np.testing.assert_allclose(list(changed["what_if"]["probabilities"].values()), expected, rtol=1e-9)


def test_info__says_what_the_model_is_and_no_path(table_client, table_model):
    about = table_client.get("/api/info").json()
    assert about["takes"] == "table"
    assert about["n_examples"] == 60
    assert about["classes"] == {"ill": 30, "well": 30}
    assert "/" not in json.dumps(about).replace("N/A", "")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b"null", b'{"rows": []}', b'{"rows": {}}', b'{"rows": [1]}', b'{"rows": [[1, 2]]}',
        b'{"rows": [{"marker": {"a": 1}, "age": 1, "site": "x"}]}', b'{"rows": [{}]}', b'{"rows": [[]]}',
        b'{"rows": [{"marker": NaN, "age": 1, "site": "x"}]}', b'{"rows": [[Infinity, 1, "x"]]}',
        b'{"rows": [[-Infinity, 1, "x"]]}', b'{"rows": [[1e999, 1, "x"]]}', b'{"rows": [[1, 2, "x", 3]]}',
        b'{"rows": [["text", 1, "x"]]}', b'{"rows": [{"marker": 1, "age": 2}]}', b"\xff\xfe", b"{" * 100_000,
        b"[" * 100_000 + b"]" * 100_000, b'{"rows": [[' + b"9" * 5000 + b', 1, "x"]]}',
        b'{"rows": [[' + b"9" * 400 + b', 1, "x"]]}', b'{"rows": [[1, 2, "' + b"x" * 20_000 + b'"]]}',
        b'{"rows": [[1, 2, "x"]], "more": 1}', b'{"rows": [{" marker": 2, "age": 2, "site": "x"}]}',
        b'{"rows": [[1, 2, "\\ud800"]]}',
    ],
)  # fmt: skip
def test_predict__bodies_that_are_none(table_client, body):
    for path in ("/api/predict", "/api/explain"):
        answer = table_client.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422), answer.text
        assert set(answer.json()) == {"detail"}
        assert answer.json()["detail"].endswith((".", "?"))
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"--x\r\n", "multipart/form-data; boundary=x"), (b"", "multipart/form-data"), (b"{}", "text/plain"),
        (b"--x--\r\n", "multipart/form-data; boundary=x"), (b"a=1", "application/x-www-form-urlencoded"),
        (b'--x\r\ncontent-disposition: form-data; name="files"\r\n\r\ntext\r\n--x--\r\n',
         "multipart/form-data; boundary=x"),
        (b"\0\1\2" * 100, "multipart/form-data; boundary=\0"),
    ],
)  # fmt: skip
def test_predict__forms_that_are_none(table_client, content, kind):
    answer = table_client.post("/api/predict", content=content, headers={"content-type": kind})
    assert answer.status_code in (400, 415, 422), answer.text
    assert set(answer.json()) == {"detail"}


@pytest.mark.parametrize(
    "asked_for",
    [
        {"max_error": "nan"}, {"max_error": "inf"}, {"max_error": 0}, {"max_error": 1}, {"max_error": "x"},
        {"confidence": -1}, {"coverage": 2}, {"max_error": ""},
    ],
)  # fmt: skip
def test_predict__settings_that_are_none(table_client, rows, asked_for):
    answer = table_client.post("/api/predict", params=asked_for, json={"rows": rows})
    assert answer.status_code == 422
    assert next(iter(asked_for)) in answer.json()["detail"]


def test_explain__examples_that_there_are_not(table_client, rows):
    for params in ({"without": 0}, {"without": 61}, {"without": 10**30}, {"examples": 0}, {"examples": 51}):
        answer = table_client.post("/api/explain", params=params, json={"rows": rows[:1]})
        assert answer.status_code == 422, params
    everyone = {"without": list(range(1, 61))}
    answer = table_client.post("/api/explain", params=everyone, json={"rows": rows[:1]})
    assert "leave at least one" in answer.json()["detail"]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0\0\0", b"marker,age\n1,2\n", b"marker,age,site\n", b"marker,age,site\nx,1,Ulm\n", b"PK\3\4",
        b'marker,age,site\n"1,2,Ulm\n', b"marker,age,site\n1,2\n", b"a" * 3_000_000, b"marker,marker\n1,2\n",
        b"%PDF-1.7", b"marker,age,site\n1,2," + b"x" * 200_000 + b"\n\"",
    ],
)  # fmt: skip
def test_predict__tables_that_are_none(table_client, content):
    answer = table_client.post("/api/predict", files={"files": ("new.csv", content)})
    assert answer.status_code == 422, answer.text
    assert "Traceback" not in answer.text


def test_predict__two_tables_or_an_image_are_refused(table_client, csv_file):
    two = [("files", ("a.csv", csv_file)), ("files", ("b.csv", csv_file))]
    assert "one table at a time" in table_client.post("/api/predict", files=two).json()["detail"]
    answer = table_client.post("/api/predict", files={"files": ("a.xlsx", b"PK\3\4")})
    assert "save the sheet as CSV" in answer.json()["detail"]


def test_requests__at_once_do_not_mix_and_one_that_is_wrong_is_alone(table_server, table_client, rows):
    parts = urlsplit(table_server)
    expected = [predict(table_client, [row])["predictions"][0] for row in rows]

    def one(i):
        connection = HTTPConnection(parts.hostname, parts.port, timeout=60)
        wrong = i % 7 == 0
        row = {**rows[i % 12], "marker": "none of these"} if wrong else rows[i % 12]
        connection.request(
            "POST", "/api/predict", json.dumps({"rows": [row]}), {"content-type": "application/json"}
        )
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return wrong, answer.status, found

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(one, range(60)))
    for i, (wrong, status, found) in enumerate(answers):
        assert status == (422 if wrong else 200)
        if not wrong:
            (own,) = found["predictions"]
            assert own["name"] == rows[i % 12]["sample"]
            assert own["label"] == expected[i % 12]["label"]
            np.testing.assert_allclose(
                list(own["probabilities"].values()),
                list(expected[i % 12]["probabilities"].values()),
                rtol=1e-9,
            )


def test_health__is_answered_while_a_batch_is_scored(table_model, rows, monkeypatch):
    from pnca.interfaces.web import worker

    is_scoring, may_go_on = threading.Event(), threading.Event()
    scores_of = worker.scores_of

    def slow(*arguments):
        is_scoring.set()
        assert may_go_on.wait(30)
        return scores_of(*arguments)

    monkeypatch.setattr(worker, "scores_of", slow)
    with served(table_model) as address, ThreadPoolExecutor(1) as pool:
        parts = urlsplit(address)

        def ask(method, path, body=None):
            connection = HTTPConnection(parts.hostname, parts.port, timeout=60)
            connection.request(method, path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            found = answer.status, answer.read()
            connection.close()
            return found

        batch = pool.submit(ask, "POST", "/api/predict", json.dumps({"rows": rows}))
        assert is_scoring.wait(30)
        start = time.perf_counter()
        assert ask("GET", "/healthz")[0] == 200
        assert time.perf_counter() - start < 5
        assert not batch.done()
        may_go_on.set()
        assert batch.result(60)[0] == 200


def test_clients__that_go_away_in_the_middle_leave_the_server_as_it_was(table_server, rows):
    parts = urlsplit(table_server)
    body = json.dumps({"rows": rows}).encode()
    for sent, length in ((body[:50], len(body)), (body, len(body)), (b"", 100)):
        connection = HTTPConnection(parts.hostname, parts.port, timeout=10)
        connection.putrequest("POST", "/api/predict")
        connection.putheader("content-type", "application/json")
        connection.putheader("content-length", str(length))
        connection.endheaders(sent)
        connection.close()
    for _ in range(3):
        connection = HTTPConnection(parts.hostname, parts.port, timeout=60)
        connection.request("POST", "/api/predict", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert len(json.loads(answer.read())["predictions"]) == 12
        connection.close()


def test_clients__that_fall_silent_are_given_up(table_model):
    from pnca.interfaces.web import Limits

    with served(table_model, limits=Limits(seconds_of_silence=0.3)) as address:
        parts = urlsplit(address)
        connection = HTTPConnection(parts.hostname, parts.port, timeout=20)
        connection.putrequest("POST", "/api/predict")
        connection.putheader("content-type", "application/json")
        connection.putheader("content-length", "100")
        connection.endheaders(b"{")
        assert connection.getresponse().status == 408
        connection.close()


def test_uploads__are_written_nowhere(image_client, monkeypatch):
    import tempfile

    def refuse(*_, **__):
        raise AssertionError("a file was made")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", refuse)
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    rng = np.random.default_rng(0)
    large = png(rng.integers(0, 255, (1500, 1500)).astype(np.uint8))
    assert len(large) > 2**21
    assert image_client.post("/api/predict", files={"files": ("large.png", large)}).status_code == 200


def test_models__of_numbers_take_lists(blobs):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = blobs
    model = make_pipeline(StandardScaler(), PNCAClassifier(n_particles=2, max_epochs=5, random_state=0))
    model.fit(X, y)
    with asked(model) as client:
        found = predict(client, X[:3].astype(float).tolist())["predictions"]
        np.testing.assert_allclose(
            [list(one["probabilities"].values()) for one in found], model.predict_proba(X[:3]), rtol=1e-6
        )
        for rows in ([[1, 2]], [{"a": 1}], [["x"] * 5]):
            assert client.post("/api/predict", json={"rows": rows}).status_code == 422
        assert client.get("/").status_code == 200
        assert client.get("/model").status_code == 200


def test_models__that_cannot_decide_are_refused(blobs):
    from pnca.exceptions import InvalidInputError
    from pnca.interfaces.web import create_app

    model = PNCAClassifier(n_particles=2, max_epochs=2, n_folds=None, random_state=0).fit(*blobs)
    with pytest.raises(InvalidInputError, match="n_folds=5"):
        create_app(model)


def test_models__of_features_take_their_backbone(image_model):
    import copy

    from pnca.exceptions import InvalidInputError
    from pnca.interfaces.web import create_app
    from pnca.sources import ImageSource

    model = copy.copy(image_model)
    model.source_ = ImageSource(shape=(64,), backbone="x.onnx", key="k")
    with pytest.raises(InvalidInputError, match="backbone"):
        create_app(model)


def test_store__keeps_the_last_batches(table_model, csv_file):
    from pnca.interfaces.web import Limits

    with asked(table_model, Limits(kept_batches=2)) as client:
        pages = [client.post("/inputs", files={"files": ("a.csv", csv_file)}).url.path for _ in range(3)]
        assert [client.get(page).status_code for page in pages] == [404, 200, 200]
        assert "choose the files again" in client.get(pages[0]).text


def test_service__scores_parts_of_a_table_alike(table_model, table_client, csv_file, monkeypatch):
    from pnca.workflows import predicting

    whole = table_client.post("/api/predict", files={"files": ("a.csv", csv_file)}).json()
    monkeypatch.setattr(predicting, "_ROWS", 5)
    parts = table_client.post("/api/predict", files={"files": ("a.csv", csv_file)}).json()
    assert [one["name"] for one in parts["predictions"]] == [one["name"] for one in whole["predictions"]]
    for one, other in zip(parts["predictions"], whole["predictions"], strict=True):
        np.testing.assert_allclose(
            list(one["probabilities"].values()), list(other["probabilities"].values()), rtol=1e-9
        )


def test_models__without_their_record_say_so_and_answer(table_model, csv_file, tmp_path):
    import pnca
    from pnca.tables import open_table
    from pnca.workflows import predict_table
    from pnca.workflows.answers import Settings

    model = pnca.load(pnca.save(table_model, tmp_path / "m.pnca", store="predictive"))
    (tmp_path / "new.csv").write_bytes(csv_file)
    table = open_table(tmp_path / "new.csv")
    predict_table(model, table, tmp_path / "p.csv", Settings(n_examples=5))
    with asked(model) as client:
        assert "no record of its training examples" in client.get("/").text
        assert client.get("/examples/3").status_code == 422
        page = client.post("/inputs", files={"files": ("new.csv", csv_file)}).url.path
        written = client.get(f"{page}/predictions.csv").text.splitlines()
        expected = (tmp_path / "p.csv").read_text().splitlines()
        assert [line.split(",")[:3] for line in written] == [line.split(",")[:3] for line in expected]
        assert [line.split(",")[-2] for line in written] == [line.split(",")[-2] for line in expected]
        assert "Without 1 training example" in client.get(f"{page}/1?without=5").text
        assert client.get("/model").status_code == 200


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"rows": [{"marker": 1, "marker": 2}]}', "a name twice"),
        ('{"rows": [{"marker": 1, "\\ud800": 1}]}', "Row 1 must be an object"),
        ('{"rows": [{"marker": "\\ud800"}]}', "Row 1 must be an object"),
        ('{"rows": [[1, 2, "a"], 3]}', "Row 2 must be an object"),
        ('{"rows": [[[1], 2, "a"]]}', "Row 1 must be an object"),
        ('{"rows": [[1e999, 2, "a"]]}', "Row 1 must be an object"),
        ('{"rows": []}', "an object with rows and nothing else"),
        ('{"rows": [[1]], "more": 1}', "an object with rows and nothing else"),
        ("[]", "an object with rows and nothing else"),
    ],
)
def test_predict__rows_that_are_none_are_refused_in_a_sentence(table_client, body, reason):
    answer = table_client.post("/api/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert reason in answer.json()["detail"]


def test_predict__a_body_of_many_wrong_rows_costs_no_more_than_the_first(table_client):
    body = '{"rows": [' + ",".join(["1"] * 20_000) + "]}"
    start = time.process_time()
    answer = table_client.post("/api/predict", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, time.process_time() - start < 1) == (422, True)


def test_predict__a_client_that_leaves_in_the_middle_is_no_error(table_client):
    messages = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    scope = {
        "type": "http", "method": "POST", "path": "/api/predict", "raw_path": b"/api/predict",
        "query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1",
        "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json")],
    }  # fmt: skip
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(table_client.app(scope, receive, send))
    assert sent[0]["status"] == 400

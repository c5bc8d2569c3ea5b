"""Who may ask, and how much; and that errors are messages."""

import socket
import zlib
from http.client import HTTPConnection
from urllib.parse import urlsplit

import numpy as np
import pytest

from pnca.exceptions import InvalidInputError
from pnca.interfaces.web import Limits, ServerSettings, create_app
from pnca.interfaces.web.safety import Guard
from pnca.vision.images import ImageLimits
from web_servers import asked, png

TOKEN = "a-token-of-many-letters"
JSON = {"content-type": "application/json"}


def settings(**others):
    return ServerSettings(token=TOKEN, **others)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000", "[::1]:8000"])
def test_host__of_this_machine_is_answered(table_client, host):
    assert table_client.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8000", "127.0.0.1:9000", "127.0.0.1", "127.0.0.1.evil.example:8000", "",
        "localhost:8000@evil.example", "[::1", "127.0.0.1:8000:1", "127.0.0.1:eight",
    ],
)  # fmt: skip
def test_host__of_another_name_is_refused(table_client, host):
    for path in ("/", "/healthz", "/api/info"):
        answer = table_client.get(path, headers={"host": host})
        assert answer.status_code == 403
        assert "content-security-policy" in answer.headers


def test_host__that_was_allowed_may_have_any_port():
    guard = Guard(None, ServerSettings(hosts=("xray.hospital.example",)))
    assert guard.is_known("xray.hospital.example")
    assert guard.is_known("XRAY.hospital.example:443")
    assert not guard.is_known("other.hospital.example")


def test_host__of_a_server_at_all_addresses_is_one_of_these_and_no_name():
    guard = Guard(None, settings(host="0.0.0.0"))
    assert guard.is_known("192.168.1.7:8000")
    assert guard.is_known("localhost:8000")
    assert not guard.is_known("192.168.1.7:8001")
    assert not guard.is_known("rebound.example:8000")
    assert guard.is_known(f"{socket.gethostname()}:8000")
    assert not Guard(None, ServerSettings()).is_known("192.168.1.7:8000")
    assert Guard(None, settings(host="pc7.example")).is_known("pc7.example:8000")


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:8001", "http://localhost:8000", "file://", "http://["],
)
def test_origin__of_another_page_is_refused(table_client, rows, origin):
    answer = table_client.post("/api/predict", json={"rows": rows}, headers={"origin": origin})
    assert answer.status_code == 403
    own = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert table_client.post("/api/predict", json={"rows": rows}, headers=own).status_code == 200


def test_origin__a_form_of_another_site_is_refused_without_it_too(table_client, rows):
    answer = table_client.post("/api/predict", json={"rows": rows}, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403


@pytest.fixture(scope="module")
def closed(table_model):
    from starlette.testclient import TestClient

    with TestClient(create_app(table_model, settings()), base_url="http://127.0.0.1:8000") as client:
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"authorization": "Bearer"}, {"authorization": f"Bearer {TOKEN}x"}, {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"}, {"cookie": f"pnca-8000={TOKEN[:-1]}"}, {"cookie": f"x={TOKEN}"},
        {"authorization": "Bearer \u00e4\u00f6".encode("latin-1")}, {"cookie": "="},
    ],
)  # fmt: skip
def test_token__without_it_nothing_is_said(closed, headers):
    for path in ("/", "/api/info", "/openapi.json", "/static/app.js", "/batches/x"):
        answer = closed.get(path, headers=headers)
        assert answer.status_code == 401
        assert "classes" not in answer.text
    assert closed.post("/api/predict", headers=headers).status_code == 401
    assert closed.get("/healthz", headers=headers).json() == {"status": "ok"}


def test_token__comes_as_a_bearer_or_once_in_the_address(closed):
    assert closed.get("/api/info", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    answer = closed.get("/", params={"token": TOKEN})
    assert answer.status_code == 200
    assert "What does the model" not in answer.text  # it only goes on to the page
    cookie = answer.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert closed.get("/", params={"token": "wrong"}, headers={"cookie": ""}).status_code == 401
    assert closed.get("/").status_code == 200  # by the cookie
    closed.cookies.clear()
    assert closed.post(f"/api/predict?token={TOKEN}").status_code == 401


def test_token__is_needed_at_other_addresses_and_long_enough():
    with pytest.raises(InvalidInputError, match="takes a token"):
        ServerSettings(host="0.0.0.0")
    with pytest.raises(InvalidInputError, match="at least 16"):
        ServerSettings(token="secret")


def test_headers__forbid_what_is_not_from_here(table_client):
    headers = table_client.get("/").headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_pages__have_neither_inline_script_nor_style(table_client, csv_file):
    upload = table_client.post("/inputs", files={"files": ("new.csv", csv_file)})
    key = upload.url.path
    for path in ("/", key, f"{key}/2?without=3", "/examples/4", "/model", "/interface"):
        answer = table_client.get(path)
        assert answer.status_code == 200, path
        text = answer.text
        assert "<style" not in text, path
        assert " style=" not in text, path
        assert text.count("<script") == text.count('<script src="/static/app.js" defer></script>') == 1
        assert not any(f" on{event}=" in text for event in ("click", "load", "error", "input"))
        assert "http://" not in text.replace("http://www.w3.org/", "").replace("http://127.0.0.1:8000", "")
        assert "https://" not in text


@pytest.fixture(scope="module")
def narrow(table_model, image_model):
    limits = Limits(
        max_bytes=200_000, max_table_bytes=50_000, max_files=3, max_rows=20, max_explained=2,
        images=ImageLimits(max_pixels=10_000),
    )  # fmt: skip
    with asked(table_model, limits) as table, asked(image_model, limits) as images:
        yield table, images


def test_limits__of_a_body(narrow):
    table, _ = narrow
    answer = table.post("/api/predict", content=b"x" * 200_001, headers=JSON)
    assert answer.status_code == 413
    assert "MiB" in answer.json()["detail"]

    def endless():  # no length is said
        for _ in range(1000):
            yield b"[" * 10_000

    assert table.post("/api/predict", content=endless(), headers=JSON).status_code == 413
    answer = table.post("/api/predict", files={"files": ("a.csv", b"marker\n" + b"1\n" * 30_000)})
    assert answer.status_code == 422
    assert "divide it" in answer.json()["detail"]


def test_limits__of_rows_and_files(narrow, rows):
    table, images = narrow
    answer = table.post("/api/predict", json={"rows": [rows[0]] * 21})
    assert (answer.status_code, "20 rows" in answer.json()["detail"]) == (422, True)
    text = b"marker,age,site\n" + b"1,2,Ulm\n" * 21
    answer = table.post("/api/predict", files={"files": ("a.csv", text)})
    assert (answer.status_code, "more than 20 rows" in answer.json()["detail"]) == (422, True)
    answer = table.post("/api/explain", json={"rows": [rows[0]] * 3})
    assert (answer.status_code, "At most 2" in answer.json()["detail"]) == (422, True)
    four = [("files", (f"{i}.png", b"x")) for i in range(4)]
    assert images.post("/api/predict", files=four).status_code == 422


def bomb(side):
    """A PNG of so many pixels a side, in a thousandth of the bytes."""
    import struct

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    data = zlib.compress(b"\0" * (side + 1) * min(side, 50), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [101, 20_000, 1_000_000])
def test_images__bombs_are_refused_before_they_are_decoded(narrow, side):
    answer = narrow[1].post("/api/predict", files={"files": ("bomb.png", bomb(side))})
    assert answer.status_code == 422
    assert "bomb.png" in answer.json()["detail"]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"x", b"\x89PNG\r\n\x1a\n", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"<svg/>",
        b"\0" * 128 + b"DICM" + b"\0" * 50, b"\0" * 128 + b"DICM1.2.840.10008.1.2.1.99",
        b"\xff\xd8\xff\xe0" * 9,
    ],
)  # fmt: skip
def test_images__what_is_none_gets_a_message(image_client, content):
    answer = image_client.post("/api/predict", files={"files": ("scan.png", content)})
    assert answer.status_code == 422
    assert "Traceback" not in answer.text
    assert "/work" not in answer.text
    page = image_client.post("/inputs", files={"files": ("scan.png", content)})
    assert page.status_code == 422
    assert "This was not possible" in page.text


@pytest.mark.parametrize(
    "name", ["../../etc/passwd.csv", "..\\..\\x.csv", "/abs/olute.csv", "a\0b.csv", "<b>.csv"]
)
def test_names__of_files_lead_nowhere(table_client, name, tmp_path):
    answer = table_client.post("/api/predict", files={"files": (name, b"marker,age\n1,x\n")})
    assert answer.status_code == 422
    assert ".." not in answer.json()["detail"]
    assert "/" not in answer.json()["detail"].split(" ")[0]


def test_pages__show_hostile_text_as_text(table_client):
    hostile = b'sample,marker,age,site\n<script>alert(1)</script>,1,30,"<img src=x onerror=alert(1)>"\n'
    page = table_client.post("/inputs", files={"files": ("<script>.csv", hostile)})
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert "<img src=x" not in page.text
    assert "&lt;script&gt;" in page.text


@pytest.mark.parametrize(
    "path", ["/batches/none", "/batches/none/1", "/examples/0", "/examples/61", "/static/x", "/x"]
)
def test_addresses__that_are_not_there_get_a_page(table_client, path):
    answer = table_client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/..%2f..%2fapp.py", "/static/%2e%2e/app.py", "/examples/../../etc/passwd"],
)
def test_addresses__lead_out_of_no_folder(table_server, path):
    parts = urlsplit(table_server)
    connection = HTTPConnection(parts.hostname, parts.port, timeout=10)
    connection.request("GET", path)
    assert connection.getresponse().status in (404, 422)
    connection.close()


def test_failures__are_a_message_with_all_headers(table_model, monkeypatch, rows):
    from pnca.interfaces.web import service

    def fails(*_):
        raise RuntimeError("/secret/path of patient 17")

    with asked(table_model) as client:
        monkeypatch.setattr(service, "answered", fails)
        answer = client.post("/api/predict", json={"rows": rows})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "content-security-policy" in answer.headers


def test_training_pictures__outside_of_the_folder_are_not_shown(tmp_path):
    from pnca.record import Record
    from pnca.workflows.image_content import training_picture

    inside = tmp_path / "images"
    inside.mkdir()
    for path in (inside / "a.png", tmp_path / "secret.png"):
        path.write_bytes(png(np.zeros((8, 8), dtype=np.uint8)))
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    (inside / "damaged.png").write_bytes(b"x")
    names = ["a.png", "../secret.png", str(tmp_path / "secret.png"), "link.png", "none.png", "damaged.png"]
    record = Record(inputs=np.zeros((6, 3)), labels=np.zeros(6), ids=np.array(names, dtype=object))
    found = [training_picture(record, row, inside) is not None for row in range(6)]
    assert found == [True, False, False, False, False, False]

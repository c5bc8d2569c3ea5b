"""Small models of a table and of images, and servers of them."""

import numpy as np
import pytest

from pnca import PNCAClassifier
from pnca.sources import ImageSource
from web_servers import asked, image, served

N = 60


@pytest.fixture(scope="session")
def rows():
    """Rows of a table, new ones, with holes."""
    rng = np.random.default_rng(1)
    return [
        {
            "sample": f"N{i}",
            "marker": None if i == 3 else round(float(rng.normal() + 3 * (i % 2)), 3),
            "age": float(rng.integers(20, 80)),
            "site": "Bonn" if i % 3 else "Ulm",
        }
        for i in range(12)
    ]


@pytest.fixture(scope="session")
def csv_file(rows):
    """The same rows as a file."""
    lines = ["sample,marker,age,site"]
    for row in rows:
        values = ["NA" if value is None else str(value) for value in row.values()]
        lines.append(",".join(values))
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture(scope="session")
def table_model(tmp_path_factory):
    """Of a table with numbers, holes, a text and names, as ``pnca fit`` makes it, but faster."""
    from pnca.tables import Roles, open_table, read_examples

    rng = np.random.default_rng(0)
    lines = ["sample,marker,age,site,diagnosis"]
    for i in range(N):
        is_ill = i % 2
        marker = "NA" if rng.random() < 0.1 else f"{rng.normal() + 3 * is_ill:.3f}"
        site = rng.choice(["Bonn", "Ulm"])
        lines.append(f"S{i:02d},{marker},{rng.integers(20, 80)},{site},{'ill' if is_ill else 'well'}")
    path = tmp_path_factory.mktemp("web") / "train.csv"
    path.write_text("\n".join(lines) + "\n")
    found = read_examples(open_table(path), Roles(target="diagnosis", id="sample"))
    model = PNCAClassifier(n_particles=2, max_epochs=5, random_state=0)
    model.fit(found.X, found.y, ids=found.ids)
    model.source_ = found.source
    return model


@pytest.fixture(scope="session")
def image_model():
    """Of pixels, with the names of their files."""
    rng = np.random.default_rng(0)
    labels = np.array(["up", "down"])[np.arange(N) % 2]
    X = np.stack([image(label, rng) for label in labels])
    model = PNCAClassifier(n_particles=2, max_epochs=5, augmentation=0, random_state=0)
    model.fit(X, labels, ids=np.array([f"{label}/{i}.png" for i, label in enumerate(labels)], dtype=object))
    model.source_ = ImageSource(shape=(8, 8), is_resized=True)
    return model


@pytest.fixture(scope="session")
def table_client(table_model):
    with asked(table_model) as client:
        yield client


@pytest.fixture(scope="session")
def image_client(image_model):
    with asked(image_model) as client:
        yield client


@pytest.fixture(scope="session")
def table_server(table_model):
    with served(table_model, title="patients.pnca") as address:
        yield address


@pytest.fixture(scope="session")
def image_server(image_model):
    with served(image_model, title="pictures.pnca") as address:
        yield address

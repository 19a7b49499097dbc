"""What readers make of the data sets of the catalog stays what published results were made of."""

import hashlib
import os
from pathlib import Path

import pytest

from leaklab.data.catalog import load_catalog
from leaklab.data.fetch import fetch
from leaklab.data.prepare import prepare
from leaklab.records.files import write_json, write_tensors

CATALOG = load_catalog(Path(__file__).parents[2] / "config/datasets.yaml")
# of the tensors and of the card; data sets that no decoder of JPEG or WebP has a part in
PREPARED = {
    "digits": ("7b92e3bc99341c0b", "c90a92d35c9e5063"),
    "faces": ("197000f020505c8c", "d2ff7d20561b9cd6"),
    "mnist": ("2229a0af8c1c974a", "85829ab1f6bb534f"),
    "fashion-mnist": ("744070197162b4d0", "9fb742693ae9f88c"),
    "cifar10": ("f8c72e6f0d0376b0", "6a5dd603c654bf7a"),
}


@pytest.mark.parametrize("name", PREPARED)
def test_prepared_data_sets_have_the_bytes_that_they_had(name, tmp_path):
    entry, mirror = CATALOG[name], os.environ.get("LEAKLAB_MIRROR")
    held = mirror and entry.mirror and all((Path(mirror) / file.path).exists() for file in entry.mirror.files.values())
    if not (entry.embedded or held):
        pytest.skip("its files are in no mirror here")
    made = prepare(name, entry, fetch(entry, mirror and Path(mirror)))
    write_tensors(tmp_path / "made.safetensors", made.tensors)
    write_json(tmp_path / "made.json", made.card)
    found = [hashlib.sha256((tmp_path / f"made.{ending}").read_bytes()) for ending in ("safetensors", "json")]
    assert tuple(one.hexdigest()[:16] for one in found) == PREPARED[name]

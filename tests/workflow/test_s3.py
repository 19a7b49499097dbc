"""A DVC remote in S3, for which a server of this machine stands: a colleague gets what an item needs, and no more.

What S3 asks for is no part of the environment, as it holds other packages back: `make test-s3` makes one of its own.
"""

import importlib.util
import sys

import pytest

MISSING = [name for name in ("dvc_s3", "moto") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.workflow,
    pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}: `make test-s3` installs it and runs this"),
]
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}
OUTPUTS = ("data/prepared", ".snakemake/metadata", "results/runs",
           *(f"{kind}/{scale}" for kind in ("results", "figures") for scale in ("demo", "small", "paper")))  # fmt: skip
WANTED, OTHER = "figures/demo/lrp/table1.png", "results/demo/hyperfl/theorem1.csv"


def module(name):
    """Return the command of a package; this environment has no scripts of its own."""
    return sys.executable, "-m", name


DVC, SNAKEMAKE, LEAKLAB = module("dvc"), (*module("snakemake"), "--cores", "2"), module("leaklab.cli")


@pytest.fixture(scope="module")
def server():
    """A server with an empty bucket: its address, and a client of it."""
    import boto3
    from moto.server import ThreadedMotoServer

    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=address, region_name=KEYS["AWS_DEFAULT_REGION"],
                          aws_access_key_id="testing", aws_secret_access_key="testing")  # fmt: skip
    client.create_bucket(Bucket="leaklab")
    yield address, client
    running.stop()


@pytest.fixture(scope="module")
def author(server, checkout, tmp_path_factory):
    """A clone that made two items and pushed them to the bucket."""
    address, _ = server
    clone = checkout.clone(tmp_path_factory.mktemp("s3") / "author")
    clone.must(*SNAKEMAKE, "--quiet", "rules", "progress", "--", WANTED, OTHER)
    for name in OUTPUTS:
        (clone.folder / name).mkdir(parents=True, exist_ok=True)
    clone.must(*DVC, "remote", "add", "--default", "store", "s3://leaklab/store")
    clone.must(*DVC, "remote", "modify", "store", "endpointurl", address)
    clone.must(*DVC, "commit", "--force", "workflow")
    clone.must("git", "add", "--all")
    clone.must("git", "commit", "--quiet", "--message", "two items")
    clone.must(*DVC, "push", **KEYS)
    return clone


def runs_of(clone):
    return {path.parent.name for path in (clone.folder / "results/runs").rglob("run.json")}


def test_a_colleague_gets_one_item_from_the_bucket_and_has_nothing_to_run(author, tmp_path):
    colleague = author.clone(tmp_path / "colleague")
    said = colleague.must(*LEAKLAB, "pull", "lrp", "table1", "--scale", "demo", **KEYS)
    runs = runs_of(colleague)
    assert f"{len(runs)} of {len(runs)} runs are here" in said
    assert 0 < len(runs) < len(runs_of(author))
    assert "Nothing to be done" in colleague.must(*SNAKEMAKE, "--dry-run", WANTED)
    assert "rule check_theory" in colleague.must(*SNAKEMAKE, "--dry-run", OTHER)


def test_what_the_bucket_lost_is_named_in_one_line_and_made_again(author, server, tmp_path):
    _, client = server
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="leaklab"):
        for found in page.get("Contents", ()):
            client.delete_object(Bucket="leaklab", Key=found["Key"])
    colleague = author.clone(tmp_path / "later")
    done = colleague.run(*LEAKLAB, "pull", "lrp", "table1", "--scale", "demo", **KEYS)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    assert "train_federated" in colleague.must(*SNAKEMAKE, "--dry-run", WANTED)

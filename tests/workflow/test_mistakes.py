"""What goes wrong ends with one clear line and a status that is not zero, and loses nothing."""

import os
import subprocess

import pytest
import torch

pytestmark = pytest.mark.workflow
# a port where nothing listens: no test may reach the network
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")


@pytest.fixture(scope="module")
def two_items(checkout, tmp_path_factory):
    return checkout.clone(tmp_path_factory.mktemp("two") / "leaklab").only("lrp/table1", "lrp/figure2")


@pytest.fixture
def fresh(two_items, tmp_path):
    """A clone with two items that a test may spoil."""
    return two_items.clone(tmp_path / "fresh")


def refused(checkout, *targets, **more):
    """Return the one line with which a run is refused."""
    done = checkout.run("snakemake", "--cores", "2", "--quiet", "rules", "progress", "--", *targets, **more)
    assert done.returncode != 0, done.stdout
    assert "Traceback (most recent call last)" not in done.stdout
    lines = [
        line.strip()
        for line in done.stdout.splitlines()
        if "leaklab" in line and ":" in line and "python -m" not in line
    ]
    assert lines, done.stdout
    return " ".join(lines)


def test_misspelt_config_key(fresh):
    fresh.edit("config/config.yaml", "device: auto", "devise: auto")
    line = refused(fresh, "demo")
    assert "config/config.yaml: devise: unknown key" in line
    assert "device, mirror, scale" in line


def test_a_misspelt_key_of_the_command_line_is_not_blamed_on_the_file_alone(fresh):
    done = fresh.run("snakemake", "--cores", "1", "--config", "scal=small", "--dry-run", "demo")
    assert done.returncode != 0
    assert "leaklab: config/config.yaml and --config: scal: unknown key" in done.stdout


def test_misspelt_item_key(fresh):
    fresh.edit("config/items/lrp/table1.yaml", "    rounds: 100", "    round: 100")
    assert "config/items/lrp/table1.yaml: runs.table: round: unknown key" in refused(fresh, "demo")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU works here")
def test_a_gpu_that_does_not_work_is_refused_before_anything_is_made(fresh):
    fresh.edit("config/config.yaml", "device: auto", "device: cuda")
    line = refused(fresh, "results/demo/lrp/figure2.csv")
    assert "leaklab: device cuda: no GPU works on this machine (" in line
    assert "set device: cpu in config/config.yaml" in line
    for made in ("data/prepared", "results/runs", "results/demo", "logs"):
        assert not [path for path in (fresh.folder / made).rglob("*") if path.is_file()]
    planned = fresh.must("leaklab", "plan", "lrp", "figure2", "--scale", "demo")
    assert "device cuda: no GPU works on this machine (" in " ".join(planned.split())
    fresh.must("snakemake", "--cores", "1", "--quiet", "rules", "progress", "--", "data/prepared/digits.safetensors")


def test_unknown_item(fresh):
    assert "lrp/table99" in refused(fresh, "results/demo/lrp/table99.csv")


def test_planned_item_says_what_is_missing(fresh):
    (fresh.folder / "config/items/lrp/table99.yaml").write_text(
        "paper: lrp\nitem: table99\nnumber: 22\nkind: table\ntitle: To come\nshows: Nothing yet.\n"
        "planned: needs a network that is not written yet\n"
    )
    line = refused(fresh, "results/demo/lrp/table99.csv")
    assert "cannot make lrp/table99 at scale demo: needs" in line
    assert "not written yet" in line


def test_attack_that_needs_withheld_labels(fresh):
    fresh.edit(
        "config/items/lrp/figure2.yaml",
        "attack: [{name: dlg, matched",
        "attack: [{name: idlg, label_rule: known, matched",
    )
    line = refused(fresh, "demo")
    assert "config/items/lrp/figure2.yaml" in line
    assert "needs 'labels', which threat model 'honest-but-curious' withholds" in line


def test_truncated_data_file(fresh, tmp_path):
    raw = tmp_path / "mirror/data/MNIST/raw"
    raw.mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (raw / f"{name}-ubyte.gz").write_bytes(b"\x1f\x8b cut short")
    line = refused(fresh, "data/prepared/mnist.safetensors", LEAKLAB_MIRROR=str(tmp_path / "mirror"), **NO_NETWORK)
    assert "-ubyte.gz" in line
    assert not (fresh.folder / "data/prepared/mnist.safetensors").exists()


def test_no_data_and_no_network(fresh):
    line = refused(fresh, "data/prepared/mnist.safetensors", **NO_NETWORK)
    assert "LEAKLAB_MIRROR" in line


@pytest.mark.machine
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_full_disk(fresh):
    small = fresh.folder / "data"
    small.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not allow to mount a small disk")
    try:
        (small / "raw").mkdir()  # Snakemake would remove the empty folder that is the disk
        line = refused(fresh, "data/prepared/digits.safetensors")
        assert "the disk is full" in line
        assert not list(small.rglob("*.part*"))
    finally:
        subprocess.run(["umount", small], check=True)
    fresh.must("snakemake", "--cores", "1", "--quiet", "rules", "progress", "--", "data/prepared/digits.safetensors")

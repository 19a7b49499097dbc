import gzip
import hashlib
import http.server
import shutil
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
import yaml

from leaklab.data.catalog import Entry
from leaklab.data.fetch import fetch, mirror_folder
from leaklab.records.errors import UserError

CONTENT = gzip.compress(bytes(range(256)))


def entry(url="http://127.0.0.1:9/a.gz", *, mirror=True, checksum="sha256"):
    digest = getattr(hashlib, checksum)(CONTENT).hexdigest()
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    sources = {"official": {"reader": "idx", "files": {"a": {"url": url, "path": "toy/a.gz", checksum: digest}}}}
    if mirror:
        files = {"a": {"path": "data/toy/a.gz", "sha256": sha256}, "b": {"path": "data/toy/b.gz", "sha256": sha256}}
        sources["mirror"] = {"reader": "idx", "substitute": "half of it", "files": files}
    return Entry(title="Toy", num_classes=2, licence="none", citation="none", **sources)


@pytest.fixture
def mirror(tmp_path):
    folder = tmp_path / "mirror"
    for name in ("a", "b"):
        path = folder / "data/toy" / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
    return folder


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*arguments, **settings):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


@pytest.fixture
def server(tmp_path):
    """Serve ``tmp_path/site`` on this machine; yields the folder and its address."""
    site = tmp_path / "site"
    site.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, directory=str(site), **settings)

        def log_message(self, *arguments):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield site, f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


def error_of(*arguments):
    with pytest.raises(UserError) as caught:
        fetch(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("no_network")
class TestWithoutNetwork:
    def test_the_mirror_comes_first_and_is_read_in_place(self, mirror, tmp_path):
        downloads = tmp_path / "raw"
        (downloads / "toy").mkdir(parents=True)
        (downloads / "toy/a.gz").write_bytes(CONTENT)
        found = fetch(entry(), mirror, downloads)
        assert found.source.substitute == "half of it"
        assert found.paths() == {name: mirror / f"data/toy/{name}.gz" for name in ("a", "b")}
        assert found.files["a"].card() == {
            "path": "data/toy/a.gz",
            "sha256": hashlib.sha256(CONTENT).hexdigest(),
            "source": "mirror",
        }
        assert files_in(downloads) == ["a.gz"]

    @pytest.mark.parametrize("checksum", ["sha256", "md5"])
    def test_an_earlier_download_is_used(self, tmp_path, checksum):
        (tmp_path / "toy").mkdir()
        (tmp_path / "toy/a.gz").write_bytes(CONTENT)
        found = fetch(entry(checksum=checksum), None, tmp_path)
        assert found.source.substitute is None
        assert found.files["a"].sha256 == hashlib.sha256(CONTENT).hexdigest()

    def test_a_truncated_mirror_file(self, mirror, tmp_path):
        broken = mirror / "data/toy/b.gz"
        broken.write_bytes(CONTENT[:-7])
        message = error_of(entry(), mirror, tmp_path)
        assert f"{broken} is truncated or corrupt ({len(CONTENT) - 7} bytes" in message
        assert hashlib.sha256(CONTENT).hexdigest() in message
        assert "unset LEAKLAB_MIRROR" in message

    def test_a_mirror_that_lacks_one_of_the_files(self, mirror, tmp_path):
        (mirror / "data/toy/a.gz").unlink()
        assert "data/toy/a.gz is missing: restore it" in error_of(entry(), mirror, tmp_path)

    @pytest.mark.parametrize("checksum", ["sha256", "md5"])
    def test_a_corrupt_download(self, tmp_path, checksum):
        (tmp_path / "toy").mkdir()
        (tmp_path / "toy/a.gz").write_bytes(CONTENT[::-1])
        message = error_of(entry(checksum=checksum), None, tmp_path)
        assert f"{checksum} " in message
        assert "delete it and run the same command again" in message

    def test_an_unreadable_file(self, tmp_path):
        (tmp_path / "toy/a.gz").mkdir(parents=True)
        assert "cannot be read" in error_of(entry(), None, tmp_path)


def test_download_then_reuse(server, tmp_path, monkeypatch):
    site, address = server
    (site / "a.gz").write_bytes(CONTENT)
    seen = []

    def track(chunks, total, label):
        seen.append((total, label))
        return chunks

    found = fetch(entry(f"{address}/a.gz"), None, tmp_path / "raw", track)
    assert found.files["a"].path.read_bytes() == CONTENT
    assert found.files["a"].source == f"{address}/a.gz"
    assert seen == [(1, "download a.gz")]
    (site / "a.gz").unlink()
    assert fetch(entry(f"{address}/a.gz"), None, tmp_path / "raw").files == found.files


def test_a_download_is_known_to_dvc_with_its_source(server, tmp_path):
    site, address = server
    (site / "a.gz").write_bytes(CONTENT)
    project = tmp_path / "project"
    shutil.copytree(Path(__file__).parents[2] / ".dvc", project / ".dvc", ignore=lambda *_: ["cache", "tmp"])
    shutil.copy(Path(__file__).parents[2] / ".gitignore", project)

    def call(*words):
        done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=True)
        return done.stdout

    call("git", "init", "--quiet")
    path = fetch(entry(f"{address}/a.gz"), None, project / "data/raw").files["a"].path
    noted = yaml.safe_load(path.with_name("a.gz.dvc").read_text())
    assert noted["meta"] == {"source": f"{address}/a.gz"}
    name = str(path.relative_to(project))
    assert call("git", "status", "--porcelain", "-uall", "data").split() == ["??", f"{name}.dvc"]
    dvc = (sys.executable, "-m", "dvc")
    assert "not in cache" in call(*dvc, "status")
    call(*dvc, "commit", "--force", f"{name}.dvc")
    path.unlink()
    call(*dvc, "checkout")
    assert path.read_bytes() == CONTENT
    assert yaml.safe_load(path.with_name("a.gz.dvc").read_text()) == noted


def test_a_mirror_without_this_dataset_is_passed_over(server, tmp_path):
    site, address = server
    (site / "a.gz").write_bytes(CONTENT)
    (tmp_path / "empty").mkdir()
    assert fetch(entry(f"{address}/a.gz"), tmp_path / "empty", tmp_path / "raw").source.substitute is None


def test_a_server_that_sends_something_else_leaves_nothing_behind(server, tmp_path):
    site, address = server
    (site / "a.gz").write_bytes(CONTENT[:100])
    message = error_of(entry(f"{address}/a.gz"), None, tmp_path / "raw")
    assert "truncated or corrupt (100 bytes" in message
    assert f"this is what {address}/a.gz sent" in message
    assert files_in(tmp_path / "raw") == []


def test_a_file_that_the_server_lacks(server, tmp_path):
    _, address = server
    message = error_of(entry(f"{address}/a.gz"), None, tmp_path / "raw")
    assert f"cannot download {address}/a.gz (HTTP Error 404" in message
    assert files_in(tmp_path / "raw") == []


def test_no_network_and_no_mirror_says_what_to_do(tmp_path):
    message = error_of(entry(), None, tmp_path / "raw")
    for part in ("cannot download http://127.0.0.1:9/a.gz", "refused", "allow network access",
                 "set LEAKLAB_MIRROR to a folder that has data/toy/a.gz", str(tmp_path / "raw/toy/a.gz")):  # fmt: skip
        assert part in message


def test_no_network_and_a_mirror_without_the_files(tmp_path):
    assert f"({tmp_path} has none of the files)" in error_of(entry(), tmp_path, tmp_path / "raw")


def test_a_dataset_that_only_a_mirror_can_hold(tmp_path):
    lonely = entry().model_copy(update={"official": None})
    assert "has no official download: set LEAKLAB_MIRROR" in error_of(lonely, None, tmp_path)


def test_a_package_without_the_file():
    files = {"a": {"package": "numpy", "path": "nowhere.csv", "sha256": "0" * 64}}
    toy = Entry(title="Toy", num_classes=2, licence="", citation="", embedded={"reader": "idx", "files": files})
    assert "requirements.lock" in error_of(toy, None)


def test_the_mirror_folder_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("LEAKLAB_MIRROR", raising=False)
    assert mirror_folder() is None
    monkeypatch.setenv("LEAKLAB_MIRROR", str(tmp_path))
    assert mirror_folder() == tmp_path
    monkeypatch.setenv("LEAKLAB_MIRROR", str(tmp_path / "gone"))
    with pytest.raises(UserError, match="gone is not a folder: correct it or unset it"):
        mirror_folder()


class TestWithoutPublishedChecksums:
    """Folders that users make themselves: what is found is recorded."""

    lonely = Entry(
        title="Toy", num_classes=2, licence="none", citation="none", instructions="ask Alice for the folders",
        mirror={"reader": "idx", "files": {part: {"path": f"data/toy/{part}", "sha256": None} for part in "ab"}},
    )  # fmt: skip

    def mirrored(self, folder, **contents):
        for name, content in contents.items():
            path = folder / "data/toy" / name / "deep/file.txt"
            path.parent.mkdir(parents=True)
            path.write_text(content)
        return folder

    def test_the_checksum_is_that_of_the_listing_of_sha256sum(self, tmp_path):
        mirror = self.mirrored(tmp_path, a="first", b="second")
        (mirror / "data/toy/a/again.txt").write_text("first")
        found = fetch(self.lonely, mirror).files["a"]
        digest = hashlib.sha256(b"first").hexdigest()
        listed = f"{digest}  again.txt\n{digest}  deep/file.txt\n"
        assert found.path == mirror / "data/toy/a"
        assert found.card() == {
            "path": "data/toy/a",
            "sha256": hashlib.sha256(listed.encode()).hexdigest(),
            "source": "mirror, as it was there: no checksum is published",
        }

    def test_any_change_below_the_folder_is_another_checksum(self, tmp_path):
        mirror = self.mirrored(tmp_path, a="first", b="second")
        found = [fetch(self.lonely, mirror).files]
        (mirror / "data/toy/a/deep/file.txt").write_text("First")
        found.append(fetch(self.lonely, mirror).files)
        (mirror / "data/toy/a/deep/file.txt").rename(mirror / "data/toy/a/deep/other.txt")
        found.append(fetch(self.lonely, mirror).files)
        assert len({files["a"].sha256 for files in found}) == 3
        assert len({files["b"].sha256 for files in found}) == 1

    def test_a_single_file_is_recorded_as_it_is(self, tmp_path):
        mirror = self.mirrored(tmp_path, b="second")
        (mirror / "data/toy/a").write_text("first")
        assert fetch(self.lonely, mirror).files["a"].sha256 == hashlib.sha256(b"first").hexdigest()

    def test_what_is_missing_says_how_to_come_by_it(self, tmp_path):
        message = error_of(self.lonely, None, tmp_path)
        assert "Toy has no official download: ask Alice for the folders; then set LEAKLAB_MIRROR to a folder" in message
        assert "data/toy/a" in message
        mirror = self.mirrored(tmp_path, a="first")
        assert "data/toy/b is missing: restore it there (ask Alice for" in error_of(self.lonely, mirror, tmp_path)
        (mirror / "data/toy/b").mkdir()
        assert "data/toy/b is empty: restore it there (ask Alice for" in error_of(self.lonely, mirror, tmp_path)

"""Fetching weights: mirror, then data/weights, then the source; always checked."""

import hashlib
import io
import urllib.error
import urllib.request
from typing import ClassVar

import pytest

from leaklab.data import download
from leaklab.records.errors import UserError

BODY = b"the weights"
URL = "https://example.org/net.pth"
ENTRY = """net:
  title: a net
  licence: none
  citation: nobody
  files:
    - {path: part.pth, sha256: %(other)s}
    - {path: net.pth, sha256: %(right)s, url: "%(url)s"}
offline:
  title: a net that nobody serves
  licence: none
  citation: nobody
  files: [{path: lost.pth, sha256: %(right)s}]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    registry = tmp_path / "weights.yaml"
    digests = {"right": hashlib.sha256(BODY).hexdigest(), "other": hashlib.sha256(b"part").hexdigest(), "url": URL}
    registry.write_text(ENTRY % digests)
    monkeypatch.setattr(download, "REGISTRY", registry)
    monkeypatch.setattr(download, "LOCAL", tmp_path / "local")
    monkeypatch.setenv("LEAKLAB_MIRROR", str(tmp_path / "mirror"))
    (tmp_path / "mirror" / "weights").mkdir(parents=True)
    serve(monkeypatch, BODY)
    return tmp_path


def serve(monkeypatch, body):
    asked = []

    class Answer(io.BytesIO):
        headers: ClassVar = {}

    def urlopen(request, timeout):
        asked.append(request.full_url)
        if isinstance(body, Exception):
            raise body
        return Answer(body)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def test_the_mirror_comes_first(folder, monkeypatch):
    asked = serve(monkeypatch, BODY)
    (folder / "mirror/weights/net.pth").write_bytes(BODY)
    (folder / "local").mkdir()
    (folder / "local/net.pth").write_bytes(BODY)
    assert download.weights_path("net") == folder / "mirror/weights/net.pth"
    assert asked == []


def test_any_file_of_the_entry_is_enough(folder):
    (folder / "mirror/weights/part.pth").write_bytes(b"part")
    assert download.weights_path("net") == folder / "mirror/weights/part.pth"


def test_the_source_is_asked_once_and_the_copy_kept(folder, monkeypatch):
    asked = serve(monkeypatch, BODY)
    assert download.weights_path("net") == folder / "local/net.pth"
    assert download.weights_path("net").read_bytes() == BODY
    assert asked == [URL]


def test_a_wrong_download_is_thrown_away(folder, monkeypatch):
    serve(monkeypatch, b"an error page")
    with pytest.raises(UserError, match=r"net\.pth is damaged .* run again"):
        download.weights_path("net")
    assert list((folder / "local").iterdir()) == []


@pytest.mark.parametrize(
    "error", [urllib.error.URLError("no route"), TimeoutError("timed out"), ConnectionResetError("gone")]
)
def test_no_network_is_one_clear_line(folder, monkeypatch, error):
    serve(monkeypatch, error)
    with pytest.raises(download.WeightsUnavailableError) as caught:
        download.weights_path("net")
    assert "set LEAKLAB_MIRROR" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_copy_is_not_passed_over(folder):
    (folder / "mirror/weights/net.pth").write_bytes(BODY[:-1])
    with pytest.raises(UserError, match="is damaged") as caught:
        download.weights_path("net")
    assert not isinstance(caught.value, download.WeightsUnavailableError)


def test_weights_that_nobody_serves_say_which_file_to_bring(folder):
    with pytest.raises(download.WeightsUnavailableError, match=r"put lost\.pth into"):
        download.weights_path("offline")


def test_an_unknown_name_lists_the_known_ones(folder):
    with pytest.raises(UserError, match="choose from net, offline"):
        download.weights_path("nett")


def test_eight_digits_are_compared_where_no_more_is_published(folder, monkeypatch):
    digest = hashlib.sha256(BODY).hexdigest()
    registry = download.REGISTRY
    registry.write_text(registry.read_text().replace(digest, digest[:8]))
    assert download.weights_path("net").read_bytes() == BODY
    served = folder / "local/net.pth"
    served.write_bytes(BODY + b"!")
    with pytest.raises(UserError, match=r"net\.pth is damaged"):
        download.weights_path("net")
    registry.write_text(registry.read_text().replace(digest[:8], digest[:7]))
    with pytest.raises(UserError, match="sha256"):
        download.weights_path("net")

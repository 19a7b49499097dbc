"""Reasons of metrics without numbers: no address and no error of where they were computed."""

import urllib.request
from urllib.error import URLError

from leaklab.data import download
from leaklab.report.numbers.words import unavailable


def test_a_failed_download_is_told_without_the_address_and_the_error(tmp_path, monkeypatch):
    def unreachable(url, timeout):
        raise URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    monkeypatch.setattr(download, "LOCAL", tmp_path)
    monkeypatch.delenv("LEAKLAB_MIRROR", raising=False)
    reason = download.why_unavailable("alexnet")
    assert "http" in reason
    assert "no route to host" in reason
    assert unavailable({"not_available": {"lpips_alex": reason}}) == {
        "lpips_alex": "the weights alexnet-owt-7be5be79.pth could not be had where this was made"
    }


def test_other_reasons_stay_as_they_are():
    reason = "images of 8x8 are too small"
    assert unavailable({"not_available": {"ssim": reason}}) == {"ssim": reason}

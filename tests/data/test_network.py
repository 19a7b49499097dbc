"""Whether hosts answer: one try each, no waiting for those that hang."""

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from leaklab.data import fetch
from leaklab.data.fetch import answering, reachable


@pytest.fixture
def server(monkeypatch):
    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(int(self.path.strip("/")))
            self.end_headers()

        def log_message(self, *args):
            pass

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HTTPServer(("127.0.0.1", 0), Answer) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.mark.parametrize(("status", "there"), [(200, True), (403, True), (405, True), (404, False), (503, False)])
def test_any_word_of_the_host_counts_but_not_that_the_file_is_gone(server, status, there):
    assert reachable(f"{server}/{status}") == there


def test_nobody_listens(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert not reachable("http://127.0.0.1:9/file")


def test_a_proxy_that_refuses_is_no_answer(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert not reachable("http://example.org/file")


def test_each_host_is_tried_once():
    tried = []
    addresses = ["https://a.org/1", "https://a.org/2", "https://b.org/1"]
    found = answering(addresses, lambda address: tried.append(address) or "a.org" in address)
    assert found == {"https://a.org/1", "https://a.org/2"}
    assert len(tried) == 2


def test_a_host_that_hangs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(fetch, "TRY_SECONDS", -0.7)
    began = time.monotonic()
    slow = threading.Event()
    try:
        assert answering(["https://a.org/1", "https://b.org/1"], lambda address: slow.wait(30)) == set()
        assert time.monotonic() - began < 5
    finally:
        slow.set()

"""Whether hosts answer, in a few seconds at most."""

import http.client
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from leaklab.data.download import HEADERS

TRY_SECONDS = 4.0
# what a host or the proxy before it says when the file cannot be had through it
REFUSALS = {404, 407, 410, 502, 503, 504}


def reachable(address: str) -> bool:
    """Return whether a request for the head of a file is answered; any proxy of the environment is used."""
    request = urllib.request.Request(address, headers=HEADERS, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=TRY_SECONDS):
            return True
    except urllib.error.HTTPError as error:
        return error.code not in REFUSALS
    except (OSError, http.client.HTTPException, ValueError):
        return False


def answering(addresses: Iterable[str], reach: Callable[[str], bool] = reachable) -> set[str]:
    """Return the addresses whose hosts answer: one try for each host, all at once.

    Looking up a name may hang beyond any timeout where there is no network, so nobody waits for a slow try.
    """
    by_host: dict[str, list[str]] = {}
    for address in addresses:
        by_host.setdefault(urlsplit(address).netloc, []).append(address)
    answered: set[str] = set()

    def attempt(host: str, address: str) -> None:
        if reach(address):
            answered.add(host)

    tries = [
        threading.Thread(target=attempt, args=(host, own[0]), daemon=True) for host, own in sorted(by_host.items())
    ]
    for one in tries:
        one.start()
    limit = time.monotonic() + TRY_SECONDS + 1
    for one in tries:
        one.join(max(0.0, limit - time.monotonic()))
    return {address for host in set(answered) for address in by_host[host]}

"""Whatever compiled code makes of a KeyboardInterrupt, what it ends has been interrupted."""

import os
import signal
import threading

import pytest

from leaklab.records.errors import UserError
from leaklab.records.interrupts import interruptible


def foreign(error):
    """Report an error of its own when Ctrl-C comes, as compiled code does that has called a Python function."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise error("could not determine the shape") from None


class Deleted:
    """Ctrl-C comes within a destructor, where Python can raise nothing."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("error", [ValueError, UserError, SystemExit, KeyboardInterrupt])
def test_an_interrupt_that_was_reported_as_another_error_is_one(error):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interruptible():
        foreign(error)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_was_swallowed_is_found_before_anything_is_finished():
    def work():
        with interruptible() as go_on:
            Deleted()
            go_on()

    with pytest.raises(KeyboardInterrupt):
        work()


def test_other_errors_stay_what_they_are():
    def work():
        with interruptible() as go_on:
            go_on()
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        work()


def test_who_ignores_ctrl_c_goes_on_to():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible() as go_on:
            os.kill(os.getpid(), signal.SIGINT)
            go_on()
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_get_no_signals():
    found = []

    def work():
        with interruptible() as go_on:
            go_on()
            found.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [True]

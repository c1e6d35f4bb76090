"""What holds for every test."""

import signal


def pytest_configure() -> None:
    """Undo an ignored SIGINT, which a runner in the background hands down: tests press Ctrl-C on what they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

"""What holds for every test."""

import signal


def pytest_configure() -> None:
    """Undo ignored signals, which nohup and runners in the background hand down: tests send them to what they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

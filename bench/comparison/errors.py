"""How a comparison ends before its time: with one line, and a status of its own."""
import contextlib
import importlib
import os
import signal
import sys


class Refused(Exception):
    """What was asked for cannot be meant. Exit status 2; nothing was run or written."""


class Failed(Exception):
    """A run went wrong, or its allocator did not serve. Exit status 1; no results are written."""


class Ended(BaseException):
    """A signal asks for the end. Not an Exception: nobody takes it for a fault of a run."""


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def _end(number, _frame):
    _handle(lambda *_: None)  # once is enough, and the end is not to be disturbed
    raise Ended(number)


def _handle(handler):
    """Those that whoever started this has not told to be ignored, as nohup does."""
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def end_at_once():
    """From here on signals end the program as they end any other: all is written."""
    _handle(signal.SIG_DFL)


@contextlib.contextmanager
def uninterrupted():
    """Signals that come meanwhile ask in vain: this takes a moment, and is to be done as a whole."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _open_streams():
    """What whoever started this has closed leads nowhere, and takes no file's number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))
    sys.stdout.reconfigure(errors="backslashreplace")  # not every terminal has all characters


def _complain(name, problem):
    """In one line, whatever characters an argument has."""
    print(f"{name}: {problem}".replace("\n", "\\n"), file=sys.stderr)


def _drop_output():
    """What standard output did not take must not be tried once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def reported(name, module, arguments):
    """Runs the command of a module that is called `name`; the status to exit with. Who reads no further ends it."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _handle(_end)
    _open_streams()
    try:
        # Here, since it takes its time, and a signal may come.
        with contextlib.suppress(SystemExit):  # of --help
            getattr(importlib.import_module(f".{module}", __package__), name)(arguments)
        sys.stdout.flush()
        return 0
    except Refused as problem:
        _complain(name, problem)
        return 2
    except Failed as problem:
        _complain(name, problem)
        return 1
    except OSError as problem:  # a full disk, say
        _complain(name, problem)
        _drop_output()
        return 1
    except Ended as signal_:
        _complain(name, "interrupted; nothing was written")
        return 128 + signal_.args[0]

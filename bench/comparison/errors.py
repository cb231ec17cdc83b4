"""How a comparison ends before its time: with one line, and a status of its own."""
import signal
import sys


class Refused(Exception):
    """What was asked for cannot be meant. Exit status 2; nothing was run or written."""


class Failed(Exception):
    """A run went wrong, or its allocator did not serve. Exit status 1; no results are written."""


def reported(name, command, arguments):
    """Runs a command; the status to exit with. Who reads no further ends it."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        command(arguments)
        return 0
    except Refused as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        return 2
    except Failed as problem:
        print(f"{name}: {problem}", file=sys.stderr)
        return 1
    except OSError as problem:  # a full disk, say
        print(f"{name}: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted; nothing was written", file=sys.stderr)
        return 130

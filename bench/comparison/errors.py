"""How a comparison ends before its time: with one line, and a status of its own."""


class Refused(Exception):
    """What was asked for cannot be meant. Exit status 2; nothing was run or written."""


class Failed(Exception):
    """A run went wrong, or its allocator did not serve. Exit status 1; no results are written."""

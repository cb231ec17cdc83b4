"""Counts the instructions of calls by running a program under valgrind's callgrind.

Callgrind writes for every caller what each of its calls cost, all that was called inside included.
Valgrind does not replace malloc for this tool, so a preloaded allocator is the one that is counted.
"""
import os
import re
import shutil
import subprocess
import tempfile

from .errors import Failed

CALLS = re.compile(r"calls=(\d+) ")


def calls_of(text, callers):
    """{caller: (calls it made, instructions they cost)} of callgrind's uncompressed record."""
    totals = {caller: [0, 0] for caller in callers}
    current, pending = None, None
    for line in text.splitlines():
        if line.startswith("fn="):
            current = totals.get(line[3:].partition("'")[0])
        elif current is not None and (match := CALLS.match(line)):
            pending = int(match.group(1))
        elif pending is not None:
            current[0] += pending
            current[1] += int(line.split()[1])
            pending = None
    return {caller: tuple(total) for caller, total in totals.items()}


def check_installed():
    if not shutil.which("valgrind"):
        raise Failed("valgrind is not installed")


def _record(command, environment):
    """Runs a command under callgrind; its record, and what it printed."""
    with tempfile.TemporaryDirectory(prefix="hakmem-callgrind-") as folder:
        record = os.path.join(folder, "record")
        try:
            result = subprocess.run(
                ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={record}",
                 "--compress-strings=no", "--compress-pos=no", *command],
                env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", check=False, timeout=600)
        except subprocess.TimeoutExpired:
            raise Failed(f"{command[0]}: no end under callgrind") from None
        if result.returncode != 0:
            last = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise Failed(f"{command[0]} ended with {result.returncode}: {last}")
        with open(record, encoding="utf-8", errors="replace") as file:
            return file.read(), result.stdout


def run(command, environment, callers):
    """Runs a command under callgrind; calls_of it, and what it printed."""
    record, printed = _record(command, environment)
    return calls_of(record, callers), printed


def total_of(record):
    """All instructions of a record, of all threads."""
    return sum(map(int, re.findall(r"^summary: (\d+)", record, re.MULTILINE)))


def total(command, environment):
    """The instructions of a whole run."""
    instructions = total_of(_record(command, environment)[0])
    if instructions == 0:
        raise Failed(f"{command[0]}: callgrind counted nothing")
    return instructions


def per_call(command_of, environment, callers, lengths):
    """{caller: instructions of one call} between two lengths of a run: its start cancels out.

    command_of(length) is the command of a run of that length.
    """
    short, long_ = (run(command_of(length), environment, callers)[0] for length in lengths)
    costs = {}
    for caller in callers:
        calls = long_[caller][0] - short[caller][0]
        if calls <= 0:
            raise Failed(f"{caller}: callgrind saw no calls")
        costs[caller] = (long_[caller][1] - short[caller][1]) / calls
    return costs

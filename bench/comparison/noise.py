"""How quiet the machine is: what else runs, and how evenly the same work takes the same time.

A Watch is asked to measure a fixed piece of work again and again between the runs. Nothing here
changes a result; it only says how far to trust it.
"""
import hashlib
import os
import time

from . import statistics

LOAD_LIMIT = 0.3          # others ready to run between the runs, on average
SPREAD_LIMIT = 0.05       # CV of the fixed work's time
STEAL_LIMIT = 0.01        # of the time of all CPUs
ROW_LIMIT = 0.10          # CV of a row
WORK = bytes(1 << 18)


def _calibrate():
    """Seconds on the clock that a fixed piece of work takes; a few milliseconds."""
    start = time.perf_counter()
    for _ in range(8):
        hashlib.sha256(WORK)
    return time.perf_counter() - start


def _stolen_and_all():
    """Ticks taken from this machine by its host, and all ticks."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
        return ticks[7], sum(ticks)
    except (OSError, ValueError, IndexError):
        return 0, 0


def _others_ready():
    """How many threads, beside this one, run or could run now."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return max(int(file.read().split()[3].partition("/")[0]) - 1, 0)
    except (OSError, ValueError, IndexError):
        return 0


class Watch:
    def __init__(self):
        self.others = []
        self.times = []
        self.before = _stolen_and_all()
        for _ in range(10):
            self.look()

    def look(self):
        self.others.append(_others_ready())
        self.times.append(_calibrate())

    def figures(self):
        stolen, ticks = (after - before for before, after in zip(self.before, _stolen_and_all()))
        return {"load": sum(self.others) / len(self.others), "spread": statistics.describe(self.times).cv,
                "steal": stolen / ticks if ticks > 0 else 0.0}


def warnings(figures, cells):
    """What makes the figures unsure, in lines; cells are (row name, allocator, CV of the time)."""
    lines = []
    if figures["load"] > LOAD_LIMIT:
        lines.append(f"other programs were running: {figures['load']:.2f} threads on average")
    if figures["spread"] > SPREAD_LIMIT:
        lines.append("a fixed piece of work took times that differ by "
                     f"{100 * figures['spread']:.1f} % (CV; above {100 * SPREAD_LIMIT:.0f} % the "
                     "machine is noisy)")
    if figures["steal"] > STEAL_LIMIT:
        lines.append(f"{100 * figures['steal']:.1f} % of the processors' time was taken by the "
                     "machine's host")
    noisy = [(cv, row, label) for row, label, cv in cells if cv > ROW_LIMIT]
    if noisy:
        cv, row, label = max(noisy)
        lines.append(f"the times of {len(noisy)} of {len(cells)} measurements differ by more than "
                     f"{100 * ROW_LIMIT:.0f} % (CV); the most: {row} with {label}, "
                     f"{100 * cv:.0f} %")
    return lines

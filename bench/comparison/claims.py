"""What is claimed of HAKMEM in its default settings, and whether the outcome bears it out.

A claim is judged by what was measured and by nothing else; where its rows were not part of the run,
it says so, and one about all rows or peers says how many there were. Where a claim speaks of a
workload, the worst of its rows decides. Those of a matrix, which vary a workload to its extremes, are
not what the claims are about.
"""
import math
from dataclasses import dataclass, replace

from . import catalogue, statistics
from .allocators import PEER_FILES

SLOWEST, AHEAD, TIME_MEAN = 1.03, 2 / 3, 0.93
MEMORY_MEAN, FATTEST = 0.90, 1.10

# Times as fast as libc, at least.
FASTER = [("random_mixed", "bench_random_mixed", 1.25), ("larson", "larson", 2.8),
          ("mid_large_mt", "bench_mid_large_mt", 1.9), ("tiny_hot", "bench_tiny_hot", 2.5),
          ("vm_mixed", "bench_vm_mixed", 10.0)]

# Figures of one row: text, row, figure, unit, most.
FIGURES = [
    ("lru_drift: resident memory at its worst", "lru_drift", "worst", "x live", 1.6),
    ("halves: resident memory after refilling", "halves", "refilled", "x live", 1.5),
    ("classes: resident memory at its worst", "classes", "worst", "x live", 1.3),
    ("give_back: kept at once", "give_back 1 threads", "at_once", "MiB", 32),
    ("give_back: kept by 8 threads that stay idle", "give_back 8 threads", "after_idle", "MiB", 24),
]

# Figures of the row process_cost: text, figure, figure it is held against (or none), unit, most.
PROCESS = [
    ("CPU time of `true` beside that without a preload", "true_cpu_ratio", None, "", 1.10),
    ("private dirty memory of an idle `sleep` above that without a preload", "sleep_private_dirty",
     "sleep_private_dirty_plain", " KiB", 48),
    ("private dirty memory of an idle python3 above that without a preload",
     "python3_private_dirty", "python3_private_dirty_plain", " KiB", 256),
]


@dataclass(frozen=True)
class Verdict:
    text: str
    bound: str           # "<= 1.03"
    number: str = ""     # what was measured, with half the width of its 95 % interval if it has one
    holds: bool = None   # None: not measured
    close: bool = False  # the bar lies within the interval
    detail: str = ""
    scope: str = ""      # of a claim about all rows and peers: what was missing

    @property
    def word(self):
        if self.holds is None:
            return "not measured"
        return (("holds" if self.holds else "does not hold")
                + (" (within the spread)" if self.close else ""))


def _judge(text, value, half_width, sign, bar, unit="", detail=""):
    if value is None or value != value:
        return Verdict(text, f"{sign} {bar:.4g}{unit}")
    known = half_width is not None and half_width == half_width
    number = f"{value:.3f}{f' ± {half_width:.3f}' if known else ''}{unit}"
    holds = value <= bar if sign == "<=" else value >= bar
    return Verdict(text, f"{sign} {bar:.4g}{unit}", number, holds,
                   known and abs(value - bar) < half_width, detail)


def _times_faster(summary, hakmem, rows):
    """(libc's time as a multiple of ours, half width, row) of the worst row."""
    return min(((*statistics.ratio(summary.cell(row, "libc").time, summary.cell(row, hakmem).time),
                 row.name) for row in rows if summary.cell(row, "libc")), default=(None, None, ""))


def _scope(summary):
    """What "all rows" and "all peers" stand for, where rows of the level or peers are missing."""
    rows = catalogue.rows(summary.outcome.level)
    seen = {row.name for row in summary.outcome.rows}
    here = sum(row.name in seen for row in rows)
    words = [f"{here} of the {len(rows)} rows of the level"] if here < len(rows) else []
    words += [f"without {name}" for name in ("libc", *PEER_FILES) if name not in summary.peers]
    return ", ".join(words)


def _share_ahead(ratios):
    """A row is ahead by its ratio; the share is as sure as its rows are."""
    ahead = sum(ratio < 1 for ratio, _ in ratios)
    least = sum(ratio + half < 1 for ratio, half in ratios)
    most = sum(ratio - half < 1 for ratio, half in ratios)
    count = len(ratios)
    verdict = _judge("share of the rows that are ahead of all peers", ahead / count if count else None, None, ">=",
                     AHEAD, "", f"{ahead} of {count} rows, {least} to {most} by the spread")
    return replace(verdict, close=count > 0 and least < AHEAD * count <= most)


def _over_all_rows(summary, hakmem):
    def worst(what):
        return max(((*summary.cell(row, hakmem).to_best[what], row.name)
                    for row in summary.compared(what)), default=(None, None, ""))

    def mean(what):
        peer = summary.best_single_peer(what)
        if peer is None:
            return None, None, ""
        value, half = summary.ratio_of_means(hakmem, peer, what)
        return value, half, f"beside {peer}"

    value, half, row = worst("time")
    yield _judge("time of the slowest row beside the row's fastest peer", value, half, "<=",
                 SLOWEST, "", row)
    rows = summary.compared("time")
    yield _share_ahead([summary.cell(row, hakmem).to_best["time"] for row in rows])
    value, half, peer = mean("time")
    yield _judge("time over all rows (geometric mean) beside the best single peer", value, half,
                 "<=", TIME_MEAN, "", peer)
    value, half, peer = mean("memory")
    yield _judge("peak RSS over all rows (geometric mean) beside the leanest single peer", value,
                 half, "<=", MEMORY_MEAN, "", peer)
    value, half, row = worst("memory")
    yield _judge("peak RSS of the fattest row beside the row's leanest peer", value, half, "<=",
                 FATTEST, "", row)


def _figure(summary, row_name, label, figure):
    cell = summary.cells.get((row_name, label))
    return cell.figures.get(figure) if cell else None


def _of_processes(summary, hakmem):
    for text, name, base_name, unit, most in PROCESS:
        ours = _figure(summary, "process_cost", hakmem, name)
        base = _figure(summary, "process_cost", hakmem, base_name) if base_name else None
        if ours is None or (base_name and base is None):
            yield _judge(text, None, None, "<=", most, unit)
        elif base is None:
            yield _judge(text, ours.median, ours.half_width, "<=", most, unit)
        else:
            yield _judge(text, ours.median - base.median,
                         math.hypot(ours.half_width, base.half_width), "<=", most, unit)


def judge(summary):
    """A Verdict for each claim; none of a matrix, or if HAKMEM or every peer is missing."""
    hakmem = summary.hakmem()
    if hakmem is None or not summary.peers or any(row.group == "matrix" for row in summary.outcome.rows):
        return []
    scope = _scope(summary)
    verdicts = [replace(one, scope=scope) for one in _over_all_rows(summary, hakmem)]
    for name, workload, bar in FASTER:
        rows = [row for row in summary.outcome.rows if row.workload == workload]
        value, half, row = _times_faster(summary, hakmem, rows)
        verdicts.append(_judge(f"{name}: times as fast as libc", value, half, ">=", bar, "", row))
    for text, row, figure, unit, most in FIGURES:
        seen = _figure(summary, row, hakmem, figure)
        verdicts.append(_judge(text, seen and seen.median, seen and seen.half_width, "<=", most,
                               f" {unit}"))
    return verdicts + list(_of_processes(summary, hakmem))

"""What the samples of an outcome say: per row and allocator, and over all rows.

Ratios are of runs of the same round (statistics.ratio). Peers are libc and the other allocators, in
their default settings; variants and HAKMEM itself are none. Without peers all are taken for some.
The ratio to the best is the one to the peer that an allocator is furthest behind: medians of ratios
do not rank (a may be ahead of b, b of c, and c of a), and who is ahead of the best is ahead of all.
"""
import math
from dataclasses import dataclass, field

from . import statistics

# What can be compared of a row, by the name of the sample's field.
FIELDS = {"time": "time_ns", "memory": "peak_rss_kib"}


@dataclass
class Cell:
    """One allocator in one row."""
    time: statistics.Statistics
    memory: statistics.Statistics         # peak
    end: statistics.Statistics
    cpu: statistics.Statistics
    wall: statistics.Statistics
    figures: dict
    to_libc: dict = field(default_factory=dict)   # time or memory -> (ratio, half width)
    to_best: dict = field(default_factory=dict)


def _cell(samples, group):
    def of(name):
        return statistics.describe([sample[name] for sample in samples], group)

    # A figure that a workload could not measure every time is left out.
    names = [name for name in samples[0]["figures"]
             if all(sample["figures"].get(name) is not None for sample in samples)]
    figures = {name: statistics.describe([sample["figures"][name] for sample in samples], group)
               for name in names}
    return Cell(of("time_ns"), of("peak_rss_kib"), of("end_rss_kib"), of("cpu_seconds"),
                of("seconds"), figures)


class Summary:
    def __init__(self, outcome):
        self.outcome = outcome
        self.cells = {(row.name, one.label): _cell(outcome.of(row, one), row.times)
                      for row in outcome.rows for one in outcome.labels(row)}
        self.peers = [one.label for one in outcome.allocators if one.is_peer]
        for row in outcome.rows:
            self._compare(row)

    def cell(self, row, label):
        return self.cells.get((row.name, label))

    def labels(self, row):
        return [one.label for one in self.outcome.labels(row)]

    def means(self):
        """The allocators that ran every row, so that means over rows can be compared."""
        return [one.label for one in self.outcome.allocators if not one.extra]

    def base(self):
        """The label of whom means are multiples: libc, else the first."""
        labels = self.means()
        return "libc" if "libc" in labels else labels[0]

    def hakmem(self):
        """The label of HAKMEM in its default settings, or None."""
        return next((one.label for one in self.outcome.allocators
                     if one.kind == "hakmem" and not one.settings), None)

    def _peers(self, row):
        ran = self.labels(row)
        return [label for label in ran if label in self.peers] or ran

    def best_peer(self, row, what):
        """Label of the peer that no other one is ahead of, or least."""
        return min(self._peers(row), key=lambda label: self.cell(row, label).to_best[what][0])

    def best(self, row, what):
        """Label of HAKMEM where it is ahead of all peers, else of the best one."""
        hakmem = self.cell(row, self.hakmem())
        return self.hakmem() if hakmem and hakmem.to_best[what][0] < 1 else self.best_peer(row, what)

    def _ratio(self, row, label, other, what):
        return statistics.ratio(*(getattr(self.cell(row, one), what) for one in (label, other)))

    def _compare(self, row):
        for what in FIELDS:
            for label in self.labels(row):
                cell = self.cell(row, label)
                cell.to_best[what] = max(self._ratio(row, label, peer, what) for peer in self._peers(row))
                if self.cell(row, "libc"):
                    cell.to_libc[what] = self._ratio(row, label, "libc", what)

    def compared(self, what):
        """The rows that count in what is said about all rows."""
        return [row for row in self.outcome.rows if what in row.compared]

    def geometric_mean(self, label, what, rows=None):
        """Over rows, of the time or memory as multiples of the base's."""
        rows = self.compared(what) if rows is None else rows
        return statistics.geometric_mean(self._ratio(row, label, self.base(), what)[0] for row in rows)

    def ratio_of_means(self, label, other, what):
        """Of two geometric means over all rows that are compared, and half the width of its interval."""
        ratios = [self._ratio(row, label, other, what) for row in self.compared(what)]
        value = statistics.geometric_mean(ratio for ratio, _ in ratios)
        spread = math.hypot(*(half / ratio for ratio, half in ratios))
        return value, value * spread / len(ratios)

    def best_single_peer(self, what):
        """The peer with the least geometric mean; None without rows or peers."""
        means = [(self.geometric_mean(label, what), label) for label in self.peers]
        return min(means)[1] if means and not math.isnan(means[0][0]) else None

    def state(self, row):
        """The heading a row stands under: cold, warm and steady apart."""
        return f"{row.group}, {self.outcome.state(row)}"

    def sections(self):
        """[(heading, rows)], each heading once, in the order of the rows."""
        sections = {}
        for row in self.outcome.rows:
            sections.setdefault(self.state(row), []).append(row)
        return list(sections.items())

    def noisy_cells(self):
        return [(row.name, label, self.cell(row, label).time.cv) for row in self.compared("time")
                for label in self.labels(row)]

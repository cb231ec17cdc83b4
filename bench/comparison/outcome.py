"""What a comparison brought to light: every sample of every run, and what it was run on.

An Outcome can be written as JSON and read again, so tables and pictures can be made anew without
measuring anew.
"""
import math
from dataclasses import asdict, dataclass, field

from .allocators import Allocator
from .catalogue import LEVELS, Row
from .errors import Refused

FORMAT = 1
UNLIKE = "these are not results of a comparison"
SPOILT = ArithmeticError, AttributeError, LookupError, TypeError, ValueError  # what such numbers and words lead to
NUMBERS = ("time_ns", "cpu_seconds", "seconds", "operations", "peak_rss_kib", "end_rss_kib")


@dataclass
class Outcome:
    machine: dict
    level: str
    runs: int
    rows: list
    allocators: list
    samples: dict = field(default_factory=dict)   # (row name, label) -> samples, in order of time
    skipped: dict = field(default_factory=dict)   # row name -> why
    missing: list = field(default_factory=list)   # peers that are not installed
    noise: dict = field(default_factory=lambda: {"load": 0.0, "spread": 0.0, "steal": 0.0})

    def add(self, row_name, label, sample):
        self.samples.setdefault((row_name, label), []).append(sample)

    def drop_skipped(self):
        self.rows = [row for row in self.rows if row.name not in self.skipped]
        self.samples = {key: value for key, value in self.samples.items()
                        if key[0] not in self.skipped}

    def of(self, row, allocator):
        return self.samples.get((row.name, allocator.label), [])

    def labels(self, row):
        """The allocators that ran the row."""
        return [one for one in row.allocators(self.allocators) if self.of(row, one)]

    def state(self, row):
        """cold, warm or steady, as the workload says: the row with the first allocator."""
        return self.of(row, self.labels(row)[0])[0]["state"]

    def check(self):
        """Raises what from_json refuses, where something is missing that all else takes for granted."""
        numbers = [self.noise["load"] + self.noise["spread"] + self.noise["steal"]]
        words = [*self.machine.items(), *self.skipped.items(), self.missing,
                 *((one.label, one.kind, one.path, one.version) for one in self.allocators),
                 *((row.name, row.workload, row.group, *row.arguments) for row in self.rows)]
        "".join("".join(some) for some in words).encode()
        if min(row.times for row in self.rows) < 1:
            raise ValueError
        for row in self.rows:
            missing = [one for one in row.allocators(self.allocators)
                       if not one.extra and not self.of(row, one)]
            for sample in (sample for one in self.labels(row) for sample in self.of(row, one)):
                numbers += [sample[name] for name in NUMBERS]
                numbers += [value for value in sample["figures"].values() if value is not None]
                if row.compared and min(sample["time_ns"], sample["peak_rss_kib"]) <= 0:
                    raise ValueError
            self.state(row).strip()
            if missing:
                raise ValueError
        if not self.rows or self.level not in LEVELS or not all(map(math.isfinite, numbers)):
            raise ValueError

    def as_json(self):
        return {"format": FORMAT, "machine": self.machine, "level": self.level, "runs": self.runs,
                "allocators": [asdict(allocator) for allocator in self.allocators],
                "missing": self.missing, "skipped": self.skipped, "noise": self.noise,
                "rows": [{**row.as_json(), "state": self.state(row),
                          "samples": {allocator.label: self.of(row, allocator)
                                      for allocator in self.labels(row)}} for row in self.rows]}


def from_json(data):
    try:
        if data["format"] != FORMAT:
            raise Refused(f"results of format {data['format']}, not {FORMAT}")
        outcome = Outcome(data["machine"], data["level"], data["runs"],
                          [Row.from_json(row) for row in data["rows"]],
                          [Allocator(**allocator) for allocator in data["allocators"]],
                          skipped=data["skipped"], missing=data["missing"], noise=data["noise"])
        for row in data["rows"]:
            for label, samples in row["samples"].items():
                outcome.samples[row["name"], label] = samples
        outcome.check()
        return outcome
    except SPOILT:
        raise Refused(UNLIKE) from None

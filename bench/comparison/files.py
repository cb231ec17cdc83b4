"""CSV and JSON of an outcome, and files that are there as a whole or not at all."""
import contextlib
import csv
import io
import json
import os
import tempfile

from . import outcome as outcomes
from .errors import Failed, Refused

STATISTICS = ("n", "mean", "median", "stddev", "cv", "half_width", "outliers", "low", "high")


def write(contents):
    """Writes texts or bytes beside the paths they are for and renames them: no path is half-written, and where one
    cannot be written none is."""
    temporaries = {}
    try:
        for path, data in contents.items():
            descriptor, temporaries[path] = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)),
                                                             prefix=".compare-")
            with os.fdopen(descriptor, "wb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
            os.chmod(temporaries[path], 0o644)
        for path in contents:
            os.replace(temporaries[path], path)
            del temporaries[path]
    except OSError as problem:
        raise Failed(f"{path}: {problem.strerror}") from None
    finally:
        for temporary in temporaries.values():
            remove(temporary)


def remove(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def make_folder(path):
    """Called before anything is run, so that nothing is measured in vain."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as problem:
        raise Refused(f"{path}: {problem.strerror}") from None
    if not os.access(path, os.W_OK):
        raise Refused(f"{path}: cannot be written to")


def as_csv(summary):
    """One line per row, allocator and measure."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "workload", "arguments", "group", "state", "clock", "allocator",
                     "measure", "unit", *STATISTICS, "to_libc", "to_libc_half_width", "to_best",
                     "to_best_half_width"])
    for row in summary.outcome.rows:
        start = [row.name, row.workload, " ".join(row.arguments), row.group,
                 summary.outcome.state(row), row.clock]
        for label in summary.labels(row):
            cell = summary.cell(row, label)
            measures = [("time", "ns/operation", cell.time), ("cpu", "s", cell.cpu),
                        ("wall", "s", cell.wall), ("memory", "KiB", cell.memory),
                        ("end_rss", "KiB", cell.end)]
            measures += [(f"figure:{name}", "", seen) for name, seen in cell.figures.items()]
            for name, unit, seen in measures:
                writer.writerow([*start, label, name, unit,
                                 *(getattr(seen, field) for field in STATISTICS),
                                 *cell.to_libc.get(name, ("", "")),
                                 *cell.to_best.get(name, ("", ""))])
    return out.getvalue()


def as_json(summary, verdicts, warnings):
    data = summary.outcome.as_json()
    data["claims"] = [{"claim": verdict.text, "bound": verdict.bound, "measured": verdict.number,
                       "holds": verdict.holds, "detail": verdict.detail, "scope": verdict.scope}
                      for verdict in verdicts]
    data["warnings"] = warnings
    return json.dumps(data, indent=1) + "\n"


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return outcomes.from_json(json.load(file))
    except OSError as problem:
        raise Refused(f"{path}: {problem.strerror}") from None
    except (ValueError, RecursionError):
        raise Refused(f"{path}: is not JSON") from None

"""The tables a comparison prints."""
import math

from . import statistics

HEAD = ("allocator", "n", "median", "mean", "stddev", "CV", "95 % interval", "outliers", "x libc",
        "x best")


def number(value):
    """Four significant digits, or a dash."""
    if value is None or math.isnan(value):
        return "-"
    if value == 0 or 0.001 <= abs(value) < 10_000_000:
        digits = 3 - math.floor(math.log10(abs(value))) if value else 0
        return f"{value:.{max(digits, 0)}f}"
    return f"{value:.3g}"


def with_spread(pair):
    """A ratio and half the width of its interval."""
    if not pair:
        return "-"
    value, half = pair
    return f"{value:.3f} ± {half:.3f}" if half == half else f"{value:.3f}"


def table(head, lines, left=1):
    """Lines of columns as wide as they must be; the first `left` are aligned to the left."""
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]

    def show(line):
        return "  ".join(cell.ljust(width) if i < left else cell.rjust(width)
                         for i, (cell, width) in enumerate(zip(line, widths))).rstrip()

    return [show(head), "-" * (sum(widths) + 2 * len(widths) - 2)] + [show(line) for line in lines]


def statistics_line(label, seen, cell, what):
    outliers = str(seen.outliers) if statistics.may_have_outliers(seen.n) else "-"
    return (label, str(seen.n), number(seen.median), number(seen.mean), number(seen.stddev),
            f"{100 * seen.cv:.1f} %", f"± {number(seen.half_width)}", outliers,
            with_spread(cell.to_libc.get(what)), with_spread(cell.to_best.get(what)))


def row_lines(summary, row):
    """Time and memory of all allocators in one row, and what the workload itself reports."""
    clock = "wall time" if row.clock == "wall" else "CPU time"
    lines = [f"{row.name}   ({row.workload} {' '.join(row.arguments)})".rstrip()]
    for what, title in ("time", f"ns an operation, {clock}"), ("memory", "peak RSS in KiB"):
        compared = "" if what in row.compared else "; not compared"
        cells = [(label, summary.cell(row, label)) for label in summary.labels(row)]
        lines += ["", f"  {title}{compared}"]
        lines += ["  " + line for line in table(HEAD, [
            statistics_line(label, getattr(cell, what), cell, what) for label, cell in cells])]
    names = sorted({name for _, cell in cells for name in cell.figures})
    if names:
        lines += [""] + ["  " + line for line in table(
            ("median of", *(label for label, _ in cells)),
            [(name, *(number(cell.figures[name].median if name in cell.figures else None)
                      for _, cell in cells)) for name in names])]
    return lines + [""]


def mean_rows(summary):
    """Geometric means of the ratios to the summary's base, section by section."""
    sections = [(heading, rows) for heading, rows in summary.sections()]
    for what, title in ("time", "time"), ("memory", "peak RSS"):
        compared = summary.compared(what)
        for heading, rows in [*sections, ("all rows", compared)]:
            rows = [row for row in rows if row in compared]
            if rows:
                yield (f"{title}: {heading}", str(len(rows)),
                       *(number(summary.geometric_mean(label, what, rows)) for label in summary.means()))


def means_lines(summary):
    return [f"Geometric means, {summary.base()} = 1; less is better", "",
            *table(("", "rows", *summary.means()), list(mean_rows(summary))), ""]


def claims_lines(verdicts):
    if not verdicts:
        return []
    lines = ["Claims", ""]
    for verdict in verdicts:
        lines.append(f"  {verdict.word}: {verdict.text} {verdict.bound}"
                     + (f"; measured {verdict.number}" if verdict.number else "")
                     + (f" ({verdict.detail})" if verdict.detail and verdict.number else "")
                     + (f"; {verdict.scope}" if verdict.scope and verdict.number else ""))
    measured = [verdict for verdict in verdicts if verdict.holds is not None]
    held = sum(verdict.holds for verdict in measured)
    left = f"; {len(verdicts) - len(measured)} not measured" if len(measured) < len(verdicts) else ""
    return lines + ["", f"{held} of {len(measured)} claims hold{left}", ""]


def allocator_lines(outcome):
    return table(("allocator", "version", "library"),
                 [(one.label, one.version, one.path or "the program's own")
                  for one in outcome.allocators], left=3)


def everything(summary, verdicts, warnings):
    outcome = summary.outcome
    lines = [f"{name}: {words}" for name, words in outcome.machine.items()]
    lines += [f"level: {outcome.level}, {outcome.runs} runs, warm-up apart", ""]
    lines += allocator_lines(outcome) + [""]
    lines += [f"not installed: {', '.join(outcome.missing)}", ""] if outcome.missing else []
    for heading, rows in summary.sections():
        lines += [f"==== {heading} ====", ""]
        for row in rows:
            lines += row_lines(summary, row)
    lines += [f"left out: {name}: {why}" for name, why in outcome.skipped.items()]
    lines += means_lines(summary) + claims_lines(verdicts)
    return lines + [f"NOTE: {warning}" for warning in warnings]

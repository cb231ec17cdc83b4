"""The command line of bench/settings: tables, in Markdown, of HAKMEM beside itself."""
import argparse
import fnmatch
import os

from . import allocators, callgrind, catalogue, machine, markdown
from .command import Parser, choose_runs, make_build
from .errors import Refused
from .measure import check_programs, measure, only_one
from .studies import STUDIES
from .summary import Summary

DESCRIPTION = """\
Prints what HAKMEM's settings gain and cost, as tables in Markdown: each row is run with the
default and with other settings in turn. Ratios are to the default: time, by the row's clock, of
the fastest run, which other programs have disturbed least, and peak resident memory, the median.
With --instructions it is the instructions of whole runs instead, counted by valgrind: they are
the same in every run (short rows of one thread only).

studies: """ + ", ".join(STUDIES)


def parse(arguments):
    p = Parser(prog="bench/settings", description=DESCRIPTION, allow_abbrev=False,
               formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("study", nargs="*", help="all without")
    p.add_argument("--level", choices=catalogue.LEVELS, default="quick",
                   help="which rows of the catalogue, how often (%(default)s)")
    p.add_argument("--rows", metavar="PATTERN", help="only rows whose name fits")
    p.add_argument("--runs", metavar="N", help="runs kept of each, 2 to 1000")
    p.add_argument("--instructions", action="store_true", help="count instead of timing")
    p.add_argument("--build", metavar="DIR", help="build folder; build-bench/ is built without")
    return p.parse_args(arguments)


def choose_studies(names):
    for name in names:
        if name not in STUDIES:
            raise Refused(f"unknown study '{name}'; known: {', '.join(STUDIES)}")
    return [study for study in STUDIES.values() if not names or study.name in names]


def choose_rows(study, options):
    rows = study.counted(options.level) if options.instructions else study.rows(options.level)
    return [row for row in rows if fnmatch.fnmatch(row.name, options.rows or "*")]


def variants_of(study, build):
    """{words of the table: allocator}; the default first."""
    found = {"default": allocators.parse("hakmem", build)}
    for words in study.variants:
        name, _, value = words.partition("=")
        found[words] = allocators.parse(f"hakmem:HAKMEM_{name.upper()}={value}", build)
    return found


def count(study, rows, variants, build):
    """{row name: {words: instructions}}"""
    counted = {}
    for row in rows:
        program = os.path.join(build, "bench", row.workload)
        counted[row.name] = {
            words: callgrind.total([program, *row.arguments, "--json", f"--expect={one.expected}"],
                                   one.environment())
            for words, one in variants.items()}
    return counted


def counted_lines(study, counted):
    head = ["instructions", "default", *study.variants]
    if study.rivals:
        head.append("default / best")
    lines = []
    for row, of in counted.items():
        base = of["default"]
        line = [row, f"{base / 1e6:.1f} M", *(f"{of[one] / base:.3f}" for one in study.variants)]
        if study.rivals:
            line.append(f"{base / min(of[one] for one in study.rivals):.3f}")
        lines.append(line)
    return markdown.table(head, lines)


def _ratios(cell, base):
    time, memory = cell.time.low / base.time.low, cell.memory.median / base.memory.median
    return f"{time:.2f}, {memory:.2f}"


def rows_lines(study, summary, variants):
    """A line a row, a column a variant."""
    head = ["time, memory", "default", *study.variants]
    if study.rivals:
        head.append("default / best")
    lines = []
    for row in summary.outcome.rows:
        cells = {words: summary.cell(row, one.label) for words, one in variants.items()}
        base = cells["default"]
        line = [row.name, f"{base.time.low:.1f} ns, {base.memory.median / 1024:.0f} MiB",
                *(_ratios(cells[words], base) for words in study.variants)]
        if study.rivals:
            best = min((cells[words] for words in study.rivals), key=lambda c: c.time.low)
            line.append(_ratios(base, best))
        lines.append(line)
    return markdown.table(head, lines)


def variants_lines(study, summary, variants):
    """A line a variant: all of one row."""
    row = summary.outcome.rows[0]
    lines = []
    for words, one in variants.items():
        cell = summary.cell(row, one.label)
        figures = [f"{cell.figures[name].median:.1f}" if name in cell.figures else "–"
                   for name in study.figures]
        lines.append([words, f"{cell.time.low:.1f}", f"{cell.memory.median / 1024:.0f}",
                      *figures])
    return markdown.table(["setting", "ns an operation", "peak MiB", *study.figures], lines)


def show(study, rows, variants, options, build):
    print(f"## {study.title}\n\n{study.words}\n", flush=True)
    if options.instructions:
        lines = counted_lines(study, count(study, rows, variants, build))
    else:
        runs = choose_runs(options.runs, options.level)
        outcome = measure(rows, list(variants.values()), runs, options.level, build,
                          catalogue.TIMEOUTS[options.level])
        layout = variants_lines if study.row else rows_lines
        lines = layout(study, Summary(outcome), variants)
    print("\n".join(lines), flush=True)


def settings(arguments):
    options = parse(arguments)
    chosen = [(study, choose_rows(study, options)) for study in choose_studies(options.study)]
    chosen = [(study, rows) for study, rows in chosen if rows]
    if not chosen:
        raise Refused("no row of these studies fits")
    choose_runs(options.runs, options.level)
    machine.check_defaults("ratios are to the times")
    if options.instructions:
        callgrind.check_installed()
    with only_one():
        build = make_build(options)
        check_programs([row for _, rows in chosen for row in rows], build)
        chosen = [(study, rows, variants_of(study, build)) for study, rows in chosen]
        for study, rows, variants in chosen:
            show(study, rows, variants, options, build)

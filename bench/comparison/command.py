"""The command line of bench/compare."""
import argparse
import dataclasses
import fnmatch
import os
import re
import subprocess
import sys

from . import allocators, catalogue, claims, files, machine, markdown, matrix, noise, \
    pictures, text
from .errors import Failed, Refused, end_at_once, uninterrupted
from .measure import check_programs, measure, only_one
from .outcome import SPOILT, UNLIKE
from .summary import Summary

BENCH = os.path.join(allocators.ROOT, "bench")
MAX_RUNS = 1000

# What is compared is built so, whatever has been made of the build folder meanwhile.
BUILD_OPTIONS = ("-Dbuildtype=release", "-Db_sanitize=none", "-Dtiny_wrap=true", "-Dsuperslab=true",
                 "-Dstats=true", "-Dbigcache_l25=true", "-Dtests=false", "-Dbenchmarks=true")

EPILOG = """\
allocators: libc, hakmem, mimalloc, jemalloc, tcmalloc, or the path of a library; with settings as
hakmem:HAKMEM_PURGE_DELAY=0, but no value can have a comma. Without --allocators: libc, hakmem and the
peers that are installed. BUILD is build-bench/, which is built first, unless --build names another
folder. Results go to BUILD/compare unless --out says otherwise: compare.csv, compare.json, ratios.svg
and .png, memory.svg and .png. (hakmem-bench builds nothing, and its results go to ./hakmem-bench.)
Exit status: 0 done, 1 a run failed or its allocator did not serve, 2 bad arguments, 128 and a signal's
number: ended by that.
"""


class Parser(argparse.ArgumentParser):
    """Complains in one line."""

    def error(self, message):
        raise Refused(message)


def parser():
    p = Parser(prog="bench/compare", allow_abbrev=False, epilog=EPILOG,
               formatter_class=argparse.RawDescriptionHelpFormatter,
               description="Compares time and memory of workloads with several allocators.")
    p.add_argument("workload", nargs="*", help="of the catalogue; all of the level without")
    p.add_argument("--level", choices=catalogue.LEVELS, default="standard",
                   help="which rows, how long, how often (%(default)s)")
    p.add_argument("--matrix", choices=sorted(matrix.PRESETS),
                   help="vary threads, working sets and sizes")
    p.add_argument("--allocators", metavar="LIST", help="separated by commas")
    p.add_argument("--rows", metavar="PATTERN", help="only rows whose name fits, such as '*cold'")
    p.add_argument("--runs", metavar="N", help=f"runs kept of each, 2 to {MAX_RUNS}")
    p.add_argument("--out", metavar="DIR", help="folder of the results")
    p.add_argument("--build", metavar="DIR", help="build folder with bench/ and src/libhakmem.so")
    p.add_argument("--from", dest="source", metavar="FILE",
                   help="measure nothing: show a compare.json again")
    p.add_argument("--results", action="store_true",
                   help="write bench/RESULTS.md and bench/results/")
    p.add_argument("--list", action="store_true", help="print the rows and end")
    return p


def choose_runs(words, level):
    if words is None:
        return catalogue.RUNS[level]
    if not re.fullmatch(r"[0-9]{1,9}", words) or not 2 <= int(words) <= MAX_RUNS:
        raise Refused(f"--runs {words}: not a number from 2 to {MAX_RUNS}")
    return int(words)


def check_workloads(workloads, rows):
    names = {catalogue.short_name(row.workload) for row in rows}
    for workload in workloads:
        if catalogue.short_name(workload) not in names:
            raise Refused(f"unknown workload '{workload}'; known: {', '.join(sorted(names))}")


def choose_rows(options):
    """Rows of the level; of a workload named that has none there, those of a later level."""
    if options.matrix:
        rows = matrix.rows(options.matrix, options.level)
        check_workloads(options.workload, rows)
    else:
        rows = catalogue.rows(options.level)
        every = catalogue.rows("thorough")
        check_workloads(options.workload, every)
        in_level = {row.workload for row in rows}
        wanted = {catalogue.short_name(workload) for workload in options.workload}
        if wanted:
            rows = [row for row in rows + [row for row in every if row.workload not in in_level]
                    if catalogue.short_name(row.workload) in wanted]
    if options.rows is not None:
        rows = [row for row in rows if fnmatch.fnmatch(row.name, options.rows)]
    if not rows:
        raise Refused("no row of this level fits; see --list")
    return rows


def check_others(words):
    """Complains of allocators before anything is built; HAKMEM's own is not there yet."""
    items = [item for item in (words or "").split(",") if item]
    others = []
    for item in items:
        name, settings = allocators.settings_of(item)
        if name == "hakmem":
            allocators.check_names(item, settings)
        else:
            others.append(item)
    if others or (words is not None and not items):
        allocators.parse_list(",".join(others), build="")


def check_nobody_else():
    """Complains where libc would not serve, and others would not be alone."""
    path = allocators.others_malloc(allocators.Allocator("libc", "libc").environment())
    if path:
        raise Refused(f"{path} serves every program here (see {machine.PRELOAD_FILE}): libc cannot be compared")


def choose_allocators(words, build):
    """The allocators asked for, else those found, and the peers that are missing then."""
    return allocators.found(build) if words is None else (allocators.parse_list(words, build), [])


def with_extras(chosen, rows, build):
    """The allocators and those that single rows ask for besides, as variants of one of them."""
    paths = {one.label: one.path for one in chosen}
    extras = []
    for label in sorted({label for row in rows for label in row.extra} - set(paths)):
        base, _, settings = label.partition(":")
        if base in paths:
            one = allocators.parse(f"{paths[base] or base}:{settings}", build)
            extras.append(dataclasses.replace(one, label=label, extra=True))
    return chosen + extras


def make_build(options):
    """The build folder. Ours is built, whether named or not: its library goes by the commit of the sources."""
    build = allocators.OWN_BUILD
    if options.build is not None and os.path.realpath(options.build) != os.path.realpath(build):
        if not os.path.isdir(options.build):
            raise Refused(f"{options.build}: there is no such folder")
        return os.path.abspath(options.build)
    allocators.check_preloadable(allocators.find_hakmem(build))
    is_set_up = os.path.exists(os.path.join(build, "build.ninja"))
    prepare = ["configure", build] if is_set_up else ["setup", build, allocators.ROOT]
    for step in ["meson", *prepare, *BUILD_OPTIONS], ["ninja", "-C", build]:
        try:
            result = subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, errors="replace", check=False)
        except OSError as problem:
            raise Failed(f"{step[0]}: {problem.strerror}") from None
        if result.returncode != 0:
            sys.stderr.write(result.stdout[-4000:])
            raise Failed(f"{' '.join(step)} failed")
    return build


def check_together(options):
    if options.results and (options.matrix or options.workload or options.rows or options.out
                            or options.allocators):
        raise Refused("--results is of the whole catalogue and all peers: "
                      "no --matrix, --rows, --out, --allocators or workloads with it")
    if "" in (options.source, options.out, options.build, options.rows, options.allocators):
        raise Refused("an option has an empty value")
    if options.source and (options.matrix or options.workload or options.rows or options.runs
                           or options.allocators or options.build or options.list):
        raise Refused("--from shows what was measured: nothing to choose with it")


def check_results():
    """Half an hour of measuring must not end without its pictures."""
    try:
        pictures.prepare()
    except pictures.NoPictures as problem:
        raise Refused(f"--results: {problem}") from None
    machine.check_defaults("--results is")


def check_complete(outcome):
    """RESULTS.md must not be made of some rows only."""
    measured = {row.name for row in outcome.rows} | set(outcome.skipped)
    left = [row.name for row in catalogue.rows(outcome.level) if row.name not in measured]
    if left:
        raise Refused(f"--results is of the whole catalogue: '{left[0]}' was not measured")


def make_folders(options, build):
    """Where all is to be written: compare.json, the pictures and the table."""
    folders = [options.out or os.path.join(build, "compare")]
    folders.append(os.path.join(BENCH, "results") if options.results else folders[0])
    for folder in {*folders, BENCH} if options.results else folders:
        files.make_folder(folder)
    return folders


def draw(options, summary):
    """The pictures; without them all else is written none the less."""
    try:
        return pictures.draw(summary)
    except pictures.NoPictures as problem:
        if options.results:
            raise Failed(problem) from None
        print(f"compare: {problem}", file=sys.stderr)
        return {}


def is_beside(folder, source):
    """Whether what lies there is of the measurement that is shown again."""
    return source is not None and os.path.realpath(folder) == os.path.dirname(os.path.realpath(source))


def write_measured(folder, summary, verdicts, warnings, lines):
    """compare.json, from which all else can be made again. Where it cannot be written, the tables are all there is."""
    try:
        files.make_folder(folder)  # it was there when measuring began
        files.write({os.path.join(folder, "compare.json"): files.as_json(summary, verdicts, warnings)})
    except (Failed, Refused) as problem:
        print("\n".join(lines))
        raise Failed(problem) from None


def write_rest(options, folders, summary, verdicts, warnings):
    """All other files, each whole, of the same measurement, or not there; where they are, in words."""
    folder, pages = folders
    old = {os.path.join(folder, name) for name in pictures.FILES | {"compare.csv"}}
    if is_beside(folder, options.source):
        old = set()
    try:
        drawn = draw(options, summary)
        contents = {os.path.join(pages, name): content
                    for name, content in {"compare.csv": files.as_csv(summary), **drawn}.items()}
        if options.results:
            contents[os.path.join(BENCH, "RESULTS.md")] = markdown.page(summary, verdicts, warnings, drawn)
        files.write(contents)
        if pages != folder:
            old |= {os.path.join(pages, name) for name in pictures.FILES}
        old -= contents.keys()
    finally:
        for path in old:  # of another measurement
            files.remove(path)
    return f"{os.path.join(BENCH, 'RESULTS.md')} and {pages}" if options.results else folder


def compare(arguments):
    options = parser().parse_args(arguments)
    check_together(options)
    if options.results:
        check_results()
    runs = choose_runs(options.runs, options.level)
    if options.source:
        outcome = files.read_json(options.source)
        if not options.out and os.path.basename(options.source) != "compare.json":
            raise Refused(f"{options.source}: is no compare.json, and one beside it would be replaced: --out is needed")
        options.out = options.out or os.path.dirname(os.path.abspath(options.source))
        folders = make_folders(options, None)
    else:
        rows = choose_rows(options)
        if options.list:
            for row in rows:
                print(f"{row.name:36} {row.workload} {' '.join(row.arguments)}".rstrip())
            return
        check_others(options.allocators)
        check_nobody_else()
        with only_one():
            build = make_build(options)
            check_programs(rows, build)
            chosen, missing = choose_allocators(options.allocators, build)
            chosen = with_extras(chosen, rows, build)
            folders = make_folders(options, build)
            outcome = measure(rows, chosen, runs, options.level, build,
                              catalogue.TIMEOUTS[options.level])
        outcome.missing = missing
    if options.results:
        check_complete(outcome)
    try:
        summary = Summary(outcome)
        verdicts = claims.judge(summary)
        warnings = machine.warnings(outcome.machine) + noise.warnings(outcome.noise, summary.noisy_cells())
        lines = text.everything(summary, verdicts, warnings)
    except SPOILT if options.source else ():
        raise Refused(UNLIKE) from None
    with uninterrupted():
        write_measured(folders[0], summary, verdicts, warnings, lines)
        where = write_rest(options, folders, summary, verdicts, warnings)
    end_at_once()
    print("\n".join(lines))
    print(f"written: {where}")


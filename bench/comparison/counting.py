"""The command line of bench/instructions."""
import argparse
import os

from . import callgrind, machine, text
from .command import Parser, check_others, choose_allocators, make_build
from .errors import Refused
from .measure import only_one

FUNCTIONS = ("malloc", "free", "calloc", "realloc")
# What is counted: batch, smallest and largest block, and two numbers of rounds.
PATTERNS = {
    "one block of 64 B, again and again": (1, 64, 64, (1000, 3000)),
    "100 blocks of 16 B, freed in reverse": (100, 16, 16, (50, 150)),
    "256 blocks of 16 to 1024 B, freed in random order": (256, 16, 1024, (50, 150)),
    "64 blocks of 8 to 32 KiB, freed in random order": (64, 8192, 32768, (50, 150)),
}
DESCRIPTION = """\
Prints the instructions of one malloc, free, calloc and realloc (to the same size) with each
allocator, counted by valgrind: unlike time they are the same in every run, so a change of a fast
path shows at once. They are means: of calls that go the fast path, and of those that do not.
"""


def parse(arguments):
    p = Parser(prog="bench/instructions", description=DESCRIPTION, allow_abbrev=False,
               formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--allocators", metavar="LIST", help="as for bench/compare")
    p.add_argument("--build", metavar="DIR", help="build folder; build-bench/ is built without")
    return p.parse_args(arguments)


def count(driver, allocator, pattern):
    batch, low, high, lengths = pattern

    def command(rounds):
        return [driver, str(batch), str(low), str(high), str(rounds), "--json",
                f"--expect={allocator.expected}"]

    callers = [f"count_{name}" for name in FUNCTIONS]
    costs = callgrind.per_call(command, allocator.environment(), callers, lengths)
    return [f"{costs[caller]:.1f}" for caller in callers]


def instructions(arguments):
    options = parse(arguments)
    callgrind.check_installed()
    check_others(options.allocators)
    with only_one():
        build = make_build(options)
        driver = os.path.join(build, "bench", "instructions_driver")
        if not os.access(driver, os.X_OK):
            raise Refused(f"{driver}: not there; has the benchmark been built?")
        chosen = choose_allocators(options.allocators, build)[0]
        for title, pattern in PATTERNS.items():
            lines = [(one.label, *count(driver, one, pattern)) for one in chosen]
            print("\n".join([title, "", *text.table(("instructions", *FUNCTIONS), lines), ""]),
                  flush=True)
        for warning in machine.warnings(machine.describe()):
            print(f"NOTE: {warning}")

"""Presets that vary a workload over threads, working sets and sizes (compare --matrix NAME)."""
from .catalogue import LEVELS, Row

# Steps of each dimension: those of the quick level, of the standard level, of the thorough level.
WORKING_SETS = ((256, 8192), (64, 256, 1024, 8192, 65536),
                (16, 64, 256, 1024, 4096, 16384, 65536, 262144))
FEW_WORKING_SETS = (64, 256), (16, 64, 256), (4, 16, 64, 256, 1024)
THREADS = (1, 4), (1, 2, 4, 8), (1, 2, 4, 8, 16, 32)
SIZES = (((16, 1024),), ((16, 64), (16, 1024), (16, 8192)),
         ((8, 16), (16, 64), (16, 128), (16, 1024), (1024, 4096), (16, 8192), (16, 32768)))
BIG_SIZES = (((512, 2047),), ((512, 1023), (512, 2047), (1024, 4095)),
             ((64, 511), (512, 1023), (512, 2047), (1024, 4095), (4096, 16383)))  # KiB
OPERATIONS = 1_000_000, 10_000_000, 20_000_000


def _threaded(name, workload, arguments, threads):
    return Row(name, workload, tuple(map(str, arguments)), group="matrix", clock="wall",
               threads=max(threads, 2))


def _random_mixed(at):
    for low, high in SIZES[at]:
        for live in WORKING_SETS[at]:
            yield Row(f"random_mixed {low}-{high} B, {live} live", "bench_random_mixed",
                      (str(OPERATIONS[at]), str(live), "1", f"--min={low}", f"--max={high}"),
                      group="matrix")


def _mid_large_mt(at):
    for threads in THREADS[at]:
        for live in FEW_WORKING_SETS[at]:
            yield _threaded(f"mid_large_mt {threads} threads, {live} live", "bench_mid_large_mt",
                            (threads, OPERATIONS[at] // (4 * threads), live, 1), threads)


def _vm_mixed(at):
    for low, high in BIG_SIZES[at]:
        for live in FEW_WORKING_SETS[at]:
            yield Row(f"vm_mixed {low}-{high} KiB, {live} live", "bench_vm_mixed",
                      (str(OPERATIONS[at] // 50), str(live), "1", f"--min={low << 10}", f"--max={high << 10}"),
                      group="matrix", extra=("hakmem:HAKMEM_BIGCACHE_L25=0",))


def _larson(at):
    for threads in THREADS[at]:
        for low, high in SIZES[at]:
            yield _threaded(f"larson {threads} threads, {low}-{high} B", "larson",
                            ((1, 2, 5)[at], low, high, 1000, 100, 1, threads), threads)


PRESETS = {"random_mixed": _random_mixed, "mid_large_mt": _mid_large_mt, "vm_mixed": _vm_mixed,
           "larson": _larson}


def rows(preset, level):
    return list(PRESETS[preset](LEVELS.index(level)))

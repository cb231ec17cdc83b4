"""What is compared: rows, each one workload with its arguments.

Speed rows come cold (100 thousand operations: first use of memory shows) and steady (10 million); a
workload that has a length of its own has one row. A row says by which clock it is timed: CPU time,
but wall time where all threads compute all the time, since one that waits for a lock costs no CPU
time. It says also what of it is compared, and at which level it joins in.
"""
from dataclasses import asdict, dataclass

LEVELS = ("quick", "standard", "thorough")
RUNS = {"quick": 3, "standard": 10, "thorough": 20}
TIMEOUTS = {"quick": 120, "standard": 300, "thorough": 1200}
COLD, STEADY = 100_000, 10_000_000
# A cold run ends within milliseconds: it is run several times where others are run once.
COLD_TIMES = 3


@dataclass(frozen=True)
class Row:
    name: str                          # unique
    workload: str                      # its binary
    arguments: tuple
    level: str = "quick"               # the first one it is part of
    group: str = "speed"               # speed, threads, memory, programs, process or matrix
    clock: str = "cpu"                 # or wall
    threads: int = 1                   # 1: bound to one CPU
    compared: tuple = ("time", "memory")
    times: int = 1                     # how often it is run in a round
    together: bool = False             # all allocators at once: for rows that mostly sleep, and take
                                       # turns at all else by the lock that --turn names
    extra: tuple = ()                  # allocators that join only this row

    def allocators(self, allocators):
        """Those of a list that run this row."""
        return [one for one in allocators if not one.extra or one.label in self.extra]

    def as_json(self):
        return asdict(self)

    @classmethod
    def from_json(cls, data):
        known = {name: data[name] for name in cls.__dataclass_fields__}
        for name in ("arguments", "compared", "extra"):
            known[name] = tuple(known[name])
        return cls(**known)


def _row(name, workload, arguments, **rest):
    return Row(name, workload, tuple(arguments.split()), **rest)


def _cold_and_steady(name, workload, arguments, threads=1, **rest):
    """Two rows. {n} in the arguments stands for a thread's operations, {batches} for n / 100."""
    rest.update(threads=threads, group="speed" if threads == 1 else "threads",
                clock="cpu" if threads == 1 else "wall")
    for phase, operations, times in ("cold", COLD, COLD_TIMES), ("steady", STEADY, 1):
        each = operations // threads
        yield _row(f"{name} {phase}", workload, arguments.format(n=each, batches=each // 100),
                   times=times, **rest)


def _speed():
    for size, level in (16, "quick"), (8, "standard"), (32, "standard"), (64, "standard"):
        yield from _cold_and_steady(f"tiny_hot {size} B", "bench_tiny_hot",
                                    f"{size} 100 {{batches}}", level=level)
    for size, level in (64, "quick"), (16, "standard"), (256, "standard"), (1024, "standard"):
        yield from _cold_and_steady(f"fixed_size {size} B", "bench_fixed_size",
                                    f"{size} {{n}} 1024", level=level)
    for live, level in (256, "quick"), (8192, "standard"), (100000, "thorough"):
        yield from _cold_and_steady(f"random_mixed {live} live", "bench_random_mixed",
                                    f"{{n}} {live} 1", level=level)
    for phase, each, times in ("cold", COLD // 20, COLD_TIMES), ("steady", STEADY // 20, 1):
        yield _row(f"comprehensive {phase}", "bench_comprehensive", f"{each}", level="standard",
                   times=times)
    yield from _cold_and_steady("redis_like", "bench_redis_like", "{n}", level="standard")
    # Between the blocks that threads cache and those with mappings of their own.
    yield _row("random_mixed 32-512 KiB warm", "bench_random_mixed",
               f"{STEADY // 10} 64 1 --min=32768 --max=524288", level="standard")
    yield _row("realloc_growth", "bench_realloc_growth", "", level="standard")
    # Blocks of this size take long: the long row has a tenth of the operations, and only the short
    # one is run without BigCache.
    yield _row("vm_mixed 64 live cold", "bench_vm_mixed", f"{COLD} 64 1",
               extra=("hakmem:HAKMEM_BIGCACHE_L25=0",))
    yield _row("vm_mixed 64 live warm", "bench_vm_mixed", f"{STEADY // 10} 64 1")


def _threads(level):
    for threads, since in (4, "quick"), (1, "standard"), (8, "thorough"):
        yield from _cold_and_steady(f"mid_large_mt {threads} threads", "bench_mid_large_mt",
                                    f"{threads} {{n}} 256 1", threads=threads, level=since)
    seconds = {"quick": 1, "standard": 2, "thorough": 5}[level]
    rest = {"group": "threads", "threads": 2}
    for threads, since in (1, "standard"), (8, "quick"):
        yield _row(f"larson {threads} threads", "larson", f"{seconds} 8 1024 1000 100 1 {threads}",
                   clock="wall", level=since, **rest)
    yield _row("false_sharing", "bench_false_sharing", "4 1250000 8 100", clock="wall",
               level="standard", **rest)
    yield _row("producer_consumer", "bench_producer_consumer", "", level="quick", **rest)
    yield _row("thread_churn", "bench_thread_churn", "", level="standard", **rest)


def _memory():
    rest = {"group": "memory", "level": "standard"}
    yield _row("lru_drift", "bench_lru_drift", "", **{**rest, "level": "quick"})
    yield _row("halves", "bench_halves", "", **rest)
    yield _row("classes", "bench_classes", "", **rest)
    yield _row("fragment", "bench_fragment", "", **rest)
    for threads in 1, 8:
        yield _row(f"give_back {threads} threads", "bench_give_back",
                   f"400 --threads={threads} --idle=10", threads=threads, together=True,
                   compared=(), **rest)


def _programs():
    rest = {"group": "programs", "level": "standard", "threads": 2}
    names = "cc1plus", "python3", "python3 malloc", "perl", "sqlite3", "git repack", "xz"
    for number, name in enumerate(names, 1):
        yield _row(name, "bench_apps", f"{number}", **rest)
    yield _row("redis-server", "bench_redis_server", "", **rest)
    yield _row("process_cost", "bench_process_cost", "", compared=(),
               **{**rest, "group": "process"})


def rows(level):
    """All rows of a level."""
    every = [*_speed(), *_threads(level), *_memory(), *_programs()]
    return [row for row in every if LEVELS.index(row.level) <= LEVELS.index(level)]


def short_name(workload):
    return workload.removeprefix("bench_")

"""The runs themselves: one after another, in turn, each in a process of its own.

Round after round goes through all rows, and each row through all allocators, which begin with
another one every time, so that slow changes of the machine reach all of them alike. Round 0 warms
up (file cache, clock frequency) and is not kept; being first, it also finds what does not work
before time is spent. While a run lasts this process sleeps.
"""
import contextlib
import ctypes
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time

from . import machine, noise
from .errors import Failed, Refused
from .outcome import Outcome

EXIT_SERVED, EXIT_SKIPPED = 3, 77
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def rotated(items, turn):
    turn %= len(items)
    return items[turn:] + items[:turn]


def plan(rows, allocators, runs):
    """All runs in order: (round, row, allocators that run it one after another)."""
    for round_ in range(runs + 1):
        for index, row in enumerate(rows):
            for again in range(row.times if round_ > 0 else 1):
                yield round_, row, rotated(row.allocators(allocators), round_ + index + again)


def _open_lock(path):
    """Anybody may have put something else there: it is not followed, waited for or changed."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    umask = os.umask(0o022)  # others must be able to open it
    try:
        lock = os.open(path, flags | os.O_CREAT, 0o644)
    except PermissionError:  # another user's, in a folder where only owners may create anew
        lock = os.open(path, flags)
    finally:
        os.umask(umask)
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise Refused(f"{path}: is not a lock file")
    return lock


@contextlib.contextmanager
def only_one():
    """Waits until no other comparison runs on this machine."""
    path = os.path.join(tempfile.gettempdir(), "hakmem-compare.lock")
    try:
        lock = _open_lock(path)
    except OSError as problem:
        raise Refused(f"{path}: {problem.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("compare: waiting for another comparison to end", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def prefer_priority():
    """Runs before other programs, unless that is forbidden or another priority was asked for."""
    if os.getpriority(os.PRIO_PROCESS, 0) == 0:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, -5)


@contextlib.contextmanager
def bound_to_one(cpus):
    """Binds this process, and so what it starts, to the last of the processors it may use."""
    # Interrupts are most often served by the first one.
    os.sched_setaffinity(0, {cpus[-1]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)


def program_of(row, build):
    return os.path.join(build, "bench", row.workload)


def check_programs(rows, build):
    for path in (program_of(row, build) for row in rows):
        if not os.access(path, os.X_OK):
            raise Refused(f"{path}: not there; has the benchmark been built?")


class Runner:
    """Starts workloads of one build and reads what they report; `cpus`: for rows of several threads."""

    def __init__(self, build, timeout, cpus):
        self.build = build
        self.timeout = timeout
        self.cpus = cpus

    def _start(self, row, allocator, turn):
        command = [program_of(row, self.build), *row.arguments, "--json", f"--expect={allocator.expected}"]
        if turn:
            command.append(f"--turn={turn.fileno()}")

        def prepare():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it must not outlive this process, however that ends
            if row.threads > 1:
                os.sched_setaffinity(0, self.cpus)

        try:
            # A session of its own, so that a run that hangs is ended with all it has started.
            return subprocess.Popen(command, env=allocator.environment(), stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    errors="replace", preexec_fn=prepare, start_new_session=True,
                                    pass_fds=[turn.fileno()] if turn else [])
        except OSError as problem:
            raise Failed(f"{command[0]}: {problem.strerror}") from None

    def _finish(self, row, allocator, process):
        try:
            output, complaint = _until(process, self.timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"{row.name} with {allocator.label}: no end after {self.timeout} s") \
                from None
        last = (complaint.strip().splitlines() or ["no message"])[-1]
        if process.returncode == EXIT_SKIPPED:
            return None, last
        if process.returncode == EXIT_SERVED:
            raise Failed(f"{row.name}: {allocator.label} did not serve: {last}")
        if process.returncode != 0:
            how = f"status {process.returncode}" if process.returncode > 0 else \
                f"signal {-process.returncode}"
            raise Failed(f"{row.name} with {allocator.label} ended with {how}: {last}")
        try:
            report = json.loads(output)
            if not report["allocator"]["served"]:
                raise Failed(f"{row.name}: {allocator.label} did not serve; "
                             f"{report['allocator']['object']} did")
            return sample_of(row, report), ""
        except (ValueError, KeyError, TypeError) as problem:
            raise Failed(f"{row.name} with {allocator.label}: its report is not understood: "
                         f"{problem!r}") from None

    def run(self, row, allocators):
        """(allocator, sample or None, why none) of each in order; all at once if a row says so."""
        for group in [allocators] if row.together else [[one] for one in allocators]:
            processes = []
            with contextlib.ExitStack() as cleaning:
                turn = cleaning.enter_context(tempfile.TemporaryFile()) if row.together else None
                cleaning.callback(lambda: [end(process) for process in processes])
                for allocator in group:
                    processes.append(self._start(row, allocator, turn))
                yield from ((allocator, *self._finish(row, allocator, process))
                            for allocator, process in zip(group, processes))


GRACE = 1  # seconds: this process may have been stopped, and that one come to its end


def _until(process, timeout):
    """What it printed."""
    try:
        return process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return process.communicate(timeout=GRACE)


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def sample_of(row, report):
    """What is kept of a run. time_ns: per operation, by the clock that suits the row."""
    operations = max(report["operations"], 1)
    seconds = report["seconds" if row.clock == "wall" else "cpu_seconds"]
    return {"time_ns": seconds * 1e9 / operations, "cpu_seconds": report["cpu_seconds"],
            "seconds": report["seconds"], "operations": report["operations"],
            "state": report["state"],
            "peak_rss_kib": report["peak_rss_kib"], "end_rss_kib": report["end_rss_kib"],
            "figures": {name: figure["value"] for name, figure in report["figures"].items()}}


class Progress:
    """One line on standard error: rewritten on a terminal, else now and then."""

    def __init__(self, total):
        self.total, self.done = total, 0
        self.start = self.shown = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def step(self, round_, runs, row, labels):
        self.done += len(labels)
        now = time.monotonic()
        if not self.terminal and now - self.shown < 10 and self.done < self.total:
            return
        self.shown = now
        left = (now - self.start) / self.done * (self.total - self.done)
        what = "warm-up" if round_ == 0 else f"round {round_} of {runs}"
        text = f"{self.done}/{self.total} {what}: {row.name}; {left / 60:.0f} min left"
        print(f"\r\033[K{text[:100]}" if self.terminal else f"compare: {text}",
              end="" if self.terminal else "\n", file=sys.stderr, flush=True)

    def close(self):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _files(allocators):
    """What tells whether somebody has replaced a library meanwhile."""
    seen = [os.stat(one.path) if one.path else None for one in allocators]
    return [file and (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns) for file in seen]


def measure(rows, allocators, runs, level, build, timeout):
    """Runs everything; an Outcome. The rows of programs that are not installed are left out.

    To be called with only_one, which covers the building of what is measured, too, and after check_programs.
    """
    cpus = machine.cpus()
    runner = Runner(build, timeout, cpus)
    # Pages of a library that are not on the disk yet would count as private memory of who maps it.
    os.sync()
    outcome = Outcome(machine.describe(), level, runs, rows, allocators)
    prefer_priority()
    files = _files(allocators)
    with bound_to_one(cpus):
        watch = noise.Watch()
        steps = list(plan(rows, allocators, runs))
        progress = Progress(sum(len(turn) for _, _, turn in steps))
        try:
            for round_, row, turn in steps:
                if row.name not in outcome.skipped:
                    for allocator, sample, why in runner.run(row, turn):
                        if sample is None:
                            outcome.skipped[row.name] = why
                        elif round_ > 0:
                            outcome.add(row.name, allocator.label, sample)
                    watch.look()
                progress.step(round_, runs, row, turn)
        finally:
            progress.close()
        outcome.noise = watch.figures()
    if _files(allocators) != files:
        raise Failed("a library was replaced while it was measured")
    outcome.drop_skipped()
    if not outcome.rows:
        raise Failed("; ".join(f"{name}: {why}" for name, why in outcome.skipped.items()))
    return outcome

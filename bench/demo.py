"""A program to try HAKMEM with: builds, changes and drops big structures, as services do.

    demo.py work                      the program itself; prints a checksum
    demo.py compare LIBRARY [RUNS]    runs it with and without LIBRARY preloaded, RUNS (5) times each
                                      in turn, and prints time and peak memory of both

Python is told to pass every request on to malloc (PYTHONMALLOC=malloc), both with and without HAKMEM.
"""
import ctypes
import hashlib
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading


def check_served():
    """Ends the program unless blocks of all sizes are the library's if it is to be, and no HAKMEM's if not."""
    library = os.environ.get("DEMO_LIBRARY")
    if not library:
        if hasattr(ctypes.CDLL(None), "hak_owns"):
            raise SystemExit("HAKMEM serves what is to run without it; does /etc/ld.so.preload name it?")
        return
    hak_owns = ctypes.CDLL(library, os.RTLD_NOLOAD | os.RTLD_NOW).hak_owns
    hak_owns.argtypes = [ctypes.c_void_p]
    for size in 600, 2000, 20000, 200000, 2000000, 20000000:
        block = bytes(size)
        if not hak_owns(id(block)):
            raise SystemExit(f"a block of {len(block)} bytes is not HAKMEM's")


def index(rng):
    """A word index, of which half is dropped and built again."""
    words = {}
    for position in range(400000):
        words.setdefault(f"word{rng.randrange(60000)}", []).append(position)
    for word in list(words)[::2]:
        del words[word]
    for position in range(200000):
        words.setdefault(f"other{rng.randrange(60000)}", []).append(position)
    return len(words), sum(map(len, words.values()))


def documents(rng):
    records = [{"id": i, "name": "x" * rng.randrange(200), "scores": [rng.random() for _ in range(8)],
                "links": {str(rng.randrange(1000)): i for _ in range(6)}} for i in range(25000)]
    text = json.dumps(records)
    again = json.loads(text)
    return len(text), again == records


def database(rng):
    db = sqlite3.connect(":memory:")
    db.execute("create table t (id integer primary key, name text, amount real)")
    db.executemany("insert into t (name, amount) values (?, ?)",
                   ((f"name {rng.randrange(5000)}", rng.random()) for _ in range(150000)))
    db.execute("create index i on t (name, amount)")
    rows = db.execute("select name, count(*), total(amount) from t group by name").fetchall()
    db.execute("delete from t where id % 3 = 0")
    return len(rows), db.execute("select count(*) from t").fetchone()[0]


def threads():
    """Four threads, each dropping what another one made."""
    boxes = [[] for _ in range(4)]

    def work(number):
        rng = random.Random(number)
        for turn in range(6):
            boxes[(number + turn) % 4] = [bytes(rng.randrange(20, 4000)) for _ in range(15000)]

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [len(box) for box in boxes]


def work():
    check_served()
    rng = random.Random(1)
    result = [(index(rng), documents(rng), database(rng), threads()) for _ in range(2)]
    print(hashlib.sha256(repr(result).encode()).hexdigest()[:16])


def measure(library):
    """CPU seconds, peak resident bytes and output of one run."""
    environment = {"PATH": os.environ["PATH"], "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    if library:
        environment.update({"LD_PRELOAD": library, "DEMO_LIBRARY": library})
    child = subprocess.Popen([sys.executable, "-s", __file__, "work"],
                             env=environment, stdout=subprocess.PIPE)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"the program failed with {child.returncode}, preloaded: {library or 'nothing'}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, output


def path_for_loader(library, folder):
    """A path of `library` that LD_PRELOAD can hold: the loader takes spaces and colons for its end."""
    if not any(character in library for character in " :\t\n"):
        return library
    link = os.path.join(folder, os.path.basename(library))
    os.symlink(library, link)
    return link


def compare(library, runs):
    library = os.path.realpath(library)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        compare_with(library, path_for_loader(library, folder), runs)


def compare_with(library, preloadable, runs):
    results = {"without HAKMEM": [], "with HAKMEM": []}
    for run in range(runs):
        if sys.stderr.isatty():
            print(f"run {run + 1} of {runs}", end="\r", file=sys.stderr)
        for name, preloaded in ("without HAKMEM", None), ("with HAKMEM", preloadable):
            results[name].append(measure(preloaded))
    if len({output for rows in results.values() for *_, output in rows}) != 1:
        raise SystemExit("the program printed different results with and without HAKMEM")

    print(f"{'':16}{'CPU time':>12}{'peak memory':>14}")
    medians = {}
    for name, rows in results.items():
        seconds, peak = (statistics.median(column) for column in list(zip(*rows))[:2])
        medians[name] = seconds, peak
        print(f"{name:16}{seconds:>10.2f} s{peak / 2**20:>10.1f} MiB")
    ratios = [with_ / without for with_, without in zip(medians["with HAKMEM"],
                                                        medians["without HAKMEM"])]
    print(f"{'with / without':16}{ratios[0]:>12.2f}{ratios[1]:>14.2f}")
    print(f"Median of {runs} runs. With HAKMEM, the blocks of the program were those of {library}.")


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        work()
    elif sys.argv[1:2] == ["compare"] and len(sys.argv) in (3, 4):
        compare(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5)
    else:
        raise SystemExit(__doc__)

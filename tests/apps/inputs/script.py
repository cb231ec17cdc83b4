"""Dictionaries, JSON, regular expressions, big numbers, threads and processes; prints digests."""
import collections
import concurrent.futures
import ctypes
import gc
import hashlib
import json
import os
import random
import re
import sqlite3
import threading
import zlib


def digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def check_served():
    """In the preloaded run, objects of this process are blocks of the library under test."""
    library = os.environ.get("HAKMEM_APPS_LIBRARY")
    if not library:
        return
    hak_owns = ctypes.CDLL(library, os.RTLD_NOLOAD | os.RTLD_NOW).hak_owns
    hak_owns.argtypes = [ctypes.c_void_p]
    small_and_large = [bytes(size) for size in (2000, 20000, 200000, 2000000, 20000000)]
    for block in small_and_large:
        if not hak_owns(id(block)):
            raise SystemExit(f"a block of {len(block)} bytes is not HAKMEM's")


def dictionaries(rng):
    words = [f"word{rng.randrange(40000)}" for _ in range(150000)]
    counts = collections.Counter(words)
    index = {}
    for position, word in enumerate(words):
        index.setdefault(word, []).append(position)
    for word in sorted(index)[::2]:
        del index[word]
    return counts.most_common(10), sum(map(len, index.values())), len(index)


def documents(rng):
    records = [{"id": i, "name": "x" * rng.randrange(60), "tags": [rng.random() for _ in range(5)],
                "nested": {str(k): k for k in range(rng.randrange(8))}} for i in range(8000)]
    text = json.dumps(records)
    again = json.loads(text)
    return len(text), again == records, zlib.crc32(json.dumps(again, indent=1).encode())


def texts(rng):
    text = " ".join(f"key{i}=value{rng.randrange(1000)};" for i in range(30000))
    pairs = re.findall(r"(key\d+)=(value\d+);", text)
    replaced = re.sub(r"value(\d+)", lambda m: str(int(m.group(1)) ** 3), text)
    pieces = sorted(replaced.split(";"), key=lambda p: p[::-1])
    return len(pairs), digest(replaced), digest(pieces[:100])


def numbers():
    n = 1
    for i in range(1, 1500):
        n *= i
    grown = bytearray()
    for i in range(200000):
        grown.append(i & 255)
    return digest(hex(n)), zlib.crc32(grown), digest(hex(3 ** 20000))


def cycles():
    class Node:
        def __init__(self, payload):
            self.me, self.payload = self, payload
    freed = 0
    for _ in range(5):
        nodes = [Node([i] * 10) for i in range(10000)]
        del nodes
        freed += gc.collect() >= 10000
    return freed


def threads():
    shared, lock = {}, threading.Lock()

    def work(number):
        rng = random.Random(number)
        mine = [bytes(rng.randrange(1, 3000)) for _ in range(3000)]
        for i in range(3000):
            mine[rng.randrange(3000)] = bytes(rng.randrange(1, 3000))
            if i % 50 == 0:
                with lock:
                    shared[number, i] = mine[i]
        return sum(map(len, mine))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sums = list(pool.map(work, range(24)))
    short_lived = [threading.Thread(target=work, args=(100 + i,)) for i in range(20)]
    for thread in short_lived:
        thread.start()
    for thread in short_lived:
        thread.join()
    return sums, digest(sorted((k, len(v)) for k, v in shared.items()))


def processes():
    """fork while other threads allocate; each child allocates a lot and answers."""
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            [bytes(i) for i in range(0, 4000, 7)]

    background = [threading.Thread(target=churn) for _ in range(2)]
    for thread in background:
        thread.start()
    answers = []
    for i in range(15):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            data = [bytes(j % 5000) for j in range(5000)]
            os.write(writer, str(sum(map(len, data)) + i).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answers.append(pipe.read())
        answers.append(os.waitpid(child, 0)[1])
    stop.set()
    for thread in background:
        thread.join()
    return answers


def database(rng):
    db = sqlite3.connect(":memory:")
    db.execute("create table t (id integer primary key, name text, amount real)")
    db.executemany("insert into t (name, amount) values (?, ?)",
                   ((f"n{rng.randrange(500)}", rng.random()) for _ in range(20000)))
    db.execute("create index i on t (name)")
    rows = db.execute("select name, count(*), total(amount) from t group by name "
                      "order by 2 desc, 1 limit 20").fetchall()
    return digest(rows), db.execute("pragma integrity_check").fetchall()


if __name__ == "__main__":
    check_served()
    rng = random.Random(1)
    print("dictionaries", dictionaries(rng))
    print("documents", documents(rng))
    print("texts", texts(rng))
    print("numbers", numbers())
    print("cycles", cycles())
    print("threads", threads())
    print("processes", processes())
    print("database", database(rng))

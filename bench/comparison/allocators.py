"""Allocators to compare: how one is asked for, found and preloaded.

    libc                     nothing is preloaded
    hakmem                   the library of the build
    mimalloc jemalloc tcmalloc   the distribution's library
    /PATH/TO/LIBRARY.so      any other (a name with a slash in it)
    NAME:VARIABLE=VALUE...   any of these, with settings in the environment

A list separates them by commas, so no value can have one. Everything that is asked for is checked before
anything is run.
"""
import contextlib
import glob
import hashlib
import os
import platform
import re
import subprocess
from dataclasses import dataclass, field, replace

from . import elf
from .errors import Failed, Refused

PEER_FILES = {
    "mimalloc": ["libmimalloc.so.[0-9]*", "libmimalloc.so"],
    "jemalloc": ["libjemalloc.so.2", "libjemalloc.so"],
    "tcmalloc": ["libtcmalloc_minimal.so.4", "libtcmalloc_minimal.so.[0-9]*", "libtcmalloc.so.4",
                 "libtcmalloc_minimal.so"],
}
PACKAGES = {"mimalloc": "libmimalloc2.0 (Debian), mimalloc (Fedora)",
            "jemalloc": "libjemalloc2 (Debian), jemalloc (Fedora)",
            "tcmalloc": "libtcmalloc-minimal4 (Debian), gperftools-libs (Fedora)"}

# Of the sources that these scripts are part of, and where they are built unless something is said.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
OWN_BUILD = os.path.join(ROOT, "build-bench")

# What would change what is measured is kept from the environment of whoever starts a comparison.
FOREIGN_SETTINGS = re.compile(
    r"LD_.*|HAKMEM_.*|MALLOC_.*|MIMALLOC_.*|TCMALLOC_.*|GLIBC_TUNABLES|_RJEM_.*")


@dataclass(frozen=True)
class Allocator:
    label: str                     # unique in a comparison
    kind: str                      # libc, hakmem, a peer's name, or other
    path: str = ""                 # what is preloaded; empty for libc
    settings: dict = field(default_factory=dict, hash=False)
    version: str = ""
    extra: bool = False            # runs only in rows that ask for it, and is no part of any mean

    @property
    def is_peer(self):
        """Whether HAKMEM is measured against it."""
        return self.kind != "hakmem" and not self.settings

    @property
    def expected(self):
        return self.path or "libc"

    def environment(self):
        environment = {name: value for name, value in os.environ.items()
                       if not FOREIGN_SETTINGS.fullmatch(name)}
        environment.update({"LC_ALL": "C", **self.settings})
        if self.path:
            environment["LD_PRELOAD"] = self.path
        return environment


def library_folders():
    """Where a distribution keeps its libraries: Debian's multiarch folder, Fedora's lib64."""
    return [f"{root}/{folder}".rstrip("/")
            for folder in (f"lib/{platform.machine()}-linux-gnu", "lib64", "lib")
            for root in ("/usr/local", "/usr", "")]


def find_peer(name):
    """The path of a peer's library that can be preloaded, or None."""
    for pattern in PEER_FILES[name]:
        for folder in library_folders():
            for path in map(os.path.realpath, sorted(glob.glob(f"{folder}/{pattern}"), key=len)):
                with contextlib.suppress(Refused):
                    check_library(path)
                    return path
    return None


def find_hakmem(build):
    """The build's library by its real name, so that it is the file a process maps."""
    return os.path.realpath(os.path.join(build, "src", "libhakmem.so"))


def check_text(path):
    """Results name the path, and are text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Refused(f"{path}: this path is not text") from None


def check_preloadable(path):
    """The loader splits LD_PRELOAD at these."""
    if re.search(r"[\s:]", path):
        raise Refused(f"{path}: a path with spaces or colons cannot be preloaded")


def check_library(path):
    if not os.path.exists(path):
        raise Refused(f"{path}: there is no such file")
    if not os.path.isfile(path):
        raise Refused(f"{path}: is not a shared library")
    check_preloadable(path)
    try:
        if not elf.exports(path, "malloc"):
            raise Refused(f"{path}: does not export malloc")
    except elf.NotALibrary as problem:
        raise Refused(f"{path}: {problem}") from None
    except OSError as problem:
        raise Refused(f"{path}: {problem.strerror}") from None


def others_malloc(environment):
    """The library with a malloc of its own that each program gets in such an environment, or None."""
    try:
        done = subprocess.run(["cat", "/proc/self/maps"], env=environment, capture_output=True, text=True,
                              errors="surrogateescape", check=False)
    except OSError:
        return None
    files = {line.split(maxsplit=5)[5] for line in done.stdout.splitlines() if ".so" in line}
    for path in sorted(files):
        if not re.match(r"(libc|ld)[.-]", os.path.basename(path)):
            with contextlib.suppress(Refused):
                check_library(path)
                return path
    return None


def parse_settings(text, words):
    settings = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise Refused(f"{text}: '{word}' is not NAME=VALUE")
        if re.fullmatch(r"LD_.*|LC_ALL", name):
            raise Refused(f"{text}: {name} is not for a setting to say")
        settings[name] = value
    return settings


def check_names(text, settings):
    """Of HAKMEM's settings; a name without its beginning would say nothing to anybody."""
    for name in settings:
        if not name.startswith("HAKMEM_"):
            raise Refused(f"{text}: '{name}' names no setting; theirs begin with HAKMEM_")


def check_settings(text, allocator):
    """HAKMEM passes over in silence what it does not understand, unless it is asked to speak."""
    check_names(text, allocator.settings)
    environment = {**allocator.environment(), "HAKMEM_VERBOSE": "1"}
    try:
        said = subprocess.run(["true"], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", check=False, timeout=60).stderr
    except subprocess.TimeoutExpired:
        raise Failed(f"{text}: `true` does not end with it") from None
    for line in said.splitlines():
        if "ignored: 'HAKMEM_" in line:
            raise Refused(f"{text}: {line.partition('ignored: ')[2]}")


def settings_of(text):
    """The name and the settings of an allocator that is asked for by text."""
    name, colon, rest = text.partition(":")
    words = re.split(r":(?=[A-Za-z_]\w*=)", rest)  # a value may hold colons, as jemalloc's do
    return name, parse_settings(text, words if colon else [])


def parse(text, build):
    """The allocator that is asked for by text."""
    name, settings = settings_of(text)
    kind, path = name, ""
    if name == "hakmem":
        path = find_hakmem(build)
    elif name in PEER_FILES:
        path = find_peer(name)
        if not path:
            raise Refused(f"{name} is not installed; package {PACKAGES[name]}")
    elif "/" in name:
        kind, path = "other", os.path.realpath(name)
    elif name != "libc":
        raise Refused(f"unknown allocator '{name}'; known: libc, hakmem, {', '.join(PEER_FILES)}, "
                      "or a path with a slash")
    if path:
        check_text(path)
        check_library(path)
        kind = "hakmem" if elf.exports(path, "hak_owns") else kind
    label = re.sub(r"^lib|\.so.*$", "", os.path.basename(name)) if "/" in name else name
    allocator = Allocator(":".join([label] + [f"{n}={v}" for n, v in settings.items()]), kind, path,
                          settings, version_of(kind, path, build))
    if kind == "hakmem" and settings:
        check_settings(text, allocator)
    return allocator


def parse_list(text, build):
    items = [item for item in text.split(",") if item]
    allocators = [parse(item, build) for item in items]
    if not allocators:
        raise Refused("no allocator was named")
    labels = [allocator.label for allocator in allocators]
    # Libraries of one name are told apart by their paths.
    labels = [item if "/" in item and labels.count(label) > 1 else label
              for item, label in zip(items, labels)]
    allocators = [replace(allocator, label=label) for allocator, label in zip(allocators, labels)]
    for label in labels:
        if labels.count(label) > 1:
            raise Refused(f"allocator '{label}' is named twice")
    return allocators


def found(build):
    """What is compared unless something is asked for, and the names of peers that are missing."""
    missing = [name for name in PEER_FILES if not find_peer(name)]
    names = ["libc", "hakmem"] + [name for name in PEER_FILES if name not in missing]
    return parse_list(",".join(names), build), missing


def _output(*command, folder=None):
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace",
                                check=False, timeout=60, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def package_version(path):
    """Package and version that own a file, as the distribution says."""
    # Where /lib is a link to /usr/lib, the package may know its file by either name.
    for name in (path, path.removeprefix("/usr"), "/usr" + path):
        owner = _output("dpkg", "-S", name).partition(":")[0]
        if owner:
            versions = _output("dpkg-query", "-W", "-f", "${Package} ${Version}\n", owner)
            return versions.partition("\n")[0]
    return _output("rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE}", "-f", path)


def version_of(kind, path, build):
    if kind == "libc":
        return " ".join(platform.libc_ver())
    # Only what was built just before is known to be what the sources say.
    if path == find_hakmem(build) and build == OWN_BUILD:
        commit = _output("git", "describe", "--always", "--dirty", "--tags", folder=ROOT)
        if commit:
            return commit
    if kind == "hakmem":
        with open(path, "rb") as file:
            checksum = hashlib.sha256(file.read()).hexdigest()
        return " ".join(filter(None, [package_version(path), f"sha256 {checksum[:16]}"]))
    return package_version(path) or os.path.basename(path)

"""What the measurements were made on: processor, memory, kernel, system."""
import os
import platform
import re
import time

from .errors import Refused

SETTINGS_FILE = "/etc/hakmem.conf"
PRELOAD_FILE = "/etc/ld.so.preload"


def _line(path, pattern, default=""):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            match = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return default
    return match.group(1).strip() if match else default


def cpus():
    """The processors this process may use."""
    return sorted(os.sched_getaffinity(0))


def describe():
    """Words about this machine, in the order they are to be read."""
    memory_kib = int(_line("/proc/meminfo", r"^MemTotal:\s+(\d+)", "0"))
    changed = {"settings": f"those of {SETTINGS_FILE}"} if os.path.exists(SETTINGS_FILE) else {}
    if preloaded := _line(PRELOAD_FILE, r"^\s*([^#\s].*)$"):
        changed["preloaded everywhere"] = preloaded
    processor = _line("/proc/cpuinfo", r"^model name\s*:\s*(.*)$") or platform.machine()
    return {
        "processor": f"{processor}, {len(cpus())} of {os.cpu_count()} CPUs used",
        "architecture": platform.machine(),
        "memory": f"{memory_kib / 2**20:.1f} GiB",
        "page size": f"{os.sysconf('SC_PAGE_SIZE') // 1024} KiB",
        "huge pages": _line("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]", "unknown"),
        "frequency governor": _line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                                    r"(\w+)", "none to be seen (virtual machine?)"),
        "virtual machine": "yes" if re.search(r"^flags.*\bhypervisor\b", _cpuinfo(), re.MULTILINE)
                           else "not to be seen",
        "kernel": f"{platform.system()} {platform.release()}",
        "system": _line("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)', "unknown"),
        "C library": " ".join(platform.libc_ver()),
        **changed,
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
    }


def check_defaults(what):
    if os.path.exists(SETTINGS_FILE):
        raise Refused(f"{what} of the default settings: {SETTINGS_FILE} may say others")


def warnings(described):
    """HAKMEM and the loader read those files whatever the environment says."""
    found = [f"'hakmem' stands for {described['settings']}, not for its defaults"] if "settings" in described else []
    if "preloaded everywhere" in described:
        found.append(f"{PRELOAD_FILE} adds {described['preloaded everywhere']} to every program")
    return found


def _cpuinfo():
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""

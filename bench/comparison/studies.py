"""What is studied of HAKMEM's settings: rows, each with the default and with others in turn.

A study of the catalogue asks what a setting gains and costs everywhere; one of a single row shows
the effect of a setting where it is meant to have one.
"""
from dataclasses import dataclass

from . import catalogue
from .catalogue import Row

# Rows of the catalogue that run programs: what they do beside allocating hides the difference.
LEFT_OUT = "programs", "process"


@dataclass(frozen=True)
class Study:
    name: str
    title: str
    words: str
    variants: tuple           # settings as NAME=VALUE, without HAKMEM_
    row: Row = None           # None: the catalogue's
    figures: tuple = ()       # of the row's workload
    rivals: tuple = ()        # variants that the default is to be as good as, the best in each row

    def rows(self, level):
        if self.row:
            return [self.row]
        return [row for row in catalogue.rows(level)
                if row.group not in LEFT_OUT and "time" in row.compared]

    def counted(self, level):
        """Short rows of one thread, whose instructions can be counted."""
        if self.row:
            return []
        return [row for row in self.rows(level)
                if row.threads == 1 and row.name.endswith(" cold")] + [SHORT_DRIFT]


FIXED = ("tiny_policy_profile=legacy", "tiny_policy_profile=c5_7_only",
         "tiny_policy_profile=tinyplus_all")
SHORT_DRIFT = Row("lru_drift short", "bench_lru_drift", ("10", "40", "--samples=3"))
VM_MIXED = Row("vm_mixed 64 live", "bench_vm_mixed", ("5000", "64", "1", "--touch=2"))
GIVE_BACK = Row("give_back", "bench_give_back", ("400", "--idle=3"), together=True)
LARGE_HEAP = Row("random_mixed 200000 live", "bench_random_mixed", ("4000000", "200000", "1"))
FIRST_USE = Row("fixed_size first use", "bench_fixed_size", ("1024", "100000", "65536"))

STUDIES = {study.name: study for study in (
    Study("policy", "Policies",
          "Which caches grow: `tiny_policy_profile`, by default `auto`. In each row the default is "
          "compared with the best of the fixed ones.",
          FIXED, rivals=FIXED),
    Study("profiles", "Profiles",
          "What a profile gains and costs.",
          ("profile=lean", "profile=throughput", "profile=larson_guard",
           "profile=mixed_tinyv3_c7_safe", "profile=secure", "profile=debug")),
    Study("giving_back", "Giving memory back",
          "400 MiB of small blocks, all freed: MiB that are resident before, at once, after three "
          "idle seconds, and after 1000 more calls.",
          ("purge_delay=0", "purge_delay=100", "purge_delay=-1", "background=1"), GIVE_BACK,
          ("full", "at_once", "after_idle", "after_calls")),
    Study("limit", "A limit",
          "64 blocks of 0.5 to 2 MiB, replaced at random: what BigCache keeps has to fit in.",
          ("limit=128m", "limit=108m", "bigcache_max=0"), VM_MIXED),
    Study("thp", "Huge pages",
          "200 000 blocks of 16 to 1024 bytes, replaced at random.",
          ("thp=never", "thp=always"), LARGE_HEAP),
    Study("prefault", "Pages made resident ahead",
          "65 536 blocks of 1 KiB, used for the first time.",
          ("ss_prefault=10", "ss_prefault=100"), FIRST_USE),
)}

"""Runs parts of Python's own test suite and prints the outcome of each test, sorted.

    unittests.py NAME...      names as python3 -m unittest takes them

The traces of failures go to the file `details`. Exit status: 0 if all passed, 77 if the test suite
is not installed.
"""
import importlib.util
import sys
import unittest

# Distributions ship test.support with Python and the tests themselves apart.
if not importlib.util.find_spec("test") or not importlib.util.find_spec("test.test_gc"):
    print("Python's own test suite is not installed")
    sys.exit(77)

from test import support  # noqa: E402


class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.lines = []
        self.details = open("details", "w+")
        self.end = 0

    def note(self, test, outcome, error=None):
        self.lines.append(f"{test.id()} {outcome}")
        if error:
            self.write(f"== {test.id()}\n{self._exc_info_to_string(error, test)}")
            self.end = self.details.tell()

    def write(self, text):
        self.details.seek(self.end)
        self.details.truncate()
        print(text, file=self.details, flush=True)

    def startTest(self, test):
        super().startTest(test)
        # Overwritten by what follows: if the process dies, this says where.
        self.write(f"running {test.id()}")

    def addSuccess(self, test):
        self.note(test, "ok")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed", error)

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "error", error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            self.note(subtest, "failed", error)

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, error):
        self.note(test, "failed as expected")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "passed unexpectedly")


if __name__ == "__main__":
    # No network, no gigabytes, no audio: what python3 -m test does by default.
    support.use_resources = []
    support.verbose = False
    outcomes = Outcomes()
    unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(outcomes)
    print(*sorted(outcomes.lines), sep="\n")
    print(f"{outcomes.testsRun} tests")
    sys.exit(not outcomes.wasSuccessful())

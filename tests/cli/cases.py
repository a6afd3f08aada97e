"""Runs the methods of a class whose names begin with `case_`, each with a root of its own, and ends with the line that ./test counts."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "process"))
from harness import Failure, Root, check  # noqa: E402,F401


def run(cases, name):
    passed = failed = 0
    for case in [attribute for attribute in vars(cases) if attribute.startswith("case_")]:
        started = time.monotonic()
        try:
            with Root(name) as root:
                getattr(cases(root), case)()
        except Failure as failure:
            failed += 1
            print(f"{case}: FAILED\n{failure}")
        else:
            passed += 1
            print(f"{case}: {time.monotonic() - started:.1f} s")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)

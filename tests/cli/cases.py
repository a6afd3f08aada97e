"""What the tests of the command line share: Asked, which asks it and checks its exit code; and run(), which runs the methods of a class whose names begin
with `case_`, each with a root of its own, and ends with the line that ./test counts."""

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "process"))
from harness import Failure, Root, check, url  # noqa: E402


class Asked:
    """One home and one cache root; each call is checked for its exit code."""

    def __init__(self, root):
        self.root = root
        self.home = root.home_folder()
        self.cache = root.cache()

    def onepen(self, *arguments, expect=0, cache=None, home=True, env=None):
        places = ("--home", url(self.home)) if home else ()
        code, out, err = self.root.onepen(*arguments, *places, "--cache-root", cache or self.cache, env=env)
        check(code == expect, f"onepen {' '.join(map(str, arguments))} must end with {expect}, not {code}", out, err)
        return out, err

    def json(self, *arguments, expect=0, cache=None, home=True):
        out, err = self.onepen(*arguments, "--json", expect=expect, cache=cache, home=home)
        try:
            return json.loads(out)
        except ValueError:
            check(False, f"onepen {' '.join(map(str, arguments))} --json must print one JSON document", out, err)


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

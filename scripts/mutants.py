#!/usr/bin/env python3
"""Breaks one rule at a time and asks the tests that are said to show it: each of them must turn red.

    scripts/mutants.py --check               what tests/mutants.txt says can be done: its texts are in the sources, its tests exist (in `fast`)
    scripts/mutants.py [NAME ...]            the rules named (all), in a copy of the tree under build-mutants/ (--folder), built with the release preset
    scripts/mutants.py --kind guard|core     only guards (no build is repeated), or only rules whose sources lie in that folder of src/
    scripts/mutants.py --list                names, with what is broken

A rule is broken by switching off its guard (ONEPEN_GUARDS_OFF), or by putting other text into one source. Ends with `N passed, N failed`: one for each test
that was to turn red. The form of tests/mutants.txt stands at its head.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNNERS = {"fence": ("fence_scenario_test", "Files/FenceScenario.Holds"), "writer": ("writer_scenario_test", "Files/WriterScenario.Holds"),
           "object": ("object_scenario_test", "Files/ObjectScenario.Holds")}
HANG_SECONDS = 300


class Mutant:
    def __init__(self, name, line):
        self.name, self.line = name, line
        self.file, self.was, self.now, self.guard, self.red = None, [], [], [], []

    def kind(self):
        return "guard" if not self.file else Path(self.file).parts[1] if self.file.startswith("src/") else "other"


def parse(text):
    mutants = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#") or not line:
            continue
        if match := re.fullmatch(r"\[([a-z0-9-]+)\].*", line):
            mutants.append(Mutant(match[1], number))
            continue
        key, _, value = line.partition(":")
        value = value[1:]  # one space; the rest counts, indentation too
        if not mutants or key not in ("in", "was", "now", "guard", "red"):
            raise ValueError(f"tests/mutants.txt:{number}: {line}")
        one = mutants[-1]
        if key == "in":
            one.file = value
        else:
            getattr(one, key).append(value)
    return mutants


def load(root):
    return parse((root / "tests/mutants.txt").read_text())


def case_of(path):
    return re.sub(r"[^A-Za-z0-9]", "_", path.stem)


def scenarios_of(root, mutant):
    """(binary, gtest filter) of the scenario files that name it."""
    return [(RUNNERS[path.parent.name][0], f"{RUNNERS[path.parent.name][1]}/{case_of(path)}") for path in sorted((root / "tests/scenarios").rglob("*.txt"))
            if f"\n# mutant: {mutant.name}\n" in "\n" + path.read_text()]


def tests_of(root, mutant):
    """What must turn red: ("gtest", binary, filter) or ("ctest", name)."""
    tests = []
    for red in mutant.red:
        words = red.split()
        if words == ["scenarios"]:
            tests += [("gtest", *one) for one in scenarios_of(root, mutant)]
        elif words[0] == "ctest" and len(words) == 2:
            tests.append(("ctest", words[1]))
        elif len(words) == 2:
            tests.append(("gtest", *words))
        else:
            raise ValueError(f"tests/mutants.txt: [{mutant.name}]: red: {red}")
    return tests


def check(root):
    problems = []
    mutants = load(root)
    guards = set(re.findall(r"^\s*X\((\w+)\)", (root / "src/base/guard.h").read_text(), re.M))
    cmake = "\n".join(path.read_text() for folder in ("src", "tests", "sim", "apps", "extension") for pattern in ("CMakeLists.txt", "*.cmake")
                      for path in (root / folder).rglob(pattern))
    sources = "\n".join(path.read_text() for folder in ("src", "tests", "sim") for path in (root / folder).rglob("*_test.cc"))
    names = [one.name for one in mutants]
    for one in mutants:
        def say(text, name=one.name):
            problems.append(f"tests/mutants.txt: [{name}]: {text}")
        if names.count(one.name) > 1:
            say("the name is there twice")
        if not one.guard and one.file is None:
            say("a guard, or a text in a file")
        for guard in one.guard:
            if guard not in guards:
                say(f"there is no guard {guard}")
        if one.file is not None:
            path = root / one.file
            count = path.read_text().count("\n".join(one.was)) if path.exists() else 0
            if not one.was or count != 1:
                say(f"its text is {count} times in {one.file}, not once")
            elif one.was == one.now:
                say("changes nothing")
        tests = tests_of(root, one)
        if not tests:
            say("no test is named that must turn red")
        for kind, name, *rest in tests:
            if kind == "gtest" and not re.search(rf"\b{re.escape(name)}\b", cmake):
                say(f"{name} is no test binary")
            if kind == "gtest" and not rest[0].startswith("Files/"):
                for pattern in rest[0].split(":"):
                    suite, _, case = pattern.partition(".")
                    if case and "*" not in case and not re.search(rf"\b(?:TEST\w*|RC_GTEST_PROP)\(\s*{re.escape(suite.split('/')[-1])},\s*{re.escape(case.split('/')[0])}\b", sources):
                        say(f"{pattern} is no test case")
    for path in sorted((root / "tests/scenarios").rglob("*.txt")):
        for name in re.findall(r"^# mutant:\s*(\S+)$", path.read_text(), re.M):
            if name not in names:
                problems.append(f"{path.relative_to(root)} names the mutant {name}, which tests/mutants.txt does not have")
            elif "scenarios" not in mutants[names.index(name)].red:
                problems.append(f"{path.relative_to(root)} names the mutant {name}, which does not ask scenarios")
    return problems or ([] if mutants else ["tests/mutants.txt has no rule"])


class Copy:
    """A copy of the tree whose sources may be broken, with a build folder of its own."""

    def __init__(self, folder, jobs):
        self.root, self.jobs = folder, jobs
        self.log = folder / "build/mutants.log"
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False)
        names = listed.stdout.splitlines() if listed.returncode == 0 else [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and "build" not in p.parts[0]]
        for name in names:
            source, target = ROOT / name, folder / name
            if not source.is_file():
                continue
            if target.exists() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            os.utime(target)  # newer than whatever was built from the text before
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_text("")
        self.call(["cmake", "--preset", "release"], cwd=folder)

    def call(self, command, cwd=None, env=None, timeout=None):
        with open(self.log, "ab") as out:
            out.write(("$ " + " ".join(map(str, command)) + "\n").encode())
            out.flush()
            try:
                return subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=timeout,
                                      check=False).returncode
            except subprocess.TimeoutExpired:
                return "hung"

    def build(self, tests):
        targets = sorted({test[1] for test in tests if test[0] == "gtest"})
        labels = subprocess.run(["ctest", "--test-dir", str(self.root / "build"), "--show-only=json-v1"], capture_output=True, text=True, check=False).stdout
        for test in tests:
            if test[0] == "ctest":
                found = re.search(r'"name" : "' + re.escape(test[1]) + r'".*?"LABELS",\s*"value" :\s*\[\s*"(\w+)"', labels, re.S)
                targets += [f"tests_{found[1]}" if found else "all", "bin/onepen", "bin/onepen.so"]
        return self.call(["ninja", f"-j{self.jobs}", "-C", str(self.root / "build"), *sorted(set(targets))]) == 0

    def run(self, test, off=""):
        """True: green. None: it did not run at all. "hung": it did not come to its end, which is red as well."""
        env = {**os.environ, **({"ONEPEN_GUARDS_OFF": off} if off else {})}
        if test[0] == "ctest":
            code = self.call(["ctest", "--test-dir", str(self.root / "build"), "-R", f"^{test[1]}$", "--no-tests=error", "--output-on-failure"], env=env,
                             timeout=HANG_SECONDS)
            return code == 0
        binary = self.root / "build/bin" / test[1]
        report = self.root / "build/mutant.xml"
        report.unlink(missing_ok=True)
        env["GTEST_OUTPUT"] = f"xml:{report}"
        code = self.call([str(binary), f"--gtest_filter={test[2]}"], env=env, timeout=HANG_SECONDS)
        if code == "hung":
            return code
        if code == 0 and not re.search(r'<testsuites tests="[1-9]', report.read_text() if report.exists() else ""):
            return None
        return code == 0


def told(test):
    return test[1] if test[0] == "ctest" else f"{test[1]} {test[2]}"


def run(mutants, folder, jobs):
    copy = Copy(folder, jobs)
    passed = failed = 0
    tests = {one.name: tests_of(ROOT, one) for one in mutants}
    wanted = sorted({test for some in tests.values() for test in some})
    print(f"building {len({t[1] for t in wanted})} tests in {folder}", flush=True)
    if not copy.build(wanted):
        print(f"the copy does not build: see {copy.log}")
        print("0 passed, 1 failed")
        return 1
    sound = {}
    for test in wanted:
        sound[test] = copy.run(test)
        if sound[test] is not True:
            print(f"{told(test)}: {'there is no such test case' if sound[test] is None else 'is red without any rule broken'}")
    for one in mutants:
        path = copy.root / one.file if one.file else None
        right = path.read_text() if path else ""
        built = True
        if path:
            path.write_text(right.replace("\n".join(one.was), "\n".join(one.now), 1))
        try:
            if path:
                built = copy.build(tests[one.name])
            for test in tests[one.name]:
                verdict = "it does not build" if not built else "not asked" if sound[test] is not True else ""
                got = copy.run(test, ",".join(one.guard)) if not verdict else None
                if got is True:
                    verdict = "still green"
                passed, failed = passed + (not verdict), failed + bool(verdict)
                print(f"{one.name}: {told(test)}: {verdict or 'red, as it must be' + (' (it hung)' if got == 'hung' else '')}", flush=True)
        finally:
            if path:
                path.write_text(right)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true", help="only whether tests/mutants.txt fits the tree")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--kind", help="guard, or a folder of src/")
    parser.add_argument("--sample", type=float, default=1.0, help="only this share of the rules, spread over the list")
    parser.add_argument("--folder", type=Path, default=ROOT / "build-mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    if options.check:
        problems = check(ROOT)
        print("\n".join(problems))
        return 1 if problems else 0
    chosen = [one for one in load(ROOT) if (not options.names or one.name in options.names) and options.kind in (None, one.kind())]
    if options.sample < 1:
        chosen = chosen[::max(1, round(1 / options.sample))]
    if options.list:
        for one in chosen:
            print(f"{one.name}: " + ", ".join([f"guard {guard}" for guard in one.guard] + ([f"{one.file}: {one.was[0].strip()} …"] if one.file else [])))
        return 0
    return run(chosen, options.folder.resolve(), options.jobs)


if __name__ == "__main__":
    sys.exit(main())

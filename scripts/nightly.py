"""What a night is for: the same checks as ./test, ten to a hundred times as far. `./test --nightly` (CONTRIBUTING.md, "The night").

    ./test --nightly                      everything; about six hours on two cores
    ./test --nightly --scale 0.01         a hundredth of it, to see that it works
    ./test --nightly --part sqlite        one part (may be given more than once); --list-parts names them
    ./test --nightly --first-seed 1000001 other seeds than those of every night

It goes on where it stopped: what ended well for this very state of the tree is not run again (build/nightly/progress.json; --fresh forgets it). Ends with
`N passed, N failed`: one for each piece of work, and each case of the tests that it runs.
"""
import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import test_stages as stages
from test_stages import JOBS, ROOT, Outcome, call, fresh_log, tail

SEEDS, SEEDS_AT_ONCE = 1_000_000, 50_000
SQLITE_SEEDS, SQLITE_SEEDS_AT_ONCE = 100_000, 5_000
MUTATION_BOUND, LEAST_MUTATION_BOUND = 40_000, 4_000  # seeds within which a rule that is off must be noticed; ./test asks for the least
SANITIZED_SEEDS = 20_000
FUZZ_SECONDS, LEAST_FUZZ_SECONDS = 600, 5
PROGRESS = ROOT / "build/nightly/progress.json"
SIM = ROOT / "build/bin/onepen_sim"


def state_of_the_tree():
    """Names what is tested: the commit, and what differs from it."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False).stdout
    digest = hashlib.sha256(git("rev-parse", "HEAD") + git("diff", "HEAD"))
    for name in sorted(git("ls-files", "-o", "--exclude-standard").decode().splitlines()):
        if (ROOT / name).is_file():
            digest.update(name.encode() + (ROOT / name).read_bytes())
    return digest.hexdigest()[:24]


def one(command, name, pattern=r"FAILED|SURVIVED|violation|broken:|ERROR", timeout=None, env=None):
    """One piece of work that ends with 0 or not."""
    def run():
        result, log = Outcome(), fresh_log(f"nightly-{name}")
        ok = call(command, log, timeout=timeout, env=env)
        result.add(ok, f"{' '.join(map(str, command))}\n{tail(log, 30, pattern)}")
        return result
    return run


def counted(command, name):
    """One that counts for itself: its last line is `N passed, N failed`."""
    def run():
        result, log = Outcome(), fresh_log(f"nightly-{name}")
        ok = call(command, log)
        text = log.read_text(errors="replace")
        counts = re.findall(r"^(\d+) passed, (\d+) failed$", text, re.M)
        if not counts:
            result.add(False, f"{name}: it did not come to its end:\n{tail(log)}")
            return result
        result.passed, result.failed = int(counts[-1][0]), int(counts[-1][1])
        if result.failed or not ok:
            result.failed = max(result.failed, 1)
            result.notes.append("\n".join(line for line in text.splitlines() if re.search(r"still green|not asked|does not build|red without|no such", line)))
        return result
    return run


def chunks(first, count, at_once):
    last = first + count - 1
    while first <= last:
        yield first, min(first + at_once - 1, last)
        first += at_once


class Night:
    def __init__(self, scale, first_seed):
        self.scale, self.first_seed = scale, first_seed

    def some(self, amount, least=1):
        return max(least, round(amount * self.scale))

    def build(self):
        yield "build", stages.stage_build

    def plain(self):
        """The simulator on directories and buckets."""
        yield "kept", one([SIM, "--replay", "sim/seeds/kept.txt"], "kept")
        for first, last in chunks(self.first_seed, self.some(SEEDS, 400), SEEDS_AT_ONCE):
            yield f"seeds {first}..{last}", one([SIM, "--seeds", f"{first}..{last}", "--jobs", str(JOBS)], f"seeds-{first}")

    def sqlite(self):
        """Real SQLite on simulated machines."""
        for first, last in chunks(self.first_seed, self.some(SQLITE_SEEDS, 40), SQLITE_SEEDS_AT_ONCE):
            yield f"seeds {first}..{last}", one([SIM, "--profile", "sqlite", "--seeds", f"{first}..{last}", "--jobs", str(JOBS)], f"sqlite-{first}")

    def prefix(self):
        """The power cut before each sync of short lives; thorough: and before each of every reopening."""
        thorough = ["--thorough"] if self.scale >= 0.1 else []
        lives = re.findall(r'"([\w-]+)"', re.search(r"kLives\b[^;]*;", (ROOT / "sim/sqlite_run.h").read_text())[0])
        for life in lives:
            yield life, one([SIM, "--prefix-replay", "--life", life, "--jobs", str(JOBS), *thorough], f"prefix-{life}")

    def mutations(self):
        """Each rule off in the simulator: some run must notice."""
        bound = self.some(MUTATION_BOUND, LEAST_MUTATION_BOUND)
        for guard in re.findall(r"^\s*X\((\w+)\)", (ROOT / "src/base/guard.h").read_text(), re.M):
            yield guard, one([SIM, "--mutations", "--only", guard, "--bound", str(bound), "--jobs", str(JOBS)], f"mutation-{guard}")

    def rules(self):
        """Each rule of tests/mutants.txt broken in the sources: the tests that are said to show it turn red."""
        sample = ["--sample", f"{min(1.0, self.scale * 5):.3f}"] if self.scale < 0.2 else []
        yield "mutants", counted([sys.executable, "-B", "scripts/mutants.py", *sample], "mutants")

    def fuzz(self):
        """Every fuzzer on its kept corpus and on what earlier nights found."""
        log = fresh_log("nightly-fuzz")
        if not stages.configure_and_build("fuzz", ["fuzzers"], log):
            yield "build", one(["false"], "fuzz-build")
            return
        seconds = self.some(FUZZ_SECONDS, LEAST_FUZZ_SECONDS)
        for path in sorted((ROOT / "build-fuzz/bin/fuzz").iterdir()):
            work, kept = ROOT / "build-fuzz/corpus" / path.name, ROOT / "fuzz/corpus" / path.name
            work.mkdir(parents=True, exist_ok=True)
            yield path.name, one([path, f"-max_total_time={seconds}", f"-fork={JOBS}", "-ignore_crashes=0", "-rss_limit_mb=4096", "-timeout=25",
                                  f"-artifact_prefix={work.parent}/{path.name}-finding-", work, kept], f"fuzz-{path.name}", timeout=seconds + 300)

    def sanitizers(self):
        """The labels of ./test under each sanitizer, and more seeds under two of them."""
        for preset in ("asan", "ubsan", "tsan"):
            yield preset, stages.sanitizer_stage(preset)
            sim = ROOT / f"build-{preset}/bin/onepen_sim"
            if preset == "tsan":
                continue  # the simulator has one thread
            count, some = self.some(SANITIZED_SEEDS, 40), self.some(SANITIZED_SEEDS / 20, 10)
            yield f"{preset} seeds", one([sim, "--seeds", f"{self.first_seed}..{self.first_seed + count - 1}"], f"{preset}-seeds")
            yield f"{preset} sqlite", one([sim, "--profile", "sqlite", "--seeds", f"{self.first_seed}..{self.first_seed + some - 1}"], f"{preset}-sqlite")

    def processes(self):
        """Real processes: the loops that are too long for ./test."""
        yield "nightly", lambda: stages.run_ctest(ROOT / "build", "nightly", fresh_log("nightly"), jobs=1)


PARTS = ["plain", "sqlite", "prefix", "mutations", "rules", "fuzz", "processes", "sanitizers"]


class Progress:
    def __init__(self, key, fresh):
        self.key, self.done = key, {}
        if not fresh and PROGRESS.exists():
            kept = json.loads(PROGRESS.read_text())
            self.done = kept["done"] if kept.get("key") == key else {}

    def keep(self, name, result):
        if result.failed == 0:
            self.done[name] = result.passed
            PROGRESS.parent.mkdir(parents=True, exist_ok=True)
            PROGRESS.write_text(json.dumps({"key": self.key, "done": self.done}, indent=1))


def main(arguments):
    parser = argparse.ArgumentParser(prog="./test --nightly", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the amounts: 0.01 is a hundredth")
    parser.add_argument("--part", action="append", default=[], choices=PARTS)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs of this state of the tree did")
    parser.add_argument("--no-build", action="store_true", help="what lies in build/ is what is tested (but fuzzers and sanitizers, which build for themselves)")
    parser.add_argument("--list-parts", action="store_true")
    options = parser.parse_args(arguments)
    night = Night(options.scale, options.first_seed)
    if options.list_parts:
        for part in PARTS:
            print(f"{part:<12}{(getattr(night, part).__doc__ or '').strip()}")
        return 0
    progress = Progress(f"{state_of_the_tree()} scale {options.scale} from {options.first_seed}", options.fresh)
    passed = failed = 0
    rows = []
    for part in [*([] if options.no_build else ["build"]), *(options.part or PARTS)]:
        print(f"== {part}", flush=True)
        begun, good, bad, kept = time.monotonic(), 0, 0, 0
        for name, work in getattr(night, part)():
            whole = f"{part}: {name}"
            if part != "build" and whole in progress.done:
                good, kept = good + progress.done[whole], kept + 1
                continue
            at = time.monotonic()
            try:
                result = work()
            except Exception as error:  # a fault of this script is a failed piece, not the end of the night
                result = Outcome()
                result.add(False, f"{type(error).__name__}: {error}")
            progress.keep(whole, result)
            good, bad = good + result.passed, bad + result.failed
            print(f"   {whole}: {result.passed} good, {result.failed} bad, {time.monotonic() - at:.0f} s", flush=True)
            for note in result.notes:
                print(note, flush=True)
        rows.append((part, time.monotonic() - begun, good, bad, kept))
        passed, failed = passed + good, failed + bad
    print(f"\n{'part':<12}{'seconds':>9}{'passed':>9}{'failed':>9}  kept from before")
    for part, seconds, good, bad, kept in rows:
        print(f"{part:<12}{seconds:>9.0f}{good:>9}{bad:>9}{kept:>9}")
    print(f"\n{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0

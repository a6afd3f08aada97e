"""The stages of ./test: builds, ctest labels, sanitizers, fuzzers, style, install.

No stage stops another. What is counted: every GoogleTest case (from its XML), every ctest entry that is no GoogleTest binary (its own last line
`N passed, N failed` when it prints one, else one), every fuzzer, every source of a style check, and one for each build. A skipped case counts as failed.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBS = os.cpu_count() or 2
FUZZ_SECONDS = int(os.environ.get("ONEPEN_FUZZ_SECONDS", "30"))
OWN_FOLDERS = ("include", "src", "apps", "extension", "sim", "tests", "fuzz", "bench", "examples")
COUNT_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.M)


class Outcome:
    """What a stage counted, and what people must see of its failures."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.notes = []

    def add(self, ok, note=""):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            self.notes.append(note)


def call(command, log, cwd=ROOT, env=None, timeout=None):
    """Runs a command with its output in a log; True when it ended with 0."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as out:
        out.write(("$ " + " ".join(map(str, command)) + "\n").encode())
        out.flush()
        try:
            return subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                  timeout=timeout, check=False).returncode == 0
        except (subprocess.TimeoutExpired, OSError) as error:
            out.write(f"{error}\n".encode())
            return False


def tail(path, lines=25, pattern=None):
    text = path.read_text(errors="replace").splitlines() if path.exists() else []
    if pattern:
        hits = [i for i, line in enumerate(text) if re.search(pattern, line)]
        if hits:
            return "\n".join(text[hits[0]:hits[0] + lines])
    return "\n".join(text[-lines:])


def fresh_log(name):
    log = ROOT / "build" / "test-logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    return log


def sources(suffixes=(".cc", ".h")):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = [Path(line) for line in listed.stdout.splitlines()]
    else:  # a tree without git, as in a source archive
        names = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return sorted(name for name in names if name.parts[0] in OWN_FOLDERS and name.suffix in suffixes and (ROOT / name).exists())


def configure_and_build(preset, targets, log, extra=()):
    folder = ROOT / ("build" if preset == "release" else f"build-{preset}")
    if not call(["cmake", "--preset", preset, *extra], log):
        return False
    return call(["ninja", "-C", str(folder), "-k", "0", *targets], log)


def stage_build():
    """The product, then everything else of the release preset; tests that do not build are failed tests later, not a stop here."""
    result, log = Outcome(), fresh_log("build")
    product = ["bin/onepen"] + (["bin/onepen.so"] if (ROOT / "extension/CMakeLists.txt").exists() else [])
    result.add(configure_and_build("release", product, log), "the product does not build:\n" + tail(log, pattern=r"FAILED|error:|CMake Error"))
    result.add(configure_and_build("release", ["all"], log, ["-DONEPEN_BENCH=ON"]),
               "some targets of the release preset do not build:\n" + tail(log, pattern=r"FAILED|error:|CMake Error"))
    return result


def read_gtest(path):
    """(passed, failed, notes) of one GoogleTest XML; None when there is none or it is cut."""
    try:
        tree = ET.parse(path).getroot()
    except (OSError, ET.ParseError):
        return None
    passed, notes = 0, []
    for case in tree.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.get("status") == "notrun":  # DISABLED_
            notes.append(f"{name}: disabled")
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            notes.append(f"{name}: skipped: {(case.find('skipped').get('message') or '').strip()}")
        elif case.find("failure") is not None:
            notes.append(f"{name}: {(case.find('failure').get('message') or '').strip()}")
        else:
            passed += 1
    return passed, len(notes), notes


def run_ctest(folder, label, log, env=None, must_exist=True, jobs=JOBS):
    """One ctest label of one build folder, counted by case."""
    result = Outcome()
    gtest_folder = folder / "gtest"
    shutil.rmtree(gtest_folder, ignore_errors=True)
    junit = log.with_suffix(".xml")
    junit.unlink(missing_ok=True)
    call(["ctest", "--test-dir", str(folder), "-L", f"^{label}$", "-j", str(jobs), "--output-on-failure", "--output-junit", str(junit), "--no-tests=ignore",
          "--test-output-size-passed", "200000", "--test-output-size-failed", "200000", "--test-output-truncation", "middle"], log, env=env)
    try:
        entries = list(ET.parse(junit).getroot().iter("testcase"))
    except (OSError, ET.ParseError):
        result.add(False, f"ctest -L {label} did not run:\n" + tail(log))
        return result
    if not entries and must_exist:
        result.add(False, f"no test carries the label '{label}'")
    for entry in entries:
        name = entry.get("name")
        ended_well = entry.get("status") == "run"
        output = (entry.findtext("system-out") or "").strip()
        counts = read_gtest(gtest_folder / f"{name}.xml")
        if counts is None:
            lines = COUNT_LINE.findall(output)
            if lines:
                passed, failed, skipped = lines[-1]
                counts = (int(passed), int(failed) + int(skipped or 0), [])
        passed, failed, notes = counts or (0, 0, [])
        result.passed += passed
        result.failed += failed
        result.notes += [f"{name}: {note}" for note in notes]
        if counts is None or passed + failed == 0:
            result.add(ended_well, "")
            failed = 0 if ended_well else 1
        elif not ended_well and failed == 0:  # all cases fine, and yet it crashed, leaked or hung
            result.add(False, "")
            failed = 1
        if failed:
            result.notes.append(f"---- {name} ({entry.get('status')}) ----\n" + "\n".join(output.splitlines()[-40:]))
    result.notes = [note for note in result.notes if note]
    return result


def ctest_stage(label):
    def stage():
        serial = label in ("process", "client")  # they measure states of real processes; two at once would only slow each other
        return run_ctest(ROOT / "build", label, fresh_log(label), jobs=1 if serial else JOBS)
    return stage


def sanitizer_stage(preset):
    options = {"asan": {"ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"},
               "ubsan": {"UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"},
               "tsan": {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}}[preset]

    label = "threads" if preset == "tsan" else "fast"  # the pure machines and the simulator have one thread

    def stage():
        log = fresh_log(preset)
        built = configure_and_build(preset, [f"tests_{label}"], log)
        result = run_ctest(ROOT / f"build-{preset}", label, log, env={**os.environ, **options, "ONEPEN_SANITIZED": preset})
        result.add(built, f"the {preset} build failed:\n" + tail(log, pattern=r"FAILED|error:|CMake Error"))
        return result
    return stage


def stage_fuzz():
    """Each fuzzer on its kept corpus, FUZZ_SECONDS each, from one seed: what a rehearsal saw is what CI sees. Other seeds are the nightly profile's."""
    result, log = Outcome(), fresh_log("fuzz")
    result.add(configure_and_build("fuzz", ["fuzzers"], log), "the fuzzers do not build:\n" + tail(log, pattern=r"FAILED|error:|CMake Error"))
    folder = ROOT / "build-fuzz/bin/fuzz"
    fuzzers = sorted(path for path in folder.glob("*") if os.access(path, os.X_OK) and path.is_file()) if folder.is_dir() else []

    def fuzz(path):
        work = ROOT / "build-fuzz/corpus" / path.name
        work.mkdir(parents=True, exist_ok=True)
        kept = ROOT / "fuzz/corpus" / path.name
        one = fresh_log(f"fuzz-{path.name}")
        corpus = [str(work)] + ([str(kept)] if kept.is_dir() else [])
        ok = call([str(path), f"-max_total_time={FUZZ_SECONDS}", "-seed=1", "-rss_limit_mb=4096", "-timeout=25", "-print_final_stats=1",
                   f"-artifact_prefix={work.parent}/{path.name}-finding-", *corpus], one, timeout=FUZZ_SECONDS + 120)
        return path.name, ok, tail(one, 40, r"ERROR|panic|CHECK")
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for name, ok, text in pool.map(fuzz, fuzzers):
            result.add(ok, f"fuzzer {name}:\n{text}")
    if not fuzzers:
        result.add(False, "there is no fuzzer in build-fuzz/bin/fuzz")
    return result


def stage_format():
    result, log = Outcome(), fresh_log("format")
    for name in sources():
        result.add(call(["clang-format-19", "--dry-run", "--Werror", str(name)], log), f"{name}: not as clang-format-19 writes it (scripts/format mends it)")
    return result


def tidy_groups(names):
    """Sources as clang-tidy reads them: those of one folder joined to one text, since nearly all of its time goes into the headers that they share.
    Physically joined, not included: the analyzer looks only into the main file. Yields (name, joined text, its compile command, [(first line, source)])."""
    commands = {}
    for entry in json.loads((ROOT / "build/compile_commands.json").read_text()):
        command = entry["command"]
        rank = ("ONEPEN_SQLITE_EXT" in command) * 2 + ("ONEPEN_TEST_HOOKS" in command)  # of the variants of a folder the product's own
        if entry["file"] not in commands or rank < commands[entry["file"]][0]:
            commands[entry["file"]] = (rank, entry)
    groups = {}
    for name in names:
        groups.setdefault("sim" if name.parts[0] == "sim" else "-".join(name.parent.parts), []).append(name)
    for group, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        words, lines, starts = [], [], []
        for name in members:
            entry = commands.get(str(ROOT / name), (0, None))[1]
            if entry:
                own = [word for word in shlex.split(entry["command"]) if word != entry["file"]]
                words = own if not words else words + [word for word in own if word.startswith(("-I", "-D")) and word not in words]
            starts.append((len(lines) + 1, name))
            lines += (ROOT / name).read_text().splitlines()
        yield group, "\n".join(lines) + "\n", words, starts


def stage_tidy():
    """clang-tidy 19 over each source of the product and the simulator (tests cost five times as much and are held by the warnings of two compilers)."""
    result = Outcome()
    folder = ROOT / "build/tidy"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    todo = [name for name in sources((".cc",)) if name.parts[0] in ("src", "apps", "extension", "sim") and not name.name.endswith("_test.cc")]
    groups, database = list(tidy_groups(todo)), []
    for group, text, words, _ in groups:
        joined = folder / f"{group}.cc"
        joined.write_text(text)
        database.append({"directory": str(ROOT / "build"), "file": str(joined), "command": shlex.join([*words, str(joined)])})
    (folder / "compile_commands.json").write_text(json.dumps(database))

    def tidy(group, starts):
        log = fresh_log(f"tidy-{group}")
        joined = f"{folder}/{group}.cc"
        ok = call(["clang-tidy-19", "-p", str(folder), f"--config-file={ROOT}/.clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option", joined], log)

        def place(match):
            first, name = [start for start in starts if start[0] <= int(match[1])][-1]
            return f"{name}:{int(match[1]) - first + 1}"
        text = re.sub(re.escape(joined) + r":(\d+)", place, log.read_text(errors="replace"))
        log.write_text(text)
        return ok, text, log
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        runs = [(group, starts, pool.submit(tidy, group, starts)) for group, _, _, starts in groups]
        for group, starts, run in runs:
            ok, text, log = run.result()
            found = [line for line in text.splitlines() if re.search(r"(warning|error):", line)]
            blamed = {name for _, name in starts if any(line.startswith(f"{name}:") for line in found)}
            for _, name in starts:
                result.add(name not in blamed, f"clang-tidy {name}:\n" + "\n".join(line for line in found if line.startswith(f"{name}:")))
            if not ok and not blamed:  # a header, or clang-tidy itself
                result.add(False, f"clang-tidy {group}:\n" + ("\n".join(found) or tail(log)))
    return result


def stage_install():
    """cmake --install, then the example built and run against the installed tree by find_package and by pkg-config."""
    log = fresh_log("install")
    result = Outcome()
    ok = call(["bash", "scripts/check_install.sh", "build"], log, timeout=600)
    result.add(ok, "the installed tree does not serve:\n" + tail(log))
    return result


STAGES = {
    "build": stage_build,
    "fast": ctest_stage("fast"),
    "process": ctest_stage("process"),
    "client": ctest_stage("client"),
    "sim": ctest_stage("sim"),
    "install": stage_install,
    "format": stage_format,
    "tidy": stage_tidy,
    "asan": sanitizer_stage("asan"),
    "ubsan": sanitizer_stage("ubsan"),
    "tsan": sanitizer_stage("tsan"),
    "fuzz": stage_fuzz,
    "nightly": ctest_stage("nightly"),
}
SUBMISSION = [name for name in STAGES if name != "nightly"]


def main():
    if "--nightly" in sys.argv:  # what a night is for has a script of its own
        import nightly
        return nightly.main([word for word in sys.argv[1:] if word != "--nightly"])
    parser = argparse.ArgumentParser(prog="./test", description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="the inner loop: build, then the label 'fast'")
    parser.add_argument("--only", action="append", default=[], metavar="STAGE", choices=list(STAGES), help="one stage; may be given more than once")
    parser.add_argument("--nightly", action="store_true", help="ten to a hundred times as far, by parts (./test --nightly --help)")
    parser.add_argument("--list", action="store_true", help="name the stages")
    options = parser.parse_args()
    if options.list:
        print("\n".join(STAGES))
        return 0
    chosen = options.only or (["build", "fast"] if options.fast else SUBMISSION)
    if options.only and not {"asan", "ubsan", "tsan", "fuzz", "format"}.issuperset(chosen) and "build" not in chosen:
        chosen = ["build", *chosen]  # a stage over build/ needs it up to date
    rows, passed, failed = [], 0, 0
    for name in chosen:
        print(f"== {name}", flush=True)
        begun = time.monotonic()
        try:
            result = STAGES[name]()
        except Exception as error:  # a fault of this script is a failed stage, not the end of the run
            result = Outcome()
            result.add(False, f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - begun
        for note in result.notes:
            print(note, flush=True)
        print(f"   {name}: {result.passed} good, {result.failed} bad, {seconds:.0f} s", flush=True)
        rows.append((name, seconds, result.passed, result.failed))
        passed += result.passed
        failed += result.failed
    print(f"\n{'stage':<10}{'seconds':>9}{'passed':>9}{'failed':>9}")
    for name, seconds, good, bad in rows:
        print(f"{name:<10}{seconds:>9.0f}{good:>9}{bad:>9}")
    print(f"{'all':<10}{sum(row[1] for row in rows):>9.0f}{passed:>9}{failed:>9}\n")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Structural checks of the tree (engineering.md, "Layout"). One rule per function; each returns the sentences of what breaks it.

    tree.py CHECK [ROOT]
"""
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import mutants  # noqa: E402

# What each folder of src/ may include besides itself. Homes never include each other, fronts never include each other; apps, extension, sim and
# tests wire things together and may include anything.
MAY_INCLUDE = {
    "base": set(),
    "core": {"base"},
    "wire": {"base", "core"},
    "io": {"base"},
    "home": {"base", "core", "wire", "io"},
    "engine": {"base", "core", "wire", "io"},
    "owner": {"base", "core", "wire", "io"},  # runs over any home, so it knows none
    "sqlite": {"base", "core", "wire", "io", "owner", "home"},
    "front": {"base", "core", "wire", "io", "owner", "home", "engine", "sqlite"},
}
FAMILIES = {"home", "front"}  # folders whose children must not know each other
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
HABIT_LINES, LIMIT_LINES = 400, 600
PRODUCT = ("include", "src", "apps", "extension")
CODE = (".cc", ".h", ".c", ".def")


def files(root, folders, suffixes):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                yield path


def room(path):
    """("home", "object") for src/home/object/x.h; ("core", "") for src/core/x.h."""
    parts = path.parts
    return parts[0], (parts[1] if parts[0] in FAMILIES and len(parts) > 2 else "")


def includes(root):
    problems = []
    for path in files(root, ["src"], CODE):
        mine, child = room(path.relative_to(root / "src"))
        if path.name.endswith("_test.cc") or path.name.endswith("_testing.h"):
            continue  # a unit test may stand on more than its folder; the link test still holds for the product
        if mine not in MAY_INCLUDE:
            problems.append(f"{path.relative_to(root)}: src/{mine} is no folder of the design")
            continue
        for kind, target in INCLUDE.findall(path.read_text()):
            if kind == "<":
                continue
            other, other_child = room(Path(target))
            if other == mine:
                if child and other_child and child != other_child:
                    problems.append(f"{path.relative_to(root)} includes {target}: {mine}/{child} and {mine}/{other_child} must not know each other")
            elif other in MAY_INCLUDE and other not in MAY_INCLUDE[mine]:
                problems.append(f"{path.relative_to(root)} includes {target}: {mine} may not know {other}")
            elif other not in MAY_INCLUDE and not (path.parent / target).exists():
                problems.append(f"{path.relative_to(root)} includes \"{target}\": write the path from src/")
    for path in files(root, ["include"], (".h", ".def")):
        for kind, target in INCLUDE.findall(path.read_text()):
            if kind == '"' or (target.endswith((".h", ".hpp")) and not target.startswith(("onepen/", "tl/"))):
                problems.append(f"{path.relative_to(root)} includes {target}: a public header shows only <onepen/...>, <tl/expected.hpp> and the standard library")
    heavy = ("nlohmann/", "CLI/", "fmt/", "spdlog/", "toml++/")
    for path in files(root, PRODUCT, (".h",)):
        for _, target in INCLUDE.findall(path.read_text()):
            if target.startswith(heavy):
                problems.append(f"{path.relative_to(root)} includes {target}: heavy headers stay in .cc files")
    return problems


def guards(root):
    """Every guard protects something: it is asked for somewhere in the product's sources."""
    header = (root / "src/base/guard.h").read_text()
    names = re.findall(r"^\s*X\((\w+)\)", header, re.M)
    text = "\n".join(path.read_text() for path in files(root, ["src", "extension"], CODE) if path.name not in ("guard.h", "guard.cc") and not path.name.endswith("_test.cc"))
    used = set(re.findall(r"\bguard_on\(\s*(?:onepen::)?Guard::(\w+)", text))
    problems = [f"Guard::{name} is declared in src/base/guard.h and never asked for in src/" for name in names if name not in used]
    return problems or ([] if names else ["src/base/guard.h declares no guard"])


def elsewhere(root):
    """A guard that the mutation check does not look for is switched off by the test it names instead."""
    page = root / "sim/mutations.cc"
    claims = re.findall(r'\{Guard::(\w+),\s*"([^"]+)"\}', page.read_text()) if page.exists() else []
    problems = []
    for guard, name in claims:
        test = root / name
        if not test.exists():
            problems.append(f"sim/mutations.cc says that {guard} is covered by {name}, which is no file")
        elif not re.search(rf"\bset_guard\(\s*(?:onepen::)?Guard::{guard}\b", test.read_text()):
            problems.append(f"sim/mutations.cc says that {guard} is covered by {name}, which never switches it off")
    return problems or ([] if claims else ["sim/mutations.cc names no test for a guard"])


def failpoints(root):
    """Every failpoint a test arms exists; names are `folder.place`. Names beginning with `test.` belong to the tests of failpoints themselves."""
    declared = set()
    problems = []
    for path in files(root, ["src", "extension", "apps"], CODE):
        for name in re.findall(r'ONEPEN_FAILPOINT\("([^"]*)"\)', path.read_text()):
            if path.name == "failpoint.h":
                continue
            declared.add(name)
            if not re.fullmatch(r"[a-z_]+\.[a-z0-9_]+", name):
                problems.append(f"{path.relative_to(root)}: failpoint \"{name}\" is not named folder.place")
    for path in files(root, ["tests", "sim", "src"], (".cc", ".h", ".py", ".sh", ".bats", ".txt")):
        if root / "tests/checks" in path.parents:
            continue
        for name in re.findall(r"\b([a-z_]+\.[a-z0-9_]+)=(?:kill|stop|error)\b", path.read_text()):
            if name not in declared and not name.startswith("test."):
                problems.append(f"{path.relative_to(root)} arms the failpoint {name}, which no source has")
    return problems


def changelog(root):
    version = re.search(r"project\(onepen VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text()).group(1)
    text = (root / "CHANGELOG.md").read_text() if (root / "CHANGELOG.md").exists() else ""
    return [] if re.search(rf"^##.*\b{re.escape(version)}\b", text, re.M) else [f"CHANGELOG.md has no section for version {version} of CMakeLists.txt"]


def machine_paths(root):
    """No path of one machine in the tree: not the tree's own place, nor beside it, nor the home folder of whoever works here."""
    shared = {"/", "/tmp", "/var/tmp", "/srv", "/home", "/usr", "/usr/local", "/opt"}  # places that a text may name as anybody's
    places = {str(root)} | ({str(root.parent)} - shared) | ({str(Path.home())} - shared) | {"/root"}
    pattern = re.compile(r"(?<![\w.})])(?:" + "|".join(re.escape(place) for place in sorted(places)) + r")/[\w.]|/Users/[a-z][\w.-]*/")
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
    problems = []
    for name in names:
        if name.startswith("tests/checks/"):
            continue
        try:
            text = (root / name).read_text()
        except (OSError, UnicodeDecodeError):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                problems.append(f"{name}:{number}: {line.strip()[:120]}")
    return problems


def file_length(root):
    problems = []
    for path in files(root, [*PRODUCT, "sim", "tests"], (".cc", ".h", ".py", ".sh")):
        lines = path.read_text().count("\n")
        if lines > LIMIT_LINES:
            problems.append(f"{path.relative_to(root)}: {lines} lines; past {LIMIT_LINES} there are two ideas in one file")
        elif lines > HABIT_LINES:
            print(f"habit: {path.relative_to(root)}: {lines} lines (the habit is {HABIT_LINES})")
    return problems


def cmake_test_names(root):
    """The ctest entries, read out of the CMake files: calls of *_test functions, with the prefix that their definition gives and the lists that loops go through."""
    paths = [path for folder in ("src", "tests", "sim", "apps", "extension") for pattern in ("CMakeLists.txt", "*.cmake") for path in sorted((root / folder).rglob(pattern))]
    names = set()
    for path in paths:
        text = re.sub(r"#.*", "", path.read_text())
        prefix = dict(re.findall(r"function\((\w+) name\b[^)]*\)\s*\w+_test\((\w*)\$\{name\}", text))
        loops = {variable: values.split() for variable, values in re.findall(r"foreach\((\w+) ([^)]*)\)", text)}
        for call, name in re.findall(r"\b(\w*_test)\(\s*(?:NAME\s+)?([\w${}]+)", text):
            if call == "add_test" and name == "NAME":
                continue
            variable = re.search(r"\$\{(\w+)\}", name)
            expanded = [name] if not variable else [name.replace(variable.group(0), value) for value in loops.get(variable.group(1), [])]
            names.update(prefix.get(call, "") + one for one in expanded)
    return names


def guarantee_rows(root):
    """(promise, names of the tests that show it, guards and rules without which one of them was seen red) of each line of docs/guarantees.md."""
    page = root / "docs/guarantees.md"
    for line in (page.read_text() if page.exists() else "").splitlines():
        if line.startswith("| ") and not line.endswith("| red without |"):
            promise, shown, red = (line.strip("| ").rsplit(" | ", 2) + ["", ""])[:3]
            named = re.findall(r"(guard )?`([^`]+)`", red)
            yield promise, re.findall(r"`([^`]+)`", shown), [name for guard, name in named if guard], [name for guard, name in named if not guard]


def guarantees(root):
    """Every test that docs/guarantees.md names exists, and each line names a rule without which one of its tests was seen red: a promise whose proof is gone, or
    cannot fail, is no promise."""
    known = cmake_test_names(root)
    for path in files(root, ["src", "tests", "sim", "apps"], (".cc", ".py")):
        if path.name.endswith("_test.cc") or path.suffix == ".py":
            known.add(path.stem)
        if path.name.endswith("_test.cc"):
            known |= set(re.findall(r"^TEST\w*\(\w+, (\w+)\)", path.read_text(), re.M))
    rules = {one.name: one for one in mutants.load(root)} if (root / "tests/mutants.txt").exists() else {}
    by_tests = {name: {test[1] for test in mutants.tests_of(root, one)} for name, one in rules.items()}
    page = root / "sim/mutations.cc"
    not_simulated = set(re.findall(r'\{Guard::(\w+),\s*"', page.read_text())) if page.exists() else set()
    declared = set(re.findall(r"^\s*X\((\w+)\)", (root / "src/base/guard.h").read_text(), re.M))
    problems, rows = [], list(guarantee_rows(root))
    for promise, shown, guards, broken in rows:
        def say(text, promise=promise):
            problems.append(f"docs/guarantees.md: {promise[:70]}: {text}")
        if not shown:
            say("no test is named")
        problems += [f"docs/guarantees.md names {word}, which is no test or test case" for word in shown if word not in known]
        if not guards and not broken:
            say("nothing is named without which a test of it turns red")
        for name in broken:
            if name not in rules:
                say(f"{name} is no rule of tests/mutants.txt")
            elif not by_tests[name] & set(shown):
                say(f"{name} turns {', '.join(sorted(by_tests[name]))} red, and none of these is named")
        for guard in guards:
            scenario = any(f"# guard: {guard}\n" in path.read_text() for path in (root / "tests/scenarios").rglob("*.txt")
                           if mutants.RUNNERS.get(path.parent.name, [""])[0] in shown)
            simulated = guard not in not_simulated and any(word.startswith("sim_") for word in shown)
            if guard not in declared:
                say(f"{guard} is no guard")
            elif not scenario and not simulated:
                say(f"nothing that is named switches the guard {guard} off")
    return problems or ([] if rows else ["docs/guarantees.md promises nothing"])


# What fence.md and homes.md number, and the rules of fence.md that have a heading: docs/simulator.md says for each which guard carries it and what finds that guard.
RULES = [f"I{n}" for n in range(1, 12)] + [f"B{n}" for n in range(1, 8)] + ["claim", "in flight", "incarnations", "reset"] + [f"takeover {n}" for n in range(1, 5)]
SWEEPS = {"sweep": False, "sweep with SQLite": True}


def rules(root):
    """docs/simulator.md: every rule has a guard, every guard a rule and a finder, which is the one that sim/mutations.cc asks."""
    page, mutations = root / "docs/simulator.md", (root / "sim/mutations.cc").read_text()
    rows = re.findall(r"^\| ([^|`]+) \| `(\w+)` \| ([^|]+) \|$", page.read_text() if page.exists() else "", re.M)
    guards_there = re.findall(r"^\s*X\((\w+)\)", (root / "src/base/guard.h").read_text(), re.M)
    elsewhere_of = dict(re.findall(r'\{Guard::(\w+),\s*"([^"]+)"\}', mutations))
    with_sqlite = set(re.findall(r"case Guard::(\w+):", mutations))
    told = {rule.strip() for row in rows for rule in row[0].split(",")}
    problems = [f"docs/simulator.md names no guard for the rule {rule}" for rule in RULES if rule not in told]
    problems += [f"docs/simulator.md says nothing of the guard {name}" for name in guards_there if name not in {guard for _, guard, _ in rows}]
    for rule, guard, finder in rows:
        if guard not in guards_there:
            problems.append(f"docs/simulator.md: {guard} is no guard")
        elif guard in elsewhere_of:
            if finder != f"`{elsewhere_of[guard]}`":
                problems.append(f"docs/simulator.md: {guard} is found by {elsewhere_of[guard]}, says sim/mutations.cc")
        elif SWEEPS.get(finder) != (guard in with_sqlite):
            problems.append(f"docs/simulator.md: {guard} is found by {finder}, and sim/mutations.cc looks elsewhere")
        problems += [f"docs/simulator.md: there is no rule {name.strip()}" for name in rule.split(",") if name.strip() not in RULES]
    return problems


CHECKS = {check.__name__: check for check in (includes, guards, elsewhere, rules, failpoints, changelog, machine_paths, file_length, guarantees)}


def main():
    problems = CHECKS[sys.argv[1]](Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).resolve().parents[2]))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

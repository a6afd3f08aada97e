"""Checks that what is said to be shown is shown: fault scenarios, rules broken one at a time, fuzzers (engineering.md, "Tests"). Each returns the sentences of
what breaks it.

    proofs.py CHECK [ROOT]
    proofs.py --write-scenarios        writes the table of docs/scenarios.md
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import mutants  # noqa: E402

MARK = "<!-- tests/checks/proofs.py --write-scenarios -->"
LAYERS_WITH_CODE = {"ST", "OB"}
# What turns bytes or text from outside into values of ours: names of functions in headers of src/.
DECODER = re.compile(r"^\s*(?:\[\[nodiscard\]\]\s*)?(?:static\s+)?(?:Result|std::optional|tl::expected|std::vector|bool|[A-Z]\w+)\S*(?:<.*>)?\s+"
                     r"((?:decode|parse|scan|split|read|load|mount|judge)_\w+|parse|pack_run|object_id|cut_at|snapshot_at|path_of_file_url|raw_commits)\(", re.M)


def rows_of(root):
    rows = {}
    for line in (root / "tests/scenarios/rows.txt").read_text().splitlines():
        if match := re.fullmatch(r"(S\d\d)\s+([A-Z,]+)\s+(\S.*)", line):
            rows[match[1]] = (set(match[2].split(",")), match[3])
    return rows


def files_of(root, row):
    return sorted(path for path in (root / "tests/scenarios").rglob(f"{row.lower()}[-_]*.txt"))


def marks_of(path):
    """The guards, the mutants, and the reason for neither that a scenario file names."""
    text = path.read_text()
    return (re.findall(r"^# guard:\s*(\S+)$", text, re.M), re.findall(r"^# mutant:\s*(\S+)$", text, re.M), re.findall(r"^# no guard:\s*(\S.*)$", text, re.M))


def table(root):
    lines = ["| row | what happens | scenario | red without |", "|---|---|---|---|"]
    for row, (_, title) in sorted(rows_of(root).items()):
        for path in files_of(root, row):
            guards, broken, why = marks_of(path)
            red = ", ".join([f"guard `{name}`" for name in guards] + [f"`{name}`" for name in broken] + why)
            where = path.relative_to(root)
            lines.append(f"| {row} | {title} | [{where.parent.name}/{where.name}](../{where}) | {red} |")
    return lines


def scenarios(root):
    """Every row that concerns code of ours has a scenario, every scenario says how it can fail, and docs/scenarios.md shows both."""
    problems, rows = [], rows_of(root)
    for row, (layers, title) in sorted(rows.items()):
        folders = {path.parent.name for path in files_of(root, row)}
        if layers & LAYERS_WITH_CODE and not folders:
            problems.append(f"{row} ({title}) has no scenario file")
        elif "OB" in layers and "object" not in folders:
            problems.append(f"{row} ({title}) concerns object stores and has no file in tests/scenarios/object")
    for path in sorted((root / "tests/scenarios").rglob("*.txt")):
        if path.parent.name == "scenarios":
            continue
        name = path.relative_to(root)
        guards, broken, why = marks_of(path)
        if not guards and not broken and not why:
            problems.append(f"{name} names no guard, no mutant, and no reason for neither")
        if (match := re.match(r"s(\d\d)[-_]", path.name)) and f"S{match[1]}" not in rows:
            problems.append(f"{name} is of a row that tests/scenarios/rows.txt does not have")
        if (match := re.match(r"s(\d\d)[-_]", path.name)) and not guards and not broken:
            problems.append(f"{name} is of a row of the table and has no mutation")
    page = root / "docs/scenarios.md"
    if not page.exists() or page.read_text().split(MARK)[-1].strip().splitlines() != table(root):
        problems.append("docs/scenarios.md does not show what is there: run tests/checks/proofs.py --write-scenarios")
    return problems or ([] if rows else ["tests/scenarios/rows.txt has no row"])


def decoders(root):
    """Every decoder of src/ has a fuzzer that calls it, with a kept corpus; fuzz/decoders.txt says which, or why it needs none."""
    problems, listed = [], {}
    for line in (root / "fuzz/decoders.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(":")
            listed[name.strip()] = rest.strip()
    built = set(re.findall(r"onepen_fuzz\((\w+)\s", re.sub(r"#.*", "", (root / "fuzz/CMakeLists.txt").read_text())))
    found = set()
    for path in sorted((root / "src").rglob("*.h")):
        for name in DECODER.findall(path.read_text()):
            found.add(name)
            if name not in listed:
                problems.append(f"{path.relative_to(root)}: {name} is not in fuzz/decoders.txt: which fuzzer reads what it reads, or why none")
    for name, rest in sorted(listed.items()):
        if not re.search(rf"\b{name}\(", "\n".join(path.read_text() for path in (root / "src").rglob("*.h"))):
            problems.append(f"fuzz/decoders.txt: there is no {name} in the headers of src/")
        if rest.startswith("none, "):
            continue
        for target in rest.replace(",", " ").split():
            source = root / f"fuzz/{target}.cc"
            if target not in built or not source.exists():
                problems.append(f"fuzz/decoders.txt: {name}: there is no fuzzer {target}")
    for target in sorted(built):
        corpus = root / "fuzz/corpus" / target
        if not corpus.is_dir() or not any(corpus.iterdir()):
            problems.append(f"the fuzzer {target} has no kept corpus in fuzz/corpus/{target}")
    return problems or ([] if found else ["no decoder was found in src/"])


def mutant_list(root):
    """tests/mutants.txt fits the sources and the tests."""
    return mutants.check(root)


CHECKS = {"scenarios": scenarios, "decoders": decoders, "mutants": mutant_list}


def main():
    root = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).resolve().parents[2])
    if sys.argv[1] == "--write-scenarios":
        page = root / "docs/scenarios.md"
        head = page.read_text().split(MARK)[0]
        page.write_text(head + MARK + "\n" + "\n".join(table(root)) + "\n")
        return 0
    problems = CHECKS[sys.argv[1]](root)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""The README's two terminals, typed word for word into sqlite3. Only the folder of the home is another one."""

import os
import re

from hosts import HERE, Terminal, check

import harness

README = HERE.parent.parent / "README.md"
HOME_IN_README = "/srv/pen"


def steps():
    """(terminal, prompt, typed line, lines that the README shows after it) of the section `60 seconds`."""
    section = README.read_text().split("## 60 seconds", 1)[1].split("\n## ", 1)[0]
    terminal, found = None, []
    for line in section.splitlines():
        if match := re.search(r"Terminal (\d)", line):
            terminal = match[1]
        if not line.startswith("    ") or terminal is None:
            continue
        text = line[4:]
        if match := re.match(r"(\$|sqlite>) (.*)", text):
            found.append((terminal, match[1], match[2], []))
        elif found:
            found[-1][3].append(text)
    return found


def test(root):
    home = root.home_folder()
    # Typed in a folder that looks like a built tree.
    tree = root.folder("tree")
    (tree / "build").mkdir()
    os.symlink(root.bin, tree / "build" / "bin")
    terminals, typed, compared = {}, 0, 0
    story = steps()
    check(len(story) >= 8 and {"1", "2"} == {step[0] for step in story}, "the README has no story of two terminals", story)
    for terminal, prompt, line, expected in story:
        line = line.replace(HOME_IN_README, str(home))
        typed += 1
        if prompt == "$":
            command = line.split("  #")[0].strip()
            if command.startswith("sqlite3 "):
                terminals[terminal] = Terminal(root, command, cwd=tree)
                check("rror" not in terminals[terminal].greeting, "sqlite3 greets with an error", terminals[terminal].greeting)
            else:
                program, *arguments = command.split()
                check(program == "build/bin/onepen", "an unknown command in the README", command)
                code, out, err = root.onepen(*arguments)
                check(code == 0, f"{command} ended with {code}", out, err)
                for other in terminals.values():
                    check(str(other.pid) in out, f"{command} must show the owner with pid {other.pid}", out)
            continue
        shown = terminals[terminal].type(line)
        statement, _, comment = line.partition("--")
        if expected:
            check(shown.split("\n") == expected, f"terminal {terminal} shows something else than the README after {line!r}", shown, *expected)
            compared += 1
        elif statement.strip().upper().startswith("SELECT ONEPEN_ERROR"):
            newer = next(other for number, other in terminals.items() if number != terminal)
            for word in ("fenced", "app", "epoch 1", "epoch 2", f"pid {newer.pid}"):
                check(word in shown, f"onepen_error() must say {word!r}", shown)
            print(f"readme_story: the sentence: {shown}")
            compared += 1
        elif statement.strip().upper().startswith("SELECT"):
            check(shown == comment.strip(), f"terminal {terminal} shows something else than the README after {line!r}", shown)
            compared += 1
        else:
            check(shown == "", f"terminal {terminal} shows something after {line!r}", shown)
    check(compared >= 3, "hardly anything of the README's story could be compared")
    for terminal in terminals.values():
        terminal.end()
    print(f"readme_story: {typed} lines typed in {len(terminals)} terminals, {compared} outputs as the README shows them")


harness.main(test, "readme_story")

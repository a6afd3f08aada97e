"""--help teaches (examples, every option told), and the man page tells the same commands, options and exit codes."""

import pathlib
import re

from cases import check, run

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/onepen.1"


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


def man_text():
    return PAGE.read_text().replace("\\-", "-")


class Help:
    def __init__(self, root):
        self.root = root

    def help(self, *command):
        code, out, err = self.root.onepen(*command, "--help")
        check(code == 0 and err == "", f"onepen {' '.join(command)} --help must end with 0", out, err)
        return out

    def commands(self):
        """All of them, those below another one as "salvage list"."""
        below = lambda text: re.findall(r"^  ([a-z-]+) ", text.split("Subcommands:")[1].split("\n\n")[0], re.M) if "Subcommands:" in text else []
        names = below(self.help())
        check(len(names) >= 14, "the subcommands are listed", names)
        return [full for name in names for full in [name] + [f"{name} {inner}" for inner in below(self.help(name))]]

    def case_every_command_shows_an_example(self):
        for name in self.commands():
            text = self.help(*name.split())
            check(f"onepen {name}" in text.split("Examples:")[-1], f"onepen {name} --help must show an example", text)
            for option in options_of(text) - {"--help", "--json"}:
                about = re.search(rf"^  {option}(?: [A-Z]+\S*)?(?: \(Env:\w+\))?\s+(\S.*)$", text, re.M)
                check(about and len(about.group(1).split()) > 2, f"{name}: {option} must say what it is for", text)

    def case_json_and_help_everywhere(self):
        for name in self.commands():
            text = self.help(*name.split())
            if name != "demo":
                check("--json" in text, f"onepen {name} must take --json", text)
            check("--help" in text, f"onepen {name} must take --help", text)

    def case_exit_codes_are_told(self):
        for code in (0, 2, 3, 4, 5, 6, 7, 70):
            check(re.search(rf"\b{code} \w", self.help()), f"exit code {code} must be in --help", self.help())
            check(re.search(rf"^\.B {code}$", man_text(), re.M), f"exit code {code} must be in the man page")

    def case_man_page_and_help_agree(self):
        page = man_text()
        sections = page.split(".SH ")
        commands = next(section for section in sections if section.startswith("COMMANDS"))
        told = set(name.strip() for name in re.findall(r'^\.TP\n\.BI? "?([a-z]+(?: [a-z]+)?)', commands, re.M))
        names = self.commands()
        ours = {name for name in names if not any(other.startswith(name + " ") for other in names)}  # those that do something themselves
        check(told == ours, "the man page and --help must tell the same commands", sorted(told), sorted(ours))
        texts = {name: self.help(*name.split()) for name in names}
        for name, text in texts.items():
            missing = options_of(text) - options_of(page)
            check(not missing, f"options of {name} are missing in the man page", sorted(missing))
        everything = "".join(texts.values()) + self.help()
        check(not options_of(page) - options_of(everything), "the man page tells options that do not exist", sorted(options_of(page) - options_of(everything)))


if __name__ == "__main__":
    run(Help, "cli-help")

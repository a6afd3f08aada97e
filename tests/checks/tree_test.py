"""Each structural check turns red on a small tree that breaks its rule, and is green on the same tree without the break."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import purity  # noqa: E402
import tree  # noqa: E402
from small_tree import SmallTree  # noqa: E402


class Checks(SmallTree):
    checks = tree.CHECKS

    def setUp(self):
        super().setUp()
        self.write("CMakeLists.txt", "project(onepen VERSION 1.2.3 LANGUAGES CXX)\n")
        self.write("CHANGELOG.md", "# Changes\n\n## 1.2.3\n")
        self.write("src/base/guard.h", "  X(one_rule) /* why */ \\\n")
        self.write("src/core/CMakeLists.txt", "onepen_unit_test(fence_test\n  SOURCES fence_test.cc)\nforeach(kind small large)\n  add_test(NAME sim_${kind} COMMAND x)\nendforeach()\n")
        self.write("src/core/fence_test.cc", "TEST(Fence, Holds) {\n  set_guard(Guard::one_rule, false);\n")
        self.write("tests/process/CMakeLists.txt", "function(onepen_process_test name timeout)\n  onepen_script_test(process_${name} LABELS process)\nendfunction()\nonepen_process_test(races 300)\n")
        self.write("docs/guarantees.md", self.promise("`fence_test` (`Holds`), `process_races`, `sim_large`", "`its-rule`"))
        self.write("tests/mutants.txt", "[its-rule]\nguard: one_rule\nred: fence_test Fence.Holds\n")
        self.write("src/core/fence.cc", '#include "base/guard.h"\nif (guard_on(Guard::one_rule)) return;\nONEPEN_FAILPOINT("core.step");\n')
        self.write("src/home/object/a.h", '#include "core/fence.h"\n')
        self.write("include/onepen/x.h", "#include <onepen/y.h>\n#include <tl/expected.hpp>\n#include <string>\n")
        self.write("sim/mutations.cc", self.covered("src/core/fence_test.cc"))
        self.write("docs/simulator.md", self.table("one_rule"))
        self.write("tests/process/kill.sh", "ONEPEN_FAILPOINT=core.step=kill@2\n")

    def promise(self, shown_by, red="`its-rule`"):
        return f"| promise | shown by | red without |\n|---|---|---|\n| A rule of `something` | {shown_by} | {red} |\n"

    def table(self, guard, but=(), by="`src/core/fence_test.cc`"):
        return "| rule | guard | found by |\n|---|---|---|\n| " + ", ".join(rule for rule in tree.RULES if rule not in but) + f" | `{guard}` | {by} |\n"

    def covered(self, by):
        return f'  {{Guard::one_rule, "{by}"}},  // why\n'

    def test_every_rule_has_a_guard(self):
        self.broken("rules", "docs/simulator.md", self.table("one_rule", but=("B7",)))

    def test_every_guard_has_a_rule(self):
        self.broken("rules", "src/base/guard.h", "  X(one_rule) /* why */ \\\n  X(another) /* why */\n")

    def test_the_table_of_rules_names_guards_that_exist(self):
        self.broken("rules", "docs/simulator.md", self.table("one_rule") + "| I1 | `no_rule` | sweep |\n")

    def test_the_table_of_rules_says_who_finds_a_guard(self):
        self.broken("rules", "docs/simulator.md", self.table("one_rule", by="sweep"))

    def test_core_may_not_know_io(self):
        self.broken("includes", "src/core/x.cc", '#include "io/disk.h"\n')

    def test_homes_do_not_know_each_other(self):
        self.broken("includes", "src/home/object/x.cc", '#include "home/node/client.h"\n')

    def test_fronts_do_not_know_each_other(self):
        self.broken("includes", "src/front/gate/x.cc", '#include "front/leases/lease.h"\n')

    def test_owner_knows_no_home(self):
        self.broken("includes", "src/owner/x.cc", '#include "home/object/a.h"\n')

    def test_public_headers_show_no_internals(self):
        self.broken("includes", "include/onepen/z.h", '#include "core/home.h"\n')

    def test_heavy_headers_stay_in_sources(self):
        self.broken("includes", "src/wire/x.h", "#include <nlohmann/json.hpp>\n")

    def test_unknown_folder(self):
        self.broken("includes", "src/util/x.h", "\n")

    def test_guard_that_protects_nothing(self):
        self.broken("guards", "src/base/guard.h", "  X(one_rule) \\\n  X(other_rule) \\\n")

    def test_guard_whose_test_does_not_switch_it_off(self):
        self.broken("elsewhere", "src/core/fence_test.cc", "TEST(Fence, Holds) {\n  set_guard(Guard::one_rule_more, false);\n")

    def test_guard_whose_test_is_gone(self):
        self.broken("elsewhere", "sim/mutations.cc", self.covered("src/core/gone_test.cc"))

    def test_failpoint_that_no_source_has(self):
        self.broken("failpoints", "tests/process/more.sh", "ONEPEN_FAILPOINT=core.gone=kill\n")

    def test_failpoint_with_a_bad_name(self):
        self.broken("failpoints", "src/core/x.cc", 'ONEPEN_FAILPOINT("step");\n')

    def test_changelog_without_the_version(self):
        self.broken("changelog", "CHANGELOG.md", "## 1.2.2\n")

    def test_machine_path(self):
        self.broken("machine_paths", "docs/x.md", f"see {self.root.parent}/elsewhere/build\n")

    def test_long_file(self):
        self.broken("file_length", "src/core/long.cc", "\n" * (tree.LIMIT_LINES + 1))

    def test_promise_without_its_test(self):
        for word in ("process_gone", "races_gone", "HoldsNot", "other_rule", "sim_middle"):
            with self.subTest(word):
                self.broken("guarantees", "docs/guarantees.md", self.promise(f"`fence_test`, `{word}`"))
                self.write("docs/guarantees.md", self.promise("`fence_test`"))

    def test_promise_that_names_no_test(self):
        self.broken("guarantees", "docs/guarantees.md", self.promise("careful thought"))

    def test_promise_that_nothing_breaks(self):
        self.broken("guarantees", "docs/guarantees.md", self.promise("`fence_test`", ""))

    def test_promise_with_a_rule_that_is_gone(self):
        self.broken("guarantees", "docs/guarantees.md", self.promise("`fence_test`", "`other-rule`"))

    def test_promise_whose_tests_do_not_show_the_rule(self):
        self.broken("guarantees", "docs/guarantees.md", self.promise("`process_races`"))

    def test_promise_with_a_guard_that_nothing_switches_off(self):
        self.assertEqual([], tree.CHECKS["guarantees"](self.root))
        self.write("docs/guarantees.md", self.promise("`sim_large`", "guard `one_rule`"))  # sim/mutations.cc says that it looks elsewhere
        self.assertNotEqual([], tree.CHECKS["guarantees"](self.root))

    def test_purity(self):
        self.assertEqual([], purity.impure(["operator new(unsigned long)", "memcpy", "std::__throw_length_error(char const*)", "XXH3_64bits"]))
        for symbol in ("clock_gettime", "std::chrono::_V2::steady_clock::now()", "pthread_create", "getrandom", "std::random_device::_M_getval()", "open64", "write", "socket",
                       "std::thread::_M_start_thread(x)", "std::basic_ofstream<char>::open(x)", "nanosleep", "getenv"):
            self.assertEqual([symbol], purity.impure([symbol]))


if __name__ == "__main__":
    ended = unittest.main(exit=False, verbosity=1).result
    bad = len(ended.failures) + len(ended.errors)
    print(f"{ended.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)

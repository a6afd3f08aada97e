"""Each check of proofs.py turns red on a small tree that breaks its rule, and is green on the same tree without the break."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import proofs  # noqa: E402
import mutants  # noqa: E402
from small_tree import SmallTree  # noqa: E402

RULE = "[one-rule] why\nin: src/core/fence.cc\nwas:   if (old) return;\nnow:\nred: scenarios\n"


class Proofs(SmallTree):
    checks = proofs.CHECKS

    def setUp(self):
        super().setUp()
        self.write("src/base/guard.h", "  X(one_guard) /* why */ \\\n")
        self.write("src/core/fence.cc", "void f() {\n  if (old) return;\n}\n")
        self.write("src/core/fence.h", "Result<int> decode_thing(ByteView bytes);\n")
        self.write("src/core/CMakeLists.txt", "onepen_unit_test(fence_scenario_test SOURCES x.cc)\nonepen_unit_test(fence_test SOURCES fence_test.cc)\n")
        self.write("src/core/fence_test.cc", "TEST(Fence, Holds) {}\n")
        self.write("tests/scenarios/rows.txt", "S01 PG     nothing of ours\nS02 PG,ST  two claims\n")
        self.write("tests/scenarios/fence/s02-two.txt", "# guard: one_guard\n# mutant: one-rule\ncreate\n----\n\n")
        self.write("tests/mutants.txt", RULE)
        self.write("fuzz/decoders.txt", "decode_thing: thing\n")
        self.write("fuzz/CMakeLists.txt", "onepen_fuzz(thing SOURCES thing.cc)\n")
        self.write("fuzz/thing.cc", "")
        self.write("fuzz/corpus/thing/one", "x")
        self.write("docs/scenarios.md", f"# Rows\n{proofs.MARK}\n" + "\n".join(proofs.table(self.root)) + "\n")

    def test_row_without_a_scenario(self):
        self.broken("scenarios", "tests/scenarios/rows.txt", "S01 PG     nothing of ours\nS02 PG,ST  two claims\nS03 ST     many claims\n")

    def test_row_of_object_stores_without_a_scenario_there(self):
        self.broken("scenarios", "tests/scenarios/rows.txt", "S02 PG,ST,OB two claims\n")

    def test_scenario_that_cannot_fail(self):
        self.broken("scenarios", "tests/scenarios/fence/other.txt", "create\n----\n\n")

    def test_scenario_of_a_row_with_a_reason_instead_of_a_mutation(self):
        self.broken("scenarios", "tests/scenarios/fence/s02-three.txt", "# no guard: why not\ncreate\n----\n\n")

    def test_page_that_is_behind(self):
        self.broken("scenarios", "docs/scenarios.md", f"# Rows\n{proofs.MARK}\n")

    def test_decoder_without_a_fuzzer(self):
        self.broken("decoders", "src/core/more.h", "std::optional<int> decode_more(ByteView bytes);\n")

    def test_fuzzer_that_is_not_built(self):
        self.broken("decoders", "fuzz/decoders.txt", "decode_thing: other\n")

    def test_fuzzer_without_a_corpus(self):
        self.broken("decoders", "fuzz/CMakeLists.txt", "onepen_fuzz(thing SOURCES thing.cc)\nonepen_fuzz(more SOURCES more.cc)\n")

    def test_rule_whose_text_is_gone(self):
        self.broken("mutants", "src/core/fence.cc", "void f() {}\n")

    def test_rule_whose_text_is_there_twice(self):
        self.broken("mutants", "src/core/fence.cc", "  if (old) return;\n  if (old) return;\n")

    def test_rule_that_nothing_shows(self):
        self.broken("mutants", "tests/scenarios/fence/s02-two.txt", "# guard: one_guard\ncreate\n----\n\n")

    def test_rule_with_a_test_case_that_is_gone(self):
        self.write("tests/mutants.txt", RULE + "red: fence_test Fence.Holds\n")
        self.broken("mutants", "src/core/fence_test.cc", "TEST(Fence, HoldsMore) {}\n")

    def test_scenario_with_a_rule_that_is_gone(self):
        self.broken("mutants", "tests/mutants.txt", RULE.replace("one-rule", "other-rule") + "red: fence_test Fence.*\n")

    def test_guard_that_is_gone(self):
        self.write("tests/mutants.txt", RULE + "\n[a-guard]\nguard: one_guard\nred: fence_test Fence.*\n")
        self.broken("mutants", "src/base/guard.h", "  X(other_guard) \\\n")

    def test_a_text_of_more_lines_keeps_its_indentation(self):
        one = mutants.parse("[x]\nin: a\nwas:   a;\nwas:     b;\nnow:   c;\nred: scenarios\n")[0]
        self.assertEqual(["  a;", "    b;"], one.was)
        self.assertEqual(["  c;"], one.now)


if __name__ == "__main__":
    ended = unittest.main(exit=False, verbosity=1).result
    bad = len(ended.failures) + len(ended.errors)
    print(f"{ended.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)

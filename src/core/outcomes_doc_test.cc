// docs/outcomes.md is generated from include/onepen/outcomes.def: ONEPEN_REWRITE=1 writes it, else it must be what would be written.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/outcomes.h"

namespace onepen {
namespace {

constexpr std::string_view kHead = R"(# Outcomes

<!-- Generated from include/onepen/outcomes.def by `ONEPEN_REWRITE=1 outcomes_doc_test`. Do not edit. -->

Every change of a stream has exactly one of these outcomes, in every protocol. The words are public and stable for ever: rows are added, never changed.

- A refusal speaks of that request only. What became of a commit is decided by `applied`, by `duplicate`, or by the closing of its epoch; `unknown` is never
  taken for success or for failure.
- In C++ it is `onepen::Error::outcome`; over HTTP the status, the header `Producer-Outcome` and the `code` of the JSON body; on the PostgreSQL wire the SQLSTATE.
- A SQLite host sees one code for every refusal, 23 (`SQLITE_AUTH`): `onepen_error()` has the sentence. `onepen_status()` tells what it means: `reset` is not null,
  and this handle never writes again; or it is null, the transaction is nowhere, and may be tried again. [operating/sqlite.md](operating/sqlite.md)
- A fence 403 always carries `Producer-Epoch`. A 401, 402 or 403 without our header comes from something in between and is never a fence.

| outcome | the caller may | HTTP | code | SQLSTATE | retry |
|---|---|---|---|---|---|
)";

std::string generated() {
  std::string text(kHead);
  for (const OutcomeRow& row : outcome_table()) {
    text += fmt::format("| `{}` | {} | {} | `{}` | {} | {} |\n", row.word, row.may, row.http, row.code, row.sqlstate, row.retry);
  }
  return text;
}

TEST(OutcomesDoc, IsWhatTheTableSays) {
  const char* path = ONEPEN_SOURCE_DIR "/docs/outcomes.md";
  const std::string wanted = generated();
  if (const char* rewrite = std::getenv("ONEPEN_REWRITE"); rewrite != nullptr && std::string_view(rewrite) == "1") {
    std::ofstream(path, std::ios::binary) << wanted;
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream there;
  there << in.rdbuf();
  EXPECT_EQ(there.str(), wanted) << "docs/outcomes.md is stale: run this test with ONEPEN_REWRITE=1 and commit what it wrote";
}

// The parts of the table that clients of other projects match on, and that the generated page can therefore not be the judge of.
TEST(OutcomesTable, KeepsWhatClientsMatchOn) {
  EXPECT_EQ(row(Outcome::epoch_closed).http, 403);
  EXPECT_EQ(row(Outcome::epoch_closed).sqlstate, "57P04");
  EXPECT_EQ(row(Outcome::unauthorised).http, 401) << "a 403 on an append would be taken for a fence by the official producer";
  EXPECT_EQ(row(Outcome::write_fenced).code, "MIGRATION_WRITE_FENCED");
  EXPECT_EQ(row(Outcome::read_fenced).code, "MIGRATION_READ_FENCED");
  EXPECT_EQ(row(Outcome::quarantined).code, "MIGRATION_TARGET_QUARANTINED");
  EXPECT_EQ(row(Outcome::fence_unavailable).code, "FENCE_STATE_UNAVAILABLE");
  for (const OutcomeRow& one : outcome_table()) {
    EXPECT_EQ(one.http == 403, one.outcome == Outcome::epoch_closed || one.outcome == Outcome::cloned) << one.word;
    EXPECT_EQ(one.sqlstate.size(), 5u) << one.word;
    EXPECT_GE(one.http, 200) << one.word;
  }
}

}  // namespace
}  // namespace onepen

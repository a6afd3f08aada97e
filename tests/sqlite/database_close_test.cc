// How a database ends, through the public C++ API alone: what close() could not send, who is told of a reset, and where what the stream cannot take is kept.
#include <fstream>

#include "tests/sqlite/database_options_support.h"

namespace onepen {
namespace {

using testing::one;
using testing::Place;
using testing::run;

class CloseTest : public testing::OptionsTest {};

TEST_F(CloseTest, CloseSaysWhatItCouldNotSendAndTheNextOpenSendsIt) {
  const Place at = place();
  make(at, local("a"));
  {
    auto a = Database::open(at.home, "app", local("a"));
    ASSERT_TRUE(a);
    at.takes_nothing();
    ASSERT_EQ(insert(*a, "second"), SQLITE_OK);
    ASSERT_EQ(insert(*a, "third"), SQLITE_OK);
    EXPECT_EQ(a->status().pending_commits, 2u);
    const auto closed = a->close(Duration(0));
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().outcome, Outcome::unavailable);
    EXPECT_TRUE(has(closed.error().message, "2 commit") && has(closed.error().message, "next open")) << closed.error().message;
    EXPECT_TRUE(a->close()) << "idempotent";
  }
  at.back();
  EXPECT_EQ(seen_by_another_machine(), "first") << "and nobody wrote";
  auto again = Database::open(at.home, "app", local("a"));
  ASSERT_TRUE(again);
  ASSERT_TRUE(again->synced());
  EXPECT_EQ(again->status().pending_commits, 0u);
  EXPECT_TRUE(again->status().salvaged.empty());
  EXPECT_TRUE(again->close());
  EXPECT_EQ(seen_by_another_machine(), "first,second,third");
}

// Nobody but a connection of the application holds the database after close(): what is pending is told by close() all the same.
TEST_F(CloseTest, CloseSaysItAlsoWhileAConnectionIsOpen) {
  const Place at = place();
  make(at, local("a"));
  auto a = Database::open(at.home, "app", local("a"));
  ASSERT_TRUE(a);
  auto connection = a->connect();
  at.takes_nothing();
  ASSERT_EQ(run(*connection, "INSERT INTO t VALUES ('second')"), SQLITE_OK);
  const auto closed = a->close(Duration(0));
  ASSERT_FALSE(closed);
  EXPECT_TRUE(has(closed.error().message, "1 commit")) << closed.error().message;
  at.back();
  EXPECT_EQ(run(*connection, "SELECT onepen_synced()"), SQLITE_OK) << "the ownership goes on with the connection";
  connection->reset();
  EXPECT_EQ(seen_by_another_machine(), "first,second");
}

TEST_F(CloseTest, WhoeverListensAfterTheResetIsToldAtOnceAndOnce) {
  const Place at = place(), other = place();
  make(at, on("a"));
  auto a = Database::open(at.home, "app", on("a"));
  ASSERT_TRUE(a);
  std::atomic<int> early = 0;
  const auto before = a->on_reset([&](const Reset&) { ++early; });
  auto b = Database::open(other.home, "app", on("b"));
  ASSERT_TRUE(b);
  EXPECT_EQ(insert(*a, "too late"), SQLITE_AUTH);
  until([&] { return early.load() != 0; });
  int late = 0;
  const auto asked = std::this_thread::get_id();
  const auto after = a->on_reset([&](const Reset& reset) {
    ++late;
    EXPECT_EQ(reset.kind, ResetKind::fenced);
    EXPECT_EQ(std::this_thread::get_id(), asked) << "at once";
  });
  EXPECT_EQ(late, 1);
  EXPECT_FALSE(a->synced());
  EXPECT_EQ(insert(*a, "still too late"), SQLITE_CANTOPEN) << "no connection any more";
  static_cast<void>(a->close());
  EXPECT_EQ(late, 1);
  EXPECT_EQ(early.load(), 1);
}

// S38: acknowledged here alone, while the home was out of reach; somebody else wrote meanwhile. Kept, and said where.
TEST_F(CloseTest, WhatTheStreamCannotTakeAnyMoreIsInSalvageAndStatusSaysWhere) {
  const Place at = place(), other = place();
  make(at, local("a"));
  std::string copy;
  {
    auto a = Database::open(at.home, "app", local("a"));
    ASSERT_TRUE(a);
    EXPECT_TRUE(a->status().salvaged.empty());
    at.takes_nothing();
    ASSERT_EQ(insert(*a, "only here"), SQLITE_OK);
    auto b = Database::open(other.home, "app", on("b"));
    ASSERT_TRUE(b);
    ASSERT_EQ(insert(*b, "of b"), SQLITE_OK);
    at.back();
    EXPECT_FALSE(a->synced());
    until([&] { return a->status().role == Status::Role::reset; });
    const Status status = a->status();
    ASSERT_TRUE(status.reset);
    EXPECT_EQ(status.reset->kind, ResetKind::fenced);
    EXPECT_EQ(status.pending_commits, 1u);
    copy = status.reset->salvage_path;
    EXPECT_TRUE(std::filesystem::exists(copy + "/db-wal")) << "they stay in the copy until it is opened again: " << copy;
    static_cast<void>(a->close(Duration(0)));
  }
  auto again = Database::open(at.home, "app", local("a"));
  ASSERT_TRUE(again) << again.error().message;
  const std::string salvaged = again->status().salvaged;
  EXPECT_TRUE(salvaged.starts_with(folder.path() + "/a/salvage/app/")) << salvaged;
  std::ifstream manifest(salvaged + "/manifest.json");
  const std::string text{std::istreambuf_iterator<char>(manifest), {}};
  EXPECT_TRUE(has(text, "\"fenced\"")) << text;
  EXPECT_EQ(again->status().pending_commits, 0u);
  EXPECT_EQ(one(*again->connect(), "SELECT group_concat(x) FROM t"), "first,of b");
}

}  // namespace
}  // namespace onepen

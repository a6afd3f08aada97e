#include "base/ids.h"

#include <gtest/gtest.h>

#include "base/outcomes.h"

namespace onepen {
namespace {

TEST(StreamName, AcceptsSegments) {
  for (const char* name : {"app", "tenants/a-1/main.db", "A.b_c-9"}) EXPECT_TRUE(StreamName::parse(name)) << name;
}

TEST(StreamName, RefusesWhateverCouldLeaveTheHome) {
  for (const std::string& name :
       {std::string(), std::string("../x"), std::string("a/../b"), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."),
        std::string("a/.hidden"), std::string("a b"), std::string("a\0b", 3), std::string(201, 'a'), std::string("\xc3\xa9")}) {
    auto parsed = StreamName::parse(name);
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().outcome, Outcome::invalid);
    EXPECT_NE(parsed.error().message.find("is not a database name"), std::string::npos);
  }
}

TEST(Id128, TextRoundTrip) {
  const ClaimId id{0x0123456789abcdefULL, 0xfedcba9876543210ULL};
  EXPECT_EQ(to_text(id), "0123456789abcdeffedcba9876543210");
  ClaimId back;
  EXPECT_TRUE(parse(to_text(id), back));
  EXPECT_EQ(back, id);
  EXPECT_FALSE(parse("0123456789abcdeffedcba987654321", back));
  EXPECT_FALSE(parse("0123456789abcdeffedcba987654321g", back));
}

TEST(Outcomes, EveryRowIsAtItsOwnIndexAndWordsAreUnique) {
  std::size_t index = 0;
  for (const OutcomeRow& a : outcome_table()) {
    EXPECT_EQ(static_cast<std::size_t>(a.outcome), index++);
    for (const OutcomeRow& b : outcome_table()) {
      if (&a != &b) {
        EXPECT_NE(a.word, b.word);
      }
    }
  }
}

}  // namespace
}  // namespace onepen

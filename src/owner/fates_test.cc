#include "owner/fates.h"

#include <gtest/gtest.h>

namespace onepen::owner {
namespace {

TEST(Fates, AnOldFateIsNeverGuessed) {
  Fates fates;
  for (std::size_t i = 0; i < kKeptFates + 10; ++i) {
    const Ticket ticket = fates.add();
    EXPECT_FALSE(fates.decided(ticket));
    fates.decide(ticket, Fate{ticket % 2 == 0 ? Fate::Kind::refused : Fate::Kind::acknowledged});
  }
  EXPECT_EQ(fates.pending(), 0u);
  EXPECT_TRUE(fates.decided(1));
  EXPECT_EQ(fates.of(1).kind, Fate::Kind::undecided);
  EXPECT_EQ(fates.of(10).kind, Fate::Kind::undecided);
  EXPECT_EQ(fates.of(11).kind, Fate::Kind::acknowledged);
  EXPECT_EQ(fates.of(fates.last()).kind, Fate::Kind::refused);
}

TEST(Fates, APendingOneKeepsWhatCameAfterIt) {
  Fates fates;
  fates.add();
  for (std::size_t i = 0; i < kKeptFates + 10; ++i) fates.decide(fates.add(), Fate{Fate::Kind::acknowledged});
  EXPECT_EQ(fates.pending(), 1u);
  EXPECT_FALSE(fates.decided(1));
  fates.decide(1, Fate{Fate::Kind::undecided});
  fates.decide(1, Fate{Fate::Kind::acknowledged});
  EXPECT_EQ(fates.pending(), 0u);
}

}  // namespace
}  // namespace onepen::owner

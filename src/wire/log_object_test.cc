#include "wire/log_object.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/checksum.h"
#include "wire/ready_record.h"

namespace onepen::wire {
namespace {

StreamName name(std::string_view text) { return StreamName::parse(text).value(); }

LogObject claim_object() {
  LogObject o{.kind = ObjectKind::claim,
              .stream = name("shop/orders"),
              .id = 7,
              .incarnation = {0x0102030405060708, 0x090a0b0c0d0e0f10},
              .epoch = {3},
              .claim_id = {0xc1, 0xc2},
              .put_id = {0xa1, 0xa2},
              .prev_id = 6,
              .prev_checksum = 0x1122334455667788,
              .claim_at = 4,
              .claims_since_data = 2,
              .time_ms = 1'700'000'000'123};
  o.claim.owner = {.name = "web", .host = "b.example", .version = "0.1.0", .pid = 4711, .started_ms = 1'700'000'000'000, .why = "open", .liveness = "x"};
  o.claim.over = ClaimId{0xb1, 0xb2};
  o.claim.if_tail = core::Position{6, 2};
  o.claim.closed_epoch = {2};
  o.claim.closed_sequence = {9};
  o.claim.contenders = {"web", "batch"};
  return o;
}

LogObject appends_object(ByteView one, ByteView two) {
  LogObject o{.kind = ObjectKind::appends,
              .stream = name("app"),
              .id = 2,
              .incarnation = {1, 2},
              .epoch = {1},
              .claim_id = {3, 4},
              .put_id = {5, 6},
              .first = {1},
              .prev_id = 1,
              .prev_checksum = 0xfeed,
              .claim_at = 1,
              .time_ms = 1};
  o.appends.push_back({core::RecordKind::data, digest_of(one), one});
  o.appends.push_back({core::RecordKind::control, digest_of(two), two});
  return o;
}

LogObject history_object() {
  LogObject o{.kind = ObjectKind::history,
              .stream = name("app"),
              .id = 3,
              .incarnation = {1, 2},
              .put_id = {5, 6},
              .prev_id = 2,
              .prev_checksum = 9,
              .claim_at = 1,
              .time_ms = 1};
  o.history = {.next = {7, 8}, .next_ordinal = 2, .floor = {4}, .newest_claim = {11, 12}, .act = "restore", .common = {2, 1}, .snapshot = "snapshot"};
  o.by = {.name = "admin", .host = "h", .why = "restore"};
  o.log_bytes = 12345;
  return o;
}

LogObject tombstone_object() {
  auto o = history_object();
  o.kind = ObjectKind::tombstone;
  o.history = {};
  return o;
}

LogObject evidence_object() {
  auto o = history_object();
  o.kind = ObjectKind::evidence;
  o.history = {};
  o.by = {};
  o.epoch = {3};
  o.claim_id = {9, 9};
  o.what = "commit 7 is not there";
  return o;
}

std::string hex(ByteView bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    static constexpr char kDigits[] = "0123456789abcdef";
    auto b = std::to_integer<unsigned>(bytes[i]);
    out += kDigits[b >> 4];
    out += kDigits[b & 15];
    out += i % 32 == 31 ? '\n' : ' ';
  }
  out.back() = '\n';
  return out;
}

// ONEPEN_REWRITE=1 writes the files anew; a change of one is a change of the format and needs a new version.
void golden(const std::string& file, ByteView bytes) {
  auto path = std::string(ONEPEN_SOURCE_DIR) + "/src/wire/golden/" + file;
  if (std::getenv("ONEPEN_REWRITE") != nullptr) std::ofstream(path) << hex(bytes);
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), hex(bytes)) << file;
}

TEST(LogObject, golden_bytes) {
  golden("log-object-claim.hex", encode(claim_object()));
  golden("log-object-appends.hex", encode(appends_object(as_bytes("hello"), as_bytes("ready"))));
  golden("log-object-history.hex", encode(history_object()));
  golden("log-object-tombstone.hex", encode(tombstone_object()));
  golden("log-object-evidence.hex", encode(evidence_object()));
}

TEST(LogObject, claim_comes_back) {
  auto o = claim_object();
  auto bytes = encode(o);
  auto back = decode_log_object(bytes);
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(back->kind, ObjectKind::claim);
  EXPECT_EQ(back->stream, o.stream);
  EXPECT_EQ(back->id, 7u);
  EXPECT_EQ(back->incarnation, o.incarnation);
  EXPECT_EQ(back->epoch, o.epoch);
  EXPECT_EQ(back->claim_id, o.claim_id);
  EXPECT_EQ(back->put_id, o.put_id);
  EXPECT_EQ(back->prev_id, 6u);
  EXPECT_EQ(back->prev_checksum, o.prev_checksum);
  EXPECT_EQ(back->claim_at, 4u);
  EXPECT_EQ(back->claims_since_data, 2u);
  EXPECT_EQ(back->time_ms, o.time_ms);
  EXPECT_FALSE(back->raced);
  EXPECT_EQ(back->claim, o.claim);
  EXPECT_EQ(back->checksum, checksum_of(bytes));
}

TEST(LogObject, appends_and_history_come_back) {
  auto bytes = encode(appends_object(as_bytes("hello"), {}));
  auto back = decode_log_object(bytes);
  ASSERT_TRUE(back) << back.error().what;
  ASSERT_EQ(back->appends.size(), 2u);
  EXPECT_EQ(as_text(back->appends[0].payload), "hello");
  EXPECT_EQ(back->appends[0].digest, digest_of(as_bytes("hello")));
  EXPECT_EQ(back->appends[1].kind, core::RecordKind::control);
  EXPECT_TRUE(back->appends[1].payload.empty());
  auto history = encode(history_object());
  auto again = decode_log_object(history);
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(again->history, history_object().history);
  EXPECT_EQ(again->by, history_object().by);
  EXPECT_EQ(again->log_bytes, 12345u);
  EXPECT_EQ(again->size, history.size());
  auto stone = encode(tombstone_object());
  EXPECT_EQ(decode_log_object(stone)->by.name, "admin");
  auto evidence = encode(evidence_object());
  EXPECT_EQ(decode_log_object(evidence)->what, "commit 7 is not there");
}

TEST(LogObject, long_owner_texts_are_cut_not_refused) {
  auto o = claim_object();
  o.claim.owner.host = std::string(5000, 'h');
  auto bytes = encode(o);
  auto back = decode_log_object(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->claim.owner.host.size(), kMaxOwnerTextBytes);
}

TEST(LogObject, every_truncation_is_damage_and_says_where) {
  for (const auto& bytes : {encode(claim_object()), encode(appends_object(as_bytes("hello"), as_bytes("x"))), encode(history_object()),
                            encode(tombstone_object()), encode(evidence_object())})
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      auto back = decode_log_object(ByteView(bytes).first(n));
      ASSERT_FALSE(back) << n;
      EXPECT_EQ(back.error().kind, ObjectFault::Kind::damaged);
      EXPECT_LE(back.error().at, n);
      EXPECT_FALSE(back.error().what.empty());
    }
}

TEST(LogObject, every_flipped_bit_is_noticed) {
  for (auto bytes : {encode(claim_object()), encode(appends_object(as_bytes("hello"), as_bytes("x"))), encode(history_object()), encode(tombstone_object()),
                     encode(evidence_object())})
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto flip = static_cast<std::byte>(1u << (bit % 8));
      bytes[bit / 8] ^= flip;
      EXPECT_FALSE(decode_log_object(bytes)) << "bit " << bit;
      bytes[bit / 8] ^= flip;
    }
}

TEST(LogObject, more_after_the_end_is_damage) {
  auto bytes = encode(claim_object());
  bytes.push_back(std::byte{0});
  auto back = decode_log_object(bytes);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().kind, ObjectFault::Kind::damaged);
}

TEST(LogObject, a_newer_format_is_told_from_damage) {
  auto bytes = encode(claim_object());
  bytes[4] = std::byte{2};
  auto back = decode_log_object(bytes);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().kind, ObjectFault::Kind::newer_format);
  EXPECT_NE(back.error().what.find("format 2"), std::string::npos);
}

TEST(LogObject, right_checksums_do_not_make_wrong_numbers_right) {
  auto refused = [](LogObject o) {
    auto bytes = encode(o);
    auto back = decode_log_object(bytes);
    return !back && back.error().kind == ObjectFault::Kind::damaged;
  };
  auto o = claim_object();
  o.prev_id = o.id;
  EXPECT_TRUE(refused(o));
  o = claim_object();
  o.epoch = {kMaxWireNumber + 1};
  EXPECT_TRUE(refused(o));
  o = claim_object();
  o.first = {1};
  EXPECT_TRUE(refused(o));
  o = claim_object();
  o.claim_id = {};
  EXPECT_TRUE(refused(o));
  o = claim_object();
  o.id = 0;
  EXPECT_TRUE(refused(o));
  o = appends_object(as_bytes("a"), as_bytes("b"));
  o.appends[0].kind = core::RecordKind::claim;
  EXPECT_TRUE(refused(o));
  o = appends_object(as_bytes("a"), as_bytes("b"));
  o.appends.clear();
  EXPECT_TRUE(refused(o));
  o = history_object();
  o.history.next_ordinal = 1;
  EXPECT_TRUE(refused(o));
  o = history_object();
  o.history.common = {3, 0};
  EXPECT_TRUE(refused(o)) << "more in common than there was";
  o = evidence_object();
  o.claim_id = {};
  EXPECT_TRUE(refused(o));
}

TEST(LogObject, claim_digest_is_of_what_was_asked_not_of_where_it_lies) {
  auto o = claim_object();
  auto first = claim_digest(o);
  o.id = 9;
  o.prev_id = 8;
  o.claim.closed_sequence = {11};
  o.claim.contenders.push_back("late");
  EXPECT_EQ(claim_digest(o), first);
  o.claim.owner.why = "takeover";
  EXPECT_NE(claim_digest(o), first);
}

TEST(ReadyRecord, an_orderly_end_is_told_from_other_records) {
  EXPECT_TRUE(decode_released(encode_released()));
  EXPECT_FALSE(decode_ready(encode_released()));
  EXPECT_FALSE(decode_released(encode_ready("released")));
  for (std::string_view other : {"", "released", "{}", R"({"record":"releas"})", R"({"record":"released"}x)"}) EXPECT_FALSE(decode_released(as_bytes(other)));
}

TEST(ReadyRecord, comes_back_and_is_told_from_other_control_records) {
  EXPECT_EQ(decode_ready(encode_ready("https://b.example:7000/\"x\"")), "https://b.example:7000/\"x\"");
  EXPECT_EQ(decode_ready(encode_ready("")), "");
  EXPECT_EQ(as_text(encode_ready("e")), R"({"record":"ready","endpoint":"e"})");
  for (std::string_view other : {"", "something else", "[]", "{}", R"({"record":"move","endpoint":"e"})", R"({"record":"ready"})",
                                 R"({"record":"ready","endpoint":7})", R"({"record":"ready","endpoint":"e"}x)"})
    EXPECT_EQ(decode_ready(as_bytes(other)), std::nullopt) << other;
  auto bytes = encode_ready("x");
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_EQ(decode_ready(ByteView(bytes).first(n)), std::nullopt) << n;
  EXPECT_EQ(decode_ready(encode_ready(std::string(5000, 'e')))->size(), kMaxEndpointBytes);
}

}  // namespace
}  // namespace onepen::wire

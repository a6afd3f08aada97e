#include "wire/pack.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/checksum.h"

namespace onepen::wire {
namespace {

StreamName stream_name() { return StreamName::parse("shop/orders").value(); }

FoldState fold_state(std::uint64_t next_id) {
  FoldState f;
  f.state.presence = core::Presence::present;
  f.state.incarnation = {1, 2};
  f.state.tail = {next_id - 1, 3};
  f.state.owner.epoch = {7};
  f.state.owner.claim_id = {8, 9};
  f.state.owner.live = true;
  f.state.owner_producer = "onepen";
  f.next_id = next_id;
  f.prev_id = next_id - 1;
  f.prev_checksum = 0x1122334455667788;
  f.claim_at = 2;
  f.ordinal = 1;
  f.content_from = 1;
  f.log_bytes = 4711;
  f.endpoint = "http://a:1";
  f.released = true;
  f.removed_ms = -1;
  f.suspect = "why";
  return f;
}

Pack pack_of_three(ByteView whole) {
  Pack p{.stream = stream_name(), .first = 5, .last = 9, .log_bytes_before = 1234};
  p.entries.push_back({PackEntry::Kind::whole, 5, 55, whole});
  p.entries.push_back({PackEntry::Kind::in_place, 7, 77, {}});
  p.entries.push_back({PackEntry::Kind::dropped, 9, 99, {}});
  p.end = fold_state(10);
  return p;
}

SnapshotHead head_of_two() {
  SnapshotHead h{.stream = stream_name()};
  h.info.id = "00000000000000000009-0000000000000000000000000000000a";
  h.info.offset = {"000001.0000000000000009.00003.0000000b"};
  h.info.incarnation = {1, 2};
  h.info.epoch = {7};
  h.info.time_ms = 1'700'000'000'000;
  h.info.log_bytes = 4711;
  h.info.about = to_bytes(as_bytes("about"));
  h.at = {9, 3};
  h.begins_history = true;
  h.parts = {{10, 11}, {12, 13}};
  h.fold = fold_state(10);
  return h;
}

void golden_pack(const std::string& file, ByteView bytes) {  // ONEPEN_REWRITE=1 writes it anew: a change is a new format version
  std::string hex;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    static constexpr char kDigits[] = "0123456789abcdef";
    const auto b = std::to_integer<unsigned>(bytes[i]);
    hex += kDigits[b >> 4];
    hex += kDigits[b & 15];
    hex += i % 32 == 31 || i + 1 == bytes.size() ? '\n' : ' ';
  }
  const auto path = std::string(ONEPEN_SOURCE_DIR) + "/src/wire/golden/" + file;
  if (std::getenv("ONEPEN_REWRITE") != nullptr) std::ofstream(path) << hex;
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), hex) << file;
}

TEST(Pack, golden_bytes) {
  golden_pack("pack.hex", encode(pack_of_three(as_bytes("an object"))));
  golden_pack("snapshot-head.hex", encode(head_of_two()));
}

TEST(Pack, comes_back) {
  const auto bytes = encode(pack_of_three(as_bytes("an object")));
  auto back = decode_pack(bytes);
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(back->stream, stream_name());
  EXPECT_EQ(back->first, 5u);
  EXPECT_EQ(back->last, 9u);
  EXPECT_EQ(back->log_bytes_before, 1234u);
  EXPECT_EQ(back->end, fold_state(10));
  ASSERT_EQ(back->entries.size(), 3u);
  EXPECT_EQ(as_text(back->entries[0].bytes), "an object");
  EXPECT_EQ(back->entries[1].kind, PackEntry::Kind::in_place);
  EXPECT_EQ(back->entries[2].checksum, 99u);
}

TEST(SnapshotHead, comes_back) {
  const auto bytes = encode(head_of_two());
  auto back = decode_snapshot_head(bytes);
  ASSERT_TRUE(back) << back.error().what;
  const auto h = head_of_two();
  EXPECT_EQ(back->info.id, h.info.id);
  EXPECT_EQ(back->info.offset, h.info.offset);
  EXPECT_EQ(back->info.incarnation, h.info.incarnation);
  EXPECT_EQ(back->info.epoch, h.info.epoch);
  EXPECT_EQ(back->info.time_ms, h.info.time_ms);
  EXPECT_EQ(back->info.log_bytes, h.info.log_bytes);
  EXPECT_EQ(back->info.about, h.info.about);
  EXPECT_EQ(back->info.parts, 2u);
  EXPECT_EQ(back->info.bytes, 22u);
  EXPECT_EQ(back->at, h.at);
  EXPECT_TRUE(back->begins_history);
  EXPECT_EQ(back->parts, h.parts);
  EXPECT_EQ(back->fold, h.fold);
}

TEST(Pack, every_truncation_and_every_flipped_bit_is_noticed) {
  auto pack = encode(pack_of_three(as_bytes("an object"))), head = encode(head_of_two());
  for (std::size_t n = 0; n < pack.size(); ++n) EXPECT_FALSE(decode_pack(ByteView(pack).first(n))) << n;
  for (std::size_t n = 0; n < head.size(); ++n) EXPECT_FALSE(decode_snapshot_head(ByteView(head).first(n))) << n;
  auto flips = [](Bytes& bytes, auto decode) {
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      const auto flip = static_cast<std::byte>(1u << (bit % 8));
      bytes[bit / 8] ^= flip;
      EXPECT_FALSE(decode(bytes)) << "bit " << bit;
      bytes[bit / 8] ^= flip;
    }
  };
  flips(pack, [](ByteView b) { return decode_pack(b).has_value(); });
  flips(head, [](ByteView b) { return decode_snapshot_head(b).has_value(); });
}

TEST(Pack, a_newer_format_is_told_from_damage) {
  auto bytes = encode(pack_of_three(as_bytes("an object")));
  bytes[4] = std::byte{2};
  EXPECT_EQ(decode_pack(bytes).error().kind, ObjectFault::Kind::newer_format);
  bytes = encode(head_of_two());
  bytes[4] = std::byte{2};
  EXPECT_EQ(decode_snapshot_head(bytes).error().kind, ObjectFault::Kind::newer_format);
}

TEST(Pack, right_checksums_do_not_make_wrong_numbers_right) {
  auto refused = [](const Pack& p) { return !decode_pack(encode(p)); };
  auto p = pack_of_three(as_bytes("x"));
  p.last = 4;
  EXPECT_TRUE(refused(p)) << "an empty run";
  p = pack_of_three(as_bytes("x"));
  p.end.next_id = 11;
  EXPECT_TRUE(refused(p)) << "the state of another place";
  p = pack_of_three(as_bytes("x"));
  std::swap(p.entries[0], p.entries[1]);
  EXPECT_TRUE(refused(p)) << "entries out of order";
  p = pack_of_three(as_bytes("x"));
  p.entries[2].id = 10;
  EXPECT_TRUE(refused(p)) << "an object outside its run";
  p = pack_of_three({});
  EXPECT_TRUE(refused(p)) << "a whole object without bytes";
  auto h = head_of_two();
  h.at = {11, 0};
  EXPECT_FALSE(decode_snapshot_head(encode(h))) << "a fold that ends before";
  h = head_of_two();
  h.parts[0].size = core::kMaxSnapshotPart + 1;
  EXPECT_FALSE(decode_snapshot_head(encode(h)));
  h = head_of_two();
  h.fold.ordinal = kMaxOrdinal + 1;
  EXPECT_FALSE(decode_snapshot_head(encode(h)));
}

}  // namespace
}  // namespace onepen::wire

#include "wire/commit_frame.h"

#include <gtest/gtest.h>

#include <random>

#include "base/checksum.h"

namespace onepen::wire {
namespace {

Bytes noise(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bytes out(size);
  for (auto& b : out) b = static_cast<std::byte>(random() & 0xff);
  return out;
}
std::string hex(ByteView bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    out += digits[std::to_integer<unsigned>(b) >> 4];
    out += digits[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}
// Recomputes the checksum at the end, so that what is behind it is reached.
Bytes resealed(Bytes part) {
  part.resize(part.size() - kPartTrailerBytes);
  ByteWriter(part).u<std::uint64_t>(xxh3(part));
  return part;
}

struct Collected {
  std::vector<Bytes> parts;
  PartEncoder::Sink sink() {
    return [this](Bytes part) -> Result<> {
      parts.push_back(std::move(part));
      return {};
    };
  }
};

CommitHead head_of(std::uint32_t page_size, std::uint32_t pages) {
  return {.ordinal = 7, .page_size = page_size, .page_count_after = pages, .before = {0x1122334455667788, 3}};
}

// One raw page of noise: its bytes depend on no compressor.
TEST(CommitFrame, GoldenRaw) {
  PageCodec codec;
  Collected out;
  PartEncoder encoder(codec, head_of(512, 9), out.sink());
  const Bytes image = noise(512, 1);
  ASSERT_TRUE(encoder.add(4, image));
  ASSERT_TRUE(encoder.finish(0xaabbccddeeff0011));
  ASSERT_EQ(out.parts.size(), 1u);
  const Bytes& part = out.parts[0];
  EXPECT_EQ(hex(ByteView(part).first(kPartHeaderBytes + kPageHeaderBytes)),
            "4f504350"          // OPCP
            "0100"              // version 1
            "0100"              // last
            "0700000000000000"  // ordinal
            "01000000"          // part 1
            "00020000"          // page size
            "09000000"          // page count after
            "01000000"          // pages here
            "8877665544332211"  // page sum before
            "03000000"          // page count before
            "00000000"          // reserved
            "1100ffeeddccbbaa"  // page sum after
            "04000000"          // page number
            "00"                // raw
            "00020000");        // length
  EXPECT_EQ(part.size(), kPartHeaderBytes + kPageHeaderBytes + 512 + kPartTrailerBytes);
  EXPECT_EQ(hex(ByteView(part).last(8)), "1149fb03acbb5dbe");
}

Bytes steps(std::size_t size) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 7 & 0xff);
  return out;
}
Bytes unhex(std::string_view text) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) out.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return out;
}

// Bytes as version 1 wrote them once: a compressed page and a delta. They stay readable, whatever zstd is installed.
TEST(CommitFrame, GoldenCompressed) {
  PageCodec codec;
  Bytes changed = steps(512);
  changed[100] ^= std::byte{1};
  const Bytes payload = unhex(
      "4f50435001000100070000000000000001000000000200000900000002000000887766554433221103000000000000001100ffeeddccbbaa"
      "01000000011200000028b52ffd00004d00001000000100fb2ac00203000000021600000028b52ffd00006d0000200000010002009740c53f"
      "012cdde6d60f28db0bc8");
  auto part = decode_part(payload);
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->head, head_of(512, 9));
  ASSERT_EQ(part->pages.size(), 2u);
  EXPECT_EQ(part->pages[0].encoding, PageEncoding::zstd);
  EXPECT_EQ(part->pages[1].encoding, PageEncoding::delta);
  Bytes image(512);
  ASSERT_TRUE(codec.unpack(part->pages[0], {}, image));
  EXPECT_EQ(image, Bytes(512));
  ASSERT_TRUE(codec.unpack(part->pages[1], steps(512), image));
  EXPECT_EQ(image, changed);
}

TEST(CommitFrame, RoundTripsEveryEncoding) {
  for (const std::uint32_t page_size : {512u, 1024u, 4096u, 65536u}) {
    PageCodec codec;
    Collected out;
    PartEncoder encoder(codec, head_of(page_size, 100), out.sink());
    const Bytes zeros(page_size), random = noise(page_size, page_size);
    Bytes changed = random;
    changed[17] ^= std::byte{0x40};
    ASSERT_TRUE(encoder.add(1, zeros));
    ASSERT_TRUE(encoder.add(2, random));
    ASSERT_TRUE(encoder.add(50, changed, random));
    ASSERT_TRUE(encoder.add(100, zeros, random));  // the delta does not shrink: the plain image is taken
    ASSERT_TRUE(encoder.finish(42));
    ASSERT_EQ(out.parts.size(), 1u);
    auto part = decode_part(out.parts[0]);
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_EQ(part->head, head_of(page_size, 100));
    EXPECT_TRUE(part->last);
    EXPECT_EQ(part->number, 1u);
    EXPECT_EQ(part->sum_after, 42u);
    ASSERT_EQ(part->pages.size(), 4u);
    EXPECT_EQ(part->pages[0].encoding, PageEncoding::zstd);
    EXPECT_EQ(part->pages[1].encoding, PageEncoding::raw);
    EXPECT_EQ(part->pages[2].encoding, PageEncoding::delta);
    EXPECT_LT(part->pages[2].data.size(), 100u);
    EXPECT_EQ(part->pages[3].encoding, PageEncoding::zstd);
    const std::vector<Bytes> want = {zeros, random, changed, zeros};
    for (std::size_t i = 0; i < want.size(); ++i) {
      Bytes image(page_size);
      auto done = codec.unpack(part->pages[i], random, image);
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_EQ(image, want[i]) << i;
    }
    Bytes image(page_size);
    EXPECT_FALSE(codec.unpack(part->pages[2], {}, image)) << "a delta needs the image before";
  }
}

TEST(CommitFrame, PartsAreBoundedAndTheLastIsNeverEmpty) {
  for (const std::uint32_t page_size : {512u, 4096u, 65536u}) {
    const std::uint32_t per_part = static_cast<std::uint32_t>(kMaxPartImageBytes / page_size);
    for (const std::uint32_t pages : {per_part - 1, per_part, per_part + 1, 2 * per_part, 2 * per_part + 3}) {
      PageCodec codec;
      Collected out;
      PartEncoder encoder(codec, head_of(page_size, pages), out.sink());
      const Bytes random = noise(page_size, 5);
      for (std::uint32_t n = 1; n <= pages; ++n) ASSERT_TRUE(encoder.add(n, random));
      ASSERT_TRUE(encoder.finish(1));
      ASSERT_EQ(out.parts.size(), (pages + per_part - 1) / per_part);
      EXPECT_EQ(PartEncoder::parts_of(pages, page_size), out.parts.size()) << "what a copy counts landed commits by";
      std::uint32_t seen = 0;
      for (std::size_t i = 0; i < out.parts.size(); ++i) {
        EXPECT_LE(out.parts[i].size(), kMaxPartBytes);
        auto part = decode_part(out.parts[i]);
        ASSERT_TRUE(part) << part.error().message;
        EXPECT_EQ(part->number, i + 1);
        EXPECT_EQ(part->last, i + 1 == out.parts.size());
        EXPECT_EQ(part->sum_after, part->last ? 1u : 0u);
        ASSERT_FALSE(part->pages.empty());
        for (const auto& page : part->pages) EXPECT_EQ(page.number, ++seen);
      }
      EXPECT_EQ(seen, pages);
    }
  }
}

TEST(CommitFrame, EncoderRefusesWhatTheDecoderWould) {
  PageCodec codec;
  Collected out;
  const Bytes image(512);
  PartEncoder encoder(codec, head_of(512, 9), out.sink());
  EXPECT_FALSE(encoder.finish(0));
  EXPECT_FALSE(encoder.add(0, image));
  EXPECT_FALSE(encoder.add(10, image));
  EXPECT_FALSE(encoder.add(1, ByteView(image).first(511)));
  EXPECT_TRUE(encoder.add(5, image));
  EXPECT_FALSE(encoder.add(5, image));
  EXPECT_FALSE(encoder.add(4, image));
  EXPECT_TRUE(out.parts.empty());
  PartEncoder refused(codec, head_of(512, 9), [](Bytes) -> Result<> { return tl::unexpected(Error{Outcome::unavailable, "no", {}}); });
  EXPECT_TRUE(refused.add(1, image));
  auto answer = refused.finish(1);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().outcome, Outcome::unavailable);
}

Bytes small_part() {
  PageCodec codec;
  Collected out;
  PartEncoder encoder(codec, head_of(512, 9), out.sink());
  EXPECT_TRUE(encoder.add(2, noise(512, 1)));
  EXPECT_TRUE(encoder.add(4, Bytes(512)));
  EXPECT_TRUE(encoder.finish(3));
  return out.parts.at(0);
}

TEST(CommitFrame, EveryFlippedBitAndEveryCutIsRefused) {
  const Bytes good = small_part();
  ASSERT_TRUE(decode_part(good));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_FALSE(decode_part(bad)) << bit;
  }
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(decode_part(ByteView(good).first(size))) << size;
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_part(longer));
  EXPECT_FALSE(decode_part(Bytes(kMaxPartBytes + 1)));
}

// With a checksum that fits, every field is still checked.
TEST(CommitFrame, ALyingPartIsRefused) {
  const Bytes good = small_part();
  const auto lie = [&](std::size_t at, std::byte value) {
    Bytes bad = good;
    bad[at] = value;
    return decode_part(resealed(std::move(bad)));
  };
  EXPECT_TRUE(lie(8, std::byte{9})) << "another ordinal is fine by itself";
  auto newer = lie(4, std::byte{2});
  ASSERT_FALSE(newer);
  EXPECT_NE(newer.error().message.find("newer Onepen"), std::string::npos);
  EXPECT_FALSE(lie(6, std::byte{3}));   // unknown flag
  EXPECT_FALSE(lie(6, std::byte{0}));   // not last, yet a sum after
  EXPECT_FALSE(lie(8, std::byte{0}));   // ordinal 0
  EXPECT_FALSE(lie(16, std::byte{0}));  // part 0
  EXPECT_FALSE(lie(20, std::byte{1}));  // page size 513
  EXPECT_FALSE(lie(24, std::byte{3}));  // page 4 of 3
  EXPECT_FALSE(lie(24, std::byte{0}));  // no pages after
  EXPECT_FALSE(lie(28, std::byte{1}));  // fewer pages than there are
  EXPECT_FALSE(lie(28, std::byte{3}));  // more
  EXPECT_FALSE(lie(28, std::byte{0}));
  EXPECT_FALSE(lie(31, std::byte{0xff}));  // four billion pages: refused before memory is taken
  EXPECT_FALSE(lie(44, std::byte{1}));     // reserved
  EXPECT_FALSE(lie(56, std::byte{0}));     // page 0
  EXPECT_FALSE(lie(56, std::byte{4}));     // page 4 twice
  EXPECT_FALSE(lie(60, std::byte{3}));     // unknown encoding
  EXPECT_FALSE(lie(60, std::byte{1}));     // zstd of the whole page's length
  EXPECT_FALSE(lie(61, std::byte{1}));     // raw, too short
}

}  // namespace
}  // namespace onepen::wire

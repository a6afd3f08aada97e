#include "sqlite/snapshot_part.h"

#include <fmt/format.h>
#include <zstd.h>

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checksum.h"
#include "sqlite/page_sum.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {
namespace {

constexpr std::string_view kAboutMagic = "OPSA", kPartMagic = "OPSP";
constexpr int kPartLevel = 1;  // a snapshot is read about as often as it is written; higher levels cost more than the disk they save
constexpr std::size_t kChecksumBytes = 8;

tl::unexpected<Error> damaged_about(const std::string& what) {
  return tl::unexpected(Error{Outcome::state_mismatch, "damaged description of a snapshot: " + what, std::nullopt});
}
tl::unexpected<Error> damaged_part(const std::string& what) {
  return tl::unexpected(Error{Outcome::state_mismatch, "damaged part of a snapshot: " + what, std::nullopt});
}
// The version is told before the checksum: a later format may check itself differently.
tl::unexpected<Error> newer(std::string_view of, std::uint16_t version) {
  return tl::unexpected(Error{Outcome::invalid,
                              fmt::format("the {} of a snapshot has format {}, this Onepen reads format {}: use a newer Onepen", of, version, kSnapshotVersion),
                              std::nullopt});
}
bool checksum_fits(ByteView bytes) {
  ByteReader trailer(bytes.last(kChecksumBytes));
  return xxh3(bytes.first(bytes.size() - kChecksumBytes)) == trailer.u<std::uint64_t>();
}

// The runs of a part, checked against its page count and against the database's.
Result<> read_runs(ByteReader& in, std::uint32_t count, SnapshotPart& part) {
  part.runs.reserve(count);
  std::uint64_t pages = 0, above = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    PageRun run;
    run.first = in.u<std::uint32_t>();
    run.count = in.u<std::uint32_t>();
    const std::uint64_t end = std::uint64_t{run.first} + run.count;  // one past
    if (run.first == 0 || run.count == 0 || end - 1 > part.page_count) {
      return damaged_part(fmt::format("{} pages from {} of {}", run.count, run.first, part.page_count));
    }
    // With a gap: two runs that touch are one.
    if (i != 0 && run.first <= above) return damaged_part(fmt::format("page {} after page {}: pages must rise", run.first, above - 1));
    const std::uint32_t lock_page = lock_byte_page(part.page_size);
    if (run.first <= lock_page && lock_page < end) return damaged_part(fmt::format("it holds page {}, which has no content", lock_page));
    above = end;
    pages += run.count;
    part.runs.push_back(run);
  }
  if (pages != part.pages) return damaged_part(fmt::format("it names {} pages and says that it holds {}", pages, part.pages));
  return {};
}

}  // namespace

bool all_zeros(ByteView image) { return image.empty() || (image[0] == std::byte{0} && std::memcmp(image.data(), image.data() + 1, image.size() - 1) == 0); }

Bytes encode_snapshot_about(const SnapshotAbout& about) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.raw(as_bytes(kAboutMagic));
  out.u<std::uint16_t>(kSnapshotVersion);
  out.u<std::uint16_t>(0);
  out.u<std::uint64_t>(about.ordinal);
  out.u<std::uint64_t>(about.page_sum);
  out.u<std::uint32_t>(about.page_count);
  out.u<std::uint32_t>(about.page_size);
  out.u<std::uint64_t>(xxh3(bytes));
  return bytes;
}

Result<SnapshotAbout> decode_snapshot_about(ByteView bytes) {
  ByteReader in(bytes);
  const std::string_view magic = as_text(in.raw(kAboutMagic.size()));
  const auto version = in.u<std::uint16_t>();
  const auto flags = in.u<std::uint16_t>();
  if (in.failed()) return damaged_about("cut short");
  if (magic != kAboutMagic) return damaged_about("no magic: this is not a snapshot of a database");
  if (version != kSnapshotVersion) return newer("description", version);
  if (bytes.size() != kSnapshotAboutBytes) return damaged_about(fmt::format("{} bytes instead of {}", bytes.size(), kSnapshotAboutBytes));
  if (!checksum_fits(bytes)) return damaged_about("its checksum does not fit its bytes");
  SnapshotAbout about;
  about.ordinal = in.u<std::uint64_t>();
  about.page_sum = in.u<std::uint64_t>();
  about.page_count = in.u<std::uint32_t>();
  about.page_size = in.u<std::uint32_t>();
  if (flags != 0) return damaged_about(fmt::format("unknown flags {:#x}", flags));
  if (about.ordinal == 0) {
    if (about != SnapshotAbout{}) return damaged_about("pages without a commit");
    return about;
  }
  if (!wire::valid_page_size(about.page_size)) return damaged_about(fmt::format("page size {}", about.page_size));
  if (about.page_count == 0 || about.page_count > wire::kMaxPageCount) return damaged_about(fmt::format("page count {}", about.page_count));
  return about;
}

Result<SnapshotPart> decode_snapshot_part(ByteView bytes) {
  if (bytes.size() > kMaxSnapshotPartBytes) return damaged_part(fmt::format("{} bytes, more than {}", bytes.size(), kMaxSnapshotPartBytes));
  ByteReader in(bytes);
  const std::string_view magic = as_text(in.raw(kPartMagic.size()));
  const auto version = in.u<std::uint16_t>();
  const auto flags = in.u<std::uint16_t>();
  if (in.failed()) return damaged_part("cut short");
  if (magic != kPartMagic) return damaged_part("no magic: this is not a part of a snapshot of a database");
  if (version != kSnapshotVersion) return newer("part", version);
  if (bytes.size() < kSnapshotPartHeaderBytes + kChecksumBytes) return damaged_part("cut short in the header");
  if (!checksum_fits(bytes)) return damaged_part("its checksum does not fit its bytes");
  SnapshotPart part;
  part.number = in.u<std::uint32_t>();
  part.page_size = in.u<std::uint32_t>();
  part.page_count = in.u<std::uint32_t>();
  part.pages = in.u<std::uint32_t>();
  const auto run_count = in.u<std::uint32_t>();
  const auto packed = in.u<std::uint32_t>();
  if (flags != 0) return damaged_part(fmt::format("unknown flags {:#x}", flags));
  if (!wire::valid_page_size(part.page_size)) return damaged_part(fmt::format("page size {}", part.page_size));
  if (part.page_count == 0 || part.page_count > wire::kMaxPageCount) return damaged_part(fmt::format("page count {}", part.page_count));
  if (part.pages == 0 || part.pages > kMaxPartImages / part.page_size) return damaged_part(fmt::format("{} pages in one part", part.pages));
  if (run_count == 0 || run_count > part.pages) return damaged_part(fmt::format("{} runs of {} pages", run_count, part.pages));
  if (in.left() != std::uint64_t{run_count} * 8 + packed + kChecksumBytes) return damaged_part(fmt::format("{} bytes after the header", in.left()));
  if (auto runs = read_runs(in, run_count, part); !runs) return tl::unexpected(runs.error());
  part.packed = in.raw(packed);
  return part;
}

struct SnapshotUnpacker::Context {
  ZSTD_DCtx* expand = ZSTD_createDCtx();
  Bytes images;
  ~Context() { ZSTD_freeDCtx(expand); }
};

SnapshotUnpacker::SnapshotUnpacker() : context_(std::make_unique<Context>()) { ONEPEN_CHECK(context_->expand != nullptr, "no memory for the decompressor"); }
SnapshotUnpacker::~SnapshotUnpacker() = default;

Result<ByteView> SnapshotUnpacker::unpack(const SnapshotPart& part) {
  Context& c = *context_;
  const std::size_t want = std::size_t{part.pages} * part.page_size;
  if (c.images.size() < want) c.images.resize(want);
  const std::size_t size = ZSTD_decompressDCtx(c.expand, c.images.data(), want, part.packed.data(), part.packed.size());
  if (ZSTD_isError(size) || size != want) return damaged_part(fmt::format("its pages do not expand to {} bytes", want));
  return ByteView(c.images).first(want);
}

struct SnapshotPacker::Context {
  ZSTD_CCtx* compress = ZSTD_createCCtx();
  Bytes part;
  ~Context() { ZSTD_freeCCtx(compress); }
};

SnapshotPacker::SnapshotPacker(std::uint32_t page_size, std::uint32_t page_count, Sink sink)
    : page_size_(page_size), page_count_(page_count), sink_(std::move(sink)), context_(std::make_unique<Context>()) {
  ONEPEN_CHECK(context_->compress != nullptr, "no memory for the compressor");
  ONEPEN_CHECK(wire::valid_page_size(page_size) && page_count <= wire::kMaxPageCount, "the page size and count of a database");
  ZSTD_CCtx_setParameter(context_->compress, ZSTD_c_compressionLevel, kPartLevel);
  ZSTD_CCtx_setParameter(context_->compress, ZSTD_c_checksumFlag, 0);  // the part has its own
}
SnapshotPacker::~SnapshotPacker() = default;

Result<> SnapshotPacker::add(std::uint32_t number, ByteView image) {
  ONEPEN_CHECK(image.size() == page_size_, "a whole page");
  ONEPEN_CHECK(number >= 1 && number <= page_count_ && (runs_.empty() || number > runs_.back().last()), "pages rise, within the count");
  if (number == lock_byte_page(page_size_) || all_zeros(image)) return {};
  if (images_.size() + page_size_ > kMaxPartImages) {
    if (auto sent = emit(); !sent) return sent;
  }
  if (images_.capacity() == 0) images_.reserve(std::min<std::uint64_t>(kMaxPartImages, std::uint64_t{page_count_} * page_size_));
  if (!runs_.empty() && runs_.back().last() + 1 == number) ++runs_.back().count;
  else runs_.push_back({number, 1});
  images_.insert(images_.end(), image.begin(), image.end());
  return {};
}

Result<> SnapshotPacker::finish() { return runs_.empty() ? Result<>{} : emit(); }

Result<> SnapshotPacker::emit() {
  Bytes& part = context_->part;
  const std::size_t ahead = kSnapshotPartHeaderBytes + runs_.size() * 8;
  part.resize(ahead + ZSTD_compressBound(images_.size()));
  const std::size_t packed = ZSTD_compress2(context_->compress, part.data() + ahead, part.size() - ahead, images_.data(), images_.size());
  ONEPEN_CHECK(!ZSTD_isError(packed), "zstd was given as much room as it may need");
  Bytes header;
  ByteWriter out(header);
  out.raw(as_bytes(kPartMagic));
  out.u<std::uint16_t>(kSnapshotVersion);
  out.u<std::uint16_t>(0);
  out.u<std::uint32_t>(parts_);
  out.u<std::uint32_t>(page_size_);
  out.u<std::uint32_t>(page_count_);
  out.u<std::uint32_t>(static_cast<std::uint32_t>(images_.size() / page_size_));
  out.u<std::uint32_t>(static_cast<std::uint32_t>(runs_.size()));
  out.u<std::uint32_t>(static_cast<std::uint32_t>(packed));
  for (const PageRun& run : runs_) {
    out.u<std::uint32_t>(run.first);
    out.u<std::uint32_t>(run.count);
  }
  std::copy(header.begin(), header.end(), part.begin());
  part.resize(ahead + packed);
  ByteWriter(part).u<std::uint64_t>(xxh3(part));
  ++parts_;
  runs_.clear();
  images_.clear();
  return sink_(part);
}

}  // namespace onepen::sqlite

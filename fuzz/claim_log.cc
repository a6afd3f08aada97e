// The claim log of a copy: any bytes as its file, and records that are whole with anything between and behind them. What opens goes on, and remembers.
#include "owner/claim_log.h"
#include "fuzz/fuzz_input.h"
#include "fuzz/memory_disk.h"

using namespace onepen;
using fuzz::require;

namespace {

void open_and_go_on(const Bytes& file) {
  fuzz::MemoryDisk disk;
  disk.put("/claims", file);
  auto log = owner::DiskClaimLog::open(disk, "/claims");
  if (!log) {
    require(!log.error().message.empty(), "a refusal says why");
    return;
  }
  const Epoch highest = (*log)->highest();
  if (const auto& last = (*log)->last()) require(last->epoch <= highest, "the highest epoch is above every record");
  if (highest.value == kMaxWireNumber) return;  // used up
  core::ClaimRequest request;
  request.epoch = Epoch{highest.value + 1};
  request.claim_id = {1, 2};
  request.attempt = {3, 4};
  require((*log)->write_ahead(request, {5, 6}).has_value(), "a claim can be written ahead");
  auto again = owner::DiskClaimLog::open(disk, "/claims");
  require(again.has_value() && (*again)->highest() == request.epoch && (*again)->last()->claim_id == request.claim_id, "what was written ahead is remembered");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes = fuzz::view(data, size);
  if (const auto claim = owner::decode_claim(bytes)) {
    const auto back = owner::decode_claim(owner::encode(*claim));
    require(back && *back == *claim, "a claim is what it was");
  }
  open_and_go_on(to_bytes(bytes));
  // Records whose checksums fit, cut and spoilt as the input says.
  fuzz::Source in(bytes);
  Bytes file;
  while (!in.empty() && file.size() < 4096) {
    const auto what = in.byte();
    Bytes record = fuzz::sealed_to(owner::kClaimRecordBytes, to_bytes(in.take(owner::kClaimRecordBytes - 8)));
    if ((what & 1) == 0) {
      Bytes right = owner::encode({Epoch{in.word()}, {1, in.word()}, {2, 2}, {3, 3}, {}, 7});
      record = (what & 2) == 0 ? right : record;
    }
    if ((what & 12) == 12) record.resize(record.size() * (what >> 4) / 16);
    file.insert(file.end(), record.begin(), record.end());
  }
  open_and_go_on(file);
  return 0;
}

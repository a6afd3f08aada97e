// The writer of a snapshot in the object home. Inside home/object only; lives no longer than its session, and is used by the same thread.
#pragma once
#include "home/object/object_stream.h"
#include "home/object/request_crew.h"

namespace onepen::home {

// Parts on their way to a bucket, and back for the comparison: 16 MiB each. Few, since the owner's commits go the same way meanwhile.
inline constexpr std::size_t kPartsAtOnce = 3;

class ObjectStream::Writer final : public core::SnapshotWriter {
 public:
  Writer(ObjectStream& stream, std::string folder, wire::SnapshotHead head) : stream_(stream), folder_(std::move(folder)), head_(std::move(head)) {}
  core::Answer<bool> add(ByteView part) override;
  core::Answer<core::SnapshotInfo> finish(const Bytes& about) override;

 private:
  Step<> still_whole();
  Step<> sent_up_to(std::size_t left);  // of the parts under way

  ObjectStream& stream_;
  const std::string folder_;
  wire::SnapshotHead head_;
  std::unique_ptr<RequestCrew> crew_;  // none: one part after the other
};

}  // namespace onepen::home

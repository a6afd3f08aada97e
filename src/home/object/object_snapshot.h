// The writer of a snapshot in the object home. Inside home/object only; lives no longer than its session, and is used by the same thread.
#pragma once
#include "home/object/object_stream.h"

namespace onepen::home {

class ObjectStream::Writer final : public core::SnapshotWriter {
 public:
  Writer(ObjectStream& stream, std::string folder, wire::SnapshotHead head) : stream_(stream), folder_(std::move(folder)), head_(std::move(head)) {}
  core::Answer<bool> add(ByteView part) override;
  core::Answer<core::SnapshotInfo> finish(const Bytes& about) override;

 private:
  Step<> still_whole();

  ObjectStream& stream_;
  const std::string folder_;
  wire::SnapshotHead head_;
};

}  // namespace onepen::home

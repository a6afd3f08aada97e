// A simulated bucket: strongly consistent, create-if-absent, and every way in which an answer can be lost.
//
// A request takes a while on its way in and on its way back. Faults (by seed): the answer is lost after the effect; the request is lost; the request is
// held on its way and lands long after its sender gave up or died (late PUT); it is delivered twice; it is refused for certain. The objects survive
// everything; the sender's death never takes back a request that is on its way.
#pragma once
#include <map>
#include <string>

#include "home/object/object_store.h"
#include "sim/world.h"

namespace onepen::sim {

struct BucketFaults {  // per mille of requests
  std::uint32_t lost_answer = 0, lost_request = 0, late = 0, twice = 0, refused = 0, unreadable = 0, slow = 0;
  std::int64_t slow_ms = 2'000, late_ms = 60'000;
};

class Bucket {
 public:
  explicit Bucket(World& world) : world_(world) {}
  BucketFaults faults;
  bool create(const std::string& key, ByteView bytes);  // false: taken
  std::map<std::string, Bytes> objects;
  std::uint32_t on_their_way = 0;  // PUTs still to land
  std::function<void(bool made)> on_late;   // a held PUT arrived
  std::function<void()> on_own_found;       // a PUT found its own bytes under the name
  World& world() { return world_; }

 private:
  World& world_;
};

class SimStore : public home::ObjectStore {
 public:
  SimStore(Bucket& bucket, Process& process) : bucket_(bucket), world_(bucket.world()), process_(process) {}
  Result<Bytes> get(const std::string& key) override;
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override;
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override;
  Result<> put(const std::string& key, ByteView bytes) override;
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) override;
  Result<> erase(const std::string& key) override;
  std::string describe() const override { return "simulated bucket"; }

 private:
  bool travel();                                   // false: the process died on the way
  Result<> asked(const std::string& key);          // the wait and the faults of a read
  void send_late(const std::string& key, ByteView bytes, Nanos delay, bool overwrite);

  Bucket& bucket_;
  World& world_;
  Process& process_;
};

}  // namespace onepen::sim

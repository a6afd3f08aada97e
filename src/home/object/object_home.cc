#include "home/object/object_home.h"

#include <fmt/format.h>

#include <algorithm>

#include "home/object/object_stream.h"

namespace onepen::home {
namespace {

constexpr std::size_t kAllObjects = static_cast<std::size_t>(-1);
constexpr std::size_t kMaxNameBytes = 200;  // base/ids.h

class ObjectHome final : public core::Home {
 public:
  ObjectHome(Runtime& runtime, std::unique_ptr<ObjectStore> store, ObjectHomeOptions options)
      : store_(std::move(store)), options_(std::move(options)), place_{runtime, *store_, options_} {}

  std::unique_ptr<core::Stream> stream(const StreamName& name) override { return std::make_unique<ObjectStream>(place_, name); }
  const std::string& url() const override { return options_.url; }
  core::Pace pace() const override { return options_.pace; }
  core::RequestCounts requests() const override { return options_.requests ? options_.requests() : core::RequestCounts{}; }

  Result<std::vector<std::string>> list(const std::string& prefix) override {
    std::vector<std::string> names;
    if (auto ok = walk("", prefix, names); !ok) return tl::unexpected(ok.error());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  // A log is a stream, unless a tombstone ended it: whoever put one left a note beside the marks before.
  Result<bool> present(const std::string& folder) {
    auto name = StreamName::parse(folder);
    if (!name) return false;
    auto cuts = store_->list(folder + "/@mark", cut_name(0), 1);
    if (!cuts) return tl::unexpected(cuts.error());
    if (cuts->empty()) return true;
    auto stat = ObjectStream(place_, *name).stat();
    return stat || stat.error().outcome != Outcome::not_found;
  }

  // A folder with an @log is a stream; every other entry is looked into, as long as names below it can begin with the prefix.
  Result<> walk(const std::string& folder, const std::string& prefix, std::vector<std::string>& names) {
    auto entries = store_->list(folder, "", kAllObjects);
    if (!entries) return tl::unexpected(entries.error());
    for (const auto& entry : *entries) {
      if (entry == "@log" && !folder.empty() && folder.starts_with(prefix)) {
        auto there = present(folder);
        if (!there) return tl::unexpected(there.error());
        if (*there) names.push_back(folder);
      }
      auto below = folder.empty() ? entry : folder + "/" + entry;
      bool may_match = below.starts_with(prefix) || prefix.starts_with(below);
      if (!may_match || below.size() > kMaxNameBytes || !StreamName::parse(below)) continue;
      if (auto ok = walk(below, prefix, names); !ok) return ok;
    }
    return {};
  }

  std::unique_ptr<ObjectStore> store_;
  const ObjectHomeOptions options_;
  Place place_;
};

}  // namespace

std::unique_ptr<core::Home> make_object_home(Runtime& runtime, std::unique_ptr<ObjectStore> store, ObjectHomeOptions options) {
  return std::make_unique<ObjectHome>(runtime, std::move(store), std::move(options));
}

}  // namespace onepen::home

// Names and small texts that come from outside: stream names, offsets, names of objects, packs, snapshots and cuts, ids, durations, sizes, URLs, the text of
// /proc/self/mountinfo. Whatever is believed is spelled in one way, and no name leaves the folder of its home.
#include "fuzz/fuzz_input.h"
#include "home/object/open_home.h"
#include "home/object/position.h"
#include "io/mounts.h"
#include "sqlite/open_database_settings.h"

using namespace onepen;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto name = StreamName::parse(text)) {
    require(name->text() == text && text.size() <= 200, "a stream name is itself");
    require(("/" + text + "/").find("/../") == std::string::npos && ("/" + text).find("/.") == std::string::npos && text[0] != '/', "a name leaves its folder");
  } else {
    require(!name.error().message.empty(), "a refusal says why");
  }
  ClaimId id;
  if (ClaimId same; parse(text, id)) require(to_text(id).size() == text.size() && parse(to_text(id), same) && same == id, "an id is what it was");
  if (const auto at = home::object_id(text)) require(home::object_name(*at) == text && *at != 0, "the name of an object is spelled in one way");
  if (const auto run = home::pack_run(text)) require(home::pack_name(run->first, run->last) == text && run->first <= run->last, "so is that of a pack");
  if (const auto at = home::cut_at(text)) require(home::cut_name(*at) == text, "so is that of a cut");
  if (const auto at = home::snapshot_at(text)) require(*at != 0, "a snapshot lies at an object");
  if (const auto at = home::parse_offset(Offset{text})) {
    const auto again = home::parse_offset(home::to_offset(at->ordinal, at->at, {}, {}));
    require(again && again->at == at->at && again->ordinal == at->ordinal, "an offset means one place");
  }
  if (const auto duration = sqlite::read_duration(text)) require(duration->count() >= 0, "a duration is none");
  if (const auto bytes = sqlite::read_size(text)) require(*bytes <= std::uint64_t{1} << 62, "a size that overflows");
  if (const auto path = home::path_of_file_url(text)) {
    require(path->front() == '/' && ("/" + *path + "/").find("/../") == std::string::npos && path->find('\0') == std::string::npos, "a path that is none");
  }
  const auto split = text.find('\n');
  if (const auto mount = io::mount_of(text.substr(split == std::string::npos ? 0 : split + 1), text.substr(0, split))) {
    require(!mount->point.empty(), "a mount without a point");
    (void)mount->has_option("lookupcache=none");
    (void)io::local_filesystem(mount->type);
  }
  (void)home::judge_filesystem(text, "/srv/onepen");
  return 0;
}

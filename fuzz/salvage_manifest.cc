// The manifest of what was moved aside, as people may have edited it: any bytes. The entry is told, with what is wrong with it; it never counts for more than
// it says.
#include "fuzz/fuzz_input.h"
#include "fuzz/memory_disk.h"
#include "sqlite/salvage.h"

using namespace onepen;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::MemoryDisk disk;
  const std::string folder = "/c/salvage/a%2Fb/20261129T201637Z-fenced";
  disk.put(folder + "/manifest.json", to_bytes(fuzz::view(data, size)));
  disk.put(folder + "/db", Bytes(512));
  const auto entries = sqlite::list_salvage(disk, "/c");
  require(entries.has_value() && entries->size() == 1, "an entry is told, whatever its manifest is");
  const auto& entry = entries->front();
  require(entry.folder == folder && entry.has_database, "it is the one that is there");
  require(entry.trouble.empty() || !entry.unsent_known, "with a manifest that cannot be read nothing is known of what was not sent");
  (void)sqlite::perhaps_dropped(entry);
  require(sqlite::salvage_manifest(disk, entry).has_value() || !entry.trouble.empty(), "the manifest as it was written");
  require(sqlite::find_salvage(disk, "/c", entry.id).has_value(), "it is found by its id");
  return 0;
}

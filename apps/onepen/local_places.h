// What this machine holds of a database: its local copies, with what the log does not have yet, and what was moved aside. Looks only.
#pragma once
#include <onepen/result.h>

#include <cstdint>
#include <string>
#include <vector>

#include "apps/onepen/rooms.h"
#include "sqlite/copy_folder.h"
#include "sqlite/salvage.h"

namespace onepen::app {

struct LocalPlaces {
  std::vector<sqlite::CopyGlance> copies;
  std::vector<sqlite::SalvageEntry> salvage;
  std::vector<sqlite::CopyGlance> elsewhere{};  // copies with unsent commits of this very stream, that belong to another URL of its home
  std::uint64_t database_bytes = 0;  // of the newest copy; 0: none
  std::string trouble;               // why it could not be looked at
};

LocalPlaces local_places(const Common& common, const Rooms& rooms, const std::string& name);
// Local copies of the same name and incarnation, but of another home URL (a folder that was renamed, another mount point), that have or may have unsent
// commits: no open by this URL finds them.
std::vector<sqlite::CopyGlance> copies_elsewhere(const Common& common, const Rooms& rooms, const std::string& name, const Incarnation& incarnation);
// A line for each copy that has, or may have, commits that are not in the stream.
std::vector<std::string> unsent_lines(const LocalPlaces& local);
std::vector<std::string> local_lines(const std::string& name, const LocalPlaces& local);
std::string local_json(const LocalPlaces& local);  // one JSON object

// Why stat() was refused, as it is from this machine. "Not found" of a database that was read here from this very home, and that nobody deleted, is a home
// out of reach (unavailable): what this machine has of it is said, and nothing is made in its place.
Error refused_here(const Common& common, const Rooms& rooms, const std::string& name, const core::Refusal& refusal);

// Databases of this home that this machine has copies of, that the home does not list (`names`) and nobody deleted; with a name prefix.
struct OutOfSight {
  std::string name;
  Error error;
};
std::vector<OutOfSight> out_of_sight_here(const Common& common, const Rooms& rooms, const std::vector<std::string>& names, const std::string& prefix);

}  // namespace onepen::app

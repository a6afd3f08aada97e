// onepen/reset.h: what happens to an open handle that may no longer write. It resets once, for good: open the database again only if you mean to take
// it back. Statements of a read transaction that was open go on with its snapshot; everything else fails with this Reset. Plain values.
#pragma once
#include <onepen/result.h>

namespace onepen {

enum class ResetKind : std::uint8_t {
  fenced,      // a newer owner exists
  rewound,     // the stream has a new incarnation without commits we saw acknowledged
  removed,     // the stream is gone
  diverged,    // the copy is not what the stream says: checksum, foreign writes to the copy, two processes on one claim
  refused,     // credentials or quota withdrawn
  broken,      // the local disk failed; the message says whether the commit is in the stream
  unresolved,  // a commit may be in the stream; opening again tells
};
std::string_view word(ResetKind);

struct Reset {
  ResetKind kind;
  std::string message;
  Epoch ours;
  std::optional<Owner> current{};
  // durability=local: the folder of the local copy, in which the commits are that are not in the stream; empty: there are none. They stay there until the
  // database is opened again on this machine: that sends them, or moves them to <cache root>/salvage/<name>/ and says so (Status::salvaged).
  std::string salvage_path{};
};

}  // namespace onepen

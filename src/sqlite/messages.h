// The sentence behind a code. A VFS can answer only a number (SQLITE_AUTH for every refusal of ours), so the whole sentence — who owns the database now,
// both epochs, what was and was not written — is kept for the thread that was refused, and read back by onepen_error().
// Thread-safe: the sentence is kept per thread; sqlite3_log and ONEPEN_LOG=stderr get it as well.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/log.h"

namespace onepen::sqlite {

// Keeps the sentence for onepen_error(), gives it to sqlite3_log, and to standard error with ONEPEN_LOG=stderr. Returns SQLITE_AUTH.
int refuse(std::string sentence);
// The same, with the code SQLite is answered with.
int refuse_with(int code, std::string sentence);
// Tells what is no refusal: to sqlite3_log, and to standard error with ONEPEN_LOG=stderr.
void note(std::string_view sentence);
// Commits stay unsent, and the connection that could be asked about it is closing: to standard error, whatever ONEPEN_LOG says (but ONEPEN_LOG=off).
void say_unsent(std::string_view sentence);
// The last refusal on this thread; empty when there was none.
const std::string& last_refusal();

// Commits of durability=local that are not in the stream, and what becomes of them.
struct UnsentStory {
  enum class Next {
    this_handle,  // open, and not reset
    next_open,    // it ends here
    nobody,       // reset: this handle sends nothing any more, and whether the stream can still take them is found out by opening again
  };
  std::string database, copy_folder;
  std::uint64_t commits = 0, bytes = 0;  // of WAL
  std::string why;                       // what the home said last; may be empty
  Next next = Next::next_open;
};
std::string unsent_sentence(std::string_view what, const UnsentStory& unsent);  // what: "Closed", "Not synced"

// Of a connection that was opened before fork(), in the child.
std::string forked_sentence();
// Text for people and for hosts that take nothing but UTF-8 (Python, JSON): each byte that is none becomes U+FFFD. Names and paths hold any bytes.
std::string as_utf8(std::string_view text);

// Everything the rooms below say, for operators: standard error with ONEPEN_LOG=stderr, else nothing.
Log host_log();
// For commands: the same, and warnings (a copy that was moved to salvage) to standard error in any case but ONEPEN_LOG=off.
Log spoken_log();

}  // namespace onepen::sqlite

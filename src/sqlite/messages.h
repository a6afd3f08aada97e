// The sentence behind a code. A VFS can answer only a number (SQLITE_AUTH for every refusal of ours), so the whole sentence — who owns the database now,
// both epochs, what was and was not written — is kept for the thread that was refused, and read back by onepen_error().
// Thread-safe: the sentence is kept per thread; sqlite3_log and ONEPEN_LOG=stderr get it as well.
#pragma once
#include <string>
#include <string_view>

#include "base/log.h"

namespace onepen::sqlite {

// Keeps the sentence for onepen_error(), gives it to sqlite3_log, and to standard error with ONEPEN_LOG=stderr. Returns SQLITE_AUTH.
int refuse(std::string sentence);
// The same, with the code SQLite is answered with.
int refuse_with(int code, std::string sentence);
// The last refusal on this thread; empty when there was none.
const std::string& last_refusal();

// Of a connection that was opened before fork(), in the child.
std::string forked_sentence();
// Text for people and for hosts that take nothing but UTF-8 (Python, JSON): each byte that is none becomes U+FFFD. Names and paths hold any bytes.
std::string as_utf8(std::string_view text);

// Everything the rooms below say, for operators: standard error with ONEPEN_LOG=stderr, else nothing.
Log host_log();

}  // namespace onepen::sqlite

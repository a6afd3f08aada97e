// The SQL functions of every connection: onepen_synced, onepen_status, onepen_error, onepen_use. They act on `main`, or on the schema named by the one
// optional argument (an ATTACHed database). Thread-safety: SQLite's, per connection.
//
//   onepen_synced([schema])  every COMMIT so far is in the stream and this process still owns it: returns the offset; fails with the sentence otherwise
//   onepen_status([schema])  JSON: role (owner, reset, follower), name, home, epoch, incarnation, claim_id, offset, pending, ...; never fails on a reset handle
//   onepen_error()           the sentence of the last refusal on this thread, also after an open that failed; NULL when there was none
//   onepen_use(url [, parameters])  from now on the plain name "app.onepen" opens database `app` at that home; for hosts that know no URI names.
//                            parameters: as in a URI ('durability=local&commit_timeout=5s'), for names that bring no home of their own
#pragma once
#include "sqlite/api.h"

namespace onepen::sqlite {

// Returns an SQLite code.
int register_functions(sqlite3* connection);

}  // namespace onepen::sqlite

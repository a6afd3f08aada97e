// SQLite's C interface for this folder, which is compiled twice: against the library (sqlite3.h), and for the extension, where every call goes through
// the host's own SQLite (sqlite3ext.h; hosts bring versions of their own, so a direct call would reach the wrong library). The pointer is defined once,
// in extension/. Include this and never sqlite3.h.
#pragma once
#ifdef ONEPEN_SQLITE_EXT
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT3
#else
#include <sqlite3.h>
#endif

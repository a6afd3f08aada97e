// Page 1 of an empty database that is in WAL format from the start. SQLite itself would begin in rollback mode, which is not captured. Pure.
#pragma once
#include "base/bytes.h"

namespace onepen::sqlite {

// page_size: a power of two, 512..65536. Text encoding, schema format and user version are still open, as in a database without tables; auto_vacuum is
// off, and can be chosen by PRAGMA auto_vacuum and VACUUM.
Bytes initial_page(std::uint32_t page_size);

}  // namespace onepen::sqlite

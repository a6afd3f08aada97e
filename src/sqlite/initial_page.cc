#include "sqlite/initial_page.h"

#include "base/check.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {

// sqlite.org/fileformat2: 1.3 "The Database Header", 1.6 "B-tree Pages".
Bytes initial_page(std::uint32_t page_size) {
  ONEPEN_CHECK(wire::valid_page_size(page_size), "a page size of SQLite");
  constexpr std::string_view kFormatMagic("SQLite format 3\0", 16);
  constexpr std::size_t kFileHeaderBytes = 100;
  Bytes page(page_size);
  const auto put = [&](std::size_t at, std::uint32_t value) { page[at] = static_cast<std::byte>(value & 0xff); };
  std::memcpy(page.data(), kFormatMagic.data(), kFormatMagic.size());
  const std::uint32_t stored_size = page_size == wire::kMaxPageSize ? 1 : page_size;
  put(16, stored_size >> 8);
  put(17, stored_size);
  put(18, 2);  // written by WAL
  put(19, 2);  // read by WAL
  put(21, 64);  // fixed fractions of the format
  put(22, 32);
  put(23, 32);
  put(31, 1);  // one page; valid since the change counter (24) and the version it is valid for (92) are both 0
  put(kFileHeaderBytes, 0x0d);  // the schema table: a leaf without cells
  put(kFileHeaderBytes + 5, page_size >> 8);  // its content begins at the end of the page; 65536 is written as 0
  put(kFileHeaderBytes + 6, page_size);
  return page;
}

}  // namespace onepen::sqlite

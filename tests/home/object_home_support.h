// What the tests of the object home's log share beside object_fixture.h: claims and appends whose answers are looked at. One thread.
#pragma once
#include <string>

#include "tests/home/object_fixture.h"

namespace onepen::testing {

inline std::string log_key(std::uint64_t id) { return "app/@log/" + object_name(id); }

class ObjectHome : public ObjectFixture {
 protected:
  core::Answer<core::ClaimReceipt> claim(Process& p, std::uint64_t epoch) {
    auto answer = p.stream->claim(claim_request(epoch));
    if (answer) p.receipt = *answer, p.next = {1};
    return answer;
  }
  core::Answer<core::AppendReceipt> send(Process& p, const core::AppendBatch& b) {
    auto answer = p.stream->append(b);
    if (answer) ++p.next.value;
    return answer;
  }
  std::string text(Process p) {  // the payloads of the stream, by a process that knows nothing
    std::string out;
    Offset at;
    for (;;) {
      auto r = p.stream->read(at, {});
      if (!r) return out + "!" + std::string(word(r.error().outcome));
      for (auto& record : r->records)
        if (record.kind == core::RecordKind::data) out += std::string(as_text(record.payload)) + " ";
      at = r->next;
      if (r->up_to_date) return out;
    }
  }
  void expect_no_read(Process& p, const Offset& from, Outcome outcome) {
    auto read = p.stream->read(from, {});
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().outcome, outcome) << read.error().message;
  }
  void filled(Process& p, int appends) {
    ASSERT_TRUE(claim(p, 1));
    ObjectFixture::appends(p, 1, appends);
  }
};

}  // namespace onepen::testing

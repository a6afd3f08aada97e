// `onepen version`: which build this is, for reports and for scripts.
#include <fmt/format.h>
#include <sqlite3.h>

#include <nlohmann/json.hpp>

#include "apps/onepen/output.h"
#include "wire/commit_frame.h"

namespace onepen::app {
namespace {
#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif
#ifdef ONEPEN_TEST_HOOKS
constexpr bool kTestHooks = true;
#else
constexpr bool kTestHooks = false;
#endif
}  // namespace

int run_version(const Common& common) {
  if (common.json) {
    const nlohmann::json out{{"version", ONEPEN_VERSION},
                             {"compiler", kCompiler},
                             {"sqlite", sqlite3_libversion()},
                             {"test_hooks", kTestHooks},
                             {"formats", {{"commit_frame", wire::kCommitFrameVersion}}}};
    print(out.dump(2) + "\n");
    return kOk;
  }
  print(fmt::format("onepen {}\ncompiler      {}\nsqlite        {}\ncommit frame  version {}\n", ONEPEN_VERSION, kCompiler, sqlite3_libversion(),
                    wire::kCommitFrameVersion));
  return kOk;
}

}  // namespace onepen::app

// Named failpoints: places where a test stops the process, fails an operation or holds it. Absent from the product (no ONEPEN_TEST_HOOKS).
//
// ONEPEN_FAILPOINT=<name>=<action>[@N][,...] in the environment of a test build arms them; action is `kill` (SIGKILL to itself), `stop` (SIGSTOP),
// `error` (the macro yields true), N the N-th time it is reached (default 1). ONEPEN_FAILPOINT_LIST=<file> writes the names reached, one a line.
// Names are `folder.place`, e.g. "capture.before_commit_frame"; docs: tests/process/README.md.
#pragma once
namespace onepen {
#ifdef ONEPEN_TEST_HOOKS
bool failpoint_hit(const char* name);  // true: the caller fails the operation
#define ONEPEN_FAILPOINT(name) ::onepen::failpoint_hit(name)
#else
#define ONEPEN_FAILPOINT(name) false
#endif
}  // namespace onepen

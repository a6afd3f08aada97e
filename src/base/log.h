// The log port: one line per event, for operators. The default drops everything; apps and the extension install a sink (ONEPEN_LOG=stderr).
// Thread-safe once installed. A message is a whole sentence; a change of ownership is exactly one line that names both sides.
#pragma once
#include <functional>
#include <string_view>

namespace onepen {
enum class LogLevel { debug, info, warn, error };
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;
  Log() = default;
  explicit Log(Sink sink) : sink_(std::move(sink)) {}
  void operator()(LogLevel level, std::string_view line) const {
    if (sink_) sink_(level, line);
  }

 private:
  Sink sink_;
};
}  // namespace onepen

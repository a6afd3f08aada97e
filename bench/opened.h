// A database opened through the public API for a benchmark, with one connection; whatever goes wrong ends the program with the sentence.
#pragma once
#include <onepen/database.h>

#include <memory>

#include "measure.h"

namespace onepen::bench {

class Opened {
 public:
  Opened(const std::string& home_url, const OpenOptions& options) {
    auto home = Home::open(home_url);
    if (!home) give_up(home.error().message);
    auto opened = Database::open(*home, "app", options);
    if (!opened) give_up(opened.error().message);
    database_ = std::make_unique<Database>(std::move(*opened));
    auto connected = database_->connect();
    if (!connected) give_up(connected.error().message);
    connection_ = std::move(*connected);
  }
  ~Opened() {
    connection_.reset();
    if (const auto closed = database_->close(std::chrono::minutes(10)); !closed) give_up(closed.error().message);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  sqlite3* connection() const { return connection_.get(); }
  // Waits until everything is in the stream; how many seconds that took.
  double follow() const {
    const auto from = Clock::now();
    if (const auto synced = database_->synced(std::chrono::minutes(30)); !synced) give_up(synced.error().message);
    return microseconds(Clock::now() - from) / 1e6;
  }

 private:
  std::unique_ptr<Database> database_;
  Connection connection_;
};

}  // namespace onepen::bench

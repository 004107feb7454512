// Log lines are one event with its coordinates, for people and for grep:
//   2026-03-02T04:11:09.201Z info  engine stage=pretrain rank=3 step=240 event=checkpoint_saved bytes=1048576
// What a line quotes cannot end it: control characters are made visible, newlines too (base/text/visible_text.h).
// Libraries return errors; programs decide what to log. The only file that knows spdlog is log.cc.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

enum class LogLevel { debug, info, warn, error };

// A logger is passed in. Lines go to stderr, or to a file. Thread-safe.
class Logger {
 public:
  // `component` is the program or room ("lead", "controller"); `coordinates` is repeated on every line ("run=x
  // rank=3").
  Logger(const std::string& component, const std::string& coordinates, LogLevel level = LogLevel::info,
         const std::string& path = {});
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  void debug(std::string_view line) { write(LogLevel::debug, line); }
  void info(std::string_view line) { write(LogLevel::info, line); }
  void warn(std::string_view line) { write(LogLevel::warn, line); }
  void error(std::string_view line) { write(LogLevel::error, line); }

 private:
  void write(LogLevel level, std::string_view line);
  struct Sink;
  Sink* sink_;
};

}  // namespace longhaul

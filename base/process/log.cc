#include "base/process/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/files/owned_files.h"
#include "base/system/clock.h"
#include "base/text/visible_text.h"

namespace longhaul {
namespace {
// In the order of LogLevel.
constexpr spdlog::level::level_enum spdlog_levels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                       spdlog::level::err};

Result<FileDescriptor> open_log(const std::string& path) {
  auto opened = open_to_append(path);
  if (opened.ok() || opened.error().code != ErrorCode::not_found) return opened;
  LH_CHECK(make_directories(parent_path(path)));
  return open_to_append(path);
}
}  // namespace

struct Logger::Sink {
  std::shared_ptr<spdlog::logger> logger;
  std::string prefix;
};

Logger::Logger(const std::string& component, const std::string& coordinates, LogLevel level, const std::string& path)
    : sink_(new Sink) {
  spdlog::sink_ptr sink;
  std::string refused;
  if (!path.empty()) {
    const Result<FileDescriptor> file = open_log(path);
    try {
      // By its descriptor: another file could have that name by now.
      if (file.ok())
        sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>("/proc/self/fd/" + std::to_string(file->get()));
    } catch (const std::exception& problem) {
      refused = problem.what();
    }
    if (!file.ok()) refused = file.error().message();
  }
  // A log that cannot be opened must not end a training run: stderr gets the lines instead.
  if (!sink) sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink_->logger = std::make_shared<spdlog::logger>(component, sink);
  sink_->logger->set_pattern("%v");
  sink_->logger->set_level(spdlog_levels[static_cast<std::size_t>(level)]);
  sink_->logger->flush_on(spdlog::level::debug);
  sink_->prefix = visible_line(component + (coordinates.empty() ? "" : " " + coordinates));
  if (!refused.empty()) write(LogLevel::warn, "event=no_log_file error='" + refused + "' next=stderr");
}

Logger::~Logger() {
  delete sink_;
}

void Logger::write(LogLevel level, std::string_view line) {
  static constexpr const char* names[] = {"debug", "info ", "warn ", "error"};
  const auto i = static_cast<std::size_t>(level);
  if (!sink_->logger->should_log(spdlog_levels[i])) return;
  sink_->logger->log(spdlog_levels[i], "{} {} {} {}", utc_text(SystemClock().wall_ms()), names[i], sink_->prefix,
                     visible_line(line));
}

}  // namespace longhaul

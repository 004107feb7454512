#include "worker/protocol/wire/unauthenticated_log.h"

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t line_every_ns = 60'000'000'000;
constexpr std::size_t addresses_max = 64, address_bytes_max = 80, reason_bytes_max = 200;

std::string plain(const std::string& text, std::size_t bytes_max) {
  std::string out = text.substr(0, bytes_max);
  for (char& c : out)
    if (c < 0x20 || c > 0x7e || c == '\'') c = '?';
  return out;
}

}  // namespace

void UnauthenticatedLog::note(const std::string& from, const std::string& reason) {
  ++times_;
  last_from_ = plain(from, address_bytes_max), last_reason_ = plain(reason, reason_bytes_max);
  if (from_.size() < addresses_max) from_.insert(last_from_);
  if (written_ns_ < 0) return write();
  look();
}

void UnauthenticatedLog::look() {
  if (times_ > 0 && clock_.monotonic_ns() - written_ns_ >= line_every_ns) write();
}

void UnauthenticatedLog::write() {
  log_.warn(format("event={} times={} addresses={}{} last_from='{}' last_reason='{}'", event_, times_, from_.size(),
                   from_.size() == addresses_max ? "+" : "", last_from_, last_reason_));
  written_ns_ = clock_.monotonic_ns();
  times_ = 0;
  from_.clear();
}

}  // namespace longhaul

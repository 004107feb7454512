#include "engine/curate/read/lines.h"

#include <algorithm>
#include <cstring>

#include "base/text/text.h"
#include "engine/curate/extract/charset.h"

namespace longhaul {
namespace {

constexpr std::size_t chunk_bytes = 1 << 18;
constexpr std::size_t start_bytes = 200;            // kept of a line that is too long
constexpr std::size_t wide_bytes_max = 256U << 20;  // of a file in UTF-16

}  // namespace

LineReader::LineReader(InputStream& stream, std::int64_t line_bytes_max)
    : stream_(stream), line_bytes_max_(line_bytes_max) {}

Status LineReader::fill() {
  if (at_ > 0) buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + chunk_bytes);
  LH_TRY(const std::size_t n, stream_.read(buffer_.data() + before, chunk_bytes));
  buffer_.resize(before + n);
  if (n < chunk_bytes) ended_ = true;
  return {};
}

Status LineReader::start() {
  started_ = true;
  LH_CHECK(fill());
  if (starts_with(buffer_, "\xEF\xBB\xBF")) at_ = 3;
  if (!is_wide(buffer_)) return {};
  while (!ended_ && buffer_.size() < wide_bytes_max) LH_CHECK(fill());
  if (!ended_) damage_ = "a file in UTF-16 may have 256 MiB; write it as UTF-8";
  ended_ = true;
  buffer_ = decode_bytes(buffer_, false).text;
  return {};
}

// The next `bytes` bytes belong to the line.
void LineReader::take(InputLine& line, std::size_t bytes) {
  line.bytes += static_cast<std::int64_t>(bytes);
  const std::string_view piece = std::string_view(buffer_).substr(at_, bytes);
  at_ += bytes;
  if (!line.too_long) line.text += piece;
  if (static_cast<std::int64_t>(line.text.size()) <= line_bytes_max_) return;
  line.too_long = true;
  line.text.resize(std::min(line.text.size(), start_bytes));
  line.text.shrink_to_fit();
}

Result<bool> LineReader::next(InputLine& line) {
  if (!started_) LH_CHECK(start());
  line = InputLine();
  for (;;) {
    if (at_ == buffer_.size()) {
      if (ended_) break;
      LH_CHECK(fill());
      continue;
    }
    if (skip_newline_ && buffer_[at_] == '\n') {
      skip_newline_ = false;
      ++at_;
      continue;
    }
    skip_newline_ = false;
    const char* begin = buffer_.data() + at_;
    const std::size_t size = buffer_.size() - at_;
    const auto* newline = static_cast<const char*>(std::memchr(begin, '\n', size));
    const std::size_t line_size = newline ? static_cast<std::size_t>(newline - begin) : size;
    const auto* carriage = static_cast<const char*>(std::memchr(begin, '\r', line_size));
    const char* end = carriage ? carriage : newline;
    take(line, end ? static_cast<std::size_t>(end - begin) : size);
    if (end) {
      skip_newline_ = end == carriage;
      ++at_;
      line.number = ++number_;
      return true;
    }
    if (line.bytes / 256 > line_bytes_max_) {
      damage_ = format("line {} has no end within {}", number_ + 1, human_bytes(static_cast<double>(line.bytes)));
      ended_ = true;
      at_ = buffer_.size();
    }
  }
  if (line.bytes == 0) return false;
  line.number = ++number_;
  line.cut = !damage().empty();
  return true;
}

}  // namespace longhaul

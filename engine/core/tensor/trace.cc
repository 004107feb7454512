#include "engine/core/tensor/trace.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

void Trace::add(const std::string& lane, std::string name, std::int64_t begin_ns, std::int64_t end_ns) {
  if (!recording_ || spans_.size() >= spans_max) return;
  auto found = std::find(lanes_.begin(), lanes_.end(), lane);
  if (found == lanes_.end()) found = lanes_.insert(lanes_.end(), lane);
  spans_.push_back({static_cast<std::size_t>(found - lanes_.begin()), std::move(name), begin_ns, end_ns});
}

Status Trace::write(const std::string& path, int rank) const {
  // Names are the engine's own names: no quotes or control characters to escape.
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  text += format(R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0}"}}}})", rank);
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    text += format(
        ",\n"
        R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
        rank, lane, lanes_[lane]);
  for (const Span& span : spans_)
    text += format(
        ",\n"
        R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
        span.name, rank, span.lane, static_cast<double>(span.begin_ns) * 1e-3,
        static_cast<double>(span.end_ns - span.begin_ns) * 1e-3);
  return write_file_atomic(path, text + "]}\n");
}

}  // namespace longhaul

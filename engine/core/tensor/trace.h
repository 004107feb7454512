// What a rank did when: spans on lanes ("compute", one for each communicator), written as the JSON that Perfetto and
// chrome://tracing read. Meant for a few steps; stops taking spans when it has spans_max of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/system/clock.h"
#include "engine/core/tensor/range_marks.h"

namespace longhaul {

class Trace {
 public:
  static constexpr std::size_t spans_max = 2'000'000;
  explicit Trace(const Clock& clock) : clock_(clock) {}

  // A device's profiler gets the spans on the lane "compute", recorded or not. Borrowed.
  void set_marks(RangeMarks* marks) { marks_ = marks; }
  RangeMarks* marks() const { return marks_; }

  // Off at first: spans are dropped.
  void record(bool on) { recording_ = on; }
  bool recording() const { return recording_; }

  std::int64_t now() const { return clock_.monotonic_ns(); }
  void add(const std::string& lane, std::string name, std::int64_t begin_ns, std::int64_t end_ns);
  std::size_t spans() const { return spans_.size(); }
  // Beside and renamed. All ranks' files can be put into one viewer: the rank is the process.
  Status write(const std::string& path, int rank) const;

 private:
  struct Span {
    std::size_t lane;
    std::string name;
    std::int64_t begin_ns, end_ns;
  };
  const Clock& clock_;
  bool recording_ = false;
  RangeMarks* marks_ = nullptr;
  std::vector<std::string> lanes_;
  std::vector<Span> spans_;
};

// On the lane "compute", from its making to its end. trace may be null.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, const char* name)
      : trace_(trace && trace->recording() ? trace : nullptr),
        marks_(trace ? trace->marks() : nullptr),
        name_(name),
        begin_(trace_ ? trace_->now() : 0) {
    if (marks_) marks_->begin(name);
  }
  ~TraceSpan() {
    if (marks_) marks_->end();
    if (trace_) trace_->add("compute", name_, begin_, trace_->now());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* trace_;
  RangeMarks* marks_;
  const char* name_;
  std::int64_t begin_;
};

}  // namespace longhaul

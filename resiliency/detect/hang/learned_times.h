// How long ranks stay in a section when all is well, per section: what timeouts are made of.
//
// The value of a section is the longest stay of this launch; a value that an earlier launch left behind is merged with
// it by an exponential moving average of weight 1/2, so that one slow day wears off (as NVRx does: timeouts_calc.py of
// nvidia-resiliency-ext; a plain maximum was given up there as too long).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

class LearnedTimes {
 public:
  // A stay of that many seconds in a section ended well.
  void note(const std::string& section, double seconds);
  // What this launch saw becomes what was carried over.
  void begin_launch();
  // The merged value; nothing where nobody ever timed the section.
  std::optional<double> seconds(const std::string& section) const;
  std::int64_t count(const std::string& section) const;  // stays, of all launches
  // Of all sections but `without` the merged value that is longest; 0 where nothing was timed.
  double longest_s(const std::string& without = {}) const;

  // A table to be stored beside a checkpoint, and back: corrupt names the section that makes no sense.
  Value to_value() const;
  static Result<LearnedTimes> from_value(const Value& value);
  bool operator==(const LearnedTimes&) const = default;

 private:
  struct Section {
    double carried_s = 0;  // of earlier launches; 0: none
    double longest_s = 0;  // of this one
    std::int64_t count = 0;
    double merged() const;
    bool operator==(const Section&) const = default;
  };
  std::map<std::string, Section> sections_;
};

}  // namespace longhaul

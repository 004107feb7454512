// The numbers of the time model as they stand in a TOML file: each with its unit and its source, so that nobody has to
// trust one. What no data sheet says is fitted to runs that were measured (tests/bench/autotune) or measured at a site
// (`longhaul tune --calibrate`):
//
//   [gpu.h100]
//   gemm_bf16 = { value = 0.74, unit = "of peak", source = "fit", start = 0.68, spread = 0.15 }
//
// `start` and `spread` say what was believed before the fit: the value, and the standard deviation of its logarithm.
// [gpu.*] and [framework.*] borrow what they do not say from the section that `like` names; [common-cpu], of ranks on
// processors, from [common].
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/value/value.h"

namespace longhaul {

struct Constant {
  std::string path;  // "gpu.h100.gemm_bf16"
  double value = 0;
  std::string unit, source;
  bool fitted = false;           // has start and spread
  double start = 0, spread = 0;  // of a fitted one; both positive
  SourcePos where;
};

class ConstantTable {
 public:
  // Errors of the whole text together: a number without unit or source, a fitted one that is not positive, an unknown
  // key. Texts ("like", "names") are kept apart from numbers.
  static Result<ConstantTable> parse(std::string_view text, const std::string& file_name);

  const Constant* find(std::string_view path) const;
  // The same, or the one that stands for it: of the section named by `like`, and for [common-cpu] that of [common].
  const Constant* find_or_borrow(std::string_view path) const;
  // not_found names the nearest one.
  Status set(std::string_view path, double value, const std::string& source);
  // Sets it, also where it was borrowed so far. not_found: no section of its group has one of that name.
  Status own(std::string_view path, double value, const std::string& source);
  // Owns every constant of `measured`: what a site's file says instead of this table. All errors together.
  Status take_over(const ConstantTable& measured);
  const std::vector<Constant>& constants() const { return constants_; }
  std::vector<Constant>& constants() { return constants_; }
  std::vector<std::string> fitted() const;  // paths
  // Sections below `group`, in the order written: "gpu" gives {"a100", "h100", ...}.
  std::vector<std::string> sections(std::string_view group) const;
  // "" and empty where there is none.
  std::string text_of(std::string_view path) const;
  std::vector<std::string> list_of(std::string_view path) const;
  // The file again, with values and sources as they are now; comments stay. Constants stand on a line of their own;
  // those that were borrowed before are added to their sections.
  std::string to_toml() const;

 private:
  std::string text_;
  Value document_;
  std::vector<Constant> constants_;
};

}  // namespace longhaul

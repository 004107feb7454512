// What of a plan does not fit, as its checks find it. What cannot fit even at the optimistic end of what is forecast is
// refused; what may not fit is a warning. A check that the user has allowed (--allow NAME) refuses nothing and warns.
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"

namespace longhaul {

// `device` is asked where the devices of stages are decided (preflight/stage_device.h), the others by check_fit.
enum class FitSubject { device, memory, context, cores, wall, space, budget };
const char* to_string(FitSubject check);

struct FitSubjectText {
  FitSubject check;
  std::string name, help;
};
const std::vector<FitSubjectText>& fit_subject_texts();
// Is the check among the names that the user gave?
bool allows(const std::vector<std::string>& allowed, FitSubject check);

class FitFindings {
 public:
  // `allowed`: names of checks.
  explicit FitFindings(std::vector<std::string> allowed) : allowed_(std::move(allowed)) {}

  // `remedy` holds the number or the layout that would fit; the option that goes on all the same is added. The same
  // problem of several stages is kept once.
  void refuse(FitSubject check, const SourcePos& where, const std::string& what, const std::string& remedy);
  void warn(FitSubject check, const SourcePos& where, const std::string& what, const std::string& remedy);
  // What was not checked, and why.
  void note(const std::string& text) { notes_.push_back(text); }

  bool nothing_found() const { return refused_.empty() && warnings_.empty(); }
  const Diagnostics& refused() const { return refused_; }
  const Diagnostics& warnings() const { return warnings_; }
  const std::vector<std::string>& notes() const { return notes_; }
  // "w.toml:9:14: warning: what; hint", a line each, sorted by place, and behind them "note: ..."; "" without any.
  std::string warnings_text() const;

 private:
  std::vector<std::string> allowed_;
  Diagnostics refused_, warnings_;
  std::vector<std::string> notes_;
};

}  // namespace longhaul

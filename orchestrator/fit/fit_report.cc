#include "orchestrator/fit/fit_report.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

void add_once(Diagnostics& to, const SourcePos& where, const std::string& what, const std::string& hint) {
  const auto& known = to.errors();
  const bool seen =
      std::any_of(known.begin(), known.end(), [&](const Error& one) { return one.what == what && one.where == where; });
  if (!seen) to.add(where, what, hint);
}

}  // namespace

const char* to_string(FitSubject check) {
  switch (check) {
    case FitSubject::device: return "device";
    case FitSubject::memory: return "memory";
    case FitSubject::context: return "context";
    case FitSubject::cores: return "cores";
    case FitSubject::wall: return "wall";
    case FitSubject::space: return "space";
    case FitSubject::budget: return "budget";
  }
  return "?";
}

const std::vector<FitSubjectText>& fit_subject_texts() {
  static const std::vector<FitSubjectText> texts = {
      {FitSubject::device, "device", "what a stage computes on, against the GPUs of its job: none idle, none missing"},
      {FitSubject::memory, "memory", "of a rank or a server, against what its GPU or its node has"},
      {FitSubject::context, "context", "prompts and answers, against the longest sequence of the model"},
      {FitSubject::cores, "cores", "ranks times threads, against this machine's"},
      {FitSubject::wall, "wall", "steps, against time_limit and the wall time of a job"},
      {FitSubject::space, "space", "checkpoints and models, against the quota, or what is free on this machine"},
      {FitSubject::budget, "budget", "node-hours and GPU-hours of all stages, against what the run may cost"},
  };
  return texts;
}

bool allows(const std::vector<std::string>& allowed, FitSubject check) {
  return std::find(allowed.begin(), allowed.end(), to_string(check)) != allowed.end();
}

void FitFindings::refuse(FitSubject check, const SourcePos& where, const std::string& what, const std::string& remedy) {
  if (allows(allowed_, check))
    return add_once(warnings_, where, what, format("{}; allowed by --allow {}", remedy, to_string(check)));
  add_once(refused_, where, what, format("{}; --allow {} goes on all the same", remedy, to_string(check)));
}

void FitFindings::warn(FitSubject /*check*/, const SourcePos& where, const std::string& what,
                       const std::string& remedy) {
  add_once(warnings_, where, what, remedy);
}

std::string FitFindings::warnings_text() const {
  std::vector<const Error*> sorted;
  for (const Error& one : warnings_.errors()) sorted.push_back(&one);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Error* a, const Error* b) {
    return a->where && b->where && a->where->line < b->where->line;
  });
  std::string text;
  for (const Error* one : sorted) {
    const SourcePos at = one->where.value_or(SourcePos{});
    const std::string place = at.line > 0 ? format("{}:{}:{}: ", at.file.str(), at.line, at.column) : std::string();
    text += place + "warning: " + one->what + (one->hint.empty() ? "" : "; " + one->hint) + "\n";
  }
  for (const std::string& note : notes_) text += "note: " + note + "\n";
  return text;
}

}  // namespace longhaul

#include "base/error/diagnostics.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace longhaul {

void Diagnostics::add(const SourcePos& where, std::string what, std::string hint) {
  Error error = make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
  if (!where.file.empty()) error.where = where;
  add(std::move(error));
}

void Diagnostics::merge(const Diagnostics& other) {
  errors_.insert(errors_.end(), other.errors_.begin(), other.errors_.end());
}

std::string Diagnostics::render(const std::string& consequence) const {
  std::vector<Error> sorted = errors_;
  const auto place = [](const Error& e) {
    return e.where ? std::tuple(e.where->file.str(), e.where->line, e.where->column) : std::tuple(std::string(), 0, 0);
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Error& a, const Error& b) { return place(a) < place(b); });
  std::string text;
  for (const Error& error : sorted) {
    Error bare = error;
    bare.where.reset();
    Error placed = error;
    placed.what = "error: " + error.what;
    text += (error.where ? placed.message() : "error: " + bare.message()) + "\n";
  }
  text += std::to_string(errors_.size()) + (errors_.size() == 1 ? " error" : " errors");
  if (!consequence.empty()) text += "; " + consequence;
  return text;
}

Status Diagnostics::to_status(const std::string& consequence) const {
  if (empty()) return {};
  return make_error(ErrorCode::invalid_input, render(consequence));
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  // Two edits turn any word of three letters into most others, so short words get one.
  std::size_t best_distance = (word.size() < 4 ? 1 : std::max<std::size_t>(2, word.size() / 3)) + 1;
  for (const std::string& candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t substituted = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace longhaul

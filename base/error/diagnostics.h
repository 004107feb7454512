// Collects every problem of one input so that they are reported together, in the order of their places.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

class Diagnostics {
 public:
  void add(Error error) { errors_.push_back(std::move(error)); }
  void add(const SourcePos& where, std::string what, std::string hint = {});
  bool empty() const { return errors_.empty(); }
  std::size_t size() const { return errors_.size(); }
  const std::vector<Error>& errors() const { return errors_; }
  void merge(const Diagnostics& other);

  // One line per problem ("file:line:column: error: what; hint"), sorted by place, then "3 errors; <consequence>".
  std::string render(const std::string& consequence) const;
  // ok() when empty, else one invalid_input error that holds render()'s text.
  Status to_status(const std::string& consequence) const;

 private:
  std::vector<Error> errors_;
};

// The nearest of `known` to `word` by edit distance, "" if none is close; for "did you mean".
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

}  // namespace longhaul

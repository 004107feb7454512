// Which form of tuning data a row is of, by its keys: asked by the stages that train on rows, and before anything runs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "contracts/settings/stages/tuning_row_form.h"

namespace longhaul {

// A row or a message without what is ignored and what is null. Both have to outlive it.
class RowKeys {
 public:
  RowKeys(const Value& table, std::span<const std::string> ignore) : table_(table), ignore_(ignore) {}

  const Value* find(std::string_view key) const;
  bool has_all(std::string_view keys) const;  // separated by spaces
  std::vector<std::string> names() const;
  // invalid_input unless every key is one of `known`: the first that is not, with what may be done.
  Status check_known(std::span<const std::string> known, std::string_view of) const;
  std::span<const std::string> ignored() const { return ignore_; }

 private:
  const Value& table_;
  std::span<const std::string> ignore_;
};

// The row's form, all of whose keys are known; invalid_input: it is of no form of this use, and what it lacks.
Result<const TuningRowForm*> form_of_row(const RowKeys& row, TuningRowUse use);

}  // namespace longhaul

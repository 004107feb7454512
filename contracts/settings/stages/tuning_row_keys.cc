#include "contracts/settings/stages/tuning_row_keys.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

Error wrong_row(std::string what, std::string hint = {}) {
  return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
}

Error of_another_use(const TuningRowForm& form) {
  const auto said = [&](const char* what, const char* who) {
    return wrong_row(format("the row is of the form {}, {}", form.name, what), format("{} trains on it", who));
  };
  if (form.use == TuningRowUse::preference)
    return said("which compares answers", "a stage of the kind align or reward");
  if (form.use == TuningRowUse::steps)
    return said("whose steps are right or wrong", "a stage of the kind reward with method = \"process\"");
  if (form.use == TuningRowUse::labelled)
    return said("whose answer is good or bad by itself", "align with method = \"kto\"");
  return said("in which no answers are compared", "a stage of the kind sft");
}

const char* form_to_use(TuningRowUse use) {
  if (use == TuningRowUse::instruction) return "use {\"input\", \"output\"} or {\"messages\"}";
  if (use == TuningRowUse::labelled) return "use {\"prompt\", \"completion\", \"label\"}";
  if (use == TuningRowUse::rated) return "use {\"prompt\", \"response\"} and the names of attributes";
  if (use == TuningRowUse::steps) return "use {\"prompt\", \"completions\", \"labels\"}";
  return "use {\"prompt\", \"chosen\", \"rejected\"}";
}

}  // namespace

const Value* RowKeys::find(std::string_view key) const {
  if (std::find(ignore_.begin(), ignore_.end(), key) != ignore_.end()) return nullptr;
  const Value* value = table_.find(key);
  return value && !value->is_null() ? value : nullptr;
}

bool RowKeys::has_all(std::string_view keys) const {
  const auto list = split(keys, ' ');
  return std::all_of(list.begin(), list.end(), [&](const std::string& key) { return find(key); });
}

std::vector<std::string> RowKeys::names() const {
  std::vector<std::string> names;
  for (const ValueMember& member : table_.as_table())
    if (find(member.key)) names.push_back(member.key);
  return names;
}

Status RowKeys::check_known(std::span<const std::string> known, std::string_view of) const {
  for (const std::string& key : names()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string hint = format("to train without it: ignore = [\"{}\"]", key);
    for (const RefusedRowKey& refused : refused_row_keys())
      if (key == refused.key) return wrong_row(format("'{}' is not used: {}", key, refused.why), hint);
    return wrong_row(format("'{}' is no key of {}", key, of), hint);
  }
  return {};
}

Result<const TuningRowForm*> form_of_row(const RowKeys& row, TuningRowUse use) {
  const TuningRowForm* of_other_use = nullptr;
  const bool reward = use == TuningRowUse::reward;
  if (reward) use = TuningRowUse::preference;
  for (const TuningRowForm& form : tuning_row_forms()) {
    if (!row.has_all(form.keys)) continue;
    if (form.use != use) {
      of_other_use = of_other_use ? of_other_use : &form;
      continue;
    }
    std::vector<std::string> known = split(form.keys, ' ');
    for (const std::string& key : split(form.optional, ' ')) known.push_back(key);
    for (const std::string& key : split(reward ? form.of_reward : "", ' ')) known.push_back(key);
    LH_CHECK(row.check_known(known, format("the form {} ({})", form.name, join(known, ", "))));
    return &form;
  }
  if (of_other_use) return of_another_use(*of_other_use);
  for (const RefusedRowKey& refused : refused_row_keys())
    if (row.find(refused.key)) return wrong_row(format("'{}' is not used: {}", refused.key, refused.why));
  for (const TuningRowForm& form : tuning_row_forms()) {  // one key is all that it lacks
    std::vector<std::string> missing;
    const auto keys = split(form.keys, ' ');
    for (const std::string& key : keys)
      if (!row.find(key)) missing.push_back(key);
    if (form.use == use && keys.size() > 1 && missing.size() == 1)
      return wrong_row(format("'{}' is missing: the other keys are those of the form {}", missing.front(), form.name));
  }
  return wrong_row(format("no known form; its keys are: {}", join(row.names(), ", ")), form_to_use(use));
}

}  // namespace longhaul

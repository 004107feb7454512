#include "engine/data/rows/rated_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json_lines.h"
#include "contracts/settings/stages/tuning_row_keys.h"

namespace longhaul {
namespace {

constexpr double not_said = std::numeric_limits<double>::quiet_NaN();

Error wrong_rating(std::string what, std::string hint = {}) {
  return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
}

// The conversation, as of an answer with a label (kto), whose messages are read and checked in the same way.
Result<RatedExample> conversation_of(const RowKeys& row, const char* prompt, const Value& answer) {
  Value labelled = Value::make_table();
  labelled.set("prompt", *row.find(prompt)), labelled.set("completion", answer), labelled.set("label", true);
  for (const char* key : {"system", "tools"})
    if (const Value* value = row.find(key)) labelled.set(key, *value);
  LH_TRY(LabelledExample read, labelled_of_row(labelled, row.ignored()));
  RatedExample example;
  example.prompt = std::move(read.prompt), example.answer = std::move(read.answer),
  example.tools = std::move(read.tools);
  return example;
}

Result<double> value_of(const Value& value, const RewardAttribute& attribute) {
  const auto wrong = [&](const std::string& is) {
    return wrong_rating(
        format("'{}' is {}, expected a number from {:g} to {:g}", attribute.name, is, attribute.min, attribute.max),
        "attribute.NAME.min and max are settings of the stage; leave out what is not known");
  };
  if (!value.is_number()) return wrong(value.kind_name());
  const double number = value.as_number();
  if (!(number >= attribute.min && number <= attribute.max)) return wrong(format("{:g}", number));
  return number;
}

Result<std::vector<std::string>> steps_at(const Value& list, const char* key, const std::string& separator) {
  if (!list.is_array() || list.size() == 0)
    return wrong_rating(format("'{}' is no list of steps", key), "a list of texts, one for each step");
  std::vector<std::string> steps;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Value& step = list.as_array()[i];
    if (!step.is_string()) return wrong_rating(format("{}[{}] is {}, expected a text", key, i, step.kind_name()));
    const std::string text = step.as_string();
    if (text.find_first_not_of(" \t\r\n") == std::string::npos)
      return wrong_rating(format("{}[{}] is empty", key, i), "leave the step and its label out");
    if (text.find(separator) != std::string::npos)
      return wrong_rating(format("{}[{}] holds step_separator", key, i), "cut the step in two, each with its label");
    steps.push_back(text);
  }
  return steps;
}

// One for each step, or which of them is the first wrong one.
Result<std::vector<double>> labels_at(const RowKeys& row, std::size_t steps) {
  std::vector<double> labels(steps, not_said);
  if (const Value* first = row.find("label")) {
    const bool whole =
        first->is_integer() && first->as_integer() >= -1 && first->as_integer() < static_cast<std::int64_t>(steps);
    if (!whole)
      return wrong_rating(format("'label' is {}, expected the number of the first wrong step, or -1",
                                 first->is_number() ? format("{:g}", first->as_number()) : first->kind_name()),
                          format("there are {} steps, counted from 0", steps));
    const auto wrong =
        static_cast<std::size_t>(first->as_integer() < 0 ? static_cast<std::int64_t>(steps) : first->as_integer());
    for (std::size_t i = 0; i < std::min(steps, wrong); ++i) labels[i] = 1;
    if (wrong < steps) labels[wrong] = 0;  // of those behind it nothing is said
    return labels;
  }
  const Value& list = *row.find("labels");
  if (!list.is_array() || list.size() != steps)
    return wrong_rating(list.is_array() ? format("'labels' has {} entries, and there are {} steps", list.size(), steps)
                                        : format("'labels' is {}, expected a list", list.kind_name()),
                        "one for each step; null where it is not known");
  for (std::size_t i = 0; i < steps; ++i) {
    const Value& label = list.as_array()[i];
    if (label.is_null()) continue;
    const double value = label.is_bool() ? (label.as_bool() ? 1 : 0) : label.is_number() ? label.as_number() : -1;
    if (!(value >= 0 && value <= 1))
      return wrong_rating(format("labels[{}] is {}, expected true, false, or a number from 0 to 1", i,
                                 label.is_number() ? format("{:g}", value) : label.kind_name()),
                          "true (or 1): the step is right; false (or 0): it is wrong; null: not known");
    labels[i] = value;
  }
  if (std::ranges::all_of(labels, [](double label) { return std::isnan(label); }))
    return wrong_rating("none of its steps has a label", "leave the row out");
  return labels;
}

}  // namespace

std::vector<std::string> keys_beside_form(const RewardForm& form, std::span<const std::string> ignore) {
  std::vector<std::string> keys(ignore.begin(), ignore.end());
  for (const RewardAttribute& one : form.attributes) keys.push_back(one.name);
  return keys;
}

Result<RatedExample> rated_of_row(const Value& value, const RewardForm& form, std::span<const std::string> ignore,
                                  bool needs_value) {
  const std::vector<std::string> beside = keys_beside_form(form, ignore);
  const RowKeys all(value, ignore), row(value, beside);
  LH_CHECK(form_of_row(row, TuningRowUse::rated));
  LH_TRY(RatedExample example, conversation_of(row, "prompt", *row.find("response")));
  std::vector<std::string> names;
  for (const RewardAttribute& one : form.attributes) {
    names.push_back(one.name);
    double& rating = example.values.emplace_back(not_said);
    if (const Value* written = all.find(one.name)) {
      LH_TRY(rating, value_of(*written, one));
    }
  }
  if (needs_value && std::ranges::all_of(example.values, [](double one) { return std::isnan(one); }))
    return wrong_rating("the row has a value of no attribute", "it may have " + join(names, ", "));
  return example;
}

Result<RatedExample> stepped_of_row(const Value& value, const RewardForm& form, std::span<const std::string> ignore) {
  const RowKeys row(value, ignore);
  LH_TRY(const TuningRowForm* const found, form_of_row(row, TuningRowUse::steps));
  const auto keys = split(found->keys, ' ');
  LH_TRY(const std::vector<std::string> steps, steps_at(*row.find(keys[1]), keys[1].c_str(), form.step_separator));
  LH_TRY(RatedExample example, conversation_of(row, keys[0].c_str(), Value(join(steps, form.step_separator))));
  LH_TRY(example.values, labels_at(row, steps.size()));
  LH_TRY(example.category, category_of_row(value, ignore));
  return example;
}

Result<std::vector<RatedExample>> parse_rated(std::string_view text, const std::string& name, const RewardForm& form,
                                              std::span<const std::string> ignore, bool needs_value) {
  std::vector<RatedExample> examples;
  LH_CHECK(for_each_json_row(text, {name, "examples"}, [&](const Value& row, int line) -> Status {
    LH_TRY(RatedExample example,
           form.method == "process" ? stepped_of_row(row, form, ignore) : rated_of_row(row, form, ignore, needs_value));
    example.line = line;
    examples.push_back(std::move(example));
    return {};
  }));
  return examples;
}

Result<std::vector<RatedExample>> read_rated(const std::string& path, const RewardForm& form,
                                             std::span<const std::string> ignore, bool needs_value) {
  LH_TRY(const MappedFile file, MappedFile::open(path));
  return parse_rated(file.view(), path, form, ignore, needs_value);
}

}  // namespace longhaul

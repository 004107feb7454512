// What a task makes of a row: its question, its answer and its choices, by field names and Jinja templates, as
// lm-evaluation-harness's ConfigurableTask.doc_to_text, doc_to_target and doc_to_choice do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contracts/evaluation/evaluation_task.h"
#include "engine/data/jinja/jinja_template.h"

namespace longhaul {

// One of them: a field's name, a template, or a value that is the same for every row.
class RowText {
 public:
  // `key` and the place of `text` stand in errors. A text that is the name of a column is that field.
  static Result<RowText> create(const Value& text, const std::string& key, const std::vector<std::string>& columns);
  bool is_given() const { return !constant_.is_null() || field_ || rendered_; }
  // As a template prints it, or what the field or the constant is.
  Result<Value> of(const Value& row) const;
  bool is_template() const { return rendered_.has_value(); }
  // `error` with the place where the text is written.
  Error at(Error error) const;

 private:
  SourcePos where_;
  std::string key_;
  Value constant_;
  std::optional<std::string> field_;
  std::optional<JinjaTemplate> rendered_;
};

class RowTexts {
 public:
  static Result<RowTexts> create(const TaskTexts& texts, const std::vector<std::string>& columns);
  bool has_choices() const { return choice_.is_given(); }
  // A text, or the index of a choice.
  Result<Value> text(const Value& row) const;
  // A text, the index of a choice, or a list of either.
  Result<Value> target(const Value& row) const;
  Result<std::vector<std::string>> choices(const Value& row) const;

 private:
  RowText text_, target_, choice_;
};

// str() of Python, of a value of a row.
Result<std::string> python_text(const Value& value);

}  // namespace longhaul

#include "engine/tasks/harness/row_texts.h"

#include <algorithm>
#include <charconv>

#include "base/text/text.h"
#include "engine/tasks/harness/python_literal.h"

namespace longhaul {

namespace {

bool is_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

Result<Value> number_of(const std::string& digits) {
  std::int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec != std::errc()) return make_error(ErrorCode::invalid_input, digits + " is no index of a choice");
  return Value(value);
}

// True and False count as 1 and 0 where an index is meant, as in Python.
Value as_index(const Value& value) {
  return value.is_bool() ? Value(static_cast<std::int64_t>(value.as_bool())) : value;
}

}  // namespace

Result<RowText> RowText::create(const Value& text, const std::string& key, const std::vector<std::string>& columns) {
  RowText made;
  made.where_ = text.pos, made.key_ = key;
  if (!text.is_string()) {
    made.constant_ = text;
    return made;
  }
  if (std::find(columns.begin(), columns.end(), text.as_string()) != columns.end()) {
    made.field_ = text.as_string();
    return made;
  }
  auto parsed = JinjaTemplate::parse(text.as_string(), key, {false, false, true, true});
  if (!parsed.ok()) return made.at(parsed.error());
  made.rendered_ = std::move(*parsed);
  return made;
}

Error RowText::at(Error error) const {
  // The line within the template, where it has several, and then the place of the whole.
  error.what = error.where && error.where->line > 1 ? format("{}, line {}: {}", key_, error.where->line, error.what)
                                                    : key_ + ": " + error.what;
  error.where = where_;
  return error;
}

Result<Value> RowText::of(const Value& row) const {
  if (field_) {
    const Value* value = row.find(*field_);
    return value != nullptr ? *value : Value();
  }
  if (!rendered_) return constant_;
  JinjaTable variables;
  for (const ValueMember& member : row.as_table()) variables.set(member.key, JinjaValue::from(member.value));
  const auto text = rendered_->render(variables);
  if (!text.ok()) return at(text.error());
  return Value(text->text);
}

Result<RowTexts> RowTexts::create(const TaskTexts& texts, const std::vector<std::string>& columns) {
  RowTexts made;
  LH_TRY(made.text_, RowText::create(texts.text, "doc_to_text", columns));
  LH_TRY(made.target_, RowText::create(texts.target, "doc_to_target", columns));
  LH_TRY(made.choice_, RowText::create(texts.choice, "doc_to_choice", columns));
  return made;
}

Result<Value> RowTexts::text(const Value& row) const {
  LH_TRY(const Value value, text_.of(row));
  if (text_.is_template() && is_digits(value.as_string()) && has_choices()) return number_of(value.as_string());
  if (value.is_string() || value.is_integer() || value.is_bool()) return as_index(value);
  return text_.at(make_error(ErrorCode::unsupported, format("a question is {}", value.kind_name()),
                             "it has to be a text, or the index of a choice"));
}

Result<Value> RowTexts::target(const Value& row) const {
  LH_TRY(const Value value, target_.of(row));
  if (!target_.is_template()) {
    if (value.is_null() || value.is_table())
      return target_.at(make_error(ErrorCode::unsupported, format("an answer is {}", value.kind_name())));
    return value.is_array() ? value : as_index(value);
  }
  const std::string& text = value.as_string();
  if (is_digits(text) && has_choices()) return number_of(text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    auto list = python_literal(text);
    return list.ok() ? std::move(list) : Result<Value>(value);
  }
  return value;
}

Result<std::vector<std::string>> RowTexts::choices(const Value& row) const {
  LH_TRY(Value value, choice_.of(row));
  if (choice_.is_template()) {
    auto list = python_literal(value.as_string());
    if (!list.ok()) return choice_.at(list.error());
    value = std::move(*list);
  }
  std::vector<std::string> made;
  if (value.is_table()) {
    for (const ValueMember& member : value.as_table())
      if (member.value.is_string()) made.push_back(member.value.as_string());
    if (made.size() == value.size()) return made;
  } else if (value.is_array()) {
    for (const Value& one : value.as_array())
      if (one.is_string()) made.push_back(one.as_string());
    if (made.size() == value.size() && !made.empty()) return made;
  }
  return choice_.at(make_error(ErrorCode::invalid_input, "the choices of a row are no list of texts"));
}

Result<std::string> python_text(const Value& value) {
  if (value.is_string()) return value.as_string();
  return jinja_str(JinjaValue::from(value));
}

}  // namespace longhaul

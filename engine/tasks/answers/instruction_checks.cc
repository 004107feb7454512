#include "engine/tasks/answers/instruction_checks.h"

#include <algorithm>
#include <cmath>

#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_text.h"
#include "engine/tasks/answers/instruction_table.h"

namespace longhaul {

Error InstructionArguments::missing(const std::string& key, const char* what) const {
  return make_error(ErrorCode::invalid_input,
                    format("the instruction {} needs {} in kwargs.{}", instruction_, what, key));
}

bool InstructionArguments::has(const std::string& key) const {
  const Value* value = given_.find(key);
  if (value == nullptr || value->is_null()) return false;
  if (value->is_string()) return !value->as_string().empty();
  if (value->is_number()) return value->as_number() != 0;
  return !value->is_array() || !value->as_array().empty();
}

Result<std::string> InstructionArguments::text(const std::string& key) const {
  if (!has(key) || !given_.find(key)->is_string()) return missing(key, "a text");
  return strip_text(given_.find(key)->as_string(), true, true);
}

Result<std::int64_t> InstructionArguments::whole(const std::string& key) const {
  const Value* value = given_.find(key);
  if (!has(key) || !value->is_number() || value->as_number() < 0 || value->as_number() > 1e9 ||
      value->as_number() != std::floor(value->as_number()))
    return missing(key, "a whole number");
  return static_cast<std::int64_t>(value->as_number());
}

Result<std::vector<std::string>> InstructionArguments::texts(const std::string& key) const {
  const Value* value = given_.find(key);
  if (!has(key) || !value->is_array() || !std::ranges::all_of(value->as_array(), &Value::is_string))
    return missing(key, "a list of texts");
  std::vector<std::string> made;
  for (const Value& one : value->as_array()) made.push_back(one.as_string());
  return made;
}

Result<bool> InstructionArguments::compares(std::int64_t count, const std::string& count_key,
                                            const std::string& relation_key) const {
  LH_TRY(const std::int64_t asked, whole(count_key));
  LH_TRY(const std::string relation, text(relation_key));
  if (relation == "less than") return count < asked;
  if (relation == "at least") return count >= asked;
  return missing(relation_key, "\"at least\" or \"less than\"");
}

Result<InstructionChecks> InstructionChecks::create(const Value& row) {
  const Value *names = row.find("instruction_id_list"), *given = row.find("kwargs");
  if (names == nullptr || !names->is_array() || names->as_array().empty() || given == nullptr || !given->is_array() ||
      given->size() != names->size())
    return make_error(ErrorCode::invalid_input,
                      "a row has no instruction_id_list and kwargs, two lists of the same length");
  InstructionChecks made;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const Value &name = names->as_array()[i], &arguments = given->as_array()[i];
    const std::string known = name.is_string() ? name.as_string() : std::string();
    if (find_instruction(known) == nullptr) {
      const std::string nearest = nearest_word(known, instruction_names());
      return make_error(
          ErrorCode::invalid_input, format("the instruction '{}' is not known", known),
          nearest.empty() ? "its kinds: " + join(instruction_names(), ", ") : "did you mean '" + nearest + "'?");
    }
    if (!arguments.is_table() && !arguments.is_null())
      return make_error(ErrorCode::invalid_input, format("kwargs of the instruction {} are no object", known));
    made.instructions_.emplace_back(known, arguments.is_table() ? arguments : Value::make_table());
  }
  // What is missing is said before anything is asked.
  for (const InstructionArguments& one : made.instructions_)
    LH_CHECK(find_instruction(one.instruction())->holds(one, "-"));
  return made;
}

Result<std::vector<bool>> InstructionChecks::strict(const std::string& answer) const {
  std::vector<bool> made;
  const bool says = !strip_text(answer, true, true).empty();
  for (const InstructionArguments& one : instructions_) {
    bool follows = false;
    if (says) {
      LH_TRY(follows, find_instruction(one.instruction())->holds(one, answer));
    }
    made.push_back(follows);
  }
  return made;
}

Result<std::vector<bool>> InstructionChecks::loose(const std::string& answer) const {
  const std::vector<std::string> lines = split(answer, '\n');
  const auto part = [&](std::size_t from, std::size_t end) {
    std::vector<std::string> kept;
    for (std::size_t i = from; i < end; ++i) kept.push_back(lines[i]);
    return strip_text(join(kept, "\n"), true, true);
  };
  const std::size_t n = lines.size();
  std::vector<std::string> readings = {answer, part(1, n), part(0, n - 1), part(1, n > 1 ? n - 1 : 0)};
  for (std::size_t i = 0; i < 4; ++i) {
    std::string plain = readings[i];
    std::erase(plain, '*');
    readings.push_back(std::move(plain));
  }
  std::vector<bool> made(instructions_.size(), false);
  for (const std::string& reading : readings) {
    LH_TRY(const std::vector<bool> follows, strict(reading));
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = made[i] || follows[i];
  }
  return made;
}

std::vector<std::string> instruction_names() {
  std::vector<std::string> names;
  for (const InstructionKind& one : instruction_table()) names.emplace_back(one.name);
  return names;
}

}  // namespace longhaul

#include "orchestrator/workflow/source/written_hints.h"

#include <algorithm>
#include <cctype>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"

namespace longhaul {
namespace {

constexpr std::size_t value_shown_max = 40;

std::string line_of(const std::string& text, int number) {
  const auto lines = split(text, '\n');
  return number < 1 || static_cast<std::size_t>(number) > lines.size() ? ""
                                                                       : lines[static_cast<std::size_t>(number) - 1];
}

// The first line that says something.
std::string first_line(const std::string& text) {
  const auto lines = split(text, '\n');
  for (const std::string& line : lines)
    if (const std::string trimmed = trim(line); !trimmed.empty() && trimmed.front() != '#') return trimmed;
  return {};
}

std::string other_format(const std::string& path, const std::string& text) {
  const std::string toml =
      "; a workflow is TOML: [workflow] with name = \"...\", then a [stage.NAME] for each stage "
      "(docs/workflows.md)";
  const std::string first = first_line(text);
  if (starts_with(text, "\xff\xfe") || starts_with(text, "\xfe\xff")) return "the file is UTF-16; save it as UTF-8";
  if (ends_with(path, ".py") || starts_with(first, "import ") || starts_with(first, "from ") || starts_with(text, "#!"))
    return "this is a program; run it in a stage of kind \"command\": argv = [\"python3\", \"" + file_name(path) +
           "\"]" + toml;
  if (ends_with(path, ".json") || starts_with(first, "{")) return "this is JSON" + toml;
  if (ends_with(path, ".yaml") || ends_with(path, ".yml") || starts_with(first, "---")) return "this is YAML" + toml;
  return {};
}

bool is_bare_word(const std::string& value) {
  return !value.empty() && (std::isalpha(static_cast<unsigned char>(value.front())) != 0 || value.front() == '/' ||
                            value.front() == '.' || value.front() == '@' || value.front() == '~');
}

// Whether a text that is begun in the line is closed in it.
bool is_closed(const std::string& value) {
  char open = '\0';
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (open == '"' && c == '\\')
      ++i;
    else if (open != '\0' && c == open)
      open = '\0';
    else if (open == '\0' && c == '#')
      return true;
    else if (open == '\0' && (c == '"' || c == '\''))
      open = c;
  }
  return open == '\0';
}

// Where a value ends as no value does: a comment of another language, a number as people write it.
std::string number_hint(const std::string& key, const std::string& word) {
  std::string digits;
  for (const char c : word)
    if (c != ',' && c != '_') digits += c;
  const std::size_t end = digits.find_first_not_of("0123456789");
  if (digits.empty() || end == 0) return {};
  const std::string rest = end == std::string::npos ? "" : digits.substr(end);
  const char* zeros = rest == "k" || rest == "K" ? "000" : rest == "M" ? "000000" : rest == "B" ? "000000000" : "";
  if (!rest.empty() && *zeros == '\0') return {};
  return "write " + visible_line(key) + " = " + digits.substr(0, end) + zeros;
}

std::string value_hint(const std::string& key, const std::string& value) {
  const std::string word = trim(value.substr(0, value.find('#')));
  if (word == "True" || word == "False")
    return "write " + visible_line(key) + " = " + (word == "True" ? "true" : "false");
  if (word == "None" || word == "null" || word == "nil") return "leave the key out: without it its default counts";
  if (const std::size_t at = word.find("//");
      at != std::string::npos && std::count(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(at), '"') % 2 == 0)
    return "a comment begins with #";
  if (word.find("\u201c") != std::string::npos || word.find("\u201d") != std::string::npos)
    return "write straight quotes: \"";
  if (starts_with(word, "{") && word.find('}') == std::string::npos)
    return "such a table stands in one line: " + visible_line(key) + " = { ... }";
  return number_hint(key, word);
}

// What the reader expected and found, where that says more than the line.
std::string reader_hint(const std::string& what, const std::string& line) {
  if (what.find("expected '=', saw ':'") != std::string::npos && line.find('=') != std::string::npos)
    return "write = between a key and its value, here too";
  const std::size_t quote = line.find('"');
  if (what.find("expected '=', saw '\"'") != std::string::npos && quote != std::string::npos)
    return "write " + visible_line(trim(line.substr(0, quote))) + " = " + visible_line(trim(line.substr(quote)));
  return {};
}

std::string line_hint(const std::string& line) {
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) return {};
    const std::string key = trim(line.substr(0, colon));
    return key.empty() || key.size() > value_shown_max ? "" : "write " + visible_line(key) + " = ..., with '='";
  }
  const std::string key = trim(line.substr(0, equals)), value = trim(line.substr(equals + 1));
  if (std::string hint = value_hint(key, value); !hint.empty()) return hint;
  if (!is_closed(value)) return "the text that begins in this line is not closed with a quote in it";
  const std::string shown = trim(value.substr(0, value.find('#')));
  if (is_bare_word(shown) && shown.size() <= value_shown_max && shown.find('"') == std::string::npos)
    return "text needs quotes: " + visible_line(key) + " = \"" + visible_line(shown) + "\"";
  return {};
}

// The key of a line "key = value"; "" where it is none.
std::string key_of(const std::string& line) {
  const std::size_t equals = line.find('=');
  return equals == std::string::npos ? "" : trim(line.substr(0, equals));
}

// Of a key or table that stands twice: where it stands first. A key's table begins at the "[" above it.
std::string first_place_hint(const std::string& text, const Error& error) {
  if (!error.where || error.what.find("cannot redefine existing") == std::string::npos) return {};
  const auto lines = split(text, '\n');
  const auto last = std::min<std::size_t>(lines.size(), static_cast<std::size_t>(std::max(1, error.where->line)));
  const std::string again = trim(lines[last - 1]), key = key_of(again);
  const bool is_table = starts_with(again, "[");
  for (std::size_t i = last - 1; i-- > 0;) {
    const std::string line = trim(lines[i]);
    if (!is_table && starts_with(line, "[")) return {};
    if (is_table ? line == again : !key.empty() && key_of(line) == key)
      return format("it stands first in line {}; keep one of the two", i + 1);
  }
  return {};
}

bool is_hub_name(const std::string& path) {
  const auto parts = split(path, '/');
  return parts.size() == 2 && !parts[0].empty() && !parts[1].empty() && parts[0].find('.') == std::string::npos &&
         parts[0].find('*') == std::string::npos;
}

}  // namespace

std::string syntax_hint(const std::string& path, const std::string& text, const Error& error) {
  if (std::string other = other_format(path, text); !other.empty()) return other;
  if (std::string first = first_place_hint(text, error); !first.empty()) return first;
  if (error.where)
    if (std::string hint = reader_hint(error.what, line_of(text, error.where->line)); !hint.empty()) return hint;
  return error.where ? line_hint(line_of(text, error.where->line)) : "";
}

std::string kind_hint(const std::string& kind, const std::vector<std::string>& known) {
  struct Row {
    const char *theirs, *ours;
  };
  static constexpr Row rows[] = {{"train", "pretrain"},
                                 {"training", "pretrain"},
                                 {"pretraining", "pretrain"},
                                 {"finetune", "sft"},
                                 {"fine-tune", "sft"},
                                 {"finetuning", "sft"},
                                 {"lora", "sft"},
                                 {"instruct", "sft"},
                                 {"dpo", "align"},
                                 {"grpo", "align"},
                                 {"rlhf", "align"},
                                 {"preference", "align"},
                                 {"distill", "align"},
                                 {"distillation", "align"},
                                 {"eval", "evaluate"},
                                 {"evaluation", "evaluate"},
                                 {"test", "evaluate"},
                                 {"generate", "sample"},
                                 {"rejection-sampling", "sample"},
                                 {"best-of-n", "sample"},
                                 {"rlaif", "sample"},
                                 {"serve", "deploy"},
                                 {"server", "deploy"},
                                 {"serving", "deploy"},
                                 {"inference", "deploy"},
                                 {"clean", "curate"},
                                 {"filter", "curate"},
                                 {"preprocess", "curate"},
                                 {"data", "curate"},
                                 {"tokenizer", "tokenize"},
                                 {"tokenization", "tokenize"},
                                 {"script", "command"},
                                 {"shell", "command"},
                                 {"python", "command"},
                                 {"torchrun", "command"},
                                 {"export", "convert"},
                                 {"quantization", "quantize"},
                                 {"quant", "quantize"}};
  std::string small;
  for (const unsigned char c : kind) small += static_cast<char>(std::tolower(c));
  for (const Row& row : rows)
    if (small == row.theirs) return std::string("did you mean '") + row.ours + "'?";
  const std::string nearest = nearest_word(small, known);
  return nearest.empty() ? "one of: " + join(known, ", ") : "did you mean '" + nearest + "'?";
}

namespace {

// What was written in place of a table, in the member that it was meant for; else the first member's default.
std::string table_example(const std::string& key, const std::vector<FieldInfo>& members, const Value* written) {
  const FieldInfo& first = members.front();
  if (written != nullptr && written->is_string())
    for (const FieldInfo& member : members)
      for (const std::string& choice : member.options.choices)
        if (choice == written->as_string()) return format("write {} = {{ {} = \"{}\" }}", key, member.name, choice);
  if (written != nullptr && written->is_integer() && first.type == "integer")
    return format("write {} = {{ {} = {} }}", key, first.name, written->as_integer());
  return format("for example {} = {{ {} = {} }}", key, first.name, first.default_text);
}

}  // namespace

Error with_table_hint(Error error, const std::vector<FieldInfo>& fields, const Value& table, const std::string& where) {
  const std::string expected = ", expected a table", prefix = where + ".";
  if (!error.hint.empty() || !ends_with(error.what, expected) || !starts_with(error.what, prefix)) return error;
  const std::string key = error.what.substr(prefix.size(), error.what.find(" is ") - prefix.size());
  const auto field = std::find_if(fields.begin(), fields.end(), [&](const FieldInfo& one) { return one.name == key; });
  if (field == fields.end() || field->members.empty() || field->named) return error;
  error.hint = table_example(key, field->members, table.find(key));
  if (key == "model")
    error.hint += "; recipe = \"NAME\" brings a shape, and a model that is there is an input: inputs.model";
  return error;
}

std::string missing_path_hint(const std::string& path, const std::string& what, const std::string& folder,
                              const std::function<bool(const std::string&)>& is_stage) {
  const std::string first = path.substr(0, path.find('/'));
  if (is_stage(first)) return "there is a stage '" + first + "': write \"@" + path + "\" for what it makes";
  if (starts_with(path, "~") || path.find('$') != std::string::npos)
    return "~ and variables of the shell are not replaced; write the whole path, or \"${params.NAME}\" with --set";
  const std::string start = "relative paths start at the workflow's folder, " + folder;
  if ((ends_with(what, ".inputs.model") || ends_with(what, ".inputs.baseline")) && is_hub_name(path))
    return start + "; if it is a model's name at a hub, download it first and name the folder: nothing is downloaded";
  return start;
}

Error with_syntax_hint(Error error, const std::string& path, const std::string& text) {
  if (std::string hint = syntax_hint(path, text, error); !hint.empty()) error.hint = std::move(hint);
  return error;
}

}  // namespace longhaul

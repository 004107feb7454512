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

std::string line_hint(const std::string& line) {
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) return {};
    const std::string key = trim(line.substr(0, colon));
    return key.empty() || key.size() > value_shown_max ? "" : "write " + visible_line(key) + " = ..., with '='";
  }
  const std::string key = trim(line.substr(0, equals)), value = trim(line.substr(equals + 1));
  if (!is_closed(value)) return "the text that begins in this line is not closed with a quote in it";
  const std::string word = trim(value.substr(0, value.find('#')));
  if (is_bare_word(word) && word.size() <= value_shown_max && word.find('"') == std::string::npos)
    return "text needs quotes: " + visible_line(key) + " = \"" + visible_line(word) + "\"";
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
  return error.where ? line_hint(line_of(text, error.where->line)) : "";
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

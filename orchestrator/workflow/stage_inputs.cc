#include "orchestrator/workflow/stage_inputs.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/text/text.h"

namespace longhaul {
namespace {

bool is_variable_name(const std::string& name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

std::vector<std::string> input_names(const StageKind& kind) {
  std::vector<std::string> names;
  for (const StageInput& input : kind.inputs) names.push_back(input.name);
  return names;
}

// The step of "stage@500" and "stage@every" is taken off the name.
bool take_milestone(StageInputText& input) {
  const std::size_t at = input.stage.find('@');
  if (at == std::string::npos) return true;
  const std::string step = input.stage.substr(at + 1);
  input.stage.resize(at);
  if (step == "every") {
    input.milestone = StageInputText::every_milestone;
    return true;
  }
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), input.milestone);
  return error == std::errc() && end == step.data() + step.size() && input.milestone > 0;
}

// "@stage/file" into its parts; a path within an artifact may not leave it.
bool read_reference(const std::string& path, const std::string& text, StageInputText& input, Diagnostics& diagnostics) {
  const std::size_t slash = text.find('/');
  input.stage = text.substr(1, slash == std::string::npos ? std::string::npos : slash - 1);
  if (slash != std::string::npos) input.within = text.substr(slash + 1);
  if (!take_milestone(input)) {
    diagnostics.add(input.where, path + " = \"" + text + "\" does not name a milestone",
                    "write \"@stage@STEP\", for example \"@pretrain@500\", or \"@stage@every\"");
    return false;
  }
  const auto parts = split(input.within, '/');
  if (input.stage.empty() || (slash != std::string::npos && input.within.empty()) ||
      std::find(parts.begin(), parts.end(), "..") != parts.end() || starts_with(input.within, "/")) {
    diagnostics.add(input.where, path + " = \"" + text + "\" is not a reference",
                    "write \"@stage\" or \"@stage/file\"");
    return false;
  }
  return true;
}

bool read_value(const std::string& path, const Value& value, StageInputText& input, Diagnostics& diagnostics) {
  if (value.is_string() && starts_with(value.as_string(), "@"))
    return read_reference(path, value.as_string(), input, diagnostics);
  ValueArray list;
  if (value.is_array())
    list = value.as_array();
  else
    list.push_back(value);
  if (list.empty()) {
    diagnostics.add(value.pos, path + " is an empty list", "name at least one file, folder or glob");
    return false;
  }
  for (const Value& element : list) {
    if (!element.is_string() || element.as_string().empty()) {
      diagnostics.add(
          element.pos,
          path + " holds " + (element.is_string() ? "an empty text" : element.kind_name()) + ", expected a path",
          "write \"@stage\", a path, or a list of paths");
      return false;
    }
    if (starts_with(element.as_string(), "@")) {
      diagnostics.add(element.pos, path + " mixes '" + element.as_string() + "' into a list of paths",
                      "an input is one \"@stage\" or a list of paths");
      return false;
    }
    input.paths.push_back(element.as_string());
  }
  return true;
}

struct BlendName {
  std::string name;
  SourcePos where;
  std::string key;  // "blend", or "phase.main.blend"
};

void add_blend_names(const Value& table, const std::string& prefix, std::vector<BlendName>& names) {
  const Value* blend = table.find("blend");
  if (!blend || !blend->is_array()) return;
  for (const Value& name : blend->as_array())
    if (name.is_string()) names.push_back({name.as_string(), blend->pos, prefix + "blend"});
}

// What a stage that blends, or one of its phases, names in `blend`; wrong types are the field table's to report.
std::vector<BlendName> blend_names(const StageKind& kind, const Value& table) {
  std::vector<BlendName> names;
  if (!kind.blended) return names;
  add_blend_names(table, "", names);
  if (const Value* phases = table.find("phase"); phases && phases->is_table())
    for (const ValueMember& phase : phases->as_table()) add_blend_names(phase.value, "phase." + phase.key + ".", names);
  return names;
}

const StageInput* known_input(const StageKind& kind, const std::vector<BlendName>& blend, const std::string& name) {
  for (const StageInput& input : kind.inputs)
    if (input.name == name) return &input;
  return std::ranges::find(blend, name, &BlendName::name) != blend.end() ? &*kind.blended : nullptr;
}

// What was written, as the kind's first input.
std::string inputs_example(const StageKind& kind, const Value& given) {
  const std::string name = kind.inputs.empty() ? "data" : kind.inputs.front().name;
  const Value& one = given.is_array() && given.size() == 1 ? given.as_array().front() : given;
  if (!one.is_string()) return "for example inputs = { " + name + " = \"@corpus\" }";
  return "write inputs = { " + name + " = \"" + one.as_string() + "\" }";
}

}  // namespace

std::vector<StageInputText> read_stage_inputs(const std::string& stage, const StageKind& kind, const Value& table,
                                              Diagnostics& diagnostics) {
  std::vector<StageInputText> inputs;
  const Value* given = table.find("inputs");
  if (given && !given->is_table()) {
    diagnostics.add(given->pos, "stage." + stage + ".inputs is " + given->kind_name() + ", expected a table",
                    inputs_example(kind, *given));
    return inputs;
  }
  const std::vector<BlendName> blend = blend_names(kind, table);
  for (const StageInput& known : kind.inputs)
    if (known.required && !(given && given->find(known.name)))
      diagnostics.add(table.pos, "stage." + stage + ".inputs." + known.name + " is missing", known.help);
  if (!given) return inputs;
  for (const ValueMember& member : given->as_table()) {
    const std::string path = "stage." + stage + ".inputs." + member.key;
    StageInputText input;
    input.name = member.key;
    input.where = member.value.pos;
    const StageInput* known = known_input(kind, blend, member.key);
    if (!known && !kind.any_inputs) {
      const auto names = input_names(kind);
      const std::string nearest = nearest_word(member.key, names);
      diagnostics.add(member.key_pos, "stage kind '" + kind.name + "' has no input '" + member.key + "'",
                      (nearest.empty() ? "its inputs: " + join(names, ", ") + (kind.blended ? "." : "")
                                       : "did you mean '" + nearest + "'?") +
                          (kind.blended ? " Further token files are named in blend" : ""));
      continue;
    }
    if (kind.any_inputs && !is_variable_name(member.key)) {
      diagnostics.add(member.key_pos, "'" + member.key + "' cannot name an input of a command",
                      "use letters, digits and '_': it becomes $LONGHAUL_INPUT_<NAME>");
      continue;
    }
    if (!read_value(path, member.value, input, diagnostics)) continue;
    if (!known) {
      input.any_kind = true;
    } else {
      input.kinds = known->kinds;
      if (input.stage.empty() && !known->raw) {
        diagnostics.add(input.where, path + " takes a stage's artifact, not a path", "write \"@stage\"");
        continue;
      }
    }
    inputs.push_back(std::move(input));
  }
  for (const BlendName& one : blend)
    if (!given->find(one.name))
      diagnostics.add(one.where,
                      "stage." + stage + "." + one.key + " names '" + one.name + "', which is no input of it",
                      "add it to inputs: " + one.name + " = \"@stage\"");
  return inputs;
}

}  // namespace longhaul

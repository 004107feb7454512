#include "orchestrator/workflow/source/matrix.h"

#include <cctype>
#include <map>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "orchestrator/workflow/source/figure_check.h"
#include "orchestrator/workflow/source/overrides.h"

namespace longhaul {
namespace {

constexpr std::size_t variant_name_max = 120;  // folder names end at 255 bytes

struct MatrixAxis {
  std::string label;              // as written: "lr"
  std::vector<std::string> path;  // where it goes: {"optimizer", "lr"}
  const ValueArray* values = nullptr;
  SourcePos where;
};

bool has_field(const std::vector<FieldInfo>& fields, const std::string& name) {
  for (const FieldInfo& field : fields)
    if (field.name == name) return true;
  return false;
}

std::vector<std::string> target_of(const std::string& label, const StageKind& kind) {
  std::vector<std::string> path = split(label, '.');
  if (path.size() > 1 || has_field(kind.fields, label)) return path;
  for (const std::string& key : workflow_stage_keys())
    if (key == label) return path;
  std::vector<std::string> groups;
  for (const FieldInfo& field : kind.fields)
    if (!field.named && has_field(field.members, label)) groups.push_back(field.name);
  if (groups.size() == 1) return {groups[0], label};
  return path;  // unknown, or not clear: the stage's own check says so
}

void collect_axes(const Value& matrix, const std::string& prefix, const std::string& stage, const StageKind& kind,
                  std::vector<MatrixAxis>& axes, Diagnostics& diagnostics) {
  for (const ValueMember& member : matrix.as_table()) {
    const std::string label = prefix.empty() ? member.key : prefix + "." + member.key;
    if (member.value.is_table()) {
      collect_axes(member.value, label, stage, kind, axes, diagnostics);
    } else if (!member.value.is_array() || member.value.size() == 0) {
      diagnostics.add(member.value.pos, "stage." + stage + ".matrix." + label + " is not a list of values",
                      "for example " + label + " = [1, 2]");
    } else if (label == "kind" || label == "matrix" || label == "best" || label == "recipe") {
      diagnostics.add(member.key_pos, "'" + label + "' cannot vary in a matrix");
    } else {
      axes.push_back({label, target_of(label, kind), &member.value.as_array(), member.key_pos});
    }
  }
}

std::string value_label(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::boolean: return value.as_bool() ? "true" : "false";
    case Value::Kind::integer: return std::to_string(value.as_integer());
    case Value::Kind::number: return format("{}", value.as_number());
    case Value::Kind::string: return value.as_string();
    case Value::Kind::array: {
      std::vector<std::string> parts;
      for (const Value& element : value.as_array()) parts.push_back(value_label(element));
      return join(parts, "+");
    }
    case Value::Kind::table: {
      std::vector<std::string> parts;
      for (const ValueMember& member : value.as_table()) parts.push_back(member.key + value_label(member.value));
      return join(parts, "+");
    }
    default: return "none";
  }
}

std::string safe_name(const std::string& text) {
  std::string name;
  for (unsigned char c : text)
    name += std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == '+' || c == '=' || c == ','
                ? static_cast<char>(c)
                : '_';
  if (name.size() <= variant_name_max) return name;
  return name.substr(0, variant_name_max - 9) + "-" + hex64(xxh3_64(text)).substr(0, 8);
}

}  // namespace

const FieldTable<BestRule>& best_rule_fields() {
  static const auto table = FieldTable<BestRule>()
                                .field("metric", &BestRule::metric,
                                       {.help = "figure of the variants by which one is chosen", .required = true})
                                .field("mode", &BestRule::mode,
                                       {.help = "the smallest or the largest figure wins", .choices = {"min", "max"}});
  return table;
}

BestRule read_best_rule(const Value& written, bool is_matrix, const std::string& kind, const std::string& where,
                        Diagnostics& diagnostics) {
  const BestRule rule = best_rule_fields().parse(written, where, diagnostics);
  if (!is_matrix)
    diagnostics.add(written.pos, where + " stands in a stage without matrix", "remove it, or add a matrix");
  else if (const Value* metric = written.find("metric"))
    check_figure(kind, rule.metric, where + ".metric", metric->pos, diagnostics);
  return rule;
}

std::vector<MatrixVariant> expand_matrix(const std::string& stage, const StageKind& kind, const Value& table,
                                         Diagnostics& diagnostics) {
  const Value* matrix = table.find("matrix");
  if (!matrix) return {{"", table}};
  std::vector<MatrixAxis> axes;
  if (!matrix->is_table() || matrix->size() == 0)
    diagnostics.add(matrix->pos, "stage." + stage + ".matrix is not a table of lists",
                    "for example { lr = [1e-5, 2e-5] }");
  else
    collect_axes(*matrix, "", stage, kind, axes, diagnostics);
  std::size_t count = 1;
  for (const MatrixAxis& axis : axes)
    if (count <= variants_max) count *= axis.values->size();
  if (axes.empty()) return {{"", table}};
  if (count > variants_max) {
    diagnostics.add(matrix->pos, format("stage.{}.matrix has more than {} combinations", stage, variants_max),
                    "split the stage");
    return {{"", table}};
  }

  std::vector<MatrixVariant> variants;
  std::map<std::string, std::size_t> seen;
  for (std::size_t combination = 0; combination < count; ++combination) {
    MatrixVariant variant{"", table};
    std::size_t rest = combination, block = count;
    std::vector<std::string> labels;
    for (const MatrixAxis& axis : axes) {
      block /= axis.values->size();
      const Value& value = (*axis.values)[rest / block];
      rest %= block;
      set_at_path(variant.table, axis.path, value, axis.where);
      labels.push_back(axis.label + "=" + value_label(value));
    }
    variant.name = safe_name(join(labels, ","));
    if (!seen.emplace(variant.name, combination).second) {
      diagnostics.add(matrix->pos, "stage." + stage + ".matrix makes the variant '" + variant.name + "' twice",
                      "every combination needs a name of its own; remove the repeated value");
      continue;
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

}  // namespace longhaul

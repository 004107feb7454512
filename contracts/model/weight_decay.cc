#include "contracts/model/weight_decay.h"

#include <algorithm>

#include "base/error/diagnostics.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

bool has(const std::string& name, const char* part) {
  return name.find(part) != std::string::npos;
}

// `*` is any text, also none.
bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() != '*')
    return !name.empty() && pattern.front() == name.front() && matches(pattern.substr(1), name.substr(1));
  for (std::size_t skipped = 0; skipped <= name.size(); ++skipped)
    if (matches(pattern.substr(1), name.substr(skipped))) return true;
  return false;
}

bool is_name(const std::string& rule) {
  return rule.find_first_of("*.") != std::string::npos;
}

bool means(const std::string& rule, const ParameterSpec& parameter) {
  const std::string& name = parameter.name;
  const bool bias = ends_with(name, ".bias");
  if (rule == "biases") return bias;
  if (rule == "norms") return !parameter.weight_decay && (!bias || has(name, "norm") || has(name, "ln_"));
  if (rule == "embeddings") return has(name, "embed_tokens") || has(name, "wte") || has(name, "wpe");
  return matches(rule, name);
}

}  // namespace

bool without_decay(const ParameterSpec& parameter, const std::vector<std::string>& rules) {
  return std::ranges::any_of(rules, [&](const std::string& rule) { return means(rule, parameter); });
}

Status check_no_decay(const std::vector<std::string>& rules) {
  const std::vector<std::string> kinds = {"norms", "biases", "embeddings"};
  for (const std::string& rule : rules) {
    if (is_name(rule) || std::ranges::find(kinds, rule) != kinds.end()) continue;
    const std::string nearest = nearest_word(rule, kinds);
    return make_error(
        ErrorCode::invalid_input, format("optimizer.no_decay has \"{}\", which is not known", rule),
        nearest.empty() ? "norms, biases, embeddings, or a name with *" : format("did you mean \"{}\"?", nearest));
  }
  return {};
}

Status check_no_decay(const std::vector<std::string>& rules, const std::vector<ParameterSpec>& parameters) {
  LH_CHECK(check_no_decay(rules));
  for (const std::string& rule : rules)
    if (is_name(rule) && std::ranges::none_of(parameters, [&](const ParameterSpec& p) { return means(rule, p); }))
      return make_error(ErrorCode::invalid_input,
                        format("optimizer.no_decay has \"{}\", which is the name of no weight", rule),
                        format("names are like \"{}\"", parameters.empty() ? "" : parameters.front().name));
  return {};
}

}  // namespace longhaul

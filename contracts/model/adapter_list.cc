#include "contracts/model/adapter_list.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "contracts/model/coded_weights.h"

namespace longhaul {

namespace {

// "q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string last_part(const std::string& name) {
  const std::string module = name.substr(0, name.size() - std::string(".weight").size());
  return module.substr(module.rfind('.') + 1);
}

// The matrices of a model as PEFT sees them, each with the first and the last of its parameters.
std::vector<AdaptedMatrix> matrices_of(const std::vector<ParameterSpec>& parameters) {
  std::vector<AdaptedMatrix> matrices;
  for (const ParameterSpec& spec : parameters) {
    const bool continues = ends_with(spec.name, ".attn.k_proj.weight") || ends_with(spec.name, ".attn.v_proj.weight");
    if (continues) {
      matrices.back().matrix.shape[0] += spec.shape[0], matrices.back().last = spec.name;
      continue;
    }
    AdaptedMatrix& made = matrices.emplace_back();
    made.matrix = spec, made.first = made.last = spec.name;
    if (ends_with(spec.name, ".attn.q_proj.weight"))
      made.matrix.name = spec.name.substr(0, spec.name.size() - std::string("q_proj.weight").size()) + "c_attn.weight";
  }
  return matrices;
}

// Of attention, and of a feed-forward without experts.
bool can_be_adapted(const ParameterSpec& spec) {
  return spec.layer >= 0 && spec.expert < 0 && spec.shape.size() == 2 && spec.tp_dim >= 0;
}

bool is_meant(const ParameterSpec& spec, const std::string& target) {
  const std::string module = spec.name.substr(0, spec.name.size() - std::string(".weight").size());
  if (target.find('*') == std::string::npos) return module == target || ends_with(module, "." + target);
  return ::fnmatch(target.c_str(), module.c_str(), 0) == 0;
}

bool is_adapted(const ParameterSpec& spec, const AdapterShape& adapter) {
  if (!can_be_adapted(spec)) return false;
  const auto meant = [&](const auto& targets) {
    return std::ranges::any_of(targets, [&](const std::string& target) { return is_meant(spec, target); });
  };
  static const std::vector<std::string> of_ia3 = {"k_proj", "v_proj", "down_proj"};
  if (!adapter.targets.empty()) return meant(adapter.targets);
  return adapter.kind != "ia3" || meant(of_ia3);
}

// The matrix with what the adapter has for it.
AdaptedMatrix adapted(AdaptedMatrix m, const AdapterShape& adapter) {
  using Init = ParameterSpec::Init;
  const ParameterSpec matrix = m.matrix;
  const std::string module = matrix.name.substr(0, matrix.name.size() - std::string(".weight").size());
  const std::int64_t out = matrix.shape[0], in = matrix.shape[1];
  const auto add = [&](const char* ending, std::vector<std::int64_t> shape, Init init, double std_dev, int tp_dim) {
    m.own.push_back({module + ending, std::move(shape), init, std_dev, true, matrix.layer, tp_dim, false});
    m.own.back().weight_decay = m.own.back().shape.size() > 1;
    return m.own.back().name;
  };
  if (adapter.low_rank()) {
    // As torch.nn.Linear begins (kaiming_uniform with a = sqrt 5): uniform within 1 / sqrt(in).
    m.a = add(".lora_A.weight", {adapter.rank, in}, Init::uniform, 1 / std::sqrt(static_cast<double>(in)),
              matrix.tp_dim == 1 ? 1 : -1);
    m.b = add(".lora_B.weight", {out, adapter.rank}, Init::zeros, 0, matrix.tp_dim == 0 ? 0 : -1);
  }
  if (adapter.kind == "dora")  // begins as the rows' norms: engine/model/adapter/adapted_weights.h
    m.factors = add(".lora_magnitude_vector", {out}, Init::ones, 0, matrix.tp_dim == 0 ? 0 : -1);
  if (adapter.kind == "ia3") {
    m.of_columns = matrix.tp_dim == 1;  // what follows an activation: its input is scaled
    m.factors = add(".ia3_l", {m.of_columns ? in : out}, Init::ones, 0, 0);
  }
  return m;
}

AdaptedMatrix saved(AdaptedMatrix m) {
  m.own = {m.matrix}, m.is_saved = true;
  return m;
}

// The encoder of PEFT's PromptEncoder (MLP), as torch.nn.Embedding and torch.nn.Linear begin.
AdaptedMatrix encoded(AdaptedMatrix m, const AdapterShape& adapter) {
  using Init = ParameterSpec::Init;
  const std::int64_t hidden = m.matrix.shape[1], size = adapter.encoder_size > 0 ? adapter.encoder_size : hidden;
  m.is_encoded = true;
  m.own.push_back({"prompt_encoder.embedding.weight", m.matrix.shape, Init::normal, 1});
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    m.own.push_back({name + ".weight", {out, in}, Init::uniform, bound});
    m.own.push_back({name + ".bias", {out}, Init::uniform, bound, false});
  };
  linear("prompt_encoder.mlp_head.0", size, hidden);
  linear("prompt_encoder.mlp_head.2", size, size);
  linear("prompt_encoder.mlp_head.4", hidden, size);
  return m;
}

// Elements that engine/model/adapter/prompt_encoder.h computes with.
std::int64_t encoder_workspace(const AdaptedMatrix& m) {
  const std::int64_t tokens = m.matrix.shape[0], hidden = m.matrix.shape[1], size = m.own[1].shape[0];
  return tokens * (2 * size + std::max(hidden, 2 * size));
}

}  // namespace

Result<std::vector<AdaptedMatrix>> adapted_matrices(const ModelShape& shape) {
  const AdapterShape& adapter = shape.adapter;
  std::vector<AdaptedMatrix> matrices;
  if (!adapter.on()) return matrices;
  const ModelShape model = frozen_shape(shape);
  const std::vector<AdaptedMatrix> of_model = matrices_of(parameter_list(model));
  if (adapter.is_prompt()) {
    for (const AdaptedMatrix& m : of_model)
      if (m.matrix.name == prompt_name) matrices.push_back(adapter.has_encoder() ? encoded(m, adapter) : saved(m));
    return matrices;
  }
  for (const AdaptedMatrix& m : of_model)
    if (is_adapted(m.matrix, adapter)) matrices.push_back(adapted(m, adapter));
  if (model.scalar_head) matrices.push_back(saved(of_model.back()));
  std::vector<std::string> unknown, names;
  for (const std::string& target : adapter.targets)
    if (std::ranges::none_of(matrices,
                             [&](const AdaptedMatrix& m) { return !m.is_saved && is_meant(m.matrix, target); }))
      unknown.push_back("\"" + target + "\"");
  for (const AdaptedMatrix& m : of_model)
    if (const std::string name = can_be_adapted(m.matrix) ? last_part(m.matrix.name) : "";
        !name.empty() && std::ranges::find(names, name) == names.end())
      names.push_back(name);
  if (!unknown.empty())
    return make_error(ErrorCode::invalid_input,
                      format("adapter.targets: {} {} no matrix that can be adapted", join(unknown, ", "),
                             unknown.size() == 1 ? "means" : "mean"),
                      "those of this model: " + join(names, ", "));
  return matrices;
}

namespace {

// What lies in the memory of a unit's gradients: of a block everything, of others vectors and what is adapted, since
// nobody writes matrices that are not wanted there (engine/model/store/gradient_target.h).
std::int64_t written_of(const ParameterLayout& layout, const ShardUnit& unit, const std::vector<FlatRange>& adapted) {
  std::int64_t end = unit.flat.begin;
  for (const FlatParameter& p : layout.parameters())
    if (p.begin >= unit.flat.begin && p.end <= unit.flat.end && !unit.experts &&
        (p.spec.layer >= 0 || p.spec.shape.size() == 1))
      end = std::max(end, p.end);
  for (const FlatRange& range : adapted)
    if (range.begin >= unit.flat.begin && range.end <= unit.flat.end) end = std::max(end, range.end);
  return end - unit.flat.begin;
}

}  // namespace

FlatRange range_of(const AdaptedMatrix& matrix, const ParameterLayout& model) {
  const FlatParameter* const first = model.find_if_held(matrix.first);
  return first ? FlatRange{first->begin, model.find(matrix.last).end} : FlatRange{};
}

AdapterSpace adapter_space(const ParameterLayout& model, const std::vector<AdaptedMatrix>& matrices,
                           const AdapterShape& adapter) {
  // The unit in use, and those of its neighbours in the order of the passes (engine/model/store/unit_gather.cc).
  constexpr std::int64_t windows_max = 4;
  AdapterSpace space;
  std::vector<FlatRange> adapted;
  for (const AdaptedMatrix& matrix : matrices)
    if (const FlatRange here = range_of(matrix, model); here.size() > 0) {
      adapted.push_back(here);
      space.matrix = std::max({space.matrix, here.size(), matrix.is_encoded ? encoder_workspace(matrix) : 0});
    }
  std::vector<FlatRange> made = adapted;
  for (const FlatParameter& p : model.parameters())
    if (is_coded(adapter.base_weights, p.spec)) made.push_back({p.begin, p.end});
  std::int64_t units = 0;
  for (const ShardUnit& unit : model.units()) {
    space.gradients = std::max(space.gradients, written_of(model, unit, adapted));
    const auto lies_here = [&](const FlatRange& m) { return m.begin >= unit.flat.begin && m.end <= unit.flat.end; };
    if (std::ranges::none_of(made, lies_here)) continue;
    ++units, space.window = std::max(space.window, unit.flat.size());
  }
  space.windows = std::min(windows_max, units);
  return space;
}

}  // namespace longhaul

#include "contracts/model/adapter_list.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "base/text/text.h"
#include "contracts/model/coded_weights.h"

namespace longhaul {

namespace {

// "q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string last_part(const std::string& name) {
  const std::string module = name.substr(0, name.rfind('.'));
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

bool is_of_shared_experts(const ParameterSpec& spec) {
  return spec.name.find(".shared_experts.") != std::string::npos;
}

// Of attention and of feed-forwards, experts' included; not a router.
bool can_be_adapted(const ParameterSpec& spec) {
  return spec.layer >= 0 && spec.shape.size() == 2 && (spec.tp_dim >= 0 || is_of_shared_experts(spec));
}

// What can be trained itself: tables, the output layer, norms.
bool can_be_saved(const ParameterSpec& spec) {
  return is_norm(spec) || (spec.layer < 0 && spec.shape.size() == 2 && spec.name != prompt_name);
}

bool is_meant(const std::string& parameter, const std::string& target) {
  const std::string module = parameter.substr(0, parameter.rfind('.'));  // without .weight or .bias
  if (target.find('*') == std::string::npos) return module == target || ends_with(module, "." + target);
  return ::fnmatch(target.c_str(), module.c_str(), 0) == 0;
}

// A pattern that means all of a model would mean its table as well: that has to be named.
bool names_table(const std::string& target, const ModelShape& model) {
  return target.find('*') == std::string::npos && is_meant(embedding_name(model), target);
}

// Only lora has a form for a table, and PEFT would part one that is the output as well.
bool can_adapt_table(const AdapterShape& adapter, const ModelShape& model) {
  return adapter.kind == "lora" && !model.tie_word_embeddings;
}

bool is_adapted(const ParameterSpec& spec, const AdapterShape& adapter) {
  if (!can_be_adapted(spec)) return false;
  const auto meant = [&](const auto& targets) {
    return std::ranges::any_of(targets, [&](const std::string& target) { return is_meant(spec.name, target); });
  };
  static const std::vector<std::string> of_ia3 = {"k_proj", "v_proj", "down_proj"};
  if (!adapter.targets.empty()) return meant(adapter.targets);
  if (spec.expert >= 0 || is_of_shared_experts(spec)) return false;
  return adapter.kind != "ia3" || meant(of_ia3);
}

bool is_saved(const ParameterSpec& spec, const AdapterShape& adapter) {
  if (spec.name == scalar_head_name) return true;
  return can_be_saved(spec) && std::ranges::any_of(adapter.modules_to_save,
                                                   [&](const std::string& name) { return is_meant(spec.name, name); });
}

template <class Number>
Number number_of(const ParameterSpec& spec, const std::map<std::string, Number>& patterns, Number otherwise) {
  for (const auto& [pattern, number] : patterns)
    if (is_meant(spec.name, pattern)) return number;
  return otherwise;
}

void set_numbers(AdaptedMatrix& m, const AdapterShape& adapter) {
  m.rank = number_of(m.matrix, adapter.ranks, adapter.rank);
  m.alpha = number_of(m.matrix, adapter.alphas, adapter.alpha);
  const auto r = static_cast<double>(m.rank);
  m.factor = m.alpha / (adapter.rslora ? std::sqrt(r) : r);
}

// The matrix with what the adapter has for it.
AdaptedMatrix adapted(AdaptedMatrix m, const AdapterShape& adapter) {
  using Init = ParameterSpec::Init;
  const ParameterSpec matrix = m.matrix;
  const std::string module = matrix.name.substr(0, matrix.name.size() - std::string(".weight").size());
  const std::int64_t out = matrix.shape[0], in = matrix.shape[1];
  const auto add = [&](const char* ending, std::vector<std::int64_t> shape, Init init, double std_dev, int tp_dim) {
    m.own.push_back({module + ending, std::move(shape), init, std_dev, true, matrix.layer, tp_dim, false});
    m.own.back().weight_decay = m.own.back().shape.size() > 1, m.own.back().expert = matrix.expert;
    return m.own.back().name;
  };
  if (adapter.low_rank()) {
    set_numbers(m, adapter);
    // As torch.nn.Linear begins (kaiming_uniform with a = sqrt 5): uniform within 1 / sqrt(in).
    m.a = add(".lora_A.weight", {m.rank, in}, Init::uniform, 1 / std::sqrt(static_cast<double>(in)),
              matrix.tp_dim == 1 ? 1 : -1);
    m.b = add(".lora_B.weight", {out, m.rank}, Init::zeros, 0, matrix.tp_dim == 0 ? 0 : -1);
  }
  if (adapter.kind == "dora")  // begins as the rows' norms: engine/model/adapter/adapted_weights.h
    m.factors = add(".lora_magnitude_vector", {out}, Init::ones, 0, matrix.tp_dim == 0 ? 0 : -1);
  if (adapter.kind == "ia3") {
    // What follows an activation: its input is scaled.
    m.of_columns = matrix.tp_dim == 1 || ends_with(matrix.name, "shared_experts.down_proj.weight");
    m.factors = add(".ia3_l", {m.of_columns ? in : out}, Init::ones, 0, matrix.tp_dim < 0 ? -1 : 0);
  }
  return m;
}

// A table of tokens [vocabulary, hidden], as torch.nn.Embedding is adapted by PEFT: Embedding.update_layer.
AdaptedMatrix adapted_table(AdaptedMatrix m, const AdapterShape& adapter) {
  using Init = ParameterSpec::Init;
  const ParameterSpec& table = m.matrix;
  const std::string module = table.name.substr(0, table.name.rfind('.'));
  m.is_table = true;
  set_numbers(m, adapter);
  m.a = module + ".lora_embedding_A", m.b = module + ".lora_embedding_B";
  m.own.push_back({m.a, {m.rank, table.shape[0]}, Init::zeros, 0, true, table.layer, 1});
  m.own.push_back({m.b, {table.shape[1], m.rank}, Init::normal, 1, true, table.layer, -1});
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
  const std::string prefix = prompt_encoder_prefix;
  m.own.push_back({prefix + "embedding.weight", m.matrix.shape, Init::normal, 1});
  const auto linear = [&](const char* layer, std::int64_t out, std::int64_t in) {
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    const std::string name = prefix + layer;
    m.own.push_back({name + ".weight", {out, in}, Init::uniform, bound});
    m.own.push_back({name + ".bias", {out}, Init::uniform, bound, false});
  };
  linear("mlp_head.0", size, hidden);
  linear("mlp_head.2", size, size);
  linear("mlp_head.4", hidden, size);
  return m;
}

// Elements that engine/model/adapter/prompt_encoder.h computes with.
std::int64_t encoder_workspace(const AdaptedMatrix& m) {
  const std::int64_t tokens = m.matrix.shape[0], hidden = m.matrix.shape[1], size = m.own[1].shape[0];
  return tokens * (2 * size + std::max(hidden, 2 * size));
}

// What is wrong with the names that an adapter's settings give, each with its key.
class NameProblems {
 public:
  explicit NameProblems(const std::vector<AdaptedMatrix>& matrices) : matrices_(matrices) {}

  // Of `names` those that mean nothing that `counts`: "adapter.KEY: "x", "y" mean no WHAT".
  template <class Names, class Counts>
  void hold_meant(const char* key, const Names& names, const char* what, const Counts& counts) {
    std::vector<std::string> unknown;
    for (const std::string& name : names)
      if (std::ranges::none_of(matrices_,
                               [&](const AdaptedMatrix& m) { return counts(m) && is_meant(m.matrix.name, name); }))
        unknown.push_back("\"" + name + "\"");
    if (!unknown.empty())
      said_.push_back(
          format("adapter.{}: {} {} no {}", key, join(unknown, ", "), unknown.size() == 1 ? "means" : "mean", what));
  }

  // Numbers of matrices: each name means one that has such a number, and no two the same.
  template <class Number>
  void hold_numbers(const char* key, const std::map<std::string, Number>& numbers) {
    std::vector<std::string> names;
    for (const auto& [name, number] : numbers) names.push_back(name);
    hold_meant(key, names, "matrix that is adapted", [](const AdaptedMatrix& m) { return m.rank > 0; });
    for (std::size_t i = 0; i < names.size(); ++i)
      for (std::size_t j = i + 1; j < names.size(); ++j)
        for (const AdaptedMatrix& m : matrices_)
          if (m.rank > 0 && is_meant(m.matrix.name, names[i]) && is_meant(m.matrix.name, names[j])) {
            said_.push_back(
                format("adapter.{}: \"{}\" and \"{}\" both mean {}", key, names[i], names[j], m.matrix.name));
            break;
          }
  }

  // Each means a matrix that can be adapted; the table of tokens only so far as it can be.
  void hold_targets(const AdapterShape& adapter, const ModelShape& model) {
    std::vector<std::string> others;
    for (const std::string& name : adapter.targets)
      if (!names_table(name, model) || can_adapt_table(adapter, model))
        others.push_back(name);
      else if (model.tie_word_embeddings)
        say_tied("targets", name);
      else
        said_.push_back(format(
            "adapter.targets: \"{}\" means the table of tokens, which adapter.kind = \"lora\" alone adapts", name));
    hold_meant("targets", others, "matrix that can be adapted", [](const AdaptedMatrix& m) { return !m.is_saved; });
  }

  // What is trained itself: each name means something, and none a table that is the output as well, or adapted.
  void hold_saved(const char* key, const std::vector<std::string>& names, const ModelShape& model) {
    std::vector<std::string> others;
    for (const std::string& name : names)
      if (model.tie_word_embeddings && (is_meant(embedding_name(model), name) || is_meant("lm_head.weight", name)))
        say_tied(key, name);
      else if (std::ranges::any_of(matrices_,
                                   [&](const AdaptedMatrix& m) { return m.is_table && is_meant(m.matrix.name, name); }))
        said_.push_back(format("adapter.{}: \"{}\" means a table that is adapted, too", key, name));
      else
        others.push_back(name);
    hold_meant(key, others, "table, output layer or norm", [](const AdaptedMatrix& m) { return m.is_saved; });
  }

  const std::vector<std::string>& said() const { return said_; }

 private:
  void say_tied(const char* key, const std::string& name) {
    said_.push_back(
        format("adapter.{}: \"{}\" means a table that looks tokens up and makes the output as well (tied): PEFT would "
               "train a copy of one of the two",
               key, name));
  }

  const std::vector<AdaptedMatrix>& matrices_;
  std::vector<std::string> said_;
};

// The last parts of the names of modules that can be so.
std::string names_that(bool (*can_be)(const ParameterSpec&), const std::vector<AdaptedMatrix>& of_model) {
  std::vector<std::string> names;
  for (const AdaptedMatrix& m : of_model)
    if (const std::string name = can_be(m.matrix) ? last_part(m.matrix.name) : "";
        !name.empty() && std::ranges::find(names, name) == names.end())
      names.push_back(name);
  return join(names, ", ");
}

Status check_names(const std::vector<AdaptedMatrix>& matrices, const std::vector<AdaptedMatrix>& of_model,
                   const ModelShape& model, const AdapterShape& adapter) {
  NameProblems problems(matrices);
  problems.hold_targets(adapter, model);
  problems.hold_numbers("ranks", adapter.ranks);
  problems.hold_numbers("alphas", adapter.alphas);
  problems.hold_saved("modules_to_save", adapter.modules_to_save, model);
  if (problems.said().empty()) return {};
  std::string hint = "those of this model: " + names_that(can_be_adapted, of_model);
  if (can_adapt_table(adapter, model)) hint += ", " + last_part(embedding_name(model));
  if (!adapter.modules_to_save.empty()) hint += "; of modules_to_save: " + names_that(can_be_saved, of_model);
  return make_error(ErrorCode::invalid_input, join(problems.said(), "; "), hint);
}

}  // namespace

Result<std::vector<AdaptedMatrix>> adapted_matrices(const ModelShape& shape) {
  const AdapterShape& adapter = shape.adapter;
  std::vector<AdaptedMatrix> matrices;
  if (!adapter.on()) return matrices;
  const ModelShape model = frozen_shape(shape);
  const std::vector<AdaptedMatrix> of_model = matrices_of(parameter_list(model));
  if (!adapter.changes_weights()) {
    for (const AdaptedMatrix& m : of_model)
      if (m.matrix.name == prompt_name && adapter.has_encoder())
        matrices.push_back(encoded(m, adapter));
      else if (m.matrix.name == prompt_name || is_of_prefix(m.matrix) || is_of_bottleneck(m.matrix) ||
               m.matrix.name == scalar_head_name)
        matrices.push_back(saved(m));
    return matrices;
  }
  for (const AdaptedMatrix& m : of_model)
    if (is_adapted(m.matrix, adapter))
      matrices.push_back(adapted(m, adapter));
    else if (m.first == embedding_name(model) && means_table(adapter, model) && can_adapt_table(adapter, model))
      matrices.push_back(adapted_table(m, adapter));
    else if (is_saved(m.matrix, adapter))
      matrices.push_back(saved(m));
  LH_CHECK(check_names(matrices, of_model, model, adapter));
  return matrices;
}

namespace {

// The parameters of a unit.
std::span<const FlatParameter> parameters_of(const ParameterLayout& layout, const ShardUnit& unit) {
  const std::vector<FlatParameter>& all = layout.parameters();
  const auto first = std::ranges::lower_bound(all, unit.flat.begin, {}, &FlatParameter::begin);
  const auto last = std::ranges::lower_bound(all, unit.flat.end, {}, &FlatParameter::begin);
  return {first, last};
}

// What lies in the memory of a unit's gradients: of a block everything, of its experts the matrices that are split as
// an adapted one (w1 and w3 of all, w2 of all), of others vectors and what is adapted, since nobody writes matrices
// that are not wanted there (engine/model/store/gradient_target.h). `adapted`: of the unit, ascending.
std::int64_t written_of(std::span<const FlatParameter> unit, std::span<const FlatRange> adapted) {
  std::int64_t end = unit.front().begin;
  std::set<int> of_experts;  // the dims that adapted ones are split by
  for (const FlatParameter& p : unit)
    if (p.spec.expert >= 0 && std::ranges::binary_search(adapted, p.begin, {}, &FlatRange::begin))
      of_experts.insert(p.spec.tp_dim);
  for (const FlatParameter& p : unit)
    if (p.spec.expert >= 0 ? of_experts.contains(p.spec.tp_dim) : p.spec.layer >= 0 || p.spec.shape.size() == 1)
      end = std::max(end, p.end);
  if (!adapted.empty()) end = std::max(end, adapted.back().end);
  return end - unit.front().begin;
}

// What a matrix that is adapted, and lies `here`, is made in.
std::int64_t made_at_once(const AdaptedMatrix& matrix, FlatRange here, const ParameterNames& names,
                          const AdapterShape& adapter) {
  if (matrix.is_encoded) return std::max(here.size(), encoder_workspace(matrix));
  const std::vector<std::int64_t>& extent = names.find_if_held(matrix.first)->box.extent;
  if (matrix.is_table) return std::min(here.size(), table_rows_at_once * extent[1]);
  return here.size() + (adapter.kind == "dora" ? 2 * here.size() / extent[1] : 0);
}

// What a matrix whose input drops needs, [rows, columns] here.
void make_room_for_dropout(const AdaptedMatrix& matrix, std::int64_t rows, std::int64_t columns, AdapterSpace& space) {
  space.dropped = std::max(space.dropped, columns), space.rank = std::max(space.rank, matrix.rank);
  space.factors = std::max(space.factors, matrix.rank * (rows + columns));
}

}  // namespace

bool means_table(const AdapterShape& adapter, const ModelShape& model) {
  return std::ranges::any_of(adapter.targets, [&](const std::string& target) { return names_table(target, model); });
}

bool has_addends(const ParameterSpec& own, const ParallelDims& dims) {
  if (own.tp_dim >= 0 || (own.expert >= 0 ? dims.etp : dims.tp) == 1 || own.name == scalar_head_name) return false;
  return !(is_norm(own) || is_of_bottleneck(own)) || dims.sp;
}

std::vector<int> layers_adapted_in_part(const std::vector<AdaptedMatrix>& matrices, const ModelShape& shape, int ep) {
  std::map<int, std::set<std::int64_t>> ranks;  // of each layer
  for (const AdaptedMatrix& m : matrices)
    if (m.matrix.expert >= 0) ranks[m.matrix.layer].insert(m.matrix.expert * ep / shape.num_local_experts);
  std::vector<int> layers;
  for (const auto& [layer, some] : ranks)
    if (std::ssize(some) < ep) layers.push_back(layer);
  return layers;
}

FlatRange range_of(const AdaptedMatrix& matrix, const ParameterNames& model) {
  const FlatParameter* const first = model.find_if_held(matrix.first);
  return first ? FlatRange{first->begin, model.find_if_held(matrix.last)->end} : FlatRange{};
}

AdapterSpace adapter_space(const ParameterLayout& model, const std::vector<AdaptedMatrix>& matrices,
                           const AdapterShape& adapter) {
  // The unit in use, and those of its neighbours in the order of the passes (engine/model/store/unit_gather.cc).
  constexpr std::int64_t windows_max = 4;
  AdapterSpace space;
  const ParameterNames names(model);
  std::vector<FlatRange> adapted;
  for (const AdaptedMatrix& matrix : matrices)
    if (const FlatRange here = range_of(matrix, names); here.size() > 0) {
      adapted.push_back(here);
      if (!matrix.is_saved) {
        space.matrix = std::max(space.matrix, made_at_once(matrix, here, names, adapter));
      }
      if (adapter.dropout > 0 && matrix.rank > 0 && !matrix.is_table) {
        const std::int64_t columns = names.find_if_held(matrix.first)->box.extent[1];
        make_room_for_dropout(matrix, here.size() / columns, columns, space);
      }
    }
  std::ranges::sort(adapted, {}, &FlatRange::begin);
  std::int64_t units = 0;
  for (const ShardUnit& unit : model.units()) {
    const std::span<const FlatParameter> parameters = parameters_of(model, unit);
    const auto first = std::ranges::lower_bound(adapted, unit.flat.begin, {}, &FlatRange::begin);
    const auto last = std::ranges::lower_bound(adapted, unit.flat.end, {}, &FlatRange::begin);
    space.gradients = std::max(space.gradients, written_of(parameters, {first, last}));
    const auto has_codes = [&](const FlatParameter& p) { return is_coded(adapter.base_weights, p.spec); };
    if (first == last && std::ranges::none_of(parameters, has_codes)) continue;
    if (parameters.front().spec.layer < 0)
      space.ends += unit.flat.size();
    else
      ++units, space.window = std::max(space.window, unit.flat.size());
  }
  space.windows = std::min(windows_max, units);
  return space;
}

}  // namespace longhaul

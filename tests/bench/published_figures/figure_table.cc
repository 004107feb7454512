#include "figure_table.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "../autotune/csv_table.h"
#include "autotune/memory/memory_profiles.h"
#include "base/error/diagnostics.h"
#include "base/text/text.h"

namespace longhaul::bench {
namespace {

constexpr std::pair<FigureUnit, const char*> units[] = {{FigureUnit::tokens, "tokens/s/GPU"},
                                                        {FigureUnit::step, "s/step"},
                                                        {FigureUnit::flops, "TFLOP/s/GPU of full attention"},
                                                        {FigureUnit::days, "days"},
                                                        {FigureUnit::times, "times"}};

std::optional<FigureUnit> unit_of(const std::string& text) {
  for (const auto& [unit, name] : units)
    if (text == name) return unit;
  return {};
}

std::string all_units() {
  std::vector<std::string> names;
  for (const auto& [unit, name] : units) names.emplace_back(name);
  return join(names, ", ");
}

double tokens_of_step(const TrainingTask& task) {
  return static_cast<double>(task.global_batch_size) * static_cast<double>(task.sequence_length);
}

double full_attention_flops(const TrainingTask& task) {
  const ModelShape& s = task.shape;
  return 6 * static_cast<double>(s.matmul_parameter_count()) +
         12 * static_cast<double>(s.num_hidden_layers * s.q_size() * task.sequence_length);
}

Result<ModelShape> shape_of(const CsvRow& row) {
  ModelShape s;
  s.architecture = row.text("architecture");
  s.num_hidden_layers = row.whole("layers"), s.hidden_size = row.whole("hidden");
  s.num_attention_heads = row.whole("heads"), s.num_key_value_heads = row.whole("kv_heads");
  s.head_dim = s.num_attention_heads > 0 ? s.hidden_size / s.num_attention_heads : 0;
  s.intermediate_size = row.whole("ffn"), s.vocab_size = row.whole("vocab");
  s.tie_word_embeddings = row.whole("tied") == 1;
  s.max_position_embeddings = row.whole("seq");
  s.num_local_experts = row.whole("experts"), s.num_experts_per_tok = row.whole("experts_per_token", 2);
  s.moe_intermediate_size = row.whole("expert_ffn");
  if (s.num_hidden_layers < 1 || s.hidden_size < 1 || s.num_attention_heads < 1 || s.num_key_value_heads < 1)
    return make_error(ErrorCode::invalid_input, "the model's shape is not whole",
                      "layers, hidden, heads, kv_heads, ffn and vocab are whole numbers above 0");
  if (s.architecture != "llama" && s.architecture != "gpt2" && s.architecture != "mixtral")
    return make_error(ErrorCode::invalid_input, "the model is of an unknown family '" + s.architecture + "'",
                      "families that the time model has: llama, gpt2, mixtral");
  return s;
}

Result<Recompute> recompute_of(const std::string& text) {
  RecomputeSettings again;
  if (!text.empty()) again.modules = split(text, '+');
  for (std::string& module : again.modules)
    if (module == "core") module = "attention";  // of a framework that keeps queries, keys and values
  return recompute_from(again);
}

Precision precision_of(const std::string& text) {
  for (const Precision p : {Precision::f32, Precision::bf16, Precision::fp8, Precision::fp4})
    if (text == to_string(p)) return p;
  return Precision::bf16;
}

bool fits(const PublishedRun& run, const TrainingLayout& layout, const GpuType& gpu) {
  FrameworkTraining t;
  t.dims = layout.dims, t.schedule = layout.schedule;
  t.micro_batches = static_cast<int>(layout.micro_batches(run.task));
  t.micro_batch_size = layout.micro_batch_size, t.sequence_length = run.task.sequence_length;
  t.recompute = layout.recompute, t.fp8 = layout.precision == Precision::fp8;
  const FrameworkModel model = framework_model(run.task.shape);
  return worst_stage_memory(megatron_memory(), model, t).memory.total() <= gpu.memory;
}

// Every layout that a row leaves possible.
void add_layouts(const CsvRow& row, const GpuType& gpu, TrainingLayout layout, int gpus, PublishedRun& run) {
  const auto choices = [&](const char* name, std::vector<int> open) {
    return row.has(name) ? std::vector<int>{row.whole(name)} : std::move(open);
  };
  const bool open = !row.has("tp") || !row.has("pp");
  const int layers = static_cast<int>(run.task.shape.num_hidden_layers);
  ParallelDims& d = layout.dims;
  for (const int tp : choices("tp", {1, 2, 4, 8}))
    for (const int pp : choices("pp", {1, 2, 4, 8}))
      for (const int vp : choices("vp", {1, 2, 3, 4, 5, 6, 7, 8}))
        for (const int size : choices("micro_batch", {1, 2, 4, 8})) {
          d.tp = tp, d.pp = pp, d.vp = pp > 1 ? vp : 1;
          d.cp = row.whole("cp", 1), d.ep = row.whole("ep", 1), d.zero = row.whole("zero", 1);
          if (gpus % (d.tp * d.pp * d.cp) != 0 || (pp == 1 && vp > 1 && !row.has("vp"))) continue;
          d.dp_shard = gpus / (d.tp * d.pp * d.cp), d.dp_replicate = 1;
          if (d.zero == 0) d.dp_replicate = d.dp_shard, d.dp_shard = 1;
          d.sp = tp > 1 && run.framework != "megatron-2021";
          layout.micro_batch_size = size;
          layout.schedule = d.vp > 1 ? PipelineKind::interleaved : PipelineKind::one_f_one_b;
          const std::int64_t at_once = std::int64_t{size} * d.dp(), batch = run.task.global_batch_size;
          if (batch % at_once != 0 || layers < pp * d.vp) continue;
          const bool even = layers % (pp * d.vp) == 0 && batch / at_once % pp == 0;
          if (!row.has("vp") && d.vp > 1 && !even) continue;
          if (open && !fits(run, layout, gpu)) continue;
          run.layouts.push_back(layout);
        }
}

double published_seconds(const Figure& f, int gpus) {
  const double tokens = tokens_of_step(f.run.task);
  switch (f.unit) {
    case FigureUnit::tokens: return tokens / (f.value * gpus);
    case FigureUnit::step: return f.value;
    case FigureUnit::flops: return full_attention_flops(f.run.task) * tokens / (f.value * 1e12 * gpus);
    case FigureUnit::days: return tokens / gpus * f.value * 86400 * f.train_gpus / f.train_tokens;
    case FigureUnit::times: return 0;
  }
  return 0;
}

Result<Figure> figure_of(const CsvRow& row, const TimeConstants& constants) {
  Figure f;
  const auto unit = unit_of(row.text("unit"));
  if (!unit)
    return make_error(ErrorCode::invalid_input,
                      row.has("unit") ? "the figure's unit '" + row.text("unit") + "' is unknown"
                                      : "the figure " + row.text("value") + " has no unit",
                      "write one of: " + all_units());
  f.unit = *unit, f.value = row.number("value");
  if (!(f.value > 0) || !std::isfinite(f.value))
    return make_error(ErrorCode::invalid_input, "the figure '" + row.text("value") + "' is no positive number");
  f.id = row.text("id"), f.document = row.text("document"), f.note = row.text("note");
  f.relative_to = row.text("relative_to"), f.assumed = row.text("layout") == "assumed";
  f.same_run = !f.relative_to.empty() && !f.is_ratio();
  f.train_tokens = row.number("train_tokens"), f.train_gpus = row.number("train_gpus");
  if (f.unit == FigureUnit::days && !(f.train_tokens > 0 && f.train_gpus > 0))
    return make_error(ErrorCode::invalid_input, "a figure in days says nothing without train_tokens and train_gpus");
  PublishedRun& run = f.run;
  run.source = row.text("source"), run.cluster = row.text("gpu"), run.model = row.text("model");
  run.framework = row.text("framework"), run.precision = row.text("precision");
  LH_TRY(const GpuType gpu, constants.gpu_named(run.cluster));
  LH_CHECK(constants.framework(run.framework));
  LH_TRY(run.task.shape, shape_of(row));
  run.moe = run.task.shape.is_moe();
  run.task.sequence_length = row.whole("seq"), run.task.global_batch_size = row.whole("batch");
  TrainingLayout layout;
  layout.precision = precision_of(run.precision);
  LH_TRY(layout.recompute, recompute_of(row.text("recompute")));
  const int gpus = row.whole("gpus");
  if (gpus > 0 && run.task.sequence_length > 0) add_layouts(row, gpu, layout, gpus, run);
  if (run.layouts.empty())
    return make_error(ErrorCode::invalid_input, "no layout divides the batch, the layers and the GPUs and fits",
                      "tp * pp * cp divides gpus, and micro_batch * dp divides batch");
  run.seconds = published_seconds(f, gpus);
  return f;
}

}  // namespace

const char* to_string(FigureUnit unit) {
  for (const auto& [known, name] : units)
    if (known == unit) return name;
  return "";
}

double Figure::in_unit(double seconds, double base) const {
  const double tokens = tokens_of_step(run.task), gpus = run.layouts.front().dims.world_size();
  switch (unit) {
    case FigureUnit::tokens: return tokens / (seconds * gpus);
    case FigureUnit::step: return seconds;
    case FigureUnit::flops: return full_attention_flops(run.task) * tokens / (seconds * gpus) / 1e12;
    case FigureUnit::days: return train_tokens / train_gpus / (tokens / (seconds * gpus)) / 86400;
    case FigureUnit::times: return seconds / base;
  }
  return 0;
}

Result<std::vector<Figure>> read_figures(const std::string& path, const TimeConstants& constants) {
  LH_TRY(const CsvTable csv, read_csv(path));
  std::vector<Figure> figures;
  Diagnostics problems;
  for (std::size_t i = 0; i < csv.rows.size(); ++i) {
    auto figure = figure_of(csv.row(i), constants);
    const SourcePos where{path, static_cast<int>(i) + 2, 0};
    if (!figure.ok()) {
      problems.add(where, figure.error().what, figure.error().hint);
      continue;
    }
    figure->run.line = where.line;
    figures.push_back(std::move(figure).value());
  }
  for (const Figure& f : figures) {
    const auto named = [&](const Figure& other) { return other.id == f.relative_to; };
    if (!f.relative_to.empty() && std::none_of(figures.begin(), figures.end(), named))
      problems.add({path, f.run.line, 0}, "no row has the id '" + f.relative_to + "'");
  }
  LH_CHECK(problems.to_status("no figure is compared"));
  return figures;
}

}  // namespace longhaul::bench

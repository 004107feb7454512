#include "published_runs.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text/text.h"
#include "csv_table.h"

namespace longhaul::bench {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

ModelShape shape_of(const CsvRow& row) {
  ModelShape s;
  const bool gated = starts_with(row.text("model"), "Llama") || starts_with(row.text("model"), "Qwen");
  s.architecture = gated ? "llama" : "gpt2";
  s.num_hidden_layers = row.whole("layers"), s.hidden_size = row.whole("hidden");
  s.num_attention_heads = row.whole("heads"), s.intermediate_size = row.whole("ffn");
  s.num_key_value_heads = row.whole("kv_heads", row.whole("heads"));
  s.head_dim = s.num_attention_heads > 0 ? s.hidden_size / s.num_attention_heads : 0;
  s.vocab_size = row.whole("vocab"), s.tie_word_embeddings = false;
  return s;
}

// Experts of models whose rows do not say them: their published configurations on Hugging Face.
bool add_experts(const std::string& model, ModelShape& s) {
  struct Known {
    const char* name;
    std::int64_t experts, per_token, width, head_dim;
  };
  static constexpr Known known[] = {
      {"Qwen3-30B", 128, 8, 768, 128}, {"Qwen3-235B", 128, 8, 1536, 128}, {"GPT-OSS-120B", 128, 4, 2880, 64}};
  for (const Known& k : known) {
    if (!starts_with(model, k.name)) continue;
    s.architecture = "mixtral";
    s.num_local_experts = k.experts, s.num_experts_per_tok = k.per_token, s.moe_intermediate_size = k.width;
    s.head_dim = k.head_dim;
    return true;
  }
  return false;
}

Precision precision_of(const std::string& text) {
  if (starts_with(text, "FP8") || starts_with(text, "MXFP8")) return Precision::fp8;
  return starts_with(text, "NVFP4") ? Precision::fp4 : Precision::bf16;
}

// What ran it: by source, and by what the row says of ZeRO.
std::string framework_of(const std::string& source, int zero) {
  if (contains(source, "llm-foundry")) return "fsdp";
  if (contains(source, "SC21") || contains(source, "2021")) return zero == 3 ? "zero3-2021" : "megatron-2021";
  if (contains(source, "MT-NLG")) return "megatron-deepspeed";
  if (zero == 3) return "megatron-fsdp";
  const bool for_speed = starts_with(source, "Megatron-Bridge") || starts_with(source, "NeMo docs");
  return for_speed ? "megatron-speed" : "megatron";
}

double flops_per_token(const ModelShape& s, std::int64_t sequence, bool with_recomputation) {
  const auto h = static_cast<double>(s.hidden_size), layers = static_cast<double>(s.num_hidden_layers),
             vocabulary = static_cast<double>(s.vocab_size), length = static_cast<double>(sequence);
  if (with_recomputation)  // Narayanan et al. 2021, equation 3, per token
    return 96 * layers * h * h * (1 + length / (6 * h) + vocabulary / (16 * layers * h));
  return 6 * static_cast<double>(s.matmul_parameter_count()) + 12 * layers * h * length;
}

double seconds_of(const CsvRow& row, const PublishedRun& run, int gpus) {
  if (row.has("step_time_s")) return row.number("step_time_s");
  const double tokens = static_cast<double>(run.task.global_batch_size * run.task.sequence_length);
  if (row.has("tokens_per_s_per_gpu")) return tokens / (row.number("tokens_per_s_per_gpu") * gpus);
  if (!row.has("tflops_per_gpu")) return 0;
  const bool hardware = contains(run.source, "2021") || contains(run.source, "SC21");
  return flops_per_token(run.task.shape, run.task.sequence_length, hardware) * tokens /
         (row.number("tflops_per_gpu") * 1e12 * gpus);
}

// The layout of a row, or all that it may have had.
void add_layouts(const CsvRow& row, TrainingLayout layout, PublishedRun& run) {
  ParallelDims& d = layout.dims;
  const int stated = row.whole("mbs"), layers = static_cast<int>(run.task.shape.num_hidden_layers);
  std::vector<int> chunks = {d.vp};
  if (d.pp > 1 && !row.has("vp") && starts_with(run.framework, "megatron") && !contains(run.framework, "2021") &&
      !contains(run.framework, "deepspeed"))
    chunks = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const int size : stated > 0 ? std::vector<int>{stated} : std::vector<int>{1, 2, 4, 8}) {
    for (const int vp : chunks) {
      layout.micro_batch_size = size, d.vp = vp;
      layout.schedule = vp > 1 ? PipelineKind::interleaved : PipelineKind::one_f_one_b;
      const std::int64_t at_once = std::int64_t{size} * d.dp();
      if (run.task.global_batch_size % at_once != 0) continue;
      const bool even = layers % (d.pp * vp) == 0 && (vp == 1 || run.task.global_batch_size / at_once % d.pp == 0);
      if (chunks.size() == 1 || even) run.layouts.push_back(layout);
    }
  }
}

std::optional<PublishedRun> run_of(const CsvRow& row, int line) {
  PublishedRun run;
  run.source = row.text("source"), run.cluster = row.text("gpu"), run.model = row.text("model"),
  run.precision = row.text("precision"), run.line = line;
  if (contains(run.source, "vTrain") || contains(row.text("notes"), "SFT") || contains(row.text("notes"), "LoRA"))
    return {};
  if (!row.has("tp") || !row.has("ffn") || !row.has("gbs")) return {};
  run.task.shape = shape_of(row);
  run.moe = add_experts(run.model, run.task.shape);
  if (!run.moe && row.whole("ep", 1) > 1) return {};
  run.task.sequence_length = row.whole("seq"), run.task.global_batch_size = row.whole("gbs");

  const int gpus = row.whole("num_gpus"), zero = row.whole("dp_shard(zero stage)", -1);
  run.framework = framework_of(run.source, zero);
  TrainingLayout layout;
  ParallelDims& d = layout.dims;
  d.tp = row.whole("tp", 1), d.pp = row.whole("pp", 1), d.cp = row.whole("cp", 1), d.vp = row.whole("vp", 1);
  d.ep = row.whole("ep", 1), d.vp = d.pp > 1 ? d.vp : 1;
  d.dp_shard = gpus / (d.tp * d.pp * d.cp), d.dp_replicate = 1;
  d.zero = zero >= 0 ? zero : 1;
  d.sp = d.tp > 1 && starts_with(run.framework, "megatron") && !contains(run.framework, "2021") &&
         !contains(run.framework, "deepspeed");
  layout.precision = precision_of(row.text("precision"));
  // Smith et al. 2022, section 3.1: MT-NLG recomputes activations; its row leaves the column empty.
  layout.recompute.block = row.text("recompute") == "full" || contains(run.source, "MT-NLG");
  add_layouts(row, layout, run);
  run.seconds = seconds_of(row, run, gpus);
  if (run.seconds <= 0 || run.layouts.empty()) return {};
  return run;
}

}  // namespace

std::string PublishedRun::to_string() const {
  const TrainingLayout& l = layouts.front();
  return format("line {:3} {} {} x{} {} seq {} batch {} micro {} {} zero {}{}", line, model, cluster,
                l.dims.world_size(), longhaul::to_string(l.precision), task.sequence_length, task.global_batch_size,
                layouts.size() > 1 ? "?" : std::to_string(l.micro_batch_size), l.dims.to_string(), l.dims.zero,
                l.recompute.block ? " recompute" : "");
}

Result<std::vector<PublishedRun>> read_throughput(const std::string& path) {
  LH_TRY(const CsvTable csv, read_csv(path));
  std::vector<PublishedRun> runs;
  for (std::size_t i = 0; i < csv.rows.size(); ++i)
    if (auto run = run_of(csv.row(i), static_cast<int>(i) + 2)) runs.push_back(std::move(*run));
  return runs;
}

Result<std::vector<PublishedRun>> read_vtrain(const std::string& path, bool many_nodes) {
  LH_TRY(const CsvTable csv, read_csv(path));
  std::vector<PublishedRun> runs;
  for (std::size_t i = 0; i < csv.rows.size(); ++i) {
    const CsvRow row = csv.row(i);
    PublishedRun run;
    run.source = many_nodes ? "vTrain, many nodes" : "vTrain, one node", run.cluster = "A100";
    run.framework = many_nodes ? "megatron-deepspeed" : "megatron-deepspeed-host";
    run.line = static_cast<int>(i) + 2;
    ModelShape& s = run.task.shape;
    s.architecture = "gpt2", s.vocab_size = 51200, s.tie_word_embeddings = true;
    s.hidden_size = row.whole("hidden size"), s.num_hidden_layers = row.whole("# layers");
    s.num_attention_heads = s.num_key_value_heads = row.whole("attention heads");
    s.head_dim = s.hidden_size / s.num_attention_heads, s.intermediate_size = 4 * s.hidden_size;
    run.model = format("h{} l{}", s.hidden_size, s.num_hidden_layers);
    run.task.sequence_length = row.whole("sequence length"), run.task.global_batch_size = row.whole("global batch");
    TrainingLayout layout;
    layout.dims.tp = row.whole("tensor parallelism"), layout.dims.pp = row.whole("pipeline parallelism");
    layout.dims.dp_replicate = row.whole("data parallelism");
    layout.micro_batch_size = row.whole("micro batch"), layout.recompute.block = true;
    run.layouts.push_back(layout);
    run.seconds = row.number("iteration time (ms)") / 1e3;
    if (run.seconds > 0) runs.push_back(std::move(run));
  }
  return runs;
}

Split split_by_model(const std::vector<PublishedRun>& runs) {
  std::map<std::int64_t, std::set<std::int64_t>> models;
  for (const PublishedRun& run : runs) models[run.task.shape.hidden_size].insert(run.task.shape.num_hidden_layers);
  Split split;
  for (const PublishedRun& run : runs) {
    const auto width = models.find(run.task.shape.hidden_size);
    const auto& layers = width->second;
    const auto index = std::distance(layers.begin(), layers.find(run.task.shape.num_hidden_layers)) +
                       std::distance(models.begin(), width);
    (index % 2 == 0 ? split.fit : split.test).push_back(run);
  }
  return split;
}

double predict(const PublishedRun& run, const TimeConstants& constants, bool simulated) {
  const auto gpu = constants.gpu_named(run.cluster);
  const auto framework = constants.framework(run.framework);
  LH_ASSERT(gpu.ok() && framework.ok(), run.to_string());
  const TrainingPlace place{{*gpu, 8, gpu->link_domain, gpu->nic_rate}, *framework, constants.common};
  double best = 0;
  for (const TrainingLayout& layout : run.layouts) {
    double seconds = step_bound(run.task, layout, place).seconds();
    if (simulated) {
      const auto time = step_time(run.task, layout, place);
      LH_ASSERT(time.ok(), run.to_string());
      seconds = time->seconds();
    }
    if (best == 0 || seconds < best) best = seconds;
  }
  return best;
}

}  // namespace longhaul::bench

#include "orchestrator/trials/calibration_run.h"

#include <algorithm>
#include <cmath>

#include "autotune/time/collective_time.h"
#include "autotune/time/processor_place.h"
#include "autotune/time/step_time.h"
#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "contracts/records/benchmark_result.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/written_layout.h"
#include "orchestrator/state/tune_files.h"
#include "orchestrator/trials/tune_stages.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

constexpr const char* tokens_stage = "tokens";
constexpr int calibration_vocabulary = 300;
constexpr const char* calibration_time_limit = "10min";

Value text_list(const std::vector<std::string>& from) {
  Value list = Value::make_array();
  for (const std::string& one : from) list.push_back(one);
  return list;
}

// What every stage asks for: processors, and a bounded time.
Value stage_table(const char* kind, int threads) {
  Value stage = Value::make_table();
  stage.set("kind", kind);
  stage.set("threads", threads);
  stage.set("job", Value::make_table()).set("gpus_per_node", 0);
  return stage;
}

Value model_table(const ModelShape& shape) {
  Value model = Value::make_table();
  for (const auto& [key, value] :
       {std::pair{"hidden_size", shape.hidden_size}, std::pair{"num_hidden_layers", shape.num_hidden_layers},
        std::pair{"num_attention_heads", shape.num_attention_heads},
        std::pair{"num_key_value_heads", shape.num_key_value_heads},
        std::pair{"max_position_embeddings", shape.max_position_embeddings}, std::pair{"vocab_size", shape.vocab_size}})
    model.set(key, static_cast<long long>(value));
  return model;
}

Value training_table(const CalibrationModel& model, std::int64_t steps, int threads) {
  Value stage = stage_table("pretrain", threads);
  stage.set("inputs", Value::make_table()).set("tokens", format("@{}", tokens_stage));
  stage.set("precision", "bf16");
  stage.set("steps", static_cast<long long>(steps));
  stage.set("sequence_length", static_cast<long long>(model.task.sequence_length));
  stage.set("micro_batch_size", 1);
  stage.set("global_batch_size", static_cast<long long>(model.task.global_batch_size));
  stage.set("model", model_table(model.task.shape));
  return stage;
}

Value candidate_table(const CalibrationLayout& one) {
  Value written = written_layout(one.layout);
  if (one.layout.precision == Precision::f32) written.set("precision", "f32");
  if (one.nodes > 1) written.set("nodes", one.nodes);
  return written;
}

Value tune_table(const CalibrationPlan& plan, const CalibrationModel& model, const std::string& after) {
  Value stage = Value::make_table();
  stage.set("kind", tune_kind_name);
  stage.set(tune_for_key, model.name);
  stage.set("needs", text_list({after}));
  stage.set("time_limit", calibration_time_limit);
  stage.set("steps", static_cast<long long>(plan.steps));
  stage.set("warmup_steps", static_cast<long long>(plan.warmup_steps));
  stage.set("max_runs", model.layouts.size());
  stage.set("at_once", 1);
  stage.set("confidence", 0.999);
  Value candidates = Value::make_array();
  for (const CalibrationLayout& one : model.layouts) candidates.push_back(candidate_table(one));
  stage.set(tune_candidates_key, std::move(candidates));
  return stage;
}

Value benchmark_table(const CalibrationBenchmark& benchmark, int threads, const std::string& after) {
  Value stage = stage_table("benchmark", threads);
  stage.set("needs", text_list({after}));
  stage.set("ranks", benchmark.ranks);
  stage.set("nodes", benchmark.nodes);
  stage.set("time_limit", calibration_time_limit);
  stage.set("on_failure", "continue");
  stage.set("products", text_list(benchmark.products));
  if (benchmark.products.empty()) stage.set("streams", Value::make_array());
  Value& messages = stage.set("messages", Value::make_array());
  for (const std::int64_t bytes : benchmark.messages) messages.push_back(static_cast<long long>(bytes));
  return stage;
}

double best_rate(const BenchmarkResults& found, const std::string& what, const std::string& precision) {
  double best = 0;
  for (const BenchmarkResult& one : found.results) {
    if (one.what != what || one.precision != precision) continue;
    const double work = what == "product" ? 2.0 * static_cast<double>(one.m * one.n) * static_cast<double>(one.k)
                                          : static_cast<double>(one.bytes);
    best = std::max(best, work / one.seconds);
  }
  return best;
}

// What the time model says of a part; 0: nothing.
double part_seconds(const BenchmarkResult& part, const TrainingPlace& place, int ranks) {
  const auto bytes = static_cast<double>(part.bytes);
  const Link link = group_link(place.cluster, place.common, ranks, 1);
  if (part.what == "product")
    return product_time(place, part.precision == "bf16" ? Precision::bf16 : Precision::f32, static_cast<double>(part.m),
                        static_cast<double>(part.n), static_cast<double>(part.k));
  if (part.what == "all_reduce") return all_reduce_time(ranks, bytes, link);
  if (part.what == "all_gather") return all_gather_time(ranks, bytes, link, place.common.ring_latency);
  if (part.what == "send") return link.latency + bytes / link.rate;
  return 0;
}

class EvidenceReader {
 public:
  EvidenceReader(const std::string& run_dir, const SiteConfig& site, const TimeConstants& constants,
                 const CalibrationSite& asked)
      : run_dir_(run_dir), site_(site), constants_(constants), asked_(asked) {}

  void read_benchmark_of(const PlannedStage& stage) {
    const auto found = read_benchmark(join_path(stage_folder(run_dir_, stage.id()), "out"));
    if (!found.ok()) return set_aside(stage.id(), found.error().message());
    const int ranks = found->ranks, on_node = std::max(1, ranks / std::max(1, stage.common.nodes));
    const double cores = std::max(1, asked_.threads);
    if (stage.common.nodes == 1) {
      add_rate("peak_bf16", best_rate(*found, "product", "bf16") / cores / 1e12);
      add_rate("peak_f32", best_rate(*found, "product", "f32") / cores / 1e12);
      add_rate("memory_rate", best_rate(*found, "stream", "") / cores / 1e9);
    }
    add_rate(stage.common.nodes == 1 ? "link_rate" : "nic_rate", best_rate(*found, "send", "") / 1e9);
    for (const BenchmarkResult& part : found->results) {
      if (part.what == "stream") continue;  // its rate is all that it shows
      const auto predicted = [part, ranks, on_node, threads = asked_.threads](const TimeConstants& constants) {
        const auto place =
            processor_place(constants, threads, on_node, part.precision == "f32" ? Precision::f32 : Precision::bf16);
        return place.ok() ? part_seconds(part, *place, ranks) : 0.0;
      };
      if (predicted(constants_) <= 0) {
        set_aside(stage.id(), part.name() + " is nothing that the time model knows");
        continue;
      }
      evidence_.measured.parts.push_back({format("{}: {}", stage.id(), part.name()), part.seconds, 1, predicted});
    }
  }

  void read_trainings_of(const PlannedStage& tune) {
    const std::string path = join_path(stage_folder(run_dir_, tune.id()), trials_file_name);
    const auto text = read_file(path);
    const auto document = text.ok() ? parse_json(*text, path) : Result<Value>(text.error());
    const Value* list = document.ok() ? document->find("trials") : nullptr;
    if (list == nullptr || !list->is_array())
      return set_aside(tune.id(), document.ok() ? path + " has no trials" : document.error().message());
    const auto target = target_of(tune);
    if (!target.ok()) return set_aside(tune.id(), target.error().message());
    for (const Trial& candidate : written_candidates(tune)) {
      const std::string name = format("{}: {}", target->stage, candidate.name);
      const auto known = std::find_if(list->as_array().begin(), list->as_array().end(),
                                      [&](const Value& entry) { return entry.get_string("name") == candidate.name; });
      if (known == list->as_array().end()) {
        set_aside(name, "it was not run");
        continue;
      }
      const std::string outcome = known->get_string("outcome");
      const double seconds = known->get_number("step_seconds");
      if ((outcome != "measured" && outcome != "stopped") || !std::isfinite(seconds) || seconds <= 0)
        set_aside(name, known->get_string("why", outcome));
      else
        add_training(name, *target, candidate, seconds);
    }
  }

  CalibrationEvidence take() { return std::move(evidence_); }

 private:
  void set_aside(const std::string& name, const std::string& why) {
    evidence_.set_aside.push_back(format("{}: {}", name, why));
  }

  void add_rate(const char* name, double value) {
    if (value > 0) evidence_.measured.rates.push_back({format("gpu.{}.{}", processor_key, name), value});
  }

  void add_training(const std::string& name, const PlannedStage& target, const Trial& candidate, double seconds) {
    const auto stage = stage_with(target, candidate.settings);
    if (!stage.ok()) return set_aside(name, stage.error().message());
    const int on_node = stage->common.ranks / std::max(1, stage->common.nodes);
    const auto question = layout_request(*stage, site_, {constants_}, on_node, {calibration_vocabulary, {}});
    if (!question.ok()) return set_aside(name, question.error().message());
    const auto predicted = [task = question->search.task, layout = question->layout, threads = asked_.threads,
                            on_node](const TimeConstants& constants) {
      const auto place = processor_place(constants, threads, on_node, layout.precision);
      const auto time = place.ok() ? step_time(task, layout, *place) : Result<StepTime>(place.error());
      return time.ok() ? time->seconds() : 0.0;
    };
    evidence_.measured.trainings.push_back({name, seconds, 1, predicted});
  }

  const std::string& run_dir_;
  const SiteConfig& site_;
  const TimeConstants& constants_;
  const CalibrationSite& asked_;
  CalibrationEvidence evidence_;
};

}  // namespace

std::string calibration_documents() {
  static constexpr const char* words[] = {"rank", "step", "layer", "batch", "token", "weight", "shard", "stage",
                                          "node", "link", "queue", "night", "river", "stone",  "light", "paper"};
  PhiloxSequence random(1);
  std::string text;
  for (int document = 0; document < 400; ++document) {
    std::string content;
    for (int word = 0; word < 120; ++word)
      content += std::string(words[random.next_below(16)]) + (word % 12 == 11 ? ".\n" : " ");
    Value line = Value::make_table();
    line.set("id", std::to_string(document)), line.set("language", "en"), line.set("text", content);
    text += to_json(line) + "\n";
  }
  return text;
}

std::string calibration_workflow(const CalibrationPlan& plan, const CalibrationSite& site, const std::string& name,
                                 const std::string& corpus) {
  Value workflow = Value::make_table();
  workflow.set("workflow", Value::make_table()).set("name", name);
  Value& stages = workflow.set("stage", Value::make_table());
  Value tokens = stage_table("tokenize", 1);
  tokens.set("inputs", Value::make_table()).set("corpus", corpus);
  tokens.set("vocabulary", calibration_vocabulary);
  stages.set(tokens_stage, std::move(tokens));
  std::string before = tokens_stage;
  for (const CalibrationModel& model : plan.models) {
    stages.set(model.name, training_table(model, plan.steps, site.threads));
    stages.set(model.name + "-steps", tune_table(plan, model, before));
    before = model.name + "-steps";
  }
  for (const CalibrationBenchmark& benchmark : plan.benchmarks) {  // last: no training waits for one to end well
    stages.set(benchmark.name, benchmark_table(benchmark, site.threads, before));
    before = benchmark.name;
  }
  return to_toml(workflow);
}

Result<CalibrationEvidence> read_calibration(const std::string& run_dir, const FrozenRun& run, const SiteConfig& site,
                                             const TimeConstants& constants, const CalibrationSite& asked) {
  EvidenceReader reader(run_dir, site, constants, asked);
  for (const PlannedStage& stage : run.plan.stages) {
    if (stage.kind == "benchmark") reader.read_benchmark_of(stage);
    if (stage.kind == tune_kind_name) reader.read_trainings_of(stage);
  }
  return reader.take();
}

}  // namespace longhaul

#include "orchestrator/job/request/stage_wall.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/stages/curate.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/serving_request.h"
#include "orchestrator/job/request/job_class.h"

namespace longhaul {
namespace {

// docs/benchmarks.md, "Curation": 92 MB of HTML in 12.8 s on one thread, 6.4 s on two.
constexpr double curate_rate = 7e6;  // bytes/s of a thread
// "Tokenizer": encoding, one thread, 27 MB/s; training a vocabulary, 41 MB/s on two.
constexpr double tokenize_rate = 12e6;
// "Engine": 643 GFLOP/s of two ranks in bf16; a tenth of it, for processors without bf16 products.
constexpr double flops_rate = 30e9;   // of a thread
constexpr double model_rate = 200e6;  // bytes/s, read or written
constexpr int threads_max = 8;        // more are not counted on
constexpr double compressed = 8;      // text in a byte of a .gz
constexpr double usual_heldout = 600e3;
constexpr double token_bytes_min = 2;  // of text in a token
constexpr double bytes_of_weight = 4;
constexpr double answer_tokens = 256;  // of a prompt of the stage's own
constexpr double quarter_s = 900;

const PlannedInput* input_of(const PlannedStage& stage, const std::string& name) {
  for (const PlannedInput& input : stage.inputs)
    if (input.name == name) return &input;
  return nullptr;
}

class WorkForecast {
 public:
  WorkForecast(const RunPlan& plan, int threads, const RawBytes& raw_bytes)
      : plan_(plan), threads_(std::clamp(threads, 1, threads_max)), raw_bytes_(raw_bytes) {}

  std::optional<double> seconds(const PlannedStage& stage) const {
    if (stage.kind == "curate") return over(text_of(stage, "documents"), curate_rate * threads_);
    if (stage.kind == "tokenize") return over(text_of(stage, "corpus"), tokenize_rate);
    if (stage.kind != "convert" && stage.kind != "quantize" && stage.kind != "evaluate" && stage.kind != "deploy")
      return std::nullopt;
    const auto model = model_behind(plan_, stage);
    const auto tokens = tokens_of(stage);
    if (!model.ok() || !tokens) return std::nullopt;
    const auto parameters = static_cast<double>(model->shape.parameter_count());
    const double models = input_of(stage, "baseline") ? 2 : 1;
    return models *
           (2 * bytes_of_weight * parameters / model_rate + 2 * parameters * *tokens / (flops_rate * threads_));
  }

 private:
  static std::optional<double> over(std::optional<double> amount, double rate) {
    return amount ? std::optional(*amount / rate) : std::nullopt;
  }

  // At most so many bytes of text come from an input; through the stages that make it smaller.
  std::optional<double> text_of(const PlannedStage& stage, const std::string& name) const {
    const PlannedInput* input = input_of(stage, name);
    if (!input) return 0;
    if (input->stages.empty()) return raw_bytes_(input->paths);
    const PlannedStage* source = plan_.find(input->stages.front());
    if (source && source->kind == "curate") return text_of(*source, "documents");
    if (source && source->kind == "tokenize") return text_of(*source, "corpus");
    return std::nullopt;
  }

  std::optional<double> heldout_of(const PlannedStage& stage) const {
    const PlannedInput* tokens = input_of(stage, "tokens");
    if (!tokens) return 0;
    const PlannedStage* at = tokens->stages.empty() ? nullptr : plan_.find(tokens->stages.front());
    const PlannedInput* corpus = at ? input_of(*at, "corpus") : nullptr;
    const PlannedStage* curated = corpus && !corpus->stages.empty() ? plan_.find(corpus->stages.front()) : nullptr;
    if (!curated || curated->kind != "curate") return std::nullopt;
    const double fraction = curated->settings.get_number("heldout_fraction");
    const auto bytes = static_cast<double>(curated->settings.get_integer("heldout_bytes", -1));
    if (fraction <= 0) return bytes < 0 ? usual_heldout : bytes;
    const auto all = text_of(*curated, "documents");
    return all ? std::optional(std::max(bytes, fraction * *all)) : std::nullopt;
  }

  // That go through the model. A window that moves by half of itself reads them twice; what is measured before and
  // after, again.
  std::optional<double> tokens_of(const PlannedStage& stage) const {
    const Value* prompts = stage.settings.find("prompts");
    const double asked = prompts ? static_cast<double>(prompts->size()) * answer_tokens : 0;
    if (stage.kind == "convert") return 0;
    if (stage.kind == "deploy") return asked;
    const auto text = heldout_of(stage);
    const auto questions = text_of(stage, "data");
    if (!text || !questions) return std::nullopt;
    return 4 * (*text + *questions) / token_bytes_min + asked;
  }

  const RunPlan& plan_;
  const double threads_;
  const RawBytes& raw_bytes_;
};

}  // namespace

double wall_by_forecast(double forecast_s) {
  const double wanted = std::max(forecast_wall_min_s, forecast_wall_factor * forecast_s);
  return quarter_s * std::ceil(wanted / quarter_s);
}

std::optional<double> bytes_on_disk(const std::vector<std::string>& paths, std::int64_t files_max) {
  namespace fs = std::filesystem;
  double bytes = 0;
  const auto add = [&](const fs::path& path) {
    std::error_code failed;
    const auto size = fs::file_size(path, failed);
    if (failed || --files_max < 0) return false;
    bytes += static_cast<double>(size) * (path.extension() == ".gz" ? compressed : 1);
    return true;
  };
  for (const std::string& path : paths) {
    std::error_code failed;
    if (!is_directory(path)) {
      if (!add(path)) return std::nullopt;
      continue;
    }
    fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, failed), end;
    for (; !failed && at != end; at.increment(failed)) {
      std::error_code unknown;
      if (at->is_regular_file(unknown) && !unknown && !add(at->path())) return std::nullopt;
    }
    if (failed) return std::nullopt;
  }
  return bytes;
}

std::optional<double> processor_seconds(const RunPlan& plan, const PlannedStage& stage, int threads,
                                        const RawBytes& raw_bytes) {
  return WorkForecast(plan, threads, raw_bytes).seconds(stage);
}

void forecast_walls(const SiteConfig& site, const RawBytes& raw_bytes, RunPlan& plan) {
  if (!site.is_slurm()) return;
  for (PlannedStage& stage : plan.stages) {
    if (stage.device != "cpu" || stage.common.time_limit.value > 0 || is_resumable(stage.kind, stage.common.job))
      continue;
    const JobClass job_class = job_class_of(site, stage);
    const int cores = job_class.cores > 0 ? job_class.cores : site.node.cores;
    const int threads = stage.common.threads > 0 ? stage.common.threads : std::max(1, cores);
    stage.forecast_s = processor_seconds(plan, stage, threads, raw_bytes).value_or(0);
  }
}

}  // namespace longhaul

#include "tests/gpu/training/training_bench.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "tests/gpu/bench/bar.h"
#include "tests/gpu/bench/bench.h"
#include "tests/gpu/training/training_run.h"

namespace longhaul::gpu_bench {
namespace {

constexpr int kernels_shown = 20, save_every = 50;
constexpr double stall_bar = 0.02;
constexpr double deep_part = 0.6;  // of the time of a case of which two depths are measured

const char* const usage =
    "usage: gpu_training_bench [--case NAME] [--json FILE] [--folder FOLDER] [--limit-s SECONDS] [--steps N]\n"
    "                          [--fits] [--tiny]\n"
    "  --case NAME   one of them, or `checkpoint`; else all, each with the time limit\n"
    "  --fits        only what a step will take, and one step of what fits\n"
    "  --folder F    where the checkpoint goes\n"
    "  --tiny        models of a few thousand weights and small ceilings, for an emulated GPU\n";

struct Options {
  std::string only, json, folder = "/tmp";
  RunLimits limits;
  bool fits = false, tiny = false;
};

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  const auto number = [](const std::string& text) { return std::strtod(text.c_str(), nullptr); };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--help") return make_error(ErrorCode::invalid_input, "Whole training steps on a GPU.");
    if (name == "--fits" || name == "--tiny") {
      (name == "--fits" ? options.fits : options.tiny) = true;
      continue;
    }
    if (i + 1 == arguments.size()) return make_error(ErrorCode::invalid_input, name + " needs a value");
    const std::string& value = arguments[++i];
    if (name == "--case") {
      options.only = value;
    } else if (name == "--json") {
      options.json = value;
    } else if (name == "--folder") {
      options.folder = value;
    } else if (name == "--limit-s" && number(value) > 0) {
      options.limits.seconds = number(value);
    } else if (name == "--steps" && number(value) >= 1) {
      options.limits.steps_max = static_cast<int>(number(value));
    } else {
      return make_error(ErrorCode::invalid_input, name + " " + value);
    }
  }
  return options;
}

double gigabytes(std::int64_t bytes) {
  return 1e-9 * static_cast<double>(bytes);
}

Value table_of(const MemoryTable& table) {
  Value bytes = Value::make_table();
  for (int i = 0; i < memory_categories; ++i)
    if (const auto category = static_cast<MemoryCategory>(i); table[category] > 0)
      bytes.set(to_string(category), table[category]);
  return bytes;
}

// One run of the program: what it has found so far, whole on disk after every part.
class Report {
 public:
  Report(Gpu& gpu, const Options& options) : gpu_(gpu), options_(options), device_(gpu.device().name()) {}

  void find_ceilings() {
    Bench bench(gpu_);
    const bool tiny = options_.tiny;
    bench.find_ceilings(tiny ? 1 << 16 : std::int64_t{1} << 30, tiny ? 32 : 8192);
    ceilings_ = bench.ceilings;
    peak_ = peak_bf16_flops(device_);
    std::printf("%s: copy %.0f GB/s, product %.0f TFLOP/s (bf16), peak %s\n", device_.c_str(),
                1e-9 * ceilings_.bytes_per_s, 1e-12 * ceilings_.flops,
                peak_ ? format("{:.0f} TFLOP/s", 1e-12 * *peak_).c_str() : "not known for this chip");
  }
  void run(const TrainingCase& training) {
    Value reported = Value::make_table();
    reported.set("name", training.name), reported.set("title", training.title);
    const Status done = run(training, reported);
    if (!done.ok()) failed(training.title, done.error(), reported);
    cases_.push_back(std::move(reported));
    write();
  }
  void run_checkpoint(const TrainingCase& training);
  int code() const { return code_; }
  void write();

 private:
  Status run(const TrainingCase& training, Value& reported);
  void failed(const std::string& what, const Error& error, Value& reported) {
    std::printf("%s: FAILED: %s\n", what.c_str(), error.message().c_str());
    reported.set("error", error.message());
    bars_.push_back(Bar{.figure = what, .unit = "", .why_not = error.message()}.to_value());
    code_ = kMissed;
  }
  void add(const Bar& bar) {
    bars_.push_back(bar.to_value());
    if (bar.why_not.empty())
      std::printf(
          "  %s: %.4g %s%s%s: %s\n", bar.figure.c_str(), bar.value, bar.unit.c_str(),
          bar.least == 0 ? "" : format(" (bar {} {:g})", bar.at_most ? "at most" : "at least", bar.least).c_str(),
          bar.peer.empty() ? "" : ("; " + bar.peer).c_str(), bar.outcome());
    else
      std::printf("  %s: not measured: %s\n", bar.figure.c_str(), bar.why_not.c_str());
    if (bar.missed()) code_ = kMissed;
  }
  double mfu_of_ceiling(const TrainingCase& training, double step_s) const {
    return training.flops() / step_s / ceilings_.flops;
  }
  void report_speed(const TrainingCase& training, const Measured& measured, Value& reported);
  static void report_memory(const Fit& fit, const Measured& measured, Value& reported);
  static void report_phases(const Measured& measured, Value& reported);
  static void report_kernels(const Measured& measured, Value& reported);
  Status extrapolate(const TrainingCase& training, const Measured& deep, const Fit& fit, Value& reported);

  Gpu& gpu_;
  const Options& options_;
  std::string device_;
  SystemClock clock_;
  Ceilings ceilings_;
  std::optional<double> peak_;
  Value cases_ = Value::make_array(), bars_ = Value::make_array();
  int code_ = 0;
};

void Report::write() {
  std::fflush(stdout);
  if (options_.json.empty()) return;
  Value all = Value::make_table();
  all.set("device", device_), all.set("copy_bytes_per_s", ceilings_.bytes_per_s);
  all.set("product_flops", ceilings_.flops);
  if (peak_) all.set("peak_flops", *peak_);
  all.set("trainings", cases_), all.set("bars", bars_);
  if (const Status written = write_file_atomic(options_.json, to_json(all) + "\n"); !written.ok()) {
    std::fprintf(stderr, "%s\n", written.error().message().c_str());
    code_ = kMissed;
  }
}

void Report::report_speed(const TrainingCase& training, const Measured& measured, Value& reported) {
  const double step_s = measured.median_s(), rate = static_cast<double>(training.tokens()) / step_s;
  const double of_ceiling = mfu_of_ceiling(training, step_s);
  std::printf("  %lld layers: %.4f s a step (middle of %zu), %.0f tokens/s; MFU %.1f %% of the measured product%s\n",
              static_cast<long long>(measured.layers), step_s, measured.step_s.size(), rate, 100 * of_ceiling,
              peak_ ? format(", {:.1f} % of the peak", 100 * training.flops() / step_s / *peak_).c_str() : "");
  std::printf("  loss %.4f, then %.4f\n", measured.first_loss, measured.last_loss);
  reported.set("layers", measured.layers), reported.set("step_s", step_s), reported.set("tokens_per_s", rate);
  reported.set("steps", static_cast<std::int64_t>(measured.step_s.size())), reported.set("mfu_of_product", of_ceiling);
  if (peak_) reported.set("mfu_of_peak", training.flops() / step_s / *peak_);
  reported.set("first_loss", measured.first_loss), reported.set("last_loss", measured.last_loss);
}

void Report::report_memory(const Fit& fit, const Measured& measured, Value& reported) {
  std::printf("  memory: planned, held by the engine at most; the device has %.2f GB less than before\n",
              gigabytes(measured.taken_on_device));
  for (int i = 0; i < memory_categories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (!lies_on_device(category) || (fit.planned[category] == 0 && measured.held[category] == 0)) continue;
    std::printf("    %-18s %9.3f GB %9.3f GB\n", to_string(category), gigabytes(fit.planned[category]),
                gigabytes(measured.held[category]));
  }
  reported.set("planned", table_of(fit.planned)), reported.set("held", table_of(measured.held));
  reported.set("taken_on_device", measured.taken_on_device), reported.set("needed", fit.needed);
}

void Report::report_phases(const Measured& measured, Value& reported) {
  const Phases& p = measured.phases;
  Value phases = Value::make_table();
  std::printf("  one step by its phases, waited for at each border: %.4f s\n", p.whole_s);
  for (const auto& [name, seconds] : {std::pair{"forward", p.forward_s},
                                      {"backward", p.backward_s},
                                      {"sums and norm", p.sums_s},
                                      {"optimizer", p.optimizer_s}}) {
    std::printf("    %-18s %9.4f s %6.1f %%\n", name, seconds, 100 * seconds / p.whole_s);
    phases.set(name, seconds);
  }
  reported.set("phases", std::move(phases));
}

void Report::report_kernels(const Measured& measured, Value& reported) {
  if (!measured.no_kernels.empty()) {
    std::printf("  kernels were not timed: %s\n", measured.no_kernels.c_str());
    reported.set("no_kernels", measured.no_kernels);
    return;
  }
  Value kernels = Value::make_array();
  const double all = static_cast<double>(measured.kernels.compute_ns() + measured.kernels.communication_ns());
  std::printf("  the longest kernels of that step\n");
  for (const KernelTime& kernel : measured.kernels.longest(kernels_shown)) {
    std::printf("    %8.3f ms %5.1f %% %6lld x %s\n", 1e-6 * static_cast<double>(kernel.ns),
                100 * static_cast<double>(kernel.ns) / all, static_cast<long long>(kernel.count),
                kernel.name.substr(0, 100).c_str());
    Value one = Value::make_table();
    one.set("name", kernel.name), one.set("count", kernel.count), one.set("ns", kernel.ns);
    kernels.push_back(std::move(one));
  }
  reported.set("kernels", std::move(kernels));
}

// From two depths of the same layers, marked as what it is.
Status Report::extrapolate(const TrainingCase& training, const Measured& deep, const Fit& fit, Value& reported) {
  if (deep.layers < 2) return {};
  const RunLimits limits{(1 - deep_part) * options_.limits.seconds, std::min(options_.limits.steps_max, 3)};
  const std::int64_t layers = deep.layers / 2;
  LH_TRY(const Measured shallow, measure(gpu_, clock_, training.with_layers(layers), fit.recompute, limits));
  const auto wanted = static_cast<long long>(training.shape.num_hidden_layers);
  const auto few = static_cast<long long>(layers), more = static_cast<long long>(deep.layers);
  const std::optional<double> step_s =
      extrapolated_seconds(deep.layers, deep.median_s(), layers, shallow.median_s(), training.shape.num_hidden_layers);
  Value from = Value::make_table();
  from.set("shallow_layers", layers), from.set("shallow_step_s", shallow.median_s());
  if (step_s) {
    const double rate = static_cast<double>(training.tokens()) / *step_s;
    std::printf("  EXTRAPOLATED from %lld and %lld layers to %lld, held against no bar: %.2f s a step, %.0f tokens/s\n",
                few, more, wanted, *step_s, rate);
    from.set("step_s", *step_s), from.set("tokens_per_s", rate);
  } else {
    std::printf("  not extrapolated to %lld layers: %lld took %.3f s and %lld no less, %.3f s\n", wanted, more,
                deep.median_s(), few, shallow.median_s());
  }
  reported.set("extrapolated", std::move(from));
  return {};
}

Status Report::run(const TrainingCase& training, Value& reported) {
  LH_TRY(Fit found, fit(training, gpu_.device().free_bytes()));
  std::printf("%s\n", found.said.c_str());
  std::fflush(stdout);
  reported.set("fits", found.fits(training)), reported.set("said", found.said), reported.set("free", found.free);
  Bar bar{.figure = training.title, .unit = "tokens/s", .least = training.tokens_per_s_bar, .peer = training.peer};
  if (found.layers == 0) {
    bar.why_not = found.said;
    add(bar);
    return {};
  }
  const TrainingCase there = training.with_layers(found.layers);
  RunLimits limits = options_.limits;
  if (options_.fits) limits.steps_max = 0;
  if (!found.fits(training)) limits.seconds *= deep_part;
  LH_TRY(const Measured measured, measure(gpu_, clock_, there, found.recompute, limits));
  if (!found.fits(training)) {  // the plan beside which it is held is its own
    LH_TRY(const Fit shallower, fit(there, found.free));
    found.planned = shallower.planned, found.needed = shallower.needed;
  }
  report_memory(found, measured, reported);
  if (options_.fits) {  // no speed: libraries chose, and scratch grew
    std::printf("  one step of %lld layers, the first: %.2f s, loss %.4f\n", static_cast<long long>(measured.layers),
                measured.median_s(), measured.first_loss);
    reported.set("layers", measured.layers), reported.set("first_step_s", measured.median_s());
    reported.set("first_loss", measured.first_loss);
    return {};
  }
  report_speed(there, measured, reported);
  report_phases(measured, reported);
  report_kernels(measured, reported);
  if (found.fits(training)) {
    bar.value = static_cast<double>(training.tokens()) / measured.median_s();
  } else {
    bar.why_not = format("does not fit: {}", found.said);
    LH_CHECK(extrapolate(training, measured, found, reported));
  }
  add(bar);
  if (found.fits(training) && peak_ && training.tokens_per_s_bar == 0)
    add({.figure = training.title + ", MFU",
         .unit = "% of the peak",
         .peer = training.peer,
         .value = 100 * training.flops() / measured.median_s() / *peak_});
  return {};
}

void Report::run_checkpoint(const TrainingCase& training) {
  Bar bar{.figure = format("checkpoint every {} steps, {}", save_every, training.title),
          .unit = "of throughput",
          .least = stall_bar,
          .at_most = true};
  Value reported = Value::make_table();
  reported.set("name", "checkpoint");
  const std::string folder = options_.folder + "/longhaul-gpu-checkpoint";
  const auto measured = [&]() -> Result<CheckpointCost> {
    LH_TRY(const Fit found, fit(training, gpu_.device().free_bytes()));
    if (!found.fits(training)) return make_error(ErrorCode::unavailable, found.said);
    return checkpoint_cost(gpu_, clock_, training, found.recompute, options_.limits, folder);
  }();
  [[maybe_unused]] const Status removed = remove_tree(folder);
  if (!measured.ok()) {
    failed(bar.figure, measured.error(), reported);
  } else {
    const CheckpointCost& cost = *measured;
    std::printf(
        "%s: %.2f GB, %d steps beside it took %.4f s longer than %d without; %.4f s stood still, %.1f s written\n",
        bar.figure.c_str(), 1e-9 * static_cast<double>(cost.bytes), cost.steps, cost.extra_s, cost.steps,
        cost.stood_still_s, cost.write_s);
    reported.set("bytes", static_cast<std::int64_t>(cost.bytes)),
        reported.set("steps", static_cast<std::int64_t>(cost.steps));
    reported.set("step_s", cost.step_s), reported.set("extra_s", cost.extra_s),
        reported.set("stood_still_s", cost.stood_still_s);
    reported.set("write_s", cost.write_s), reported.set("share", cost.share(save_every));
    bar.value = cost.share(save_every);
    add(bar);
  }
  cases_.push_back(std::move(reported));
  write();
}

}  // namespace

int training_bench(Gpu& gpu, std::span<const std::string> arguments) {
  const Result<Options> options = parse(arguments);
  std::vector<TrainingCase> cases = options.ok() && options->tiny ? tiny_training_cases() : training_cases();
  const TrainingCase saved = options.ok() && options->tiny ? cases.front() : cases[2];
  const auto known = [&] {
    return options->only.empty() || options->only == "checkpoint" ||
           std::ranges::any_of(cases, [&](const TrainingCase& c) { return c.name == options->only; });
  };
  if (!options.ok() || !known()) {
    const std::string what = options.ok() ? "no case is named " + options->only : options.error().message();
    std::fprintf(stderr, "%s\n%s", what.c_str(), usage);
    return kUsage;
  }
  Report report(gpu, *options);
  report.find_ceilings();
  for (const TrainingCase& training : cases)
    if (options->only.empty() || options->only == training.name) report.run(training);
  if (options->only == "checkpoint" || (options->only.empty() && !options->fits)) report.run_checkpoint(saved);
  return report.code();
}

}  // namespace longhaul::gpu_bench

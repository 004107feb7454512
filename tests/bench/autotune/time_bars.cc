// The time model against published runs: fits it to one part (--fit, in memory, or --write FILE), predicts the other,
// and prints errors beside the bars and beside a model of one constant; then each source by constants that were fitted
// without it, and how well layouts are ranked. Exit code 1: a bar is missed (--gate-time: one of those for step times).
//
//   time_bars --data ../shared/data [--constants autotune/constants.toml] [--fit] [--write FILE] [--left-out]
//             [--rows] [--vtrain-many FILE] [--gate-time]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "autotune/calibrate/constant_fit.h"
#include "autotune/time/measured_correction.h"
#include "base/files.h"
#include "base/text.h"
#include "published_runs.h"

namespace longhaul::bench {
namespace {

struct Errors {
  std::vector<double> of;  // relative, with sign
  double median = 0, mean = 0, p90 = 0, bias = 0, deviation = 0;
};

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

template <class Predict>
Errors errors_of(const std::vector<PublishedRun>& runs, const Predict& predicted) {
  Errors e;
  std::vector<double> sizes;
  for (const PublishedRun& run : runs) {
    e.of.push_back(predicted(run) / run.seconds - 1);
    sizes.push_back(std::abs(e.of.back()));
    e.mean += sizes.back(), e.bias += e.of.back(), e.deviation += e.of.back() * e.of.back();
  }
  const auto n = static_cast<double>(std::max<std::size_t>(1, runs.size()));
  e.mean /= n, e.bias /= n, e.deviation = std::sqrt(e.deviation / n);
  e.median = quantile(sizes, 0.5), e.p90 = quantile(sizes, 0.9);
  return e;
}

void print(const char* name, const Errors& e) {
  std::printf("  %-44s %5zu runs  median %5.1f %%  mean %5.1f %%  90th %5.1f %%  bias %+5.1f %%\n", name, e.of.size(),
              100 * e.median, 100 * e.mean, 100 * e.p90, 100 * e.bias);
}

void print_rows(const std::vector<PublishedRun>& runs, const Errors& e) {
  for (std::size_t i = 0; i < runs.size(); ++i)
    std::printf("    %+6.1f %%  %8.3f s  %s\n", 100 * e.of[i], runs[i].seconds, runs[i].to_string().c_str());
}

// One constant: the share of the peak that the fit part reaches, in the geometric mean.
double constant_share(const std::vector<PublishedRun>& runs, const TimeConstants& constants) {
  double sum = 0;
  for (const PublishedRun& run : runs)
    sum += std::log(
        model_flops_utilisation(run.task, run.layouts.front(), *constants.gpu_named(run.cluster), run.seconds) /
        (constants.gpu_named(run.cluster)->peak(run.layouts.front().precision) /
         constants.gpu_named(run.cluster)->peak_bf16));
  return std::exp(sum / static_cast<double>(runs.size()));
}

double by_one_constant(const PublishedRun& run, const TimeConstants& constants, double share) {
  const GpuType gpu = *constants.gpu_named(run.cluster);
  return model_flops_utilisation(run.task, run.layouts.front(), gpu, 1.0) * gpu.peak_bf16 /
         gpu.peak(run.layouts.front().precision) / share;
}

struct Ranking {
  int groups = 0, pairs = 0, right = 0;
  double regret = 0;  // mean over groups
};

// Runs that differ in their layout alone.
using Predictor = std::function<double(const PublishedRun&)>;
Ranking rank(const std::vector<PublishedRun>& runs, const Predictor& predicted) {
  std::map<std::string, std::vector<std::pair<double, double>>> groups;  // predicted, measured
  for (const PublishedRun& run : runs)
    groups[format("{} {} {} {} {} {} {}", run.source, run.cluster, run.model, run.layouts.front().dims.world_size(),
                  run.task.global_batch_size, run.task.sequence_length, run.precision)]
        .emplace_back(predicted(run), run.seconds);
  Ranking r;
  for (const auto& [name, members] : groups) {
    if (members.size() < 2) continue;
    double best = members.front().second;
    for (const auto& m : members) best = std::min(best, m.second);
    ++r.groups, r.regret += std::min_element(members.begin(), members.end())->second / best - 1;
    for (std::size_t i = 0; i < members.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        if (std::abs(members[i].second / members[j].second - 1) <= 0.04) continue;
        ++r.pairs;
        r.right += (members[i].first < members[j].first) == (members[i].second < members[j].second);
      }
  }
  if (r.groups > 0) r.regret /= r.groups;
  return r;
}

int missed = 0;          // bars
int missed_of_time = 0;  // of step times alone
void bar(const char* what, double figure, double limit, bool at_most = true) {
  const bool met = at_most ? figure <= limit : figure >= limit;
  missed += !met, missed_of_time += !met && std::string(what).find("ranking") == std::string::npos;
  std::printf("  %-58s %6.1f %%   bar %s %.0f %%   %s\n", what, 100 * figure, at_most ? "<=" : ">=", 100 * limit,
              met ? "met" : "MISSED");
}

void print_ranking(const char* name, const Ranking& r) {
  std::printf("  %-44s %5d groups  regret %4.1f %%  pairs ordered rightly %4.1f %% of %d\n", name, r.groups,
              100 * r.regret, 100.0 * r.right / std::max(1, r.pairs), r.pairs);
}

// Ratios that one machine showed, to correct what is predicted for others on it.
MeasuredCorrection correction_by(const std::vector<PublishedRun>& seen, const TimeConstants& constants) {
  std::vector<MeasuredRatio> ratios;
  for (const PublishedRun& run : seen)
    ratios.push_back(
        {likeness_of(run.task, run.layouts.front()), std::log(run.seconds / predict(run, constants, true))});
  return {std::move(ratios), 0.13, 0.005};
}

struct Options {
  std::string data, constants = "autotune/constants.toml", write, many_nodes;
  bool fit = false, left_out = false, rows = false, gate_time = false;
};

std::vector<PublishedRun> dense_of(const std::vector<PublishedRun>& runs, bool moe) {
  std::vector<PublishedRun> some;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(some),
               [&](const PublishedRun& run) { return run.moe == moe; });
  return some;
}

std::vector<TimedRun> fit_data(const std::vector<PublishedRun>& dense, const std::vector<PublishedRun>& experts,
                               const std::vector<PublishedRun>& one_node) {
  std::vector<TimedRun> runs;
  const auto add = [&](const std::vector<PublishedRun>& some, double weight) {
    for (const PublishedRun& run : some)
      runs.push_back({run.to_string(), run.seconds, weight,
                      [&run](const TimeConstants& constants) { return predict(run, constants, false); }});
  };
  // Mixtures of experts count less: the same model on the same GPUs ran twice as fast with the software of a year
  // later. The many runs of one small machine count together as much as all others.
  add(dense, 1);
  add(experts, 0.2);
  add(one_node, static_cast<double>(dense.size()) / static_cast<double>(std::max<std::size_t>(1, one_node.size())));
  return runs;
}

Result<FitReport> fit_published(ConstantTable& table, const std::vector<TimedRun>& runs, int iterations) {
  FitOptions options;
  options.iterations = iterations;
  return fit_constants(table, fit_parameters(table), runs, options);
}

Status leave_out(const ConstantTable& fitted, const std::vector<PublishedRun>& dense,
                 const std::vector<PublishedRun>& experts, const std::vector<PublishedRun>& one_node) {
  std::printf("each source by constants that were fitted to all others\n");
  std::vector<std::string> sources;
  for (const PublishedRun& run : dense)
    if (std::find(sources.begin(), sources.end(), run.source) == sources.end()) sources.push_back(run.source);
  std::vector<double> all;
  for (const std::string& source : sources) {
    std::vector<PublishedRun> others, left;
    for (const PublishedRun& run : dense) (run.source == source ? left : others).push_back(run);
    ConstantTable table = fitted;
    LH_CHECK(fit_published(table, fit_data(others, experts, one_node), 12));
    LH_TRY(const TimeConstants constants, make_time_constants(table));
    const Errors e = errors_of(left, [&](const PublishedRun& run) { return predict(run, constants, true); });
    print(source.substr(0, 44).c_str(), e);
    all.insert(all.end(), e.of.begin(), e.of.end());
  }
  double sum = 0;
  for (double& e : all) sum += std::abs(e), e = std::abs(e);
  std::printf("  all of them: median %.1f %%, mean %.1f %%\n", 100 * quantile(all, 0.5),
              100 * sum / static_cast<double>(all.size()));
  return {};
}

Status measure(const Options& options) {
  LH_TRY(const std::string text, read_file(options.constants));
  LH_TRY(ConstantTable table, ConstantTable::parse(text, options.constants));
  LH_TRY(const auto published, read_throughput(options.data + "/throughput.csv"));
  LH_TRY(const auto one_node, read_vtrain(options.data + "/vtrain_single_node.csv", false));
  const auto dense = dense_of(published, false), experts = dense_of(published, true);
  const Split parts = split_by_cluster(dense), mixtures = split_by_cluster(experts), models = split_by_model(one_node);
  if (options.fit || !options.write.empty()) {
    LH_TRY(const FitReport report, fit_published(table, fit_data(parts.fit, mixtures.fit, models.fit), 40));
    std::printf("fitted %zu constants with %d evaluations: %.1f before, %.1f after\n", table.fitted().size(),
                report.evaluations, report.before, report.after);
  }
  if (!options.write.empty()) {
    for (Constant& c : table.constants())
      if (c.fitted) c.value = std::strtod(format("{:.4g}", c.value).c_str(), nullptr);
    LH_CHECK(write_file_atomic(options.write, table.to_toml()));
  }
  LH_TRY(const TimeConstants constants, make_time_constants(table));
  const auto model = [&](const PublishedRun& run) { return predict(run, constants, true); };

  std::printf("step time, predicted against published\n");
  const Errors fit = errors_of(parts.fit, model), test = errors_of(parts.test, model);
  const Errors one_fit = errors_of(models.fit, model), one_test = errors_of(models.test, model);
  print("dense pretraining, fit part", fit);
  print("dense pretraining, test part", test);
  print("vTrain, one node, fit half", one_fit);
  print("vTrain, one node, test half", one_test);
  print("mixtures of experts, fit part", errors_of(mixtures.fit, model));
  print("mixtures of experts, test part", errors_of(mixtures.test, model));
  const double share = constant_share(parts.fit, constants), one_share = constant_share(models.fit, constants);
  const Errors baseline =
      errors_of(parts.test, [&](const PublishedRun& r) { return by_one_constant(r, constants, share); });
  const Errors one_baseline =
      errors_of(models.test, [&](const PublishedRun& r) { return by_one_constant(r, constants, one_share); });
  print("one constant, dense pretraining, test part", baseline);
  print("one constant, vTrain, one node, test half", one_baseline);
  if (options.rows) {
    print_rows(parts.fit, fit), print_rows(parts.test, test), print_rows(experts, errors_of(experts, model));
    print_rows(models.fit, one_fit), print_rows(models.test, one_test);
  }
  if (!options.many_nodes.empty()) {
    LH_TRY(const auto many, read_vtrain(options.many_nodes, true));
    const Errors e = errors_of(many, model);
    print("vTrain, many nodes (in no fit)", e);
    print_ranking("vTrain, many nodes", rank(many, model));
    if (options.rows) print_rows(many, e);
  }
  std::printf("ranking of layouts\n");
  const Ranking published_rank = rank(dense, model), one_rank = rank(models.test, model);
  print_ranking("published", published_rank);
  print_ranking("vTrain, one node, test half", one_rank);
  const MeasuredCorrection correction = correction_by(models.fit, constants);
  const Predictor corrected = [&](const PublishedRun& r) {
    return predict(r, constants, true) * correction.at(likeness_of(r.task, r.layouts.front())).factor;
  };
  const Ranking corrected_rank = rank(models.test, corrected);
  print_ranking("the same, corrected by the fit half's runs", corrected_rank);
  print("vTrain, one node, test half, corrected", errors_of(models.test, corrected));
  if (options.left_out) LH_CHECK(leave_out(table, dense, mixtures.fit, models.fit));

  std::printf("bars\n");
  bar("dense pretraining, test part: median error", test.median, 0.06);
  bar("dense pretraining, test part: mean error", test.mean, 0.08);
  bar("dense pretraining, test part: 90th percentile", test.p90, 0.18);
  bar("vTrain, one node, test half: mean error", one_test.mean, 0.08);
  const int groups = published_rank.groups + one_rank.groups, pairs = published_rank.pairs + one_rank.pairs;
  bar("ranking: mean regret of the chosen layout",
      (published_rank.regret * published_rank.groups + one_rank.regret * one_rank.groups) / std::max(1, groups), 0.03);
  bar("ranking: the same, corrected by runs of other models", corrected_rank.regret, 0.03);
  bar("ranking: pairs more than 4 % apart in the right order",
      static_cast<double>(published_rank.right + one_rank.right) / std::max(1, pairs), 0.90, false);
  std::printf("  standard deviation of the test part's errors %.1f %% (spread_seen says %.1f %%)\n",
              100 * test.deviation, 100 * constants.common.spread_seen);
  return {};
}

}  // namespace
}  // namespace longhaul::bench

int main(int argc, char** argv) {
  longhaul::bench::Options options;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    const auto value = [&] { return i + 1 < arguments.size() ? arguments[++i] : std::string(); };
    if (a == "--data")
      options.data = value();
    else if (a == "--constants")
      options.constants = value();
    else if (a == "--write")
      options.write = value();
    else if (a == "--vtrain-many")
      options.many_nodes = value();
    else if (a == "--fit")
      options.fit = true;
    else if (a == "--left-out")
      options.left_out = true;
    else if (a == "--gate-time")
      options.gate_time = true;
    else if (a == "--rows")
      options.rows = true;
    else
      return std::fprintf(stderr, "time_bars: unknown argument %s\n", a.c_str()), 2;
  }
  if (options.data.empty() || !longhaul::file_exists(options.data + "/throughput.csv"))
    return std::printf("skipped: no shared data\n"), 77;
  const auto done = longhaul::bench::measure(options);
  if (!done.ok()) return std::fprintf(stderr, "time_bars: %s\n", done.error().message().c_str()), 2;
  return (options.gate_time ? longhaul::bench::missed_of_time : longhaul::bench::missed) > 0 ? 1 : 0;
}

// The time model against published runs: fits it to them (--fit, in memory, or --write FILE), and prints errors beside
// a model of one constant and how well layouts are ranked; with --left-out each source by constants that were fitted
// without it, beside the bars. What published_figures compares is in no fit. Exit code 1: a bar is missed (--gate-time:
// one of those for step times).
//
//   time_bars --data ../shared/data [--constants autotune/constants.toml] [--fit] [--write FILE] [--left-out]
//             [--rows] [--choices] [--vtrain-many FILE] [--gate-time]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>

#include "autotune/search/layout_search.h"
#include "autotune/time/measured_correction.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "published_fit.h"

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

// A group, and what its chosen layout costs.
struct Choice {
  double regret = 0, error_of_chosen = 0, error_of_best = 0;  // predicted over measured, less 1
  std::string group, chosen, best;
};

// Runs that differ in their layout alone.
using Predictor = std::function<double(const PublishedRun&)>;
struct RankedRun {
  double predicted = 0, measured = 0;
  const PublishedRun* run = nullptr;
};
Choice choice_of(const std::string& group, const std::vector<RankedRun>& members) {
  const RankedRun& chosen = *std::ranges::min_element(members, {}, &RankedRun::predicted);
  const RankedRun& best = *std::ranges::min_element(members, {}, &RankedRun::measured);
  return {chosen.measured / best.measured - 1,      chosen.predicted / chosen.measured - 1,
          best.predicted / best.measured - 1,       group,
          layout_text(chosen.run->layouts.front()), layout_text(best.run->layouts.front())};
}

Ranking rank(const std::vector<PublishedRun>& runs, const Predictor& predicted,
             std::vector<Choice>* choices = nullptr) {
  std::map<std::string, std::vector<RankedRun>> groups;
  for (const PublishedRun& run : runs)
    groups[format("{} {} {} {} {} {} {}", run.source, run.cluster, run.model, run.layouts.front().dims.world_size(),
                  run.task.global_batch_size, run.task.sequence_length, run.precision)]
        .push_back({predicted(run), run.seconds, &run});
  Ranking r;
  for (const auto& [name, members] : groups) {
    if (members.size() < 2) continue;
    const Choice choice = choice_of(name, members);
    if (choices) choices->push_back(choice);
    ++r.groups, r.regret += choice.regret;
    for (std::size_t i = 0; i < members.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const RankedRun &a = members[i], &b = members[j];
        if (std::abs(a.measured / b.measured - 1) <= 0.04) continue;
        ++r.pairs;
        r.right += (a.predicted < b.predicted) == (a.measured < b.measured);
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

// Those groups whose choice costs most, and the share of all that they cost.
void print_choices(std::vector<Choice> choices) {
  constexpr std::size_t shown = 12;
  std::ranges::sort(choices, std::ranges::greater(), &Choice::regret);
  double all = 0, first = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    all += choices[i].regret;
    if (i >= shown) continue;
    first += choices[i].regret;
    const Choice& c = choices[i];
    std::printf("    %5.1f %%  %s: %s (predicted %+.0f %%) instead of %s (%+.0f %%)\n", 100 * c.regret, c.group.c_str(),
                c.chosen.c_str(), 100 * c.error_of_chosen, c.best.c_str(), 100 * c.error_of_best);
  }
  const auto right = std::ranges::count_if(choices, [](const Choice& c) { return c.regret < 0.005; });
  std::printf("    these are %.0f %% of what all choices cost; %lld of %zu are the best layout or as good\n",
              100 * first / all, static_cast<long long>(right), choices.size());
}

std::vector<PublishedRun> evenly(const std::vector<PublishedRun>& runs, std::size_t count) {
  std::vector<PublishedRun> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(runs[i * runs.size() / count]);
  return some;
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
  bool fit = false, left_out = false, rows = false, choices = false, gate_time = false;
};

// Each dense run by constants that were fitted without its source.
Result<Errors> leave_out(const ConstantTable& fitted, const FitRuns& runs) {
  std::printf("each source by constants that were fitted to all others\n");
  std::vector<std::string> sources;
  for (const PublishedRun& run : runs.dense)
    if (std::find(sources.begin(), sources.end(), source_of(run.source)) == sources.end())
      sources.push_back(source_of(run.source));
  std::map<std::string, TimeConstants> constants;
  const auto predicted = [&](const PublishedRun& run) {
    return predict(run, constants.at(source_of(run.source)), true);
  };
  for (const std::string& source : sources) {
    std::vector<PublishedRun> left;
    for (const PublishedRun& run : runs.dense)
      if (source_of(run.source) == source) left.push_back(run);
    ConstantTable table = fitted;
    LH_CHECK(fit_published(table, without_source(runs, source), 25));
    LH_TRY(constants[source], make_time_constants(table));
    print(source.c_str(), errors_of(left, predicted));
  }
  const Errors all = errors_of(runs.dense, predicted);
  print("all of them", all);
  return all;
}

Status measure(const Options& options) {
  LH_TRY(const std::string text, read_file(options.constants));
  LH_TRY(ConstantTable table, ConstantTable::parse(text, options.constants));
  LH_TRY(const FitRuns runs, read_fit_runs(options.data));
  LH_TRY(const auto one_node, read_vtrain(options.data + "/vtrain_single_node.csv", false));
  const Split models = split_by_model(one_node);
  if (options.fit || !options.write.empty()) {
    LH_TRY(const FitReport report, fit_published(table, runs, 60));
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
  const Errors dense = errors_of(runs.dense, model), experts = errors_of(runs.experts, model);
  const Errors one_fit = errors_of(models.fit, model), one_test = errors_of(models.test, model);
  print("dense pretraining (all in the fit)", dense);
  print("mixtures of experts (all in the fit)", experts);
  print("vTrain, one node, fit half", one_fit);
  print("vTrain, one node, test half", one_test);
  const double share = constant_share(runs.dense, constants), one_share = constant_share(models.fit, constants);
  print("one constant, dense pretraining",
        errors_of(runs.dense, [&](const PublishedRun& r) { return by_one_constant(r, constants, share); }));
  print("one constant, vTrain, one node, test half",
        errors_of(models.test, [&](const PublishedRun& r) { return by_one_constant(r, constants, one_share); }));
  if (options.rows) {
    print_rows(runs.dense, dense), print_rows(runs.experts, experts);
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
  std::vector<Choice> choices;
  const Ranking published_rank = rank(runs.dense, model), one_rank = rank(models.test, model, &choices);
  print_ranking("published", published_rank);
  print_ranking("vTrain, one node, test half", one_rank);
  if (options.choices) print_choices(std::move(choices));
  const MeasuredCorrection correction = correction_by(models.fit, constants);
  const Predictor corrected = [&](const PublishedRun& r) {
    return predict(r, constants, true) * correction.at(likeness_of(r.task, r.layouts.front())).factor;
  };
  for (const std::size_t few : {8U, 16U, 32U, 64U, 128U}) {
    const MeasuredCorrection some = correction_by(evenly(models.fit, few), constants);
    print_ranking(format("corrected by {} of the fit half's runs", few).c_str(),
                  rank(models.test, [&](const PublishedRun& r) {
                    return predict(r, constants, true) * some.at(likeness_of(r.task, r.layouts.front())).factor;
                  }));
  }
  const Ranking corrected_rank = rank(models.test, corrected);
  print_ranking("the same, corrected by the fit half's runs", corrected_rank);
  print("vTrain, one node, test half, corrected", errors_of(models.test, corrected));
  std::optional<Errors> left_out;
  if (options.left_out) {
    LH_TRY(left_out, leave_out(table, runs));
  }

  std::printf("bars\n");
  if (left_out) bar("dense pretraining, other sources: median error", left_out->median, 0.08);
  if (left_out) bar("dense pretraining, other sources: 90th percentile", left_out->p90, 0.20);
  bar("vTrain, one node, test half: mean error", one_test.mean, 0.08);
  const int groups = published_rank.groups + one_rank.groups, pairs = published_rank.pairs + one_rank.pairs;
  bar("ranking: mean regret of the chosen layout",
      (published_rank.regret * published_rank.groups + one_rank.regret * one_rank.groups) / std::max(1, groups), 0.03);
  bar("ranking: the same, corrected by runs of other models", corrected_rank.regret, 0.03);
  bar("ranking: pairs more than 4 % apart in the right order",
      static_cast<double>(published_rank.right + one_rank.right) / std::max(1, pairs), 0.90, false);
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
    else if (a == "--choices")
      options.choices = true;
    else
      return std::fprintf(stderr, "time_bars: unknown argument %s\n", a.c_str()), 2;
  }
  if (options.data.empty() || !longhaul::file_exists(options.data + "/throughput.csv"))
    return std::printf("skipped: no shared data\n"), 77;
  const auto done = longhaul::bench::measure(options);
  if (!done.ok()) return std::fprintf(stderr, "time_bars: %s\n", done.error().message().c_str()), 2;
  return (options.gate_time ? longhaul::bench::missed_of_time : longhaul::bench::missed) > 0 ? 1 : 0;
}

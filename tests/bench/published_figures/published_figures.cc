// What others published of their trainings beside what the time model says, in one table, each source by constants that
// were fitted without it. Nothing of figures.csv is in any fit.
//
//   published_figures [--data ../shared/data] [--calculon FILE] [--parts] [--gate]
//
// --data: throughput.csv and vtrain_single_node.csv, which the constants are fitted to; without them every row is
// predicted with the constants that ship, whose fit has seen some of the sources, and the program says so.
// --calculon: what calculon_rows.py wrote. Exit code 1 with --gate: a bar is missed.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include "../autotune/csv_table.h"
#include "../autotune/published_fit.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "figure_table.h"

namespace longhaul::bench {
namespace {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

struct Options {
  std::string data, calculon, constants = LONGHAUL_SOURCE_DIR "/autotune/constants.toml",
                              figures = LONGHAUL_SOURCE_DIR "/tests/bench/published_figures/figures.csv";
  bool parts = false, gate = false;
};

// A prediction beside what was published. `error`: of the step's time, relative, with sign.
struct Compared {
  std::string source;
  bool moe = false, assumed = false, ratio = false;
  double error = 0, sigma = 0;
};

void print_errors(const std::string& name, const std::vector<Compared>& some) {
  std::vector<double> sizes;
  double bias = 0;
  for (const Compared& one : some) sizes.push_back(std::abs(one.error)), bias += one.error;
  if (sizes.empty()) return;
  std::printf("  %-58s %4zu rows  median %5.1f %%  90th %5.1f %%  bias %+5.1f %%\n", name.c_str(), sizes.size(),
              100 * quantile(sizes, 0.5), 100 * quantile(sizes, 0.9), 100 * bias / static_cast<double>(sizes.size()));
}

template <class Choose>
std::vector<Compared> chosen(const std::vector<Compared>& all, const Choose& choose) {
  std::vector<Compared> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), choose);
  return some;
}

// Of each source by constants fitted without it; "" of a source that no fit has seen.
class HeldOutConstants {
 public:
  static Result<HeldOutConstants> make(const ConstantTable& table, const FitRuns* runs,
                                       const std::set<std::string>& sources) {
    HeldOutConstants all;
    for (const std::string& source : sources) {
      ConstantTable fitted = table;
      if (runs != nullptr) LH_CHECK(fit_published(fitted, without_source(*runs, source), 25));
      LH_TRY(TimeConstants constants, make_time_constants(fitted));
      all.constants_.emplace(source, std::move(constants));
    }
    return all;
  }
  const TimeConstants& of(const std::string& source) const { return constants_.at(source); }

 private:
  std::map<std::string, TimeConstants> constants_;
};

TrainingPlace place_of(const PublishedRun& run, const TimeConstants& constants) {
  const GpuType gpu = *constants.gpu_named(run.cluster);
  return {{gpu, 8, gpu.link_domain, gpu.nic_rate}, *constants.framework(run.framework), constants.common};
}

StepTime best_time(const PublishedRun& run, const TimeConstants& constants) {
  const TrainingPlace place = place_of(run, constants);
  std::optional<StepTime> best;
  for (const TrainingLayout& layout : run.layouts) {
    const auto time = step_time(run.task, layout, place);
    LH_ASSERT(time.ok(), run.to_string());
    if (!best || time->seconds() < best->seconds()) best = *time;
  }
  return *best;
}

std::string parts_text(const StepTime& time) {
  std::string text;
  for (int i = 0; i < step_parts; ++i) {
    const double share = time.parts[static_cast<std::size_t>(i)] / time.seconds();
    if (share >= 0.01) text += format(" {} {:.0f}%", to_string(static_cast<StepPart>(i)), 100 * share);
  }
  return text;
}

std::map<std::string, double> read_calculon(const std::string& path) {
  std::map<std::string, double> seconds;
  const auto csv = read_csv(path);
  if (!csv.ok()) return seconds;
  for (std::size_t i = 0; i < csv->rows.size(); ++i) {
    const CsvRow row = csv->row(i);
    if (row.number("seconds") > 0) seconds[row.text("id")] = row.number("seconds");
  }
  return seconds;
}

std::vector<Compared> print_figures(const std::vector<Figure>& figures, const HeldOutConstants& constants,
                                    const Options& options) {
  const auto others = options.calculon.empty() ? std::map<std::string, double>() : read_calculon(options.calculon);
  std::map<std::string, StepTime> times;
  for (const Figure& f : figures) times[f.id] = best_time(f.run, constants.of(f.run.source));
  std::vector<Compared> compared, ours, calculon;
  std::string document;
  std::printf("%-36s %12s %12s %7s %9s  %s\n", "row", "predicted", "published", "ratio", "Calculon", "unit");
  for (const Figure& f : figures) {
    if (f.document != document) std::printf("%s\n", (document = f.document).c_str());
    const StepTime& time = times.at(f.id);
    const double base = f.is_ratio() ? times.at(f.relative_to).seconds() : 1;
    const double here = f.in_unit(time.seconds(), base);
    const double ratio = f.is_ratio() ? here / f.value : time.seconds() / f.run.seconds;
    const auto other = others.find(f.id);
    const bool has_other = other != others.end() && !f.is_ratio();
    const std::string beside = has_other ? format("{:.2f}", other->second / f.run.seconds) : "";
    std::printf("  %-34s %12.4g %12.4g %7.2f %9s  %s%s%s%s\n", f.id.c_str(), here, f.value, ratio, beside.c_str(),
                to_string(f.unit), f.assumed ? "; layout assumed" : "", f.note.empty() ? "" : "; ", f.note.c_str());
    if (options.parts) std::printf("      %s\n", parts_text(time).c_str());
    if (!f.counts()) continue;
    compared.push_back({f.run.source, f.run.moe, f.assumed, f.is_ratio(), ratio - 1, time.sigma});
    if (has_other) ours.push_back(compared.back()), calculon.push_back(compared.back());
    if (has_other) calculon.back().error = other->second / f.run.seconds - 1;
  }
  std::printf("ratio: predicted over published time of a step\n\nerrors\n");
  std::set<std::string> sources;
  for (const Compared& one : compared) sources.insert(one.source);
  for (const std::string& source : sources)
    print_errors("  " + source, chosen(compared, [&](const Compared& c) { return c.source == source; }));
  if (!calculon.empty()) print_errors("rows that Calculon can be asked: Calculon", calculon);
  if (!calculon.empty()) print_errors("the same rows, this model", ours);
  return compared;
}

double log_error(const Compared& one) {
  return std::abs(std::log1p(one.error));
}

// The interval that holds 90 % of the errors of all *other* sources, tested on each source: as wide as somebody would
// have made it who had never seen that source. Mixtures of experts, and layouts that were assumed, have intervals of
// their own. Beside it that which ships, whose share of rows inside is returned.
double print_coverage(const std::vector<Compared>& all) {
  std::set<std::string> sources;
  for (const Compared& one : all) sources.insert(one.source);
  int inside = 0, shipped = 0;
  std::printf("\n90 %% intervals: of the other sources' errors, and that which ships\n");
  for (const std::string& source : sources) {
    int here = 0, here_shipped = 0, rows = 0;
    for (const Compared& one : all) {
      if (one.source != source) continue;
      std::vector<double> others;
      for (const Compared& other : all)
        if (other.source != source && other.moe == one.moe && other.assumed == one.assumed)
          others.push_back(log_error(other));
      ++rows, here += log_error(one) <= quantile(others, 0.9);
      here_shipped += log_error(one) <= std::log1p(1.645 * one.sigma);
    }
    std::printf("  %-40s %3d, %3d of %3d rows inside\n", source.c_str(), here, here_shipped, rows);
    inside += here, shipped += here_shipped;
  }
  const auto count = static_cast<double>(std::max<std::size_t>(1, all.size()));
  std::printf("  all: %.1f %%, that which ships %.1f %% of %zu rows inside\n", 100 * inside / count,
              100 * shipped / count, all.size());
  std::vector<double> dense, experts;
  for (const Compared& one : all) (one.moe ? experts : dense).push_back(log_error(one));
  std::printf("  a standard error whose 90 %% interval holds 90 %%: dense %.3f, experts %.3f\n",
              std::expm1(quantile(dense, 0.9)) / 1.645, std::expm1(quantile(experts, 0.9)) / 1.645);
  return shipped / count;
}

int missed = 0;
void bar(const char* what, double figure, double limit, bool at_most = true) {
  const bool met = at_most ? figure <= limit : figure >= limit;
  missed += !met;
  std::printf("  %-72s %6.1f %%   bar %s %.0f %%   %s\n", what, 100 * figure, at_most ? "<=" : ">=", 100 * limit,
              met ? "met" : "MISSED");
}

double error_quantile(const std::vector<Compared>& some, double q) {
  std::vector<double> sizes;
  for (const Compared& one : some) sizes.push_back(std::abs(one.error));
  return quantile(sizes, q);
}

std::vector<Compared> compare_runs(const std::vector<PublishedRun>& runs, const HeldOutConstants& constants) {
  std::vector<Compared> compared;
  for (const PublishedRun& run : runs) {
    const std::string source = source_of(run.source);
    const StepTime time = best_time(run, constants.of(source));
    compared.push_back({source, run.moe, run.layouts.size() > 1, false, time.seconds() / run.seconds - 1, time.sigma});
  }
  return compared;
}

Status measure(const Options& options) {
  LH_TRY(const std::string text, read_file(options.constants));
  LH_TRY(const ConstantTable table, ConstantTable::parse(text, options.constants));
  LH_TRY(const TimeConstants shipped, make_time_constants(table));
  LH_TRY(const std::vector<Figure> figures, read_figures(options.figures, shipped));
  std::set<std::string> sources;
  for (const Figure& f : figures) sources.insert(f.run.source);
  std::optional<FitRuns> runs;
  if (!options.data.empty()) {
    LH_TRY(runs, read_fit_runs(options.data));
    for (const PublishedRun& run : runs->dense) sources.insert(source_of(run.source));
    for (const PublishedRun& run : runs->experts) sources.insert(source_of(run.source));
  }
  LH_TRY(const HeldOutConstants constants, HeldOutConstants::make(table, runs ? &*runs : nullptr, sources));
  std::printf(runs ? "each source is predicted by constants that were fitted without it\n\n"
                   : "no data to fit to (--data): constants that ship, whose fit has seen some of these sources\n\n");
  const auto compared = print_figures(figures, constants, options);
  const auto stated = chosen(compared, [](const Compared& c) { return !c.assumed && !c.ratio; });
  print_errors("layout stated", stated);
  print_errors("layout assumed", chosen(compared, [](const Compared& c) { return c.assumed; }));
  print_errors("ratios of two runs", chosen(compared, [](const Compared& c) { return c.ratio; }));
  print_errors("all", compared);
  if (runs) {
    std::printf("\nthroughput.csv, each source by constants that were fitted without it\n");
    auto dense = compare_runs(runs->dense, constants);
    const auto experts = compare_runs(runs->experts, constants);
    for (const std::string& source : sources)
      print_errors("  " + source, chosen(dense, [&](const Compared& c) { return c.source == source; }));
    print_errors("dense", dense), print_errors("mixtures of experts", experts);
    auto all = compared;
    all.insert(all.end(), dense.begin(), dense.end()), all.insert(all.end(), experts.begin(), experts.end());
    const double inside = print_coverage(all);
    std::printf("bars, of rows that were not fitted\n");
    bar("published figures whose layout is stated: median", error_quantile(stated, 0.5), 0.08);
    bar("published figures whose layout is stated: 90th percentile", error_quantile(stated, 0.9), 0.20);
    bar("throughput.csv, dense: median", error_quantile(dense, 0.5), 0.08);
    bar("throughput.csv, dense: 90th percentile", error_quantile(dense, 0.9), 0.20);
    bar("rows inside the 90 % interval that ships", inside, 0.85, false);
  }
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
    else if (a == "--figures")
      options.figures = value();
    else if (a == "--calculon")
      options.calculon = value();
    else if (a == "--parts")
      options.parts = true;
    else if (a == "--gate")
      options.gate = true;
    else
      return std::fprintf(stderr, "published_figures: unknown argument %s\n", a.c_str()), 2;
  }
  if (options.gate && !longhaul::file_exists(options.data + "/throughput.csv"))
    return std::printf("skipped: no shared data\n"), 77;
  const auto done = longhaul::bench::measure(options);
  if (!done.ok()) return std::fprintf(stderr, "published_figures: %s\n", done.error().message().c_str()), 2;
  return options.gate && longhaul::bench::missed > 0 ? 1 : 0;
}

#include "published_fit.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text/text.h"

namespace longhaul::bench {

std::string source_of(const std::string& text) {
  static const std::vector<std::pair<std::string, std::string>> beginnings = {
      {"Megatron-Bridge", "Megatron-Bridge"},
      {"NeMo docs", "NeMo docs"},
      {"NeMo-Framework-Launcher", "NeMo launcher README"},
      {"Megatron-LM examples", "Megatron-LM examples/llama"},
      {"Megatron-LM README 2021", "SC21"},
      {"Megatron SC21", "SC21"},
      {"Megatron-LM README", "Megatron-LM README"},
      {"MT-NLG", "MT-NLG"},
      {"llm-foundry", "llm-foundry"},
      {"vTrain", "vTrain"},
  };
  for (const auto& [beginning, source] : beginnings)
    if (starts_with(text, beginning)) return source;
  return text;
}

Result<FitRuns> read_fit_runs(const std::string& data_folder) {
  LH_TRY(const auto published, read_throughput(data_folder + "/throughput.csv"));
  LH_TRY(const auto one_node, read_vtrain(data_folder + "/vtrain_single_node.csv", false));
  FitRuns runs;
  for (const PublishedRun& run : published) (run.moe ? runs.experts : runs.dense).push_back(run);
  runs.one_node = split_by_model(one_node).fit;
  return runs;
}

FitRuns without_source(const FitRuns& runs, const std::string& source) {
  FitRuns others;
  const auto keep = [&](const std::vector<PublishedRun>& from, std::vector<PublishedRun>& to) {
    std::copy_if(from.begin(), from.end(), std::back_inserter(to),
                 [&](const PublishedRun& run) { return source_of(run.source) != source; });
  };
  keep(runs.dense, others.dense), keep(runs.experts, others.experts), keep(runs.one_node, others.one_node);
  return others;
}

std::vector<TimedRun> timed_runs(const FitRuns& runs) {
  std::vector<TimedRun> timed;
  const auto add = [&](const std::vector<PublishedRun>& some, double weight) {
    for (const PublishedRun& run : some)
      timed.push_back({run.to_string(), run.seconds, weight,
                       [&run](const TimeConstants& constants) { return predict(run, constants, false); }});
  };
  add(runs.dense, 1);
  add(runs.experts, 0.2);
  add(runs.one_node,
      static_cast<double>(runs.dense.size()) / static_cast<double>(std::max<std::size_t>(1, runs.one_node.size())));
  return timed;
}

Result<FitReport> fit_published(ConstantTable& table, const FitRuns& runs, int iterations) {
  FitOptions options;
  options.iterations = iterations;
  std::vector<FitParameter> parameters;  // the constants that have start and spread written
  for (const Constant& c : table.constants())
    if (c.fitted) parameters.push_back({c.path, c.start, c.spread});
  return fit_constants(table, parameters, timed_runs(runs), options);
}

}  // namespace longhaul::bench

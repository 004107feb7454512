// Predicted speed of serving beside published figures, a row each; errors of the fit and the test half; what is right
// in the choice of tp; beside it a baseline that knows the memory's bandwidth alone. The groups of rows (source, model,
// GPU, weights), in the order of the file, go to fit and test in turn.
//
//   serving_bars [--data tests/bench/autotune/data/serving.csv] [--constants autotune/constants.toml]
//                [--fit] [--write FILE] [--gate]
//
// --fit fits the constants of [serving] on the fit half first, --write writes them; --gate ends with 1 where a bar is
// missed.
//
// What a row does not say: memory_reserve 0.05 (the publisher fills 0.95 of what is free with cache), at most 2,048
// slots and chunks of 8,192 tokens (defaults of TensorRT-LLM), all of which "saturated" takes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>

#include "autotune/inference/serving_search.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "csv_table.h"

namespace longhaul {
namespace {

struct PublishedServing {
  std::string source, model, gpu, kind, unit;
  ServingLayout layout;
  int batch = 0;  // requests at a time; 0: as many as fit
  std::int64_t prompt = 0, answer = 0;
  double value = 0;
  bool fit = false;
  std::string group() const { return source + "|" + model + "|" + gpu + "|" + to_string(layout.weights); }
};

ModelShape shape_named(const std::string& name) {
  struct Facts {
    const char* name;
    int hidden, inner, layers, heads, kv, vocabulary, experts;
  };
  static constexpr Facts all[] = {
      {"llama2-7b", 4096, 11008, 32, 32, 32, 32000, 0},      {"llama2-70b", 8192, 28672, 80, 64, 8, 32000, 0},
      {"llama3-8b", 4096, 14336, 32, 32, 8, 128256, 0},      {"llama3-70b", 8192, 28672, 80, 64, 8, 128256, 0},
      {"llama3-405b", 16384, 53248, 126, 128, 8, 128256, 0}, {"mixtral-8x7b", 4096, 14336, 32, 32, 8, 32000, 8},
  };
  for (const Facts& f : all) {
    if (name != f.name) continue;
    ModelShape s;
    s.hidden_size = f.hidden, s.intermediate_size = f.inner, s.num_hidden_layers = f.layers;
    s.num_attention_heads = f.heads, s.num_key_value_heads = f.kv, s.head_dim = 128, s.vocab_size = f.vocabulary;
    s.tie_word_embeddings = false, s.max_position_embeddings = 131072;
    if (f.experts > 0) s.architecture = "mixtral", s.num_local_experts = f.experts, s.moe_intermediate_size = f.inner;
    return s;
  }
  std::fprintf(stderr, "serving_bars: no model is called %s\n", name.c_str());
  std::exit(2);
}

Result<std::vector<PublishedServing>> read_serving(const std::string& path) {
  LH_TRY(const bench::CsvTable table, bench::read_csv(path));
  std::vector<PublishedServing> rows;
  std::vector<std::string> groups;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const bench::CsvRow cells = table.row(i);
    PublishedServing row;
    row.source = cells.text("source"), row.model = cells.text("model"), row.gpu = cells.text("gpu");
    row.kind = cells.text("kind"), row.unit = cells.text("unit");
    row.layout.tp = cells.whole("tp");
    LH_TRY(row.layout.weights, parse_weight_format(cells.text("weights")));
    LH_TRY(row.layout.cache, parse_cache_format(cells.text("cache")));
    row.layout.chunk = 8192, row.layout.block = 32;
    row.batch = cells.whole("batch"), row.prompt = cells.whole("prompt"), row.answer = cells.whole("answer");
    row.value = cells.number("value");
    if (std::find(groups.begin(), groups.end(), row.group()) == groups.end()) groups.push_back(row.group());
    row.fit = (std::find(groups.begin(), groups.end(), row.group()) - groups.begin()) % 2 == 0;
    rows.push_back(row);
  }
  return rows;
}

ServingPlace place_for(const PublishedServing& row, const TimeConstants& constants) {
  GpuType gpu = constants.gpu_named(row.gpu).value();
  // Data sheets say less than the driver does (nvidia-smi, MiB), and a server that barely fits lives of the difference.
  static const std::map<std::string, double> mebibytes = {
      {"A100", 81920}, {"H100", 81559}, {"H200", 143771}, {"B200", 183359}};
  gpu.memory = mebibytes.at(row.gpu) * 1048576;
  return {{gpu, 8, gpu.link_domain, gpu.nic_rate},
          constants.common,
          constants.serving,
          constants.framework("longhaul").value().attention_scale};
}

ServingTask task_for(const PublishedServing& row) {
  ServingTask task;
  task.prompt_tokens = row.prompt, task.answer_tokens = row.answer, task.gpus = row.layout.tp;
  task.slots_max = 2048, task.memory_reserve = 0.05;
  return task;
}

// Answers per second of a run of finitely many equal requests that all come at once (TensorRT-LLM's table says how many
// by lengths): the slots go round together, and the last round has only the rest.
double finite_run(const PublishedServing& row, const ModelShape& shape, const ServingTask& task,
                  const ServingLayout& layout, const ServingPlace& place) {
  static const std::map<std::pair<long, long>, int> counts = {
      {{128, 128}, 30000}, {{2048, 2048}, 1500}, {{5000, 500}, 1500}, {{20000, 2000}, 1000}};
  const auto found = counts.find({row.prompt, row.answer});
  const int requests = found == counts.end() ? 3000 : found->second, rest = requests % layout.slots;
  const auto rate = [&](int there) { return rates_at_concurrency(shape, task, layout, place, there).request_rate; };
  const double seconds = (requests - rest) / rate(layout.slots) + (rest > 0 ? rest / rate(rest) : 0);
  return requests / seconds * static_cast<double>(row.answer);
}

// Seconds of `batch` equal requests that begin together and of which none is added: static batching.
double static_batch_time(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place, int batch,
                         std::int64_t prompt, std::int64_t answer) {
  StepWork work;
  work.prefill = static_cast<double>(batch * prompt), work.prefill_before = static_cast<double>(prompt) / 2;
  work.ended_prompts = batch;
  double time = serving_step_time(shape, layout, place, work).total();
  // Linear in the context, so that the mean step times their number is their sum.
  work = {};
  work.decodes = batch, work.context = static_cast<double>(prompt) + static_cast<double>(answer) / 2;
  if (answer > 1) time += static_cast<double>(answer - 1) * serving_step_time(shape, layout, place, work).total();
  return time;
}

// In the row's unit; 0 where the model says that it does not fit.
double predict_serving(const PublishedServing& row, const TimeConstants& constants) {
  const ModelShape shape = shape_named(row.model);
  const ServingPlace place = place_for(row, constants);
  const ServingTask task = task_for(row);
  ServingLayout layout = row.layout;
  if (row.kind == "static" || row.kind == "first" || row.kind == "seconds") {
    const double seconds = static_batch_time(shape, layout, place, row.batch, row.prompt, row.answer);
    if (row.kind != "static") return seconds * 1e3;
    const double rate = row.batch * static_cast<double>(row.answer) / seconds;
    return row.unit == "tokens/s/GPU" ? rate / layout.tp : rate;
  }
  layout.slots = row.batch > 0 ? row.batch : slots_that_fit(shape, task, layout, place.cluster.gpu);
  if (layout.slots < 1) return 0;
  const ServingRates r = rates_at_concurrency(shape, task, layout, place, layout.slots);
  if (row.kind == "itl") return r.itl_mean * 1e3;
  if (row.kind == "ttft") return r.ttft_mean * 1e3;
  if (row.kind == "saturated" && row.source.find("TensorRT-LLM") != std::string::npos)
    return finite_run(row, shape, task, layout, place);
  return r.token_rate;
}

// A step takes as long as reading weights and cache does, prompts cost nothing, messages neither.
double baseline(const PublishedServing& row, const TimeConstants& constants) {
  const ModelShape shape = shape_named(row.model);
  const ServingPlace place = place_for(row, constants);
  const ServingTask task = task_for(row);
  ServingLayout layout = row.layout;
  layout.slots = row.batch > 0 ? row.batch : slots_that_fit(shape, task, layout, place.cluster.gpu);
  const ServingMemory memory = serving_memory(shape, task, layout, place.cluster.gpu);
  const double context = static_cast<double>(row.prompt) + static_cast<double>(row.answer) / 2;
  const double step = (memory.weights + layout.slots * context * memory.cache_token) / place.cluster.gpu.memory_rate;
  if (row.kind == "first" || row.kind == "itl" || row.kind == "ttft") return step * 1e3;
  if (row.kind == "seconds") return step * static_cast<double>(row.answer) * 1e3;
  const double rate = layout.slots / step;
  return row.unit == "tokens/s/GPU" ? rate / layout.tp : rate;
}

struct Errors {
  std::vector<double> all;
  void add(double predicted, double measured) { all.push_back(predicted > 0 ? std::abs(predicted / measured - 1) : 1); }
  double mean() const { return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()); }
  double share(double part) const {
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
  }
};

struct Fitted {
  const char* path;
  double start, spread;  // what was believed before: the value, and the standard deviation of its logarithm
};
constexpr std::array<Fitted, 4> fitted = {{{"serving.message_latency", 10, 0.6},
                                           {"serving.step_cost", 500, 0.8},
                                           {"serving.sequence_cost", 5, 0.8},
                                           {"serving.unpack_share", 0.6, 0.4}}};

double misfit(ConstantTable& table, const std::vector<PublishedServing>& rows, const std::array<double, 4>& x) {
  for (std::size_t i = 0; i < fitted.size(); ++i)
    if (!table.set(fitted[i].path, fitted[i].start * std::exp(x[i]), "fit").ok()) std::exit(2);
  const TimeConstants constants = make_time_constants(table).value();
  double sum = 0;
  for (const PublishedServing& row : rows) {
    const double predicted = row.fit ? predict_serving(row, constants) : 0;
    if (predicted <= 0) continue;
    const double error = std::log(predicted / row.value) / 0.1;  // beyond a tenth, errors count ever less
    sum += 2 * (std::sqrt(1 + error * error) - 1);
  }
  for (std::size_t i = 0; i < fitted.size(); ++i) sum += x[i] * x[i] / (fitted[i].spread * fitted[i].spread);
  return sum;
}

// Pattern search (Hooke & Jeeves 1961): four constants do not need more.
void fit_serving(ConstantTable& table, const std::vector<PublishedServing>& rows) {
  std::array<double, 4> x{};
  double best = misfit(table, rows, x);
  for (double step = 0.5; step > 0.005;) {
    bool better = false;
    for (double& one : x) {
      for (const double by : {step, -step}) {
        one += by;
        const double now = misfit(table, rows, x);
        if (now < best) {
          best = now, better = true;
          break;
        }
        one -= by;
      }
    }
    if (!better) step /= 2;
  }
  misfit(table, rows, x);  // leaves the best in the table
}

void print_rows(const std::vector<PublishedServing>& rows, const TimeConstants& constants) {
  std::printf("%-4s %-12s %-5s %2s %-5s %-9s %5s %11s %12s %12s %6s %9s\n", "part", "model", "GPU", "tp", "wts", "kind",
              "batch", "lengths", "published", "predicted", "ratio", "bandwidth");
  for (const PublishedServing& row : rows) {
    const double predicted = predict_serving(row, constants), plain = baseline(row, constants);
    std::printf("%-4s %-12s %-5s %2d %-5s %-9s %5d %5ld/%-5ld %12.1f %12.1f %6.2f %9.2f\n", row.fit ? "fit" : "test",
                row.model.c_str(), row.gpu.c_str(), row.layout.tp, to_string(row.layout.weights), row.kind.c_str(),
                row.batch, static_cast<long>(row.prompt), static_cast<long>(row.answer), row.value, predicted,
                predicted / row.value, plain / row.value);
  }
}

struct Ranking {
  int groups = 0, pairs = 0, right = 0;
  double regret = 0;  // sum of shares by which the chosen tp is behind the best
};

// Rows that differ in tp alone: of the most tokens/s per GPU the choice, and of each pair that differs by more than 4 %
// the order.
Ranking rank_tp(const std::vector<PublishedServing>& rows, const std::vector<double>& predicted) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].kind == "saturated")
      groups[rows[i].group() + format("{}/{}", rows[i].prompt, rows[i].answer)].push_back(i);
  Ranking r;
  for (const auto& [name, members] : groups) {
    if (members.size() < 2) continue;
    ++r.groups;
    const auto measured = [&](std::size_t i) { return rows[i].value / rows[i].layout.tp; };
    const auto guess = [&](std::size_t i) { return predicted[i] / rows[i].layout.tp; };
    std::size_t chosen = members[0], best = members[0];
    for (const std::size_t i : members) {
      if (guess(i) > guess(chosen)) chosen = i;
      if (measured(i) > measured(best)) best = i;
      for (const std::size_t j : members) {
        if (measured(i) <= 1.04 * measured(j)) continue;
        ++r.pairs;
        if (guess(i) > guess(j)) ++r.right;
      }
    }
    r.regret += 1 - measured(chosen) / measured(best);
  }
  return r;
}

int run(int argc, char** argv) {
  std::string data = "tests/bench/autotune/data/serving.csv", path = "autotune/constants.toml", write;
  bool fit = false, gate = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--fit")
      fit = true;
    else if (flag == "--gate")
      gate = true;
    else if (i + 1 < argc && flag == "--data")
      data = argv[++i];
    else if (i + 1 < argc && flag == "--constants")
      path = argv[++i];
    else if (i + 1 < argc && flag == "--write")
      write = argv[++i];
    else
      return std::fprintf(stderr, "serving_bars: unknown argument %s\n", flag.c_str()), 2;
  }
  const auto read = read_serving(data);
  if (!read.ok()) {
    std::fprintf(stderr, "serving_bars: %s\n", read.error().message().c_str());
    return 2;
  }
  const std::vector<PublishedServing>& rows = *read;
  if (rows.empty()) return std::fprintf(stderr, "serving_bars: no rows in %s\n", data.c_str()), 2;
  ConstantTable table = ConstantTable::parse(read_file(path).value(), path).value();
  if (fit) fit_serving(table, rows);
  const TimeConstants constants = make_time_constants(table).value();
  print_rows(rows, constants);

  Errors halves[2], plain[2];
  std::vector<double> predicted, bandwidth;
  for (const PublishedServing& row : rows) {
    predicted.push_back(predict_serving(row, constants)), bandwidth.push_back(baseline(row, constants));
    halves[row.fit ? 0 : 1].add(predicted.back(), row.value), plain[row.fit ? 0 : 1].add(bandwidth.back(), row.value);
  }
  for (int i = 0; i < 2; ++i)
    std::printf(
        "%s: %zu rows, error median %.1f %%, mean %.1f %%, 90th percentile %.1f %%; bandwidth alone: median %.1f %%, "
        "mean %.1f %%\n",
        i == 0 ? "fit " : "test", halves[i].all.size(), 100 * halves[i].share(0.5), 100 * halves[i].mean(),
        100 * halves[i].share(0.9), 100 * plain[i].share(0.5), 100 * plain[i].mean());
  for (const auto& [name, guess] : {std::pair{"this model", predicted}, std::pair{"bandwidth alone", bandwidth}}) {
    const Ranking r = rank_tp(rows, guess);
    std::printf(
        "tp by tokens/s of a GPU, %s: %d groups, chosen %.1f %% behind the best on average, %d of %d pairs right\n",
        name, r.groups, 100 * r.regret / r.groups, r.right, r.pairs);
  }
  for (const Fitted& f : fitted)
    std::printf("%s = %.4g %s\n", f.path, table.find(f.path)->value, table.find(f.path)->unit.c_str());
  if (!write.empty()) {
    for (const Fitted& f : fitted) {
      const double value = std::atof(format("{:.4g}", table.find(f.path)->value).c_str());
      if (!table.set(f.path, value, "fit of tests/bench/autotune/serving_bars to published servers").ok()) return 2;
    }
    if (!write_file_atomic(write, table.to_toml()).ok()) return 2;
  }
  // Of the half that is in no fit, how many lie inside the 90 % interval that forecasts carry.
  int inside = 0, held_out = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!rows[i].fit)
      ++held_out, inside +=
                  std::abs(std::log(predicted[i] / rows[i].value)) <= std::log1p(1.645 * constants.serving.spread_seen);
  const double covered = static_cast<double>(inside) / std::max(1, held_out);
  std::printf("bar: of the test half %.1f %% of %d rows inside the 90 %% interval >= 85 %%\n", 100 * covered, held_out);
  const double bar = 0.25;
  std::printf("bar: median error of the test half %.1f %% <= %.0f %%\n", 100 * halves[1].share(0.5), 100 * bar);
  return gate && (halves[1].share(0.5) > bar || covered < 0.85) ? 1 : 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  return longhaul::run(argc, argv);
}

// Planned memory beside published peaks of other frameworks, a row each with its error and the bar of 10 %, and how
// many layouts one core asks in a second. Ends with 1 where a bar is missed.
//
//   framework_memory_bench [data/published_peaks.csv]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "autotune/memory/memory_profiles.h"
#include "base/text.h"

namespace longhaul {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.emplace_back();
    else
      cells.back() += c;
  }
  return cells;
}

std::vector<Row> read_rows(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::vector<Row> rows;
  if (!std::getline(file, line)) return rows;
  const std::vector<std::string> names = cells_of(line);
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    Row row;
    for (std::size_t i = 0; i < names.size() && i < cells.size(); ++i) row[names[i]] = cells[i];
    rows.push_back(row);
  }
  return rows;
}

int number(const Row& row, const char* name) {
  return std::atoi(row.at(name).c_str());
}

FrameworkModel model_of(const Row& row) {
  const bool gated = number(row, "gated") == 1, biases = number(row, "biases") == 1;
  FrameworkModel m;
  m.layers = number(row, "layers"), m.hidden = number(row, "hidden"), m.vocab = number(row, "vocab");
  m.heads = number(row, "heads");
  m.q = m.hidden, m.kv = m.hidden / m.heads * number(row, "kv_heads");
  m.experts = number(row, "experts"), m.top_k = number(row, "top_k");
  const std::int64_t ffn = number(row, "ffn");
  if (m.experts > 0)
    m.expert_ffn = ffn;
  else
    m.ffn = ffn, m.mlp = gated ? 2 * ffn : ffn;
  m.positions = number(row, "positions"), m.tied = number(row, "tied") == 1;
  m.layer_vectors = 2 * m.hidden, m.final_vectors = m.hidden;
  if (biases) m.layer_vectors = 6 * m.hidden + m.q + 2 * m.kv + ffn, m.final_vectors = 2 * m.hidden;
  return m;
}

FrameworkTraining training_of(const Row& row) {
  FrameworkTraining t;
  ParallelDims& d = t.dims;
  d.tp = number(row, "tp"), d.sp = number(row, "sp") == 1, d.cp = number(row, "cp"), d.pp = number(row, "pp");
  d.vp = number(row, "vp"), d.ep = number(row, "ep"), d.etp = number(row, "etp");
  d.dp_replicate = number(row, "dp_replicate"), d.dp_shard = number(row, "dp_shard"), d.zero = number(row, "zero");
  t.schedule = d.vp > 1 ? PipelineKind::interleaved : PipelineKind::one_f_one_b;
  t.micro_batches = number(row, "micro_batches"), t.micro_batch_size = number(row, "mbs");
  t.sequence_length = number(row, "seq");
  t.fp8 = row.at("precision") == "fp8", t.dropout = number(row, "dropout") == 1;
  RecomputeSettings again;
  std::istringstream words(row.at("recompute"));
  for (std::string word; std::getline(words, word, '+');)
    if (word != "every-second-product") again.modules.push_back(word);
  t.recompute = recompute_from(again).value();
  return t;
}

std::string text_of(const FrameworkMemory& m) {
  return format(
      "weights {:.1f} gradients {:.1f} optimizer {:.1f} activations {:.1f} logits {:.1f} transient {:.1f} "
      "step {:.1f} messages {:.1f}",
      m.weights / 1e9, m.gradients / 1e9, m.optimizer / 1e9, m.activations / 1e9, m.logits / 1e9, m.transient / 1e9,
      m.step / 1e9, m.communication / 1e9);
}

// Rows within the bar of all rows that count.
bool compare(const std::vector<Row>& rows) {
  int counted = 0, within = 0;
  double sum = 0;
  std::printf("%-28s %-32s %9s %9s %7s  %s\n", "training", "layout", "published", "planned", "error", "GB");
  for (const Row& row : rows) {
    MemoryProfile profile = memory_profile(row.at("profile")).value();
    profile.every_second_product = row.at("recompute") == "every-second-product";
    const FrameworkModel model = model_of(row);
    const FrameworkTraining training = training_of(row);
    const FrameworkMemory planned = row.at("rank") == "last"
                                        ? stage_memory(profile, model, training, training.dims.pp - 1)
                                        : worst_stage_memory(profile, model, training).memory;
    const double published = std::atof(row.at("peak_gb").c_str());
    const double here = (row.at("measured") == "reserved" ? planned.reserved() : planned.allocated()) / 1e9;
    const double error = here / published - 1;
    ++counted, within += std::abs(error) <= 0.10, sum += std::abs(error);
    std::printf("%-28s %-32s %9.2f %9.2f %+6.1f%% %s %s\n", (row.at("run") + ", " + row.at("gpu")).c_str(),
                training.dims.to_string().c_str(), published, here, 100 * error, std::abs(error) <= 0.10 ? " " : "!",
                text_of(planned).c_str());
  }
  std::printf("%d of %d rows within 10 %%, mean error %.1f %%\n", within, counted, 100 * sum / std::max(1, counted));
  return counted > 0 && within == counted;
}

double calls_per_second(const std::vector<Row>& rows) {
  using Clock = std::chrono::steady_clock;
  const MemoryProfile profile = megatron_memory();
  std::vector<std::pair<FrameworkModel, FrameworkTraining>> asked;
  for (const Row& row : rows) asked.emplace_back(model_of(row), training_of(row));
  double sum = 0;
  std::int64_t calls = 0;
  const auto begin = Clock::now();
  std::chrono::duration<double> spent{0};
  while (spent.count() < 0.5) {
    for (int i = 0; i < 1000; ++i)
      for (const auto& [model, training] : asked) sum += worst_stage_memory(profile, model, training).memory.total();
    calls += 1000 * std::ssize(asked);
    spent = Clock::now() - begin;
  }
  return sum > 0 ? static_cast<double>(calls) / spent.count() : 0;
}

int run(const std::string& path) {
  const std::vector<Row> rows = read_rows(path);
  if (rows.empty()) {
    std::fprintf(stderr, "%s: no rows\n", path.c_str());
    return 1;
  }
  const bool within = compare(rows);
  const double rate = calls_per_second(rows);
  std::printf("%.2f million layouts a second on one core (bar: 1 million)\n", rate / 1e6);
  return within && rate >= 1e6 ? 0 : 1;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  return longhaul::run(argc > 1 ? argv[1] : LONGHAUL_SOURCE_DIR "/tests/bench/autotune/data/published_peaks.csv");
}

// Planned memory beside published peaks of other frameworks, a row each with its error and the bar of 10 %, and how
// many layouts one core asks in a second. Ends with 1 where a bar is missed.
//
//   framework_memory_bench [data/published_peaks.csv]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "autotune/memory/memory_profiles.h"
#include "base/text/text.h"
#include "csv_table.h"

namespace longhaul {
namespace {

using bench::CsvRow;
using bench::CsvTable;

FrameworkModel model_of(const CsvRow& row) {
  const bool gated = row.whole("gated") == 1, biases = row.whole("biases") == 1;
  FrameworkModel m;
  m.layers = row.whole("layers"), m.hidden = row.whole("hidden"), m.vocab = row.whole("vocab");
  m.heads = row.whole("heads");
  m.q = m.hidden, m.kv = m.hidden / m.heads * row.whole("kv_heads");
  m.experts = row.whole("experts"), m.top_k = row.whole("top_k");
  const std::int64_t ffn = row.whole("ffn");
  if (m.experts > 0)
    m.expert_ffn = ffn;
  else
    m.ffn = ffn, m.mlp = gated ? 2 * ffn : ffn;
  m.positions = row.whole("positions"), m.tied = row.whole("tied") == 1;
  m.layer_vectors = 2 * m.hidden, m.final_vectors = m.hidden;
  if (biases) m.layer_vectors = 6 * m.hidden + m.q + 2 * m.kv + ffn, m.final_vectors = 2 * m.hidden;
  return m;
}

FrameworkTraining training_of(const CsvRow& row) {
  FrameworkTraining t;
  ParallelDims& d = t.dims;
  d.tp = row.whole("tp"), d.sp = row.whole("sp") == 1, d.cp = row.whole("cp"), d.pp = row.whole("pp");
  d.vp = row.whole("vp"), d.ep = row.whole("ep"), d.etp = row.whole("etp");
  d.dp_replicate = row.whole("dp_replicate"), d.dp_shard = row.whole("dp_shard"), d.zero = row.whole("zero");
  t.schedule = d.vp > 1 ? PipelineKind::interleaved : PipelineKind::one_f_one_b;
  t.micro_batches = row.whole("micro_batches"), t.micro_batch_size = row.whole("mbs");
  t.sequence_length = row.whole("seq");
  t.fp8 = row.text("precision") == "fp8", t.dropout = row.whole("dropout") == 1;
  RecomputeSettings again;
  std::istringstream words(row.text("recompute"));
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
bool compare(const CsvTable& rows) {
  int counted = 0, within = 0;
  double sum = 0;
  std::printf("%-28s %-32s %9s %9s %7s  %s\n", "training", "layout", "published", "planned", "error", "GB");
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    const CsvRow row = rows.row(i);
    MemoryProfile profile = memory_profile(row.text("profile")).value();
    profile.every_second_product = row.text("recompute") == "every-second-product";
    const FrameworkModel model = model_of(row);
    const FrameworkTraining training = training_of(row);
    const FrameworkMemory planned = row.text("rank") == "last"
                                        ? stage_memory(profile, model, training, training.dims.pp - 1)
                                        : worst_stage_memory(profile, model, training).memory;
    const double published = row.number("peak_gb");
    const double here = (row.text("measured") == "reserved" ? planned.reserved() : planned.allocated()) / 1e9;
    const double error = here / published - 1;
    ++counted, within += std::abs(error) <= 0.10, sum += std::abs(error);
    std::printf("%-28s %-32s %9.2f %9.2f %+6.1f%% %s %s\n", (row.text("run") + ", " + row.text("gpu")).c_str(),
                training.dims.to_string().c_str(), published, here, 100 * error, std::abs(error) <= 0.10 ? " " : "!",
                text_of(planned).c_str());
  }
  std::printf("%d of %d rows within 10 %%, mean error %.1f %%\n", within, counted, 100 * sum / std::max(1, counted));
  return counted > 0 && within == counted;
}

double calls_per_second(const CsvTable& rows) {
  using Clock = std::chrono::steady_clock;
  const MemoryProfile profile = megatron_memory();
  std::vector<std::pair<FrameworkModel, FrameworkTraining>> asked;
  for (std::size_t i = 0; i < rows.rows.size(); ++i)
    asked.emplace_back(model_of(rows.row(i)), training_of(rows.row(i)));
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
  const auto rows = bench::read_csv(path);
  if (!rows.ok()) {
    std::fprintf(stderr, "%s\n", rows.error().message().c_str());
    return 1;
  }
  const bool within = compare(*rows);
  const double rate = calls_per_second(*rows);
  std::printf("%.2f million layouts a second on one core (bar: 1 million)\n", rate / 1e6);
  return within && rate >= 1e6 ? 0 : 1;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  return longhaul::run(argc > 1 ? argv[1] : LONGHAUL_SOURCE_DIR "/tests/bench/autotune/data/published_peaks.csv");
}

#include "autotune/search/layout_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "autotune/search/tuning_forecast.h"
#include "contracts/plan/layout_check.h"

namespace longhaul {
namespace {

namespace layout_search_test {

const TimeConstants& constants() {
  static const TimeConstants all =
      read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  return all;
}

SearchRequest question(const std::string& gpu_name, int gpus, int layers, int heads, std::int64_t batch) {
  const GpuType gpu = constants().gpu_named(gpu_name).value();
  SearchRequest q;
  q.place = {{gpu, 8, gpu.link_domain, gpu.nic_rate}, constants().framework("longhaul").value(), constants().common};
  q.memory = memory_profile("longhaul").value(), q.memory_limit = gpu.memory * 0.94, q.space.gpus = gpus;
  ModelShape& s = q.task.shape;
  s.num_hidden_layers = layers, s.num_attention_heads = heads, s.num_key_value_heads = 8, s.head_dim = 128;
  s.hidden_size = heads * 128, s.intermediate_size = s.hidden_size * 7 / 2, s.vocab_size = 128256;
  s.tie_word_embeddings = false;
  q.task.sequence_length = 4096, q.task.global_batch_size = batch;
  return q;
}

double fastest_of_all(const SearchRequest& q) {
  const auto correction = correction_of(q);
  const FrameworkModel model = framework_model(q.task.shape);
  const auto families = layout_families(q.space, q.task, q.place.cluster).value();
  double best = 1e300;
  for (const LayoutFamily& family : families)
    for_each_layout(family, q.space, q.task, q.place.cluster, [&](const TrainingLayout& l) {
      if (worst_stage_memory(q.memory, model, framework_training(q.task, l)).memory.total() > q.memory_limit) return;
      const auto time = step_time(q.task, l, q.place);
      if (!time.ok()) return;
      best = std::min(best, time->seconds() * (correction ? correction->at(likeness_of(q.task, l)).factor : 1));
    });
  return best;
}

TEST_CASE("the winner is the one that simulating everything finds, with any number of threads") {
  SearchRequest q = question("A100", 8, 24, 16, 64);
  const auto one = search_layouts(q);
  REQUIRE_MESSAGE(one.ok(), one.error().message());
  CHECK(one->best.front().seconds() == doctest::Approx(fastest_of_all(q)).epsilon(1e-9));
  CHECK(one->simulated < one->fitting / 20);
  for (std::size_t i = 1; i < one->best.size(); ++i) CHECK(one->best[i - 1].seconds() <= one->best[i].seconds());
  q.threads = 1;
  const auto alone = search_layouts(q);
  REQUIRE(alone->best.size() == one->best.size());
  for (std::size_t i = 0; i < one->best.size(); ++i)
    CHECK(layout_text(one->best[i].layout) == layout_text(alone->best[i].layout));
}

TEST_CASE("what was measured in the same place corrects times and their order, and pruning loses nothing by it") {
  SearchRequest q = question("A100", 8, 24, 16, 64);
  const auto before = search_layouts(q).value();
  const RankedLayout& first = before.best.front();
  const auto other = std::find_if(before.best.begin(), before.best.end(), [&](const RankedLayout& one) {
    return likeness_of(q.task, one.layout).kind != likeness_of(q.task, first.layout).kind;
  });
  REQUIRE(other != before.best.end());
  // All takes twice as long as predicted, and likes of the first one another tenth.
  q.measured = {{likeness_of(q.task, first.layout), std::log(2.2)},
                {likeness_of(q.task, other->layout), std::log(2.0)}};
  const auto after = search_layouts(q).value();
  CHECK(after.best.front().seconds() == doctest::Approx(fastest_of_all(q)).epsilon(1e-9));
  CHECK(after.best.front().seconds() > 1.8 * first.seconds());
  const auto place_of = [](const SearchOutcome& outcome, const RankedLayout& wanted) {
    const auto at = std::find_if(outcome.best.begin(), outcome.best.end(), [&](const RankedLayout& one) {
      return layout_text(one.layout) == layout_text(wanted.layout);
    });
    return at - outcome.best.begin();
  };
  CHECK(place_of(after, first) > 0);
  CHECK(after.best.front().time.correction == doctest::Approx(2).epsilon(0.1));
  CHECK(after.best.front().time.sigma < first.time.sigma);
  const LayoutForecast shown = forecast_layout(q, after.best.front().layout, "shown").value();
  CHECK(shown.seconds() == doctest::Approx(after.best.front().seconds()));
}

TEST_CASE("every layout that is searched is one that the engine accepts") {
  SearchRequest q = question("H100", 24, 30, 24, 48);
  q.task.shape.architecture = "mixtral", q.task.shape.num_local_experts = 8;
  q.task.shape.moe_intermediate_size = q.task.shape.intermediate_size;
  const auto families = layout_families(q.space, q.task, q.place.cluster).value();
  std::int64_t seen = 0;
  for (std::size_t f = 0; f < families.size(); f += 7)
    for_each_layout(families[f], q.space, q.task, q.place.cluster, [&](const TrainingLayout& l) {
      ++seen;
      LayoutCheckInput input{q.task.shape, l.dims, l.micro_batch_size, q.task.sequence_length, "ring"};
      const auto problems = layout_problems(input);
      CHECK_MESSAGE(problems.empty(), layout_text(l) << ": " << (problems.empty() ? "" : problems.front().what));
      CHECK_MESSAGE(resolve_dims(l.dims, q.space.gpus).ok(), layout_text(l));
      CHECK(l.micro_batches(q.task) >= 1);
    });
  CHECK(seen > 1000);
}

TEST_CASE("no layout is visited twice") {
  SearchRequest q = question("A100", 2, 4, 8, 16);
  q.space.tp = {1}, q.space.cp = {1};
  const auto families = layout_families(q.space, q.task, q.place.cluster).value();
  std::set<std::string> seen;
  for (const LayoutFamily& family : families)
    for_each_layout(family, q.space, q.task, q.place.cluster, [&](const TrainingLayout& l) {
      const std::string text = layout_text(l) + std::to_string(l.dims.dp_shard);
      CHECK_MESSAGE(seen.insert(text).second, text);
    });
  CHECK(seen.size() > 100);
}

TEST_CASE("nothing on the front is slower and larger than another, and all fit") {
  const auto found = search_layouts(question("A100", 16, 32, 32, 64)).value();
  REQUIRE(found.pareto.size() > 2);
  for (std::size_t i = 1; i < found.pareto.size(); ++i) {
    CHECK(found.pareto[i].seconds() >= found.pareto[i - 1].seconds());
    CHECK(found.pareto[i].memory.total() < found.pareto[i - 1].memory.total());
  }
}

TEST_CASE("each famous alternative has a verdict") {
  const auto found = search_layouts(question("H100", 64, 32, 32, 256)).value();
  bool winner = false;
  for (const Alternative& a : found.alternatives) {
    CHECK(!a.verdict.empty());
    winner = winner || a.verdict == "is the winner";
    if (a.fastest) CHECK(a.fastest->seconds() >= found.best.front().seconds());
  }
  CHECK(winner);
}

TEST_CASE("a model that fits nowhere says by how much, and what would make it fit") {
  SearchRequest q = question("A100-40GB", 1, 80, 64, 16);
  const auto found = search_layouts(q);
  REQUIRE(!found.ok());
  const std::string message = found.error().message();
  CHECK_MESSAGE(message.find("too much") != std::string::npos, message);
  CHECK_MESSAGE(message.find("GPUs with") != std::string::npos, message);
  // What it says is true: on so many GPUs it fits, and on GPUs with so much memory.
  const std::size_t more = message.find("fit with ");
  REQUIRE_MESSAGE(more != std::string::npos, message);
  SearchRequest wider = q;
  wider.space.gpus = std::atoi(message.c_str() + more + 9);
  REQUIRE_MESSAGE(wider.space.gpus > 1, message);
  CHECK_MESSAGE(search_layouts(wider).ok(), message);
  wider.space.gpus /= 2;
  CHECK_MESSAGE(!search_layouts(wider).ok(), message);
  q.memory_limit *= 40;
  CHECK(search_layouts(q).ok());
}

TEST_CASE("constraints that cannot be are refused together, with what they do not divide") {
  SearchRequest q = question("H100", 64, 32, 32, 256);
  q.space.tp = {3}, q.space.micro_batch_size = {7}, q.space.ep = {2};
  const auto found = search_layouts(q);
  REQUIRE(!found.ok());
  for (const char* part :
       {"tp = 3", "32 attention heads", "micro_batch_size = 7", "global_batch_size 256", "no experts"})
    CHECK_MESSAGE(found.error().message().find(part) != std::string::npos, part);
  SearchRequest odd = question("H100", 64, 32, 32, 63);
  odd.space.pp = {1}, odd.space.tp = {1}, odd.space.cp = {1};
  const auto none = search_layouts(odd);
  REQUIRE(!none.ok());
  CHECK(none.error().message().find("global_batch_size 63") != std::string::npos);
}

TEST_CASE("what is held fixed stays fixed") {
  SearchRequest q = question("H100", 64, 32, 32, 256);
  q.space.tp = {4}, q.space.pp = {2}, q.space.zero = {1}, q.space.recompute = false, q.space.offload = false;
  const auto found = search_layouts(q).value();
  for (const RankedLayout& r : found.best) {
    CHECK(r.layout.dims.tp == 4);
    CHECK(r.layout.dims.pp == 2);
    CHECK(r.layout.dims.zero == 1);
    CHECK(!r.layout.recompute.any());
    CHECK(!r.layout.offload_moments);
  }
}

}  // namespace layout_search_test
}  // namespace
}  // namespace longhaul

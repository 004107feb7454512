#include "autotune/search/training_size.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/support/seed.h"

namespace longhaul {
namespace {

namespace training_size_test {

const TimeConstants& constants() {
  static const TimeConstants all =
      read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  return all;
}

SizeRequest on_h100() {
  SizeRequest q;
  const GpuType gpu = constants().gpu_named("H100").value();
  SearchRequest& where = q.where.emplace();
  where.place = {{gpu, 8, 8, gpu.nic_rate}, constants().framework("longhaul").value(), constants().common};
  where.memory = memory_profile("longhaul").value(), where.memory_limit = 78e9;
  q.gpus_per_node = 8, q.wish.sequence_length = 4096;
  return q;
}

double needed(const SizeAnswer& a) {
  const hyper::TrainingBudget& b = a.budget;
  return 6 * b.parameters * b.tokens / (b.days * 86'400 * b.gpus * b.tflops * 1e12);
}

TEST_CASE("whatever is open, the five fit each other, and the parameters are those of the shape") {
  struct Case {
    const char* open;
    hyper::TrainingBudget given;
  };
  const Case cases[] = {{"parameters", {0, 1e12, 30, 256, 400}}, {"tokens", {8e9, 0, 30, 256, 400}},
                        {"days", {8e9, 1e12, 0, 256, 400}},      {"gpus", {8e9, 1e12, 30, 0, 400}},
                        {"tflops", {8e9, 1e12, 30, 256, 0}},     {"parameters and tokens", {0, 0, 30, 256, 400}}};
  for (const Case& one : cases) {
    CAPTURE(one.open);
    SizeRequest q;
    q.given = one.given;
    const auto a = size_training(q);
    REQUIRE_MESSAGE(a.ok(), a.error().message());
    CHECK(a->found == one.open);
    CHECK(needed(*a) == doctest::Approx(1));
    CHECK(a->budget.parameters == static_cast<double>(a->task.shape.parameter_count()));
    CHECK(std::fabs(a->shape.deviation) <= 0.02);
    CHECK(a->loss >= a->least_loss.loss - 1e-6);
    CHECK(!a->layout);  // nobody said which GPU
    CHECK(static_cast<double>(a->steps * a->task.global_batch_size * a->task.sequence_length) >=
          a->budget.tokens * (1 - 1e-9));
  }
}

TEST_CASE("without a rate it is the forecast's for that very shape: the loop is closed") {
  SizeRequest q = on_h100();
  q.given.days = 20, q.given.gpus = 16;
  const auto a = size_training(q);
  REQUIRE_MESSAGE(a.ok(), a.error().message());
  CHECK(a->rate == RateSource::forecast);
  CHECK(a->found == "parameters and tokens");
  REQUIRE(a->layout);
  CHECK(a->layout->layout.dims.world_size() == 16);
  CHECK(needed(*a) == doctest::Approx(1));
  // Asked again from outside: step time of the layout, tokens of a step.
  const double tokens = static_cast<double>(a->task.global_batch_size * a->task.sequence_length);
  const double days = a->budget.tokens / tokens * a->layout->seconds() / 86'400;
  CHECK(days == doctest::Approx(20).epsilon(0.03));
  CHECK(a->mfu() > 0.2);
  CHECK(a->mfu() < 0.65);
  CHECK(a->loss == doctest::Approx(a->least_loss.loss).epsilon(0.001));  // the law's own point
}

TEST_CASE("GPUs come in whole nodes of a number that divides, and no slower than asked") {
  SizeRequest q = on_h100();
  q.given.parameters = 3e9, q.given.tokens = 60e9, q.given.days = 2;
  const auto a = size_training(q);
  REQUIRE_MESSAGE(a.ok(), a.error().message());
  CHECK(std::fmod(a->budget.gpus, 8) == 0);
  CHECK(a->budget.days <= 2 * 1.01);
  CHECK(a->layout->layout.dims.world_size() == static_cast<int>(a->budget.gpus));
}

TEST_CASE("a rate that is given or needed is compared with the forecast") {
  SizeRequest q = on_h100();
  q.given.parameters = 3e9, q.given.tokens = 60e9, q.given.gpus = 16, q.mfu = 0.9;
  const auto given = size_training(q);
  REQUIRE_MESSAGE(given.ok(), given.error().message());
  CHECK(given->budget.tflops == doctest::Approx(0.9 * given->peak_tflops));
  CHECK(given->forecast_tflops < given->budget.tflops);
  CHECK(given->notes.back().find("times the rate given") != std::string::npos);
  q.mfu = 0, q.given.days = 4;
  const auto asked = size_training(q);
  REQUIRE(asked.ok());
  CHECK(asked->rate == RateSource::needed);
  CHECK(needed(*asked) == doctest::Approx(1));
}

TEST_CASE("a narrower model to tune comes with what its settings become for the model itself") {
  SizeRequest q;
  q.given = {8e9, 0, 30, 256, 400};
  CHECK(!size_training(q)->proxy);
  q.proxy_width = 1024;
  const auto a = size_training(q);
  REQUIRE_MESSAGE(a.ok(), a.error().message());
  REQUIRE(a->proxy);
  const SizeProxy& proxy = *a->proxy;
  CHECK(proxy.shape.hidden_size == 1024);
  CHECK(proxy.shape.num_hidden_layers == a->task.shape.num_hidden_layers);
  const double r = static_cast<double>(a->task.shape.hidden_size) / 1024;
  CHECK(proxy.lr_factor == doctest::Approx(1 / r));
  CHECK(proxy.weight_decay_factor == doctest::Approx(r));
  CHECK(proxy.initializer_factor == doctest::Approx(1 / std::sqrt(r)));
  CHECK(proxy.approximations.size() >= 2);
  q.proxy_width = 100'000;
  CHECK(size_training(q).error().message().find("narrower") != std::string::npos);
}

TEST_CASE("everything that is wrong with a question comes at once") {
  SizeRequest q;
  q.given = {8e9, 1e12, -1, 1.5, 400};
  q.given.tokens_per_parameter = 20, q.mfu = 2;
  const auto wrong = size_training(q);
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().code == ErrorCode::invalid_input);
  for (const char* part : {"days = -1", "gpus = 1.5", "mfu = 2", "mfu and tflops", "no GPU is known", "one too many"})
    CHECK_MESSAGE(wrong.error().message().find(part) != std::string::npos, wrong.error().message());
  SizeRequest open;
  open.given.parameters = 8e9;
  const auto more = size_training(open);
  REQUIRE(!more.ok());
  CHECK(more.error().message().find("tokens and days and gpus are open") != std::string::npos);
  SizeRequest all;
  all.given = {8e9, 1e12, 30, 256, 400};
  CHECK(size_training(all).error().message().find("nothing to find out") != std::string::npos);
  SizeRequest blind;
  blind.given = {8e9, 1e12, 0, 256, 0};
  CHECK(size_training(blind).error().message().find("no rate is given") != std::string::npos);
}

TEST_CASE("a model that fits on none of the layouts says by how much, and on how many GPUs") {
  SizeRequest q = on_h100();
  q.given.parameters = 70e9, q.given.tokens = 1e12, q.given.gpus = 2;
  const auto a = size_training(q);
  REQUIRE(!a.ok());
  CHECK(a.error().code == ErrorCode::unavailable);
  CHECK_MESSAGE(a.error().message().find("on 2 GPUs") != std::string::npos, a.error().message());
  CHECK(a.error().message().find("too much") != std::string::npos);
}

TEST_CASE("a batch can be distributed to any power of two of the ranks, near what was asked for") {
  const std::uint64_t seed = testing::seed(20261123);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    const auto gpus = static_cast<std::int64_t>(1 + random() % 20'000),
               sequence = std::int64_t{1} << (10 + random() % 5);
    const std::int64_t asked = std::int64_t{1} << (19 + random() % 6), batch = batch_for(asked, sequence, gpus);
    CAPTURE(gpus);
    CAPTURE(sequence);
    CAPTURE(asked);
    CAPTURE(batch);
    std::int64_t odd = gpus;
    while (odd % 2 == 0) odd /= 2;
    CHECK(batch % odd == 0);
    CHECK(batch >= 1);
    if (8 * odd <= asked / sequence)
      CHECK(std::fabs(static_cast<double>(batch * sequence) / static_cast<double>(asked) - 1) <= 0.126);
  }
}

TEST_CASE("usual numbers of nodes are enough, and at most an eighth more") {
  for (std::int64_t needed_nodes = 1; needed_nodes < 5000; ++needed_nodes) {
    std::int64_t nodes = usual_nodes(static_cast<double>(needed_nodes));
    CHECK(nodes >= needed_nodes);
    CHECK(static_cast<double>(nodes) <= 1.125 * static_cast<double>(needed_nodes));
    while (nodes % 2 == 0) nodes /= 2;
    CHECK(nodes <= 15);
  }
  CHECK(usual_nodes(0.2) == 1);
  CHECK(usual_nodes(16.0001) == 18);
}

}  // namespace training_size_test
}  // namespace
}  // namespace longhaul

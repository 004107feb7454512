#include "autotune/inference/serving_load.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/support/relative.h"
#include "tests/support/seed.h"

namespace longhaul {
namespace {

ServingPlace serving_place_of(const std::string& name) {
  static const TimeConstants constants =
      read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  const GpuType gpu = constants.gpu_named(name).value();
  return {{gpu, 8, gpu.link_domain, gpu.nic_rate}, constants.common, constants.serving, 1.5};
}

ModelShape llama_8b_served() {
  ModelShape shape;
  shape.hidden_size = 4096, shape.intermediate_size = 14336, shape.num_hidden_layers = 32, shape.vocab_size = 128256;
  shape.num_attention_heads = 32, shape.num_key_value_heads = 8, shape.head_dim = 128;
  shape.max_position_embeddings = 131072, shape.tie_word_embeddings = false;
  return shape;
}

double step_seconds(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place, double decodes,
                    double context, double prefill = 0) {
  return serving_step_time(shape, layout, place, {decodes, context, prefill, prefill / 2, prefill > 0 ? 1.0 : 0.0})
      .total();
}

TEST_CASE("one answer alone reads all weights for every token: never faster than the memory, nor much slower") {
  const ModelShape shape = llama_8b_served();
  const ServingPlace place = serving_place_of("H100");
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::fp8}) {
    ServingLayout layout;
    layout.weights = format;
    const double bytes =
        static_cast<double>(shape.matmul_parameter_count() - 128256 * 4096) * (format == WeightFormat::bf16 ? 2 : 1) +
        128256 * 4096 * 2.0;
    const double bound = bytes / place.cluster.gpu.memory_rate;
    const double seconds = step_seconds(shape, layout, place, 1, 100);
    CHECK(seconds > bound);
    CHECK(seconds < 2.5 * bound);
  }
}

TEST_CASE(
    "by hand: a step of a server on GPUs is its products, its caches, what streams, its sums and the host's part") {
  const ModelShape shape = llama_8b_served();
  const ServingPlace place = serving_place_of("H100");
  const GpuType& gpu = place.cluster.gpu;
  const double rate = gpu.memory_rate * place.common.memory_share, latency = place.common.kernel_latency;
  ServingLayout layout;
  layout.tp = 2;
  // Four answers behind 1000 tokens each: every product reads its weights.
  const ServingStepTime t = serving_step_time(shape, layout, place, {4, 1000, 0, 0, 0});
  const auto product = [&](double n, double k) {
    return 2 * (n * k + 4 * (n + k)) / (rate * place.product_memory) + latency;
  };
  const double layer = product(3072, 4096) + product(4096, 2048) + product(14336, 4096) + product(4096, 7168);
  CHECK(t.products == testing::relative(32 * layer + product(64128, 4096)));
  CHECK(t.attention == testing::relative(32 * (4 * 1000 * 2 * 4 * 128 * 2.0 / rate + latency)));
  const double streamed = 4 * 2 * (8 * 4096 + 3 * (6144 + 14336) / 2.0);
  CHECK(t.streams == testing::relative(32 * (streamed / rate + 5 * latency) + 4 * 64128 * 8 / rate));
  const Link link = group_link(place.cluster, place.common, 2, 1);
  const auto sum = [&](double elements) { return place.serving.message_latency + elements * 2 / link.rate; };
  CHECK(t.messages == testing::relative(64 * sum(4 * 4096) + sum(4 * 64128)));
  CHECK(t.host == testing::relative(place.serving.step_cost + 4 * place.serving.sequence_cost));
  // Of a prompt both products of the scores, at the rate of attention.
  const double seen = 4.0 * 1024 * 512 * 2048 / (gpu.peak_bf16 * gpu.attention * place.attention_scale);
  CHECK(serving_step_time(shape, layout, place, {0, 0, 1024, 512, 1}).attention ==
        testing::relative(32 * (seen + latency)));
}

TEST_CASE("steps take longer with more answers, longer contexts and pieces of prompts, and the parts add up") {
  const ModelShape shape = llama_8b_served();
  const ServingPlace place = serving_place_of("A100");
  const ServingLayout layout;
  double last = 0;
  for (const int answers : {1, 2, 8, 64, 256, 1024}) {
    const double now = step_seconds(shape, layout, place, answers, 500);
    CHECK(now > last);
    last = now;
  }
  CHECK(step_seconds(shape, layout, place, 64, 5000) > 1.5 * step_seconds(shape, layout, place, 64, 50));
  CHECK(step_seconds(shape, layout, place, 64, 500, 2048) > 2 * step_seconds(shape, layout, place, 64, 500));
  const ServingStepTime t = serving_step_time(shape, layout, place, {64, 500, 256, 128, 1});
  CHECK(t.messages == 0);
  CHECK(t.total() == testing::relative(t.products + t.attention + t.streams + t.host));
}

TEST_CASE("a group of GPUs shortens a step and pays for messages, over the network far more") {
  const ModelShape shape = llama_8b_served();
  ServingPlace place = serving_place_of("H100");
  ServingLayout layout;
  const double one = step_seconds(shape, layout, place, 32, 1000);
  layout.tp = 4;
  const double four = step_seconds(shape, layout, place, 32, 1000);
  CHECK(four < one);
  CHECK(four > one / 4);
  CHECK(serving_step_time(shape, layout, place, {32, 1000, 0, 0, 0}).messages > 32 * 2 * place.serving.message_latency);
  place.cluster.domain = 1;
  CHECK(step_seconds(shape, layout, place, 32, 1000) > four);
}

TEST_CASE("int4 is for few answers: the weights are read faster, long prompts are not") {
  const ModelShape shape = llama_8b_served();
  const ServingPlace place = serving_place_of("H100");
  ServingLayout plain, packed;
  packed.weights = WeightFormat::int4;
  CHECK(step_seconds(shape, packed, place, 1, 100) < 0.6 * step_seconds(shape, plain, place, 1, 100));
  CHECK(step_seconds(shape, packed, place, 0, 0, 8192) > 1.2 * step_seconds(shape, plain, place, 0, 0, 8192));
}

TEST_CASE("a core reads weights and multiplies one after the other, a GPU beside each other") {
  ServingPlace place = serving_place_of("H100");
  place.common.kernel_latency = 0;
  StepWork work;
  work.decodes = 64, work.context = 100;
  ServingLayout layout;
  const ModelShape shape = llama_8b_served();
  const double beside = serving_step_time(shape, layout, place, work).products;
  place.cluster.gpu.processors = 1;
  place.common.epilogue = 0;
  const double after = serving_step_time(shape, layout, place, work).products;
  CHECK(after > beside);
  place.product_memory = 0.5;
  CHECK(serving_step_time(shape, layout, place, work).products > 1.3 * after);
}

TEST_CASE("few tokens touch few experts") {
  ModelShape shape = llama_8b_served();
  shape.architecture = "mixtral", shape.num_local_experts = 8, shape.moe_intermediate_size = 14336;
  ModelShape dense = shape;  // as wide as the two experts of a token
  dense.architecture = "llama", dense.num_local_experts = 0, dense.intermediate_size = 2 * 14336;
  const ServingPlace place = serving_place_of("H200");
  const ServingLayout layout;
  const auto time = [&](const ModelShape& of, int answers) { return step_seconds(of, layout, place, answers, 100); };
  CHECK(time(shape, 1) == testing::relative(time(dense, 1)).epsilon(0.05));
  // 64 tokens touch all of them: four times the weights.
  CHECK(time(shape, 64) > 2.5 * time(dense, 64));
}

TEST_CASE("an unexpected prompt, an answer of one token, one slot: rates are finite and positive") {
  const ModelShape shape = llama_8b_served();
  const ServingPlace place = serving_place_of("H100");
  for (const auto& [prompt, answer] : std::vector<std::pair<int, int>>{{1, 1}, {1, 4000}, {100000, 1}, {100000, 2}}) {
    ServingTask task;
    task.prompt_tokens = prompt, task.answer_tokens = answer;
    ServingLayout layout;
    for (const int slots : {1, 16, 500}) {
      layout.slots = slots;
      const ServingRates r = rates_at_concurrency(shape, task, layout, place, slots);
      CAPTURE(prompt);
      CAPTURE(answer);
      CAPTURE(slots);
      CHECK(r.token_rate > 0);
      CHECK(std::isfinite(r.token_rate));
      CHECK(r.ttft_mean > 0);
      // Little's law.
      CHECK(r.requests == testing::relative(r.request_rate * (r.ttft_mean + (answer - 1) * r.itl_mean)).epsilon(0.02));
      CHECK(r.requests == testing::relative(slots).epsilon(0.02));
    }
  }
}

// A server step by step, as engine/infer/generate/generator.cc plans its steps: all running answers, then pieces of
// prompts, the oldest first, up to a chunk.
class StepByStep {
 public:
  StepByStep(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout, const ServingPlace& place)
      : shape_(shape), task_(task), layout_(layout), place_(place) {}

  void arrive(double at) { waiting_.push_back({at, 0, 0}); }
  // Closed: who ends comes again at once. `tokens_before`: how far a request has come already.
  void arrive_running(double tokens_before) { running_.push_back({0, task_.prompt_tokens, tokens_before}); }
  bool closed = false;
  double now = 0, tokens = 0, steps = 0, step_seconds_sum = 0, ttft_sum = 0;
  int firsts = 0;

  bool step() {
    while (running_.size() < static_cast<std::size_t>(layout_.slots) && !waiting_.empty() && waiting_.front().at <= now)
      running_.push_back(waiting_.front()), waiting_.erase(waiting_.begin());
    if (running_.empty()) {
      if (waiting_.empty()) return false;
      now = waiting_.front().at;
      return true;
    }
    StepWork work;
    double context = 0;
    std::int64_t budget = layout_.chunk;
    std::vector<Request*> decoded, ended;
    for (Request& r : running_) {
      if (r.read < task_.prompt_tokens) continue;
      decoded.push_back(&r), context += static_cast<double>(task_.prompt_tokens) + r.made;
    }
    for (Request& r : running_) {
      const std::int64_t piece = std::min(budget, task_.prompt_tokens - r.read);
      if (piece <= 0) continue;
      work.prefill_before +=
          static_cast<double>(piece) * (static_cast<double>(r.read) + static_cast<double>(piece) / 2);
      r.read += piece, budget -= piece, work.prefill += static_cast<double>(piece);
      if (r.read == task_.prompt_tokens) ended.push_back(&r);
    }
    if (work.prefill > 0) work.prefill_before /= work.prefill;
    work.decodes = static_cast<double>(decoded.size()), work.ended_prompts = static_cast<double>(ended.size());
    if (!decoded.empty()) work.context = context / work.decodes;
    const double seconds = serving_step_time(shape_, layout_, place_, work).total();
    now += seconds, steps += work.decodes, step_seconds_sum += seconds * work.decodes;
    for (Request* r : decoded) r->made += 1, tokens += 1;
    for (Request* r : ended) r->made = 1, tokens += 1, ttft_sum += now - r->at, ++firsts;
    for (Request& r : running_) {
      if (r.made < static_cast<double>(task_.answer_tokens)) continue;
      if (closed) waiting_.push_back({now, 0, 0});
      r.made = -1;
    }
    std::erase_if(running_, [](const Request& r) { return r.made < 0; });
    return true;
  }

 private:
  struct Request {
    double at;
    std::int64_t read;
    double made;
  };
  const ModelShape& shape_;
  const ServingTask& task_;
  const ServingLayout& layout_;
  const ServingPlace& place_;
  std::vector<Request> waiting_, running_;
};

TEST_CASE("the estimate agrees with a server that is followed step by step, always full") {
  const std::uint64_t seed = testing::seed(20261123);
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const ModelShape shape = llama_8b_served();
  const ServingPlace place = serving_place_of("H100");
  struct Case {
    int prompt, answer, slots, chunk;
  };
  for (const Case c : {Case{512, 128, 32, 256}, {128, 512, 64, 2048}, {2048, 64, 16, 512}, {1000, 1000, 100, 1024}}) {
    ServingTask task;
    task.prompt_tokens = c.prompt, task.answer_tokens = c.answer;
    ServingLayout layout;
    layout.slots = c.slots, layout.chunk = c.chunk;
    StepByStep server(shape, task, layout, place);
    server.closed = true;
    for (int i = 0; i < c.slots; ++i)
      server.arrive_running(1 + static_cast<double>(random() % static_cast<std::uint64_t>(c.answer - 1)));
    for (int i = 0; i < 6 * c.answer; ++i) server.step();
    const ServingRates r = rates_at_concurrency(shape, task, layout, place, c.slots);
    CAPTURE(c.prompt);
    CAPTURE(c.answer);
    CHECK(r.token_rate == testing::relative(server.tokens / server.now).epsilon(0.08));
    CHECK(r.itl_mean == testing::relative(server.step_seconds_sum / server.steps).epsilon(0.08));
  }
}

TEST_CASE("and with arrivals at random: nobody waits at a third of the load, many at nine tenths") {
  const std::uint64_t seed = testing::seed(20261123);
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const ModelShape shape = llama_8b_served();
  const ServingPlace place = serving_place_of("H100");
  ServingTask task;
  task.prompt_tokens = 512, task.answer_tokens = 128, task.length_variation = 0;  // all alike, as below
  ServingLayout layout;
  layout.slots = 32, layout.chunk = 512;
  const double most = rates_at_concurrency(shape, task, layout, place, layout.slots).request_rate;
  double last = 0;
  for (const double load : {0.3, 0.6, 0.9}) {
    StepByStep server(shape, task, layout, place);
    std::exponential_distribution<double> gap(load * most);
    double at = 0;
    for (int i = 0; i < 8000; ++i) server.arrive(at += gap(random));
    while (server.step()) {
    }
    const ServingRates r = rates_at_load(shape, task, layout, place, load * most);
    CAPTURE(load);
    CHECK(!r.overloaded);
    CHECK(r.request_rate == testing::relative(load * most).epsilon(0.01));
    const double seen = server.ttft_sum / server.firsts;
    MESSAGE("load " << load << ": TTFT " << r.ttft_mean * 1e3 << " ms estimated, " << seen * 1e3 << " ms followed");
    CHECK(r.ttft_mean > seen / 2);
    CHECK(r.ttft_mean < seen * 2);
    CHECK(r.ttft_mean > last);
    CHECK(r.ttft >= r.ttft_mean * 0.9);
    last = r.ttft_mean;
  }
  CHECK(rates_at_load(shape, task, layout, place, 1.01 * most).overloaded);
}

}  // namespace
}  // namespace longhaul

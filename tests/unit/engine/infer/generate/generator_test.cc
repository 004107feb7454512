// Continuous batching with a fake model and a clock that the test moves: joins, limits, stops, deadlines, cancellation.
#include "engine/infer/generate/generator.h"

#include <doctest/doctest.h>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "tests/unit/engine/infer/fake_text_model.h"

namespace longhaul {
namespace {

struct Recorder final : GenerationListener {
  std::string text;
  std::vector<GeneratedToken> tokens;
  std::vector<std::string> pieces;
  int ends = 0;
  FinishReason reason = FinishReason::error;
  GenerationUsage usage;
  std::string error;
  void on_text(const std::string& piece, const std::vector<GeneratedToken>& more) override {
    CHECK(ends == 0);
    text += piece;
    pieces.push_back(piece);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  void on_end(FinishReason why, const GenerationUsage& used, const std::string& what) override {
    ++ends;
    reason = why;
    usage = used;
    error = what;
  }
};

struct GeneratorBench {
  explicit GeneratorBench(int slots = 2, GeneratorLimits limits = {}, std::int64_t context = 4096)
      : model(slots, context), generator(model, clock, limits) {}
  FakeTextModel model;
  ManualClock clock;
  Generator generator;

  GenerationRequest request(const std::string& prompt, std::int64_t max_tokens = 100) {
    GenerationRequest r;
    r.prompt = model.encode(prompt).value();
    r.max_tokens = max_tokens;
    r.sampling.temperature = 0;
    return r;
  }
  std::shared_ptr<Recorder> submit(GenerationRequest r, GenerationId* id = nullptr) {
    auto recorder = std::make_shared<Recorder>();
    const auto ids = generator.submit({{std::move(r), recorder}});
    REQUIRE_MESSAGE(ids.ok(), (ids.ok() ? "" : ids.error().message()));
    if (id != nullptr) *id = ids->front();
    return recorder;
  }
  void run() {
    for (int i = 0; i < 100'000 && generator.step(); ++i) {
    }
  }
};

}  // namespace

TEST_CASE("an answer ends at the end token, and its tokens are counted") {
  GeneratorBench bench;
  const auto a = bench.submit(bench.request("hello"));
  bench.run();
  CHECK(a->text == "hello");
  CHECK(a->reason == FinishReason::stop);
  CHECK(a->usage.prompt_tokens == 5);
  CHECK(a->usage.completion_tokens == 6);
  CHECK(a->ends == 1);
}

TEST_CASE("an answer ends at its longest length") {
  GeneratorBench bench;
  const auto a = bench.submit(bench.request("abcdef", 3));
  const auto nothing = bench.submit(bench.request("abcdef", 0));
  bench.run();
  CHECK(a->text == "abc");
  CHECK(a->reason == FinishReason::length);
  CHECK(nothing->text == "");
  CHECK(nothing->usage.completion_tokens == 0);
  CHECK(nothing->ends == 1);
}

TEST_CASE("requests share the steps, join while others run, and do not change each other's answers") {
  GeneratorBench bench(3);
  std::vector<std::shared_ptr<Recorder>> all;
  const std::vector<std::string> prompts = {"a long first prompt", "b", "the third", "fourth", "5", "sixth and last"};
  for (const std::string& prompt : prompts) {
    all.push_back(bench.submit(bench.request(prompt)));
    bench.generator.step();
  }
  bench.run();
  for (std::size_t i = 0; i < prompts.size(); ++i) CHECK(all[i]->text == prompts[i]);
  CHECK(bench.model.largest_batch == 3);
  CHECK(bench.generator.counters().running == 0);
  CHECK(bench.generator.counters().finished[static_cast<int>(FinishReason::stop)] == 6);
}

TEST_CASE("a long prompt is read in pieces, and running answers go on meanwhile") {
  GeneratorLimits limits;
  limits.prefill_tokens = 16;
  GeneratorBench bench(2, limits);
  const auto running = bench.submit(bench.request("forever", 1000));
  bench.generator.step();
  const auto long_one = bench.submit(bench.request(std::string(160, 'x'), 5));
  const std::size_t before = running->text.size();
  for (int i = 0; i < 9; ++i) bench.generator.step();
  CHECK(long_one->text == "");
  CHECK(running->text.size() == before + 9);
  bench.generator.step();
  CHECK(long_one->text == "x");
  CHECK(bench.model.largest_prefill <= 16);
}

TEST_CASE("a stop text is cut from the answer wherever the tokens end") {
  GeneratorBench bench;
  auto r = bench.request("one two END three");
  r.stops = {"END", "zzz"};
  const auto a = bench.submit(std::move(r));
  bench.run();
  CHECK(a->text == "one two ");
  CHECK(a->reason == FinishReason::stop);
}

TEST_CASE("pieces of a stream are whole characters") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    std::string text = "_";
    static const std::vector<std::string> units = {"a", "é", "€", "😀"};
    for (int i = 0; i < 20; ++i) text += units[random.next_below(4)];
    GeneratorBench bench;
    const auto a = bench.submit(bench.request(text));
    bench.run();
    for (const std::string& piece : a->pieces) CHECK(is_valid_utf8(piece));
    CHECK(a->text == text);
  }
  GeneratorBench bench;  // cut by its length inside a character
  const auto a = bench.submit(bench.request("€", 2));
  bench.run();
  CHECK(a->text == "\xEF\xBF\xBD");
}

TEST_CASE("the queue is bounded; a group is taken whole or not at all") {
  GeneratorLimits limits;
  limits.queue_max = 1;
  GeneratorBench bench(1, limits);
  bench.submit(bench.request("forever", 50));
  bench.generator.step();
  const auto group = bench.generator.submit(
      {{bench.request("a"), std::make_shared<Recorder>()}, {bench.request("b"), std::make_shared<Recorder>()}});
  REQUIRE_FALSE(group.ok());
  CHECK(group.error().code == ErrorCode::unavailable);
  const auto waiting = bench.submit(bench.request("c"));
  CHECK_FALSE(bench.generator.submit({{bench.request("d"), std::make_shared<Recorder>()}}).ok());
  CHECK(bench.generator.counters().refused == 3);
  bench.run();
  CHECK(waiting->text == "c");
  CHECK(bench.generator.submit({{bench.request("e"), std::make_shared<Recorder>()}}).ok());
}

TEST_CASE("requests that can never be served are refused at once") {
  GeneratorBench bench(1, {}, 16);
  const auto refused = [&](GenerationRequest r) {
    const auto ids = bench.generator.submit({{std::move(r), std::make_shared<Recorder>()}});
    return !ids.ok() && ids.error().code == ErrorCode::invalid_input;
  };
  CHECK(refused(bench.request("")));
  CHECK(refused(bench.request("0123456789", 7)));
  CHECK(refused([&] {
    auto r = bench.request("a", 1);
    r.prompt = {FakeTextModel::vocabulary};
    return r;
  }()));
  CHECK(refused([&] {
    auto r = bench.request("a", 1);
    r.prompt = {-1};
    return r;
  }()));
  CHECK(refused([&] {
    auto r = bench.request("a", 1);
    r.sampling.temperature = 9;
    return r;
  }()));
  CHECK_FALSE(refused(bench.request("0123456789", 6)));
}

TEST_CASE("a deadline ends a running and a waiting request, and frees the slot") {
  GeneratorBench bench(1);
  auto r = bench.request("forever", 4000);
  r.deadline_ms = 1000;
  const auto running = bench.submit(r);
  const auto waiting = bench.submit(r);
  auto later = bench.request("later");
  later.deadline_ms = 60'000;
  const auto third = bench.submit(later);
  bench.generator.step();
  bench.clock.advance_ms(999);
  bench.generator.step();
  CHECK(running->ends == 0);
  bench.clock.advance_ms(1);
  bench.run();
  CHECK(running->reason == FinishReason::deadline);
  CHECK(waiting->reason == FinishReason::deadline);
  CHECK(waiting->usage.completion_tokens == 0);
  CHECK(third->text == "later");
}

TEST_CASE("cancelled requests end once, running or waiting; cancelling twice or too late does nothing") {
  GeneratorBench bench(1);
  GenerationId first = 0, second = 0, third = 0;
  const auto running = bench.submit(bench.request("forever", 4000), &first);
  const auto waiting = bench.submit(bench.request("forever", 4000), &second);
  const auto next = bench.submit(bench.request("next"), &third);
  bench.generator.step();
  bench.generator.cancel(first);
  bench.generator.cancel(first);
  bench.generator.cancel(second);
  bench.generator.cancel(12345);
  bench.run();
  bench.generator.cancel(third);
  bench.run();
  CHECK(running->ends == 1);
  CHECK(running->reason == FinishReason::cancelled);
  CHECK(waiting->ends == 1);
  CHECK(waiting->reason == FinishReason::cancelled);
  CHECK(next->text == "next");
  CHECK(next->reason == FinishReason::stop);
}

TEST_CASE("an error of the model ends the requests of that step, not the server") {
  GeneratorBench bench(2);
  const auto a = bench.submit(bench.request("forever", 100));
  bench.generator.step();
  bench.model.fail_next = true;
  bench.run();
  CHECK(a->reason == FinishReason::error);
  CHECK(a->error.find("asked to fail") != std::string::npos);
  const auto b = bench.submit(bench.request("after"));
  bench.run();
  CHECK(b->text == "after");
}

TEST_CASE("echo gives the prompt with its log-probabilities, in any prefill pieces") {
  for (const std::int64_t pieces : {1, 2, 3, 100}) {
    CAPTURE(pieces);
    GeneratorLimits limits;
    limits.prefill_tokens = pieces;
    GeneratorBench bench(1, limits);
    bench.model.script = [](const std::string& prompt) { return prompt == "axb" ? "a" : "x"; };
    auto r = bench.request("axb", 1);
    r.echo = true;
    r.logprobs = 1;
    const auto a = bench.submit(std::move(r));
    bench.run();
    CHECK(a->text == "axba");
    REQUIRE(a->tokens.size() == 4);
    CHECK_FALSE(a->tokens[0].logprob.has_value());
    CHECK(*a->tokens[1].logprob == doctest::Approx(0).epsilon(1e-6));  // 'x' was expected
    CHECK(*a->tokens[2].logprob < -20);
    CHECK(a->tokens[2].top[0].token == 'x');
    CHECK(a->tokens[3].text_offset == 3);
  }
}

TEST_CASE("echo: the token that ends an answer at once is reported, so that the prompt's are all before the last") {
  GeneratorBench bench(1);
  bench.model.script = [](const std::string&) { return ""; };
  auto r = bench.request("ab", 1);
  r.echo = true, r.logprobs = 1;
  const auto a = bench.submit(r);
  r.echo = false;
  const auto b = bench.submit(r);
  bench.run();
  CHECK(a->text == "ab");
  CHECK(a->reason == FinishReason::stop);
  REQUIRE(a->tokens.size() == 3);
  CHECK(a->tokens[2].token == a->usage.end_token);
  CHECK(*a->tokens[2].logprob == doctest::Approx(a->usage.end_logprob));
  CHECK(a->tokens[2].top.size() == 1);
  CHECK(b->tokens.empty());
}

TEST_CASE("requests begin in their order when there is room for the longest answer they may get, and give it back") {
  GeneratorBench bench(4);
  bench.model.room = 60;
  const auto a = bench.submit(bench.request("a first", 33));
  const auto large = bench.submit(bench.request("large", 40));
  const auto small = bench.submit(bench.request("b", 4));
  bench.generator.step();
  CHECK(bench.model.promised == 40);
  CHECK(bench.generator.counters().pages.promised == 40);
  CHECK(bench.generator.counters().running == 1);
  CHECK(bench.generator.counters().waiting == 2);  // the small one does not overtake
  CHECK(bench.generator.counters().held_up == 1);
  while (a->ends == 0) bench.generator.step();
  bench.generator.step();
  CHECK(bench.model.promised == 50);
  CHECK(bench.generator.counters().running == 2);
  bench.run();
  CHECK(a->text == "a first");
  CHECK(large->text == "large");
  CHECK(small->text == "b");
  CHECK(bench.model.promised == 0);
  CHECK(bench.generator.counters().pages.used == 0);

  std::vector<GenerationId> ids(6);
  for (GenerationId& id : ids) bench.submit(bench.request("forever", 20), &id);
  bench.generator.step();
  CHECK(bench.model.promised == 54);
  for (const GenerationId id : ids) bench.generator.cancel(id);
  bench.run();
  CHECK(bench.model.promised == 0);
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const auto one = bench.submit(bench.request("forever", 1 + i % 3));
    if (i % 97 == 0) bench.model.fail_next = true;
    if (i % 4 == 3) bench.run();
  }
  bench.run();
  CHECK(bench.model.promised == 0);
  CHECK(bench.generator.counters().running == 0);
}

TEST_CASE("a model that draws gives the same answers; log-probabilities come by way of logits") {
  for (const bool draws : {false, true}) {
    CAPTURE(draws);
    GeneratorLimits limits;
    limits.prefill_tokens = 4;
    GeneratorBench bench(3, limits);
    if (draws) bench.model.draw_itself();
    auto with_logprobs = bench.request("second", 10);
    with_logprobs.logprobs = 2, with_logprobs.echo = true;
    const auto a = bench.submit(bench.request("the first"));
    const auto b = bench.submit(with_logprobs);
    const auto c = bench.submit(bench.request("third", 0));
    const auto d = bench.submit(bench.request("and a fourth", 6));
    bench.run();
    CHECK(a->text == "the first");
    CHECK(b->text == "secondsecond");
    CHECK(b->tokens.size() == 13);  // the end token too
    CHECK(c->text == "");
    CHECK(d->text == "and a ");
    CHECK(bench.model.drawn_tokens == (draws ? 10 + 6 : 0));  // the end token too
  }
}

TEST_CASE("half a character at the prompt's end does not swallow the answer's beginning") {
  GeneratorBench bench;
  auto r = bench.request("\xE2\x82", 1);
  bench.model.script = [](const std::string&) { return "\xAC"; };
  r.echo = true;
  const auto a = bench.submit(std::move(r));
  bench.run();
  CHECK(a->text == "\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace longhaul

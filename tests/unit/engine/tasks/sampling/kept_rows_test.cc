// Which answers are kept, and what is counted of them.
#include "engine/tasks/sampling/kept_rows.h"

#include <doctest/doctest.h>

#include "base/value/json.h"
#include "engine/tasks/sampling/sample_figures.h"

namespace longhaul {
namespace {

SampledAnswer kept_answer(const std::string& text, std::optional<double> reward, bool cut = false) {
  return {.tokens = {1, 2}, .text = text, .cut = cut, .reward = {reward, reward ? "" : "no number"}};
}

PromptExample kept_prompt() {
  PromptExample prompt;
  prompt.messages.push_back({.role = "user", .content = "1 + 1?"});
  prompt.answer = "2", prompt.line = 7;
  return prompt;
}

double sample_figure(const std::vector<Figure>& figures, const std::string& name) {
  for (const Figure& figure : figures)
    if (figure.name == name) return figure.value;
  FAIL("no figure ", name);
  return 0;
}

}  // namespace

TEST_CASE("kept rows: the best answer above the bound is kept, the first of equals; pairs are the best and the worst") {
  const SampledGroup group = {
      .prompt = 0,
      .answers = {kept_answer("three", 0), kept_answer("2", 1), kept_answer("two", 1), kept_answer("zero", -1)}};
  SampleSettings s;
  s.keep = "best";
  CHECK(kept_rows(s, kept_prompt(), group).text == "{\"prompt\":\"1 + 1?\",\"completion\":\"2\"}\n");
  s.reward_above = 1;
  CHECK(kept_rows(s, kept_prompt(), group).rows == 0);  // above, not at
  s = {}, s.keep = "pairs";
  CHECK(kept_rows(s, kept_prompt(), group).text == "{\"prompt\":\"1 + 1?\",\"chosen\":\"2\",\"rejected\":\"zero\"}\n");
  s.margin_above = 2;
  CHECK(kept_rows(s, kept_prompt(), group).rows == 0);
}

TEST_CASE("kept rows: an answer that was cut, has no reward or no text is kept among all alone") {
  const SampledGroup group = {
      .prompt = 0,
      .answers = {kept_answer("cut off", 5, true), kept_answer(" \n", 4), kept_answer("unknown", std::nullopt),
                  kept_answer("fine", 1), kept_answer("bad", 0)}};
  SampleSettings s;
  s.keep = "pairs";
  CHECK(kept_rows(s, kept_prompt(), group).text ==
        "{\"prompt\":\"1 + 1?\",\"chosen\":\"fine\",\"rejected\":\"bad\"}\n");
  s.keep = "best";
  CHECK(kept_rows(s, kept_prompt(), {.prompt = 0, .answers = {kept_answer("cut off", 5, true)}}).rows == 0);
  s.keep = "all";
  const KeptRows all = kept_rows(s, kept_prompt(), group);
  CHECK(all.rows == 5);
  const auto first = parse_json(all.text.substr(0, all.text.find('\n')));
  REQUIRE(first.ok());
  CHECK(first->get_integer("line") == 7);
  CHECK(first->get_bool("cut"));
  CHECK(all.text.find("\"reward\":null,\"problem\":\"no number\"") != std::string::npos);
}

TEST_CASE("kept rows: answers of equal reward or equal text are no pair, and prompts of several turns stay lists") {
  SampleSettings s;
  s.keep = "pairs";
  CHECK(kept_rows(s, kept_prompt(), {.prompt = 0, .answers = {kept_answer("a", 1), kept_answer("b", 1)}}).rows == 0);
  CHECK(kept_rows(s, kept_prompt(), {.prompt = 0, .answers = {kept_answer("a", 1), kept_answer("a", 0)}}).rows == 0);
  s.keep = "best";
  PromptExample prompt = kept_prompt();
  prompt.messages.insert(prompt.messages.begin(), {.role = "system", .content = "Be brief."});
  CHECK(kept_rows(s, prompt, {.prompt = 0, .answers = {kept_answer("2", 1)}}).text ==
        "{\"prompt\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"1 + 1?\"}],"
        "\"completion\":\"2\"}\n");
}

TEST_CASE("figures of sampling: sums over groups, with missing rewards apart") {
  SampleSettings s;
  s.keep = "best", s.samples = 2;
  SampleSums sums, more;
  const auto add = [&](SampleSums& to, const SampledGroup& group) {
    to.count(group, kept_rows(s, kept_prompt(), group));
  };
  add(sums, {.prompt = 0, .answers = {kept_answer("2", 1), kept_answer("3", 0)}});
  add(sums, {.prompt = 1, .answers = {kept_answer("3", 0), kept_answer("4", 0, true)}});
  add(more, {.prompt = 2, .answers = {kept_answer("2", 1), kept_answer("x", std::nullopt)}});
  add(more, {.prompt = 3, .answers = {kept_answer("x", std::nullopt), kept_answer("y", std::nullopt)}});
  sums.add(more);
  const std::vector<Figure> figures = sample_figures(s, sums, 3);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, double>>{{"prompts", 4},
                                                                                         {"prompts_too_long", 3},
                                                                                         {"answers", 8},
                                                                                         {"answer_tokens", 2},
                                                                                         {"answers_cut", 0.125},
                                                                                         {"reward", 0.4},
                                                                                         {"reward_faults", 3},
                                                                                         {"accuracy", 0.25},
                                                                                         {"best_accuracy", 0.5},
                                                                                         {"equal_groups", 0.75},
                                                                                         {"kept_rows", 2},
                                                                                         {"kept_prompts", 0.5}}) {
    CAPTURE(name);
    CHECK(sample_figure(figures, name) == doctest::Approx(value));
  }
  CHECK(sample_figure(figures, "best_reward") == doctest::Approx(2.0 / 3));
  CHECK(sample_figure(figures, "best_accuracy_low") < 0.5);
}

}  // namespace longhaul

// What evaluate reports of a model is what lm-evaluation-harness's definitions make of transformers' log-likelihoods
// (tests/parity/golden/figures.json).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/engine/tasks/stages/stage_folder.h"

namespace longhaul {
namespace {

const std::string golden_folder = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden";

Value evaluation_golden(const char* part) {
  const std::string path = golden_folder + "/figures.json";
  return *parse_json(read_file(path).value(), path).value().find(part);
}

// The stage's settings for one kind of figure, of the model that the golden file was made with.
void evaluate_golden_model(const StageFolder& folder, const char* input, const std::string& path,
                           const std::string& settings, const std::string& out) {
  Task task = folder.task("evaluate", {}, settings);
  task.inputs.push_back({"model", {golden_folder + "/model-untied"}, "", ""});
  task.inputs.push_back({input, {path}, "", ""});
  folder.run_well(task, out);
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

TEST_CASE("bits per byte of a text are those of rolling log-likelihoods, in one window and in many") {
  const StageFolder folder;
  int measured = 0;
  double nats = 0, theirs = 0;
  const Value rolling = evaluation_golden("rolling");
  for (const Value& one : rolling.as_array()) {
    if (one.find("all")) {  // their mean over documents is a sum over a sum, as ours is
      CHECK(one.get_number("bits_per_byte") == doctest::Approx(nats / theirs).epsilon(1e-5));
      nats = theirs = 0;
      continue;
    }
    const std::string name = format("text{}", measured++);
    CAPTURE(one.get_string("document"));
    CAPTURE(one.get_integer("context"));
    REQUIRE(make_directories(folder.at(name)).ok());
    REQUIRE(write_file_atomic(folder.at(name) + "/heldout.txt", one.get_string("document")).ok());
    evaluate_golden_model(
        folder, "tokens", folder.at(name),
        format(R"({{"tasks": ["bits_per_byte"], "precision": "f32", "context_length": {0}, "stride": {0}}})",
               one.get_integer("context")),
        name + "-scores");
    const auto figure = [&](const char* of) { return folder.figure(name + "-scores", of); };
    CHECK(figure("heldout_bytes") == one.get_number("bytes"));
    CHECK(figure("heldout_tokens") == one.get_number("tokens"));
    const double bits = figure("bits_per_byte");
    CHECK(std::abs(bits / one.get_number("bits_per_byte") - 1) <= 1e-5);
    CHECK(std::abs(std::exp2(bits) / one.get_number("byte_perplexity") - 1) <= 1e-4);  // an error of bits times 10 ln 2
    CHECK(std::abs(-std::log(figure("perplexity")) * figure("heldout_tokens") / one.get_number("loglikelihood") - 1) <=
          1e-5);
    nats += bits * figure("heldout_bytes"), theirs += one.get_number("bytes");
  }
  CHECK(measured == 10);
}

TEST_CASE(
    "choices: acc and acc_norm of the same questions, but that ours counts bytes where theirs counts characters") {
  const StageFolder folder;
  const Value questions = evaluation_golden("choices");
  int right = 0, right_norm = 0, plain = 0, other = 0;
  for (const Value& one : questions.as_array()) {
    CAPTURE(one.get_string("question"));
    const ValueArray& choices = one.find("choices")->as_array();
    const std::string name = format("question{}", plain + other);
    REQUIRE(make_directories(folder.at(name)).ok());
    REQUIRE(write_file_atomic(folder.at(name) + "/choices.jsonl", to_json(one) + "\n").ok());
    evaluate_golden_model(folder, "data", folder.at(name), R"({"tasks": ["multiple_choice"], "precision": "f32"})",
                          name + "-scores");
    const double accuracy = folder.figure(name + "-scores", "choice_accuracy"),
                 per_byte = folder.figure(name + "-scores", "choice_accuracy_per_byte");
    CHECK(accuracy == one.get_number("acc"));
    right += accuracy == 1 ? 1 : 0;
    if (std::all_of(choices.begin(), choices.end(), [](const Value& choice) { return is_ascii(choice.as_string()); })) {
      CHECK(per_byte == one.get_number("acc_norm"));
      ++plain, right_norm += per_byte == 1 ? 1 : 0;
      continue;
    }
    ++other;
    const ValueArray& sums = one.find("loglikelihoods")->as_array();
    const auto of_byte = [&](std::size_t i) {
      return sums[i].as_number() / static_cast<double>(choices[i].as_string().size());
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < sums.size(); ++i)
      if (of_byte(i) > of_byte(best)) best = i;
    CHECK(per_byte == (static_cast<std::int64_t>(best) == one.get_integer("answer") ? 1 : 0));
  }
  CHECK(plain == 17);
  CHECK(other == 7);
  CHECK(right > 3);  // both outcomes are there
  CHECK(right < 21);
  CHECK(right_norm > 3);
  CHECK(right_norm < 14);
}

}  // namespace longhaul

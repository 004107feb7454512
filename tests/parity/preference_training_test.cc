// Ten AdamW steps by each loss of preferences (golden/preference-training.json, made by
// make_preference_training_golden.py): transformers' model, TRL's loss, torch's optimizer.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/settings/stages/alignment.h"
#include "engine/align/labels/label_loss.h"
#include "engine/align/labels/label_objective.h"
#include "engine/align/preference_objective.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/common/token_files.h"
#include "engine/train/step/trainer.h"
#include "tests/parity/golden_options.h"

namespace longhaul {

namespace {

namespace preference_training_test {

std::string golden_path(const std::string& name) {
  return std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/" + name;
}

constexpr std::int64_t length = 12;  // a prompt of five tokens, an answer of six, and one more

// One pair's answer behind a pair's prompt.
ChatTokens text_of(const Value& asks, const Value& answers, const char* side) {
  ChatTokens text;
  const auto append = [&](const Value& ids, bool learnt) {
    for (const Value& id : ids.as_array()) {
      text.ids.push_back(static_cast<std::int32_t>(id.as_integer()));
      text.loss_mask.push_back(learnt);
    }
  };
  append(*asks.find("prompt"), false);
  append(*answers.find(side), true);
  return text;
}

// Answers by themselves, both of each pair; the divergence is that of the model's answers behind the next prompt.
class LabelBatches final : public BatchSource {
 public:
  LabelBatches(const ComputeContext& context, const ParameterStore& store, const ValueArray& steps)
      : context_(context), steps_(steps) {
    LlamaOptions options;
    options.tokens_max = 2 * std::ssize(steps.front().as_array()) * length, options.training = false;
    model_ = std::make_unique<Llama>(store, options);
  }
  void begin_step(std::int64_t step, std::int64_t) override { step_ = static_cast<std::size_t>(step - 1); }
  std::int64_t samples_per_epoch() const override { return std::ssize(steps_) * answers(); }
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    LH_ASSERT(first % answers() == 0 && count == answers(), "a step is one micro-batch");
    const ValueArray& pairs = steps_[step_].as_array();
    std::vector<ChatTokens> own, others;
    std::vector<double> other_references;
    out.per_sequence.clear();
    for (std::size_t i = 0; i < pairs.size(); ++i)
      for (const char* side : {"chosen", "rejected"}) {
        own.push_back(text_of(pairs[i], pairs[i], side));
        others.push_back(text_of(pairs[(i + 1) % pairs.size()], pairs[i], side));
      }
    for (const Value& pair : pairs)
      for (const Value& one : pair.find("behind_next")->as_array()) other_references.push_back(one.as_number());
    const double divergence = divergence_of(others, other_references);
    for (const Value& pair : pairs)
      for (const char* side : {"chosen", "rejected"})
        for (const double number :
             {pair.get_number(format("{}_reference", side)), side == std::string("chosen") ? 1.0 : 0.0, divergence})
          out.per_sequence.push_back(number);
    fill_rows(own, out);
    return {};
  }

 private:
  std::int64_t answers() const { return 2 * std::ssize(steps_.front().as_array()); }
  static void fill_rows(const std::vector<ChatTokens>& texts, BatchStorage& out) {
    std::vector<const ChatTokens*> rows;
    for (const ChatTokens& text : texts) rows.push_back(&text);
    fill_examples(rows, length, out);
  }
  double divergence_of(const std::vector<ChatTokens>& texts, const std::vector<double>& references) {
    BatchStorage batch;
    fill_rows(texts, batch);
    std::vector<float> losses(batch.ids.size());
    REQUIRE(model_->check(batch.view()).ok());
    model_->forward(context_, 0, batch.view());
    model_->token_losses(context_, 0, losses);
    std::vector<double> ratios;
    for (std::size_t row = 0; row < texts.size(); ++row) {
      ratios.push_back(-references[row]);
      for (std::size_t at = 0; at < static_cast<std::size_t>(batch.length); ++at) {
        const std::size_t place = row * static_cast<std::size_t>(batch.length) + at;
        if (batch.targets[place] >= 0) ratios.back() -= static_cast<double>(losses[place]);
      }
    }
    return divergence_estimate(ratios);
  }

  const ComputeContext& context_;
  const ValueArray& steps_;
  std::unique_ptr<Llama> model_;
  std::size_t step_ = 0;
};

// The largest difference of a step's loss.
double train_as(const ComputeContext& context, ParameterStore& store, Objective& objective, BatchSource& batches,
                const TrainerOptions& options, const Value& steps) {
  LlamaOptions model_options;
  model_options.tokens_max = 2 * options.micro_batch_size * length;
  Llama model(store, model_options);
  Mesh alone;
  Trainer trainer(context, alone, store, {&model}, objective, batches, options);
  double worst = 0;
  for (const Value& step : steps.as_array()) {
    const auto report = trainer.step();
    REQUIRE(report.ok());
    worst = std::max(worst, std::abs(report->loss - step.get_number("loss")));
    CHECK(std::abs(report->grad_norm / step.get_number("grad_norm") - 1) <= 1e-4);
  }
  return worst;
}

TEST_CASE("ten AdamW steps by each loss of preferences are TRL's and torch's: losses and norms") {
  const ComputeContext context(1);
  const Value golden = parse_json(read_file(golden_path("preference-training.json")).value()).value();
  const std::string base = golden_path(golden.get_string("base"));
  const ValueArray& steps = golden.find("pairs")->as_array();
  const auto count = std::ssize(steps.front().as_array());
  std::vector<PreferencePair> pairs;
  std::vector<double> references;
  for (const Value& step : steps)
    for (const Value& pair : step.as_array()) {
      pairs.push_back({.chosen = text_of(pair, pair, "chosen"), .rejected = text_of(pair, pair, "rejected")});
      for (const char* side : {"chosen_reference", "rejected_reference"}) references.push_back(pair.get_number(side));
    }
  for (const Value& one : golden.find("cases")->as_array()) {
    const std::string name = to_json(*one.find("settings"));
    CAPTURE(name);
    const auto settings = align_fields().parse(*one.find("settings"), "settings");
    REQUIRE_MESSAGE(settings.ok(), (settings.ok() ? "" : settings.error().message()));
    ParameterStore store(load_model_config(base).value().shape, DType::f32);
    REQUIRE(load_model_weights(context, base, store).ok());
    const TrainerOptions options =
        golden_options(*golden.find("adamw"), std::ssize(steps), settings->method == "kto" ? 2 * count : count);
    double worst = 0;
    if (settings->method == "kto") {
      LabelBatches batches(context, store, steps);
      LabelObjective objective(*settings);
      worst = train_as(context, store, objective, batches, options, *one.find("steps"));
    } else {
      const bool compares = align_method(settings->method).reference;
      PairSource batches(pairs, compares ? references : std::vector<double>(references.size()), length, 0,
                         SampleOrder::sequential);
      PreferenceObjective objective(*settings);
      worst = train_as(context, store, objective, batches, options, *one.find("steps"));
    }
    MESSAGE(format("{}: losses {:.1e} apart, bar 1e-05", name, worst));
    CHECK(worst <= 1e-5);
  }
}

}  // namespace preference_training_test

}  // namespace
}  // namespace longhaul

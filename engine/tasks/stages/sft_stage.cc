#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/common/token_files.h"
#include "engine/tasks/common/training_stage.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

namespace {

// Whole questions are held out: by a hash of the first user message, so that all answers to it go together. A text that
// is no conversation is its own question.
bool is_held_out(const InstructExample& example, double fraction) {
  const auto drawn = [&](const std::string& text) {
    return static_cast<double>(xxh3_64(text, 0x68656c64) >> 11) * 0x1p-53 < fraction;
  };
  for (const ChatMessage& message : example.messages)
    if (message.role == "user") return drawn(message.content);
  return drawn(example.text);
}

struct Instructions {
  std::vector<InstructExample> train, heldout;
};

Result<Instructions> read_examples(TaskRun& run, const SftSettings& settings) {
  const double heldout_fraction = settings.heldout_fraction;
  Instructions out;
  LH_TRY(const std::string data, run.task.input_path("data"));
  LH_TRY(const std::string train_file, find_data_file(data, {"train.jsonl"}));
  LH_TRY(out.train, read_instructions(train_file, settings.ignore));
  if (run.task.input("heldout")) {
    LH_TRY(const std::string heldout, run.task.input_path("heldout"));
    LH_TRY(const std::string heldout_file, find_data_file(heldout, {"heldout.jsonl", "answers.jsonl"}));
    LH_TRY(out.heldout, read_instructions(heldout_file, settings.ignore));
    return out;
  }
  std::vector<InstructExample> kept;
  for (InstructExample& example : out.train)
    (is_held_out(example, heldout_fraction) ? out.heldout : kept).push_back(std::move(example));
  out.train = std::move(kept);
  if (out.train.empty()) {  // few questions, all of which fall on one side
    run.events.message("warn", format("heldout_fraction = {:g} would hold out all {} examples of {}: none is held out",
                                      heldout_fraction, out.heldout.size(), train_file));
    std::swap(out.train, out.heldout);
  }
  if (out.train.empty()) return make_error(ErrorCode::invalid_input, train_file + " has no example to train on");
  return out;
}

}  // namespace

Status run_sft(TaskRun& run) {
  LH_TRY(const SftSettings settings, run.settings(sft_fields()));
  LH_TRY(const std::string model, run.task.input_path("model"));
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(model, "tokenizer.json")));
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(tokenizer, model));
  LH_TRY(const Instructions examples, read_examples(run, settings));
  LH_TRY(const HfConfig config, load_model_config(model));
  LH_CHECK(check_vocabulary(tokenizer, config.shape.vocab_size, model));
  ModelShape adapted = config.shape;
  adapted.adapter = settings.adapter;
  const std::vector<std::int32_t> prompt = virtual_token_ids(frozen_shape(adapted));
  LH_TRY(TokenizedExamples train, tokenize_instructions(examples.train, encoder, settings.sequence_length, prompt));
  if (train.too_long > 0)
    run.events.message("warn", format("{} examples are longer than sequence_length = {} and were left out",
                                      train.too_long, TextRoom(settings.sequence_length, std::ssize(prompt)).text()));
  std::vector<Figure> figures = {{"examples", static_cast<double>(train.examples.size()), ""},
                                 {"examples_too_long", static_cast<double>(train.too_long), ""}};
  ExampleSource source(std::move(train.examples), settings.sequence_length, static_cast<std::uint64_t>(settings.seed),
                       SampleOrder::shuffled);
  if (settings.packing) {
    source.pack();
    figures.push_back({"packed_rows", static_cast<double>(source.samples_per_epoch()), ""});
  }
  std::optional<ExampleSource> heldout;
  if (!examples.heldout.empty()) {
    LH_TRY(TokenizedExamples held, tokenize_instructions(examples.heldout, encoder, settings.sequence_length, prompt));
    heldout.emplace(std::move(held.examples), settings.sequence_length, 0, SampleOrder::sequential);
    figures.push_back({"heldout_examples", static_cast<double>(heldout->samples_per_epoch()), ""});
  }

  TrainingStageSettings stage_settings(settings, settings);
  stage_settings.shape = config.shape;
  stage_settings.start_model = stage_settings.tokenizer_folder = model;
  stage_settings.positions = stage_settings.first_key = settings.packing;
  LanguageModelObjective objective;
  LH_TRY(const std::unique_ptr<TrainingStage> stage, TrainingStage::create(run, stage_settings));
  return stage->train(objective, source, heldout ? &*heldout : nullptr, figures);
}

}  // namespace longhaul

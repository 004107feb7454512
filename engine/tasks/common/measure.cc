#include "engine/tasks/common/measure.h"

#include <cmath>
#include <deque>
#include <numbers>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json_lines.h"
#include "contracts/plan/memory_plan.h"
#include "contracts/settings/training/feature_table.h"
#include "engine/data/samples/instruct_data.h"
#include "engine/data/template/chat.h"
#include "engine/data/template/end_tokens.h"
#include "engine/data/template/post_processor.h"
#include "engine/model/layers/activations.h"
#include "engine/model/store/model_folder.h"
#include "engine/parallel/mesh/rank_share.h"
#include "engine/tasks/common/text_windows.h"

namespace longhaul {

namespace {

Status check_room(const ModelShape& shape, DType dtype, std::int64_t tokens_max, const Device& device) {
  EngineCase asked;
  asked.kind = "evaluate", asked.gpu = true, asked.shape = shape;
  LH_CHECK(check_engine(asked));
  Activations::Sizes sizes;
  sizes.shape = shape, sizes.dtype = dtype, sizes.training = false;
  sizes.tokens_max = sizes.rows_max = tokens_max;
  const std::int64_t weights = shape.parameter_count() * (dtype == DType::bf16 ? 6 : 4);  // masters are f32
  const std::int64_t activations = Activations::bytes_for(sizes), free = device.free_bytes();
  const auto text = [](std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  if (weights + activations + gpu_allowance <= free) return {};
  return make_error(
      ErrorCode::unavailable,
      format(
          "too little memory on {}: {} are needed, and {} are free (weights and their f32 masters {}; activations of "
          "{} tokens {}; {} for the driver, libraries and single operations)",
          device.name(), text(weights + activations + gpu_allowance), text(free), text(weights), tokens_max,
          text(activations), text(gpu_allowance)),
      "use a shorter context_length, a larger GPU, or device = \"cpu\"");
}

}  // namespace

Result<std::unique_ptr<ScoringModel>> ScoringModel::load(const TaskRun& run, const std::string& folder,
                                                         const std::string& precision, std::int64_t context_length,
                                                         bool reward) {
  auto model = std::make_unique<ScoringModel>();
  LH_TRY(const HfConfig config,
         reward ? load_any_model_config(folder) : load_model_config(folder, AdapterParts::known));
  if (config.shape.scalar_head != reward)
    return make_error(ErrorCode::invalid_input, folder + " is no reward model, which the task \"reward\" measures",
                      "a language model's own preferences are the task \"preference\"");
  LH_TRY(Tokenizer tokenizer, Tokenizer::load(join_path(folder, "tokenizer.json")));
  LH_CHECK(check_vocabulary(tokenizer, config.shape.vocab_size, folder));
  model->folder_ = folder;
  model->tokenizer_.emplace(std::move(tokenizer));
  model->context_length_ = context_length > 0 ? context_length : config.shape.text_length_max();
  if (model->context_length_ > config.shape.text_length_max())
    return make_error(ErrorCode::invalid_input,
                      format("context_length = {} is longer than the model's max_position_embeddings = {}{}",
                             model->context_length_, config.shape.max_position_embeddings,
                             config.shape.virtual_tokens > 0
                                 ? format(", of which {} stand before every text", config.shape.virtual_tokens)
                                 : ""));
  const DType dtype = precision == "bf16" ? DType::bf16 : DType::f32;
  LlamaOptions options;
  options.training = false;
  options.length_max = std::max(model->context_length_, config.shape.max_position_embeddings);
  options.tokens_max = std::max<std::int64_t>(model->context_length_ + config.shape.virtual_tokens, 4096);
  options.memory = run.memory;
  model->tokens_max_ = options.tokens_max;
  if (run.gpu != nullptr) LH_CHECK(check_room(config.shape, dtype, options.tokens_max, run.gpu->device()));
  model->store_ = std::make_unique<ParameterStore>(config.shape, dtype, run.memory);
  LH_CHECK(load_model_weights(run.compute, folder, *model->store_));
  model->llama_ = std::make_unique<Llama>(*model->store_, options);
  return model;
}

Result<std::vector<SequenceScore>> score_requests(TaskRun& run, ScoringModel& model,
                                                  std::span<const ScoreRequest> requests) {
  run.section("score");
  const RankShare share(run.group, requests.size());
  std::vector<ScoreRequest> mine;
  for (const std::size_t i : share.mine()) mine.push_back(requests[i]);
  const std::vector<std::int32_t> prompt = virtual_token_ids(model.llama().shape());
  std::deque<ChatTokens> behind_prompt;
  for (ScoreRequest& request : mine) {
    if (prompt.empty()) break;
    ChatTokens& whole = behind_prompt.emplace_back();
    whole.ids.assign(request.ids.begin(), request.ids.end());
    whole.loss_mask.assign(request.mask.begin(), request.mask.end());
    put_before(prompt, whole);
    request.ids = whole.ids, request.mask = whole.loss_mask;
  }
  return share.gather_values(
      score_sequences(run.compute, model.llama(), model.tokens_max(), mine, [&](std::size_t done) {
        run.section("score");
        run.events.progress(static_cast<double>(done), static_cast<double>(mine.size()), "sequences");
      }));
}

namespace {

void add_accuracy(std::vector<Figure>& figures, const std::string& name, double right, double trials) {
  const Interval interval = wilson_interval(right, trials);
  figures.push_back({name, trials > 0 ? right / trials : 0, ""});
  figures.push_back({name + "_low", interval.low, ""});
  figures.push_back({name + "_high", interval.high, ""});
}

// The share of right items of each of `scores.figures`.
void add_shares(std::vector<Figure>& figures, const ItemScores& scores) {
  const auto trials = static_cast<double>(scores.items.size());
  for (std::size_t i = 0; i < scores.figures.size(); ++i) {
    double right = 0;
    for (const ScoredItem& item : scores.items) right += item.right[i];
    add_accuracy(figures, scores.figures[i], right, trials);
    figures.push_back({scores.figures[i] + "_stderr", share_error(right, trials), ""});
  }
}

}  // namespace

Result<std::vector<std::int32_t>> document_start(const ScoringModel& model) {
  const std::string file = join_path(model.folder(), "tokenizer.json");
  LH_TRY(const PostProcessor around, PostProcessor::create(model.tokenizer(), file));
  if (!around.before().empty()) return around.before();
  if (const auto end = model.tokenizer().added_id(end_of_text_token)) return std::vector<std::int32_t>{*end};
  LH_TRY(const ModelTokens named, tokens_of_folder(model.folder(), model.tokenizer()));
  if (named.ends.empty())
    return make_error(
        ErrorCode::unsupported,
        format("{} names no token that begins or ends a text: the first token has nothing to follow", model.folder()),
        "add eos_token_id to its config.json");
  return std::vector<std::int32_t>{static_cast<std::int32_t>(named.ends.front())};
}

namespace {

// Its windows, as requests over `ids`, which `masks` and the caller keep.
void ask_windows(const std::vector<std::int32_t>& ids, std::int64_t context, std::int64_t stride,
                 std::deque<std::vector<std::uint8_t>>& masks, std::vector<ScoreRequest>& requests) {
  for (const TextWindow& window : text_windows(static_cast<std::int64_t>(ids.size()), context, stride)) {
    auto& mask = masks.emplace_back(static_cast<std::size_t>(window.end - window.begin), std::uint8_t{0});
    std::fill(mask.begin() + (window.scored_from - window.begin), mask.end(), std::uint8_t{1});
    requests.push_back({std::span(ids).subspan(static_cast<std::size_t>(window.begin), mask.size()), mask});
  }
}

}  // namespace

Result<std::vector<Figure>> measure_bits_per_byte(TaskRun& run, ScoringModel& model,
                                                  std::span<const std::string> documents, std::int64_t stride) {
  const std::int64_t context = model.context_length();
  if (stride <= 0) stride = std::max<std::int64_t>(1, context / 2);
  if (stride > context)
    return make_error(ErrorCode::invalid_input,
                      format("stride = {} is longer than context_length = {}", stride, context));
  LH_TRY(const std::vector<std::int32_t> start, document_start(model));
  std::deque<std::vector<std::int32_t>> texts;
  std::deque<std::vector<std::uint8_t>> masks;
  std::vector<ScoreRequest> requests;
  std::int64_t expected = 0;
  double bytes = 0;
  for (const std::string& document : documents) {
    LH_TRY(const std::vector<std::int32_t> text, model.tokenizer().encode(document));
    const std::string decoded = model.tokenizer().decode(text);
    if (decoded.size() != document.size())
      return make_error(
          ErrorCode::unsupported,
          format("the tokenizer changes the text of held-out document {} ({} bytes become {}); bits per byte would not "
                 "be comparable",
                 texts.size() + 1, document.size(), decoded.size()));
    auto& ids = texts.emplace_back(1, start.back());  // of several that stand before it, the nearest
    ids.insert(ids.end(), text.begin(), text.end());
    expected += static_cast<std::int64_t>(text.size()), bytes += static_cast<double>(document.size());
    ask_windows(ids, context, stride, masks, requests);
  }
  LH_TRY(const std::vector<SequenceScore> scores, score_requests(run, model, requests));
  double nats = 0;
  std::int64_t tokens = 0;
  for (const SequenceScore& s : scores) nats -= s.log_probability, tokens += s.tokens;
  LH_ASSERT(tokens == expected, format("{} of {} tokens were scored", tokens, expected));
  return std::vector<Figure>{{"bits_per_byte", nats / std::numbers::ln2 / bytes, "bits"},
                             {"perplexity", std::exp(nats / static_cast<double>(tokens)), ""},
                             {"heldout_documents", static_cast<double>(documents.size()), ""},
                             {"heldout_bytes", bytes, "bytes"},
                             {"heldout_tokens", static_cast<double>(tokens), "tokens"}};
}

Result<std::vector<Figure>> measure_answer_loss(TaskRun& run, ScoringModel& model, const std::string& file,
                                                std::span<const std::string> ignore) {
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(model.tokenizer(), model.folder()));
  LH_TRY(const std::vector<InstructExample> examples, read_instructions(file, ignore));
  LH_TRY(const TokenizedExamples tokenized, tokenize_instructions(examples, encoder, model.room()));
  std::vector<ScoreRequest> requests;
  for (const ChatTokens& example : tokenized.examples) requests.push_back({example.ids, example.loss_mask});
  LH_TRY(const std::vector<SequenceScore> scores, score_requests(run, model, requests));
  double nats = 0, tokens = 0;
  for (const SequenceScore& s : scores) nats -= s.log_probability, tokens += static_cast<double>(s.tokens);
  return std::vector<Figure>{{"answer_loss", nats / std::max(1.0, tokens), "nats"},
                             {"answers", static_cast<double>(requests.size()), ""},
                             {"answers_too_long", static_cast<double>(tokenized.too_long), ""}};
}

namespace {

Value side_of_pair(const SequenceScore& score) {
  Value side = Value::make_table();
  side.set("log_probability", score.log_probability);
  side.set("tokens", static_cast<std::int64_t>(score.tokens));
  return side;
}

ScoredItem item_of_pair(int line, const SequenceScore& chosen, const SequenceScore& rejected) {
  const auto per_token = [](const SequenceScore& s) {
    return s.log_probability / std::max(1.0, static_cast<double>(s.tokens));
  };
  ScoredItem item;
  item.line = line;
  item.right = {chosen.log_probability > rejected.log_probability, per_token(chosen) > per_token(rejected)};
  item.sample.set("chosen", side_of_pair(chosen));
  item.sample.set("rejected", side_of_pair(rejected));
  return item;
}

}  // namespace

Result<MeasuredItems> measure_preferences(TaskRun& run, ScoringModel& model, const std::string& file,
                                          std::span<const std::string> ignore) {
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(model.tokenizer(), model.folder()));
  LH_TRY(const std::vector<PreferenceExample> examples, read_preferences(file, ignore));
  LH_TRY(const TokenizedPreferences tokenized, tokenize_preferences(examples, encoder, model.room()));
  std::vector<ScoreRequest> requests;
  for (const PreferencePair& pair : tokenized.pairs)
    for (const ChatTokens* side : {&pair.chosen, &pair.rejected}) requests.push_back({side->ids, side->loss_mask});
  LH_TRY(const std::vector<SequenceScore> scores, score_requests(run, model, requests));
  MeasuredItems made;
  made.scores.figures = {"preference_accuracy", "preference_accuracy_per_token"};
  made.scores.compared = "preference_pairs_compared";
  double shorter = 0, longer = 0;
  for (std::size_t i = 0; i + 1 < scores.size(); i += 2) {
    const SequenceScore &chosen = scores[i], &rejected = scores[i + 1];
    made.scores.items.push_back(item_of_pair(tokenized.pairs[i / 2].line, chosen, rejected));
    shorter += chosen.tokens < rejected.tokens ? 1 : chosen.tokens == rejected.tokens ? 0.5 : 0;
    longer += chosen.tokens > rejected.tokens ? 1 : chosen.tokens == rejected.tokens ? 0.5 : 0;
  }
  const double pairs = static_cast<double>(tokenized.pairs.size());
  add_shares(made.figures, made.scores);
  add_accuracy(made.figures, "length_only_accuracy", std::max(shorter, longer), pairs);
  made.figures.push_back({"preference_pairs", pairs, ""});
  return made;
}

namespace {

struct ChoiceQuestion {
  int line = 0;
  std::size_t first = 0, answer = 0;  // the first of its choices among all sequences
  std::vector<double> bytes;          // of each choice, at least 1
};
struct ChoiceQuestions {
  std::vector<ChatTokens> sequences;  // one for each choice
  std::vector<ChoiceQuestion> questions;
};

Result<ChoiceQuestions> read_choices(const ScoringModel& model, const std::string& file) {
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(model.tokenizer(), model.folder()));
  LH_TRY(const std::string text, read_file(file));
  ChoiceQuestions made;
  LH_CHECK(for_each_json_row(text, {file, "questions"}, [&](const Value& row, int line) -> Status {
    const Value* choices = row.find("choices");
    const std::int64_t answer = row.get_integer("answer", -1);
    if (!choices || !choices->is_array() || row.get_string("question").empty() || answer < 0 ||
        answer >= static_cast<std::int64_t>(choices->size()))
      return make_error(ErrorCode::invalid_input, "not {\"question\", \"choices\": [...], \"answer\": index}");
    ChoiceQuestion question{line, made.sequences.size(), static_cast<std::size_t>(answer), {}};
    for (const Value& choice : choices->as_array()) {
      if (!choice.is_string()) return make_error(ErrorCode::invalid_input, "a choice is no text");
      const ChatMessage messages[] = {{"user", row.get_string("question")}, {"assistant", choice.as_string()}};
      LH_TRY(ChatTokens tokens, encoder.encode(messages));
      made.sequences.push_back(std::move(tokens));
      if (static_cast<std::int64_t>(made.sequences.back().ids.size()) > model.context_length() + 1)
        return make_error(ErrorCode::invalid_input, "longer than the model's context");
      question.bytes.push_back(std::max(1.0, static_cast<double>(choice.as_string().size())));
    }
    made.questions.push_back(std::move(question));
    return {};
  }));
  return made;
}

ScoredItem item_of_question(const ChoiceQuestion& question, std::span<const SequenceScore> scores) {
  std::size_t best = 0, best_per_byte = 0;
  Value sums = Value::make_array();
  const auto at = [&](std::size_t i) { return scores[i].log_probability; };
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (at(i) > at(best)) best = i;
    if (at(i) / question.bytes[i] > at(best_per_byte) / question.bytes[best_per_byte]) best_per_byte = i;
    sums.push_back(at(i));
  }
  ScoredItem item;
  item.line = question.line;
  item.right = {best == question.answer, best_per_byte == question.answer};
  item.sample.set("answer", static_cast<std::int64_t>(question.answer));
  item.sample.set("choice", static_cast<std::int64_t>(best));
  item.sample.set("choice_per_byte", static_cast<std::int64_t>(best_per_byte));
  item.sample.set("log_probabilities", std::move(sums));
  return item;
}

}  // namespace

Result<MeasuredItems> measure_choices(TaskRun& run, ScoringModel& model, const std::string& file) {
  LH_TRY(const ChoiceQuestions asked, read_choices(model, file));
  std::vector<ScoreRequest> requests;
  for (const ChatTokens& sequence : asked.sequences) requests.push_back({sequence.ids, sequence.loss_mask});
  LH_TRY(const std::vector<SequenceScore> scores, score_requests(run, model, requests));
  MeasuredItems made;
  made.scores.figures = {"choice_accuracy", "choice_accuracy_per_byte"};
  made.scores.compared = "choice_questions_compared";
  for (const ChoiceQuestion& q : asked.questions)
    made.scores.items.push_back(item_of_question(q, std::span(scores).subspan(q.first, q.bytes.size())));
  add_shares(made.figures, made.scores);
  made.figures.push_back({"choice_questions", static_cast<double>(asked.questions.size()), ""});
  return made;
}

}  // namespace longhaul

// Answers to prompts by the engine, and by reading the whole text again for each token: rollout_speed.py's program.
//
//   generation_speed MODEL PROMPTS.jsonl --way engine|whole [--answers 64] [--group 8] [--slots 64] [--longest 128]
//                    [--draft 0] [--decode-tokens 64] [--temperature 1] [--threads 2] [--seed 1] [--turns 1] [--keep 1]
//
// Prints a line of JSON: seconds, tokens of answers, tokens of prompts that were read, and with --draft how guesses
// did. The model is loaded before. With --turns each answer is followed by the first 16 tokens of its text and answered
// again; with --keep 0 every turn reads its text from the beginning.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/samples/prompt_rows.h"
#include "engine/data/template/end_tokens.h"
#include "engine/infer/generate/answer_batch.h"
#include "engine/infer/generate/rollout_model.h"
#include "engine/model/store/model_folder.h"

namespace longhaul {
namespace {

struct Options {
  std::string model, prompts;
  std::map<std::string, std::string> given = {{"way", "engine"},       {"answers", "64"},  {"group", "8"},
                                              {"slots", "64"},         {"longest", "128"}, {"draft", "0"},
                                              {"decode-tokens", "64"}, {"threads", "2"},   {"temperature", "1"},
                                              {"seed", "1"},           {"turns", "1"},     {"keep", "1"}};
  std::int64_t number(const std::string& name) const { return std::stoll(given.at(name)); }
};

struct Loaded {
  Tokenizer tokenizer;
  ModelShape shape;
  TextModelInfo info;
  std::vector<AnswerRequest> requests;
  TokenizedPrompts prompts;
};

Result<Loaded> load(const Options& options) {
  LH_TRY(Tokenizer tokenizer, Tokenizer::load(options.model + "/tokenizer.json"));
  LH_TRY(const HfConfig config, load_model_config(options.model));
  Loaded made{std::move(tokenizer), config.shape, {}, {}, {}};
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(made.tokenizer, options.model));
  LH_TRY(const ModelTokens named, tokens_of_folder(options.model, made.tokenizer));
  for (const std::int64_t id : named.ends) made.info.end_tokens.push_back(static_cast<std::int32_t>(id));
  made.info.context_length = config.shape.max_position_embeddings;
  made.info.slots = static_cast<int>(options.number("slots"));
  LH_TRY(std::vector<PromptExample> examples, read_prompts(options.prompts, false, {}));
  LH_TRY(made.prompts, tokenize_prompts(std::move(examples), encoder,
                                        config.shape.max_position_embeddings - options.number("longest")));
  return made;
}

// Of the drawn answers' tokens; `prompts` outlives the requests.
std::vector<AnswerRequest> requests_of(const TokenizedPrompts& prompts, const Options& options) {
  std::vector<AnswerRequest> requests;
  for (std::int64_t i = 0; i < options.number("answers"); ++i) {
    const auto prompt = static_cast<std::size_t>(i / options.number("group")) % prompts.ids.size();
    AnswerRequest request{prompts.ids[prompt], {}};
    request.sampling.temperature = std::stod(options.given.at("temperature"));
    request.sampling.seed = static_cast<std::uint64_t>(options.number("seed"));
    request.sampling.stream = static_cast<std::uint64_t>(i);
    requests.push_back(request);
  }
  return requests;
}

Status by_engine(const Options& options, const Loaded& loaded, InferenceWeights weights, Value& said) {
  const ComputeContext context(static_cast<int>(options.number("threads")));
  const SystemClock clock;
  RolloutModel model(context, loaded.tokenizer, loaded.shape, loaded.info);
  std::vector<AnswerRequest> requests = requests_of(loaded.prompts, options);
  std::vector<std::vector<std::int32_t>> texts;
  for (const AnswerRequest& request : requests) texts.emplace_back(request.prompt.begin(), request.prompt.end());
  AnswerBatchOptions how;
  how.max_tokens = options.number("longest"), how.draft_tokens = options.number("draft"), how.prefill_tokens = 1024;
  how.decode_tokens = options.number("decode-tokens");
  const std::int64_t begun = clock.monotonic_ns();
  model.begin(std::move(weights), loaded.info.slots, loaded.info.context_length, options.number("keep") != 0);
  std::int64_t tokens = 0, read = 0, drafted = 0, accepted = 0, steps = 0;
  for (std::int64_t turn = 0; turn < options.number("turns"); ++turn) {
    for (std::size_t i = 0; i < texts.size(); ++i) requests[i].prompt = texts[i];
    LH_TRY(const std::vector<GeneratedAnswer> answers, generate_answers(model, clock, requests, how));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const GeneratedAnswer& answer = answers[i];
      tokens += std::ssize(answer.tokens), read += answer.read, drafted += answer.drafted;
      accepted += answer.accepted, steps += answer.decode_steps;
      const std::vector<std::int32_t> reply(texts[i].begin(),
                                            texts[i].begin() + std::min<std::ptrdiff_t>(16, std::ssize(texts[i])));
      texts[i].insert(texts[i].end(), answer.tokens.begin(), answer.tokens.end());
      texts[i].insert(texts[i].end(), reply.begin(), reply.end());
    }
    if (turn == 0) said.set("first_text", answers.front().text);
  }
  said.set("seconds", static_cast<double>(clock.monotonic_ns() - begun) * 1e-9);
  said.set("tokens", tokens), said.set("read", read), said.set("drafted", drafted), said.set("accepted", accepted);
  said.set("decode_steps", steps);
  return {};
}

// Every token of every answer from a pass over its whole text, all answers that go on in one pass.
Status by_whole_texts(const Options& options, const Loaded& loaded, InferenceWeights weights, Value& said) {
  const ComputeContext context(static_cast<int>(options.number("threads")));
  const SystemClock clock;
  InferenceModel model(loaded.shape, std::move(weights));
  const std::vector<AnswerRequest> requests = requests_of(loaded.prompts, options);
  const auto vocabulary = static_cast<std::size_t>(loaded.shape.vocab_size);
  struct Text {
    std::vector<std::int32_t> ids;
    KvCache cache;
    const SamplingParameters* sampling;
    bool ended = false;
  };
  std::vector<Text> texts;
  for (const AnswerRequest& request : requests)
    texts.push_back({{request.prompt.begin(), request.prompt.end()},
                     model.make_cache(loaded.info.context_length),
                     &request.sampling});
  const std::int64_t begun = clock.monotonic_ns();
  std::int64_t tokens = 0;
  for (std::int64_t position = 0; position < options.number("longest"); ++position) {
    std::vector<SequenceStep> steps;
    std::vector<Text*> who;
    for (Text& text : texts) {
      if (text.ended) continue;
      text.cache.truncate(0);
      steps.push_back({&text.cache, text.ids}), who.push_back(&text);
    }
    if (steps.empty()) break;
    std::vector<float> logits(steps.size() * vocabulary);
    LH_CHECK(model.forward(context, steps, LogitsWanted::last, logits));
    for (std::size_t i = 0; i < who.size(); ++i, ++tokens) {
      const std::int32_t token = sample_token(std::span(logits).subspan(i * vocabulary, vocabulary), {},
                                              *who[i]->sampling, static_cast<std::uint64_t>(position));
      who[i]->ids.push_back(token);
      who[i]->ended = std::ranges::find(loaded.info.end_tokens, token) != loaded.info.end_tokens.end();
    }
  }
  said.set("seconds", static_cast<double>(clock.monotonic_ns() - begun) * 1e-9);
  said.set("tokens", tokens);
  return {};
}

Status run(const Options& options) {
  LH_TRY(Loaded loaded, load(options));
  LH_TRY(InferenceWeights weights, load_inference_weights(options.model, loaded.shape, DType::f32, nullptr));
  Value said = Value::make_table();
  LH_CHECK(options.given.at("way") == "whole" ? by_whole_texts(options, loaded, std::move(weights), said)
                                              : by_engine(options, loaded, std::move(weights), said));
  std::printf("%s\n", to_json(said).c_str());
  return {};
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  longhaul::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0)
      (options.model.empty() ? options.model : options.prompts) = word;
    else if (const auto at = options.given.find(word.substr(2)); at != options.given.end() && i + 1 < argc)
      at->second = argv[++i];
    else
      return std::fprintf(stderr, "unknown: %s\n", word.c_str()), 2;
  }
  const longhaul::Status done = longhaul::run(options);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().message().c_str());
  return done.ok() ? 0 : 1;
}

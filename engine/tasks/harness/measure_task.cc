#include "engine/tasks/harness/measure_task.h"

#include <algorithm>
#include <deque>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_text.h"
#include "engine/infer/generate/answer_batch.h"
#include "engine/parallel/mesh/rank_share.h"
#include "engine/tasks/common/text_windows.h"

namespace longhaul {

namespace {

constexpr std::size_t answers_together = 64;
constexpr std::uint64_t sampling_seed = 1234;

using Tokens = std::vector<std::int32_t>;

struct ScoredTokens {
  Tokens ids;
  std::size_t scored = 0;  // the last so many
};

// The tokens of a context and of what is scored behind it.
Result<ScoredTokens> tokens_of(const TaskRequest& request, const Tokenizer& tokenizer, const Tokens& start) {
  std::string context = request.context, behind = request.continuation;
  ScoredTokens made;
  if (context.empty()) {
    made.ids = {start.back()};
    LH_TRY(const Tokens scored, tokenizer.encode(behind, true));
    made.scored = scored.size();
    made.ids.insert(made.ids.end(), scored.begin(), scored.end());
  } else {
    const std::size_t kept = strip_text(context, false, true).size();
    behind = context.substr(kept) + behind;
    context.resize(kept);
    LH_TRY(made.ids, tokenizer.encode(context + behind, true));
    LH_TRY(const Tokens before, tokenizer.encode(context, true));
    if (before.empty()) return make_error(ErrorCode::unsupported, "a context has nothing but white space");
    made.scored = made.ids.size() - std::min(made.ids.size(), before.size());
  }
  if (made.scored == 0)
    return make_error(ErrorCode::unsupported,
                      "nothing is left to score: what follows the context has no token of its own");
  return made;
}

class TaskAsker {
 public:
  TaskAsker(TaskRun& run, EvaluatedModel& model, const EvaluationTask& task) : run_(run), model_(model), task_(task) {}

  Result<std::vector<TaskAnswer>> ask(const std::vector<TaskQuestion>& questions) {
    if (task_.output == TaskOutput::generate_until) return generate(questions);
    LH_TRY(scoring_, model_.scoring());
    LH_TRY(start_, document_start(*scoring_));
    return task_.output == TaskOutput::loglikelihood_rolling ? roll(questions) : score(questions);
  }

 private:
  Error at_row(const TaskQuestion& question, const Error& error) const {
    return error.with_context(format("row {} of the split {}", question.line, task_.evaluated_split()));
  }
  static std::span<const std::uint8_t> mask_of(std::deque<std::vector<std::uint8_t>>& masks, std::size_t size,
                                               std::size_t scored) {
    auto& mask = masks.emplace_back(size, std::uint8_t{0});
    std::fill(mask.end() - static_cast<std::ptrdiff_t>(scored), mask.end(), std::uint8_t{1});
    return mask;
  }

  Result<std::vector<TaskAnswer>> score(const std::vector<TaskQuestion>& questions) {
    const auto window = static_cast<std::size_t>(scoring_->context_length());
    std::deque<Tokens> texts;
    std::deque<std::vector<std::uint8_t>> masks;
    std::vector<ScoreRequest> requests;
    for (const TaskQuestion& question : questions)
      for (const TaskRequest& request : question.requests) {
        auto tokens = tokens_of(request, scoring_->tokenizer(), start_);
        if (!tokens.ok()) return at_row(question, tokens.error());
        if (tokens->scored > window)
          return at_row(question,
                        make_error(ErrorCode::unsupported,
                                   format("{} tokens are to be scored in a window of {}", tokens->scored, window)));
        if (tokens->ids.size() > window + 1)
          tokens->ids.erase(tokens->ids.begin(), tokens->ids.end() - static_cast<std::ptrdiff_t>(window + 1));
        const Tokens& ids = texts.emplace_back(std::move(tokens->ids));
        requests.push_back({ids, mask_of(masks, ids.size(), tokens->scored), compares()});
      }
    LH_TRY(const std::vector<SequenceScore> scores, score_requests(run_, *scoring_, requests));
    std::vector<TaskAnswer> answers;
    auto next = scores.begin();
    for (const TaskQuestion& question : questions) {
      TaskAnswer answer;
      for (std::size_t i = 0; i < question.requests.size(); ++i, ++next) {
        answer.log_probabilities.push_back(next->log_probability);
        answer.most_likely.push_back(next->most_likely);
      }
      answers.push_back(std::move(answer));
    }
    return answers;
  }

  // Whether answers are what the model would have said: asked only where a metric needs it.
  bool compares() const {
    return std::ranges::any_of(task_.metrics, [&](const TaskMetric& metric) {
      return task_.output == TaskOutput::loglikelihood ? metric.name == "acc" : metric.name == "exact_match";
    });
  }

  // Windows that do not overlap, but for the token that each of them begins behind.
  Result<std::vector<TaskAnswer>> roll(const std::vector<TaskQuestion>& questions) {
    const std::int64_t window = scoring_->context_length();
    std::deque<Tokens> texts;
    std::deque<std::vector<std::uint8_t>> masks;
    std::vector<ScoreRequest> requests;
    std::vector<std::size_t> counts;
    for (const TaskQuestion& question : questions) {
      auto text = scoring_->tokenizer().encode(question.requests.front().continuation, true);
      if (!text.ok()) return at_row(question, text.error());
      Tokens& ids = texts.emplace_back(1, start_.back());
      ids.insert(ids.end(), text->begin(), text->end());
      const auto windows = text_windows(static_cast<std::int64_t>(ids.size()), window, window);
      for (const TextWindow& one : windows)
        requests.push_back(
            {std::span(ids).subspan(static_cast<std::size_t>(one.begin), static_cast<std::size_t>(one.end - one.begin)),
             mask_of(masks, static_cast<std::size_t>(one.end - one.begin),
                     static_cast<std::size_t>(one.end - one.scored_from))});
      counts.push_back(windows.size());
    }
    LH_TRY(const std::vector<SequenceScore> scores, score_requests(run_, *scoring_, requests));
    std::vector<TaskAnswer> answers;
    auto next = scores.begin();
    for (const std::size_t count : counts) {
      double sum = 0;
      for (std::size_t i = 0; i < count; ++i) sum += (next++)->log_probability;
      answers.push_back({{sum}, {}, {}});
    }
    return answers;
  }

  Result<std::vector<Tokens>> prompts_of(const std::vector<TaskQuestion>& questions, const TextModel& model) const {
    const std::int64_t room = model.info().context_length - task_.max_gen_toks;
    if (room <= 0)
      return make_error(ErrorCode::invalid_input,
                        format("max_gen_toks = {} leaves no room for a prompt in a window of {} tokens",
                               task_.max_gen_toks, model.info().context_length),
                        "lower generation_kwargs.max_gen_toks");
    LH_TRY(const Tokenizer tokenizer, Tokenizer::load(model_.tokenizer_file()));
    std::vector<Tokens> prompts;
    for (const TaskQuestion& question : questions) {
      auto ids = tokenizer.encode(question.requests.front().context, true);
      if (!ids.ok()) return at_row(question, ids.error());
      if (ids->empty()) return at_row(question, make_error(ErrorCode::unsupported, "the prompt is empty"));
      if (static_cast<std::int64_t>(ids->size()) > room) ids->erase(ids->begin(), ids->end() - room);
      prompts.push_back(std::move(*ids));
    }
    return prompts;
  }

  // The most likely answer, as often as the task wants it, or as many as it wants that are drawn.
  Result<std::vector<TaskAnswer>> generate(const std::vector<TaskQuestion>& questions) {
    LH_TRY(TextModel* const model, model_.generating());
    LH_TRY(const std::vector<Tokens> prompts, prompts_of(questions, *model));
    const auto repeats = static_cast<std::size_t>(task_.repeats);
    const std::size_t drawn = task_.sampling.temperature > 0 ? repeats : 1;
    const RankShare share(run_.group, prompts.size() * drawn);
    LH_TRY(const std::vector<std::string> texts, share.gather(texts_of(share.mine(), prompts, drawn, *model)));
    std::vector<TaskAnswer> answers(prompts.size());
    for (std::size_t i = 0; i < texts.size(); ++i)
      answers[i / drawn].texts.insert(answers[i / drawn].texts.end(), repeats / drawn, texts[i]);
    return answers;
  }

  // Answers by their numbers among all, of which each prompt has `drawn`.
  Result<std::vector<std::string>> texts_of(const std::vector<std::size_t>& wanted, const std::vector<Tokens>& prompts,
                                            std::size_t drawn, TextModel& model) const {
    AnswerBatchOptions options;
    options.max_tokens = task_.max_gen_toks;
    options.between = [&] { run_.section("generate"); };
    std::vector<std::string> texts;
    for (std::size_t begin = 0; begin < wanted.size(); begin += answers_together) {
      run_.section("generate");
      std::vector<AnswerRequest> requests;
      for (std::size_t i = begin; i < std::min(wanted.size(), begin + answers_together); ++i)
        requests.push_back({prompts[wanted[i] / drawn], sampling_of(wanted[i]), task_.until});
      LH_TRY(const std::vector<GeneratedAnswer> made, generate_answers(model, run_.clock, requests, options));
      for (const GeneratedAnswer& one : made) texts.push_back(one.text);
      run_.events.progress(static_cast<double>(texts.size()), static_cast<double>(wanted.size()), "answers");
    }
    return texts;
  }

  SamplingParameters sampling_of(std::size_t answer) const {
    SamplingParameters sampling;
    sampling.temperature = task_.sampling.temperature;
    sampling.top_p = task_.sampling.top_p, sampling.top_k = task_.sampling.top_k;
    sampling.seed = sampling_seed, sampling.stream = answer;
    return sampling;
  }

  TaskRun& run_;
  EvaluatedModel& model_;
  const EvaluationTask& task_;
  ScoringModel* scoring_ = nullptr;
  Tokens start_;
};

}  // namespace

Result<MeasuredItems> measure_task(TaskRun& run, EvaluatedModel& model, const EvaluationTask& task,
                                   const TaskChat& chat, const ScoringTools& tools) {
  LH_TRY(const std::vector<TaskQuestion> questions, task_questions(task, chat));
  LH_TRY(const std::vector<TaskAnswer> answers, TaskAsker(run, model, task).ask(questions));
  run.section("score");
  return score_task(task, questions, answers, tools);
}

}  // namespace longhaul

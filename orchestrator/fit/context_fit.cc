#include "orchestrator/fit/context_fit.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/forecast/layout_request.h"

namespace longhaul {
namespace {

constexpr std::int64_t usual_token_bytes = 4;

std::int64_t words_in(const std::string& text) {
  std::int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!blank && !inside) ++words;
    inside = !blank;
  }
  return words;
}

// Tokens of the model's longest sequence; 0: not known.
std::int64_t context_of(const RunPlan& plan, const PlannedStage& stage) {
  const StageOrigins origins = origins_of(plan, stage);
  return origins.model ? origins.model->max_position_embeddings : 0;
}

// The most words that any prompt has, and where.
struct LongestPrompt {
  std::int64_t words = 0;
  SourcePos where;
};

LongestPrompt check_prompts(const FitCase& fit, const PlannedStage& stage, std::int64_t context, FitFindings& report) {
  LongestPrompt longest;
  const Value* prompts = stage.settings.find("prompts");
  if (prompts == nullptr || !prompts->is_array()) return longest;
  const SourcePos where = fit.place(stage, {"prompts"});
  for (std::size_t i = 0; i < prompts->as_array().size(); ++i) {
    const std::string& text = prompts->as_array()[i].as_string();
    const std::int64_t words = words_in(text);
    longest.words = std::max(longest.words, words);
    const std::string of_context = format("the model's context is {} tokens, prompt and answer together", context);
    const std::string remedy =
        format("shorten it to {} tokens, or raise model.max_position_embeddings where the model is trained",
               std::max<std::int64_t>(1, context - 1));
    if (words + 1 > context)
      report.refuse(FitSubject::context, where,
                    format("stage.{}: prompt {} has {} words, so at least as many tokens, and {}", stage.stage, i + 1,
                           words, of_context),
                    remedy);
    else if (static_cast<std::int64_t>(text.size()) / usual_token_bytes >= context)
      report.warn(FitSubject::context, where,
                  format("stage.{}: prompt {} has {} bytes, about {} tokens, and {}", stage.stage, i + 1, text.size(),
                         text.size() / usual_token_bytes, of_context),
                  remedy);
  }
  return longest;
}

// Only what the user has written: the default is a limit, and ends where the context does.
void check_longest_answer(const FitCase& fit, const PlannedStage& stage, std::int64_t context,
                          const LongestPrompt& longest, FitFindings& report) {
  const std::int64_t answer = stage.settings.get_integer("max_tokens");
  const std::int64_t prompt = std::max<std::int64_t>(1, longest.words);
  if (!fit.written.says(stage, "max_tokens") || answer + prompt <= context || prompt + 1 > context) return;
  report.refuse(
      FitSubject::context, fit.place(stage, {"max_tokens"}),
      format("stage.{}: max_tokens = {} and a prompt of at least {} token{} are more than the model's context "
             "of {}",
             stage.stage, answer, prompt, prompt == 1 ? "" : "s", context),
      format("max_tokens = {} fits; without it answers end where the context does",
             std::max<std::int64_t>(1, context - prompt)));
}

}  // namespace

void check_context_fit(const FitCase& fit, FitFindings& report) {
  for (const PlannedStage& stage : fit.plan.stages) {
    if (stage.kind != "deploy" && stage.kind != "evaluate") continue;
    const Value* prompts = stage.settings.find("prompts");
    const bool asks = prompts != nullptr && prompts->size() > 0;
    if (!asks && (stage.kind != "deploy" || !fit.written.says(stage, "max_tokens"))) continue;
    const std::int64_t context = context_of(fit.plan, stage);
    if (context <= 0) continue;
    const LongestPrompt longest = check_prompts(fit, stage, context, report);
    if (stage.kind == "deploy") check_longest_answer(fit, stage, context, longest, report);
  }
}

}  // namespace longhaul

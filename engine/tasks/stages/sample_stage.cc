#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/model/store/model_folder.h"
#include "engine/parallel/mesh/rank_share.h"
#include "engine/tasks/common/token_files.h"
#include "engine/tasks/rewards/stage_reward.h"
#include "engine/tasks/sampling/answer_sampler.h"
#include "engine/tasks/sampling/sample_figures.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

namespace {

Result<TokenizedPrompts> read_sampled_prompts(TaskRun& run, const SampleSettings& settings, bool needs_answer) {
  LH_TRY(const std::string model, run.task.input_path("model"));
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(model, "tokenizer.json")));
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(tokenizer, model));
  LH_TRY(const HfConfig config, load_model_config(model, AdapterParts::known));
  LH_CHECK(check_vocabulary(tokenizer, config.shape.vocab_size, model));
  const TextRoom context(config.shape.max_position_embeddings, config.shape.virtual_tokens);
  const TextRoom room(context.length, context.before, settings.max_new_tokens);
  if (room.tokens() < 1)
    return make_error(ErrorCode::invalid_input,
                      format("max_new_tokens = {} leaves no room for a prompt in the tokens of {}'s context: {}",
                             settings.max_new_tokens, model, context.text()),
                      "use shorter answers");
  LH_TRY(const std::string path, run.task.input_path("data"));
  LH_TRY(const std::string file, find_data_file(path, {"prompts-train.jsonl", "prompts.jsonl", "train.jsonl"}));
  LH_TRY(std::vector<PromptExample> examples, read_prompts(file, needs_answer, settings.ignore));
  LH_TRY(TokenizedPrompts prompts, tokenize_prompts(std::move(examples), encoder, room));
  if (prompts.too_long > 0)
    run.events.message("warn", format("{} prompts of {} leave no room for an answer of {} tokens in the model's "
                                      "context of {} and were left out",
                                      prompts.too_long, file, settings.max_new_tokens, context.text()));
  return prompts;
}

// Of this rank's blocks, in their order.
struct SampledBlocks {
  std::vector<std::string> rows, faults;  // faults: of a block the first answer without a reward; "": none
  std::vector<SampleSums> sums;
};

Result<SampledBlocks> sample_blocks(TaskRun& run, const SampleSettings& settings, const TokenizedPrompts& prompts,
                                    AnswerSampler& sampler, const std::vector<std::size_t>& numbers) {
  SampledBlocks made;
  for (const std::size_t number : numbers) {
    LH_TRY(AnswerSampler::Block block, sampler.block(number));
    std::string &rows = made.rows.emplace_back(), &fault = made.faults.emplace_back();
    for (const SampledGroup& group : block.groups) {
      const PromptExample& prompt = prompts.examples[group.prompt];
      const KeptRows kept = kept_rows(settings, prompt, group);
      block.judged.count(group, kept);
      rows += kept.text;
      for (const SampledAnswer& answer : group.answers)
        if (fault.empty() && !answer.reward.value) fault = format("line {}: {}", prompt.line, answer.reward.problem);
    }
    made.sums.push_back(block.judged);
    run.events.progress(static_cast<double>(made.rows.size()), static_cast<double>(numbers.size()), "blocks");
  }
  return made;
}

Status report_faults(const TaskRun& run, const SampleSums& sums, const std::vector<std::string>& faults) {
  std::string first;
  for (const std::string& fault : faults)
    if (first.empty()) first = fault;
  if (first.empty()) return {};
  if (sums.faults == sums.answers)
    return make_error(ErrorCode::invalid_input, "no answer has a reward; the first: " + first, "mend the reward");
  run.events.message("warn", format("{:.0f} of {:.0f} answers have no reward and are not kept; the first is of {}",
                                    sums.faults, sums.answers, first));
  return {};
}

Status refuse_nothing_kept(const SampleSettings& settings, const SampleSums& sums) {
  if (sums.kept_rows > 0) return {};
  const bool best = settings.keep == "best";
  return make_error(ErrorCode::invalid_input,
                    format("nothing is kept of {:.0f} answers to {:.0f} prompts: {}", sums.answers, sums.groups,
                           best ? format("none has a reward above reward_above = {:g}", settings.reward_above)
                                : format("no two to a prompt have rewards further apart than margin_above = {:g}",
                                         settings.margin_above)),
                    "raise samples, or look at the answers with keep = \"all\"");
}

}  // namespace

Status run_sample(TaskRun& run) {
  LH_TRY(const SampleSettings settings, run.settings(sample_fields()));
  LH_CHECK(check_sample(settings, {run.task.input("reward") != nullptr, run.task.input("judge") != nullptr,
                                   run.task.input("constitution") != nullptr}));
  LH_TRY(const RewardFunction reward, stage_reward(run, settings.reward, [&run] { run.section("reward"); }));
  LH_TRY(const TokenizedPrompts prompts, read_sampled_prompts(run, settings, reward.needs_answer()));
  LH_TRY(const std::unique_ptr<AnswerSampler> sampler, AnswerSampler::create(run, settings, prompts, reward));
  const RankShare share(run.group, sampler->blocks());
  auto mine = sample_blocks(run, settings, prompts, *sampler, share.mine());
  LH_CHECK(run.group.agree(mine.ok() ? Status() : Status(mine.error())));
  LH_TRY(const std::vector<std::string> rows, share.gather(std::move(mine->rows)));
  LH_TRY(const std::vector<std::string> faults, share.gather(std::move(mine->faults)));
  LH_TRY(const std::vector<SampleSums> of_blocks, share.gather_values<SampleSums>(std::move(mine->sums)));
  SampleSums sums;
  for (const SampleSums& one : of_blocks) sums.add(one);
  LH_CHECK(report_faults(run, sums, faults));
  LH_CHECK(refuse_nothing_kept(settings, sums));
  if (run.is_first())
    LH_CHECK(write_file_atomic(join_path(run.launch.output_dir, kept_file_name(settings)), join(rows, "")));
  return write_figures(run, sample_figures(settings, sums, prompts.too_long));
}

}  // namespace longhaul

#include "contracts/figures/figure_table.h"

#include <algorithm>
#include <optional>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr const char* trainings = "pretrain sft align reward";
constexpr const char* token_mean =
    "over the tokens of the global batch that have a weight: not padding, not what a mask leaves out (document_mask, "
    "the "
    "prompt in sft)";
constexpr const char* pair_mean = "over the pairs of the global batch; padding is in no answer";
constexpr const char* answer_mean =
    "over the pairs of the global batch, or of methods with rewards over its answers; padding is in no answer";
constexpr const char* all_ranks = "over the answers of one step, or of its rollout, of all ranks";
constexpr const char* of_step = "of one step";
constexpr const char* of_launch = "of the steps done by the launch that ended the stage";
constexpr const char* wilson = "its Wilson interval of 95 % is in `_low` and `_high`";
constexpr const char* paired =
    "over the lines of the file that both were asked; the paired interval of 95 % is in `_low` and `_high`";
constexpr const char* amounts_mean =
    "over all questions; an interval of 95 % by the mean's standard error is in `_low` and `_high`";
constexpr const char* questions_mean = "over all questions; the interval of Wilson, 95 %, is in `_low` and `_high`";

// clang-format off
const std::vector<FigureMeaning> rows = {
    // Trainings.
    {"loss", "nats", "pretrain sft", "step end", "mean of -ln p(next token); the auxiliary losses of experts are not part of it", token_mean, "", "engine/train/step/objective.cc"},
    {"loss", "nats", "align", "step end", "mean of the method's loss, with sft_weight the chosen answer's cross-entropy; with distill of ln p - ln q of the tokens that were drawn, p of the model and q of the teacher, which estimates the reverse divergence a token", answer_mean, "the method's paper, in engine/align", "engine/align/preference_objective.cc"},
    {"loss", "nats", "reward", "step end", "mean of -ln sigmoid(c - r - margin), c and r the model's numbers for the chosen and the rejected answer, and with center_weight so many times the mean of (c + r)^2; with method = \"attributes\" the mean of (number - value)^2 over the values that there are, with \"process\" of the cross-entropy of the steps' labels over the steps that have one", pair_mean, "Ouyang et al. 2022, arXiv:2203.02155, equation 1; Touvron et al. 2023, arXiv:2307.09288, equation 2; TRL's RewardTrainer; Wang et al. 2023, arXiv:2311.09528; Lightman et al. 2023, arXiv:2305.20050", "engine/align/scores/bradley_terry.cc"},
    {"heldout_loss", "nats", trainings, "step end", "the loss of held-out data under the present weights, without dropout", "as loss, over eval_samples held-out samples (0: all)", "", "engine/train/loop/training_loop.cc"},
    {"lr", "", trainings, "step", "learning rate of the step: schedule, phases and orders applied", of_step, "docs/workflows.md", "engine/train/optimizer/lr_schedule.cc"},
    {"grad_norm", "", trainings, "step", "sqrt(sum g^2) over all trained parameters, before clipping", "of the gradient of the mean loss of the global batch", "Pascanu et al. 2013, arXiv:1211.5063, section 3.2", "engine/train/optimizer/optimizer.cc"},
    {"consumed_samples", "samples", trainings, "step", "samples of all global batches so far, those of skipped steps included", "since step 0", "", "engine/train/step/trainer.cc"},
    {"step_s", "s", trainings, "step", "from the end of the step before to the end of this one, without saves and evaluation", of_step, "", "engine/train/loop/training_loop.cc"},
    {"tokens_per_s", "tokens/s", trainings, "step end", "tokens of all ranks' data / time; padding does not count", of_launch, "", "engine/train/loop/training_loop.cc"},
    {"computed_tokens_per_s", "tokens/s", trainings, "step end", "as tokens_per_s with padding; reported where there is padding", of_launch, "", "engine/train/loop/training_loop.cc"},
    {"gflops", "GFLOP/s", trainings, "step end", "floating-point operations of the model (three times those of a forward, nothing computed again) per token, times tokens_per_s; all ranks", of_launch, "Chowdhery et al. 2022, arXiv:2204.02311, appendix B", "contracts/model/model_shape.cc"},
    {"mfu", "", trainings, "step end", "gflops / (peak_tflops * ranks); reported where peak_tflops is set", of_launch, "Chowdhery et al. 2022, arXiv:2204.02311, appendix B", "engine/train/loop/training_loop.cc"},
    {"waited_s", "s", trainings, "step", "time in which the first rank waited for others: communication that nothing hid", of_step, "", "engine/train/step/trainer.cc"},
    {"sent_AXIS_bytes", "bytes", trainings, "step", "what the first rank sent to the ranks of one axis of the mesh", of_step, "", "engine/comm"},
    {"gpu_compute_s", "s", trainings, "step", "time of the rank's kernels that are not NCCL's; with trace.kernels", of_step, "", "engine/train/loop/training_kernels.cc"},
    {"gpu_communication_s", "s", trainings, "step", "time of the rank's kernels of NCCL; with trace.kernels", of_step, "", "engine/train/loop/training_kernels.cc"},
    {"aux_loss", "", trainings, "step", "balancing loss of the experts, summed over layers, with its coefficient", "over the tokens that are routed", "moe.aux_loss: Megatron-LM's or Hugging Face's definition", "engine/model/experts/moe_state.cc"},
    {"z_loss", "", trainings, "step", "coefficient times the mean of ln(sum exp(logits))^2 of the router, summed over layers", "over the tokens that are routed", "Zoph et al. 2022, arXiv:2202.08906, equation 5", "engine/model/experts/moe_state.cc"},
    {"expert_load_worst", "", trainings, "step", "largest (most loaded expert's tokens / even share) of all layers", "over the tokens of the global batch", "", "engine/model/experts/moe_state.cc"},
    {"expert_load_mean", "", trainings, "step", "mean over the layers of (most loaded expert's tokens / even share)", "over the tokens of the global batch", "", "engine/model/experts/moe_state.cc"},
    {"accuracy", "", "align", "step", "share of pairs whose chosen answer has the larger log-ratio to the reference (without one: the larger log-probability); with kto share of answers on their side of divergence_estimate, good ones above it; with grpo, rloo, reinforce++, ppo share of answers whose reward is 1 or more", answer_mean, "Rafailov et al. 2023, arXiv:2305.18290", "engine/align/preference_objective.cc"},
    {"reward", "", "align", "step", "mean reward of the answers; a missing one counts as 0", all_ranks, "", "engine/align/policy_objective.cc"},
    {"kl", "nats", "align", "step", "mean over answers of the mean over tokens of exp(f - l) - (f - l) - 1, l and f the token's log-probabilities under the model and the reference, with distill the teacher; 0 with beta = 0", all_ranks, "Shao et al. 2024, arXiv:2402.03300, equation 4", "engine/align/policy_objective.cc"},
    {"clip_fraction", "", "align", "step", "share of an answer's tokens whose bounded ratio counts, averaged over answers; with rollout.importance_cap the ratio is p / q of importance_ratio", all_ranks, "Schulman et al. 2017, arXiv:1707.06347", "engine/align/policy_objective.cc"},
    {"importance_ratio", "", "align", "step", "mean over answers of the mean over tokens of p / q, p a token's probability in the forward of training and q that under which it was drawn, without the bound; with rollout.importance_cap", all_ranks, "Yao et al. 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training", "engine/align/policy_loss.cc"},
    {"importance_ratio_max", "", "align", "step", "the largest p / q of importance_ratio; with rollout.importance_cap", "over the tokens of one step, of all ranks", "", "engine/align/policy_loss.cc"},
    {"answer_tokens", "tokens", "align", "step", "mean length of the answers, the tokens that end them included", all_ranks, "", "engine/tasks/rollouts/rollout_figures.cc"},
    {"answers_cut", "", "align", "step", "share of answers without an end at rollout.max_new_tokens, with rollout.turns also of conversations for whose next turn sequence_length left no room; with rollout.overlong = \"filter\" of those that are not learnt from", all_ranks, "", "engine/tasks/rollouts/rollout_figures.cc"},
    {"equal_groups", "", "align", "step", "share of groups whose rewards are all equal, which teach nothing; those that were replaced do not count", all_ranks, "Yu et al. 2025, arXiv:2503.14476, section 3.2", "engine/tasks/rollouts/rollout_figures.cc"},
    {"redrawn_groups", "", "align", "step", "groups that were replaced because their rewards were all equal, by those of the step; with rollout.redraws", all_ranks, "Yu et al. 2025, arXiv:2503.14476, section 3.2", "engine/tasks/rollouts/rollout_figures.cc"},
    {"drawn_reward", "", "align", "step", "mean reward of all answers that were drawn, those of replaced groups included; with rollout.redraws", "over the answers that were drawn in one step, of all ranks", "", "engine/tasks/rollouts/rollout_figures.cc"},
    {"answers_shaped", "", "align", "step", "share of answers whose length costs something of their reward; with rollout.overlong = \"shape\"", all_ranks, "Yu et al. 2025, arXiv:2503.14476, equation 13", "engine/align/overlong.h"},
    {"overlong_penalty", "", "align", "step", "mean of what the lengths of answers cost: advantages are of rewards less it, while reward and reward_deviation are without; with rollout.overlong = \"shape\"", all_ranks, "Yu et al. 2025, arXiv:2503.14476, equation 13", "engine/align/overlong.h"},
    {"draft_tokens", "tokens", "align", "step", "tokens of an answer that were guessed before they were drawn; with rollout.speculate", all_ranks, "Leviathan et al. 2023, arXiv:2211.17192", "engine/tasks/rollouts/rollout_figures.cc"},
    {"drafts_accepted", "", "align", "step", "share of the guessed tokens that were then drawn; with rollout.speculate", all_ranks, "Leviathan et al. 2023, arXiv:2211.17192", "engine/tasks/rollouts/rollout_figures.cc"},
    {"tokens_per_step", "", "align", "step", "tokens of an answer, the first apart, by the model's steps for them: 1 where nothing is guessed rightly; with rollout.speculate", all_ranks, "Leviathan et al. 2023, arXiv:2211.17192", "engine/tasks/rollouts/rollout_figures.cc"},
    {"reward_faults", "", "align", "step", "answers without a reward, those of replaced groups included: the command printed no number, failed or was too late; the endpoint gave none", all_ranks, "", "engine/tasks/rollouts/rollout_figures.cc"},
    {"entropy", "nats", "align", "step", "mean of -ln p of the tokens that were drawn, an estimate of the entropy of the next token", all_ranks, "", "engine/tasks/rollouts/rollout_figures.cc"},
    {"reshard_s", "s", "align", "step", "time of the slowest rank to gather the weights from the ranks of tp, pp and ZeRO 3 and take them over for generating", of_step, "", "engine/tasks/rollouts/rollout_source.cc"},
    {"generate_s", "s", "align", "step", "time of the slowest rank to generate its answers", of_step, "", "engine/tasks/rollouts/rollout_source.cc"},
    {"turns", "", "align", "step", "mean number of the model's turns in a conversation; with rollout.turns above 1", of_step, "", "engine/tasks/rollouts/rollout_figures.cc"},
    {"read_tokens", "tokens", "align", "step", "mean over conversations of the tokens that the model read before its turns: neither what it wrote, nor what its caches held of earlier turns or of another answer to the same prompt; with rollout.turns above 1", all_ranks, "", "engine/tasks/rollouts/rollout_figures.cc"},
    {"environment_faults", "", "align", "step", "conversations in which the environment gave no reply: they have no reward, and count among reward_faults, too; with rollout.turns above 1", all_ranks, "", "engine/tasks/rollouts/rollout_figures.cc"},
    {"environment_s", "s", "align", "step", "time for which the slowest rank waited for its environment; with rollout.turns above 1", of_step, "", "engine/tasks/rollouts/rollout_source.cc"},
    {"reward_s", "s", "align", "step", "time of the slowest rank to judge its answers", of_step, "", "engine/tasks/rollouts/rollout_source.cc"},
    {"reference_s", "s", "align", "step", "time of the slowest rank for the log-probabilities of the reference, with distill of the teacher", of_step, "", "engine/tasks/rollouts/rollout_source.cc"},
    {"wait_s", "s", "align", "step", "time of the slowest rank to wait for answers that are drawn beside the step before; with rollout.ahead", of_step, "", "engine/tasks/rollouts/rollouts.cc"},
    {"reward_deviation", "", "align", "step", "sample deviation of the rewards of answers that have one", "over the answers of one rollout, of all ranks", "", "engine/tasks/rollouts/rollout_figures.cc"},
    {"kl_coefficient", "", "align", "step", "ppo: beta of the rollout that the step learns from", "as ppo.kl_target changes it", "Ziegler et al. 2019, arXiv:1909.08593, section 2.2; verl, AdaptiveKLController", "engine/align/critic/token_reward.cc"},
    {"kl_penalty", "nats", "align", "step", "ppo: mean over tokens of the estimate ppo.kl of the divergence from the reference, of which every token's reward is kl_coefficient times less", "over the tokens of one rollout, of all ranks", "Schulman 2020, Approximating KL Divergence", "engine/align/critic/token_reward.cc"},
    {"explained_variance", "", "align", "step", "ppo: 1 - sum of (A - mean A)^2 / sum of (R - mean R)^2, A the advantages before they are whitened and R the returns: the share of the returns that the critic's values explain", "over the tokens of one rollout, of all ranks", "OpenAI baselines, explained_variance", "engine/tasks/rollouts/token_credit.cc"},
    {"value_loss", "", "align", "step", "ppo: the critic's loss, a mean as rollout.average says", "over the answers of one step, of all ranks", "Huang et al. 2022, The 37 Implementation Details of Proximal Policy Optimization, detail 9", "engine/align/critic/value_loss.cc"},
    {"value_clip_fraction", "", "align", "step", "ppo: share of an answer's tokens whose bounded value counts, averaged over answers", "over the answers of one step, of all ranks", "", "engine/align/critic/value_objective.cc"},
    {"value", "", "align", "step", "ppo: mean of the critic's values of an answer's tokens, averaged over answers", "over the answers of one step, of all ranks", "", "engine/align/critic/value_objective.cc"},
    {"critic_grad_norm", "", "align", "step", "ppo: grad_norm of the critic", of_step, "as grad_norm", "engine/train/optimizer/optimizer.cc"},
    {"value_s", "s", "align", "step", "ppo: time of the slowest rank for the critic's values of its answers", of_step, "", "engine/tasks/rollouts/rollout_source.cc"},
    {"critic_s", "s", "align", "step", "ppo: time of the critic's own update", of_step, "", "engine/tasks/rollouts/rollout_source.cc"},
    {"heldout_answer_tokens", "tokens", "align", "end", "answer_tokens of the likeliest answers to held-out prompts, with distill of drawn ones", "over the held-out prompts", "as answer_tokens", "engine/tasks/rollouts/heldout_rollouts.cc"},
    {"heldout_answers_cut", "", "align", "end", "answers_cut of the likeliest answers to held-out prompts, with distill of drawn ones", "over the held-out prompts", "as answers_cut", "engine/tasks/rollouts/heldout_rollouts.cc"},
    {"heldout_turns", "", "align", "end", "turns of the conversations that held-out prompts begin; with rollout.turns above 1", "over the held-out prompts", "", "engine/tasks/rollouts/heldout_rollouts.cc"},
    {"heldout_environment_faults", "", "align", "end", "environment_faults of held-out prompts; with rollout.turns above 1", "over the held-out prompts", "", "engine/tasks/rollouts/heldout_rollouts.cc"},
    {"heldout_reward_deviation", "", "align", "end", "reward_deviation of the likeliest answers to held-out prompts", "over the held-out prompts", "as reward_deviation", "engine/tasks/rollouts/heldout_rollouts.cc"},
    {"train_s", "s", "align", "step", "step_s less reshard_s, generate_s, environment_s, reward_s, reference_s and other_s, and with ppo value_s and critic_s; with rollout.ahead, where those of answers lie beside a step, less reshard_s, wait_s and other_s", of_step, "", "engine/tasks/rollouts/rollout_source.cc"},
    {"other_s", "s", "align", "step", "time of the first rank for what is done for the step's batch and none of the phases: figures of all ranks, advantages, rows, waiting for slower ranks", of_step, "", "engine/tasks/rollouts/rollout_source.cc"},
    {"heldout_reward", "", "align", "step end", "mean reward of the likeliest answers (temperature 0) to held-out prompts", "over the held-out prompts", "as reward", "engine/train/loop/training_loop.cc"},
    {"heldout_kl", "nats", "align", "step end", "kl of the likeliest answers to held-out prompts, with distill of drawn ones", "over the held-out prompts", "as kl", "engine/train/loop/training_loop.cc"},
    {"heldout_clip_fraction", "", "align", "step end", "clip_fraction of the likeliest answers to held-out prompts, with distill of drawn ones", "over the held-out prompts", "as clip_fraction", "engine/train/loop/training_loop.cc"},
    {"heldout_importance_ratio", "", "align", "step end", "importance_ratio of the likeliest answers to held-out prompts, with distill of drawn ones", "over the held-out prompts", "as importance_ratio", "engine/train/loop/training_loop.cc"},
    {"heldout_importance_ratio_max", "", "align", "step end", "the largest p / q of heldout_importance_ratio", "over the tokens of the answers to held-out prompts", "", "engine/train/loop/training_loop.cc"},
    {"prompts", "", "align", "end", "prompts that are answered in training", "", "", "engine/tasks/stages/rollout_stage.cc"},
    {"prompts_too_long", "", "align", "end", "prompts that were left out because no answer fits behind them", "", "", "engine/tasks/stages/rollout_stage.cc"},
    {"heldout_prompts", "", "align", "end", "prompts that are held out", "", "", "engine/tasks/stages/rollout_stage.cc"},
    {"margin", "", "align", "step", "mean of the log-ratio of the chosen answer minus the rejected one's; with kto mean of the answers' log-ratios, of bad ones with the sign turned", pair_mean, "TRL, `rewards/margins` / beta", "engine/align/preference_objective.cc"},
    {"divergence_estimate", "nats", "align", "step", "kto: max(0, mean log-ratio of prompts with the answers to other prompts), by the weights before the step", "over as many as the global batch has answers", "Ethayarajh et al. 2024, arXiv:2402.01306, section 4.1", "engine/align/labels/label_loss.cc"},
    {"chosen_reward", "", "align", "step", "beta times the mean log-ratio of the chosen answers", pair_mean, "TRL, `rewards/chosen`", "engine/align/preference_objective.cc"},
    {"rejected_reward", "", "align", "step", "beta times the mean log-ratio of the rejected answers", pair_mean, "TRL, `rewards/rejected`", "engine/align/preference_objective.cc"},
    {"heldout_accuracy", "", "align", "step end", "accuracy of the held-out pairs, or of the likeliest answers to held-out prompts", "over the held-out pairs or prompts", "as accuracy", "engine/train/loop/training_loop.cc"},
    {"heldout_margin", "", "align", "step end", "margin of the held-out pairs", "over the held-out pairs", "as margin", "engine/train/loop/training_loop.cc"},
    {"heldout_divergence_estimate", "nats", "align", "step end", "kto: divergence_estimate of held-out answers, of each micro-batch by itself", "over the held-out answers", "as divergence_estimate", "engine/tasks/stages/label_stage.cc"},
    {"answers", "", "align", "end", "kto: answers that are learnt from", "", "", "engine/tasks/stages/label_stage.cc"},
    {"desirable_answers", "", "align", "end", "kto: those of them whose label is true", "", "", "engine/tasks/stages/label_stage.cc"},
    {"heldout_answers", "", "align", "end", "kto: answers that are held out", "", "", "engine/tasks/stages/label_stage.cc"},
    {"heldout_chosen_reward", "", "align", "step end", "chosen_reward of the held-out pairs", "over the held-out pairs", "as chosen_reward", "engine/train/loop/training_loop.cc"},
    {"heldout_rejected_reward", "", "align", "step end", "rejected_reward of the held-out pairs", "over the held-out pairs", "as rejected_reward", "engine/train/loop/training_loop.cc"},
    {"steps", "steps", trainings, "end", "optimizer steps done, those of earlier launches included", "", "", "engine/tasks/common/training_stage.cc"},
    {"steps_planned", "steps", trainings, "end", "steps that were asked for, where an order ended the training before", "", "", "engine/tasks/common/training_stage.cc"},
    {"parameters", "", "pretrain sft align reward convert", "end", "numbers in the model's weights; tied ones once, an adapter's not", "", "", "contracts/model/model_shape.cc"},
    {"memory_held", "bytes", trainings, "end", "most memory that one rank held at a time", "the rank that held most", "", "engine/tasks/common/training_stage.cc"},
    {"memory_planned", "bytes", trainings, "end", "what the plan of memory says of that rank", "the same rank", "", "contracts/plan"},
    {"steered", "", trainings, "end", "1 where orders changed what the settings alone would have given, or no model was asked for", "", "", "engine/tasks/common/training_stage.cc"},
    {"phases", "", trainings, "end", "number of phases", "", "", "engine/tasks/common/training_stage.cc"},
    {"skipped_steps", "steps", trainings, "end", "bad steps whose update was left out", "since step 0", "", "engine/train/step/spike_guard.cc"},
    {"rollbacks", "", trainings, "end", "how often a bad step led back to a checkpoint", "of this job", "", "engine/train/loop/training_roll_back.cc"},
    {"in_process_restarts", "", trainings, "end", "restarts in which the processes stayed", "of this job", "", "engine/train/loop/training_restart.cc"},
    {"examples", "", "sft", "end", "examples that are trained", "", "", "engine/tasks/stages/sft_stage.cc"},
    {"examples_too_long", "", "sft", "end", "examples that were left out for their length", "", "", "engine/tasks/stages/sft_stage.cc"},
    {"packed_rows", "", "sft", "end", "rows in which the examples are packed; with packing", "", "", "engine/tasks/stages/sft_stage.cc"},
    {"heldout_examples", "", "sft", "end", "examples that are held out", "", "", "engine/tasks/stages/sft_stage.cc"},
    {"accuracy", "", "reward", "step", "share of pairs whose chosen answer has the larger number; ties are not right; with method = \"process\" share of the labelled steps whose number is on the label's side of one half", pair_mean, "TRL, `accuracy`", "engine/align/scores/score_objective.cc"},
    {"margin", "", "reward", "step", "mean of the chosen answer's number less the rejected one's", pair_mean, "TRL, `margin`", "engine/align/scores/score_objective.cc"},
    {"chosen_reward", "", "reward", "step", "mean number of the chosen answers", pair_mean, "", "engine/align/scores/score_objective.cc"},
    {"rejected_reward", "", "reward", "step", "mean number of the rejected answers", pair_mean, "", "engine/align/scores/score_objective.cc"},
    {"heldout_accuracy", "", "reward", "step end", "accuracy of the held-out pairs; at the end its Wilson interval of 95 % is in `_low` and `_high`", "over the held-out pairs", "Wilson 1927", "engine/tasks/rewards/reward_accuracy.cc"},
    {"heldout_accuracy_CATEGORY", "", "reward", "end", "the same of the pairs of one category; with `category` in the rows", wilson, "", "engine/tasks/rewards/reward_accuracy.cc"},
    {"heldout_margin", "", "reward", "step end", "margin of the held-out pairs", "over the held-out pairs", "as margin", "engine/train/loop/training_loop.cc"},
    {"heldout_chosen_reward", "", "reward", "step end", "chosen_reward of the held-out pairs", "over the held-out pairs", "as chosen_reward", "engine/train/loop/training_loop.cc"},
    {"heldout_rejected_reward", "", "reward", "step end", "rejected_reward of the held-out pairs", "over the held-out pairs", "as rejected_reward", "engine/train/loop/training_loop.cc"},
    {"heldout_length_only_accuracy", "", "reward", "end", "what always taking the shorter, or always the longer answer would reach on the held-out pairs, the better of both; equal lengths are half right", wilson, "", "engine/tasks/rewards/reward_accuracy.cc"},
    {"heldout_pairs_CATEGORY", "", "reward", "end", "held-out pairs of one category", "", "", "engine/tasks/rewards/reward_accuracy.cc"},
    {"pairs", "", "align reward", "end", "pairs that are trained", "", "", "engine/tasks/stages/align_stage.cc"},
    {"pairs_too_long", "", "reward", "end", "pairs that were left out for their length", "", "", "engine/tasks/stages/reward_stage.cc"},
    {"heldout_pairs", "", "align reward", "end", "pairs that are held out", "", "", "engine/tasks/stages/align_stage.cc"},
    {"absolute_error", "", "reward", "step", "with method = \"attributes\": mean of |number - value|", "over the values of the global batch", "", "engine/align/scores/attribute_objective.cc"},
    {"right_steps", "", "reward", "step", "with method = \"process\": share of steps that the model takes for right", "over the labelled steps of the global batch", "", "engine/align/scores/step_objective.cc"},
    {"heldout_absolute_error", "", "reward", "step end", "absolute_error of the held-out answers", "over their values", "", "engine/train/loop/training_loop.cc"},
    {"heldout_right_steps", "", "reward", "step end", "right_steps of the held-out answers", "over their labelled steps", "", "engine/train/loop/training_loop.cc"},
    {"answers", "", "reward", "end", "with method = \"attributes\" or \"process\": answers that are trained", "", "", "engine/tasks/stages/reward_stage.cc"},
    {"answers_too_long", "", "reward", "end", "answers that were left out for their length", "", "", "engine/tasks/stages/reward_stage.cc"},
    {"heldout_answers", "", "reward", "end", "answers that are held out", "", "", "engine/tasks/stages/reward_stage.cc"},
    {"heldout_values_CATEGORY", "", "reward", "end", "answers that have a value of one attribute", "", "", "engine/tasks/rewards/rating_figures.cc"},
    {"heldout_mse_CATEGORY", "", "reward", "end", "of one attribute the mean of (number - value)^2", "over the answers that have a value", "Wang et al. 2023, arXiv:2311.09528", "engine/tasks/rewards/rating_figures.cc"},
    {"heldout_mean_only_mse_CATEGORY", "", "reward", "end", "the same with the mean of the values in place of the number: what a model that reads nothing would have", "over the answers that have a value", "", "engine/tasks/rewards/rating_figures.cc"},
    {"heldout_pearson_CATEGORY", "", "reward", "end", "correlation of an attribute's numbers and values; left out where either is constant", "over the answers that have a value; Fisher's interval of 95 % is in `_low` and `_high`", "Fisher 1915", "engine/tasks/rewards/rating_figures.cc"},
    {"heldout_step_accuracy", "", "reward", "end", "share of labelled steps whose number is on the label's side of one half", wilson, "", "engine/tasks/rewards/rating_figures.cc"},
    {"heldout_wrong_accuracy", "", "reward", "end", "of answers with a wrong step, the share whose first one is found: the first that is not likelier right than wrong", wilson, "Zheng et al. 2024, arXiv:2412.06559, section 3.3", "engine/tasks/rewards/rating_figures.cc"},
    {"heldout_right_accuracy", "", "reward", "end", "of answers without a wrong step, the share in which none is found", wilson, "Zheng et al. 2024, arXiv:2412.06559, section 3.3", "engine/tasks/rewards/rating_figures.cc"},
    {"heldout_first_error_f1", "", "reward", "end", "harmonic mean of wrong_accuracy and right_accuracy", "over the answers whose labels say where the first wrong step is", "Zheng et al. 2024, arXiv:2412.06559, section 3.3", "engine/tasks/rewards/rating_figures.cc"},
    {"heldout_wrong_accuracy_CATEGORY", "", "reward", "end", "the same of the answers of one category", "", "", "engine/tasks/rewards/rating_figures.cc"},
    {"heldout_right_accuracy_CATEGORY", "", "reward", "end", "the same of the answers of one category", "", "", "engine/tasks/rewards/rating_figures.cc"},
    {"heldout_first_error_f1_CATEGORY", "", "reward", "end", "the same of the answers of one category", "", "", "engine/tasks/rewards/rating_figures.cc"},
    // Drawn answers.
    {"prompts", "", "sample", "end", "prompts that were answered", "", "", "engine/tasks/sampling/sample_figures.cc"},
    {"prompts_too_long", "", "sample", "end", "prompts that leave no room for an answer of max_new_tokens in the model's context, and were left out", "", "", "engine/tasks/stages/sample_stage.cc"},
    {"answers", "", "sample", "end", "answers that were drawn: samples for each prompt", "", "", "engine/tasks/sampling/sample_figures.cc"},
    {"answer_tokens", "tokens", "sample", "end", "mean length of the answers, the tokens that end them included", "over all answers", "", "engine/tasks/sampling/sample_figures.cc"},
    {"answers_cut", "", "sample", "end", "share of answers without an end at max_new_tokens", "over all answers", "", "engine/tasks/sampling/sample_figures.cc"},
    {"reward", "", "sample", "end", "mean reward of the answers; of a judge always one half but for missing ones", "over the answers that have a reward", "", "engine/tasks/sampling/sample_figures.cc"},
    {"reward_deviation", "", "sample", "end", "standard deviation of the rewards", "over the answers that have a reward", "", "engine/tasks/sampling/sample_figures.cc"},
    {"reward_faults", "", "sample", "end", "answers without a reward: a command that printed no number or an endpoint that gave none, a number that is none, a question longer than the judge's context", "", "", "engine/tasks/sampling/sample_figures.cc"},
    {"best_reward", "", "sample", "end", "mean over prompts of the largest reward of their answers", "over the prompts with an answer that has a reward", "", "engine/tasks/sampling/sample_figures.cc"},
    {"accuracy", "", "sample", "end", "share of answers whose reward is 1 or more; not of a reward model or a judge", "over all answers; with samples = 1 its Wilson interval of 95 % is in `_low` and `_high`", "", "engine/tasks/sampling/sample_figures.cc"},
    {"best_accuracy", "", "sample", "end", "share of prompts with an answer whose reward is 1 or more", wilson, "Chen et al. 2021, arXiv:2107.03374, pass@k with k = samples", "engine/tasks/sampling/sample_figures.cc"},
    {"equal_groups", "", "sample", "end", "share of prompts whose answers have equal rewards; with samples above 1", "over all prompts", "", "engine/tasks/sampling/sample_figures.cc"},
    {"kept_rows", "", "sample", "end", "rows of the artifact", "", "", "engine/tasks/sampling/sample_figures.cc"},
    {"kept_prompts", "", "sample", "end", "share of prompts of which a row is kept", "over all prompts", "Dong et al. 2023, arXiv:2304.06767", "engine/tasks/sampling/sample_figures.cc"},
    {"comparisons", "", "sample", "end", "pairs of answers with different texts that a judge compared, each in both orders", "", "", "engine/tasks/sampling/sample_figures.cc"},
    {"order_flips", "", "sample", "end", "share of these comparisons in which the judge prefers another answer when the two change places", "over all comparisons", "Zheng et al. 2023, arXiv:2306.05685, section 3.4", "engine/tasks/sampling/sample_figures.cc"},
    {"letter_probability", "", "sample", "end", "mean probability that the judge's own answer begins with A or B", "over all comparisons, both orders", "", "engine/tasks/sampling/sample_figures.cc"},
    // Evaluation.
    {"bits_per_byte", "bits", "evaluate", "end", "sum of -log2 p(token | its document before it) / bytes of the documents", "over all held-out documents, each by itself: long ones in windows of the context with `stride`, every token scored once; a document's first token follows the token that begins a text", "Gao et al. 2020, arXiv:2101.00027, section 3.1", "engine/tasks/common/measure.cc"},
    {"perplexity", "", "evaluate", "end", "exp(mean of -ln p(token))", "over the same tokens as bits_per_byte", "", "engine/tasks/common/measure.cc"},
    {"heldout_documents", "", "evaluate", "end", "documents that were scored", "", "", "engine/tasks/common/measure.cc"},
    {"heldout_bytes", "bytes", "evaluate", "end", "their UTF-8 bytes", "", "", "engine/tasks/common/measure.cc"},
    {"heldout_tokens", "tokens", "evaluate", "end", "their tokens", "", "", "engine/tasks/common/measure.cc"},
    {"answer_loss", "nats", "evaluate", "end", "mean of -ln p(token) of the assistant's turns", "over the tokens that sft would train; examples longer than the context are left out", "", "engine/tasks/common/measure.cc"},
    {"answers", "", "evaluate", "end", "examples that were scored", "", "", "engine/tasks/common/measure.cc"},
    {"answers_too_long", "", "evaluate", "end", "examples that were left out for their length", "", "", "engine/tasks/common/measure.cc"},
    {"preference_accuracy", "", "evaluate", "end", "share of pairs whose chosen answer has the larger sum of ln p; ties are not right", wilson, "Wilson 1927", "engine/tasks/common/measure.cc"},
    {"preference_accuracy_per_token", "", "evaluate", "end", "the same with the mean of ln p per token", wilson, "", "engine/tasks/common/measure.cc"},
    {"preference_accuracy_stderr", "", "evaluate", "end", "sqrt(p (1 - p) / (n - 1)), p the share of right items, n their number", "over all pairs", "lm-evaluation-harness, `acc_stderr`", "engine/tasks/scores/intervals.cc"},
    {"preference_accuracy_difference", "", "evaluate", "end", "preference_accuracy of the model less that of the baseline", paired, "Newcombe 1998, Statistics in Medicine 17, method 10", "engine/tasks/scores/intervals.cc"},
    {"preference_accuracy_per_token_stderr", "", "evaluate", "end", "sqrt(p (1 - p) / (n - 1)), p the share of right items, n their number", "over all pairs", "lm-evaluation-harness, `acc_stderr`", "engine/tasks/scores/intervals.cc"},
    {"preference_accuracy_per_token_difference", "", "evaluate", "end", "preference_accuracy_per_token of the model less that of the baseline", paired, "Newcombe 1998, Statistics in Medicine 17, method 10", "engine/tasks/scores/intervals.cc"},
    {"length_only_accuracy", "", "evaluate", "end", "what always taking the shorter, or always the longer answer would reach, the better of both; equal lengths are half right", wilson, "", "engine/tasks/common/measure.cc"},
    {"preference_pairs", "", "evaluate", "end", "pairs that were scored", "", "", "engine/tasks/common/measure.cc"},
    {"preference_pairs_compared", "", "evaluate", "end", "pairs that the model and the baseline were both asked", "", "", "engine/tasks/scores/paired_scores.cc"},
    {"reward_accuracy", "", "evaluate", "end", "share of pairs whose chosen answer gets the larger number from a reward model; ties are not right", wilson, "Wilson 1927", "engine/tasks/rewards/reward_accuracy.cc"},
    {"reward_accuracy_stderr", "", "evaluate", "end", "sqrt(p (1 - p) / (n - 1)), p the share of right items, n their number", "over all pairs", "lm-evaluation-harness, `acc_stderr`", "engine/tasks/scores/intervals.cc"},
    {"reward_accuracy_difference", "", "evaluate", "end", "reward_accuracy of the model less that of the baseline", paired, "Newcombe 1998, Statistics in Medicine 17, method 10", "engine/tasks/scores/intervals.cc"},
    {"reward_accuracy_CATEGORY", "", "evaluate", "end", "the same of the pairs of one category; with `category` or `subset` in the rows", wilson, "RewardBench, arXiv:2403.13787, accuracy of a subset", "engine/tasks/rewards/reward_accuracy.cc"},
    {"reward_length_only_accuracy", "", "evaluate", "end", "what always taking the shorter, or always the longer answer would reach, the better of both; equal lengths are half right", wilson, "", "engine/tasks/rewards/reward_accuracy.cc"},
    {"reward_pairs", "", "evaluate", "end", "pairs that were judged", "", "", "engine/tasks/rewards/measure_rewards.cc"},
    {"reward_pairs_CATEGORY", "", "evaluate", "end", "pairs of one category that were judged", "", "", "engine/tasks/rewards/reward_accuracy.cc"},
    {"reward_pairs_too_long", "", "evaluate", "end", "pairs that were left out for their length", "", "", "engine/tasks/rewards/measure_rewards.cc"},
    {"reward_pairs_compared", "", "evaluate", "end", "pairs that the model and the baseline were both asked", "", "", "engine/tasks/scores/paired_scores.cc"},
    {"reward_values_CATEGORY", "", "evaluate", "end", "answers that have a value of one attribute", "", "", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_mse_CATEGORY", "", "evaluate", "end", "of one attribute the mean of (number - value)^2", "over the answers that have a value", "Wang et al. 2023, arXiv:2311.09528", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_mean_only_mse_CATEGORY", "", "evaluate", "end", "the same with the mean of the values in place of the number: what a model that reads nothing would have", "over the answers that have a value", "", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_pearson_CATEGORY", "", "evaluate", "end", "correlation of an attribute's numbers and values; left out where either is constant", "over the answers that have a value; Fisher's interval of 95 % is in `_low` and `_high`", "Fisher 1915", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_step_accuracy", "", "evaluate", "end", "share of labelled steps whose number is on the label's side of one half", wilson, "", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_wrong_accuracy", "", "evaluate", "end", "of answers with a wrong step, the share whose first one is found: the first that is not likelier right than wrong", wilson, "Zheng et al. 2024, arXiv:2412.06559, section 3.3", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_right_accuracy", "", "evaluate", "end", "of answers without a wrong step, the share in which none is found", wilson, "Zheng et al. 2024, arXiv:2412.06559, section 3.3", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_first_error_f1", "", "evaluate", "end", "harmonic mean of wrong_accuracy and right_accuracy", "over the answers whose labels say where the first wrong step is", "Zheng et al. 2024, arXiv:2412.06559, section 3.3", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_wrong_accuracy_CATEGORY", "", "evaluate", "end", "the same of the answers of one category", "", "", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_right_accuracy_CATEGORY", "", "evaluate", "end", "the same of the answers of one category", "", "", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_first_error_f1_CATEGORY", "", "evaluate", "end", "the same of the answers of one category", "", "", "engine/tasks/rewards/rating_figures.cc"},
    {"reward_mse", "", "evaluate", "end", "mean of (number - value)^2 over all attributes", "over all values; the difference to a baseline is in `_difference`, its interval of 95 % in `_difference_low` and `_difference_high`", "", "engine/tasks/rewards/measure_rewards.cc"},
    {"reward_mse_difference", "", "evaluate", "end", "reward_mse of the model less that of the baseline", "over the lines of the file that both were asked", "", "engine/tasks/stages/evaluate_stage.cc"},
    {"reward_first_error_accuracy", "", "evaluate", "end", "share of answers whose first wrong step, or that there is none, is found", wilson, "", "engine/tasks/rewards/measure_rewards.cc"},
    {"reward_first_error_accuracy_stderr", "", "evaluate", "end", "sqrt(p (1 - p) / (n - 1)), p the share of right items, n their number", "over all answers", "lm-evaluation-harness, `acc_stderr`", "engine/tasks/scores/intervals.cc"},
    {"reward_first_error_accuracy_difference", "", "evaluate", "end", "reward_first_error_accuracy of the model less that of the baseline", "over the lines of the file that both were asked; the paired interval of 95 % is in `_low` and `_high`", "Newcombe 1998, Statistics in Medicine 17", "engine/tasks/scores/paired_scores.cc"},
    {"reward_answers", "", "evaluate", "end", "answers that were judged", "", "", "engine/tasks/rewards/measure_rewards.cc"},
    {"reward_answers_too_long", "", "evaluate", "end", "answers that were left out for their length", "", "", "engine/tasks/rewards/measure_rewards.cc"},
    {"reward_answers_compared", "", "evaluate", "end", "answers that the model and the baseline were both asked", "", "", "engine/tasks/scores/paired_scores.cc"},
    {"choice_accuracy", "", "evaluate", "end", "share of questions whose right choice has the largest sum of ln p of its tokens", questions_mean, "lm-evaluation-harness, `acc`", "engine/tasks/common/measure.cc"},
    {"choice_accuracy_per_byte", "", "evaluate", "end", "the same with the sum divided by the choice's bytes", questions_mean, "lm-evaluation-harness, `acc_norm`, which divides by characters", "engine/tasks/common/measure.cc"},
    {"choice_accuracy_stderr", "", "evaluate", "end", "sqrt(p (1 - p) / (n - 1)), p the share of right items, n their number", "over all questions", "lm-evaluation-harness, `acc_stderr`", "engine/tasks/scores/intervals.cc"},
    {"choice_accuracy_difference", "", "evaluate", "end", "choice_accuracy of the model less that of the baseline", paired, "Newcombe 1998, Statistics in Medicine 17, method 10", "engine/tasks/scores/intervals.cc"},
    {"choice_accuracy_per_byte_stderr", "", "evaluate", "end", "sqrt(p (1 - p) / (n - 1)), p the share of right items, n their number", "over all questions", "lm-evaluation-harness, `acc_stderr`", "engine/tasks/scores/intervals.cc"},
    {"TASK.acc", "", "evaluate", "end", "of multiple_choice: share of questions whose right choice has the largest sum of ln p; of loglikelihood: share of texts that the model would have said itself", questions_mean, "lm-evaluation-harness, `acc`", "engine/tasks/harness/task_scores.cc"},
    {"TASK.acc_norm", "", "evaluate", "end", "as TASK.acc with the sum divided by the choice's characters", questions_mean, "lm-evaluation-harness, `acc_norm`", "engine/tasks/harness/task_scores.cc"},
    {"TASK.exact_match", "", "evaluate", "end", "share of answers that are equal to a right one, as filters and the metric's options leave them; with several lists of filters TASK.exact_match.LIST; of multiple_choice: the model would have said a right choice itself", questions_mean, "lm-evaluation-harness, `exact_match`", "engine/tasks/answers/answer_filters.cc"},
    {"TASK.mc2", "", "evaluate", "end", "mean over questions of the right choices' share of the probability that all choices have together", amounts_mean, "Lin et al. 2021, arXiv:2109.07958, MC2; lm-evaluation-harness calls it `acc` of truthfulqa_mc2", "engine/tasks/harness/task_scores.cc"},
    {"TASK.pass_at_K", "", "evaluate", "end", "mean over questions of 1 - C(n - c, K) / C(n, K), n the answers of a question and c those whose tests pass", amounts_mean, "Chen et al. 2021, arXiv:2107.03374, equation 1", "engine/tasks/scores/intervals.cc"},
    {"TASK.prompt_level_strict_acc", "", "evaluate", "end", "share of answers that follow all instructions of their row", questions_mean, "Zhou et al. 2023, arXiv:2311.07911", "engine/tasks/answers/instruction_table.cc"},
    {"TASK.inst_level_strict_acc", "", "evaluate", "end", "instructions that are followed / instructions", amounts_mean, "Zhou et al. 2023, arXiv:2311.07911", "engine/tasks/answers/instruction_table.cc"},
    {"TASK.prompt_level_loose_acc", "", "evaluate", "end", "the same of the best of eight readings of an answer: with or without asterisks, with or without the first and the last line", questions_mean, "Zhou et al. 2023, arXiv:2311.07911", "engine/tasks/answers/instruction_checks.cc"},
    {"TASK.inst_level_loose_acc", "", "evaluate", "end", "the same of the best of these eight readings", amounts_mean, "Zhou et al. 2023, arXiv:2311.07911", "engine/tasks/answers/instruction_checks.cc"},
    {"TASK.perplexity", "", "evaluate", "end", "exp(-mean of the texts' ln p)", "over the rows of the task", "lm-evaluation-harness, `perplexity`", "engine/tasks/harness/task_scores.cc"},
    {"TASK.word_perplexity", "", "evaluate", "end", "exp(-sum of ln p / sum of words)", "over the rows of the task", "lm-evaluation-harness, `word_perplexity`", "engine/tasks/harness/task_scores.cc"},
    {"TASK.byte_perplexity", "", "evaluate", "end", "exp(-sum of ln p / sum of bytes)", "over the rows of the task", "lm-evaluation-harness, `byte_perplexity`", "engine/tasks/harness/task_scores.cc"},
    {"TASK.bits_per_byte", "bits", "evaluate", "end", "-sum of ln p / sum of bytes / ln 2", "over the rows of the task", "lm-evaluation-harness, `bits_per_byte`", "engine/tasks/harness/task_scores.cc"},
    {"TASK.questions", "", "evaluate", "end", "rows that were asked", "", "", "engine/tasks/harness/task_scores.cc"},
    {"TASK.questions_compared", "", "evaluate", "end", "rows that both models were asked", "", "", "engine/tasks/stages/evaluate_stage.cc"},
    {"choice_accuracy_per_byte_difference", "", "evaluate", "end", "choice_accuracy_per_byte of the model less that of the baseline", paired, "Newcombe 1998, Statistics in Medicine 17, method 10", "engine/tasks/scores/intervals.cc"},
    {"choice_questions_compared", "", "evaluate", "end", "questions that the model and the baseline were both asked", "", "", "engine/tasks/scores/paired_scores.cc"},
    {"choice_questions", "", "evaluate", "end", "questions that were scored", "", "", "engine/tasks/common/measure.cc"},
    // Data.
    {"documents", "", "curate", "end", "documents that are kept, without held-out ones", "", "", "engine/curate/curate_task.cc"},
    {"megabytes", "MB", "curate", "end", "10^6 bytes of text of the kept documents", "", "", "engine/tasks/stages/curate_stage.cc"},
    {"heldout_megabytes", "MB", "curate", "end", "10^6 bytes of text of the held-out documents", "", "", "engine/tasks/stages/curate_stage.cc"},
    {"input_megabytes", "MB", "curate", "end", "10^6 bytes of what was read, before extraction", "", "", "engine/tasks/stages/curate_stage.cc"},
    {"languages", "", "curate", "end", "languages among the kept documents", "", "", "engine/tasks/stages/curate_stage.cc"},
    {"vocab_size", "tokens", "tokenize", "end", "tokens of the tokenizer, special ones included", "", "", "engine/data/tokenize_task.cc"},
    // Models.
    {"merged_tensors", "", "convert", "end", "tensors into which an adapter was merged", "", "", "engine/tasks/stages/convert_stage.cc"},
    {"bytes_before", "bytes", "quantize", "end", "of the model's weights before", "", "", "engine/quantize/quantize.cc"},
    {"bytes_after", "bytes", "quantize", "end", "of its weights and scales after", "", "", "engine/quantize/quantize.cc"},
    {"perplexity_before", "", "quantize", "end", "exp(mean of -ln p(token)) of the model before", "over the first 65,536 held-out tokens in windows that do not overlap, as they lie there: documents follow each other", "", "engine/quantize/quantize.cc"},
    {"perplexity_after", "", "quantize", "end", "the same of the quantized model, served as it will be", "over the same tokens", "", "engine/quantize/quantize.cc"},
    {"perplexity_loss_pct", "%", "quantize", "end", "100 (perplexity_after / perplexity_before - 1)", "over the same tokens", "", "engine/quantize/quantize.cc"},
    {"perplexity_tokens", "tokens", "quantize", "end", "tokens that were scored", "", "", "engine/quantize/quantize.cc"},
    {"start_s", "s", "deploy", "end", "from the server's start to its first answer to a health check", "", "", "engine/infer/serve/deploy.cc"},
    {"answers", "", "deploy", "end", "prompts of the stage that were answered", "", "", "engine/infer/serve/deploy.cc"},
    {"answer_tokens_per_s", "tokens/s", "deploy", "end", "tokens of those answers / time from the first question to the last answer", "one request after the other", "", "engine/infer/serve/deploy.cc"},
    // The machine.
    {"product_gflops", "GFLOP/s", "benchmark", "end", "2 m n k / time of the fastest product", "the best of the sizes", "", "engine/tasks/stages/benchmark_stage.cc"},
    {"stream_gbyte", "GB/s", "benchmark", "end", "10^9 bytes read and written / time", "the best of the sizes", "McCalpin 1995, STREAM", "engine/tasks/stages/benchmark_stage.cc"},
    {"all_reduce_gbyte", "GB/s", "benchmark", "end", "10^9 bytes of one rank's data / time of the sum over all ranks", "the best of the sizes", "", "engine/tasks/stages/benchmark_stage.cc"},
};
// clang-format on

bool has_word(std::string_view words, std::string_view word) {
  for (const std::string& one : split(std::string(words), ' '))
    if (one == word) return true;
  return false;
}

std::string_view without_end(std::string_view name, std::string_view end) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : std::string_view();
}

bool names(const FigureMeaning& row, std::string_view figure) {
  const std::string_view name = row.name;
  for (const std::string_view place : {std::string_view("AXIS"), std::string_view("CATEGORY")})
    if (const std::size_t at = name.find(place); at != std::string_view::npos)
      return figure.starts_with(name.substr(0, at)) && figure.ends_with(name.substr(at + place.size()));
  return name == figure;
}

bool reports(std::string_view kind, std::string_view figure, std::string_view when) {
  bool known = false;
  for (const FigureMeaning& row : rows) {
    if (!has_word(row.stages, kind)) continue;
    known = true;
    if (has_word(row.when, when) && names(row, figure)) return true;
  }
  return !known;
}

// "TASK.METRIC", of a name that the user's tasks have: without what is said beside each metric (its standard error, its
// interval, the difference to the baseline) and without the list of filters.
std::string row_of_task_figure(std::string_view figure) {
  std::string_view metric = figure.substr(figure.find('.') + 1);
  for (const char* end : {"_low", "_high", "_difference", "_stderr"})
    if (const std::string_view shorter = without_end(metric, end); !shorter.empty()) metric = shorter;
  metric = metric.substr(0, metric.find('.'));
  const std::string_view tries = metric.starts_with("pass_at_") ? metric.substr(8) : std::string_view();
  if (!tries.empty() && tries.find_first_not_of("0123456789") == std::string_view::npos) metric = "pass_at_K";
  return "TASK." + std::string(metric);
}

}  // namespace

const std::vector<FigureMeaning>& figure_meanings() {
  return rows;
}

bool reports_at_end(std::string_view kind, std::string_view figure) {
  if (kind == "evaluate" && figure.starts_with("baseline_")) figure.remove_prefix(9);
  if (reports(kind, figure, "end")) return true;
  if (kind == "evaluate" && figure.find('.') != std::string_view::npos)
    return reports(kind, row_of_task_figure(figure), "end");
  for (const char* end : {"_low", "_high"})
    if (const std::string_view name = without_end(figure, end);
        name.ends_with("accuracy") || name.find("accuracy_") != std::string_view::npos)
      return reports(kind, name, "end");
  return false;
}

std::vector<std::string> figures_at_end(std::string_view kind) {
  std::vector<std::string> found;
  for (const FigureMeaning& row : rows)
    if (has_word(row.stages, kind) && has_word(row.when, "end")) found.emplace_back(row.name);
  return found;
}

}  // namespace longhaul

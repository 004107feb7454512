#include "engine/tasks/pretrain_data.h"

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "engine/data/blend.h"
#include "engine/data/megatron_index.h"
#include "engine/tasks/training_stage.h"

namespace longhaul {
namespace {

struct TokenInput {
  std::string name;
  std::string prefix;
  std::shared_ptr<const IndexedDataset> dataset;
};

// Ids mean the same in all inputs only if the same tokenizer made them.
Status check_same_tokenizer(const std::string& tokens, const std::string& folder, const std::string& name) {
  if (folder == tokens) return {};
  LH_TRY(const std::string ours, hash_file(join_path(tokens, "tokenizer.json")));
  LH_TRY(const std::string theirs, hash_file(join_path(folder, "tokenizer.json")));
  if (ours == theirs) return {};
  return make_error(ErrorCode::invalid_input,
                    format("input {} was tokenized with another vocabulary than tokens: {} and {} differ", name,
                           join_path(folder, "tokenizer.json"), join_path(tokens, "tokenizer.json")),
                    "tokenize it with inputs.tokenizer = the stage that made tokens");
}

Result<std::vector<TokenInput>> open_inputs(const Task& task, const PretrainSettings& settings) {
  LH_TRY(const std::string tokens, task.input_path("tokens"));
  std::vector<TokenInput> inputs;
  for (const std::string& name : settings.blend.empty() ? std::vector<std::string>{"tokens"} : settings.blend) {
    LH_TRY(const std::string folder, task.input_path(name));
    LH_CHECK(check_same_tokenizer(tokens, folder, name));
    const std::string prefix = join_path(folder, "train");
    LH_TRY(IndexedDataset dataset, IndexedDataset::open(prefix));
    LH_CHECK(check_holds_a_sample(dataset, settings.sequence_length, prefix));
    inputs.push_back({name, prefix, std::make_shared<const IndexedDataset>(std::move(dataset))});
  }
  return inputs;
}

}  // namespace

Result<TokenSource> open_pretrain_data(const Task& task, const PretrainSettings& settings) {
  LH_CHECK(check_blend(settings.blend, settings.blend_weights));
  LH_TRY(const std::vector<TokenInput> inputs, open_inputs(task, settings));
  std::vector<double> sizes;
  std::int64_t samples_per_epoch = 0;
  for (const TokenInput& input : inputs) {
    sizes.push_back(static_cast<double>(input.dataset->tokens()));
    samples_per_epoch += (input.dataset->tokens() - 1) / settings.sequence_length;
  }
  const std::vector<double>& weights = settings.blend_weights.empty() ? sizes : settings.blend_weights;
  const std::vector<double> shares = normalized_weights(weights);
  const std::int64_t samples = samples_of_steps(settings.batch_rampup, settings.global_batch_size,
                                                training_steps(settings.steps, settings.epochs, samples_per_epoch,
                                                               settings.global_batch_size, settings.batch_rampup));

  const auto seed = static_cast<std::uint64_t>(settings.seed);
  std::vector<BlendPart> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    BlendPart part{inputs[i].name, weights[i], nullptr};
    if (settings.sampler == "megatron") {
      const std::int64_t needed = inputs.size() == 1 ? samples : megatron_part_samples(samples, shares[i]);
      LH_TRY(MegatronSampler sampler,
             MegatronSampler::create(inputs[i].dataset, settings.sequence_length, seed, needed, inputs[i].prefix));
      part.source = std::make_shared<const MegatronSampler>(std::move(sampler));
    } else {
      LH_TRY(Sampler sampler, Sampler::create(inputs[i].dataset, settings.sequence_length, seed, SampleOrder::shuffled,
                                              inputs[i].prefix));
      part.source = std::make_shared<const Sampler>(std::move(sampler));
    }
    parts.push_back(std::move(part));
  }
  const bool repeats = settings.blend_policy == "repeat";
  if (parts.size() == 1 && repeats) return TokenSource(parts.front().source);
  LH_TRY(BlendedSource blend,
         BlendedSource::create(std::move(parts), repeats ? BlendPolicy::repeat : BlendPolicy::exhaust, samples));
  return TokenSource(std::make_shared<const BlendedSource>(std::move(blend)));
}

}  // namespace longhaul

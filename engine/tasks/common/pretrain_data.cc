#include "engine/tasks/common/pretrain_data.h"

#include <algorithm>
#include <map>

#include "base/files/file_hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/data/samples/blend.h"
#include "engine/data/samples/megatron_index.h"
#include "engine/tasks/common/training_stage.h"

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

using TokenInputs = std::map<std::string, TokenInput>;

Result<TokenInputs> open_inputs(const Task& task, const PhasePlan& plan) {
  LH_TRY(const std::string tokens, task.input_path("tokens"));
  TokenInputs inputs;
  for (const PlannedPhase& phase : plan.phases)
    for (const std::string& name : phase.blend) {
      if (!inputs.contains(name)) {
        LH_TRY(const std::string folder, task.input_path(name));
        LH_CHECK(check_same_tokenizer(tokens, folder, name));
        const std::string prefix = join_path(folder, "train");
        LH_TRY(IndexedDataset dataset, IndexedDataset::open(prefix));
        inputs[name] = {name, prefix, std::make_shared<const IndexedDataset>(std::move(dataset))};
      }
      LH_CHECK(check_holds_a_sample(*inputs[name].dataset, phase.sequence_length, inputs[name].prefix));
    }
  return inputs;
}

// An order without its first samples.
class Continued final : public SampleSource {
 public:
  Continued(std::shared_ptr<const SampleSource> whole, std::int64_t begin) : whole_(std::move(whole)), begin_(begin) {}
  std::int64_t sequence_length() const override { return whole_->sequence_length(); }
  std::int64_t samples_per_epoch() const override { return whole_->samples_per_epoch(); }
  std::int64_t size() const override { return whole_->size() == endless ? endless : whole_->size() - begin_; }
  void read(std::int64_t k, std::span<std::int32_t> out) const override { whole_->read(begin_ + k, out); }
  void document_begins(std::int64_t k, std::span<std::int32_t> out) const override {
    whole_->document_begins(begin_ + k, out);
  }

 private:
  std::shared_ptr<const SampleSource> whole_;
  std::int64_t begin_;
};

// What a phase takes of one input.
struct InputShare {
  const TokenInput* input = nullptr;
  double weight = 0;
  std::int64_t begin = 0;   // sample of the input's order of that length
  std::int64_t needed = 0;  // samples of that order that this phase may come to: what Megatron-LM builds it for
};

class PhaseReader {
 public:
  PhaseReader(const PretrainSettings& settings, const PhasePlan& plan, const TokenInputs& inputs)
      : settings_(settings), plan_(plan), inputs_(inputs) {}

  Result<std::vector<PhaseSamples>> open() {
    LH_CHECK(distribute());
    std::vector<PhaseSamples> opened;
    for (std::size_t i = 0; i < plan_.phases.size(); ++i) {
      const PlannedPhase& phase = plan_.phases[i];
      auto samples = open_phase(phase, shares_[i]);
      if (!samples.ok() && !phase.name.empty()) return samples.error().with_context("phase." + phase.name);
      if (!samples.ok()) return samples.error();
      opened.push_back({phase.first_step, phase.first_sample, *samples});
    }
    return opened;
  }

 private:
  std::int64_t samples_of(const PlannedPhase& phase) const {
    return samples_of_steps(settings_.batch_rampup, settings_.global_batch_size, phase.last_step) - phase.first_sample;
  }

  // Each input goes on where the phases before left it: at the first sample of the new length behind the tokens read.
  Status distribute() {
    std::map<std::string, std::int64_t> tokens_read;
    for (const PlannedPhase& phase : plan_.phases) {
      std::vector<double> weights = phase.blend_weights;
      if (weights.empty())
        for (const std::string& name : phase.blend)
          weights.push_back(static_cast<double>(inputs_.at(name).dataset->tokens()));
      const std::vector<double> parts = normalized_weights(weights);
      LH_TRY(const BlendOrder order, BlendOrder::create(weights));
      const std::int64_t samples = samples_of(phase);
      // Counting a long order takes a while; without a phase behind it nobody asks.
      std::vector<std::int64_t> taken(parts.size(), 0);
      if (plan_.phases.size() > 1) taken = order.state(samples).taken;
      std::vector<InputShare> shares;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        std::int64_t& read = tokens_read[phase.blend[i]];
        InputShare share{&inputs_.at(phase.blend[i]), weights[i], 0, 0};
        share.begin = (read + phase.sequence_length - 1) / phase.sequence_length;
        share.needed = share.begin + (parts.size() == 1 ? samples : megatron_part_samples(samples, parts[i]));
        read = (share.begin + taken[i]) * phase.sequence_length;
        std::int64_t& longest = needed_[{share.input->name, phase.sequence_length}];
        longest = std::max(longest, share.needed);
        shares.push_back(share);
      }
      shares_.push_back(std::move(shares));
    }
    return {};
  }

  // One order of an input for all phases of a length.
  Result<std::shared_ptr<const SampleSource>> order_of(const TokenInput& input, std::int64_t length) {
    std::shared_ptr<const SampleSource>& made = orders_[{input.name, length}];
    if (made) return made;
    const auto seed = static_cast<std::uint64_t>(settings_.seed);
    if (settings_.sampler == "megatron") {
      LH_TRY(MegatronSampler sampler,
             MegatronSampler::create(input.dataset, length, seed, needed_.at({input.name, length}), input.prefix));
      made = std::make_shared<const MegatronSampler>(std::move(sampler));
    } else {
      LH_TRY(Sampler sampler, Sampler::create(input.dataset, length, seed, SampleOrder::shuffled, input.prefix));
      made = std::make_shared<const Sampler>(std::move(sampler));
    }
    return made;
  }

  Result<std::shared_ptr<const SampleSource>> open_phase(const PlannedPhase& phase,
                                                         const std::vector<InputShare>& shares) {
    const bool repeats = settings_.blend_policy == "repeat";
    std::vector<BlendPart> parts;
    for (const InputShare& share : shares) {
      BlendPart part{share.input->name, share.weight, nullptr, share.begin};
      LH_TRY(part.source, order_of(*share.input, phase.sequence_length));
      if (share.begin > 0) part.source = std::make_shared<const Continued>(part.source, share.begin);
      parts.push_back(std::move(part));
    }
    if (parts.size() == 1 && repeats) return parts.front().source;
    LH_TRY(BlendedSource blend,
           BlendedSource::create(std::move(parts), repeats ? BlendPolicy::repeat : BlendPolicy::exhaust,
                                 samples_of(phase)));
    return std::shared_ptr<const SampleSource>(std::make_shared<const BlendedSource>(std::move(blend)));
  }

  using InputLength = std::pair<std::string, std::int64_t>;
  const PretrainSettings& settings_;
  const PhasePlan& plan_;
  const TokenInputs& inputs_;
  std::vector<std::vector<InputShare>> shares_;  // of each phase
  std::map<InputLength, std::int64_t> needed_;
  std::map<InputLength, std::shared_ptr<const SampleSource>> orders_;
};

// Without phases: one, whose number of steps may follow from the data.
PhasePlan only_phase(const PretrainSettings& settings) {
  PlannedPhase phase;
  phase.sequence_length = settings.sequence_length;
  phase.blend = settings.blend.empty() ? std::vector<std::string>{"tokens"} : settings.blend;
  phase.blend_weights = settings.blend_weights;
  PhasePlan plan;
  plan.phases.push_back(std::move(phase));
  return plan;
}

}  // namespace

Result<TokenSource> open_pretrain_data(const Task& task, const PretrainSettings& settings) {
  LH_CHECK(check_blend(settings.blend, settings.blend_weights));
  LH_CHECK(check_pretraining(settings, false));
  PhasePlan plan = only_phase(settings);
  if (!settings.phases.empty()) {
    LH_TRY(plan, phases_of(settings, false));
  }
  LH_TRY(const TokenInputs inputs, open_inputs(task, plan));
  if (settings.phases.empty()) {
    std::int64_t samples_per_epoch = 0;
    for (const auto& [name, input] : inputs)
      samples_per_epoch += (input.dataset->tokens() - 1) / settings.sequence_length;
    plan.steps = plan.phases[0].last_step = training_steps(settings.steps, settings.epochs, samples_per_epoch,
                                                           settings.global_batch_size, settings.batch_rampup);
  }
  LH_TRY(std::vector<PhaseSamples> phases, PhaseReader(settings, plan, inputs).open());
  return TokenSource(std::move(phases), {settings.document_mask, settings.reset_positions});
}

}  // namespace longhaul

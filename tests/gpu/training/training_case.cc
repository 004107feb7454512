#include "tests/gpu/training/training_case.h"

#include "base/text/text.h"

namespace longhaul::gpu_bench {
namespace {

ModelShape llama2_7b() {
  ModelShape shape;
  shape.vocab_size = 32000, shape.hidden_size = 4096, shape.intermediate_size = 11008, shape.num_hidden_layers = 32;
  shape.num_attention_heads = shape.num_key_value_heads = 32, shape.max_position_embeddings = 4096;
  shape.tie_word_embeddings = false;
  return resolve_shape(shape).value();
}

ModelShape gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelShape shape;
  shape.architecture = "gpt2", shape.vocab_size = 50257, shape.max_position_embeddings = 1024;
  shape.hidden_size = hidden, shape.num_hidden_layers = layers, shape.num_attention_heads = heads;
  return resolve_shape(shape).value();
}

LowPrecisionSettings fp8() {
  LowPrecisionSettings settings;
  settings.recipe = "current";
  settings.check_every_steps = 0;  // measuring is no part of the steps that are timed
  return settings;
}

std::string layers_text(std::int64_t layers) {
  return format("{} layer{}", layers, layers == 1 ? "" : "s");
}

struct Choice {
  const char* name;
  Recompute recompute;
};
// Cheapest first: what is computed again takes time.
std::vector<Choice> choices() {
  std::vector<Choice> all(3);
  all[0].name = "nothing computed again";
  all[1].name = "norms and activations computed again";
  all[1].recompute.norms = all[1].recompute.activation = true;
  all[2].name = "layers computed again";
  all[2].recompute = recompute_from({{"block"}, 0}).value();
  return all;
}

Result<std::int64_t> needed_by(const TrainingCase& training, const Recompute& recompute, MemoryTable* planned) {
  LH_TRY(const MemoryPlan plan, plan_training_memory(outline_of(training, recompute), {}));
  if (planned != nullptr) *planned = plan.bytes;
  return planned_on_device(plan.bytes);
}

// Layers are alike, so what is needed grows with them.
Result<std::int64_t> most_layers(const TrainingCase& training, const Recompute& recompute, std::int64_t free_bytes) {
  std::int64_t fits = 0, too_many = training.shape.num_hidden_layers;
  while (too_many - fits > 1) {
    const std::int64_t layers = (fits + too_many) / 2;
    LH_TRY(const std::int64_t needed, needed_by(training.with_layers(layers), recompute, nullptr));
    (needed <= free_bytes ? fits : too_many) = layers;
  }
  return fits;
}

}  // namespace

double TrainingCase::flops() const {
  return shape.train_flops_per_token(sequence_length) * static_cast<double>(tokens());
}

TrainingCase TrainingCase::with_layers(std::int64_t layers) const {
  TrainingCase other = *this;
  other.shape.num_hidden_layers = layers;
  return other;
}

std::vector<TrainingCase> training_cases() {
  const std::string llmc = "llm.c publishes 46-56 % MFU", nemo = "NeMo publishes 16,913 tokens/s";
  std::vector<TrainingCase> all(4);
  all[0] = {"llama2-7b-bf16", "Llama-2-7B shape, bf16", llama2_7b(), 4096, 16, 1, {}, 9400, nemo};
  all[1] = {"llama2-7b-fp8", "Llama-2-7B shape, fp8", llama2_7b(), 4096, 16, 1, fp8(), 14000, nemo};
  all[2] = {"gpt2-124m", "GPT-2 124M, bf16", gpt2(12, 768, 12), 1024, 256, 32, {}, 0, llmc};
  all[3] = {"gpt2-1.5b", "GPT-2 1.5B, bf16", gpt2(48, 1600, 25), 1024, 64, 8, {}, 0, llmc};
  return all;
}

std::vector<TrainingCase> tiny_training_cases() {
  ModelShape llama;
  llama.vocab_size = 37, llama.hidden_size = 32, llama.intermediate_size = 64, llama.num_hidden_layers = 3;
  llama.num_attention_heads = 4, llama.num_key_value_heads = 2, llama.max_position_embeddings = 16;
  ModelShape gpt2 = llama;
  gpt2.architecture = "gpt2", gpt2.num_key_value_heads = 4;
  std::vector<TrainingCase> all(3);
  all[0] = {"tiny-llama-bf16", "tiny Llama, bf16", resolve_shape(llama).value(), 8, 4, 1, {}, 1e-3, ""};
  all[1] = {"tiny-llama-fp8", "tiny Llama, fp8", resolve_shape(llama).value(), 8, 2, 1, fp8(), 1e-3, "nobody"};
  all[2] = {"tiny-gpt2", "tiny GPT-2, bf16", resolve_shape(gpt2).value(), 8, 2, 2, {}, 0, ""};
  return all;
}

// Gradients of all micro-batches are added into one array: the tree of deterministic mode would keep log2 of their
// number more of them.
TrainingOutline outline_of(const TrainingCase& training, const Recompute& recompute) {
  TrainingOutline outline;
  outline.shape = training.shape;
  outline.micro_batch_size = training.micro_batch, outline.sequence_length = training.sequence_length;
  outline.micro_batches = {static_cast<int>(training.sequences / training.micro_batch)};
  outline.gpu = true, outline.bf16 = true, outline.deterministic = false;
  outline.low_precision = training.low_precision.on();
  outline.recompute = recompute;
  outline.compiled_products = false;
  return outline;
}

Result<Fit> fit(const TrainingCase& training, std::int64_t free_bytes) {
  const auto text = [](std::int64_t bytes) { return format("{:.1f} GB", 1e-9 * static_cast<double>(bytes)); };
  Fit found;
  found.free = free_bytes;
  LH_TRY(found.needed, needed_by(training, {}, &found.planned));
  for (const Choice& choice : choices()) {
    MemoryTable planned;
    LH_TRY(const std::int64_t needed, needed_by(training, choice.recompute, &planned));
    if (needed > free_bytes) continue;
    found.planned = planned, found.needed = needed, found.recompute = choice.recompute;
    found.layers = training.shape.num_hidden_layers;
    found.said = format("{}: fits; {} planned of {} that are free, {}", training.title, text(needed), text(free_bytes),
                        choice.name);
    return found;
  }
  LH_TRY(found.layers, most_layers(training, {}, free_bytes));
  const std::string most =
      found.layers == 0 ? "not even one of them does" : format("{} of the same shape do", layers_text(found.layers));
  found.said = format("{}: does not fit; {} planned with {}, {} are free; {}", training.title, text(found.needed),
                      layers_text(training.shape.num_hidden_layers), text(free_bytes), most);
  return found;
}

std::optional<double> extrapolated_seconds(std::int64_t deep, double deep_s, std::int64_t shallow, double shallow_s,
                                           std::int64_t layers) {
  LH_ASSERT(deep > shallow, format("{} and {} layers", deep, shallow));
  if (deep_s <= shallow_s) return std::nullopt;
  const double each = (deep_s - shallow_s) / static_cast<double>(deep - shallow);
  return deep_s + each * static_cast<double>(layers - deep);
}

std::optional<double> peak_bf16_flops(const std::string& name) {
  struct Chip {
    const char* in_name;
    double flops;
  };
  // The first that the name holds: a PCIe card is none of the SXM ones.
  for (const Chip& chip : {Chip{"H100 PCIe", 756e12}, Chip{"H100 NVL", 835e12}, Chip{"H100", 989.4e12},
                           Chip{"H200 NVL", 835e12}, Chip{"H200", 989.4e12}, Chip{"GH200", 989.4e12},
                           Chip{"A100", 312e12}, Chip{"GB200", 2500e12}, Chip{"B200", 2250e12}})
    if (name.find(chip.in_name) != std::string::npos) return chip.flops;
  return {};
}

}  // namespace longhaul::gpu_bench

#include "engine/infer/generate/inference_text_model.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/model/hf_config.h"
#include "engine/data/template/end_tokens.h"
#include "engine/data/template/post_processor.h"
#include "engine/data/template/template_tools.h"
#include "engine/infer/generate/device_draws.h"
#include "engine/infer/generate/generator.h"
#include "engine/model/inference/inference_memory.h"
#include "engine/model/inference/inference_model.h"

namespace longhaul {
namespace {

class InferenceTextModel final : public TextModel {
 public:
  // gpu: the model's, whose caches lie in so many pages then; null: it computes on the host.
  InferenceTextModel(std::unique_ptr<Gpu> gpu, InferenceModel model, Tokenizer tokenizer, PostProcessor around,
                     const std::string& folder, TextModelInfo info, const InferenceLoad& load, std::int64_t pages,
                     int threads)
      : gpu_(std::move(gpu)),
        model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        around_(std::move(around)),
        info_(std::move(info)),
        context_(gpu_ ? ComputeContext(gpu_->device(), gpu_->ops(), threads) : ComputeContext(threads)) {
    if (gpu_) {
      info_.draws = true;
      pool_ = model_.make_pool(pages);
      model_.take_scratch(context_, load, *pool_);
    }
    for (int slot = 0; slot < info_.slots; ++slot)
      caches_.push_back(pool_ ? KvCache(*pool_) : model_.make_cache(info_.context_length));
    if (gpu_) draws_.emplace(context_, model_, caches_);
    if (auto chat = ChatEncoder::create(tokenizer_, folder)) {
      chat_ = *chat;
      info_.marks_tool_calls = chat_->marks_tool_calls();
    } else {
      no_chat_ = chat.error().message();
    }
  }
  InferenceTextModel(const InferenceTextModel&) = delete;
  InferenceTextModel& operator=(const InferenceTextModel&) = delete;

  const TextModelInfo& info() const override { return info_; }
  Result<std::vector<std::int32_t>> encode(std::string_view text) const override { return tokenizer_.encode(text); }
  Result<std::vector<std::int32_t>> encode_with_special(std::string_view text) const override {
    LH_TRY(std::vector<std::int32_t> ids, encode(text));
    return around_.around(std::move(ids));
  }
  Result<std::vector<std::int32_t>> encode_chat(const std::vector<ChatMessage>& messages,
                                                const Value& tools) const override {
    if (!chat_) return make_error(ErrorCode::unsupported, "this model has no chat form: " + no_chat_);
    LH_CHECK(check_conversation(messages));
    return chat_->encode_prompt(messages, tools);
  }
  std::string token_bytes(std::int32_t token) const override {
    std::string bytes(tokenizer_.token_bytes(token));
    const bool marks = info_.marks_tool_calls && (bytes == tool_call_begin || bytes == tool_call_end);
    return tokenizer_.is_special(token) && !marks ? std::string() : bytes;
  }

  std::string token_name(std::int32_t token) const override { return std::string(tokenizer_.token_bytes(token)); }

  bool reserve(int slot, std::int64_t tokens) override {
    return !pool_ || caches_[static_cast<std::size_t>(slot)].reserve(tokens + model_.shape().virtual_tokens);
  }
  CachePages pages() const override {
    return pool_ ? CachePages{pool_->pages(), pool_->used(), pool_->promised()} : CachePages();
  }
  void reset(int slot) override {
    KvCache& cache = caches_[static_cast<std::size_t>(slot)];
    pool_ ? static_cast<void>(cache.reserve(0)) : cache.truncate(0);
    if (draws_) draws_->reset(slot);
  }
  Status forward(std::span<const TextStep> steps, std::vector<float>& logits,
                 std::vector<std::int32_t>& drawn) override;

 private:
  // The steps that want `wanted` and draw nothing, as one pass; `rows` are filled in their order.
  Status pass(std::span<const TextStep> steps, TextStep::Logits wanted, std::vector<float>& rows);

  std::unique_ptr<Gpu> gpu_;  // before what lies in its memory
  InferenceModel model_;
  const Tokenizer tokenizer_;
  const PostProcessor around_;
  TextModelInfo info_;
  const ComputeContext context_;
  std::unique_ptr<KvPool> pool_;  // on a GPU
  std::vector<KvCache> caches_;
  std::optional<DeviceDraws> draws_;  // on a GPU
  std::optional<ChatEncoder> chat_;
  std::string no_chat_;
  std::vector<float> some_rows_;
};

Status InferenceTextModel::pass(std::span<const TextStep> steps, TextStep::Logits wanted, std::vector<float>& rows) {
  std::vector<SequenceStep> sequence_steps;
  std::size_t row_count = 0;
  for (const TextStep& step : steps) {
    if (step.wanted != wanted || step.draw) continue;
    sequence_steps.push_back({&caches_[static_cast<std::size_t>(step.slot)], step.tokens});
    row_count += wanted == TextStep::Logits::all ? step.tokens.size() : 1;
  }
  rows.clear();
  if (sequence_steps.empty()) return {};
  const bool none = wanted == TextStep::Logits::none;
  if (!none) rows.resize(row_count * static_cast<std::size_t>(info_.vocabulary));
  const LogitsWanted how =
      none ? LogitsWanted::none : (wanted == TextStep::Logits::all ? LogitsWanted::all : LogitsWanted::last);
  return model_.forward(context_, sequence_steps, how, rows);
}

Status InferenceTextModel::forward(std::span<const TextStep> steps, std::vector<float>& logits,
                                   std::vector<std::int32_t>& drawn) {
  using Logits = TextStep::Logits;
  const bool any_all =
      std::any_of(steps.begin(), steps.end(), [](const TextStep& s) { return s.wanted == Logits::all; });
  drawn.assign(steps.size(), -1);
  if (draws_)
    LH_CHECK(draws_->draw(steps, drawn));
  else
    LH_CHECK(pass(steps, Logits::none, some_rows_));
  LH_CHECK(pass(steps, Logits::last, logits));
  if (!any_all) return {};
  // Both kinds of rows, put together in the order of the steps.
  std::vector<float> last = std::move(logits);
  LH_CHECK(pass(steps, Logits::all, some_rows_));
  logits.clear();
  logits.reserve(last.size() + some_rows_.size());
  std::size_t at_last = 0, at_all = 0;
  for (const TextStep& step : steps) {
    if (step.wanted == Logits::none || step.draw) continue;
    const bool all = step.wanted == Logits::all;
    std::vector<float>& from = all ? some_rows_ : last;
    std::size_t& at = all ? at_all : at_last;
    const std::size_t count = (all ? step.tokens.size() : 1) * static_cast<std::size_t>(info_.vocabulary);
    logits.insert(logits.end(), from.begin() + static_cast<std::ptrdiff_t>(at),
                  from.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<TextModel>> load_inference_text_model(const std::string& folder,
                                                             const InferenceTextModelOptions& options,
                                                             const OpenGpu& open_gpu) {
  LH_TRY(const HfConfig config, load_hf_config(join_path(folder, "config.json")));
  LH_TRY(Tokenizer tokenizer, Tokenizer::load(join_path(folder, "tokenizer.json")));
  LH_CHECK(check_vocabulary(tokenizer, config.shape.vocab_size, folder));
  TextModelInfo info;
  info.vocabulary = config.shape.vocab_size;
  info.context_length = config.shape.text_length_max();
  if (options.context_length > 0) info.context_length = std::min(info.context_length, options.context_length);
  info.slots = options.slots;
  const DType dtype = options.precision == "f32" ? DType::f32 : DType::bf16;
  LH_TRY(std::unique_ptr<Gpu> gpu, open_device(options.device, open_gpu));
  InferenceLoad load;
  std::int64_t pages = 0;
  if (gpu) {
    load.in_pages = true, load.sequences = info.slots;
    load.context_length = info.context_length + config.shape.virtual_tokens;
    load.tokens_max = std::max(GeneratorLimits().prefill_tokens + info.slots, config.shape.virtual_tokens);
    load.logits_rows = load.tokens_max, load.seen_rows = info.slots;
    LH_TRY(InferenceMemory planned, plan_inference_memory(folder, config.shape, dtype, load));
    LH_TRY(pages, plan_cache_pages(config.shape, dtype, load, gpu->device(), planned));
  }
  LH_TRY(InferenceModel model, InferenceModel::load(folder, dtype, gpu ? &gpu->device() : nullptr));
  LH_TRY(const ModelTokens named, tokens_of_folder(folder, tokenizer));
  for (const std::int64_t id : named.ends) info.end_tokens.push_back(static_cast<std::int32_t>(id));
  LH_TRY(PostProcessor around, PostProcessor::create(tokenizer, join_path(folder, "tokenizer.json")));
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = options.threads > 0 ? options.threads : std::max(1, cores);
  return std::unique_ptr<TextModel>(
      std::make_unique<InferenceTextModel>(std::move(gpu), std::move(model), std::move(tokenizer), std::move(around),
                                           folder, std::move(info), load, pages, threads));
}

}  // namespace longhaul

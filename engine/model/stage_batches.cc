#include "engine/model/stage_batches.h"

namespace longhaul {

StageBatches::StageBatches(const Options& options)
    : vocabulary_(options.vocabulary),
      vocabulary_size_(options.vocabulary_size),
      splits_(options.splits),
      positions_(options.positions),
      prompt_(options.prompt),
      losses_(account_of(options.memory, MemoryCategory::batches)),
      tables_(account_of(options.memory, MemoryCategory::activations)) {
  for (int slot = 0; slot < options.slots; ++slot)
    batches_.emplace_back(account_of(options.memory, MemoryCategory::batches));
  if (splits_ || prompt_) local_ids_.reserve(static_cast<std::size_t>(options.tokens_max));
  if (prompt_) prompt_rows_.reserve(static_cast<std::size_t>(options.tokens_max));
  count_tables();
}

void StageBatches::count_tables() {
  tables_.set(bytes_of_vector(local_ids_) + bytes_of_vector(counted_) + bytes_of_vector(prompt_rows_));
}

MicroBatch StageBatches::place(const ComputeContext& context, int slot, const MicroBatch& batch) {
  if (context.device() == nullptr) return batch;
  MicroBatch local = batch;
  local.ids = local_ids(batch), local.host_ids = batch.ids;
  if (positions_) local.positions = positions_of(batch);
  if (prompt_) local.prompt_rows = prompt_rows(batch);
  return batches_[static_cast<std::size_t>(slot)].place(context, local);
}

std::span<const std::int32_t> StageBatches::local_ids(const MicroBatch& batch) {
  if (!splits_ && !prompt_) return batch.ids;
  local_ids_.assign(batch.ids.begin(), batch.ids.end());
  for (std::int32_t& id : local_ids_) {
    const std::int64_t local = id - vocabulary_.first_id;
    id = local >= 0 && local < vocabulary_.rows ? static_cast<std::int32_t>(local) : -1;
  }
  return local_ids_;
}

std::span<const std::int32_t> StageBatches::prompt_rows(const MicroBatch& batch) {
  prompt_rows_.assign(batch.ids.begin(), batch.ids.end());
  for (std::int32_t& id : prompt_rows_)
    id = id < vocabulary_size_ ? -1 : static_cast<std::int32_t>(id - vocabulary_size_);
  return prompt_rows_;
}

std::span<const std::int32_t> StageBatches::positions_of(const MicroBatch& batch) {
  if (!batch.positions.empty()) return batch.positions;
  counted_.resize(static_cast<std::size_t>(batch.tokens()));
  count_tables();
  for (std::size_t t = 0; t < counted_.size(); ++t)
    counted_[t] = static_cast<std::int32_t>(static_cast<std::int64_t>(t) % batch.length);
  return counted_;
}

}  // namespace longhaul

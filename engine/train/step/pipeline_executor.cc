#include "engine/train/step/pipeline_executor.h"

#include <algorithm>

#include "base/process/fault_point.h"
#include "engine/train/gradients/replica_ranges.h"
#include "engine/train/step/model_statistics.h"

namespace longhaul {

EvaluationShare evaluation_share(std::int64_t samples, std::int64_t micro_batch_size, int rank, int ranks,
                                 bool together) {
  EvaluationShare share;
  share.total = (samples + micro_batch_size - 1) / micro_batch_size;
  share.per_rank = (share.total + ranks - 1) / ranks;
  share.first = rank * share.per_rank;
  share.end = share.first + share.per_rank;
  if (!together) share.end = std::min(share.total, share.end);
  return share;
}

PipelineExecutor::Charges::Charges(MemoryAccounts* memory)
    : batches(account_of(memory, MemoryCategory::batches)),
      messages(account_of(memory, MemoryCategory::communication)),
      experts(account_of(memory, MemoryCategory::experts)),
      logits(account_of(memory, MemoryCategory::logits)),
      scratch(account_of(memory, MemoryCategory::scratch)) {}

PipelineExecutor::PipelineExecutor(const ComputeContext& context, Mesh& mesh, Objective& objective,
                                   const TrainerOptions& options, const TrainerHooks& hooks, std::vector<int> slots,
                                   int micro_batches_max, MemoryAccounts* memory)
    : context_(context),
      mesh_(mesh),
      objective_(objective),
      options_(options),
      hooks_(hooks),
      slots_(std::move(slots)),
      batches_(static_cast<std::size_t>(micro_batches_max)),
      charges_(memory) {}

void PipelineExecutor::set_stages(std::vector<Llama*> stages) {
  stages_ = std::move(stages);
  LH_ASSERT(stages_.size() == slots_.size(), std::to_string(stages_.size()));
  const Status restored = low_precision_.is_table() ? restore_low_precision_of(stages_, low_precision_) : Status();
  LH_ASSERT(restored.ok(), restored.error().message());
}

void PipelineExecutor::release_stages() {
  low_precision_ = low_precision_state_of(stages_);
  stages_.clear();
}

Status PipelineExecutor::fill(BatchSource& source, std::int64_t first, int count) {
  const std::int64_t size = options_.micro_batch_size;
  for (int i = 0; i < count; ++i)
    LH_CHECK(fill_one(source, first + i * size, size, batches_[static_cast<std::size_t>(i)], true));
  return {};
}

Status PipelineExecutor::fill_one(BatchSource& source, std::int64_t first, std::int64_t count, BatchStorage& batch,
                                  bool training) {
  const ContextShard shard(mesh_.dims().cp, mesh_.at().cp);
  LH_CHECK(fill_shard(source, first, count, shard, batch));
  const std::int64_t pieces = count * (shard.splits() ? 2 : 1);  // of as many sequences as each sample has
  batch.first_sequence = training ? first * (batch.sequences / pieces) : -1;
  return stages_.front()->check(batch.view());
}

Status PipelineExecutor::run(std::int64_t step, const std::vector<ScheduleOp>& operations,
                             const MicroBatchGradients& gradients, std::vector<ObjectiveSums>& sums) {
  expect(operations, 0);
  for (std::size_t at = 0; at < operations.size(); ++at) {
    expect(operations, at + 1);
    if (auto fault = fault_here(FaultPoint::engine_backward)) return *fault;
    LH_CHECK(run_one(step, operations[at], gradients, sums));
  }
  count_memory();  // with the messages that are still on their way
  return finish();
}

// The message before an operation is received while the one before that runs.
void PipelineExecutor::expect(const std::vector<ScheduleOp>& operations, std::size_t at) {
  if (at >= operations.size() || operations[at].kind == ScheduleOp::Kind::backward_weight) return;
  const ScheduleOp& next = operations[at];
  stages_[static_cast<std::size_t>(next.chunk)]->expect(
      batches_[static_cast<std::size_t>(next.micro_batch)].view().tokens(), next.kind == ScheduleOp::Kind::forward);
}

Status PipelineExecutor::run_one(std::int64_t step, const ScheduleOp& op, const MicroBatchGradients& gradients,
                                 std::vector<ObjectiveSums>& sums) {
  using Kind = ScheduleOp::Kind;
  Llama& stage = *stages_[static_cast<std::size_t>(op.chunk)];
  // Each stage has its micro-batches in ascending order, so those alive are neighbours.
  const int slot = op.micro_batch % slots_[static_cast<std::size_t>(op.chunk)];
  const BatchStorage& batch = batches_[static_cast<std::size_t>(op.micro_batch)];
  const bool last_chunk = op.chunk + 1 == static_cast<int>(stages_.size());
  if (op.kind == Kind::forward) {
    if (hooks_.on_micro_batch) hooks_.on_micro_batch(step, op.micro_batch);
    objective_.forward(context_, stage, slot, batch);
  } else if (op.kind == Kind::backward_weight) {
    stage.backward_weight(context_, slot, target_of_model(options_.adapted, gradients.target(op.micro_batch)));
  } else {
    const ObjectiveSums mine = objective_.backward(context_, stage, slot, batch,
                                                   target_of_model(options_.adapted, gradients.target(op.micro_batch)));
    if (last_chunk) sums.push_back(mine);
    if (gradients.done) gradients.done(op.micro_batch);
  }
  return stage.status();
}

Status PipelineExecutor::evaluate(BatchSource& source, std::int64_t samples, const EvaluationShare& share,
                                  std::int64_t step, std::vector<ObjectiveSums>& sums) {
  const std::int64_t size = options_.micro_batch_size;
  for (std::int64_t i = share.first; i < share.end; ++i) {
    BatchStorage& batch = batches_.front();
    const std::int64_t begin = std::min(i, share.total - 1) * size;
    LH_CHECK(mesh_.whole().agree(fill_one(source, begin, std::min(size, samples - begin), batch, false)));
    for (Llama* stage : stages_) objective_.forward(context_, *stage, 0, batch);
    const ObjectiveSums mine = objective_.evaluate(context_, *stages_.back(), 0, batch);
    if (i < share.total) sums.push_back(mine);
    LH_CHECK(status());
    if (hooks_.on_micro_batch) hooks_.on_micro_batch(step, static_cast<int>(i));
  }
  return finish();
}

Status PipelineExecutor::finish() {
  for (Llama* stage : stages_) stage->finish_sends();
  return status();
}

Status PipelineExecutor::status() const {
  for (const Llama* stage : stages_) LH_CHECK(stage->status());
  return {};
}

void PipelineExecutor::poll() {
  for (Llama* stage : stages_) stage->poll();
}

void PipelineExecutor::count_memory() {
  std::int64_t batches = objective_.bytes(), messages = 0, experts = 0;
  for (const BatchStorage& batch : batches_) batches += batch.bytes();
  for (const Llama* stage : stages_) messages += stage->message_bytes(), experts += stage->expert_bytes();
  constexpr int logits_slot = 2;  // engine/ops/loss/cross_entropy.h and vocab_parallel_loss.h
  const std::int64_t logits = context_.scratch_bytes(logits_slot);
  charges_.batches.set(batches), charges_.messages.set(messages), charges_.experts.set(experts);
  charges_.logits.set(logits), charges_.scratch.set(context_.scratch_bytes() - logits);
}

}  // namespace longhaul

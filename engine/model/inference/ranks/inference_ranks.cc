#include "engine/model/inference/ranks/inference_ranks.h"

#include <utility>

#include "engine/comm/view_bytes.h"

namespace longhaul {
namespace {
constexpr int rows_tag =
    0;  // as a step's activations, none of which is under way: a tag more costs a GPU a communicator
}

ModelShape part_of_model(ModelShape shape, int tp, int tp_rank, int layers) {
  shape.num_attention_heads /= tp, shape.num_key_value_heads /= tp;
  shape.intermediate_size /= tp, shape.moe_intermediate_size /= tp;
  shape.n_shared_experts = tp_rank == 0 ? shape.n_shared_experts * tp : 0;  // shared_size() stays
  shape.num_hidden_layers = layers;
  return shape;
}

void InferenceRanks::finish(Communicator& ranks, Request request) {
  if (Status done = ranks.wait(std::move(request), deadline_ms_); !done.ok()) status_ = std::move(done);
}

void InferenceRanks::sum(View partial) {
  if (tensor_ && status_.ok()) finish(*tensor_, tensor_->all_reduce_sum(partial.span<float>()));
}

void InferenceRanks::gather(ConstView mine, View all) {
  if (tensor_ && status_.ok()) finish(*tensor_, tensor_->all_gather(bytes_of(mine), bytes_of(all)));
}

void InferenceRanks::receive(View x) {
  if (is_first_stage() || !status_.ok()) return;
  finish(*pipeline_, pipeline_->recv(bytes_of(x), pipeline_->rank() - 1, rows_tag));
}

void InferenceRanks::send(ConstView x) {
  if (is_last_stage() || !status_.ok()) return;
  finish(*pipeline_, pipeline_->send(bytes_of(x), pipeline_->rank() + 1, rows_tag));
}

void InferenceRanks::spread_from_last(View x) {
  if (pipeline_ && status_.ok()) finish(*pipeline_, pipeline_->broadcast(bytes_of(x), pipeline_->size() - 1));
}

}  // namespace longhaul

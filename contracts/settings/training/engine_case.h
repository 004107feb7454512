// What somebody asks of the engine, as far as it decides whether this version can do it: the question that the table of
// features answers (feature_table.h). A default case is the plainest training there is, on one rank of a processor.
#pragma once

#include <string>
#include <type_traits>

#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"
#include "contracts/settings/training/low_precision.h"
#include "contracts/settings/training/moe.h"
#include "contracts/settings/training/pipeline.h"
#include "contracts/settings/training/training.h"

namespace longhaul {

struct EngineCase {
  std::string kind = "pretrain";  // of the stage
  bool gpu = false;               // its ranks compute on a GPU each; else on processors
  std::string precision = "bf16";
  ModelShape shape;  // resolved; as it is by default where the model is not known
  ParallelDims dims;
  std::string cp_attention = "ring";
  PipelineSettings pipeline;
  RecomputeSettings recompute;
  LowPrecisionSettings low_precision;
  std::int64_t sequence_length = 0;  // tokens, of all samples; 0: they differ, or it is not known
  MoeSettings moe;
  OptimizerSettings optimizer;
  AdapterShape adapter;
  CorruptionSettings corruption;
  OverlapSettings overlap;
  bool deterministic = true;
  bool document_mask = false;
  double dropout = 0;
  std::string communicator = "nccl";       // between ranks on GPUs
  std::string attention_backend = "auto";  // of a GPU
  bool kernel_trace = false;
  bool draws_answers = false;      // of an align stage: its method learns from answers of the model itself,
  bool draws_ahead = false;        // draws them beside the step before (rollout.ahead),
  bool guesses_tokens = false;     // and guesses their next tokens (rollout.speculate)
  std::int64_t rollout_ranks = 0;  // of an align stage: those that only draw answers
  std::int64_t rollout_tp = 1, rollout_pp = 1;  // ranks that draw together, each with a part of the model
  // Of the stages that use a model.
  bool generates = false;            // deploy; evaluate with prompts
  std::string weights;               // their format, where they are quantized: "int8" | "fp8" | "int4"
  bool quantized_embedding = false;  // of the kind quantize
};

// Of a stage that trains: its settings, and what is known of its model and layout. `sequence_length` as above.
template <class Settings>
EngineCase engine_case_of(const std::string& kind, const Settings& s, const ModelShape& shape, const ParallelDims& dims,
                          std::int64_t sequence_length) {
  EngineCase c;
  c.kind = kind, c.gpu = s.device == "gpu", c.precision = s.precision;
  c.shape = shape, c.dims = dims, c.sequence_length = sequence_length;
  c.adapter = s.adapter;
  c.optimizer = s.optimizer, c.corruption = s.corruption, c.attention_backend = s.attention_backend;
  c.communicator = s.communicator;
  if constexpr (std::is_base_of_v<ComputeChoices, Settings>) {
    c.pipeline = s.pipeline, c.recompute = s.recompute, c.low_precision = s.low_precision, c.moe = s.moe;
    c.overlap = s.overlap, c.dropout = s.dropout;
    c.kernel_trace = s.trace.kernels;
  }
  if constexpr (std::is_base_of_v<ContextChoice, Settings>) c.cp_attention = s.cp_attention;
  // Of pretraining alone.
  if constexpr (requires { s.deterministic; }) c.deterministic = s.deterministic;
  if constexpr (requires { s.document_mask; }) c.document_mask = s.document_mask;
  if constexpr (requires { s.draws_answers; }) c.draws_answers = s.draws_answers;  // known to the engine
  // Of alignment.
  if constexpr (requires { s.rollout; }) {
    c.rollout_ranks = s.rollout.ranks, c.rollout_tp = s.rollout.tp, c.rollout_pp = s.rollout.pp;
    c.draws_ahead = s.rollout.ahead, c.guesses_tokens = s.rollout.speculate != "none";
  }
  return c;
}

}  // namespace longhaul

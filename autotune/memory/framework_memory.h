// Room autotune/memory
// What a training will hold on one GPU, as a closed formula that a search can ask for every layout.
// memory_profiles.h says how each framework keeps its arrays; fit_advice.h says what to change if nothing fits.
// It knows nothing of time or hardware, so that a memory question needs no constants of a machine.
//
// What a training will hold on one GPU, by what it is for, as a closed form: no lists, no allocation, well below a
// microsecond (tests/bench/autotune/framework_memory_bench.cc prints calls per second), so that a search can ask it for
// every layout. The engine's own plan on a CPU, byte by byte, is contracts/plan/memory_plan.h.
//
// A *profile* says what a framework keeps; the formula is the same for all. Let, of one rank,
//   T   tokens of a micro-batch: micro_batch_size * sequence_length / cp;  R = T / tp with sp, else T
//   h, q, kv, f   hidden size, columns of queries, of keys (or values), and of the feed-forward; f1 those that its
//   first
//       matrix gives (2f with a gate), V the vocabulary, padded for tp
//   P   parameters of this pipeline stage on this rank, S ranks among which the optimizer is shared
//
//   weights      2 P, or the owned share and the units that are gathered at once (ZeRO 3)
//   gradients    4 P or 2 P, divided by S from ZeRO 2
//   optimizer    (4 + 8) P / S: master and Adam's moments (Rajbhandari et al. 2020, arXiv 1910.02054, section 3.1)
//   activations  of a layer and micro-batch, in bf16 (Korthikanti et al. 2022, arXiv 2205.05198, equations 1 to 4 with
//                flash attention, which keeps one f32 number per head and token instead of s x s scores):
//                  2 R h * 4                      both norms' inputs and outputs
//                + 2 T (q + 2 kv) / tp + 2 T q / tp + 4 T heads / tp          queries, keys, values; output; log-sums
//                + 2 T (f1 + f) / tp              inputs of the activation and of the last matrix
//                + 2 R h                          two dropout masks of a byte, where there is dropout
//                less what is recomputed; times the layers of the stage and the micro-batches that are alive on it:
//                p - r in 1F1B, and as contracts/pipeline/pipeline_schedule.h has it of the others (equation 5: the
//                first stage holds p; with interleaving (1 + (p - 1) / (p v)) p)
//   logits       of all T tokens (or of a chunk), V / tp columns, and the copies that the loss makes of them
//   transient    what one layer needs while it runs backward, and with recomputation a layer's activations once
//   step         the optimizer's temporaries; they and activations are never alive together
//   communication  messages of the pipeline, gathered units, the library's buffers per communicator
//   runtime      what the driver and the libraries take of a GPU beside the allocator
//   fragmentation  what the caching allocator cannot use: a fraction of what comes and goes
//
// Experts: planned is the even spread of tokens.
// Threads: pure functions.
#pragma once

#include "autotune/time/context_kind.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"
#include "contracts/pipeline/pipeline_schedule.h"
#include "contracts/settings/training/recompute.h"

namespace longhaul {

// A model as numbers alone: cheap to copy and to read.
struct FrameworkModel {
  std::int64_t layers = 0, hidden = 0, vocab = 0;
  std::int64_t q = 0, kv = 0, heads = 0;  // columns of queries, of keys; query heads
  std::int64_t ffn = 0, mlp = 0;          // columns of the feed-forward, and of its first matrix (gate and up)
  std::int64_t positions = 0;             // learned
  std::int64_t layer_vectors = 0;         // norms and biases of a layer, elements
  std::int64_t final_vectors = 0;         // of the last norm
  bool tied = false;
  std::int64_t experts = 0, top_k = 0, expert_ffn = 0, shared_ffn = 0;
};
FrameworkModel framework_model(const ModelShape& shape);  // resolved

// A training's settings as far as they decide memory.
struct FrameworkTraining {
  ParallelDims dims;
  PipelineKind schedule = PipelineKind::one_f_one_b;
  int group = 0;          // micro-batches of interleaved schedules; 0: the smallest that fits
  int micro_batches = 1;  // of a rank in a step
  std::int64_t micro_batch_size = 1, sequence_length = 0;
  // Layers for which the embedding and the loss count when layers are assigned to stages.
  int embedding_as_layers = 0, loss_as_layers = 0;
  Recompute recompute;
  bool fp8 = false;  // the layers' matrices multiply in 8 bits
  bool dropout = false;
  ContextKind context = ContextKind::ring;  // where cp > 1
  double host_optimizer = 0;                // part of the optimizer's state that host memory keeps, 0 to 1
};

// What a framework keeps, in bytes where nothing else is said.
struct MemoryProfile {
  double weight = 2;           // of a parameter, as it computes
  double owned_weight = 0;     // of the owned share beside that, with ZeRO
  double fp8_weight = 2;       // instead, of a parameter of a layer's matrices where those multiply in 8 bits
  double fp8_input = 1;        // of an element of a product's input there
  double gradient = 4;         // of a parameter
  double owned_gradient = 0;   // of the owned share beside that, with ZeRO 1
  bool gradient_tree = false;  // one more for each halving of a step's micro-batches (deterministic sums)
  double master = 4, moments = 8;
  double step_gradient = 0;           // of an owned parameter, while the optimizer runs
  double gathered_units = 2;          // layers gathered at once with ZeRO 3
  double gathered_gradients = 2;      // layers whose gradients are whole at once, from ZeRO 2
  double gathered_gradient = 4;       // of their parameters
  bool root_stays = false;            // ZeRO 3: embedding and output are gathered as long as a micro-batch runs
  bool resharded = true;              // ZeRO 3: layers are given back between micro-batches of a pipeline
  bool shared_over_cp = true;         // cp ranks share the optimizer as well
  std::int64_t vocab_multiple = 1;    // the vocabulary is padded to a multiple of this and tp
  double more_ffn = 0;                // tensors of f columns kept beside gate, up and activated
  double more_q = 0;                  // tensors of q columns kept beside qkv and the output
  bool keeps_qkv = false;             // recomputing attention keeps queries, keys and values
  bool every_second_product = false;  // recomputes all but the layer's input, attention and every second product
  double dropout_mask = 1;            // of an element, where there is dropout
  double expert_slack = 0;            // more than an expert's rows need: memory that grows in steps
  bool whole_shared_experts = false;  // on every tp rank, which take turns at the tokens, instead of split
  double slot_rows = 0;               // tensors of R h kept beside the layers' for each chunk and micro-batch
  bool fixed_workspace = false;   // what runs is in memory of its own, taken once for every chunk and never given back
  double logit = 6;               // of a logit, with the loss's copies of it
  double parallel_logit = 6;      // where tp splits the vocabulary
  std::int64_t logit_tokens = 0;  // the loss takes so many tokens at a time; 0: all
  bool keeps_outputs = false;     // the last stage keeps every micro-batch's logits until the step ends
  double workspace = 0;           // of libraries, from the allocator
  double runtime = 0;             // CUDA context and code, beside the allocator
  double communicator = 0;        // of the message library, for each communicator
  double fragmentation = 0;       // part of activations, logits and transient
};

// Bytes on one GPU, at the moment when they are most together.
struct FrameworkMemory {
  double weights = 0, gradients = 0, optimizer = 0;
  double activations = 0, logits = 0, transient = 0;  // all 0 where the optimizer's step is the peak
  double step = 0;                                    // 0 where it is not
  double communication = 0;                           // from the allocator
  double workspace = 0;
  double runtime = 0, library = 0;  // beside the allocator: context and code; the message library's buffers
  double fragmentation = 0;
  double host = 0;  // not on the GPU

  // What frameworks report as the largest amount allocated, as reserved by their allocator, and what the GPU has to
  // have.
  double allocated() const {
    return weights + gradients + optimizer + activations + logits + transient + step + communication + workspace;
  }
  double reserved() const { return allocated() + fragmentation; }
  double total() const { return reserved() + runtime + library; }
};

// Micro-batches times chunks of layers that are alive at once on a stage. As contracts/pipeline/pipeline_schedule.h's
// table.
int chunks_alive(const FrameworkTraining& training, int pp_rank);
// Layers of all chunks of a stage.
int layers_of_rank(const FrameworkModel& model, const FrameworkTraining& training, int pp_rank);

// The layout must be one that resolve_dims accepts, with pp_rank in [0, pp) and at least a layer per stage.
FrameworkMemory stage_memory(const MemoryProfile& profile, const FrameworkModel& model,
                             const FrameworkTraining& training, int pp_rank);

struct WorstStage {
  int pp_rank = 0;
  FrameworkMemory memory;
};
// The stage that needs most. Asked are the first (the embedding, and most micro-batches), the second (which may have
// more layers) and the last (the loss): between them nothing grows.
WorstStage worst_stage_memory(const MemoryProfile& profile, const FrameworkModel& model,
                              const FrameworkTraining& training);

}  // namespace longhaul

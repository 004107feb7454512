#include "autotune/memory/framework_memory.h"

#include <algorithm>
#include <bit>

namespace longhaul {

FrameworkModel framework_model(const ModelShape& s) {
  FrameworkModel m;
  m.layers = s.num_hidden_layers, m.hidden = s.hidden_size, m.vocab = s.vocab_size;
  m.q = s.q_size(), m.kv = s.kv_size(), m.heads = s.num_attention_heads;
  m.tied = s.tie_word_embeddings;
  if (s.is_moe()) {
    m.experts = s.num_local_experts, m.top_k = s.num_experts_per_tok;
    m.expert_ffn = s.moe_intermediate_size, m.shared_ffn = s.shared_size();
  } else {
    m.ffn = s.intermediate_size, m.mlp = s.mlp_width();
  }
  m.layer_vectors = 2 * s.hidden_size, m.final_vectors = s.hidden_size;
  if (s.is_gpt2()) {  // norms have two vectors, linear layers one
    m.positions = s.max_position_embeddings;
    m.layer_vectors = 6 * s.hidden_size + s.q_size() + 2 * s.kv_size() + s.intermediate_size;
    m.final_vectors = 2 * s.hidden_size;
  }
  return m;
}

namespace framework_memory_detail {

constexpr double bf16 = 2, f32 = 4;

// The smallest group of micro-batches that fits, where none is asked for (contracts/pipeline/pipeline_schedule.h).
int group_of(const FrameworkTraining& t) {
  const int pp = t.dims.pp, m = t.micro_batches;
  if (t.group > 0) return t.group;
  for (int group = pp; group < m; ++group)
    if (const int left = m % group; left == 0 || left >= pp) return group;
  return m;
}

// The same for every chunk by itself, added up: what an engine has memory for whose chunks do not lend each other any.
// Forwards run group by group, in a group chunk by chunk, backwards the same from the last chunk; after the warm-up
// they take turns. Of chunk c most are alive when its part of a group has just run forward, or is about to run
// backward.
int slots_of_chunks(const FrameworkTraining& t, int pp_rank) {
  const int pp = t.dims.pp, vp = t.dims.vp, m = t.micro_batches, group = std::min(group_of(t), m);
  if (vp == 1 || m < pp) return chunks_alive(t, pp_rank);
  const int period = group * vp, forwards = m * vp;
  const bool late = t.schedule == PipelineKind::zb_h1;  // weight gradients follow pp_rank operations later
  const int warm_up = std::min(forwards, (late ? 1 : 2) * (pp - pp_rank - 1) + (vp - 1) * group);
  const int late_by = late ? pp_rank : 0;
  // By the micro-batches of whole rounds before and the groups of this one. A search asks this more often than anything
  // else, so within the loop nothing is divided.
  const auto of_round = [&](int operations, int place) { return std::clamp(operations - place * group, 0, group); };
  const int of_rounds = forwards / period * group, rest = forwards % period;
  int slots = 0;
  for (int chunk = 0; chunk < vp; ++chunk) {
    const int place = vp - 1 - chunk, all = of_rounds + of_round(rest, chunk);
    int most = 0;
    // The first backward of all, and of this chunk, is about to begin: none has been, and later ones find as many
    // forwards or fewer.
    for (const int turn : {0, place * group + late_by}) {
      const int forward = warm_up + 1 + turn;
      int left = forward, done = 0;
      for (; left >= period; left -= period) done += group;
      most = std::max(most, forward > forwards ? all : done + of_round(left, chunk));
    }
    // The chunk's part of a group has just run forward.
    int left = (chunk + 1) * group - warm_up - 1 - late_by, before = 0;
    for (; left < 0; left += period) before -= group;
    before += of_round(left, place);
    for (int round = 0; round < 3; ++round) {
      const int forward = round * period + (chunk + 1) * group, turn = forward - warm_up - 1;
      if (turn < 0) continue;
      const int done = forward > forwards ? all : (round + 1) * group;
      most = std::max(most, done - (turn < late_by ? 0 : round * group + before));
    }
    slots += std::min(most, m);
  }
  return slots;
}

// One stage of one rank in the letters of the header, with what of them the layout leaves here.
struct Sizes {
  double tokens, rows, h, q, kv, heads, ffn, mlp, vocab;  // all but rows and h divided by tp
  double routed = 0, received = 0, local_tokens = 0;      // expert layers: rows sent, rows that come, own tokens
  double expert_ffn = 0;
  int layers;
  bool first, last;

  Sizes(const MemoryProfile& profile, const FrameworkModel& m, const FrameworkTraining& t, int pp_rank)
      : layers(layers_of_rank(m, t, pp_rank)), first(pp_rank == 0), last(pp_rank + 1 == t.dims.pp) {
    const double tp = t.dims.tp;
    tokens = static_cast<double>(t.micro_batch_size * t.sequence_length) / t.dims.cp;
    rows = t.dims.sp ? tokens / tp : tokens;
    h = static_cast<double>(m.hidden);
    q = static_cast<double>(m.q) / tp, kv = static_cast<double>(m.kv) / tp, heads = static_cast<double>(m.heads) / tp;
    ffn = static_cast<double>(m.ffn) / tp, mlp = static_cast<double>(m.mlp) / tp;
    const std::int64_t multiple = profile.vocab_multiple * t.dims.tp;
    const std::int64_t padded = (m.vocab + multiple - 1) / multiple * profile.vocab_multiple;
    vocab = static_cast<double>(padded);
    if (m.experts == 0) return;
    local_tokens = tokens / tp;
    routed = local_tokens * static_cast<double>(m.top_k), received = routed * t.dims.etp;
    expert_ffn = static_cast<double>(m.expert_ffn) / t.dims.etp;
  }
};

// Parameters of a stage on one rank before anything is shared among replicas.
struct Parameters {
  double layer = 0;     // of one layer, its experts not counted
  double experts = 0;   // of one layer
  double matrices = 0;  // of one layer, without vectors and router: those that multiply in 8 bits
  double embedding = 0, head = 0;
  double all = 0, all_experts = 0;

  Parameters(const MemoryProfile& profile, const Sizes& z, const FrameworkModel& m, const FrameworkTraining& t) {
    const auto shared = static_cast<double>(m.shared_ffn) / (profile.whole_shared_experts ? 1 : t.dims.tp);
    matrices = z.h * (z.q + 2 * z.kv) + z.q * z.h + z.h * (z.mlp + z.ffn) + 3 * z.h * shared;
    layer = matrices + static_cast<double>(m.layer_vectors + m.experts * m.hidden);
    experts = static_cast<double>(m.experts) / t.dims.ep * 3 * z.h * z.expert_ffn;
    matrices += experts;
    if (z.first) embedding = z.vocab * z.h + static_cast<double>(m.positions) * z.h;
    if (z.last) {
      head = static_cast<double>(m.final_vectors);
      if (!m.tied || t.dims.pp > 1) head += z.vocab * z.h;
    }
    all_experts = z.layers * experts;
    all = z.layers * layer + all_experts + embedding + head;
  }
  double largest_unit() const { return std::max({layer, experts, embedding, head}); }
};

// Ranks among which the optimizer's state is sharded: of what all replicas hold, and of experts, which fewer hold.
struct Shares {
  double dense = 1, experts = 1;
  double batches = 1;  // micro-batches that meet in an expert at once

  Shares(const MemoryProfile& profile, const FrameworkTraining& t) {
    const ParallelDims& d = t.dims;
    const int meet = d.ep * d.etp, of_batch = d.tp * d.cp;
    batches = std::max(1, meet / of_batch);
    if (d.zero == 0) return;
    dense = d.dp_shard * (profile.shared_over_cp ? d.cp : 1);
    experts = profile.shared_over_cp ? std::max(1, d.dp_shard * of_batch / meet)
                                     : std::max(1, d.dp_shard / std::max(1, meet / of_batch));
  }
};

double expert_activations(const MemoryProfile& profile, const FrameworkModel& m, const Sizes& z, const Recompute& again,
                          double input) {
  if (m.experts == 0) return 0;
  const double shared = z.local_tokens * static_cast<double>(m.shared_ffn);
  double sum = 0;
  if (!again.block) sum += bf16 * (z.received + z.routed) * z.h;
  if (!again.feed_forward && !again.block) sum += bf16 * 2 * (z.received * z.expert_ffn + shared);
  if (!again.activation && !again.block) sum += input * (z.received * z.expert_ffn + shared);
  return sum * (1 + profile.expert_slack) + z.local_tokens * static_cast<double>(m.experts) * f32;
}

// What one layer keeps of one micro-batch.
double kept_by_layer(const MemoryProfile& profile, const FrameworkModel& m, const FrameworkTraining& t, const Sizes& z,
                     const Recompute& again) {
  const double row = z.rows * z.h, input = t.fp8 ? profile.fp8_input : bf16;  // bytes of a product's input
  double bytes = bf16 * row + expert_activations(profile, m, z, again, input);
  if (again.block) return bytes;
  bytes += bf16 * row;  // between attention and feed-forward
  if (t.dropout) bytes += profile.dropout_mask * 2 * row;
  if (!again.norms) bytes += 2 * input * row;
  const double qkv = bf16 * z.tokens * (z.q + 2 * z.kv);
  const double attended = z.tokens * (bf16 * z.q * (1 + profile.more_q) + f32 * z.heads);
  if (!again.attention)
    bytes += qkv + attended;
  else if (profile.keeps_qkv)
    bytes += qkv;
  if (input < bf16) bytes += input * z.tokens * z.q;  // the output's 8-bit copy, which its product keeps
  if (!again.feed_forward) bytes += bf16 * z.tokens * (z.mlp + profile.more_ffn * z.ffn);
  if (!again.activation && !again.feed_forward) bytes += input * z.tokens * z.ffn;
  return bytes;
}

// torchtitan's selective recomputation: of queries, keys, values, output, gate, up and down every second one.
double kept_of_every_second(const Sizes& z) {
  return bf16 * 2 * z.rows * z.h + z.tokens * (bf16 * (2 * z.q + z.kv + z.ffn) + f32 * z.heads);
}

// What attention over a cp group takes beside its input and output, as engine/parallel/*_attention.cc do: the ring
// keeps two pairs of keys and values on their way and sums in f32; gathering keeps those of whole sequences, in the
// order of the ranks and of the text, and their gradients; an exchange what goes, what comes, and all heads' share of
// both passes.
double context_attention(const FrameworkTraining& t, const Sizes& z) {
  if (t.dims.cp == 1) return 0;
  const double cp = t.dims.cp;
  if (t.context == ContextKind::gather) return z.tokens * 2 * z.kv * (bf16 * (1 + 3 * cp) + f32 * (cp + 1));
  if (t.context == ContextKind::a2a)
    return z.tokens * bf16 * (2 * std::max(z.q + 2 * z.kv, 2 * z.q) + 2 * z.q + z.q + 2 * z.kv);
  return z.tokens * (2 * 2 * z.kv * bf16 + z.q * f32 + z.q * bf16 / 2 + z.kv * bf16 + 3 * 2 * z.kv * f32);
}

// Beside what is kept, one layer that runs backward: gradients of its products' outputs and of what goes in and out of
// it, and what tensor parallelism gathers or sums.
double layer_transient(const MemoryProfile& profile, const FrameworkModel& m, const FrameworkTraining& t,
                       const Sizes& z, bool split_backward) {
  const double row = z.rows * z.h, whole = z.tokens * z.h;
  double bytes = 0;
  if (!split_backward) bytes += bf16 * z.tokens * (z.q + 2 * z.kv + z.mlp) + bf16 * 2 * whole;
  bytes += bf16 * 2 * row + bf16 * z.tokens * (z.ffn + z.q);
  if (t.dims.tp > 1)
    bytes += profile.fixed_workspace ? f32 * (2 * whole - row) + bf16 * whole : bf16 * 2 * (whole - row);
  if (m.experts > 0) {
    const double shared = z.local_tokens * static_cast<double>(m.shared_ffn);
    const double rows = z.received * (z.h + 3 * z.expert_ffn) + 3 * shared + 2 * z.local_tokens * z.h + z.routed * z.h;
    bytes += bf16 * rows * (1 + profile.expert_slack);
  }
  return bytes + context_attention(t, z);
}

struct Layers {
  double kept = 0, again = 0;  // of a chunk and micro-batch; of one layer when it is computed again
};
Layers layers_of_chunk(const MemoryProfile& profile, const FrameworkModel& m, const FrameworkTraining& t,
                       const Sizes& z, bool split_backward) {
  const double layers = static_cast<double>(z.layers) / t.dims.vp;
  const double whole = kept_by_layer(profile, m, t, z, {});
  Layers made;
  if (profile.every_second_product) {
    const double kept = kept_of_every_second(z);
    made = {layers * kept, std::max(0.0, whole - kept)};
  } else if (t.recompute.any()) {
    const double kept = kept_by_layer(profile, m, t, z, t.recompute);
    const double some = t.recompute.layers > 0 ? std::min(layers, static_cast<double>(t.recompute.layers)) : layers;
    made = {some * kept + (layers - some) * whole, whole - kept};
  } else {
    made = {layers * whole, 0};
  }
  if (split_backward) made.kept += layers * bf16 * (z.tokens * (z.q + 2 * z.kv + z.mlp) + 2 * z.tokens * z.h);
  made.kept += profile.slot_rows * bf16 * z.rows * z.h;
  return made;
}

double logits_of(const MemoryProfile& profile, const FrameworkTraining& t, const Sizes& z) {
  if (!z.last) return 0;
  const double tokens =
      profile.logit_tokens > 0 ? std::min(z.tokens, static_cast<double>(profile.logit_tokens)) : z.tokens;
  double bytes = tokens * z.vocab * (t.dims.tp > 1 ? profile.parallel_logit : profile.logit);
  if (!profile.fixed_workspace) bytes += bf16 * (2 * z.rows + (t.dims.sp ? z.tokens : 0)) * z.h;  // the last norm
  if (profile.keeps_outputs && t.dims.pp > 1) bytes += bf16 * t.micro_batches * z.tokens * z.vocab;
  return bytes;
}

void add_states(const MemoryProfile& profile, const FrameworkTraining& t, const Sizes& z, const Parameters& p,
                FrameworkMemory& made) {
  const Shares shares(profile, t);
  const int zero = t.dims.zero;
  const double owned = (p.all - p.all_experts) / shares.dense + p.all_experts / shares.experts;
  const double units = z.layers * (p.experts > 0 ? 2 : 1) + (z.first ? 1 : 0) + (z.last ? 1 : 0);
  const double buckets = profile.gathered_gradients * (profile.fixed_workspace && p.experts > 0 ? 1.5 : 1);
  const double largest = profile.root_stays ? p.layer + p.experts : p.largest_unit();
  const bool whole = zero < 3 || (!profile.resharded && t.dims.pp > 1);

  const double gathered = std::min(profile.gathered_units, units);
  made.weights = zero > 0 ? profile.owned_weight * owned : 0;
  made.weights +=
      profile.weight * (whole ? p.all : gathered * largest + (profile.root_stays ? p.embedding + p.head : 0));
  if (t.fp8) made.weights += (profile.fp8_weight - profile.weight) * (whole ? z.layers : gathered) * p.matrices;

  if (zero < 2) {
    const int levels =
        profile.gradient_tree ? std::countr_zero(static_cast<unsigned>(std::max(1, t.micro_batches))) : 0;
    const double more = profile.gradient_tree ? (shares.batches - 1) * p.all_experts : 0;
    made.gradients = profile.gradient * (1 + levels) * (p.all + more);
    if (zero == 1) made.gradients += profile.owned_gradient * owned;
  } else {
    made.gradients = profile.gradient * owned;
    if (!profile.resharded && t.dims.pp > 1)
      made.gradients += profile.gathered_gradient * p.all;
    else
      made.gradients += profile.gathered_gradient * std::min(buckets, units) * largest * (1 + 1 / shares.dense);
  }
  const double states = (profile.master + profile.moments) * owned;
  made.host = t.host_optimizer * states;
  made.optimizer = states - made.host;
  made.step = profile.step_gradient * owned * (1 - t.host_optimizer);
}

// Keeps of what comes and goes the parts that are alive when they are most together: the loss is done before the first
// layer runs backward, and all of it before the optimizer's step.
void settle_peak(const MemoryProfile& profile, const FrameworkTraining& t, const Parameters& p, FrameworkMemory& made) {
  double loss = made.logits, layer = made.transient;
  if (loss > layer)
    layer = 0;
  else
    loss = 0;
  // One group of micro-batches: chunk after chunk runs backward, and whole gradients take the place of activations.
  const int vp = t.dims.vp;
  const bool whole_gradients = t.dims.zero >= 2 && !profile.resharded && t.dims.pp > 1;
  if (whole_gradients && vp > 1 && t.micro_batches <= group_of(t)) {
    const double waits = profile.gathered_gradient * p.all * (vp - 1) / vp, goes = made.activations * (vp - 1) / vp;
    if (loss + layer + goes > made.transient + waits) {
      made.gradients -= waits;
    } else {
      made.activations -= goes;
      loss = 0, layer = made.transient;
    }
  }
  made.logits = loss, made.transient = layer;
  if (made.step > made.activations + made.logits + made.transient)
    made.activations = made.logits = made.transient = 0;
  else
    made.step = 0;
}

}  // namespace framework_memory_detail

int layers_of_rank(const FrameworkModel& model, const FrameworkTraining& t, int pp_rank) {
  const int pp = t.dims.pp, stages = pp * t.dims.vp;
  const int counted = static_cast<int>(model.layers) + t.embedding_as_layers + t.loss_as_layers;
  const int more = counted % stages;  // the first so many stages have one more
  int layers = counted / stages * t.dims.vp;
  if (more > pp_rank) layers += (more - pp_rank + pp - 1) / pp;
  if (pp_rank == 0) layers -= t.embedding_as_layers;
  if (pp_rank + 1 == pp) layers -= t.loss_as_layers;
  return layers;
}

int chunks_alive(const FrameworkTraining& t, int pp_rank) {
  const int pp = t.dims.pp, vp = t.dims.vp, forwards = t.micro_batches * vp;
  if (vp > 1 && t.micro_batches < pp) return forwards;
  const int more = vp > 1 ? (vp - 1) * framework_memory_detail::group_of(t) : 0;
  switch (t.schedule) {
    case PipelineKind::one_f_one_b: return std::min(forwards, pp - pp_rank);
    case PipelineKind::interleaved: return std::min(forwards, 2 * (pp - pp_rank - 1) + more + 1);
    case PipelineKind::zb_h1: return std::min(forwards, pp + more);
  }
  return forwards;
}

FrameworkMemory stage_memory(const MemoryProfile& profile, const FrameworkModel& model, const FrameworkTraining& t,
                             int pp_rank) {
  using namespace framework_memory_detail;
  const Sizes z(profile, model, t, pp_rank);
  const Parameters p(profile, z, model, t);
  const bool split_backward = t.schedule == PipelineKind::zb_h1;
  FrameworkMemory made;
  add_states(profile, t, z, p, made);
  made.workspace = profile.workspace;
  made.runtime = profile.runtime;
  const ParallelDims& d = t.dims;
  made.library = profile.communicator * ((d.tp > 1) + (d.cp > 1) + (d.pp > 1) + (d.dp() * d.cp > 1) + (d.ep > 1));
  if (d.pp > 1) made.communication = 4 * bf16 * z.rows * z.h;  // in and out, forward and backward

  const Layers layers = layers_of_chunk(profile, model, t, z, split_backward);
  made.activations = (profile.fixed_workspace ? slots_of_chunks(t, pp_rank) : chunks_alive(t, pp_rank)) * layers.kept;
  made.transient = layer_transient(profile, model, t, z, split_backward) + layers.again;
  made.logits = logits_of(profile, t, z);
  if (profile.fixed_workspace) {
    made.transient *= d.vp;
    made.step = 0;
  } else {
    settle_peak(profile, t, p, made);
  }
  made.fragmentation = profile.fragmentation * (made.activations + made.logits + made.transient + made.step);
  return made;
}

WorstStage worst_stage_memory(const MemoryProfile& profile, const FrameworkModel& model, const FrameworkTraining& t) {
  WorstStage worst{0, stage_memory(profile, model, t, 0)};
  double most = worst.memory.total();
  const auto ask = [&](int pp_rank) {
    const FrameworkMemory here = stage_memory(profile, model, t, pp_rank);
    if (const double total = here.total(); total > most) worst = {pp_rank, here}, most = total;
  };
  if (t.dims.pp > 2) ask(1);
  if (t.dims.pp > 1) ask(t.dims.pp - 1);
  return worst;
}

}  // namespace longhaul

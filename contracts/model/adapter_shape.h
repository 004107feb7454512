// An adapter: a few numbers that are trained in place of a model's weights, which stay as they are. The kinds are those
// that change weights, W [out, in], so that one model serves forward, backward and export; s = alpha / rank, or with
// rslora alpha / sqrt(rank), of each matrix its own where `ranks` or `alphas` mean it:
//   lora  W' = W + s B A, A [rank, in], B [out, rank] (Hu et al. 2021; rank-stabilised: Kalajdzievski 2023); of a
//         table of tokens [vocabulary, hidden], as PEFT has it, W' = W + s (B A)^T, A [rank, vocabulary] begins as
//         zeros and B [hidden, rank] as N(0, 1)
//   dora  W' = m (W + s B A) / |W + s B A| of each row, m [out]; no gradient goes through the norm (Liu et al. 2024,
//         section 4.3)
//   ia3   W' = l W, of rows for q, k, v, gate and up (l [out]), of columns for o and down (l [in]) (Liu et al. 2022)
// In training lora may drop some of its input, each matrix its own (Hu et al. 2021, table 11; PEFT's lora_dropout): y =
// W x + s B A (m x / (1 - p)), m [in] of zeros and ones. This has no form as changed weights: what m changes is added
// beside W' x (engine/model/layers/adapter_dropout.h), and W' is what is left when nothing is dropped. Three kinds
// change no weights but what stands before every text:
//   prompt  n embeddings P [n, hidden] that no token has: a text x is read as P, x, at positions that count both, and
//           only what follows P has a loss. They begin as rows of the table of tokens that are drawn by the seed
//           (prompt tuning: Lester et al. 2021, section 2 and "sampled vocabulary" of section 3.2)
//   p-tuning  the same P, made by an encoder that is trained with a table E [n, hidden]: P = W3 r(W2 r(W1 E + b1) + b2)
//           + b3 of each row, r(x) = max(x, 0), W1 and W2 with encoder_size rows (Liu et al. 2021, "GPT understands,
//           too"; the MLP as PEFT has it). Only P is left when it is trained
//   prefix  n keys and n values of each layer, [n, kv] each, which every token of a text attends to as to tokens at
//           positions 0 .. n - 1; the text begins at position n. Keys are as the cache has them, with rotary positions
//           in them (Li and Liang 2021, "Prefix-tuning", section 4.2, without its MLP: PEFT's prefix_projection =
//           false). They begin as N(0, 1), as PEFT's do
// One kind adds layers of its own:
//   bottleneck  what attention or the feed-forward gives, h with its bias and after dropout, becomes
//           h + U g(D h + d) + u before it joins the residual; D [size, hidden], d [size], U [hidden, size],
//           u [hidden], g is GELU in its tanh form (Houlsby et al. 2019, arXiv 1902.00751, section 2.1 and Figure 2:
//           after both; Pfeiffer et al. 2021, arXiv 2005.00247: after the feed-forward alone). Size, GELU and the place
//           behind dropout are those of Houlsby's code (google-research/adapter-bert, modeling.py). D begins as
//           N(0, 0.02), as AdapterHub's (init_weights = "bert"), U, d and u as 0: so it begins as no change
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "contracts/schema/field_table.h"

namespace longhaul {

inline constexpr std::int64_t virtual_tokens_max = 65'536;
inline constexpr std::int64_t bottleneck_size_max = 65'536;

struct AdapterShape {
  std::string kind = "none";  // none | lora | dora | ia3 | prompt | p-tuning | prefix | bottleneck
  std::int64_t rank = 8;
  double alpha = 8;
  bool rslora = false;
  double dropout = 0;  // lora: p, in training; of a table of tokens nothing, as PEFT has it
  // Matrices that are adapted: the last parts of a name ("q_proj", "mlp.c_proj"), or a whole name in which * stands for
  // anything. Empty: all of attention and of a dense feed-forward; with ia3 k_proj, v_proj and down_proj. Those of
  // experts (w1, w2, w3) have to be named, and with lora the table of tokens may be ("embed_tokens"), without *, unless
  // it is the output as well.
  std::vector<std::string> targets;
  // Of matrices that patterns mean, which are like targets: no two of a table mean the same matrix.
  std::map<std::string, std::int64_t> ranks;
  std::map<std::string, double> alphas;
  // What is trained itself beside the adapter, by names like targets: the table of tokens and the output layer, unless
  // these are one, learned positions, norms.
  std::vector<std::string> modules_to_save;
  // What the weights that stay as they are are held in (contracts/model/coded_weights.h): full, the type that computes;
  // int8, int4 or nf4.
  std::string base_weights = "full";
  std::int64_t virtual_tokens = 20;   // prompt, p-tuning, prefix: n
  std::int64_t encoder_size = 0;      // p-tuning; 0: the model's hidden size
  std::int64_t bottleneck_size = 64;  // bottleneck: rows of D
  // bottleneck: behind which half of each layer; one of them, or both.
  std::vector<std::string> bottleneck_after = {"attention", "feed_forward"};

  bool on() const { return kind != "none"; }
  bool low_rank() const { return kind == "lora" || kind == "dora"; }
  bool has_encoder() const { return kind == "p-tuning"; }
  bool is_prefix() const { return kind == "prefix"; }
  bool is_prompt() const { return kind == "prompt" || has_encoder() || is_prefix(); }  // what stands before every text
  bool is_bottleneck() const { return kind == "bottleneck"; }
  // Tokens that a text has less room for than without it: those of what stands before it.
  std::int64_t tokens_before() const { return is_prompt() ? virtual_tokens : 0; }
  bool changes_weights() const { return on() && !is_prompt() && !is_bottleneck(); }
  bool operator==(const AdapterShape&) const = default;
};
const FieldTable<AdapterShape>& adapter_fields();
// Keys that say nothing to the kind, and a bottleneck_after that names nothing, something else or one twice
// (invalid_input, all in one).
Status check_adapter(const AdapterShape& adapter);

}  // namespace longhaul

#include "contracts/model/adapter_shape.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

const FieldTable<AdapterShape>& adapter_fields() {
  using A = AdapterShape;
  static const auto table =
      FieldTable<A>()
          .field("kind", &A::kind,
                 {.help = "what is trained in place of the weights: lora and dora two thin matrices beside each, ia3 a "
                          "factor of its rows or columns, prompt embeddings that stand before every text, p-tuning "
                          "an encoder that makes them, prefix keys and values of each layer that stand there, "
                          "bottleneck two small layers behind attention and feed-forward; none trains the weights",
                  .choices = {"none", "lora", "dora", "ia3", "prompt", "p-tuning", "prefix", "bottleneck"}})
          .field("rank", &A::rank, {.help = "lora, dora: width of the thin matrices", .min = 1, .max = 8192})
          .field("alpha", &A::alpha, {.help = "lora, dora: their product is scaled by alpha / rank", .min = 0})
          .field("rslora", &A::rslora, {.help = "lora, dora: scaled by alpha / sqrt(rank) instead"})
          .field("dropout", &A::dropout,
                 {.help = "lora: share of what enters the thin matrices that is zeroed in training, of each adapted "
                          "matrix its own (PEFT's lora_dropout); nothing of an adapted table of tokens",
                  .min = 0,
                  .max = 0.95})
          .field(
              "targets", &A::targets,
              {.help = "matrices that are adapted: last parts of names (\"q_proj\"), or names in which * stands for "
                       "anything; empty: all of attention and of a feed-forward without experts (ia3: k_proj, v_proj, "
                       "down_proj); experts' are \"w1\", \"w2\" and \"w3\", with lora the table of tokens "
                       "\"embed_tokens\""})
          .field("ranks", &A::ranks,
                 {.help = "lora, dora: ranks of matrices that have another than `rank`, by names as in targets: "
                          "{ q_proj = 4, \"*.layers.0.mlp.*\" = 16 }",
                  .min = 1,
                  .max = 8192})
          .field("alphas", &A::alphas, {.help = "lora, dora: in the same way those with another alpha", .min = 0})
          .field(
              "modules_to_save", &A::modules_to_save,
              {.help = "lora, dora, ia3: what is trained itself beside the adapter, by names as in targets: "
                       "\"embed_tokens\", \"lm_head\" (of a model whose output is not tied to its embedding), norms"})
          .field("base_weights", &A::base_weights,
                 {.help = "what the matrices of the model's layers, which stay as they are, are held in: full is the "
                          "type that computes; with nf4 and lora this is QLoRA",
                  .choices = {"full", "int8", "int4", "nf4"}})
          .field("virtual_tokens", &A::virtual_tokens,
                 {.unit = "tokens",
                  .help = "prompt, p-tuning, prefix: what stands before every text, and counts in sequence_length",
                  .min = 1,
                  .max = virtual_tokens_max})
          .field("encoder_size", &A::encoder_size,
                 {.help = "p-tuning: width of the encoder; 0 is the model's hidden_size", .min = 0, .max = 65'536})
          .field("bottleneck_size", &A::bottleneck_size,
                 {.help = "bottleneck: width between its two layers", .min = 1, .max = bottleneck_size_max})
          .field("bottleneck_after", &A::bottleneck_after,
                 {.help = "bottleneck: what stands behind which half of each layer: \"attention\", \"feed_forward\" or "
                          "both"});
  return table;
}

namespace {

Status check_places(const AdapterShape& adapter) {
  const std::vector<std::string>& after = adapter.bottleneck_after;
  const auto is_place = [](const std::string& name) { return name == "attention" || name == "feed_forward"; };
  if (!after.empty() && std::ranges::all_of(after, is_place) && (after.size() == 1 || after[0] != after[1]) &&
      after.size() <= 2)
    return {};
  return make_error(ErrorCode::invalid_input,
                    format("adapter.bottleneck_after = [{}] is no choice of halves of a layer",
                           after.empty() ? "" : "\"" + join(after, "\", \"") + "\""),
                    "name \"attention\", \"feed_forward\" or both, each once");
}

}  // namespace

Status check_adapter(const AdapterShape& adapter) {
  const AdapterShape plain;
  std::vector<std::string> unused;
  const auto hold = [&](bool differs, const char* key) {
    if (differs) unused.emplace_back(key);
  };
  if (!adapter.low_rank()) {
    hold(adapter.rank != plain.rank, "rank");
    hold(adapter.alpha != plain.alpha, "alpha");
    hold(adapter.rslora != plain.rslora, "rslora");
    hold(adapter.ranks != plain.ranks, "ranks");
    hold(adapter.alphas != plain.alphas, "alphas");
    hold(adapter.dropout != plain.dropout, "dropout");
  }
  if (!adapter.changes_weights()) {
    hold(adapter.targets != plain.targets, "targets");
    hold(adapter.modules_to_save != plain.modules_to_save, "modules_to_save");
  }
  if (!adapter.on()) hold(adapter.base_weights != plain.base_weights, "base_weights");
  if (!adapter.is_prompt()) hold(adapter.virtual_tokens != plain.virtual_tokens, "virtual_tokens");
  if (!adapter.has_encoder()) hold(adapter.encoder_size != plain.encoder_size, "encoder_size");
  if (!adapter.is_bottleneck()) {
    hold(adapter.bottleneck_size != plain.bottleneck_size, "bottleneck_size");
    hold(adapter.bottleneck_after != plain.bottleneck_after, "bottleneck_after");
  }
  if (unused.empty()) return adapter.is_bottleneck() ? check_places(adapter) : Status();
  return make_error(
      ErrorCode::invalid_input,
      format("adapter.{} {} nothing to adapter.kind = \"{}\"", join(unused, ", adapter."),
             unused.size() == 1 ? "says" : "say", adapter.kind),
      adapter.on() ? format("leave out what is not {}'s", adapter.kind) : "set adapter.kind, for example to \"lora\"");
}

}  // namespace longhaul

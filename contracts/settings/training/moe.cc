#include "contracts/settings/training/moe.h"

#include "base/text/text.h"
#include "contracts/settings/training/feature_table.h"

namespace longhaul {

const FieldTable<MoeSettings>& moe_fields() {
  using M = MoeSettings;
  static const auto table =
      FieldTable<M>()
          .field("balance", &M::balance,
                 {.help = "what keeps experts equally busy: an auxiliary loss, a bias on the selection (needs "
                          "model.router_bias), Sinkhorn's assignment, or nothing",
                  .choices = {"aux", "bias", "sinkhorn", "none"}})
          .field("aux_loss_coef", &M::aux_loss_coef,
                 {.help = "coefficient of the auxiliary loss; used with balance = \"aux\"", .min = 0, .max = 1e6})
          .field("aux_loss", &M::aux_loss,
                 {.help = "its definition: Megatron-LM's, a loss per layer, or Hugging Face's, which is top_k times as "
                          "large and taken over the tokens of all layers at once",
                  .choices = {"megatron", "hugging_face"}})
          .field("z_loss_coef", &M::z_loss_coef,
                 {.help = "coefficient of the mean squared log-sum-exp of the router's logits; 0 is none",
                  .min = 0,
                  .max = 1e6})
          .field("bias_rate", &M::bias_rate,
                 {.help = "what every step adds to the bias of an expert that had too few tokens", .min = 0, .max = 1})
          .field("capacity_factor", &M::capacity_factor,
                 {.help = "an expert takes so many times its even share of a micro-batch and drops the rest; 0 drops "
                          "nothing",
                  .min = 0,
                  .max = 1e6})
          .field("drop_policy", &M::drop_policy,
                 {.help = "what is dropped: the least weights, or the last tokens",
                  .choices = {"probability", "position"}});
  return table;
}

Status check_moe_settings(const MoeSettings& settings, const ModelShape& shape, const ParallelDims& dims) {
  if (!shape.is_moe()) return {};
  if (settings.balance == "bias" && !shape.router_bias)
    return make_error(ErrorCode::invalid_input, "moe.balance = \"bias\" needs model.router_bias = true",
                      "a model that was made without the bias is balanced by \"aux\" or \"sinkhorn\"");
  if (settings.balance == "sinkhorn" && shape.n_group > 1)
    return make_error(ErrorCode::invalid_input,
                      format("moe.balance = \"sinkhorn\" does not look at model.n_group = {}", shape.n_group),
                      "use n_group = 1, or another balance");
  EngineCase asked;
  asked.shape = shape, asked.dims = dims, asked.moe = settings;
  return check_engine(asked);
}

}  // namespace longhaul

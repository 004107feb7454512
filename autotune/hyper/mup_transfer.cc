#include "autotune/hyper/mup_transfer.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace longhaul::hyper {
namespace {

double ratio_of(std::int64_t target, std::int64_t proxy) {
  return static_cast<double>(target) / static_cast<double>(proxy);
}

GroupTransfer hidden_group(const char* name, double fan_in_ratio) {
  return {name, 1 / fan_in_ratio, 1 / std::sqrt(fan_in_ratio), 1};
}

std::int64_t feed_forward_width(const ModelShape& s) {
  return s.is_moe() ? s.moe_intermediate_size : s.intermediate_size;
}

// What must be the same for the two to be widths of one model.
Status check_pair(const ModelShape& proxy, const ModelShape& target) {
  const auto differ = [](const char* what, const std::string& a, const std::string& b) {
    return make_error(ErrorCode::invalid_input, format("{} = {} in the proxy and {} in the target", what, a, b),
                      "a proxy differs from its target in widths alone: make it with proxy_shape");
  };
  if (proxy.architecture != target.architecture) return differ("architecture", proxy.architecture, target.architecture);
  if (proxy.tie_word_embeddings != target.tie_word_embeddings)
    return differ("tie_word_embeddings", proxy.tie_word_embeddings ? "true" : "false",
                  target.tie_word_embeddings ? "true" : "false");
  if (proxy.num_local_experts != target.num_local_experts)
    return differ("num_local_experts", std::to_string(proxy.num_local_experts),
                  std::to_string(target.num_local_experts));
  for (const ModelShape* s : {&proxy, &target})
    if (s->hidden_size < 1 || s->q_size() < 1 || feed_forward_width(*s) < 1)
      return make_error(ErrorCode::invalid_input, "a shape with a width of 0", "resolve it first (resolve_shape)");
  return {};
}

std::int64_t nearest_multiple(double x, std::int64_t of) {
  return std::max<std::int64_t>(of, std::llround(x / static_cast<double>(of)) * of);
}

}  // namespace

Result<MupTransfer> mup_transfer(const ModelShape& proxy, const ModelShape& target) {
  LH_CHECK(check_pair(proxy, target));
  MupTransfer t;
  t.width_ratio = ratio_of(target.hidden_size, proxy.hidden_size);
  const double heads = ratio_of(target.q_size(), proxy.q_size());
  const double ffn = ratio_of(feed_forward_width(target), feed_forward_width(proxy));
  t.groups = {{"embedding", 1, 1, 1},
              {"norms and biases", 1, 1, 1},
              hidden_group("query, key, value", t.width_ratio),
              hidden_group("attention output", heads),
              hidden_group("feed-forward in (gate, up)", t.width_ratio),
              hidden_group("feed-forward out (down)", ffn),
              {"output layer", 1, 1, 1 / t.width_ratio}};
  if (target.is_moe()) t.groups.push_back({"router", 1, 1, 1 / t.width_ratio});
  if (proxy.num_hidden_layers != target.num_hidden_layers)
    t.approximations.push_back(format("{} layers in the proxy, {} in the target: the table says nothing about depth",
                                      proxy.num_hidden_layers, target.num_hidden_layers));
  if (proxy.head_dim != target.head_dim)
    t.approximations.push_back(
        format("head_dim {} in the proxy, {} in the target: attention logits should be divided by {:.3g} more",
               proxy.head_dim, target.head_dim, std::sqrt(ratio_of(target.head_dim, proxy.head_dim))));
  if (ratio_of(target.num_attention_heads, target.num_key_value_heads) !=
      ratio_of(proxy.num_attention_heads, proxy.num_key_value_heads))
    t.approximations.push_back("query heads for each key head differ: key and value gradients sum over another number");
  return t;
}

Result<EngineTransfer> transfer_to_engine(const ModelShape& proxy, const OptimizerSettings& tuned,
                                          const ModelShape& target) {
  LH_TRY(const MupTransfer t, mup_transfer(proxy, target));
  const double r = t.width_ratio;
  EngineTransfer e{target, tuned, t.approximations};
  e.optimizer.lr = tuned.lr / r;
  e.optimizer.weight_decay = tuned.weight_decay * r;
  e.target.initializer_range = proxy.initializer_range / std::sqrt(r);
  const double embedding =
      proxy.embedding_initializer_range > 0 ? proxy.embedding_initializer_range : proxy.initializer_range;
  e.target.embedding_initializer_range = embedding;
  if (r == 1) return e;
  e.approximations.push_back(
      format("one lr for all weights: embeddings, norms and biases learn {:.3g} times slower than the table says", r));
  e.approximations.push_back(
      format("no multiplier behind the output layer: logits begin {:.3g} times as large as the table says", r));
  for (const GroupTransfer& group : t.groups)
    if (group.lr != 1 && std::fabs(group.lr * r - 1) > 0.02)
      e.approximations.push_back(format("{}: lr follows hidden_size, its own fan-in grows by {:.3g} instead of {:.3g}",
                                        group.group, 1 / group.lr, r));
  return e;
}

Result<ModelShape> proxy_shape(const ModelShape& target, std::int64_t hidden_size) {
  const std::int64_t heads = target.num_attention_heads, kv = target.num_key_value_heads;
  if (heads < 1 || kv < 1 || target.hidden_size < 1)
    return make_error(ErrorCode::invalid_input, "a shape without heads", "resolve it first (resolve_shape)");
  const double per_head = ratio_of(target.hidden_size, heads);
  // Heads of the proxy: whole groups, or where one group is too wide a part of one.
  const std::int64_t group = heads / kv;
  const double wanted = static_cast<double>(hidden_size) / per_head;
  ModelShape proxy = target;
  if (wanted >= static_cast<double>(group)) {
    proxy.num_key_value_heads = std::clamp<std::int64_t>(std::llround(wanted / static_cast<double>(group)), 1, kv);
    proxy.num_attention_heads = proxy.num_key_value_heads * group;
  } else {
    proxy.num_key_value_heads = 1;
    proxy.num_attention_heads = std::max<std::int64_t>(1, std::llround(wanted));
  }
  if (target.is_gpt2()) proxy.num_key_value_heads = proxy.num_attention_heads;
  if (proxy.num_attention_heads >= heads)
    return make_error(
        ErrorCode::invalid_input,
        format("a proxy of hidden_size = {} is no narrower than the target's {}", hidden_size, target.hidden_size),
        format("ask for less than {:g}", target.hidden_size - per_head * static_cast<double>(group)));
  const double ratio = ratio_of(heads, proxy.num_attention_heads);
  const auto narrowed = [&](std::int64_t width, std::int64_t multiple) {
    return width == 0 ? 0 : nearest_multiple(static_cast<double>(width) / ratio, multiple);
  };
  proxy.hidden_size = target.is_gpt2() ? proxy.num_attention_heads * target.head_dim : narrowed(target.hidden_size, 8);
  proxy.intermediate_size = narrowed(target.intermediate_size, 8);
  proxy.moe_intermediate_size = narrowed(target.moe_intermediate_size, 8);
  return resolve_shape(proxy);
}

}  // namespace longhaul::hyper

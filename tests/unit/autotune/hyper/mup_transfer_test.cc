#include "autotune/hyper/mup_transfer.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace longhaul::hyper {
namespace {

ModelShape llama_8b() {
  ModelShape s;
  s.vocab_size = 128'256, s.hidden_size = 4096, s.intermediate_size = 14'336, s.num_hidden_layers = 32;
  s.num_attention_heads = 32, s.num_key_value_heads = 8, s.tie_word_embeddings = false;
  return *resolve_shape(s);
}

const GroupTransfer& group(const MupTransfer& t, const std::string& name) {
  const auto found = std::ranges::find(t.groups, name, &GroupTransfer::group);
  REQUIRE(found != t.groups.end());
  return *found;
}

}  // namespace

TEST_CASE("a proxy has the target's depth, head_dim and groups of heads, and widths narrowed alike") {
  const ModelShape target = llama_8b();
  const auto proxy = proxy_shape(target, 512);
  REQUIRE(proxy.ok());
  CHECK(proxy->hidden_size == 512);
  CHECK(proxy->num_attention_heads == 4);
  CHECK(proxy->num_key_value_heads == 1);
  CHECK(proxy->head_dim == 128);
  CHECK(proxy->intermediate_size == 1792);
  CHECK(proxy->num_hidden_layers == 32);
  CHECK(proxy->vocab_size == target.vocab_size);
  CHECK(mup_transfer(*proxy, target)->approximations.empty());
  // Narrower than a group: a part of one, and the transfer says what is lost.
  const auto narrow = proxy_shape(target, 256);
  REQUIRE(narrow.ok());
  CHECK(narrow->num_attention_heads == 2);
  CHECK(narrow->num_key_value_heads == 1);
  REQUIRE(mup_transfer(*narrow, target)->approximations.size() == 1);
  CHECK(mup_transfer(*narrow, target)->approximations[0].find("query heads") == 0);
  CHECK(!proxy_shape(target, 4096).ok());
  CHECK(!proxy_shape(target, 9999).ok());
}

TEST_CASE("a proxy of gpt2 and of a mixture of experts is a shape that resolves") {
  ModelShape gpt2;
  gpt2.architecture = "gpt2", gpt2.vocab_size = 50'257, gpt2.hidden_size = 1600, gpt2.num_attention_heads = 25;
  gpt2.num_hidden_layers = 48;
  const auto small = proxy_shape(*resolve_shape(gpt2), 256);
  REQUIRE(small.ok());
  CHECK(small->hidden_size == 256);
  CHECK(small->num_attention_heads == 4);
  CHECK(small->intermediate_size == 1024);
  ModelShape moe = llama_8b();
  moe.architecture = "mixtral", moe.num_local_experts = 8, moe.moe_intermediate_size = 14'336;
  const auto mixture = proxy_shape(*resolve_shape(moe), 1024);
  REQUIRE(mixture.ok());
  CHECK(mixture->moe_intermediate_size == 3584);
  CHECK(mixture->num_local_experts == 8);
  const auto t = mup_transfer(*mixture, *resolve_shape(moe));
  REQUIRE(t.ok());
  CHECK(group(*t, "router").output == 0.25);
}

TEST_CASE("factors of the groups are those of table 8 for Adam") {
  const ModelShape target = llama_8b();
  const ModelShape proxy = *proxy_shape(target, 1024);
  const auto t = mup_transfer(proxy, target);
  REQUIRE(t.ok());
  CHECK(t->width_ratio == 4);
  for (const char* hidden :
       {"query, key, value", "attention output", "feed-forward in (gate, up)", "feed-forward out (down)"}) {
    CAPTURE(hidden);
    CHECK(group(*t, hidden).lr == doctest::Approx(0.25));
    CHECK(group(*t, hidden).init == doctest::Approx(0.5));
    CHECK(group(*t, hidden).output == 1);
  }
  for (const char* same : {"embedding", "norms and biases"}) {
    CHECK(group(*t, same).lr == 1);
    CHECK(group(*t, same).init == 1);
    CHECK(group(*t, same).output == 1);
  }
  CHECK(group(*t, "output layer").lr == 1);
  CHECK(group(*t, "output layer").init == 1);
  CHECK(group(*t, "output layer").output == 0.25);
}

TEST_CASE("in the engine's terms: one lr by the hidden matrices, decay per step as before, and what is approximated") {
  const ModelShape target = llama_8b();
  ModelShape proxy = *proxy_shape(target, 1024);
  proxy.initializer_range = 0.04;
  OptimizerSettings tuned;
  tuned.lr = 4e-3, tuned.weight_decay = 0.1;
  const auto e = transfer_to_engine(proxy, tuned, target);
  REQUIRE(e.ok());
  CHECK(e->optimizer.lr == doctest::Approx(1e-3));
  CHECK(e->optimizer.lr * e->optimizer.weight_decay == doctest::Approx(4e-4));
  CHECK(e->target.initializer_range == doctest::Approx(0.02));
  CHECK(e->target.embedding_initializer_range == doctest::Approx(0.04));
  CHECK(e->target.hidden_size == 4096);
  CHECK(e->approximations.size() == 2);
  // The same shape twice: nothing changes, nothing is approximated.
  const auto same = transfer_to_engine(target, tuned, target);
  REQUIRE(same.ok());
  CHECK(same->optimizer.lr == tuned.lr);
  CHECK(same->approximations.empty());
}

TEST_CASE("two models that are not widths of one are refused, and depth is named") {
  const ModelShape target = llama_8b();
  ModelShape other = *proxy_shape(target, 1024);
  other.num_hidden_layers = 8;
  REQUIRE(mup_transfer(other, target).ok());
  CHECK(mup_transfer(other, target)->approximations[0].find("8 layers in the proxy, 32") == 0);
  other.tie_word_embeddings = true;
  CHECK(mup_transfer(other, target).error().what.find("tie_word_embeddings") == 0);
  CHECK(!mup_transfer(ModelShape(), target).ok());
}

}  // namespace longhaul::hyper

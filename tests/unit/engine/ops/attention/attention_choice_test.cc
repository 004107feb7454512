#include "engine/ops/attention/attention_choice.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

AttentionCase llama_case() {
  AttentionCase c;
  c.batch = 2, c.seq = c.kv_seq = 4096, c.heads = 32, c.kv_heads = 8, c.head_dim = 128, c.aligned = true;
  return c;
}
const CudnnFacts hopper{true, {}, 90}, blackwell{true, {}, 100};

AttentionChoice with(const std::function<void(AttentionCase&)>& change, const CudnnFacts& facts = hopper,
                     const AttentionSettings& settings = {}) {
  AttentionCase c = llama_case();
  change(c);
  return choose_attention(c, settings, facts);
}

}  // namespace

TEST_CASE("cuDNN takes the attentions that it knows, and each other one says why not") {
  CHECK(with([](AttentionCase&) {}).way == AttentionWay::cudnn);
  CHECK(with([](AttentionCase& c) { c.backward = true; }).way == AttentionWay::cudnn);
  CHECK(with([](AttentionCase& c) { c.seq = 5; }).way == AttentionWay::cudnn);
  CHECK(with([](AttentionCase& c) { c.causal = false, c.kv_seq = 3; }).way == AttentionWay::cudnn);
  CHECK(with([](AttentionCase& c) { c.head_dim = 256; }).way == AttentionWay::cudnn);
  CHECK(with([](AttentionCase& c) { c.head_dim = 256; }, blackwell).way == AttentionWay::plain);
  CHECK(with([](AttentionCase& c) { c.head_dim = 100; }).way == AttentionWay::plain);
  CHECK(with([](AttentionCase& c) { c.dtype = DType::f32; }).reason == "numbers are f32, not bf16");
  CHECK(with([](AttentionCase& c) { c.window = 128; }).way == AttentionWay::cudnn);
  CHECK(with([](AttentionCase& c) { c.documents = true, c.window = 128; }).way == AttentionWay::tensor_cores);
  CHECK(with([](AttentionCase& c) { c.documents = true; }).reason == "documents are kept apart");
  CHECK(with([](AttentionCase& c) { c.documents = true; }).way == AttentionWay::tensor_cores);
  CHECK(with([](AttentionCase& c) { c.aligned = false; }).way == AttentionWay::plain);
  CHECK(with([](AttentionCase& c) { c.lse_aligned = false; }).way == AttentionWay::tensor_cores);
  CHECK(with([](AttentionCase& c) { c.seq = c.kv_seq = 1; }).way == AttentionWay::tensor_cores);
  CHECK(with([](AttentionCase&) {}, {true, {}, 75}).way == AttentionWay::tensor_cores);
  CHECK(with([](AttentionCase&) {}, {false, "no library", 90}).reason == "no library");
}

TEST_CASE("settings: own never takes cuDNN; a deterministic backward pass takes it only where it is known to be one") {
  CHECK(with([](AttentionCase&) {}, hopper, {"own", true}).way == AttentionWay::tensor_cores);
  CHECK(with([](AttentionCase&) {}, hopper, {"own", true}).reason == "attention_backend is own");
  CHECK(with([](AttentionCase& c) { c.backward = true; }, blackwell).way == AttentionWay::tensor_cores);
  CHECK(with([](AttentionCase& c) { c.backward = true; }, blackwell, {"auto", false}).way == AttentionWay::cudnn);
  CHECK(with([](AttentionCase&) {}, blackwell).way == AttentionWay::cudnn);
  CHECK(with([](AttentionCase& c) { c.backward = true; }, {true, {}, 80}).way == AttentionWay::cudnn);
}

TEST_CASE("a backward pass is cut so that its memory stays below a bound, and the parts divide it") {
  AttentionCase c = llama_case();
  c.backward = true, c.kv_heads = 32;
  constexpr std::int64_t mib = 1 << 20;
  const auto part = [&](bool deterministic, std::int64_t bytes) {
    const AttentionPart p = attention_part(c, deterministic, bytes);
    return std::pair(p.batch, p.kv_heads);
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  CHECK(part(true, 320 * mib) == Pair{1, 8});  // 32 MiB and a little for each head
  CHECK(part(true, 4096 * mib) == Pair{2, 32});
  CHECK(part(true, 1100 * mib) == Pair{1, 32});
  CHECK(part(true, 20 * mib).second == 0);
  CHECK(part(false, 320 * mib) == Pair{2, 32});
  c.kv_heads = 8;
  CHECK(part(true, 320 * mib) == Pair{1, 2});  // as many heads of queries
  CHECK(part(true, 60 * mib).second == 0);     // the four heads of queries of one head of keys take more
  c.batch = 6, c.kv_heads = 32;
  CHECK(part(false, 300 * mib) == Pair{3, 32});  // four would fit, but do not divide six
  c.seq = 4095;                                  // lse of a part with an odd number of rows would begin anywhere
  CHECK(part(true, 320 * mib) == Pair{1, 8});
  c.heads = c.kv_heads = 6;
  CHECK(part(true, 320 * mib).second == 0);
  CHECK(part(true, 4096 * mib) == Pair{6, 6});
  c.backward = false;
  CHECK(part(true, 1) == Pair{6, 6});
}

#include "contracts/plan/layout_check.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "contracts/settings/training/low_precision.h"
#include "contracts/settings/training/moe.h"

namespace longhaul {
namespace {

LayoutCheckInput layout_input() {
  LayoutCheckInput input;
  input.shape.vocab_size = 100, input.shape.hidden_size = 96, input.shape.intermediate_size = 256;
  input.shape.num_attention_heads = 12, input.shape.num_key_value_heads = 4, input.shape.head_dim = 8;
  input.shape.num_hidden_layers = 6;
  input.micro_batch_size = 1, input.sequence_length = 30;
  return input;
}

std::string all_problems(const LayoutCheckInput& input) {
  std::vector<std::string> texts;
  for (const LayoutProblem& problem : layout_problems(input)) texts.push_back(problem.what + "; " + problem.hint);
  return join(texts, "\n");
}

}  // namespace

TEST_CASE("a layout that divides has no problems; a vocabulary need not divide") {
  LayoutCheckInput input = layout_input();
  for (const int tp : {1, 2, 4})
    for (const int pp : {1, 2, 5, 6}) {
      input.dims.tp = tp, input.dims.pp = pp;
      CHECK(all_problems(input).empty());
    }
  input.shape.vocab_size = 101;
  CHECK(check_layout_of(input).ok());
}

TEST_CASE("what does not divide is named with what would, all of it") {
  LayoutCheckInput input = layout_input();
  input.dims.tp = 8;
  CHECK(all_problems(input) ==
        "parallel.tp = 8 does not divide model.num_attention_heads = 12; use 1, 2, 3, 4, 6, 12\n"
        "parallel.tp = 8 does not divide model.num_key_value_heads = 4; use 1, 2, 4");
  CHECK(check_layout_of(input).error().message().find("num_key_value_heads") != std::string::npos);
  input.dims.tp = 4, input.dims.sp = true;
  CHECK(all_problems(input) ==
        "with parallel.sp, parallel.tp = 4 does not divide micro_batch_size * sequence_length = 30; use "
        "1, 2, 3, 5, 6, 10, 15, 30");
  input.dims = {};
  input.dims.cp = 4;
  CHECK(all_problems(input) ==
        "2 * parallel.cp(4) = 8 does not divide sequence_length = 30; use sequence_length = 24 or 32");
  input.dims.tp = 2, input.sequence_length = 32, input.cp_attention = "a2a";
  CHECK(all_problems(input) ==
        "with cp_attention = \"a2a\", parallel.tp * parallel.cp = 8 does not divide model.num_key_value_heads = 4; use "
        "1, 2, 4");
  input.cp_attention = "ring", input.dims.sp = true, input.dims.cp = 5, input.dims.tp = 4, input.sequence_length = 30;
  CHECK(all_problems(input).find("with parallel.sp, parallel.tp * parallel.cp = 20 does not divide") == 0);
  input.dims = {};
  input.dims.pp = 4, input.dims.vp = 2;
  CHECK(all_problems(input) ==
        "parallel.pp(4) * parallel.vp(2) = 8 stages are more than model.num_hidden_layers = 6; use pp = 3 at most");
  input.dims = {};
  input.dims.tp = 4, input.shape.vocab_size = 6;  // 2 rows each: nothing is left for the last
  CHECK(all_problems(input) ==
        "parallel.tp = 4 leaves its last rank without a row of the vocabulary (6); use a smaller tp");
}

TEST_CASE("what this version's engine cannot do yet is refused by kind") {
  ParallelDims dims;
  dims.tp = 2, dims.sp = true, dims.cp = 4, dims.pp = dims.vp = 2, dims.dp_replicate = 3, dims.dp_shard = 2,
  dims.zero = 3;
  CHECK(check_layout_available("pretrain", dims).ok());
  CHECK(check_layout_available("sft", dims).ok());
  for (const char* kind : {"align", "reward"}) CHECK(check_layout_available(kind, dims).ok());
  CHECK(check_layout_available("evaluate", dims).error().code == ErrorCode::unsupported);
  dims = {};
  dims.dp_replicate = 4;
  for (const char* kind : {"align", "evaluate"}) CHECK(check_layout_available(kind, dims).ok());
  for (int ParallelDims::* axis : {&ParallelDims::cp, &ParallelDims::ep, &ParallelDims::etp}) {
    dims = {};
    dims.*axis = 2;
    for (const char* kind : {"pretrain", "align", "reward"}) CHECK(check_layout_available(kind, dims).ok());
  }
}

TEST_CASE("experts that cannot be distributed are named with what can") {
  LayoutCheckInput input = layout_input();
  input.dims.ep = 2, input.dims.dp_replicate = 2;
  CHECK(all_problems(input) ==
        "parallel.ep = 2 distributes experts, and the model has none; leave ep out, or use model.architecture = "
        "\"mixtral\"");
  input.shape.architecture = "mixtral", input.shape.num_local_experts = 6, input.shape.moe_intermediate_size = 30;
  CHECK(all_problems(input).empty());
  input.dims.dp_replicate = 4, input.dims.ep = 4;
  CHECK(all_problems(input) == "parallel.ep = 4 does not divide model.num_local_experts = 6; use 1, 2, 3, 6");
  input.dims.ep = 1, input.dims.etp = 4;
  CHECK(all_problems(input) ==
        "parallel.etp = 4 does not divide model.moe_intermediate_size = 30; use 1, 2, 3, 5, 6, 10, 15, 30");
  input.dims = {};
  input.dims.tp = 2, input.dims.ep = 3, input.dims.dp_replicate = 3;
  CHECK(all_problems(input) ==
        "ep(3) * etp(1) = 3 and tp(2) * cp(1) = 2: one must divide the other; use ep * etp = 2, or a multiple or a "
        "divisor of it");
  input.dims = {};
  input.dims.ep = 3, input.dims.dp_replicate = 4;
  CHECK(all_problems(input) ==
        "ep(3) * etp(1) = 3 does not divide tp(1) * cp(1) * dp(4) = 4; use a smaller ep or etp, or more replicas");
  input.dims = {};
  input.dims.tp = 2, input.sequence_length = 31;  // without sp, too, each rank routes rows of its own
  CHECK(all_problems(input) ==
        "with experts, parallel.tp = 2 does not divide micro_batch_size * sequence_length = 31; use 1, 31");
}

TEST_CASE("how experts are balanced goes with the model and the layout") {
  MoeSettings settings;
  ModelShape dense, shape;
  shape.num_local_experts = 4;
  ParallelDims dims;
  CHECK(check_moe_settings(settings, shape, dims).ok());
  settings.balance = "bias";
  CHECK(check_moe_settings(settings, shape, dims).error().message().find("router_bias") != std::string::npos);
  CHECK(check_moe_settings(settings, dense, dims).ok());
  shape.router_bias = true;
  CHECK(check_moe_settings(settings, shape, dims).ok());
  settings.balance = "sinkhorn", shape.n_group = 2;
  CHECK(check_moe_settings(settings, shape, dims).error().message().find("n_group") != std::string::npos);
  settings.balance = "aux", settings.aux_loss = "hugging_face", dims.pp = 2;
  CHECK(check_moe_settings(settings, shape, dims).error().message().find("parallel.pp = 2") != std::string::npos);
}

TEST_CASE("low precision goes with the model and the layout, or says what does not") {
  LowPrecisionSettings settings;
  ModelShape shape;
  shape.hidden_size = 128, shape.intermediate_size = 256, shape.num_attention_heads = 4, shape.num_key_value_heads = 2;
  shape.head_dim = 32, shape.num_hidden_layers = 4;
  ParallelDims dims;
  const auto refused = [&](const char* what, std::int64_t length = 512) {
    const Status fits = check_low_precision(settings, shape, dims, length);
    return !fits.ok() && fits.error().message().find(what) != std::string::npos && !fits.error().hint.empty();
  };
  for (const char* recipe : {"none", "delayed", "current", "mxfp8", "mxfp6", "mxfp4"}) {
    settings.recipe = recipe;
    CHECK(check_low_precision(settings, shape, dims, 512).ok());
  }
  settings.recipe = "blockwise";
  CHECK(refused("whole blocks of 128: the width of all key heads = 64 is no multiple"));
  shape.num_key_value_heads = 4;
  CHECK(check_low_precision(settings, shape, dims, 512).ok());
  shape.num_key_value_heads = 2;
  dims.tp = 4, settings.recipe = "mxfp8";
  CHECK(refused("the width of all key heads = 64 over parallel.tp = 4 ranks"));
  dims.tp = 2;
  CHECK(check_low_precision(settings, shape, dims, 512).ok());
  settings.recipe = "current";
  CHECK(refused("parallel.tp = 2"));
  settings.recipe = "delayed", dims.cp = 2;
  CHECK(check_low_precision(settings, shape, dims, 0).ok());
  settings.recipe = "mxfp6";
  CHECK(check_low_precision(settings, shape, dims, 512).ok());
  CHECK(refused("sequences of one length", 0));
  CHECK(refused("2 * cp * 32 = 128, not 500", 500));
  dims = {}, settings.first_layers_bf16 = 2, settings.last_layers_bf16 = 2;
  CHECK(refused("leave none of 4 layers"));
  settings.last_layers_bf16 = 1, shape.num_local_experts = 8;
  CHECK(refused("a model with experts"));
  settings.recipe = "none";
  CHECK(check_low_precision(settings, shape, dims, 512).ok());
}

}  // namespace longhaul

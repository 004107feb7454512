#include "contracts/layout_check.h"

#include <doctest/doctest.h>

#include "base/text.h"

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
  CHECK(check_layout_available("align", dims).error().code == ErrorCode::unsupported);
  dims = {};
  dims.dp_replicate = 4;
  CHECK(check_layout_available("align", dims).ok());
  dims.cp = 2;  // whose losses look at whole sequences
  CHECK(check_layout_available("align", dims).error().code == ErrorCode::unsupported);
  for (int ParallelDims::* axis : {&ParallelDims::ep, &ParallelDims::etp}) {
    dims = {};
    dims.*axis = 2;
    CHECK(check_layout_available("pretrain", dims).error().code == ErrorCode::unsupported);
  }
}

}  // namespace longhaul

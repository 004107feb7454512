#include "base/error/diagnostics.h"

#include <doctest/doctest.h>

namespace longhaul {

TEST_CASE("problems come out together, in the order of their places") {
  Diagnostics problems;
  CHECK(problems.to_status("nothing was submitted").ok());
  problems.add({"wf.toml", 22, 1}, "unknown key 'micro_batchsize'", "did you mean 'micro_batch_size'?");
  problems.add({"wf.toml", 14, 3}, "tp = 3 does not divide num_attention_heads = 64");
  Diagnostics others;
  others.add({}, "no site");
  problems.merge(others);
  CHECK(problems.size() == 3);
  CHECK(problems.render("nothing was submitted") ==
        "error: no site\n"
        "wf.toml:14:3: error: tp = 3 does not divide num_attention_heads = 64\n"
        "wf.toml:22:1: error: unknown key 'micro_batchsize'; did you mean 'micro_batch_size'?\n"
        "3 errors; nothing was submitted");
  const Status status = problems.to_status("nothing was submitted");
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::invalid_input);
}

TEST_CASE("one problem is one error") {
  Diagnostics problems;
  problems.add({"a.toml", 1, 2}, "x");
  CHECK(problems.render("") == "a.toml:1:2: error: x\n1 error");
}

TEST_CASE("the nearest word is offered only when it is near") {
  const std::vector<std::string> known = {"micro_batch_size", "sequence_length", "nodes", "tp", "lr"};
  CHECK(nearest_word("micro_batchsize", known) == "micro_batch_size");
  CHECK(nearest_word("ndoes", known) == "nodes");
  CHECK(nearest_word("tpp", known) == "tp");
  CHECK(nearest_word("entirely_else", known).empty());
  CHECK(nearest_word("xy", known).empty());  // every word of two letters is two edits away from any other
  CHECK(nearest_word("x", {}).empty());
}

}  // namespace longhaul

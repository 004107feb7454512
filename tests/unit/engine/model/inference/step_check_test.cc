#include "engine/model/inference/step_check.h"

#include <doctest/doctest.h>

#include "tests/unit/engine/model/inference_folder.h"
#include "tests/unit/engine/model/reference_model.h"

using namespace longhaul;

namespace {

struct CheckedSteps {
  ModelShape shape = test::tiny_shape();  // of 37 tokens
  KvCache first{shape, 8, DType::f32}, second{shape, 8, DType::f32};
  std::vector<std::int32_t> ids = {1, 2, 3};

  std::string problem(const std::vector<SequenceStep>& steps, LogitsWanted wanted = LogitsWanted::last,
                      std::size_t room = 4096) const {
    const Status checked = check_steps(shape, DType::f32, nullptr, steps, wanted, room);
    if (checked.ok()) return {};
    CHECK(checked.error().code == ErrorCode::invalid_input);
    return checked.error().message();
  }
};

bool says(const std::string& problem, const char* what) {
  return problem.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("steps that can be done are not refused, however many logits they want") {
  CheckedSteps s;
  const std::vector<SequenceStep> steps = {{&s.first, s.ids}, {&s.second, s.ids}};
  CHECK(s.problem(steps, LogitsWanted::last, 2 * 37) == "");
  CHECK(s.problem(steps, LogitsWanted::all, 6 * 37) == "");
  CHECK(s.problem(steps, LogitsWanted::none, 0) == "");
}

TEST_CASE("what cannot be done is named before anything is changed") {
  CheckedSteps s;
  CHECK(says(s.problem({}), "no sequences"));
  CHECK(says(s.problem({{&s.first, {}}}), "sequence 0 brings no token or no cache"));
  CHECK(says(s.problem({{nullptr, s.ids}}), "sequence 0 brings no token or no cache"));
  CHECK(says(s.problem({{&s.first, s.ids}, {&s.first, s.ids}}), "sequences 0 and 1 share a cache"));
  CHECK(says(s.problem({{&s.first, s.ids}, {&s.second, s.ids}}, LogitsWanted::last, 2 * 37 - 1),
             "room for 73 logits, 2 rows of 37 are wanted"));
  CHECK(says(s.problem({{&s.first, s.ids}}, LogitsWanted::all, 3 * 37 - 1), "3 rows of 37"));
  const std::vector<std::int32_t> long_text(9, 1), unknown = {37}, negative = {-1};
  CHECK(says(s.problem({{&s.first, long_text}}), "would have 9 tokens, there is room for 8"));
  CHECK(says(s.problem({{&s.first, unknown}}), "token 37 is outside the model's vocabulary of 37"));
  CHECK(says(s.problem({{&s.first, negative}}), "token -1 is outside"));
  KvCache other_type(s.shape, 8, DType::bf16);
  CHECK(says(s.problem({{&other_type, s.ids}}), "another type or device"));
}

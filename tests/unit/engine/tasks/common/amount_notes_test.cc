#include "engine/tasks/common/amount_notes.h"

#include <doctest/doctest.h>

#include "base/text/text.h"

namespace longhaul {
namespace {

TEST_CASE("what is larger than the data can fill is said with its key, and nothing else is") {
  TrainingAmounts amounts;
  amounts.samples = 1000, amounts.steps = 100, amounts.global_batch_size = 32, amounts.warmup_steps = 20;
  amounts.checkpoint_every_steps = 50, amounts.eval_every_steps = 100;
  CHECK(notes_on_amounts(amounts).empty());
  amounts.samples = 7, amounts.steps = 10, amounts.eval_every_steps = 11;
  const auto notes = notes_on_amounts(amounts);
  REQUIRE(notes.size() == 4);
  CHECK(starts_with(notes[0], "global_batch_size = 32 is more than the 7 samples"));
  CHECK(notes[1] == "optimizer.warmup_steps = 20 is more than half of the 10 steps: the warm-up ends after 5");
  CHECK(starts_with(notes[2], "checkpoint.every_steps = 50 is more than the 10 steps"));
  CHECK(starts_with(notes[3], "eval_every_steps = 11 is more than the 10 steps"));
  amounts.global_batch_size = 7, amounts.warmup_steps = 5, amounts.checkpoint_every_steps = 10;
  amounts.eval_every_steps = 0;
  CHECK(notes_on_amounts(amounts).empty());
}

}  // namespace
}  // namespace longhaul

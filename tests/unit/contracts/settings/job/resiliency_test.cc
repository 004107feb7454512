#include "contracts/settings/job/resiliency.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("the interval between checkpoints is chosen by who has much to lose and has set nothing") {
  ResiliencySettings settings;
  Value nothing = Value::make_table(), every = Value::make_table(), checkpoint = Value::make_table();
  checkpoint.set("every_steps", 100);
  every.set("checkpoint", checkpoint);
  CHECK(chooses_interval(settings, "pretrain", nothing, 2, 0));
  CHECK(chooses_interval(settings, "sft", nothing, 1, 3601));
  CHECK_FALSE(chooses_interval(settings, "pretrain", nothing, 1, 3600));
  CHECK_FALSE(chooses_interval(settings, "pretrain", nothing, 1, 0));  // no limit, one machine: an experiment
  CHECK_FALSE(chooses_interval(settings, "pretrain", every, 64, 1e6));
  CHECK_FALSE(chooses_interval(settings, "command", nothing, 64, 1e6));
  settings.checkpoint_interval = "as_set";
  CHECK_FALSE(chooses_interval(settings, "pretrain", nothing, 64, 1e6));
  settings.checkpoint_interval = "online";
  CHECK(chooses_interval(settings, "pretrain", every, 1, 0));
}

#include "orchestrator/forecast/machine_speed.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "tests/support/made_up_processor.h"
#include "tests/support/sanitized.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

namespace machine_speed_test {

const ConstantTable& shipped() {
  static const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml";
  static const ConstantTable table = ConstantTable::parse(*read_file(path), path).value();
  return table;
}

ProcessorSpeed speed() {
  static const ProcessorSpeed one = testing::made_up_speed(
      make_time_constants(ConstantTable::parse(shipped().to_toml() + "\n" + testing::made_up_section(), "c").value())
          .value());
  return one;
}

// An engine that counts how often it measures.
struct Machine {
  testing::Scratch folder;
  SiteConfig site;
  int measured = 0;
  ProcessorSpeed here = speed();
  std::string failure;

  MachineSpeeds ask(const RankUse& use = {2, 1, "bf16"}) {
    MachineProbe probe;
    probe.identity = [this]() -> Result<ProcessorIdentity> { return here.identity; };
    probe.measure = [this](const RankUse&) -> Result<ProcessorSpeed> {
      ++measured;
      if (!failure.empty()) return make_error(ErrorCode::unavailable, failure);
      return here;
    };
    return machine_speeds(folder.path(), site, {use}, shipped(), probe);
  }
  std::vector<std::string> files() const {
    const auto names = list_directory(join_path(folder.path(), machine_folder_name));
    return names.ok() ? *names : std::vector<std::string>();
  }
  std::string path_of(const std::string& name) const {
    return join_path(join_path(folder.path(), machine_folder_name), name);
  }
};

bool says(const MachineSpeeds& speeds, const std::string& what) {
  return join(speeds.said, "\n").find(what) != std::string::npos;
}

TEST_CASE("a processor is measured once, and the file says of which machine it is") {
  Machine machine;
  const MachineSpeeds first = machine.ask(), second = machine.ask();
  CHECK(machine.measured == 1);
  CHECK(first.constants == second.constants);
  CHECK(first.constants.find("[processor.2x1-bf16]") != std::string::npos);
  CHECK(says(first, "measured in 1.5 s"));
  CHECK(says(second, "A made-up processor"));
  CHECK(machine.files() == std::vector<std::string>{"a-made-up-processor-2-cores-avx2-avx2-2x1-bf16.json"});
}

TEST_CASE("another instruction set is another machine; another build of the engine sets its file aside") {
  Machine machine;
  machine.ask();
  machine.here.identity.products = "avx512_core";
  machine.ask();
  CHECK(machine.measured == 2);
  CHECK(machine.files().size() == 2);
  machine.here.identity.engine = "4567";
  const MachineSpeeds anew = machine.ask();
  CHECK(machine.measured == 3);
  CHECK(machine.files().size() == 3);
  CHECK(says(anew, "another build of the engine"));
}

TEST_CASE("a corrupt file is set aside under a name that is said, and measured again") {
  for (const char* text : {"{\"version\": 1, \"mach", "", "[]", "{\"version\": 7}"}) {
    if (testing::sanitized && text[0] != '[') continue;
    Machine machine;
    machine.ask();
    const std::string name = machine.files().front();
    REQUIRE(write_file_atomic(machine.path_of(name), text).ok());
    const MachineSpeeds again = machine.ask();
    CHECK(machine.measured == 2);
    CHECK(!again.constants.empty());
    const std::vector<std::string> files = machine.files();
    REQUIRE(files.size() == 2);
    CHECK(files[0] == name);
    CHECK(files[1].starts_with(name + ".aside-"));
    CHECK(*read_file(machine.path_of(files[1])) == text);
    CHECK(says(again, "set aside as " + machine.path_of(files[1])));
    CHECK(machine.ask().constants == again.constants);
    CHECK(machine.measured == 2);
  }
}

TEST_CASE("an engine that cannot measure leaves the constants that ship, and that is said") {
  Machine machine;
  machine.failure = "the engine is missing";
  const MachineSpeeds speeds = machine.ask();
  CHECK(speeds.constants.empty());
  CHECK(says(speeds, "the engine is missing"));
  CHECK(says(speeds, "[gpu.cpu-core]"));
  CHECK(machine.files().empty());
}

TEST_CASE("more ranks than a machine can have are not measured on it") {
  Machine machine;
  const MachineSpeeds speeds = machine.ask({512, 8, "bf16"});
  CHECK(machine.measured == 0);
  CHECK(speeds.constants.empty());
  CHECK(says(speeds, "4096 threads"));
}

TEST_CASE("a server on processors is a use of its own: one rank with the node for itself, in its precision") {
  RunPlan plan;
  PlannedStage deploy;
  deploy.stage = deploy.kind = "deploy", deploy.settings = Value::make_table();
  deploy.settings.set("precision", "f32");
  plan.stages = {deploy};
  SiteConfig site;
  site.node.cores = 6;
  CHECK(processor_uses(plan, site) == std::vector<RankUse>{{1, 6, "f32"}});
  plan.stages[0].settings.set("precision", "bf16"), plan.stages[0].common.threads = 2;
  CHECK(processor_uses(plan, site) == std::vector<RankUse>{{1, 2, "bf16"}});
  plan.stages[0].kind = "convert";
  CHECK(processor_uses(plan, site).empty());
}

TEST_CASE("a stage that draws answers is measured as it draws: its ranks together, or some beside those that train") {
  RunPlan plan;
  PlannedStage align;
  align.stage = align.kind = "align", align.dims.dp_replicate = 2;
  align.settings = *parse_json(R"({"method": "grpo", "precision": "f32", "rollout": {"ahead": true}})");
  plan.stages = {align};
  SiteConfig site;
  site.node.cores = 6;
  Value& rollout = *plan.stages[0].settings.find("rollout");
  // Threads of all cores train, so that those that draw ahead share them.
  CHECK(processor_uses(plan, site) == std::vector<RankUse>{{2, 3, "f32"}});
  rollout.set("threads", 2);
  CHECK(processor_uses(plan, site) == std::vector<RankUse>{{2, 2, "f32"}, {2, 3, "f32"}});
  plan.stages[0].common.threads = 1;
  // Beside each other, and each alone: the one that takes longer goes on when the other is done.
  CHECK(processor_uses(plan, site) == std::vector<RankUse>{{2, 1, "f32"}, {2, 1, "f32", {2, 2}}, {2, 2, "f32"}});
  site.node.cores = site.cpu_slots = 0;  // nobody knows: taken for enough, as the forecast does
  plan.stages[0].common.threads = 4;
  CHECK(processor_uses(plan, site) == std::vector<RankUse>{{2, 2, "f32"}, {2, 4, "f32"}, {2, 4, "f32", {2, 2}}});
  plan.stages[0].common.threads = 1, site.node.cores = 6;
  rollout = *parse_json(R"({"ahead": false})");
  CHECK(processor_uses(plan, site) == std::vector<RankUse>{{2, 1, "f32"}});
  rollout = *parse_json(R"({"ahead": true, "ranks": 1})");
  CHECK(processor_uses(plan, site) == std::vector<RankUse>{{1, 1, "f32"}, {2, 1, "f32"}, {2, 1, "f32", {1, 1}}});
  plan.stages[0].common.nodes = 3;  // ranks that only draw have a node to themselves
  CHECK(processor_uses(plan, site) == std::vector<RankUse>{{1, 1, "f32"}});
}

TEST_CASE("ranks that draw beside others have a file of their own, and a site's host is asked for it in these words") {
  Machine machine;
  machine.here.beside = {1, 2};
  const RankUse use{2, 1, "bf16", {1, 2}};
  const MachineSpeeds here = machine.ask(use);
  CHECK(here.constants.find("[processor.2x1-bf16-beside-1x2]") != std::string::npos);
  CHECK(machine.files() == std::vector<std::string>{"a-made-up-processor-2-cores-avx2-avx2-2x1-bf16-beside-1x2.json"});
  machine.site.name = "Leonardo", machine.site.scheduler = "slurm";
  CHECK(says(machine.ask(use), "measure --ranks 2 --threads 1 --precision bf16 --beside 1 --beside-threads 2 > "));
}

TEST_CASE("where ranks run on other hosts nothing is measured here; a file from there is read") {
  Machine machine;
  machine.site.name = "Leonardo", machine.site.scheduler = "slurm";
  const MachineSpeeds without = machine.ask();
  CHECK(machine.measured == 0);
  CHECK(without.constants.empty());
  CHECK(says(without, "[gpu.cpu-core]"));
  CHECK(says(without, "longhaul-engine measure --ranks 2 --threads 1 --precision bf16"));
  REQUIRE(make_directories(machine.path_of("")).ok());
  REQUIRE(
      write_file_atomic(machine.path_of("leonardo-2x1-bf16.json"), to_json(processor_speed_to_value(speed()))).ok());
  const MachineSpeeds with = machine.ask();
  CHECK(machine.measured == 0);
  CHECK(with.constants.find("[processor.2x1-bf16]") != std::string::npos);
}

}  // namespace machine_speed_test

}  // namespace
}  // namespace longhaul

#include "orchestrator/forecast/machine_speed.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "autotune/calibrate/processor_constants.h"
#include "base/files/files.h"
#include "base/files/folder_access.h"
#include "base/process/process.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/settings/stages/alignment.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

constexpr std::int64_t identity_deadline_ms = 20'000;
constexpr int threads_a_core_max = 4;
constexpr std::int64_t measure_deadline_ms = 120'000;  // it means to take two seconds; a busy machine may take longer

Result<Value> engine_says(const std::vector<std::string>& argv, std::int64_t deadline_ms) {
  SpawnSpec spec;
  spec.argv = argv;
  LH_TRY(const RunOutput output, run_captured(spec, deadline_ms));
  if (!output.status.success())
    return make_error(ErrorCode::unavailable,
                      format("longhaul-engine measure: {}: {}", output.status.text(), trim(output.err)));
  return parse_json(output.out, "longhaul-engine measure");
}

// A name that a file may have: what is no letter, digit, point or underscore becomes a hyphen.
std::string plain_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    if (kept)
      name += c;
    else if (c >= 'A' && c <= 'Z')
      name += static_cast<char>(c - 'A' + 'a');
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  return name;
}

// Hosts of one kind share a file, also below a folder that all of them see.
std::string file_of(const ProcessorIdentity& machine, const RankUse& use) {
  return plain_name(format("{}-{}-cores-{}-{}-{}", machine.processor, machine.cores, machine.kernels, machine.products,
                           use.text())) +
         ".json";
}

Result<ProcessorSpeed> read_speed(const std::string& path, const RankUse& use) {
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value document, parse_json(text, path));
  LH_TRY(ProcessorSpeed speed, processor_speed_from_value(document, path));
  if (speed.use() == use) return speed;
  return make_error(ErrorCode::corrupt, format("{} is of {}, not of {}", path, speed.use().text(), use.text()));
}

// Keeps what it says, under a name that nobody reads.
std::string set_aside(const std::string& path, const std::string& why) {
  const std::string aside = format("{}.aside-{}", path, compact_utc_text(SystemClock().wall_ms()));
  std::error_code failed;
  std::filesystem::rename(path, aside, failed);
  return format("set aside as {}: {}", !failed ? aside : path + " (it could not be renamed)", why);
}

// What the engine is asked.
std::vector<std::string> measure_words(const RankUse& use) {
  std::vector<std::string> words = {
      "measure",     "--ranks",    std::to_string(use.ranks), "--threads", std::to_string(use.threads),
      "--precision", use.precision};
  if (use.beside.ranks > 0)
    for (const std::string& word : {std::string("--beside"), std::to_string(use.beside.ranks),
                                    std::string("--beside-threads"), std::to_string(use.beside.threads)})
      words.push_back(word);
  return words;
}

std::string source_text(const ProcessorSpeed& speed, const RankUse& use, const std::string& path) {
  return format("predicted from what {} ({} cores, {}) showed on {}: {}; {}", speed.identity.processor,
                speed.identity.cores, speed.identity.products, utc_text(speed.at_ms), use.text(), path);
}

class SpeedReader {
 public:
  SpeedReader(const std::string& runs_dir, const SiteConfig& site, const ConstantTable& assumed,
              const MachineProbe& probe)
      : folder_(join_path(runs_dir, machine_folder_name)), site_(site), assumed_(assumed), probe_(probe) {}

  MachineSpeeds read(const std::vector<RankUse>& uses) {
    if (site_.is_slurm()) {
      for (const RankUse& use : uses) read_of_site(use);
      return std::move(speeds_);
    }
    const auto machine = probe_.identity();
    for (const RankUse& use : uses) {
      if (!machine.ok())
        assume(use, machine.error().message());
      else
        read_of_machine(*machine, use);
    }
    return std::move(speeds_);
  }

 private:
  void say(std::string text) { speeds_.said.push_back(std::move(text)); }
  void assume(const RankUse& use, const std::string& why) {
    say(format("{}: nothing was measured ({}); [gpu.{}] of the constants, one machine's figures, is assumed",
               use.text(), why, processor_key));
  }

  void read_of_site(const RankUse& use) {
    const std::string path = join_path(folder_, plain_name(site_.name + "-" + use.text()) + ".json");
    if (file_exists(path)) {
      const auto speed = read_speed(path, use);
      if (speed.ok() && take(*speed, use, path)) return;
      if (!speed.ok()) say(set_aside(path, speed.error().message()));
    }
    assume(use, format("its ranks run on other hosts; on one of them: longhaul-engine {} > {}",
                       join(measure_words(use), " "), path));
  }

  void read_of_machine(const ProcessorIdentity& machine, const RankUse& use) {
    // Far too many for this machine are those of another one that is being planned.
    const int wanted = use.ranks * use.threads + use.beside.ranks * use.beside.threads;
    if (wanted > threads_a_core_max * machine.cores)
      return assume(use, format("{} threads are more than {} a core of this machine", wanted, threads_a_core_max));
    if (wanted > machine.cores) say(format("{}: {} threads share {} cores", use.text(), wanted, machine.cores));
    const std::string path = join_path(folder_, file_of(machine, use));
    if (file_exists(path)) {
      const auto speed = read_speed(path, use);
      const bool same = speed.ok() && speed->identity == machine;
      if (same && take(*speed, use, path)) return;
      if (!same) say(set_aside(path, speed.ok() ? "another build of the engine measured it" : speed.error().message()));
    }
    if (!probe_.measure) return assume(use, "`longhaul plan` does");
    const auto speed = probe_.measure(use);
    if (!speed.ok()) return assume(use, speed.error().message());
    const Status kept = keep(*speed, path);
    say(format("{}: measured in {:.1f} s, once", use.text(), speed->spent_seconds));
    if (!kept.ok()) say("it cannot be kept: " + kept.error().message());
    take(*speed, use, kept.ok() ? path : "not kept");
  }

  Status keep(const ProcessorSpeed& speed, const std::string& path) const {
    LH_CHECK(share_folder(folder_, {site_.group, site_.readers}, true));
    return write_file_atomic(path, to_json_pretty(processor_speed_to_value(speed)));
  }

  bool take(const ProcessorSpeed& speed, const RankUse& use, const std::string& path) {
    const auto constants = processor_constants(assumed_, speed);
    if (!constants.ok()) {
      assume(use, constants.error().message());
      return false;
    }
    speeds_.constants += "\n" + constants->section;
    say(source_text(speed, use, path));
    return true;
  }

  std::string folder_;
  const SiteConfig& site_;
  const ConstantTable& assumed_;
  const MachineProbe& probe_;
  MachineSpeeds speeds_;
};

}  // namespace

std::vector<RankUse> processor_uses(const RunPlan& plan, const SiteConfig& site) {
  std::set<RankUse> uses;
  // What a tune stage tries may differ from the stage as it is written.
  const bool tuned = std::any_of(plan.stages.begin(), plan.stages.end(),
                                 [](const PlannedStage& stage) { return stage.kind == "tune"; });
  const auto add = [&](const PlannedStage& stage) {
    const bool trains = stage.kind == "pretrain" || stage.kind == "sft" || stage.kind == "align";
    if (!trains && stage.kind != "deploy") return;
    if (may_use_gpus(stage) && site.node.gpus > 0) return;
    const int all = stage.dims.world_size() + rollout_ranks_of(stage.kind, stage.settings);
    const int on_node = trains ? std::max(1, all / std::max(1, stage.common.nodes)) : 1;
    RankUse use = rank_use_of(stage, site, on_node);
    uses.insert(use);
    if (generates_its_rows(stage)) uses.insert(drawing_use_of(stage, site, on_node));
    if (use.beside.ranks > 0) {
      const UsesAlone alone = uses_alone(use);
      uses.insert(alone.trains), uses.insert(alone.draws);
    }
    if (tuned && trains) use.precision = use.precision == "f32" ? "bf16" : "f32", uses.insert(use);
  };
  for (const PlannedStage& stage : plan.stages) {
    add(stage);
    if (stage.kind != "tune") continue;
    // `longhaul tune` leaves out the training that the layout is for.
    if (const Result<PlannedStage> target = target_of(stage); target.ok()) add(*target);
  }
  return {uses.begin(), uses.end()};
}

MachineProbe probe_with(const std::string& engine) {
  MachineProbe probe;
  probe.identity = [engine]() -> Result<ProcessorIdentity> {
    LH_TRY(const Value said, engine_says({engine, "measure", "--only", "identity"}, identity_deadline_ms));
    return identity_from_value(said, "longhaul-engine measure");
  };
  probe.measure = [engine](const RankUse& use) -> Result<ProcessorSpeed> {
    std::vector<std::string> argv = measure_words(use);
    argv.insert(argv.begin(), engine);
    LH_TRY(const Value said, engine_says(argv, measure_deadline_ms));
    return processor_speed_from_value(said, "longhaul-engine measure");
  };
  return probe;
}

MachineSpeeds machine_speeds(const std::string& runs_dir, const SiteConfig& site, const std::vector<RankUse>& uses,
                             const ConstantTable& assumed, const MachineProbe& probe) {
  return SpeedReader(runs_dir, site, assumed, probe).read(uses);
}

}  // namespace longhaul

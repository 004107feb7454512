#include "orchestrator/preflight/stage_device.h"

#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/stages/hyper_search.h"
#include "contracts/settings/stages/tune.h"
#include "contracts/settings/training/feature_table.h"
#include "orchestrator/forecast/stage_shape.h"
#include "orchestrator/job/request/job_class.h"
#include "orchestrator/workflow/layout/feature_check.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

constexpr const char* allow_device_text = "; --allow device goes on all the same";

bool is_finder(const PlannedStage& stage) {
  return stage.kind == tune_kind_name || stage.kind == search_kind_name;
}

struct Decision {
  std::string device, why;
};

class DeviceDecider {
 public:
  DeviceDecider(const Site& site, const EngineDevices& engine, bool ignore, const RunPlan& plan,
                Diagnostics& diagnostics, std::vector<std::string>& warnings)
      : config_(site.config),
        engine_(engine),
        ignore_(ignore),
        plan_(plan),
        diagnostics_(diagnostics),
        warnings_(warnings) {}

  void decide(PlannedStage& stage) {
    if (is_finder(stage)) return decide_finder(stage);
    const Decision made = decision_of(stage);
    stage.device = made.device, stage.device_why = made.why;
    if (stage.settings.find("device")) stage.settings.set("device", made.device);
    if (stage.device == "gpu" && stage.kind != "command") check_on_gpu(stage);
    if (stage.device == "cpu") warn_of_idle_gpus(stage);
  }

 private:
  std::string name(const PlannedStage& stage) const { return "stage." + stage.stage; }
  std::string site_text() const { return "site '" + config_.name + "'"; }

  void problem(const PlannedStage& stage, const std::string& what, const std::string& hint) {
    if (reported_.insert(what).second) diagnostics_.add(stage.place_of("device"), what, hint);
  }
  // Of GPUs that idle or are missing: an error, or a warning where the user has allowed it.
  void refuse(const PlannedStage& stage, const std::string& what, const std::string& remedy) {
    if (ignore_) return warn(what + "; allowed by --allow device");
    problem(stage, what, remedy + allow_device_text);
  }
  void warn(const std::string& text) {
    if (reported_.insert(text).second) warnings_.push_back(text);
  }

  // The trials of a tune or search stage are those of another stage, in jobs as its own common keys ask for them.
  void decide_finder(PlannedStage& stage) {
    auto target = target_of(stage);
    if (!target.ok()) return;  // has been said
    target->where = stage.where, target->asked = stage.asked;
    target->stage = stage.stage;  // problems name the stage that the user can look at
    const Decision made = decision_of(*target);
    stage.device = made.device, stage.device_why = made.why;
    target->device = made.device;
    target->settings.set("device", made.device);
    if (made.device == "gpu") check_on_gpu(*target);
    if (Value* written = stage.settings.find(tune_target_key))
      if (Value* settings = written->find("settings")) settings->set("device", made.device);
  }

  Decision decision_of(const PlannedStage& stage) {
    const std::string asked = stage.settings.get_string("device");
    if (asked.empty()) return {"cpu", "a stage of this kind computes on processors"};
    if (asked == "cpu") return on_processors(stage);
    const JobClass job_class = class_with(stage, "gpu");
    const std::string missing = missing_gpus(stage, job_class, asked == "gpu");
    if (asked == "gpu") return on_gpus(stage, job_class, missing);
    if (!missing.empty()) return {"cpu", missing};
    if (stage.kind == "command") return {"gpu", "its job has GPUs; whether the program uses them nobody knows"};
    return automatic(stage, job_class);
  }

  JobClass class_with(const PlannedStage& stage, const std::string& device) const {
    return job_class_of(config_, stage, device);
  }

  // Why the stage's job has no GPUs; "": it has.
  std::string missing_gpus(const PlannedStage& stage, const JobClass& job_class, bool asked) const {
    if (stage.common.job.gpus_per_node == 0) return "job.gpus_per_node = 0";
    if (!config_.is_slurm()) return missing_here(stage, asked);
    if (job_has_gpus(config_, job_class, stage)) return {};
    if (job_class.gpus_per_node == 0) return format("the class '{}' of {} has no GPUs", job_class.name, site_text());
    return format("{} says of no GPUs (node.gpus)", site_text());
  }
  // Jobs start on this host: what it has counts, and not what the site file says of it.
  std::string missing_here(const PlannedStage& stage, bool asked) const {
    if (!asked && !engine_.host_has_driver())
      return format(
          "this host has no driver for GPUs{}",
          config_.node.gpus > 0 ? format(", whatever {} says (node.gpus = {})", site_text(), config_.node.gpus) : "");
    if (stage.kind == "command") return {};
    const EngineDevices::Build build = engine_.build();
    if (build.cuda == EngineCuda::none) return "the installed engine was built without CUDA";
    return engine_.no_gpu_here(stage.common.ranks, stage.settings.get_string("communicator") == "staged");
  }

  Decision on_processors(const PlannedStage& stage) {
    const JobClass job_class = class_with(stage, "cpu");
    const bool idle = job_has_gpus(config_, job_class, stage) && config_.is_slurm() && config_.can.cuda != "no" &&
                      stage.kind != "command";
    if (idle && !ignore_)  // else the warning of idle GPUs says it
      refuse(stage,
             format("{}: device = \"cpu\" in a job{} of {} whose nodes have {} GPUs: they would stand idle",
                    name(stage), job_class.name.empty() ? "" : format(" of the class '{}'", job_class.name),
                    site_text(), gpus_of_class(config_, job_class)),
             "remove device, or " + without_gpus_text(stage));
    return {"cpu", ""};
  }

  // How a job gets no GPUs here.
  std::string without_gpus_text(const PlannedStage& stage) const {
    for (const JobClass& one : config_.classes)
      if (gpus_of_class(config_, one) == 0 && takes_stages(one) &&
          (one.max_nodes == 0 || stage.common.nodes_with_spares() <= one.max_nodes))
        return format("use job.class = \"{}\", which has none", one.name);
    return "add a class with gpus_per_node = 0 to the site file, or write job.gpus_per_node = 0 where the site takes "
           "jobs without GPUs";
  }

  Decision on_gpus(const PlannedStage& stage, const JobClass& job_class, const std::string& missing) {
    if (!missing.empty()) {
      refuse(stage, format("{}: device = \"gpu\", and its job has no GPUs: {}", name(stage), missing),
             gpu_remedy(stage, job_class));
    } else if (stage.kind != "command") {
      check_engine(stage, "device = \"gpu\"");
      if (!ignore_) warn_of_unknown_engine();
    }
    return {"gpu", ""};
  }
  std::string gpu_remedy(const PlannedStage& stage, const JobClass& job_class) const {
    std::string otherwise = "device = \"auto\" takes processors where there are none";
    if (stage.common.job.gpus_per_node == 0) return "remove job.gpus_per_node; " + otherwise;
    if (!config_.is_slurm()) return otherwise;
    if (job_class.gpus_per_node == 0) return "use another job.class; " + otherwise;
    return "write node.gpus into the site file, or job.gpus_per_node = N into the stage; " + otherwise;
  }

  // Whether the engine could use the GPUs of the job; what speaks against it is a problem of the stage.
  void check_engine(const PlannedStage& stage, const std::string& how) {
    if (config_.can.cuda == "no") {
      refuse(stage, format("{}: {}, and the GPUs of {} run no CUDA programs (can.cuda)", name(stage), how, site_text()),
             "use device = \"cpu\"");
    } else if (engine_.build().cuda == EngineCuda::none) {
      refuse(stage,
             format("{}: {}, and the installed engine was built without CUDA; jobs run a copy of it", name(stage), how),
             "build it where nvcc is (-DLONGHAUL_CUDA=ON), or use device = \"cpu\"; `longhaul doctor` says "
             "how it was built");
    }
  }

  // "auto" in a job with GPUs.
  Decision automatic(const PlannedStage& stage, const JobClass& job_class) {
    if (config_.can.cuda == "no") return {"cpu", format("the GPUs of {} run no CUDA programs (can.cuda)", site_text())};
    const EngineDevices::Build build = engine_.build();
    const std::string what = config_.is_slurm() && !job_class.name.empty()
                                 ? format("its job, of the class '{}', has GPUs", job_class.name)
                                 : std::string("its job has GPUs");
    if (build.cuda == EngineCuda::none) {
      if (ignore_ || trains(stage.kind)) check_engine(stage, what);
      if (ignore_) return {"gpu", what};
      return {"cpu", "the installed engine was built without CUDA"};
    }
    warn_of_unknown_engine();
    return {"gpu", what};
  }
  void warn_of_unknown_engine() {
    if (const EngineDevices::Build build = engine_.build(); build.cuda == EngineCuda::unknown)
      warn("whether the installed engine can use GPUs is found when a rank starts: " + build.why);
  }

  // What the engine refuses on GPUs, by the table of features. Where the stage itself names them, it was refused when
  // it was planned; what is known here besides is the model of a stage before it, or of a folder.
  void check_on_gpu(const PlannedStage& stage) {
    auto asked = engine_case_of_stage(stage.kind, stage.settings, stage_shape(plan_, stage), stage.dims);
    if (!asked) return;
    asked->gpu = true;
    for (const EngineRefusal& refusal : engine_refusals(*asked))
      problem(stage, name(stage) + ": " + refusal.what, refusal.hint);
  }

  void warn_of_idle_gpus(const PlannedStage& stage) {
    if (!config_.is_slurm()) return;
    const JobClass job_class = job_class_of(config_, stage);
    if (!job_has_gpus(config_, job_class, stage)) return;
    warn(format("{} computes on processors in a job that has GPUs: no class of {} without takes it; {}", stage.stage,
                site_text(), without_gpus_text(stage)));
  }

  const SiteConfig& config_;
  const EngineDevices& engine_;
  const bool ignore_;
  const RunPlan& plan_;
  Diagnostics& diagnostics_;
  std::vector<std::string>& warnings_;
  std::set<std::string> reported_;  // of variants, once
};

}  // namespace

void decide_devices(const Site& site, const EngineDevices& engine, bool ignore, RunPlan& plan, Diagnostics& diagnostics,
                    std::vector<std::string>& warnings) {
  DeviceDecider decider(site, engine, ignore, plan, diagnostics, warnings);
  for (PlannedStage& stage : plan.stages) decider.decide(stage);
}

}  // namespace longhaul

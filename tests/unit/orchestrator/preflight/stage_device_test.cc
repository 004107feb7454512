#include "orchestrator/preflight/stage_device.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/training/feature_table.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/workflow/layout/stage_computing.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

const std::string devices_gpu_site = R"(
name = "acc"
scheduler = "slurm"
default_class = "prod"
[node]
cores = 80
gpus = 4
[ask]
gpu_request = "gres"
[classes.prod]
partition = "acc"
max_wall = "3d"
)";
const std::string processor_class = "[classes.cpu]\npartition = \"gpp\"\ngpus_per_node = 0\ncores = 112\n";

Site device_site(const std::string& text) {
  const std::string folder = "/tmp/longhaul-device-test-" + random_hex(6).value();
  make_directories(folder).value();
  write_file_atomic(folder + "/acc.toml", text).value();
  auto site = load_site(folder + "/acc.toml", {});
  (void)remove_tree(folder);
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  return *site;
}

EngineDevices engine_with(EngineCuda cuda, bool driver = false, const std::string& no_gpu = "") {
  EngineDevices engine;
  engine.build = [cuda] { return EngineDevices::Build{cuda, cuda == EngineCuda::unknown ? "it does not start" : ""}; };
  engine.host_has_driver = [driver] { return driver; };
  engine.no_gpu_here = [no_gpu](int, bool) { return no_gpu; };
  return engine;
}

const std::string pretrain_stage =
    "[stage.pretrain]\nkind = \"pretrain\"\ninputs = { tokens = \"tokens\" }\nsteps = 10\nsequence_length = 64\n"
    "model = { hidden_size = 64, num_attention_heads = 4, num_key_value_heads = 4, max_position_embeddings = 64 }\n";

struct DecidedPlan {
  RunPlan plan;
  std::string problems;
  std::vector<std::string> warnings;

  const PlannedStage& stage(const std::string& id) const {
    const PlannedStage* found = plan.find(id);
    REQUIRE(found);
    return *found;
  }
  std::string device(const std::string& id) const { return stage(id).device; }
};

DecidedPlan decide_all(const std::string& stages, const Site& site, const EngineDevices& engine, bool ignore = false) {
  WorkflowRequest request;
  request.text = "[workflow]\nname = \"w\"\n" + stages;
  request.path = "w.toml";
  request.folder = "/somewhere";
  request.site = site.values;
  request.can_search_layouts = true;
  WorkflowOutcome planned = plan_workflow(request, testing::PlainFiles());
  REQUIRE_MESSAGE(planned.diagnostics.empty(), planned.diagnostics.render(""));
  DecidedPlan result;
  result.plan = std::move(planned.plan);
  Diagnostics diagnostics;
  decide_devices(site, engine, ignore, result.plan, diagnostics, result.warnings);
  result.problems = diagnostics.empty() ? "" : diagnostics.render("");
  return result;
}

bool device_text_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

JobPlan job_of(const Site& site, const PlannedStage& stage) {
  Diagnostics diagnostics;
  JobPlan job = plan_job(site, stage, diagnostics);
  REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
  return job;
}

}  // namespace

TEST_CASE("auto is a GPU where the job has some, and what was decided stands in the task and the plan's file") {
  const Site site = device_site(devices_gpu_site);
  const DecidedPlan plan =
      decide_all(pretrain_stage +
                     "[stage.corpus]\nkind = \"curate\"\ninputs = { documents = \"pages\" }\n"
                     "[stage.measure]\nkind = \"evaluate\"\ninputs = { model = \"@pretrain\", tokens = \"tokens\" }\n"
                     "[stage.small]\nkind = \"quantize\"\ninputs = { model = \"@pretrain\" }\n"
                     "[stage.serve]\nkind = \"deploy\"\ninputs = { model = \"@small\" }\n",
                 site, engine_with(EngineCuda::built_in));
  CHECK(plan.problems == "");
  CHECK(plan.device("pretrain") == "gpu");
  CHECK(plan.stage("pretrain").device_why == "its job, of the class 'prod', has GPUs");
  CHECK(plan.device("measure") == "gpu");
  CHECK(plan.device("serve") == "gpu");
  CHECK(plan.device("corpus") == "cpu");
  CHECK(plan.device("small") == "cpu");
  CHECK(make_task(plan.stage("pretrain"), "run", {}, 2).settings.get_string("device") == "gpu");
  const auto again = run_plan_from_value(run_plan_to_value(plan.plan));
  REQUIRE(again.ok());
  CHECK(again->find("pretrain")->device == "gpu");
  CHECK(again->find("pretrain")->device_why == plan.stage("pretrain").device_why);
  CHECK(computing_text(computing_of(*again->find("pretrain"))) == "gpu, bf16, longhaul-engine");
  CHECK(computing_text(computing_of(*again->find("corpus"))) == "cpu, longhaul-engine");
  CHECK(computing_text(computing_of(*again->find("small"))) == "cpu, int8 weights, longhaul-engine");
}

TEST_CASE("auto is the processors where a job has no GPUs or may not use them, and the plan says why") {
  const EngineDevices engine = engine_with(EngineCuda::built_in);
  const auto why = [&](const std::string& site_text, const std::string& more) {
    const DecidedPlan plan = decide_all(pretrain_stage + more, device_site(site_text), engine);
    CHECK(plan.problems == "");
    CHECK(plan.device("pretrain") == "cpu");
    return plan.stage("pretrain").device_why;
  };
  CHECK(why("name = \"acc\"\nscheduler = \"slurm\"\n", "") == "site 'acc' says of no GPUs (node.gpus)");
  CHECK(why(devices_gpu_site, "job = { gpus_per_node = 0 }\n") == "job.gpus_per_node = 0");
  CHECK(why(devices_gpu_site + processor_class, "job = { class = \"cpu\" }\n") ==
        "the class 'cpu' of site 'acc' has no GPUs");
  CHECK(why(devices_gpu_site + "[can]\ncuda = \"no\"\n", "") ==
        "the GPUs of site 'acc' run no CUDA programs (can.cuda)");
  CHECK(why("name = \"acc\"\n", "") == "this host has no driver for GPUs");
  CHECK(device_text_has(why("name = \"acc\"\n[node]\ngpus = 2\n", ""), "whatever site 'acc' says (node.gpus = 2)"));
}

TEST_CASE("stages on processors go to a class without GPUs where there is one, and are named where there is none") {
  const std::string stages = pretrain_stage +
                             "[stage.corpus]\nkind = \"curate\"\ninputs = { documents = \"pages\" }\n"
                             "[stage.say]\nkind = \"command\"\nargv = [\"true\"]\ndevice = \"cpu\"\n"
                             "[stage.other]\nkind = \"command\"\nargv = [\"true\"]\n";
  const EngineDevices engine = engine_with(EngineCuda::built_in);
  const Site with_class = device_site(devices_gpu_site + processor_class);
  const DecidedPlan there = decide_all(stages, with_class, engine);
  CHECK(there.warnings.empty());
  CHECK(job_of(with_class, there.stage("corpus")).job_class == "cpu");
  CHECK(job_of(with_class, there.stage("corpus")).gpus_per_node == 0);
  CHECK(job_of(with_class, there.stage("say")).job_class == "cpu");
  CHECK(job_of(with_class, there.stage("other")).job_class == "prod");
  CHECK(job_of(with_class, there.stage("other")).gpus_per_node == 1);
  CHECK(job_of(with_class, there.stage("pretrain")).job_class == "prod");

  for (const char* for_others : {"kinds = [\"driver\"]\n", "kinds = [\"transfer\"]\n", "min_nodes = 2\n"}) {
    CAPTURE(for_others);
    const Site without = device_site(devices_gpu_site + processor_class + for_others);
    const DecidedPlan here = decide_all(stages, without, engine);
    CHECK(here.problems == "");
    CHECK(job_of(without, here.stage("corpus")).job_class == "prod");
    REQUIRE(here.warnings.size() == 2);
    CHECK(device_text_has(here.warnings[0], "corpus computes on processors in a job that has GPUs"));
    CHECK(device_text_has(here.warnings[1], "say computes"));
  }
}

TEST_CASE("GPUs that would stand idle are refused with place and remedy, unless that is said") {
  const std::string stage = pretrain_stage + "device = \"cpu\"\n";
  const EngineDevices engine = engine_with(EngineCuda::built_in);
  const Site site = device_site(devices_gpu_site);
  const std::string refused = decide_all(stage, site, engine).problems;
  CHECK(starts_with(refused,
                    "w.toml:9:10: error: stage.pretrain: device = \"cpu\" in a job of the class 'prod' of site 'acc' "
                    "whose nodes have 4 GPUs: they would stand idle; remove device, or "));
  CHECK(device_text_has(refused, "--allow device goes on all the same"));
  const DecidedPlan ignored = decide_all(stage, site, engine, true);
  CHECK(ignored.problems == "");
  CHECK(ignored.device("pretrain") == "cpu");
  CHECK(ignored.warnings.size() == 1);
  CHECK(decide_all(stage + "job = { gpus_per_node = 0 }\n", site, engine).problems == "");
  CHECK(decide_all(stage, device_site(devices_gpu_site + processor_class), engine).problems == "");
  CHECK(decide_all(stage, device_site(devices_gpu_site + "[can]\ncuda = \"no\"\n"), engine).problems == "");
  const std::string held =
      decide_all(stage + "job = { class = \"prod\" }\n", device_site(devices_gpu_site + processor_class), engine)
          .problems;
  CHECK(device_text_has(held, "use job.class = \"cpu\", which has none"));
}

TEST_CASE("a stage that wants a GPU and gets none is refused with place and remedy") {
  const std::string stage = pretrain_stage + "device = \"gpu\"\n";
  const auto refusal = [](const std::string& stages, const std::string& site, const EngineDevices& engine) {
    return decide_all(stages, device_site(site), engine).problems;
  };
  const EngineDevices cuda = engine_with(EngineCuda::built_in), plain = engine_with(EngineCuda::none);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {refusal(stage, "name = \"acc\"\nscheduler = \"slurm\"\n", cuda), "write node.gpus into the site file"},
      {refusal(stage + "job = { gpus_per_node = 0 }\n", devices_gpu_site, cuda), "remove job.gpus_per_node"},
      {refusal(stage + "job = { class = \"cpu\" }\n", devices_gpu_site + processor_class, cuda),
       "use another job.class"},
      {refusal(stage, devices_gpu_site + "[can]\ncuda = \"no\"\n", cuda), "run no CUDA programs (can.cuda)"},
      {refusal(stage, devices_gpu_site, plain), "the installed engine was built without CUDA"},
      {refusal(stage, "name = \"acc\"\n", plain), "the installed engine was built without CUDA"},
      {refusal(stage, "name = \"acc\"\n", engine_with(EngineCuda::built_in, true, "fewer GPUs than ranks")),
       "its job has no GPUs: fewer GPUs than ranks"},
  };
  for (const auto& [answer, part] : cases) {
    CHECK_MESSAGE(starts_with(answer, "w.toml:9:10: error: stage.pretrain: device = \"gpu\", and "), answer);
    CHECK_MESSAGE(device_text_has(answer, part), answer);
    CHECK_MESSAGE(device_text_has(answer, "--allow device goes on all the same"), answer);
  }
  const DecidedPlan ignored = decide_all(stage, device_site(devices_gpu_site), plain, true);
  CHECK(ignored.problems == "");
  CHECK(ignored.device("pretrain") == "gpu");
  CHECK_MESSAGE(join(ignored.warnings, "\n").find("; allowed by --allow device") != std::string::npos,
                join(ignored.warnings, "\n"));
  CHECK(decide_all(stage, device_site(devices_gpu_site), cuda).problems == "");
}

TEST_CASE("an engine without CUDA: trainings in jobs with GPUs are refused, what is small goes to the processors") {
  const std::string measure =
      "[stage.measure]\nkind = \"evaluate\"\ninputs = { model = \"model\", tokens = \"tokens\" }\n";
  const Site site = device_site(devices_gpu_site + processor_class);
  const DecidedPlan plan = decide_all(pretrain_stage + measure, site, engine_with(EngineCuda::none));
  CHECK(device_text_has(plan.problems,
                        "stage.pretrain: its job, of the class 'prod', has GPUs, and the installed engine was built "
                        "without CUDA"));
  CHECK(!device_text_has(plan.problems, "measure"));
  CHECK(plan.device("measure") == "cpu");
  CHECK(job_of(site, plan.stage("measure")).job_class == "cpu");
  CHECK(decide_all(pretrain_stage, site, engine_with(EngineCuda::none), true).device("pretrain") == "gpu");
  // Of one that does not answer here, the start of a rank will show it.
  const DecidedPlan unknown = decide_all(pretrain_stage + measure, site, engine_with(EngineCuda::unknown));
  CHECK(unknown.problems == "");
  CHECK(unknown.device("pretrain") == "gpu");
  REQUIRE(unknown.warnings.size() == 1);
  CHECK(device_text_has(unknown.warnings[0], "found when a rank starts: it does not start"));
}

TEST_CASE("a host's own GPUs are taken where each rank has one") {
  const Site here = device_site("name = \"acc\"\n");
  CHECK(decide_all(pretrain_stage, here, engine_with(EngineCuda::built_in, true)).device("pretrain") == "gpu");
  const DecidedPlan few =
      decide_all(pretrain_stage, here, engine_with(EngineCuda::built_in, true, "1 GPU for 2 ranks"));
  CHECK(few.device("pretrain") == "cpu");
  CHECK(few.stage("pretrain").device_why == "1 GPU for 2 ranks");
  CHECK(decide_all(pretrain_stage, here, engine_with(EngineCuda::none, true)).device("pretrain") == "cpu");
}

TEST_CASE("what is not there on GPUs is refused where auto means them; models with experts are evaluated on them") {
  const Site site = device_site(devices_gpu_site);
  const EngineDevices engine = engine_with(EngineCuda::built_in);
  CHECK(device_text_has(decide_all(pretrain_stage + "optimizer = { offload = \"host\" }\n", site, engine).problems,
                        "offload = \"host\""));
  CHECK(device_text_has(decide_all(pretrain_stage + "corruption = { check = \"replay\" }\n", site, engine).problems,
                        "replay"));
  const std::string experts = replace_all(pretrain_stage, "model = { ",
                                          "model = { architecture = \"mixtral\", num_local_experts = 4, "
                                          "num_experts_per_tok = 2, vocab_size = 300, ");
  const DecidedPlan split =
      decide_all(experts + "ranks = 4\nparallel = { tp = 2, ep = 2, etp = 2, dp_replicate = 2 }\n", site, engine);
  CHECK(split.problems == "");
  CHECK(split.device("pretrain") == "gpu");
  const DecidedPlan plan = decide_all(
      experts + "[stage.measure]\nkind = \"evaluate\"\ninputs = { model = \"@pretrain\", tokens = \"tokens\" }\n", site,
      engine);
  CHECK(plan.problems == "");
  CHECK(plan.device("pretrain") == "gpu");
  CHECK(plan.device("measure") == "gpu");
}

// For each row of the table that runs on processors and is refused on GPUs: a workflow that asks for it without a word
// about its device.
struct AskedOnGpu {
  std::string feature, stages, says;
};

TEST_CASE("all that the table of features refuses on GPUs is refused where auto means them") {
  const std::string experts = replace_all(pretrain_stage, "model = { ",
                                          "model = { architecture = \"mixtral\", num_local_experts = 4, "
                                          "num_experts_per_tok = 2, vocab_size = 300, ");
  const std::string wide_heads = replace_all(pretrain_stage, "num_attention_heads = 4, num_key_value_heads = 4",
                                             "num_attention_heads = 1, num_key_value_heads = 1, head_dim = 264");
  const auto chat_behind = [](const std::string& trained) {
    return replace_all(trained, "[stage.pretrain]\n",
                       "[stage.pretrain]\ndevice = \"cpu\"\njob = { gpus_per_node = 0 }\n") +
           "[stage.chat]\nkind = \"sft\"\nsequence_length = 64\ninputs = { model = \"@pretrain\", data = \"data\" }\n";
  };
  const std::string chat = chat_behind(pretrain_stage);
  const auto draws = [](const std::string& tuned, const std::string& rollout) {
    return replace_all(tuned, "kind = \"sft\"", "kind = \"align\"") + "method = \"grpo\"\n" +
           format("rollout = {{ max_new_tokens = 16{} }}\n", rollout);
  };
  const std::vector<AskedOnGpu> asked = {
      {"answers ahead by the ranks that train (`rollout.ahead` without `rollout.ranks`)", draws(chat, ", ahead = true"),
       "with rollout.ahead and without rollout.ranks"},
      {"heads of more than 256 elements", wide_heads, "264"},
      {"`optimizer.offload = \"host\"`", pretrain_stage + "optimizer = { offload = \"host\" }\n", "offload = \"host\""},
      {"`optimizer.offload = \"node_local\"`",
       pretrain_stage + "optimizer = { offload = \"node_local\", offload_dir = \"/x\" }\n", "offload = \"node_local\""},
      {"`corruption.check = \"replay\"`", pretrain_stage + "corruption = { check = \"replay\" }\n", "replay"},
  };
  const Site site = device_site(devices_gpu_site);
  const EngineDevices engine = engine_with(EngineCuda::built_in);
  for (const AskedOnGpu& one : asked) {
    CAPTURE(one.feature);
    CHECK(device_text_has(decide_all(one.stages, site, engine).problems, one.says));
    CHECK(decide_all(one.stages, device_site("name = \"here\"\n"), engine_with(EngineCuda::none)).problems == "");
  }
  // A stage that takes the model of another has its shape.
  const std::string tuned = decide_all(chat_behind(wide_heads), site, engine).problems;
  CHECK(device_text_has(tuned, "stage.chat: "));
  CHECK(device_text_has(tuned, "264"));
  // Nothing is left out: a row that is added to the table has to be added here.
  for (const EngineFeature& row : engine_features()) {
    if (row.gpu.state != FeatureState::refused || row.processor.state == FeatureState::refused) continue;
    CHECK_MESSAGE(std::ranges::any_of(asked, [&](const AskedOnGpu& one) { return one.feature == row.name; }), row.name);
  }
}

TEST_CASE("a model with embeddings before every text, or with layers behind others, is evaluated on GPUs, too") {
  const std::string tuned =
      replace_all(pretrain_stage, "[stage.pretrain]\n",
                  "[stage.pretrain]\ndevice = \"cpu\"\njob = { gpus_per_node = 0 }\n") +
      "[stage.chat]\nkind = \"sft\"\nsequence_length = 64\ninputs = { model = \"@pretrain\", data = \"data\" }\n"
      "adapter = { kind = \"prompt\" }\ndevice = \"cpu\"\njob = { gpus_per_node = 0 }\n";
  const Site site = device_site(devices_gpu_site);
  const EngineDevices engine = engine_with(EngineCuda::built_in);
  for (const char* kind : {"prompt", "bottleneck"}) {
    const DecidedPlan measured =
        decide_all(replace_all(tuned, "\"prompt\"", format("\"{}\"", kind)) +
                       "[stage.measure]\nkind = \"evaluate\"\ninputs = { model = \"@chat\", tokens = \"tokens\" }\n",
                   site, engine);
    CHECK(measured.problems == "");
    CHECK(measured.device("measure") == "gpu");
  }
}

TEST_CASE("trials of a tune stage are on the device that was decided for them") {
  const DecidedPlan plan = decide_all(pretrain_stage +
                                          "parallel = \"@layout\"\n[stage.layout]\nkind = \"tune\"\nfor = "
                                          "\"pretrain\"\ncandidates = [{ micro_batch_size = 1 }]\n",
                                      device_site(devices_gpu_site), engine_with(EngineCuda::built_in));
  CHECK(plan.problems == "");
  CHECK(plan.device("layout") == "gpu");
  CHECK(plan.stage("layout").settings.find("target")->find("settings")->get_string("device") == "gpu");
}

}  // namespace longhaul

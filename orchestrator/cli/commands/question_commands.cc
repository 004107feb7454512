// serving and size: questions to the arithmetic of the tuner that need no run. They start and write nothing.
#include <cstdio>

#include "base/files/files.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "contracts/settings/training/feature_table.h"
#include "orchestrator/cli/commands/question_arguments.h"
#include "orchestrator/cli/options/json_documents.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/site_constants.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/serving_request.h"
#include "orchestrator/forecast/size_request.h"
#include "orchestrator/render/plan/serving_text.h"
#include "orchestrator/render/plan/size_text.h"
#include "orchestrator/workflow/layout/imported_model.h"

namespace longhaul {
namespace {

// What every such question needs: the site and the constants of the time model.
struct QuestionGround {
  SiteConfig site;
  TimeConstants constants;
};

Result<QuestionGround> question_ground(const CommandLine& line, const Installation& installation) {
  LH_TRY(Site site, load_site(line.site, installation.site_folders(), site_sets(line.sets)));
  LH_TRY(const SiteConstants table, load_site_constants(installation, site));
  LH_TRY(TimeConstants constants, make_time_constants(table.table));
  return QuestionGround{std::move(site.config), std::move(constants)};
}

// Without a workflow only the site can be set.
void check_sets(const CommandLine& line, Diagnostics& problems) {
  std::vector<std::string> others;
  site_sets(line.sets, &others);
  if (!line.workflow.empty()) return;
  for (const std::string& set : others)
    problems.add({"--set " + set, 0, 0}, "there is no workflow whose value that could be",
                 "site.KEY=VALUE, or KEY=VALUE without --set for a key of the question");
}

// The shape of a recipe below what the question says itself.
void add_recipe(const Installation& installation, Value& question, Diagnostics& problems) {
  const Value* named = question.find("recipe");
  if (!named || !named->is_string() || named->as_string().empty()) return;
  const std::vector<std::string> folders = installation.recipe_folders(".");
  for (const std::string& folder : folders) {
    const std::string path = join_path(folder, named->as_string() + ".toml");
    if (!file_exists(path)) continue;
    auto recipe = read_toml_file(path);
    if (!recipe.ok()) return problems.add(recipe.error());
    const Value* shape = recipe->find("model");
    if (!shape || !shape->is_table())
      return problems.add(named->pos, format("recipe {} has no [model]", named->as_string()),
                          "name one of a pretraining");
    Value model = *shape;
    if (const Value* own = question.find("model"); own && own->is_table())
      for (const ValueMember& member : own->as_table()) model.set(member.key, member.value);
    question.set("model", std::move(model));
    return;
  }
  problems.add(named->pos, format("recipe '{}' is not found", named->as_string()),
               format("looked for {}.toml in {}", named->as_string(), join(folders, ", ")));
}

// The model of a workflow's stage, where the question names one.
Result<ModelBehind> asked_model(const CommandLine& line, const Installation& installation,
                                const ServingRequest& question) {
  if (line.workflow.empty()) {
    ModelBehind model;
    if (!question.folder.empty()) {
      LH_TRY(model.shape, imported_shape(question.folder));
      return model;
    }
    LH_TRY(model.shape, resolve_shape(question.model));
    return model;
  }
  LH_TRY(const LoadedWorkflow loaded, load_workflow(line, installation));
  LH_CHECK(loaded.diagnostics.to_status("nothing was computed"));
  for (const PlannedStage& stage : loaded.plan.stages)
    if (line.stage.empty() ? stage.kind == "deploy" : stage.id() == line.stage) {
      LH_TRY(ModelBehind model, model_behind(loaded.plan, stage));
      return model;
    }
  std::vector<std::string> stages;
  for (const PlannedStage& stage : loaded.plan.stages) stages.push_back(stage.id());
  return make_error(ErrorCode::not_found,
                    line.stage.empty() ? "the workflow has no deploy stage" : "the workflow has no stage " + line.stage,
                    "--stage takes one of " + join(stages, ", "));
}

}  // namespace

ExitCode ask_serving(const CommandLine& line, const Installation& installation) {
  const auto ground = question_ground(line, installation);
  if (!ground.ok()) return fail(line, ground.error());
  Diagnostics problems;
  Value value = question_value(line.question, line.arguments, serving_request_fields().describe(), problems);
  check_sets(line, problems);
  add_recipe(installation, value, problems);
  const ServingRequest question = serving_request_fields().parse(value, "", problems);
  const bool shaped = value.find("recipe") || value.find("model"), in_folder = value.find("folder") != nullptr;
  std::vector<std::string> sayings;
  if (!line.workflow.empty()) sayings.emplace_back("a workflow");
  if (in_folder) sayings.emplace_back("a folder");
  if (shaped) sayings.emplace_back("a shape");
  if (sayings.size() != 1)
    problems.add({}, sayings.empty() ? "nothing says the model" : join(sayings, " and ") + " both say the model",
                 "one of recipe=NAME or keys of model, folder=PATH, --workflow");
  if (line.workflow.empty() && shaped && !in_folder && question.model.vocab_size == 0)
    problems.add({}, "the model's vocabulary is not known", "model.vocab_size=128256, as the tokenizer has it");
  const SiteConfig site = site_with_gpu(ground->site, question.gpu);
  if (site.node.gpus < 1)
    problems.add({}, format("site {} has no GPUs", ground->site.name), "--site SITE, or gpu=H100");
  if (!problems.empty()) return refuse_input(line, problems, "nothing was computed");
  const auto model = asked_model(line, installation, question);
  if (!model.ok()) return fail(line, model.error());
  const auto task = serving_task_of(question);
  if (!task.ok()) return fail(line, task.error());
  if (question.own_server) {
    EngineCase asked;
    asked.kind = "deploy", asked.generates = asked.gpu = true, asked.shape = model->shape;
    if (const Status accepted = check_engine(asked); !accepted.ok()) return fail(line, accepted.error());
  }
  std::vector<std::string> assumed;  // of the network, which one replica does not use
  const auto cluster = cluster_of(site, ground->constants, assumed);
  if (!cluster.ok()) return fail(line, cluster.error());
  auto plan = plan_serving(model->shape, *task, *cluster, ground->constants);
  if (!plan.ok()) return fail(line, plan.error());
  const std::string toml = serving_toml(model->shape, *plan);
  if (line.json)
    print_text(stdout, to_json_pretty(document_of("longhaul serving", 1, serving_plan_value(*plan, toml))));
  else
    print_text(stdout, serving_report(*plan) + "\n" + toml);
  return ExitCode::ok;
}

ExitCode ask_size(const CommandLine& line, const Installation& installation) {
  const auto ground = question_ground(line, installation);
  if (!ground.ok()) return fail(line, ground.error());
  Diagnostics problems;
  const Value value = question_value(line.question, line.arguments, budget_request_fields().describe(), problems);
  check_sets(line, problems);
  const BudgetRequest asked = budget_request_fields().parse(value, "", problems);
  if (!problems.empty()) return refuse_input(line, problems, "nothing was computed");
  std::string device;
  std::vector<std::string> notes;
  const auto question = size_request(asked, ground->site, ground->constants, device, notes);
  if (!question.ok()) return fail(line, question.error());
  const auto answer = size_training(*question);
  if (!answer.ok()) return fail(line, answer.error());
  const std::string toml = size_toml(*answer, question->gpus_per_node);
  if (line.json)
    print_text(stdout, to_json_pretty(document_of("longhaul size", 1, size_value(*answer, device, notes, toml))));
  else
    print_text(stdout, size_text(*answer, device, notes) + "\n" + toml);
  return ExitCode::ok;
}

}  // namespace longhaul

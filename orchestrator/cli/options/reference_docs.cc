#include "orchestrator/cli/options/reference_docs.h"

#include "base/text/text.h"
#include "contracts/events/event_texts.h"
#include "contracts/figures/figure_table.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/settings/job/faults.h"
#include "contracts/settings/stages/tuning_row_form.h"
#include "contracts/settings/training/feature_table.h"
#include "contracts/tasks/stage_kinds.h"
#include "orchestrator/cli/options/command_specs.h"
#include "orchestrator/cli/options/json_keys.h"
#include "orchestrator/forecast/serving_request.h"
#include "orchestrator/forecast/size_request.h"
#include "orchestrator/render/run/metrics_text.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/planner.h"
#include "orchestrator/workflow/source/matrix.h"
#include "resiliency/simulate/scenario.h"
#include "resiliency/taxonomy/exit_class.h"
#include "resiliency/taxonomy/fault_table.h"
#include "resiliency/taxonomy/xid_class.h"

namespace longhaul {
namespace {

const std::string generated =
    "<!-- Written by `longhaul docs --output docs/reference`; change the tables in the code, not this file. -->\n\n";

// Text inside a table cell.
std::string cell(const std::string& text) {
  return replace_all(text, "|", "\\|");
}

std::string allowed(const FieldInfo& field) {
  const FieldOptions& options = field.options;
  if (!options.choices.empty()) return join(options.choices, ", ");
  std::string text;
  if (options.min && options.max)
    text = format("{:g} to {:g}", *options.min, *options.max);
  else if (options.min)
    text = format(">= {:g}", *options.min);
  else if (options.max)
    text = format("<= {:g}", *options.max);
  if (!options.unit.empty()) text += (text.empty() ? "" : " ") + options.unit;
  return text;
}

void add_rows(std::string& out, const std::vector<FieldInfo>& fields, const std::string& prefix) {
  for (const FieldInfo& field : fields) {
    const std::string name = prefix.empty() ? field.name : prefix + "." + field.name;
    if (!field.members.empty()) {
      add_rows(out, field.members, field.named ? name + ".NAME" : name);
      continue;
    }
    std::string help = field.options.help;
    if (field.options.required) help += " (required)";
    if (field.options.speed_only) help += " (does not change results)";
    out += "| `" + name + "` | " + cell(field.type) + " | " +
           (field.default_text.empty() ? "" : "`" + cell(field.default_text) + "`") + " | " + cell(allowed(field)) +
           " | " + cell(help) + " |\n";
  }
}

std::string field_table(const std::vector<FieldInfo>& fields) {
  if (fields.empty()) return "No settings.\n";
  std::string out = "| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n";
  add_rows(out, fields, "");
  return out;
}

std::string input_kinds(const StageInput& input) {
  std::string text;
  for (const std::string& kind : input.kinds) text += (text.empty() ? "" : ", ") + kind;
  if (input.raw) text += text.empty() ? "a path" : ", or a path";
  return text;
}

ReferencePage stage_kinds_page() {
  std::string text = "# Stage kinds\n\n" + generated;
  text +=
      "Every stage has a `kind`. Its inputs stand in `inputs = { NAME = \"@stage\" }`; its settings beside them. Keys "
      "that every stage has are "
      "in [workflow.md](workflow.md). A dotted key such as `optimizer.lr` is a member of a table: `optimizer = { lr = "
      "1e-3 }`.\n";
  for (const StageKind& kind : stage_kinds()) {
    text += "\n## " + kind.name + "\n\n" + kind.help + ".";
    text += format(" Version {} of its results.{}\n\n", kind.version,
                   kind.parallel ? " May run on several ranks." : " Runs on one rank.");
    if (kind.any_inputs) text += "Inputs: any names; each becomes `$LONGHAUL_INPUT_<NAME>`.\n\n";
    if (!kind.inputs.empty()) {
      text += "| input | takes | needed | meaning |\n|---|---|---|---|\n";
      for (const StageInput& input : kind.inputs)
        text += "| `" + input.name + "` | " + input_kinds(input) + " | " + (input.required ? "yes" : "no") + " | " +
                cell(input.help) + " |\n";
      if (kind.blended)
        text += "| named in `blend` | " + input_kinds(*kind.blended) + " | no | " + cell(kind.blended->help) + " |\n";
      text += "\n";
    }
    text += field_table(kind.fields);
  }
  return {"stage-kinds.md", text};
}

ReferencePage workflow_page() {
  std::string text = "# Workflow files\n\n" + generated;
  text +=
      "The guide is [workflows.md](../workflows.md). A workflow is a TOML file with these sections; any other key is "
      "an error.\n\n";
  text += "## [workflow]\n\n" + field_table(workflow_header_fields().describe());
  text +=
      "\n## [params]\n\nNames of your own with values of any type, for `${params.NAME}`; `--set params.NAME=VALUE` "
      "replaces one.\n";
  text +=
      "\n## [stage.NAME]\n\n| key | meaning |\n|---|---|\n"
      "| `kind` | one of the [stage kinds](stage-kinds.md) |\n"
      "| `inputs` | table: `\"@stage\"`, `\"@stage/file\"`, a path, a glob, or a list of paths |\n"
      "| `recipe` | name of a file below `recipes/`, whose keys stand below this stage's own |\n"
      "| `matrix` | table of lists: one variant of the stage per combination |\n"
      "| `best` | which variant the stages behind a matrix get (below) |\n"
      "| `parallel` | the layout (below), or `\"@stage\"`: the one that a tune stage finds |\n"
      "| `hyperparameters` | `\"@stage\"`: those that a search stage finds, over the settings written here |\n"
      "| `for` | of a tune or search stage: the training stage whose layout or hyperparameters it finds |\n"
      "| `faults` | faults to be injected (below) |\n\n";
  text += "And, for every kind:\n\n" + field_table(stage_common_fields().describe());
  text += "\n### best\n\n" + field_table(best_rule_fields().describe());
  text += "\n### parallel\n\nWhat is not said is 1, and `dp_replicate` is what is left of `ranks`.\n\n" +
          field_table(parallel_dims_fields().describe());
  text +=
      "\n### faults\n\nOf a test: `at` is a list of tables with the keys of the first table, `schedule` one with those "
      "of the second. Names: [faults.md](faults.md#injected).\n\n" +
      field_table(fault_request_fields().describe()) + "\n" + field_table(fault_schedule_fields().describe());
  return {"workflow.md", text};
}

ReferencePage site_page() {
  std::string text = "# Site files\n\n" + generated +
                     "One TOML file per site, below `site-configs/` or given by its path with `--site`. `inherits = "
                     "\"NAME\"` takes what is not said from another one, table by table. Relative paths start at the "
                     "file's folder. A workflow names these keys as `${site.NAME}`; `--set 'site.KEY=VALUE'` replaces "
                     "one for one command.\n\n" +
                     field_table(site_fields().describe());
  text +=
      "\n## [classes.NAME]\n\nKinds of jobs with their own route and limits. A stage goes to the class that "
      "`job.class` "
      "names, else to the first whose `kinds` hold its kind, else to `default_class`.\n\n" +
      field_table(job_class_fields().describe());
  text +=
      "\n## [sources] and unverified\n\n`[sources]` says where a value was read: `\"classes.prod.max_wall\" = "
      "\"...\"`, "
      "or `\"classes\"` for "
      "all below. `unverified = [\"classes.prod.max_wall\"]` names those that nobody has checked on the machine; "
      "`longhaul doctor --site NAME` "
      "asks about them. Every value of a shipped file is in one of the two. `[verified.\"launcher.mpi\"]` holds what "
      "`longhaul doctor --site NAME --job` has tried: `value`, the day `on`, the release of `slurm`, and the `fact` in "
      "a "
      "sentence. A value that is the same counts as checked; one that no file says is taken from there.\n";
  return {"site.md", text};
}

ReferencePage features_page() {
  return {
      "features.md",
      "# What the engine can do\n\n" + generated +
          "Planner, tuner, `longhaul size` and the engine itself read this table. *Refused* is said by `longhaul "
          "validate` and `plan` where model and layout are known by then, and by the engine before it takes "
          "memory, with these messages (the numbers are an example's). *Slow*: it runs, but something else there is "
          "much faster. – : there is nothing to ask for.\n\n"
          "Models: *llama* is Llama and what is built like it, *mistral* the same with a window of attention, "
          "*gpt2* GPT-2, *mixtral* Mixtral, *experts* mixtures with other routers and shared experts.\n\n"
          "Each row runs by itself in a test: on processors, on emulated GPUs ([testing.md](../testing.md)). "
          "Numbers that have to divide others are no features: `plan` names those that would.\n" +
          engine_features_markdown()};
}

ReferencePage simulate_page() {
  return {"simulate.md", "# Scenarios\n\n" + generated +
                             "What `longhaul simulate SCENARIO.toml` reads; the guide is "
                             "[resiliency.md](../resiliency.md#simulation). `[fault.NAME]` and `[expect.NAME]` may "
                             "stand any number of times; any other key is an error.\n\n" +
                             field_table(scenario_fields().describe())};
}

ReferencePage questions_page() {
  return {"questions.md",
          "# Questions to the tuner\n\n" + generated +
              "Keys of `longhaul serving` and `longhaul size`, as `KEY=VALUE` on the command line or in a TOML file "
              "with `--question`. On the command line text needs no quotes, a list is `a,b,c`, and numbers may end in "
              "K, M, B or T.\n\n## serving\n\nThe guide is [tuning-serving.md](../tuning-serving.md).\n\n" +
              field_table(serving_request_fields().describe()) +
              "\n## size\n\nThe guide is [tuning-hyperparameters.md](../tuning-hyperparameters.md).\n\n" +
              field_table(budget_request_fields().describe())};
}

ReferencePage tuning_rows_page() {
  std::string text = "# Rows of tuning data\n\n" + generated;
  text +=
      "`sft`, `align` and `evaluate` read JSON Lines: one row on each line, of any of these forms, also mixed in one "
      "file. A key whose value is null counts as not there. A key that the row's form does not know is refused with "
      "its line, unless the stage lists it: `ignore = [\"id\"]`. Nothing of a row is left out in silence.\n";
  for (const auto& [use, title] :
       {std::pair{TuningRowUse::instruction, "Instructions (`sft`, `answer_loss`)"},
        {TuningRowUse::preference, "Preferences (`align`, `reward`, `preference`)"},
        {TuningRowUse::labelled, "Labels (`align` with `method = \"kto\"`)"},
        {TuningRowUse::rated, "Values of attributes (`reward` with `method = \"attributes\"`)"},
        {TuningRowUse::steps, "Steps (`reward` with `method = \"process\"`)"}}) {
    text += format("\n## {}\n\n| form | keys | may have | becomes |\n|---|---|---|---|\n", title);
    const auto listed = [](const char* keys) { return "`" + replace_all(keys, " ", "`, `") + "`"; };
    for (const TuningRowForm& form : tuning_row_forms()) {
      if (form.use != use) continue;
      std::string may_have = *form.optional ? listed(form.optional) : "";
      if (*form.of_reward) may_have += format("; for `reward` {}", listed(form.of_reward));
      text += format("| {} | {} | {} | {} |\n", form.name, listed(form.keys), may_have, form.becomes);
    }
  }
  text +=
      "\n## Messages\n\nA message is `{role, content}` or `{from, value}`, with `weight` (0 or 1) or `train` where an "
      "answer is not to be trained on. `content` is a text or a list of parts of the type `text`. Several messages of "
      "one role may follow each other; the last is the assistant's.\n\nTools are `tools` beside the conversation (a "
      "list, or its JSON text), `tool_calls` of the assistant (`content` may be null beside them; arguments are an "
      "object or its JSON text), and messages of the role `tool` with perhaps `tool_call_id` and `name`. The chat "
      "template of the model writes them; a row whose tools, calls or answers of tools it leaves out is refused with "
      "its line, and so is every such row where the model has Longhaul's own form.\n\n`chosen` and `rejected` may be "
      "several messages, with calls and answers of tools among them. What both conversations begin with is the prompt; "
      "behind it they differ in a message of the assistant. Each answer of the assistant there is compared, calls "
      "included, unless its `weight` is 0 or its `train` false; what users and tools say there is given.\n\n"
      "| speaker | becomes |\n|---|---|\n";
  for (const SpeakerName& speaker : speaker_names())
    text += format("| `{}` | {}{}{} |\n", speaker.name, speaker.role, *speaker.how ? "; " : "", speaker.how);
  text += "\n## Refused by name\n\n| key | why |\n|---|---|\n";
  for (const RefusedRowKey& refused : refused_row_keys()) text += format("| `{}` | {} |\n", refused.key, refused.why);
  return {"tuning-rows.md", text};
}

ReferencePage exit_codes_page() {
  std::string text = "# Exit codes\n\n" + generated +
                     "What to look at next, code by code: [when-something-fails.md](../when-something-fails.md).\n\n"
                     "| code | name | meaning | what to do |\n|---|---|---|---|\n";
  for (const ExitCodeText& code : exit_code_texts())
    text += format("| {} | {} | {} | {} |\n", static_cast<int>(code.code), code.name, cell(code.meaning),
                   cell(code.remedy));
  return {"exit-codes.md", text};
}

ReferencePage faults_page() {
  std::string text =
      "# Fault classes\n\n" + generated +
      "Every fault gets one class; [resiliency.md](../resiliency.md) says how. *Paid by* is the budget "
      "of another try, *tier* the cheapest restart that can cure it, *accuses* whether it speaks against "
      "the host that it happened on. `longhaul faults` prints this table, `longhaul faults RUN` what "
      "happened in a run.\n\n"
      "| class | severity | scope | paid by | tier | accuses | meaning | what to do |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const FaultInfo& info : fault_table)
    text += format("| `{}` | {} | {} | {} | {} | {} | {} | {} |\n", info.name, to_string(info.severity),
                   to_string(info.scope), to_string(info.group), to_string(info.tier), to_string(info.accuses),
                   cell(info.meaning), cell(info.remedy));
  text +=
      "\n## Exit codes\n\nOf any program; [exit-codes.md](exit-codes.md) has those of `longhaul` itself.\n\n"
      "| code | class |\n|---|---|\n";
  for (const int code : {exit_rerun_to_compare, exit_failed_validation, exit_no_retry, 126, 127})
    text += format("| {} | `{}` |\n", code, to_string(class_of_exit_code(code, false)));
  text += format("| 128 + signal | of the signal: `{}` for KILL, `{}` for TERM, INT, HUP, `{}` for others |\n",
                 to_string(class_of_signal(9)), to_string(class_of_signal(15)), to_string(class_of_signal(11)));
  text += format("| {}, {} of `longhaul-engine` | `{}` |\n", engine_exit_invalid_input, engine_exit_unsupported,
                 to_string(class_of_exit_code(engine_exit_invalid_input, true)));
  text +=
      "\n## XIDs\n\nAction is the immediate one of NVIDIA's catalogue. Others are of class `gpu_event`.\n\n"
      "| XID | meaning | action | class | tier |\n|---|---|---|---|---|\n";
  for (const XidInfo& info : xid_table)
    text += format("| {} | {} | {} | `{}` | {} |\n", info.xid, cell(info.meaning), info.action, to_string(info.fault),
                   to_string(info_of(info.fault).tier));
  text +=
      "\n## Injected\n\nFaults by name, for `longhaul tell RUN fault NAME` and `[stage.x.faults]` of a workflow.\n\n"
      "| name | what is done | not here, because |\n|---|---|---|\n";
  for (const NamedFault& fault : named_faults()) {
    const bool refused = fault.means == FaultMeans::none;
    text +=
        format("| `{}` | {} | {} |\n", fault.name, refused ? "" : cell(fault.what), refused ? cell(fault.what) : "");
  }
  return {"faults.md", text};
}

ReferencePage metrics_page() {
  std::string text = "# Metrics\n\n" + generated +
                     "In Prometheus' text format, written beside and renamed: `metrics.prom` in the run's folder, and "
                     "`longhaul-RUN.prom` in the site's `metrics_folder` where it has one; `longhaul status RUN "
                     "--metrics` prints them "
                     "as of now. [resiliency.md](../resiliency.md), \"Goodput\", says what the classes mean. Label "
                     "`run` is the run's "
                     "name, `stage` the stage's id.\n\n"
                     "| metric | type | labels | meaning |\n|---|---|---|---|\n";
  for (const MetricFamily& family : metric_families()) {
    std::string labels = "`run`";
    for (const std::string& label : family.labels) labels += " `" + label + "`";
    text += format("| `{}` | {} | {} | {} |\n", family.name, family.type, labels, cell(family.help));
  }
  return {"metrics.md", text};
}

ReferencePage figures_page() {
  std::string text =
      "# Figures\n\n" + generated +
      "What stages report: at the end in `artifact.json`, `manifest.json`, `status` and reports, and of each step in "
      "events `metric`. `best` of a matrix and the `metric` of a search name one of those at the end. Shares are from "
      "0 to 1, logarithms are natural, sums over ranks are those of the whole job. Of `evaluate` with a `baseline` the "
      "baseline's figures have `baseline_` before their names. A mean over nothing is not reported or, where counts "
      "are, 0 of 0; a figure that is not a number is never the best.\n\n"
      "| figure | unit | stages | when | what | over what | source | computed in "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const FigureMeaning& row : figure_meanings())
    text += format("| `{}` | {} | {} | {} | {} | {} | {} | `{}` |\n", row.name, row.unit, row.stages, row.when,
                   cell(row.formula), cell(row.over), cell(row.source), row.code);
  return {"figures.md", text};
}

ReferencePage events_page() {
  std::string text =
      "# Events\n\n" + generated +
      "What stands in `events.jsonl` of an attempt, one JSON object a line, beside its time and its kind. "
      "Readers skip a torn last line, kinds that they do not know, and fields that they do not know. "
      "`longhaul logs` shows them as lines.\n\n| event | fields | by | meaning |\n|---|---|---|---|\n";
  for (const EventText& event : event_texts())
    text += format("| `{}` | {} | {} | {} |\n", event.kind, event.fields, event.by, cell(event.meaning));
  return {"events.md", text};
}

ReferencePage commands_page() {
  std::string text = "# Commands\n\n" + generated + "`longhaul COMMAND --help` lists the options.\n";
  for (const CommandSpec& spec : command_specs()) {
    text += "\n## " + spec.name + "\n\n    " + spec.usage + "\n\n" + spec.paragraph + "\n\n";
    for (const std::string& example : spec.examples) text += "    " + example + "\n";
    text += "\nExit codes: 0, 1, 2";
    for (ExitCode code : spec.exit_codes) text += format(", {}", static_cast<int>(code));
    text += "; see [exit-codes.md](exit-codes.md).\n";
  }
  return {"commands.md", text};
}

ReferencePage json_page() {
  std::string text =
      "# JSON documents\n\n" + generated +
      "What commands print with `--json`, key by key. `[]` is any element of a list, `NAME` any key that "
      "is a name of yours or a figure's, `.*` all that lies below. A document's `format` is raised when a "
      "key goes or changes its meaning; new keys may come at any time. A command that fails prints the document "
      "`errors` instead. All commands but `completion`, which prints a script, take `--json`.\n";
  for (const JsonDocument& document : json_documents()) {
    text += "\n## " + document.command + "\n\n" + document.when + "\n\n| key | type | meaning |\n|---|---|---|\n";
    for (const JsonKey& key : document.keys)
      text += "| `" + key.path + "` | " + key.type + " | " + cell(key.meaning) + " |\n";
  }
  return {"json.md", text};
}

}  // namespace

std::vector<ReferencePage> reference_pages() {
  return {commands_page(), workflow_page(),    stage_kinds_page(), features_page(), site_page(),
          simulate_page(), questions_page(),   exit_codes_page(),  faults_page(),   figures_page(),
          metrics_page(),  tuning_rows_page(), json_page(),        events_page()};
}

std::string wrapped_page(const std::string& text, std::size_t width) {
  constexpr std::string_view marks =
      "|#<-*+> ";  // a line that begins so is no prose, and prose must not come to begin so
  std::string page;
  bool code = false;
  for (std::string line : split(text, '\n')) {
    const bool fence = starts_with(line, "```");
    if (fence) code = !code;
    const bool stays = code || fence || line.empty() || marks.find(line.front()) != std::string_view::npos;
    while (!stays && line.size() > width) {
      std::size_t end = line.rfind(' ', width);
      while (end != std::string::npos && end > 0 && marks.find(line[end + 1]) != std::string_view::npos)
        end = line.rfind(' ', end - 1);
      if (end == std::string::npos || end == 0) break;
      page += line.substr(0, end) + "\n";
      line.erase(0, end + 1);
    }
    page += line + "\n";
  }
  if (!page.empty()) page.pop_back();  // of the last line, which split() gives without its end
  return page;
}

}  // namespace longhaul

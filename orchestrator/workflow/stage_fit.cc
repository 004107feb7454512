#include "orchestrator/workflow/stage_fit.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/evaluation/task_folder.h"
#include "contracts/model/adapter_list.h"
#include "contracts/model/hf_config.h"
#include "contracts/plan/layout_check.h"
#include "contracts/plan/rollout/drawing_layout.h"
#include "contracts/records/milestone.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/stages/alignment.h"
#include "contracts/settings/stages/inference.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/workflow/layout/feature_check.h"
#include "orchestrator/workflow/layout/layout_check.h"

namespace longhaul {
namespace {

// A pair of answers is two sequences (TrainingStageSettings::sequences_per_sample).
std::int64_t sequences_of_micro_batch(const FittedStage& stage) {
  const std::string method = stage.settings->get_string("method");
  const bool pairs = stage.kind == "align" ? !learns_from_rollouts(method) && !align_method(method).labels
                                           : stage.kind == "reward" && method == RewardForm().method;
  return (pairs ? 2 : 1) * stage.settings->get_integer("micro_batch_size");
}

using StagesByName = std::unordered_map<std::string, const FittedStage*>;

// The reward model that a critic of ppo begins as has nothing beside its weights (engine/tasks/rollouts/critic.cc).
void check_critic(const FittedStage& stage, const StagesByName& stages, Diagnostics& diagnostics) {
  const Value* ppo = stage.settings->find("ppo");
  const auto judge = stages.find(stage.reward_from);
  if (!ppo || stage.settings->get_string("method") != "ppo" || ppo->get_string("critic") != "reward") return;
  if (judge == stages.end() || !left_by_adapter(*judge->second->settings).any()) return;
  const std::string kind = judge->second->settings->find("adapter")->get_string("kind");
  diagnostics.add(
      place_of_setting(*stage.written, {"ppo.critic", "ppo"}, stage.written->pos),
      format("stage.{}: ppo.critic = \"reward\", and stage.{} trains its reward model with adapter.kind = \"{}\": no "
             "critic begins with what that leaves beside the weights",
             stage.name, judge->first, kind),
      "use ppo.critic = \"policy\", or another adapter there");
}

// Whether ranks can draw, or compare, with parts of that model; what ranks alone decide check_layout has said.
void check_drawing(const FittedStage& stage, const ModelShape& shape, const std::string& whose,
                   Diagnostics& diagnostics) {
  RolloutSettings rollout;
  if (const Value* settings = stage.settings->find("rollout"); settings && settings->is_table())
    rollout.tp = settings->get_integer("tp", 1), rollout.pp = settings->get_integer("pp", 1),
    rollout.ranks = settings->get_integer("ranks");
  if (!drawing_layout_problems(rollout, nullptr, stage.dims).empty()) return;
  for (const LayoutProblem& problem : drawing_layout_problems(rollout, &shape, stage.dims))
    diagnostics.add(place_of_setting(*stage.written, {"rollout.tp", "rollout.pp", "rollout"}, stage.written->pos),
                    "stage." + stage.name + ": " + whose + problem.what, problem.hint);
}

class FitCheck {
 public:
  FitCheck(const std::vector<FittedStage>& stages, const FileView& files, Diagnostics& diagnostics)
      : files_(files), diagnostics_(diagnostics) {
    for (const FittedStage& stage : stages) {
      by_name_.emplace(stage.name, &stage);
      const Value* adapter = stage.settings->find("adapter");
      if (adapter && adapter->is_table() && adapter->get_string("kind") != "none") train_adapters_.insert(stage.name);
    }
  }

  void check(const FittedStage& stage) {
    if (stage.settings->find("steps") && stage.settings->find("epochs")) check_steps(stage);
    check_milestones(stage);
    check_model(stage);
    if (trains(stage.kind) && stage.kind != "pretrain") check_length(stage, "sequence_length");
    if (!stage.teacher_from.empty() || !stage.teacher_folder.empty()) check_teacher(stage);
    check_critic(stage, by_name_, diagnostics_);
    if (stage.kind == "evaluate") check_evaluate(stage);
    if (stage.kind == "sample") check_answers(stage);
    if (stage.kind == "convert") check_taken_adapter(stage);
    if (stage.kind == "quantize" && has(stage, "tokens"))
      check_heldout(stage, {"inputs.tokens", "inputs"}, "measures the perplexity");
    if (stage.kind == "quantize" && stage.settings->get_number("perplexity_loss_max_pct") > 0 && !has(stage, "tokens"))
      add(stage, {"perplexity_loss_max_pct"}, "perplexity_loss_max_pct is set, but there is no held-out text",
          "give inputs.tokens, the artifact of a tokenize stage");
    if (stage.kind == "deploy" && !stage.settings->get_bool("require_token") &&
        !is_loopback(stage.settings->get_string("host")))
      add(stage, {"require_token", "host"},
          "require_token = false with host = \"" + stage.settings->get_string("host") + "\"",
          "a server that other machines reach needs a token");
  }

 private:
  void add(const FittedStage& stage, const std::vector<std::string>& keys, const std::string& what,
           const std::string& hint) {
    diagnostics_.add(place_of_setting(*stage.written, keys, stage.written->pos), "stage." + stage.name + ": " + what,
                     hint);
  }
  static bool has(const FittedStage& stage, const std::string& input) {
    return std::find(stage.inputs.begin(), stage.inputs.end(), input) != stage.inputs.end();
  }

  void check_steps(const FittedStage& stage) {
    if (configured_steps(*stage.settings) == 0 && stage.settings->get_number("epochs") == 0)
      add(stage, {"epochs", "steps"}, "steps = 0 and epochs = 0: nothing would be trained", "give one of them");
  }

  // How many there are has to be known before the training begins: every one is a variant of what is behind it.
  void check_milestones(const FittedStage& stage) {
    const std::int64_t every = stage.settings->get_integer(milestone_setting);
    if (every == 0) return;
    const std::int64_t steps = configured_steps(*stage.settings);
    const auto refuse = [&](const std::string& what, const std::string& hint) {
      add(stage, {milestone_setting, "steps"}, format("{} = {}{}", milestone_setting, every, what), hint);
    };
    if (steps == 0)
      refuse(", but its steps follow from the size of the data", "give steps instead of epochs");
    else if (every >= steps)
      refuse(format(" leaves no milestone before its last step, {}", steps), "use fewer steps in between, or 0");
    else if ((steps - 1) / every > milestones_max)
      refuse(format(" makes {} milestones, each with all weights", (steps - 1) / every),
             format("at most {}: use {} or more", milestones_max, (steps - 1) / milestones_max + 1));
  }

  // The stage that begins what this one takes its model from, itself where no stage does.
  const FittedStage* first_of(const FittedStage& stage) const {
    const FittedStage* at = &stage;
    for (;;) {
      const auto from = by_name_.find(at->model_from);
      if (from == by_name_.end()) return at;
      at = from->second;
    }
  }

  // Of the model that this stage takes: the pretraining that makes it says it, or config.json of its folder; tuning and
  // conversion keep the shape, but for what an adapter puts beside the weights. Nothing where that is not known.
  std::optional<ModelShape> model_of(const FittedStage& stage) {
    std::optional<ModelShape> shape = first_shape_of(stage);
    for (auto from = by_name_.find(stage.model_from); shape && from != by_name_.end();
         from = by_name_.find(from->second->model_from))
      if (const AdapterLeft left = adapter_left_of(*from->second); left.any()) left.put_into(*shape);
    return shape;
  }

  // What a stage itself puts beside the weights of its model, by its own adapter or one that it takes.
  AdapterLeft adapter_left_of(const FittedStage& stage) const {
    const auto from = by_name_.find(stage.adapter_from);
    return left_by_adapter(from == by_name_.end() ? *stage.settings : *from->second->settings);
  }

  // The shape that it had before any tuning.
  std::optional<ModelShape> first_shape_of(const FittedStage& stage) {
    const FittedStage* at = first_of(stage);
    if (!at->model_folder.empty()) return shape_in(at->model_folder);
    if (at == &stage || at->kind != "pretrain" || has(*at, "model")) return std::nullopt;
    const Value* model = at->settings->find("model");
    if (model == nullptr) return std::nullopt;
    Diagnostics reported;  // where it is trained
    const auto shape = resolve_shape(model_shape_fields().parse(*model, "", reported));
    return reported.empty() && shape.ok() ? std::optional(*shape) : std::nullopt;
  }

  std::optional<ModelShape> shape_in(const std::string& folder) {
    const auto known = imported_.find(folder);
    if (known != imported_.end()) return known->second;
    const std::string path = folder + "/config.json";
    const auto text = files_.read(path);
    const auto config = text.ok() ? parse_json(*text, path) : Result<Value>(text.error());
    const auto read = config.ok() ? read_hf_config(*config, path) : Result<HfConfig>(config.error());
    return imported_[folder] = read.ok() ? std::optional(read->shape) : std::nullopt;
  }

  // Longest sequence of that model.
  std::optional<std::int64_t> longest_of(const FittedStage& stage) {
    const auto model = model_of(stage);
    return model ? std::optional(model->max_position_embeddings) : std::nullopt;
  }

  // As the stage that would take the teacher for its model.
  FittedStage teacher_of(const FittedStage& stage) const {
    FittedStage teacher = stage;
    teacher.model_from = stage.teacher_from, teacher.model_folder = stage.teacher_folder;
    return teacher;
  }

  // What makes the tokenizer of a stage's model, and its text where that is a file. Nothing where that is not known.
  struct TokenizerSource {
    std::string name, text;
  };
  std::optional<TokenizerSource> tokenizer_of(const FittedStage& stage) {
    const FittedStage* at = first_of(stage);
    if (!at->model_folder.empty()) {
      const auto text = files_.read(at->model_folder + "/tokenizer.json");
      return text.ok() ? std::optional(TokenizerSource{at->model_folder, *text}) : std::nullopt;
    }
    const auto from = by_name_.find(at->text_from);
    if (at->kind != "pretrain" || from == by_name_.end() || has(*from->second, "tokenizer")) return std::nullopt;
    return TokenizerSource{"stage." + from->first, ""};
  }

  void check_teacher(const FittedStage& stage) {
    const FittedStage teacher = teacher_of(stage);
    const char* hint = "take a teacher with the tokenizer of the model that learns";
    const auto own = tokenizer_of(stage), other = tokenizer_of(teacher);
    const bool both = own && other && own->text.empty() == other->text.empty();
    if (both && (own->text.empty() ? own->name != other->name : own->text != other->text))
      return add(stage, {"inputs.teacher", "inputs"},
                 format("the teacher's tokenizer, that of {}, is not the model's, that of {}", other->name, own->name),
                 hint);
    const auto shape = model_of(stage), of_teacher = model_of(teacher);
    if (of_teacher) check_drawing(stage, *of_teacher, "the teacher: ", diagnostics_);
    if (!shape || !of_teacher || shape->vocab_size == 0 || of_teacher->vocab_size == 0) return;
    if (shape->vocab_size != of_teacher->vocab_size)
      add(stage, {"inputs.teacher", "inputs"},
          format("the teacher has a vocabulary of {} tokens, and the model one of {}", of_teacher->vocab_size,
                 shape->vocab_size),
          hint);
  }

  void check_adapter(const FittedStage& stage) {
    const Value* written = stage.written->find("adapter");
    if (written == nullptr || !written->is_table() || written->size() == 0 || written->find("kind") != nullptr) return;
    add(stage, {"adapter." + written->as_table().front().key},
        format("adapter.{} is set, and no adapter.kind: all weights would be trained", written->as_table().front().key),
        "add kind = \"lora\"");
  }

  // Of the artifact of a training one folder is the adapter, where it trains one in any of its variants.
  void check_taken_adapter(const FittedStage& stage) {
    const auto from = by_name_.find(stage.adapter_from);
    if (from == by_name_.end() || !trains(from->second->kind)) return;
    if (!train_adapters_.contains(from->first))
      return add(stage, {"inputs.adapter", "inputs"},
                 format("stage.{} trains all weights and leaves no adapter", from->first),
                 format("set adapter.kind there, or take its model: inputs = {{ model = \"@{}\" }}", from->first));
    if (left_by_adapter(*from->second->settings).bottleneck.size > 0)
      return add(
          stage, {"inputs.adapter", "inputs"},
          format("the adapter of stage.{} is a bottleneck, whose layers no weights can take the place of", from->first),
          format("take the model that it leaves, which has them: inputs = {{ model = \"@{}\" }}", from->first));
    if (stage.adapter_within != "adapter")
      add(stage, {"inputs.adapter", "inputs"},
          format("inputs.adapter names {} of stage.{}, and not its adapter",
                 stage.adapter_within.empty() ? "the model" : "the file " + stage.adapter_within, from->first),
          format("its adapter is the folder adapter of its artifact: \"@{}/adapter\"", from->first));
  }

  // What the engine, which knows the model by then, would refuse of a stage that takes it.
  void check_model(const FittedStage& stage) {
    check_adapter(stage);
    const auto shape = model_of(stage);
    const auto asked = shape ? engine_case_of_stage(stage.kind, *stage.settings, shape, stage.dims) : std::nullopt;
    if (!asked) return;
    check_features(stage.name, *asked, *stage.written, stage.written->pos, diagnostics_);
    ModelShape adapted = *shape;
    adapted.adapter = asked->adapter;
    if (const auto matrices = adapted_matrices(adapted); !matrices.ok()) {
      const std::string& what = matrices.error().what;  // it begins with the key
      add(stage, {what.substr(0, what.find(':')), "adapter"}, what, matrices.error().hint);
    }
    if (!trains(stage.kind) || stage.kind == "pretrain") return;  // which check_layout has looked at
    for (const LayoutProblem& problem :
         layout_problems({*shape, stage.dims, sequences_of_micro_batch(stage),
                          stage.settings->get_integer("sequence_length"), asked->cp_attention}))
      add(stage, {"parallel"}, problem.what, problem.hint);
    if (asked->draws_answers) check_drawing(stage, *shape, "", diagnostics_);
    if (stage.kind != "sft") return;  // align and reward choose no balance and no low precision
    const auto hold = [&](const std::vector<std::string>& keys, const Status& status) {
      if (!status.ok() && status.error().code != ErrorCode::unsupported)  // which check_features has said
        add(stage, keys, status.error().what, status.error().hint);
    };
    hold({"moe.balance", "moe"}, check_moe_settings(asked->moe, *shape, stage.dims));
    hold({"low_precision.recipe", "low_precision"}, check_low_precision(asked->low_precision, *shape, stage.dims, 0));
  }

  void check_length(const FittedStage& stage, const char* key) {
    const auto longest = longest_of(stage);
    const std::int64_t length = stage.settings->get_integer(key);
    if (!stage.written->find(key)) return;  // a default follows the model (preflight/sequence_lengths.h)
    if (longest && length > *longest)
      add(stage, {key},
          format("{} = {} is longer than the model's max_position_embeddings = {}", key, length, *longest),
          format("use at most {}", *longest) +
              (stage.model_from.empty() ? "" : ", or raise model.max_position_embeddings where it is trained"));
  }

  // Prompt and answer have to fit into the model's context.
  void check_answers(const FittedStage& stage) {
    const auto longest = longest_of(stage);
    const std::int64_t answer = stage.settings->get_integer("max_new_tokens");
    if (longest && answer >= *longest)
      add(stage, {"max_new_tokens"},
          format("max_new_tokens = {} leaves no room for a prompt in the model's max_position_embeddings = {}", answer,
                 *longest),
          "use shorter answers");
  }

  // Where the curate stage behind these tokens is set to hold nothing out there is nothing to measure on.
  void check_heldout(const FittedStage& stage, const std::vector<std::string>& keys, const std::string& does) {
    const FittedStage* at = &stage;
    for (int step = 0; step < 2; ++step) {
      const auto from = by_name_.find(at->text_from);
      if (from == by_name_.end()) return;
      at = from->second;
    }
    if (at->kind != "curate" || at->settings->get_integer("heldout_bytes") != 0 ||
        at->settings->get_number("heldout_fraction") > 0)
      return;
    add(stage, keys, does + " on held-out text, and stage." + at->name + " holds nothing out (heldout_bytes = 0)",
        "leave out heldout_bytes at stage." + at->name + " (a tenth of a small corpus is held out), or leave out " +
            (stage.kind == "evaluate" ? "the task bits_per_byte" : "the input tokens"));
  }

  // A reward model is measured as one, and nothing else is.
  void check_measured(const FittedStage& stage) {
    const auto parsed = evaluate_fields().parse(*stage.settings, "");
    const EvaluateSettings settings = parsed.ok() ? *parsed : EvaluateSettings();
    if (const Status fits = longhaul::check_evaluate(settings); !fits.ok())
      add(stage, {"tasks"}, fits.error().what, fits.error().hint);
    const auto from = by_name_.find(stage.model_from);
    if (from == by_name_.end()) return;
    const bool judges = from->second->kind == "reward";
    if (judges && !measures_rewards(settings))
      add(stage, {"inputs.model", "inputs"}, "stage." + from->first + " makes a reward model, which writes no text",
          "use tasks = [\"reward\"]");
    if (!judges && measures_rewards(settings))
      add(stage, {"tasks"}, "the task \"reward\" measures a reward model, and stage." + from->first + " makes none",
          "a language model's own preferences are the task \"preference\"");
  }

  void check_evaluate(const FittedStage& stage) {
    check_measured(stage);
    check_length(stage, "context_length");
    std::int64_t context = stage.settings->get_integer("context_length");
    if (context == 0) context = longest_of(stage).value_or(0);
    const std::int64_t stride = stage.settings->get_integer("stride");
    if (context > 0 && stride > context)
      add(stage, {"stride"}, format("stride = {} is longer than the window of {} tokens", stride, context),
          "every token has to be scored: use at most the window");
    for (const Value& task : stage.settings->find("tasks")->as_array()) {
      if (task.as_string() == "bits_per_byte")
        check_heldout(stage, {"tasks", "inputs.tokens", "inputs"}, "the task \"bits_per_byte\" measures");
      const auto& built_in = built_in_evaluations();
      // Of others the files are looked at, with the inputs (raw_inputs.h).
      if (std::find(built_in.begin(), built_in.end(), task.as_string()) == built_in.end()) continue;
      const std::string needed = task.as_string() == "bits_per_byte" ? "tokens" : "data";
      if (!has(stage, needed))
        add(stage, {"tasks"}, "the task \"" + task.as_string() + "\" needs the input '" + needed + "'",
            needed == "tokens" ? "give inputs.tokens, the artifact of a tokenize stage"
                               : "give inputs.data, a folder with the questions");
    }
  }

  const FileView& files_;
  Diagnostics& diagnostics_;
  std::unordered_map<std::string, std::optional<ModelShape>> imported_;  // by folder
  StagesByName by_name_;                                                 // the first variant: the shape is that of all
  std::unordered_set<std::string> train_adapters_;                       // stages of which a variant does
};

}  // namespace

void check_stages_fit(const std::vector<FittedStage>& stages, const FileView& files, Diagnostics& diagnostics) {
  FitCheck check(stages, files, diagnostics);
  for (const FittedStage& stage : stages) check.check(stage);
}

}  // namespace longhaul

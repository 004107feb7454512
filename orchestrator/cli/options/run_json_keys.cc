// What `status`, `checkpoints` and `report` print with --json, key by key.
#include "orchestrator/cli/options/json_keys.h"

namespace longhaul {
namespace {

// Of a run's status; `at` is where it stands: "", or "status." in a report.
void add_status_keys(const std::string& at, std::vector<JsonKey>& keys) {
  const std::vector<JsonKey> of_run = {
      {"file", "text", "longhaul status"},
      {"format", "integer", "of the status: 2"},
      {"run", "text", "folder of the run"},
      {"name", "text", "of the run: its folder's name"},
      {"workflow", "text", "name of its workflow"},
      {"state", "text", "running, succeeded, failed, cancelled"},
      {"created_ms", "integer", "when the run was made, in ms since 1970 UTC"},
      {"ended_ms", "integer or null", "when it ended; null: it has not"},
      {"epoch", "integer", "of its newest controller, from 1; 0: none has driven it yet"},
      {"driven", "yes/no", "a controller is at work now"},
      {"driver", "text", "who is to drive it on: here, lead, scrontab, job"},
      {"owner_uid", "integer", "who owns the run's folder; -1: not known"},
      {"driver_uid", "integer", "whose controller drove it last; -1: not known"},
      {"orders", "list", "the orders to stages, as they were accepted"},
      {"orders[].stage", "text", "id"},
      {"orders[].order", "text", "in words"},
      {"orders[].outcome", "text or null", "what became of it; null: it is on its way"},
      {"orders[].done", "yes/no", "it was obeyed"},
      {"requests", "list", "what was asked of the run, as it was answered"},
      {"requests[].what", "text", "cancel, resume, tell"},
      {"requests[].answer", "text", "the controller's"},
      {"requests[].accepted", "yes/no", "it was done, or handed on"},
      {"requests[].uid", "integer", "who asked; -1: not known"},
      {"requests[].at_ms", "integer", "when it was answered"},
      {"notes", "list", "sentences that people should know"},
  };
  const std::vector<JsonKey> of_stage = {
      {"id", "text", "stage, or stage/variant"},
      {"kind", "text", "its kind"},
      {"device", "text", "on what it computes: gpu, cpu"},
      {"device_why", "text", "what decided that, where the stage did not"},
      {"program", "text", "longhaul-engine; of a command its program, or those of its steps"},
      {"precision", "text", "bf16, f32, int8 weights, ...; left out where a stage has none"},
      {"state", "text", "waiting, ready, submitted, running, succeeded, cached, failed, cancelled, skipped"},
      {"attempts", "integer", "jobs that there were"},
      {"submitted_ms", "integer or null", "when the newest job was submitted; null: none was"},
      {"started_ms", "integer or null", "when it started; null: it has not"},
      {"ended_ms", "integer or null", "when the stage ended; null: it has not"},
      {"cause", "text or null", "why it failed, was skipped or cancelled; null: it was not"},
      {"why", "text", "it runs, and was not taken from an earlier run; left out where that is not known"},
      {"waits_for", "text", "the milestone that it waits for; left out otherwise"},
      {"held_up.by", "text", "what keeps its job from starting: limit, busy, unknown, queue; left out otherwise"},
      {"held_up.cause", "text", "the scheduler's message"},
      {"held_up.advice", "text", "what a person can do"},
      {"held_up.since_ms", "integer", "since when"},
      {"milestones", "list", "steps of those that it has published; left out where there are none"},
      {"folder", "text", "of the stage, below the run"},
      {"artifact", "text or null", "folder of its artifact, also of an earlier run; null: there is none yet"},
      {"artifact_uid", "integer", "whose that is, where it is of an earlier run"},
      {"job", "text or null", "the scheduler's id of the newest job; null: there was none"},
      {"trials", "list", "of a tune or search stage"},
      {"trials[].*", "table", "name, outcome, why; of a search settings, rung, steps and its figure, by name"},
      {"set_aside", "list", "results of trials that are damaged, by name"},
      {"figures.NAME", "number", "key figures that it has reported: figures.md"},
      {"newest.loss", "number or null", "while it runs, of the newest step; null: it is no number"},
      {"newest.heldout_loss", "number or null", "the newest of held-out data"},
      {"newest.tokens_per_s", "number or null", "of all ranks, in the newest step"},
      {"newest.mfu", "number or null", "of the newest step: share of the peak, 0 to 1"},
      {"progress.done", "number", "steps or other work that is done; `progress` is left out where none was reported"},
      {"progress.total", "number", "of all"},
      {"progress.unit", "text", "steps, documents, ..."},
      {"progress.rate", "number or null", "units per second; null: not known yet"},
      {"progress.eta_s", "number or null", "seconds that are left; null: not known, or none"},
  };
  for (const JsonKey& key : of_run) keys.push_back({at + key.path, key.type, key.meaning});
  keys.push_back({at + "stages", "list", "of each stage, in plan order"});
  for (const JsonKey& key : of_stage) keys.push_back({at + "stages[]." + key.path, key.type, key.meaning});
  keys.push_back({at + "stages[].figures", "table", "those"});
}

void add_goodput_keys(std::vector<JsonKey>& keys) {
  const std::vector<JsonKey> of_goodput = {
      {"goodput", "list", "of each training: where its time went (resiliency.md, \"Goodput\")"},
      {"goodput[].stage", "text", "id"},
      {"goodput[].effective", "number", "share of training in all, 0 to 1"},
      {"goodput[].total_s", "number", "from the first submission to the end, or until now"},
      {"goodput[].classes_s.NAME", "number", "seconds of each class of time"},
      {"goodput[].held.*", "table", "allocations that were held after a fault: jobs, held_s, longest_s, gpu_minutes"},
      {"goodput[].lost_steps", "integer", "done again after faults"},
      {"goodput[].faults", "list", "of each fault"},
      {"goodput[].faults[].*", "table", "fault, tier, at_ms, step, lost_steps, and the seconds that it cost by class"},
      {"goodput[].warnings", "list", "what the lead noticed"},
      {"goodput[].warnings[].*", "table", "kind, at_ms, attempt, over, and what it was"},
      {"goodput[].hosts", "list", "what was found wrong with hosts"},
      {"goodput[].hosts[].*", "table", "host, class, device, severity, what, times"},
  };
  keys.insert(keys.end(), of_goodput.begin(), of_goodput.end());
}

}  // namespace

JsonDocument status_json_document() {
  JsonDocument document{
      "status",
      "Format 2: what has not happened is null; a document without `file` is of format 1, where it "
      "was 0 or \"\". `run`, `submit`, `resume`, `cancel` and `tick` print the same at their end. Of several "
      "runs `status` prints what `runs` prints.",
      {}};
  add_status_keys("", document.keys);
  add_goodput_keys(document.keys);
  return document;
}

JsonDocument checkpoints_json_document() {
  return {"checkpoints",
          "Format 1.",
          {{"file", "text", "longhaul checkpoints"},
           {"format", "integer", "of this document"},
           {"run", "text", "folder of the run"},
           {"checkpoints", "list", "of each stage, the newest first"},
           {"checkpoints[].stage", "text", "id"},
           {"checkpoints[].step", "integer", "after which it was saved"},
           {"checkpoints[].path", "text", "its folder"},
           {"checkpoints[].saved_ms", "integer or null", "when it was whole, in ms since 1970 UTC; null: not known"},
           {"checkpoints[].bytes", "number", "of its files"},
           {"checkpoints[].loss", "number or null", "of the step; null: the checkpoint does not say it"},
           {"checkpoints[].heldout_loss", "number or null", "measured at this step; null: it was not"},
           {"checkpoints[].newest", "yes/no", "of its stage: `resume` goes on from it"},
           {"checkpoints[].pinned", "yes/no", "ordered, or pinned: no rule of retention removes it"}}};
}

JsonDocument report_json_document() {
  JsonDocument document{"report",
                        "The same as report.json. Format 2; a document without `file` is of format 1, whose `status` "
                        "had 0 and \"\" for what had not happened.",
                        {{"file", "text", "longhaul report"},
                         {"format", "integer", "of this document: 2"},
                         {"written", "text", "when, in UTC"},
                         {"software", "text", "that made the run"},
                         {"workflow_path", "text", "where the workflow came from"},
                         {"plan.*", "table", "the plan as it is frozen in resolved.toml"},
                         {"stages", "list", "what was collected of each stage, in plan order"},
                         {"stages[].id", "text", "stage, or stage/variant"},
                         {"stages[].curves.*", "list", "points [step, value] of each figure of its steps, by name"},
                         {"stages[].curves", "table", "those"},
                         {"stages[].samples", "list", "texts that the stage has shown"},
                         {"stages[].samples[].prompt", "text", "what was asked"},
                         {"stages[].samples[].text", "text", "what was answered"},
                         {"stages[].endpoint", "text", "address of a server that was left running"},
                         {"stages[].waterfall", "list", "of curate: documents before and after each step"},
                         {"stages[].waterfall[].*", "table", "of each step"},
                         {"stages[].tuning.*", "table", "of a tune or search stage: its candidates"},
                         {"stages[].warnings", "list", "sentences, the first 20"},
                         {"stages[].key", "text", "digest by which the artifact is found again"},
                         {"stages[].digest", "text", "of the artifact's manifest"},
                         {"stages[].software", "text", "that made the artifact"},
                         {"missing", "list", "what could not be read, in words"}}};
  add_status_keys("status.", document.keys);
  add_goodput_keys(document.keys);
  return document;
}

}  // namespace longhaul

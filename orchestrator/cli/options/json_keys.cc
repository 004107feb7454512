#include "orchestrator/cli/options/json_keys.h"

namespace longhaul {
namespace {

// Of a stage in a row of `runs`; `at` is where it stands.
void add_row_keys(const std::string& at, std::vector<JsonKey>& keys) {
  const std::vector<JsonKey> of_run = {
      {"runs_dir", "text", "folder of runs in which the run lies"},
      {"name", "text", "of the run: its folder's name"},
      {"workflow", "text", "name of its workflow"},
      {"state", "text", "of the run: running, succeeded, failed, cancelled; unreadable: see `problem`"},
      {"problem", "text", "why the run cannot be read; \"\" otherwise"},
      {"owner_uid", "integer", "who owns the run's folder"},
      {"created_ms", "integer", "when the run was made, in ms since 1970 UTC"},
      {"ended_ms", "integer or null", "when it ended; null: it has not"},
      {"driver", "text", "who is to drive it on: here, lead, scrontab, job"},
      {"driven", "yes/no", "a controller is at work now"},
      {"node_hours", "number", "nodes times hours of all jobs until now; of the stage alone where stages are listed"},
      {"figures.NAME", "number", "the figures that --figure asks for"},
      {"stage", "table or null", "the stage that says most about the run, or that is listed; null: there is none"},
  };
  const std::vector<JsonKey> of_stage = {
      {"id", "text", "stage, or stage/variant"},
      {"kind", "text", "its kind"},
      {"state", "text", "waiting, ready, submitted, running, succeeded, cached, failed, cancelled, skipped"},
      {"model", "text", "architecture and number of parameters, or the name of a model's folder; \"\": it has none"},
      {"attempts", "integer", "jobs that there were"},
      {"submitted_ms", "integer or null", "when the newest job was submitted"},
      {"started_ms", "integer or null", "when it started"},
      {"ended_ms", "integer or null", "when the stage ended"},
      {"job", "text", "the scheduler's id of the newest job"},
      {"cause", "text", "why it failed, was skipped or cancelled; the first 300 bytes"},
      {"step", "integer or null", "newest step that is known"},
      {"steps", "integer or null", "of all"},
      {"loss", "number or null", "of the newest step that says one; the held-out loss where only that is known"},
  };
  for (const JsonKey& key : of_run) keys.push_back({at + "." + key.path, key.type, key.meaning});
  for (const JsonKey& key : of_stage) keys.push_back({at + ".stage." + key.path, key.type, key.meaning});
}

JsonDocument runs_document() {
  JsonDocument document{"runs",
                        "Format 1. `stages` instead of `runs` where --stage is given. `longhaul status RUN RUN...` "
                        "prints the same document.",
                        {{"file", "text", "longhaul runs"}, {"format", "integer", "of this document"}}};
  document.keys.push_back({"runs", "list", "a run each"});
  add_row_keys("runs[]", document.keys);
  document.keys.push_back({"stages", "list", "a stage each, with its run"});
  add_row_keys("stages[]", document.keys);
  for (const JsonKey& key :
       {JsonKey{"index.runs", "integer", "runs that there are"},
        JsonKey{"index.read", "integer", "of them, read anew: they were not known, or had changed"},
        JsonKey{"index.looks", "integer", "system calls to find out that the others had not"}})
    document.keys.push_back(key);
  return document;
}

JsonDocument data_check_document() {
  return {"data check",
          "Format 1. Printed also where rows are refused, which ends with code 3.",
          {{"format", "integer", "of this document"},
           {"file", "text", "longhaul data check"},
           {"data", "text", "the file of rows, as it was given"},
           {"stage", "text or null", "kind of the stages that train on it: sft, align; null: no row has a form"},
           {"rows", "integer", "lines that are not blank"},
           {"accepted", "integer", "of them, rows that would be trained on"},
           {"refused", "integer", "the others"},
           {"pairs", "integer", "pairs of answers that the rows become; 0 of instructions"},
           {"forms", "list", "of the accepted rows, in the order of tuning-rows.md"},
           {"forms[].form", "text", "form of rows (tuning-rows.md)"},
           {"forms[].rows", "integer", "accepted rows of it"},
           {"lengths", "table or null", "of what is trained on, in tokens; null: no --model was given"},
           {"lengths.measured", "integer", "how many: one of a row, two of a pair"},
           {"lengths.min", "integer", "the shortest"},
           {"lengths.median", "integer", "half are no longer"},
           {"lengths.p90", "integer", "nine of ten are no longer"},
           {"lengths.p99", "integer", "99 of 100 are no longer"},
           {"lengths.max", "integer", "the longest"},
           {"lengths.tokens", "integer", "of all together"},
           {"lengths.trained", "integer", "of these, in the loss"},
           {"lengths.too_long", "integer", "longer than --sequence-length; 0 without"},
           {"problems", "list", "the first 20 of the refused rows"},
           {"problems[].line", "integer", "line of a refused row, from 1; the first 20 are listed"},
           {"problems[].what", "text", "what is wrong"},
           {"problems[].hint", "text", "what to do; \"\": nothing special"},
           {"shown", "list", "rows as they will be trained: the first three, of pairs both answers"},
           {"shown[].line", "integer", "line of a row as it will be trained; the first three rows"},
           {"shown[].form", "text", "its form"},
           {"shown[].answer", "text", "chosen or rejected of a pair; \"\" of a conversation"},
           {"shown[].tokens", "integer", "its length"},
           {"shown[].parts", "list", "runs of text that are all learnt, or all not"},
           {"shown[].parts[].text", "text", "in the form of the model's conversations; the first 2,000 bytes"},
           {"shown[].parts[].trained", "yes/no", "it is in the loss"},
           {"shown[].parts[].bytes_left_out", "integer", "of this part, behind the text"}}};
}

}  // namespace

const std::vector<JsonDocument>& json_documents() {
  static const std::vector<JsonDocument> documents = [] {
    std::vector<JsonDocument> all = {plan_json_document(),        runs_document(),        status_json_document(),
                                     checkpoints_json_document(), report_json_document(), data_check_document()};
    for (auto* more : {&command_json_documents, &site_json_documents})
      for (JsonDocument& document : more()) all.push_back(std::move(document));
    return all;
  }();
  return documents;
}

}  // namespace longhaul

// What the commands print with --json that ask about machines, faults and files: of tables with many keys, what each
// is.
#include "orchestrator/cli/options/json_keys.h"

namespace longhaul {
namespace {

JsonDocument named_document(const std::string& command, const std::string& when, std::vector<JsonKey> keys) {
  keys.insert(keys.begin(), {{"file", "text", "longhaul " + command}, {"format", "integer", "of this document: 1"}});
  return {command, when, std::move(keys)};
}

JsonDocument faults_json_document() {
  return named_document(
      "faults", "Format 1. `classes` without a run, `faults` of one.",
      {{"classes", "list", "faults.md, row by row"},
       {"classes[].*", "text", "class, severity, scope, group (whose budget pays), tier, accuses, meaning, remedy"},
       {"faults", "list", "of the run, by time"},
       {"faults[].ms", "integer", "when it was known, in ms since 1970 UTC"},
       {"faults[].stage", "text", "id"},
       {"faults[].attempt", "integer", "from 1"},
       {"faults[].by", "text", "who decided: lead, controller"},
       {"faults[].launched_ms", "integer", "when the ranks were started again; left out where they were not"},
       {"faults[].recovered.*", "number", "of the event `recovered` (events.md); left out where there was none"},
       {"faults[].NAME", "as it comes", "the fields of the event `fault` (events.md), as far as they are known"}});
}

JsonDocument gc_json_document() {
  return named_document("gc", "Format 1. With --delete what was deleted stands on standard error.",
                        {{"runs", "list", "a run each"},
                         {"runs[].name", "text", "of the run: its folder's name"},
                         {"runs[].state", "text", "running, succeeded, failed, cancelled"},
                         {"runs[].kept_because", "text", "why nothing of it goes; \"\": something may"},
                         {"runs[].bytes", "integer", "that it uses"},
                         {"runs[].files", "integer", "that it has, folders counted"},
                         {"runs[].bytes_per_day", "number", "by which it grows"},
                         {"runs[].files_per_day", "number", "by which it grows"},
                         {"runs[].checkpoints_at_most", "integer", "bytes of the checkpoints that it will keep"},
                         {"runs[].garbage", "list", "what of it may go"},
                         {"runs[].garbage[].*", "as it comes", "path, stage, why, bytes, files"},
                         {"index", "list", "entries of the artifact index that may go"},
                         {"index[].*", "as it comes", "path, stage, why, bytes, files"},
                         {"use.bytes", "integer", "of all runs"},
                         {"use.files", "integer", "of all runs"},
                         {"garbage.bytes", "integer", "that may go"},
                         {"garbage.files", "integer", "that may go"},
                         {"free_bytes", "integer", "on the file system"},
                         {"free_files", "integer", "on the file system"},
                         {"bytes_per_day", "number", "by which all runs grow"},
                         {"unreadable", "list", "folders that could not be read"}});
}

std::vector<JsonDocument> site_documents() {
  return {named_document("sites", "Format 1. `sites` without a NAME, the other keys with one.",
                         {{"sites", "list", "those that can be read"},
                          {"sites[].name", "text", "as --site takes it"},
                          {"sites[].scheduler", "text", "local, slurm"},
                          {"sites[].description", "text", "in a line"},
                          {"name", "text", "of the site"},
                          {"files", "list", "its file, and those that it inherits from"},
                          {"values", "list", "every value, defaults included"},
                          {"values[].key", "text", "site.md"},
                          {"values[].value", "as it comes", "the value"},
                          {"values[].value.*", "as it comes", "where the value is a table"},
                          {"values[].site", "text", "whose file says it; default: none does"},
                          {"values[].source", "text", "where it was read; left out of defaults"},
                          {"values[].read_on", "text", "when; left out where that is not known"},
                          {"values[].verified", "yes/no", "somebody has checked it; left out of defaults"}}),
          named_document("doctor", "Format 1.", {{"NAME", "text", "what `doctor` prints in that row, blanks as _"}}),
          named_document("doctor --site", "Format 1.",
                         {{"site", "text", "its name"},
                          {"compared", "text", "with what, and how; or why not"},
                          {"findings", "list", "values that the cluster contradicts, or that nobody has checked"},
                          {"findings[].*", "text", "kind (change, ask), key, said, found, remedy, place"},
                          {"notes", "list", "sentences"}}),
          named_document("doctor --site --job", "Format 1.",
                         {{"site", "text", "its name"},
                          {"slurm", "text", "release; \"\": not known"},
                          {"written_to", "text", "the site file; \"\": it could not be written"},
                          {"facts", "list", "what the job has found"},
                          {"facts[].*", "as it comes",
                           "name, answer, detail; key and value of the site file where it says one"}})};
}

JsonDocument simulate_json_document() {
  return named_document(
      "simulate",
      "Format 1. An estimate is `mean`, `half_width_95` of it, and the bounds `low_5` and `high_95` of trials.",
      {{"name", "text", "of the scenario"},
       {"description", "text", "the scenario's"},
       {"seed", "integer", "of the faults"},
       {"trials", "integer", "runs of which means are taken"},
       {"hosts", "integer", "of the training"},
       {"length_s", "number", "simulated"},
       {"mtbf_s", "number", "of the whole machine"},
       {"effective.*", "number", "an estimate: share of the time that was training, 0 to 1"},
       {"shares.*", "number", "an estimate for each class of time"},
       {"tiers.*", "number", "restarts of each tier, in the mean"},
       {"faults.*", "number", "an estimate: how many"},
       {"standstills.*", "number", "an estimate: how many waited for people"},
       {"lost_steps.*", "number", "an estimate"},
       {"hosts_left.*", "number", "an estimate: hosts that were given up"},
       {"operators.*", "number", "an estimate: how often people had to act"},
       {"interval_s.*", "number", "an estimate: between saves"},
       {"young_interval_s", "number", "Young's formula"},
       {"daly_interval_s", "number", "Daly's formula"},
       {"costs", "list", "dearer and cheaper recoveries"},
       {"costs[].*", "number", "value (factor), effective and difference (estimates)"},
       {"intervals", "list", "other intervals between saves"},
       {"intervals[].*", "number", "the same"},
       {"spares", "list", "other numbers of spare hosts"},
       {"spares[].*", "number", "the same"},
       {"expectations", "list", "published figures"},
       {"expectations[].*", "as it comes",
        "name, figure, published_pct, at_least, within_points, simulated_pct (an estimate), met, source"},
       {"assumed", "list", "latencies that nobody has measured"},
       {"measured.*", "text", "by what each of the others was measured"},
       {"sources", "list", "of the scenario"}});
}

std::vector<JsonDocument> question_documents() {
  return {named_document("serving", "Format 1. A server is its layout with what is predicted of it.",
                         {{"gpus", "integer", "that there are"},
                          {"gpu", "text", "their type"},
                          {"percentile", "number", "for which the limits of latency hold"},
                          {"reason", "text", "why the winner"},
                          {"winner.*", "as it comes", "a server, with tokens_per_second_low and _high"},
                          {"from", "text", "what the figures are taken from"},
                          {"memory_bytes.*", "number", "of the winner's GPU, by use"},
                          {"why_not", "list", "the best servers of other kinds"},
                          {"why_not[].*", "as it comes", "a server, with name, why, allowed"},
                          {"front", "list", "servers that none other beats in rate and latency"},
                          {"front[].*", "as it comes", "a server"},
                          {"notes", "list", "sentences"},
                          {"considered", "integer", "servers that were looked at"},
                          {"fitting", "integer", "of them, those that hold the limits"},
                          {"toml", "text", "keys of a deploy stage"}}),
          named_document(
              "size", "Format 1.",
              {{"found", "text", "what was asked for: parameters, tokens, days, gpus"},
               {"parameters", "number", "of the model"},
               {"tokens", "number", "of the training"},
               {"days", "number", "that it takes"},
               {"gpus", "integer", "that it uses"},
               {"tflops", "number", "of each GPU"},
               {"gpu_hours", "number", "of all"},
               {"flops", "number", "of the training"},
               {"rate_is", "text", "where tflops is from"},
               {"mfu", "number", "share of the peak; left out where that is not known"},
               {"forecast_tflops", "number", "of each GPU, as predicted; left out where nothing is"},
               {"device", "text", "type of the GPUs; left out where none was named"},
               {"steps", "integer", "of the optimizer"},
               {"global_batch_size", "integer", "samples of a step"},
               {"sequence_length", "integer", "tokens of a sample"},
               {"model.*", "as it comes", "keys of the model: stage-kinds.md"},
               {"loss", "number", "expected at the end"},
               {"loss_by", "text", "the law that says so"},
               {"least_loss.*", "number", "loss, parameters, tokens: the best for as many operations"},
               {"proxy.*", "as it comes",
                "where one was asked for: the narrower model to tune instead, and what its settings are multiplied by"},
               {"layout.*", "as it comes", "the fastest layout, step_seconds with bounds, memory_bytes; or left out"},
               {"notes", "list", "sentences"},
               {"toml", "text", "keys of a pretrain stage"}})};
}

}  // namespace

std::vector<JsonDocument> site_json_documents() {
  std::vector<JsonDocument> all = {faults_json_document(), gc_json_document()};
  for (JsonDocument& one : site_documents()) all.push_back(std::move(one));
  all.push_back(simulate_json_document());
  for (JsonDocument& one : question_documents()) all.push_back(std::move(one));
  return all;
}

}  // namespace longhaul

// [notify] of a site file: where messages about a run go. The address of a webhook is a secret (who has it may post),
// so it never stands in a site file: only the name of the file or of the variable that holds it.
#pragma once

#include <string>
#include <vector>

#include "contracts/schema/field_table.h"

namespace longhaul {

struct NotifyConfig {
  std::string format = "json";  // a name of message_formats()
  std::vector<std::string> events = {"run_started",   "stage_failed", "stage_retried",
                                     "run_completed", "no_progress",  "stage_held_up"};
  std::string url_file;    // holds the address; mode 0600
  std::string url_env;     // or: the variable that holds it
  std::string token_file;  // optional: a bearer token; mode 0600
  std::string token_env;
  std::string ca_file;              // certificates to trust instead of the system's
  Seconds timeout{10};              // of one try
  int tries = 8;                    // of one message, with growing pauses; then it is kept and said in status
  Seconds no_progress_after{1800};  // a running stage that wrote nothing for so long; 0: never

  // Of the site, not of this table: whether a job may send, or leaves it to the next command on a login node.
  bool compute_nodes_online = true;

  bool enabled() const { return !url_file.empty() || !url_env.empty(); }
  bool wants(const std::string& event) const;
};
const FieldTable<NotifyConfig>& notify_fields();

// What the field table cannot say: two sources of one secret, an unknown event.
void check_notify(const NotifyConfig& config, const SourcePos& where, Diagnostics& diagnostics);

// All events there are.
const std::vector<std::string>& notify_events();

}  // namespace longhaul

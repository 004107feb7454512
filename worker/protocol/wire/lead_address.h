// Where the lead of an attempt listens: a file that agents read when they start, and again when they have lost it. The
// secret lies beside it in a file of its own (mode 0600), made for this attempt alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "worker/protocol/wire/lead_epoch.h"

namespace longhaul {

struct LeadAddress {
  static constexpr int format = 1;
  std::string attempt_key;
  std::int64_t epoch = 1;  // of leads of this attempt
  std::string host;        // as agents reach it
  int port = 0;
  // Where the host may be reached besides, the likeliest first: for agents whose name service does not know it.
  std::vector<std::string> addresses = {};

  LeadEpoch lead_epoch() const { return {epoch, host}; }
};

std::string lead_address_path(const std::string& attempt_dir, int restarts);
// Of the lead in waiting, beside the lead's.
std::string standby_address_path(const std::string& lead_address);
std::string lead_secret_path(const std::string& attempt_dir, int restarts);
// What the agent of a node says, and the lead that it may have started.
std::string agent_log_path(const std::string& attempt_dir, const std::string& host);
Status write_lead_address(const std::string& path, const LeadAddress& address);  // beside, and renamed
Result<LeadAddress> read_lead_address(const std::string& path);                  // not_found, corrupt

// A new one, readable by its owner alone, written beside and renamed. One that is there is replaced.
Result<std::string> make_lead_secret(const std::string& path);
// invalid_input where others may read it.
Result<std::string> read_lead_secret(const std::string& path);

}  // namespace longhaul

// To whom an agent without a lead turns next. By the file, where that names a later lead by now. Once more where it
// was: a lead that has just taken over sends its agents away, and a broken connection may be all that was lost. Then by
// the file; every other time a standby, once a lead is lost: in turn the one that was announced to us, and the one that
// the lead named last, for it may have had no time to inform us. Pure.
#pragma once

#include <functional>
#include <string>

#include "worker/agent/leads/lead_files.h"
#include "worker/protocol/wire/lead_address.h"

namespace longhaul {

class LeadChoice {
 public:
  // What the files say; the newest epoch that has led; whether the address of a host is known; whether a lead was lost
  // some time ago.
  Result<LeadAddress> next(const LeadFilesSeen& seen, const LeadEpoch& epoch,
                           const std::function<bool(const std::string& host)>& is_known, bool lost);
  const LeadAddress& asked() const { return asked_; }  // whom we have turned to last
  bool asks_a_standby() const { return asks_a_standby_; }

  void lost_connection() { again_ = true; }  // the same address first
  void refused() { again_ = false; }         // another may lead

  // Of another agent, or this one; `address` as numbers, where the lead has seen it; "": it did not say.
  void know_standby(const std::string& host, int port, const std::string& address);
  bool knows_a_standby() const { return standby_port_ > 0; }
  // Where `host` is, as the lead has said it; "": it has not.
  std::string said_address_of(const std::string& host) const;

 private:
  LeadAddress asked_;
  bool again_ = false;
  std::string standby_host_, standby_address_;
  int standby_port_ = 0;
  bool asks_a_standby_ = false, asks_by_file_ = true;  // of the newest try
};

}  // namespace longhaul

// Whether another lead has followed this one, as the shared folder of the attempt shows it. Pure.
//
// A lead that takes over writes its address, with a later epoch (lead_epoch.h), in place of the former one; when it is
// done it writes the record of the job's end, and only then removes the address. So an address that is not there says
// that another lead is done only beside a record: without one somebody else has removed the file, and this lead, whose
// agents and standby know the way without it, leads on and writes it again.
#pragma once

#include <cstdint>

#include "base/error/result.h"
#include "worker/protocol/wire/lead_address.h"

namespace longhaul {

enum class Succession {
  leads,         // nothing speaks against it; also where the file cannot be read
  followed,      // by a later epoch, or by one that has ended the job
  address_gone,  // leads, and nobody finds it by its file
};
// `recorded`: whether the job's record is there, looked for after the address was read.
Succession succession_of(const Result<LeadAddress>& address, const LeadEpoch& own_epoch, bool recorded);

}  // namespace longhaul

#include "worker/protocol/wire/lead_epoch.h"

#include "base/text/text.h"

namespace longhaul {

std::string LeadEpoch::text() const {
  return host.empty() ? std::to_string(number) : format("{} ({})", number, host);
}

Value lead_epoch_to_value(const LeadEpoch& epoch) {
  Value value = Value::make_table();
  value.set("number", epoch.number);
  value.set("host", epoch.host);
  return value;
}

LeadEpoch lead_epoch_of(const Value& value) {
  if (!value.is_table()) return {0, {}};
  return {value.get_integer("number"), value.get_string("host")};
}

}  // namespace longhaul

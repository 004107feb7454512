#include "engine/data/samples/text_room.h"

#include "base/text/text.h"

namespace longhaul {

std::string TextRoom::text() const {
  std::string said = std::to_string(length);
  if (before > 0) said += format(", of which {} stand before every text", before);
  if (answer > 0) said += format("{} {} are kept for the answer", before > 0 ? " and" : ", of which", answer);
  return said;
}

}  // namespace longhaul

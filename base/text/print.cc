#include "base/text/print.h"

#include "base/text/visible_text.h"

namespace longhaul {

bool print_bytes(std::FILE* stream, std::string_view bytes) {
  return std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
}

bool print_text(std::FILE* stream, std::string_view text) {
  return print_bytes(stream, visible(text));
}

}  // namespace longhaul

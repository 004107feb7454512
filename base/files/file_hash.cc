#include "base/files/file_hash.h"

#include "base/digest/hash.h"
#include "base/files/files.h"

namespace longhaul {

Result<std::string> hash_file(const std::string& path) {
  LH_TRY(const MappedFile file, MappedFile::open(path));
  return xxh3_128_hex(file.view());
}

}  // namespace longhaul

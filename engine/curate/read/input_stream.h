// The bytes of an input as they come, unpacked. How a file is packed is judged by its first bytes, not by its name.
#pragma once

#include <memory>
#include <string>

#include "base/error/result.h"
#include "base/files/files.h"

namespace longhaul {

// One packing: gzip, bzip2, xz, zstd.
class Unpacker {
 public:
  struct Piece {
    const char* in = nullptr;  // what is left of the packed bytes
    std::size_t in_size = 0;
    char* out = nullptr;  // where the next unpacked bytes go
    std::size_t out_size = 0;
  };
  virtual ~Unpacker() = default;
  // Unpacks what it can; moves `piece` on. "" or what is wrong with the bytes.
  virtual std::string unpack(Piece& piece) = 0;
  virtual bool is_whole() const = 0;  // would the file be whole if it ended here?
};

// Which packings this build knows: ".gz" always, ".bz2", ".xz", ".zst" where their libraries were found.
bool is_packing_built_in(const std::string& ending);

class InputStream {
 public:
  // Errors: the file cannot be read, or is packed in a way that this build has no library for.
  static Result<InputStream> open(const std::string& path);

  // Up to `size` more unpacked bytes; 0 at the end, and where the file is cut or damaged (damage() says so then: what
  // came before is whole). Errors: the disk.
  Result<std::size_t> read(char* to, std::size_t size);

  // "" or how the file is broken: "the file ends within its packed data".
  const std::string& damage() const { return damage_; }

 private:
  InputStream() = default;
  Status fill();

  std::string path_;
  FileDescriptor fd_;
  std::unique_ptr<Unpacker> unpacker_;  // null: not packed
  std::string packed_;                  // read, and not unpacked from `at_` on
  std::size_t at_ = 0;
  bool file_ended_ = false;
  std::string damage_;
};

}  // namespace longhaul

// Room engine/interop
// File formats of other projects: safetensors, Hugging Face's model files in parts, TensorBoard's event files.
// safetensors.h reads and writes one file; safetensors_model_writer.h a model of several; tensorboard.h curves.
// It knows formats and no model: names and shapes come from the caller (engine/model/store).
//
// safetensors files: named tensors with a JSON header, read in place and written without holding them in memory.
//
//   u64 N (little-endian) | N bytes of JSON, may end in spaces | data
//   JSON: {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {"k": "v"}}
//   Offsets count from the start of the data; tensors cover it without holes or overlaps, C order, little-endian.
//
// Reading is strict: header at most 100,000,000 bytes, every number in bounds, sizes as dtype and shape say, nothing
// missing, nothing left over and no key twice. The error names the file and what is missing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "base/files/files.h"

namespace longhaul {

enum class SafetensorType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean, f8_e4m3 };
const char* to_string(SafetensorType type);  // "F64", "BF16", ... as in the file
std::size_t element_bytes(SafetensorType type);
Result<SafetensorType> parse_safetensor_type(std::string_view name);

struct SafetensorInfo {
  std::string name;
  SafetensorType type = SafetensorType::f32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::int64_t elements() const;
};

struct SafetensorView {
  SafetensorType type = SafetensorType::f32;
  std::vector<std::int64_t> shape;
  std::string_view bytes;  // into the mapped file; alignment is not promised
  std::int64_t elements() const;
};

// Any floating type of 16 bits or more to f32, exactly (f64 is rounded). Sizes must agree; ErrorCode::unsupported for
// integers, and for F8_E4M3, whose numbers are weights only together with their scales.
Status convert_to_f32(const SafetensorView& tensor, std::span<float> out);

// One file, mapped. Views live as long as it does. Thread-safe.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  const std::string& path() const { return path_; }
  const std::map<std::string, SafetensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // ErrorCode::not_found names the file and the nearest name.
  Result<SafetensorView> find(const std::string& name) const;

 private:
  SafetensorsFile(std::string path, MappedFile file) : path_(std::move(path)), file_(std::move(file)) {}
  Status read_header();

  std::string path_;
  MappedFile file_;
  std::map<std::string, SafetensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

// A model's weights: FOLDER/model.safetensors, or the shards that FOLDER/model.safetensors.index.json names
// (engine/interop/weight_files.h).
class SafetensorsModel {
 public:
  static Result<SafetensorsModel> open(const std::string& folder);
  std::vector<std::string> names() const;
  Result<SafetensorView> find(const std::string& name) const;
  // The two are one tensor: each is found under either's name. An error where the files hold both, and they differ.
  Status tie(const std::string& name, const std::string& other);

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;
  std::map<std::string, std::string> other_names_;
};

// Writes beside `path`, syncs, renames in finish(). Tensors may be written in any order and in parts; the file is laid
// out by falling element size, then by name, so that every tensor is aligned to its element.
class SafetensorsWriter {
 public:
  // Names must be unique and not "__metadata__".
  static Result<SafetensorsWriter> create(const std::string& path, std::vector<SafetensorInfo> tensors,
                                          const std::map<std::string, std::string>& metadata = {});
  ~SafetensorsWriter();  // an unfinished file is removed
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;

  // Bytes [offset, offset + bytes.size()) of a tensor; each byte once.
  Status write(const std::string& name, std::string_view bytes, std::int64_t offset = 0);
  // ErrorCode::internal, and no file, if a tensor was not written whole.
  Status finish();

 private:
  struct Place {
    std::int64_t begin = 0, bytes = 0, written = 0;
  };
  SafetensorsWriter() = default;
  std::string path_, temporary_;
  FileDescriptor file_;
  std::map<std::string, Place> places_;
};

}  // namespace longhaul

#include "engine/interop/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/error/diagnostics.h"
#include "base/files/owned_files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/interop/json_keys.h"
#include "engine/interop/weight_files.h"

namespace longhaul {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian and read in place");

constexpr std::uint64_t header_bytes_max = 100'000'000;
constexpr std::int64_t elements_max = std::int64_t{1} << 46;

struct TypeRow {
  SafetensorType type;
  const char* name;
  std::size_t bytes;
};
constexpr TypeRow type_rows[] = {
    {SafetensorType::f64, "F64", 8},      {SafetensorType::f32, "F32", 4},         {SafetensorType::f16, "F16", 2},
    {SafetensorType::bf16, "BF16", 2},    {SafetensorType::i64, "I64", 8},         {SafetensorType::i32, "I32", 4},
    {SafetensorType::i16, "I16", 2},      {SafetensorType::i8, "I8", 1},           {SafetensorType::u8, "U8", 1},
    {SafetensorType::boolean, "BOOL", 1}, {SafetensorType::f8_e4m3, "F8_E4M3", 1},
};
const TypeRow& row_of(SafetensorType type) {
  return type_rows[static_cast<std::size_t>(type)];
}

Error broken(const std::string& path, std::string what) {
  return make_error(ErrorCode::corrupt, format("{}: {}", path, what), "copy or download the file again");
}

// Product of a shape; nullopt if negative or beyond any file.
std::optional<std::int64_t> product(std::span<const std::int64_t> shape) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 0 || (dim > 0 && elements > elements_max / dim)) return std::nullopt;
    elements *= dim;
  }
  return elements;
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16;
  const std::uint32_t exponent = half >> 10 & 31U, fraction = half & 0x3FFU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | fraction << 13);
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

}  // namespace

const char* to_string(SafetensorType type) {
  return row_of(type).name;
}
std::size_t element_bytes(SafetensorType type) {
  return row_of(type).bytes;
}
Result<SafetensorType> parse_safetensor_type(std::string_view name) {
  for (const TypeRow& row : type_rows)
    if (name == row.name) return row.type;
  return make_error(ErrorCode::unsupported, format("dtype {} is not supported", name),
                    "F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL and F8_E4M3 are");
}

std::int64_t SafetensorInfo::elements() const {
  return product(shape).value_or(-1);
}
std::int64_t SafetensorView::elements() const {
  return product(shape).value_or(-1);
}

Status convert_to_f32(const SafetensorView& tensor, std::span<float> out) {
  const char* from = tensor.bytes.data();
  if (out.size() * element_bytes(tensor.type) != tensor.bytes.size())
    return make_error(ErrorCode::internal,
                      format("{} elements wanted, the tensor has {}", out.size(), tensor.elements()));
  const auto each = [&]<class T>(T, auto convert) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      T value;
      std::memcpy(&value, from + i * sizeof value, sizeof value);
      out[i] = convert(value);
    }
    return Status();
  };
  switch (tensor.type) {
    case SafetensorType::f32:
      if (!out.empty()) std::memcpy(out.data(), from, tensor.bytes.size());
      return {};
    case SafetensorType::f64: return each(double{}, [](double v) { return static_cast<float>(v); });
    case SafetensorType::f16: return each(std::uint16_t{}, half_to_float);
    case SafetensorType::bf16:
      return each(std::uint16_t{}, [](std::uint16_t v) { return std::bit_cast<float>(std::uint32_t{v} << 16); });
    default: break;
  }
  return make_error(ErrorCode::unsupported,
                    format("a tensor of {} is not a weight in floating point", to_string(tensor.type)));
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  LH_TRY(MappedFile mapped, MappedFile::open(path));
  SafetensorsFile file(path, std::move(mapped));
  LH_CHECK(file.read_header());
  return file;
}

namespace {

struct HeaderEntry {
  std::string name;
  SafetensorView view;
  std::uint64_t begin = 0, end = 0;
};

// One tensor's entry; checks all that can be checked without the others.
Result<HeaderEntry> read_entry(const std::string& path, const std::string& name, const Value& entry) {
  const auto wrong = [&](std::string what) { return broken(path, format("tensor '{}': {}", name, what)); };
  const Value* type = entry.find("dtype");
  const Value* shape = entry.find("shape");
  const Value* offsets = entry.find("data_offsets");
  if (!type || !type->is_string()) return wrong("dtype is missing");
  if (!shape || !shape->is_array()) return wrong("shape is missing");
  if (!offsets || !offsets->is_array() || offsets->size() != 2)
    return wrong("data_offsets is missing or not two numbers");
  HeaderEntry read{name, {}, 0, 0};
  LH_TRY(read.view.type, parse_safetensor_type(type->as_string()).with_context(format("{}: tensor '{}'", path, name)));
  for (const Value& dim : shape->as_array()) {
    if (!dim.is_integer()) return wrong("shape is not a list of whole numbers");
    read.view.shape.push_back(dim.as_integer());
  }
  const auto elements = product(read.view.shape);
  if (!elements) return wrong("shape has a negative or absurd size");
  for (const Value& offset : offsets->as_array())
    if (!offset.is_integer() || offset.as_integer() < 0) return wrong("data_offsets are not whole numbers from 0");
  read.begin = static_cast<std::uint64_t>(offsets->as_array()[0].as_integer());
  read.end = static_cast<std::uint64_t>(offsets->as_array()[1].as_integer());
  const std::uint64_t wanted = static_cast<std::uint64_t>(*elements) * element_bytes(read.view.type);
  if (read.end < read.begin || read.end - read.begin != wanted)
    return wrong(
        format("data_offsets [{}, {}) do not hold the {} bytes of its dtype and shape", read.begin, read.end, wanted));
  return read;
}

}  // namespace

Status SafetensorsFile::read_header() {
  const std::string_view all = file_.view();
  if (all.size() < 8) return broken(path_, format("is cut off: {} bytes, the header's length alone has 8", all.size()));
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, all.data(), 8);
  if (header_bytes > header_bytes_max)
    return broken(path_, format("is not a safetensors file: a header of {} bytes (at most {} are allowed)",
                                header_bytes, header_bytes_max));
  if (header_bytes > all.size() - 8)
    return broken(path_, format("is cut off in the header: {} of {} bytes are there", all.size() - 8, header_bytes));
  const std::string_view header = all.substr(8, header_bytes);
  if (header.empty() || header[0] != '{')
    return broken(path_, "is not a safetensors file: the header is not a JSON object");
  Result<Value> json = parse_json(header, path_);
  if (!json.ok()) return json.error().with_context("header of a safetensors file");
  if (!json->is_table()) return broken(path_, "the header is not a JSON object");
  if (const auto key = doubled_json_key(header))
    return broken(path_, format("the key '{}' stands twice in the header", *key));

  const std::string_view data = all.substr(8 + header_bytes);
  std::vector<HeaderEntry> entries;
  for (const ValueMember& member : json->as_table()) {
    if (member.key == "__metadata__") {
      if (!member.value.is_table()) return broken(path_, "__metadata__ is not an object");
      for (const ValueMember& fact : member.value.as_table()) {
        if (!fact.value.is_string()) return broken(path_, format("__metadata__.{} is not a text", fact.key));
        metadata_[fact.key] = fact.value.as_string();
      }
      continue;
    }
    LH_TRY(HeaderEntry entry, read_entry(path_, member.key, member.value));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  std::uint64_t covered = 0;
  for (HeaderEntry& entry : entries) {
    if (entry.begin != covered)
      return broken(path_, format("tensor '{}' begins at byte {} of the data, {} was expected: {}", entry.name,
                                  entry.begin, covered, entry.begin < covered ? "tensors overlap" : "a hole"));
    covered = entry.end;
    if (entry.end > data.size())
      return broken(path_, format("is cut off in tensor '{}': the data has {} bytes, the tensor ends at {}", entry.name,
                                  data.size(), entry.end));
    entry.view.bytes = data.substr(entry.begin, entry.end - entry.begin);
    tensors_.emplace(std::move(entry.name), std::move(entry.view));
  }
  if (covered != data.size())
    return broken(path_, format("has {} bytes that belong to no tensor", data.size() - covered));
  return {};
}

Result<SafetensorView> SafetensorsFile::find(const std::string& name) const {
  const auto at = tensors_.find(name);
  if (at != tensors_.end()) return at->second;
  std::vector<std::string> names;
  for (const auto& [known, view] : tensors_) names.push_back(known);
  const std::string nearest = nearest_word(name, names);
  return make_error(ErrorCode::not_found, format("{}: has no tensor '{}'", path_, name),
                    nearest.empty() ? "" : format("the nearest name is '{}'", nearest));
}

Result<SafetensorsModel> SafetensorsModel::open(const std::string& folder) {
  LH_TRY(WeightFiles found, find_weight_files(folder));
  SafetensorsModel model;
  model.files_ = std::move(found.files);
  model.file_of_ = std::move(found.file_of);
  return model;
}

Status SafetensorsModel::tie(const std::string& name, const std::string& other) {
  const auto here = file_of_.find(name), there = file_of_.find(other);
  if (here == file_of_.end() && there != file_of_.end()) other_names_[name] = other;
  if (here == file_of_.end() || there == file_of_.end()) return {};
  LH_TRY(const SafetensorView a, files_[here->second].find(name));
  LH_TRY(const SafetensorView b, files_[there->second].find(other));
  if (a.type == b.type && a.shape == b.shape && a.bytes == b.bytes) return {};
  return make_error(ErrorCode::invalid_input,
                    format("config.json ties {} to {}, but the files hold different weights for the two", other, name),
                    "set tie_word_embeddings to false, or leave one of the two out");
}

std::vector<std::string> SafetensorsModel::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

Result<SafetensorView> SafetensorsModel::find(const std::string& wanted) const {
  const auto tied = other_names_.find(wanted);
  const std::string& name = tied == other_names_.end() ? wanted : tied->second;
  const auto at = file_of_.find(name);
  if (at != file_of_.end()) return files_[at->second].find(name);
  const std::string nearest = nearest_word(name, names());
  return make_error(ErrorCode::not_found, format("the model has no tensor '{}'", name),
                    nearest.empty() ? "" : format("the nearest name is '{}'", nearest));
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_.valid()) ::unlink(temporary_.c_str());
}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;

namespace {

Status write_all_at(int fd, std::string_view bytes, std::int64_t at, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(ErrorCode::io, format("cannot write {}", path), errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
    at += n;
  }
  return {};
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path, std::vector<SafetensorInfo> tensors,
                                                    const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorInfo& a, const SafetensorInfo& b) {
    const std::size_t x = element_bytes(a.type), y = element_bytes(b.type);
    return x != y ? x > y : a.name < b.name;
  });
  SafetensorsWriter writer;
  ValueTable header;
  if (!metadata.empty()) {
    Value facts = Value::make_table();
    for (const auto& [key, value] : metadata) facts.set(key, value);
    header.push_back({"__metadata__", std::move(facts), {}});
  }
  std::int64_t at = 0;
  for (const SafetensorInfo& tensor : tensors) {
    if (tensor.elements() < 0)
      return make_error(ErrorCode::internal, format("tensor '{}' has a negative or absurd size", tensor.name));
    const std::int64_t bytes = tensor.elements() * static_cast<std::int64_t>(element_bytes(tensor.type));
    if (tensor.name == "__metadata__" || !writer.places_.emplace(tensor.name, Place{at, bytes, 0}).second)
      return make_error(ErrorCode::internal, format("tensor name '{}' is reserved or comes twice", tensor.name));
    ValueArray shape(tensor.shape.begin(), tensor.shape.end());
    Value entry = Value::make_table();
    entry.set("dtype", to_string(tensor.type));
    entry.set("shape", std::move(shape));
    entry.set("data_offsets", ValueArray{Value(at), Value(at + bytes)});
    header.push_back({tensor.name, std::move(entry), {}});
    at += bytes;
  }
  std::string text = to_json(Value(std::move(header)));
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins at a multiple of 8
  if (text.size() > header_bytes_max)
    return make_error(ErrorCode::invalid_input,
                      format("{}: {} tensors need a header above {} bytes", path, tensors.size(), header_bytes_max),
                      "write several files");
  const std::uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), 8);
  for (auto& [name, place] : writer.places_) place.begin += static_cast<std::int64_t>(text.size());

  writer.path_ = path;
  LH_TRY(FileBeside beside, create_beside(path));
  writer.temporary_ = std::move(beside.path);
  writer.file_ = std::move(beside.fd);
  LH_CHECK(write_all_at(writer.file_.get(), text, 0, writer.temporary_));
  return writer;
}

Status SafetensorsWriter::write(const std::string& name, std::string_view bytes, std::int64_t offset) {
  const auto at = places_.find(name);
  if (at == places_.end())
    return make_error(ErrorCode::internal, format("{}: tensor '{}' was not declared", path_, name));
  Place& place = at->second;
  if (offset < 0 || offset + static_cast<std::int64_t>(bytes.size()) > place.bytes)
    return make_error(ErrorCode::internal, format("{}: bytes [{}, {}) of tensor '{}', which has {}", path_, offset,
                                                  offset + static_cast<std::int64_t>(bytes.size()), name, place.bytes));
  LH_CHECK(write_all_at(file_.get(), bytes, place.begin + offset, temporary_));
  place.written += static_cast<std::int64_t>(bytes.size());
  return {};
}

Status SafetensorsWriter::finish() {
  for (const auto& [name, place] : places_)
    if (place.written != place.bytes)
      return make_error(ErrorCode::internal, format("{}: {} of {} bytes of tensor '{}' were written", path_,
                                                    place.written, place.bytes, name));
  if (::fsync(file_.get()) != 0) return errno_error(ErrorCode::io, format("cannot sync {}", temporary_), errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    return errno_error(ErrorCode::io, format("cannot rename {} to {}", temporary_, path_), errno);
  file_.reset();
  const FileDescriptor folder(::open(parent_path(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || ::fsync(folder.get()) != 0)
    return errno_error(ErrorCode::io, format("cannot sync the folder of {}", path_), errno);
  return {};
}

}  // namespace longhaul

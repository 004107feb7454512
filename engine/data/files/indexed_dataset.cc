#include "engine/data/files/indexed_dataset.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "base/files/owned_files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian and read in place");

constexpr char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
constexpr std::size_t header_bytes = 34;

template <class T>
T load_at(std::string_view bytes, std::size_t offset) {  // arrays start at offset 34: never aligned
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}
template <class T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Error foreign(const std::string& path, std::string what) {
  return make_error(ErrorCode::corrupt, format("{}: {}", path, what),
                    "is it a Megatron-LM .idx file of this .bin file, copied whole?");
}

}  // namespace

Result<IndexedDatasetWriter> IndexedDatasetWriter::create(const std::string& prefix, TokenType type) {
  IndexedDatasetWriter writer;
  writer.prefix_ = prefix;
  writer.type_ = type;
  LH_TRY(FileBeside beside, create_beside(prefix + ".bin"));
  writer.bin_.reset(::fdopen(beside.fd.get(), "wb"));
  writer.temporary_ = std::move(beside.path);
  if (!writer.bin_) {
    const int error_number = errno;
    ::unlink(writer.temporary_.c_str());
    return errno_error(ErrorCode::io, format("cannot create {}", writer.temporary_), error_number);
  }
  (void)beside.fd.release();  // the stream closes it
  return writer;
}

IndexedDatasetWriter::~IndexedDatasetWriter() {
  if (bin_) ::unlink(temporary_.c_str());
}
IndexedDatasetWriter::IndexedDatasetWriter(IndexedDatasetWriter&&) noexcept = default;
IndexedDatasetWriter& IndexedDatasetWriter::operator=(IndexedDatasetWriter&& other) noexcept {
  if (this != &other) {
    if (bin_) ::unlink(temporary_.c_str());
    prefix_ = std::move(other.prefix_);
    temporary_ = std::move(other.temporary_);
    type_ = other.type_;
    bin_ = std::move(other.bin_);
    lengths_ = std::move(other.lengths_);
    tokens_ = other.tokens_;
  }
  return *this;
}

Status IndexedDatasetWriter::add_document(std::span<const std::int32_t> tokens) {
  if (tokens.size() > 0x7FFFFFFF)
    return make_error(ErrorCode::invalid_input,
                      format("a document of {} tokens is too long for the format", tokens.size()));
  const std::int32_t largest = type_ == TokenType::u16 ? 0xFFFF : 0x7FFFFFFF;
  buffer_.resize(tokens.size() * token_bytes(type_));
  char* to = buffer_.data();
  for (const std::int32_t id : tokens) {
    if (id < 0 || id > largest)
      return make_error(ErrorCode::invalid_input, format("token id {} does not fit {} bytes", id, token_bytes(type_)),
                        "write it with a wider token type");
    std::memcpy(to, &id, token_bytes(type_));  // little-endian: the low bytes come first
    to += token_bytes(type_);
  }
  if (std::fwrite(buffer_.data(), 1, buffer_.size(), bin_.get()) != buffer_.size())
    return errno_error(ErrorCode::io, format("cannot write {}", temporary_), errno);
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
  tokens_ += static_cast<std::int64_t>(tokens.size());
  return {};
}

Status IndexedDatasetWriter::finish() {
  if (std::fflush(bin_.get()) != 0 || ::fsync(::fileno(bin_.get())) != 0)
    return errno_error(ErrorCode::io, format("cannot write {}", temporary_), errno);
  std::string idx(magic, sizeof magic);
  append_raw(idx, std::uint64_t{1});
  append_raw(idx, static_cast<std::uint8_t>(type_));
  append_raw(idx, std::uint64_t{lengths_.size()});
  append_raw(idx, std::uint64_t{lengths_.size() + 1});
  for (const std::int32_t length : lengths_) append_raw(idx, length);
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths_) {
    append_raw(idx, offset);
    offset += static_cast<std::int64_t>(length) * static_cast<std::int64_t>(token_bytes(type_));
  }
  for (std::size_t i = 0; i <= lengths_.size(); ++i) append_raw(idx, static_cast<std::int64_t>(i));
  const std::string bin_path = prefix_ + ".bin";
  if (std::rename(temporary_.c_str(), bin_path.c_str()) != 0)
    return errno_error(ErrorCode::io, format("cannot rename {} to {}", temporary_, bin_path), errno);
  bin_.reset();
  return write_file_atomic(prefix_ + ".idx", idx);  // syncs the folder, too
}

Result<IndexedDataset> IndexedDataset::open(const std::string& prefix) {
  LH_TRY(MappedFile idx, MappedFile::open(prefix + ".idx"));
  LH_TRY(MappedFile bin, MappedFile::open(prefix + ".bin"));
  IndexedDataset dataset(std::move(idx), std::move(bin));
  LH_CHECK(dataset.check(prefix + ".idx", prefix + ".bin"));
  return dataset;
}

Status IndexedDataset::check(const std::string& idx_path, const std::string& bin_path) {
  const std::string_view idx = idx_.view();
  if (idx.size() < sizeof magic || std::memcmp(idx.data(), magic, sizeof magic) != 0)
    return foreign(idx_path, "does not begin with MMIDIDX");
  if (idx.size() < header_bytes)
    return foreign(idx_path, format("is cut off: {} bytes, the header alone has {}", idx.size(), header_bytes));
  if (const auto version = load_at<std::uint64_t>(idx, 9); version != 1)
    return make_error(ErrorCode::unsupported, format("{}: format version {}, only 1 is known", idx_path, version));
  const auto code = load_at<std::uint8_t>(idx, 17);
  if (code != static_cast<std::uint8_t>(TokenType::i32) && code != static_cast<std::uint8_t>(TokenType::u16))
    return make_error(ErrorCode::unsupported,
                      format("{}: token type code {}; 4 (i32) and 8 (u16) are read", idx_path, code));
  type_ = static_cast<TokenType>(code);

  const auto s = load_at<std::uint64_t>(idx, 18), d = load_at<std::uint64_t>(idx, 26);
  constexpr std::uint64_t sane = std::uint64_t{1} << 40;
  if (s > sane || d > s + 1 || d == 0)
    return foreign(idx_path, format("names {} sequences and {} document bounds, which cannot be", s, d));
  const std::uint64_t wanted = header_bytes + 12 * s + 8 * d;
  if (idx.size() < wanted)
    return foreign(idx_path, format("is cut off: {} bytes, its header needs {}", idx.size(), wanted));
  if (idx.size() == wanted + s && s > 0)
    return make_error(ErrorCode::unsupported,
                      format("{}: has a modes array (multimodal), which is not supported", idx_path));
  if (idx.size() > wanted) return foreign(idx_path, format("has {} bytes too many", idx.size() - wanted));
  sequences_ = static_cast<std::int64_t>(s);
  documents_ = static_cast<std::int64_t>(d) - 1;

  const auto width = static_cast<std::int64_t>(token_bytes(type_));
  std::int64_t offset = 0;
  for (std::uint64_t i = 0; i < s; ++i) {
    const auto length = load_at<std::int32_t>(idx, header_bytes + 4 * i);
    const auto at = load_at<std::int64_t>(idx, header_bytes + 4 * s + 8 * i);
    if (length < 0) return foreign(idx_path, format("sequence {} has length {}", i, length));
    if (at != offset)
      return foreign(idx_path, format("sequence {} begins at byte {} instead of {}: not back to back", i, at, offset));
    offset += length * width;
  }
  std::int64_t before = 0;
  for (std::uint64_t i = 0; i < d; ++i) {
    const auto first = load_at<std::int64_t>(idx, header_bytes + 12 * s + 8 * i);
    if (first < before || first > sequences_ || (i == 0 && first != 0))
      return foreign(idx_path, format("document {} begins at sequence {}, which cannot be", i, first));
    before = first;
  }
  if (before != sequences_) return foreign(idx_path, format("its documents end at sequence {} of {}", before, s));
  if (const auto bin_bytes = static_cast<std::int64_t>(bin_.view().size()); bin_bytes != offset)
    return foreign(bin_path, format("has {} bytes, its index describes {}{}", bin_bytes, offset,
                                    bin_bytes < offset ? ": cut off" : ""));
  tokens_ = offset / width;
  return {};
}

std::int64_t IndexedDataset::sequence_begin(std::int64_t sequence) const {
  if (sequence >= sequences_) return tokens_;
  const std::size_t at =
      header_bytes + 4 * static_cast<std::size_t>(sequences_) + 8 * static_cast<std::size_t>(sequence);
  return load_at<std::int64_t>(idx_.view(), at) / static_cast<std::int64_t>(token_bytes(type_));
}

void IndexedDataset::read(std::int64_t begin, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  LH_ASSERT(begin >= 0 && begin + count <= tokens_, format("tokens [{}, {}) of {}", begin, begin + count, tokens_));
  const char* from = bin_.view().data() + static_cast<std::size_t>(begin) * token_bytes(type_);
  if (type_ == TokenType::i32) {
    if (count > 0) std::memcpy(out.data(), from, out.size() * 4);
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t id;
    std::memcpy(&id, from + 2 * i, 2);
    out[i] = id;
  }
}

IndexedDataset::Range IndexedDataset::sequence(std::int64_t index) const {
  LH_ASSERT(index >= 0 && index < sequences_, format("sequence {} of {}", index, sequences_));
  return {sequence_begin(index), sequence_begin(index + 1)};
}

IndexedDataset::Range IndexedDataset::document(std::int64_t index) const {
  LH_ASSERT(index >= 0 && index < documents_, format("document {} of {}", index, documents_));
  const auto first = [&](std::int64_t i) {
    return load_at<std::int64_t>(
        idx_.view(), header_bytes + 12 * static_cast<std::size_t>(sequences_) + 8 * static_cast<std::size_t>(i));
  };
  return {sequence_begin(first(index)), sequence_begin(first(index + 1))};
}

std::int64_t IndexedDataset::document_at(std::int64_t token) const {
  LH_ASSERT(token >= 0 && token < tokens_, format("token {} of {}", token, tokens_));
  std::int64_t first = 0, last = documents_ - 1;  // documents without tokens end where they begin
  while (first < last) {
    const std::int64_t middle = (first + last) / 2;
    if (document(middle).end <= token)
      first = middle + 1;
    else
      last = middle;
  }
  return first;
}

std::vector<std::int32_t> IndexedDataset::read_document(std::int64_t index) const {
  const Range range = document(index);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(range.end - range.begin));
  read(range.begin, tokens);
  return tokens;
}

}  // namespace longhaul

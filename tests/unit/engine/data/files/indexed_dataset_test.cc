// The bytes of Megatron-LM's format, and refusal of everything that is not whole.
#include "engine/data/files/indexed_dataset.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "base/text/text.h"
#include "tests/support/plain_file.h"
#include "tests/support/random_text.h"

using namespace longhaul;

namespace {

struct DatasetFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / format("longhaul_dataset_test_{}", ::getpid());
  DatasetFolder() { std::filesystem::create_directories(path); }
  ~DatasetFolder() { std::filesystem::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
};

// What names that could be guessed may be links to.
std::string plant_a_link(const std::string& precious, const std::string& at) {
  REQUIRE(write_plain(precious, "keep this"));
  REQUIRE(::symlink(precious.c_str(), at.c_str()) == 0);
  return precious;
}

void write_dataset(const std::string& prefix, TokenType type, const std::vector<std::vector<std::int32_t>>& documents) {
  auto writer = IndexedDatasetWriter::create(prefix, type).value();
  for (const auto& document : documents) REQUIRE(writer.add_document(document).ok());
  REQUIRE(writer.finish().ok());
}

}  // namespace

TEST_CASE("trust: a dataset is written beside its place under a name that nobody can know before") {
  const DatasetFolder folder;
  const std::string prefix = folder.file("d");
  const std::string precious = plant_a_link(folder.file("precious"), format("{}.bin.tmp.{}", prefix, ::getpid()));
  write_dataset(prefix, TokenType::u16, {{1, 2, 3}});
  CHECK(read_file(precious).value() == "keep this");
  CHECK(IndexedDataset::open(prefix).ok());
}

TEST_CASE("an index has exactly the bytes of the format") {
  const DatasetFolder folder;
  write_dataset(folder.file("d"), TokenType::u16, {{1, 2, 300}, {}, {65535}});
  using namespace std::string_literals;
  const std::string expected = "MMIDIDX\0\0"s + "\x01\0\0\0\0\0\0\0"s + "\x08"s +  // version 1, u16
                               "\x03\0\0\0\0\0\0\0"s + "\x04\0\0\0\0\0\0\0"s +     // 3 sequences, 4 document bounds
                               "\x03\0\0\0"s + "\0\0\0\0"s + "\x01\0\0\0"s +       // lengths
                               "\0\0\0\0\0\0\0\0"s + "\x06\0\0\0\0\0\0\0"s + "\x06\0\0\0\0\0\0\0"s +  // byte offsets
                               "\0\0\0\0\0\0\0\0"s + "\x01\0\0\0\0\0\0\0"s + "\x02\0\0\0\0\0\0\0"s +
                               "\x03\0\0\0\0\0\0\0"s;
  CHECK(read_file(folder.file("d.idx")).value() == expected);
  CHECK(read_file(folder.file("d.bin")).value() == "\x01\0\x02\0\x2C\x01\xFF\xFF"s);
  write_dataset(folder.file("e"), TokenType::i32, {{1, 70000}});
  CHECK(read_file(folder.file("e.bin")).value() == "\x01\0\0\0\x70\x11\x01\0"s);
  CHECK(read_file(folder.file("e.idx")).value()[17] == 4);
  CHECK(list_directory(folder.path.string()).value().size() == 4);  // nothing temporary is left
}

TEST_CASE("what was written is read back") {
  const DatasetFolder folder;
  for (const TokenType type : {TokenType::u16, TokenType::i32}) {
    std::vector<std::vector<std::int32_t>> documents;
    PhiloxSequence draw(7);
    std::vector<std::int32_t> stream;
    for (int d = 0; d < 50; ++d) {
      documents.emplace_back();
      for (std::uint64_t i = draw.next_below(20); i > 0; --i)
        documents.back().push_back(
            static_cast<std::int32_t>(draw.next_below(type == TokenType::u16 ? 65536 : 1 << 30)));
      stream.insert(stream.end(), documents.back().begin(), documents.back().end());
    }
    write_dataset(folder.file("d"), type, documents);
    const auto dataset = IndexedDataset::open(folder.file("d")).value();
    CHECK(dataset.type() == type);
    CHECK(dataset.documents() == 50);
    CHECK(dataset.tokens() == static_cast<std::int64_t>(stream.size()));
    for (int d = 0; d < 50; ++d) CHECK(dataset.read_document(d) == documents[static_cast<std::size_t>(d)]);
    std::vector<std::int32_t> middle(stream.size() - 7);
    dataset.read(3, middle);
    CHECK(middle == std::vector<std::int32_t>(stream.begin() + 3, stream.end() - 4));
  }
}

TEST_CASE("several sequences per document are read") {
  const DatasetFolder folder;
  write_dataset(folder.file("d"), TokenType::u16, {{1, 2}, {3}, {4, 5}});
  std::string idx = read_file(folder.file("d.idx")).value();
  idx[26] = 3;                    // two documents: sequences 0-1 and 2
  idx.erase(34 + 12 * 3 + 8, 8);  // drop the bound "1"
  REQUIRE(write_file_atomic(folder.file("d.idx"), idx).ok());
  const auto dataset = IndexedDataset::open(folder.file("d")).value();
  CHECK(dataset.documents() == 2);
  CHECK(dataset.read_document(0) == std::vector<std::int32_t>{1, 2, 3});
  CHECK(dataset.read_document(1) == std::vector<std::int32_t>{4, 5});
}

TEST_CASE("truncated, foreign and inconsistent indices are refused") {
  const DatasetFolder folder;
  write_dataset(folder.file("d"), TokenType::u16, {{1, 2, 3}, {4}});
  const std::string idx = read_file(folder.file("d.idx")).value(), bin = read_file(folder.file("d.bin")).value();
  const auto refused = [&](const std::string& changed_idx, const std::string& changed_bin) {
    REQUIRE(write_plain(folder.file("d.idx"), changed_idx));
    REQUIRE(write_plain(folder.file("d.bin"), changed_bin));
    const auto opened = IndexedDataset::open(folder.file("d"));
    if (!opened.ok()) CHECK(opened.error().message().find("d.") != std::string::npos);
    return !opened.ok();
  };
  REQUIRE_FALSE(refused(idx, bin));
  for (std::size_t cut = 0; cut < idx.size(); ++cut) {
    CAPTURE(cut);
    CHECK(refused(idx.substr(0, cut), bin));
  }
  CHECK(refused(idx + "x", bin));
  CHECK(refused(idx, bin.substr(1)));
  CHECK(refused(idx, bin + "x"));
  CHECK(refused(idx + std::string(2, '\0'), bin));  // modes array
  // Any single byte of header and arrays set to another value is noticed: every one of them is redundant.
  for (std::size_t at = 0; at < idx.size(); ++at) {
    CAPTURE(at);
    for (const int change : {1, 0x80}) {
      std::string changed = idx;
      changed[at] = static_cast<char>(changed[at] ^ change);
      // The inner bound of the document index may move without contradiction; nothing else may.
      const bool inner_bound = at >= 34 + 12 * 2 + 8 && at < 34 + 12 * 2 + 16;
      if (!inner_bound)
        CHECK(refused(changed, bin));
      else
        (void)refused(changed, bin);
    }
  }
  REQUIRE(remove_tree(folder.file("d.idx")).ok());
  CHECK(IndexedDataset::open(folder.file("d")).error().code == ErrorCode::not_found);
}

TEST_CASE("ids that do not fit are refused, and an unfinished file leaves nothing") {
  const DatasetFolder folder;
  {
    auto writer = IndexedDatasetWriter::create(folder.file("d"), TokenType::u16).value();
    const std::int32_t wide[] = {65536}, negative[] = {-1};
    CHECK_FALSE(writer.add_document(wide).ok());
    CHECK_FALSE(writer.add_document(negative).ok());
  }
  CHECK(list_directory(folder.path.string()).value().empty());
  CHECK(token_type_for(65499) == TokenType::u16);
  CHECK(token_type_for(65500) == TokenType::i32);
  CHECK_FALSE(IndexedDatasetWriter::create("/nonexistent/x", TokenType::u16).ok());
}

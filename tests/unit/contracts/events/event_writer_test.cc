// A disk that is full in the middle of a line, and has room again.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>

#include "base/files/files.h"
#include "contracts/events/event.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// Files of this process take no more than so many bytes while it lives, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    before_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    (void)::setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, before_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*before_handler_)(int) = SIG_DFL;
};

Value of_step(std::int64_t step) {
  Value fields = Value::make_table();
  fields.set("step", step);
  return fields;
}

}  // namespace

TEST_CASE("events: a line that a full disk cut off costs itself alone") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("events.jsonl");
  const ManualClock clock;
  EventWriter events(clock, path, 0);
  events.write("checkpoint", of_step(1));
  const std::size_t whole = read_file(path)->size();
  {
    const FileSizeLimit full(whole + 20);
    events.write("checkpoint", of_step(2));
    events.write("checkpoint", of_step(3));  // nothing of it
  }
  CHECK(read_file(path)->size() == whole + 20);
  events.write("checkpoint", of_step(4));
  events.write("checkpoint", of_step(5));
  std::uint64_t offset = 0;
  const auto read = read_events(path, offset);
  REQUIRE(read.ok());
  std::vector<std::int64_t> steps;
  for (const Event& event : *read) steps.push_back(event.fields.get_integer("step"));
  CHECK(steps == std::vector<std::int64_t>{1, 4, 5});
  CHECK(read_file(path)->find("\n\n") == std::string::npos);
}

}  // namespace longhaul

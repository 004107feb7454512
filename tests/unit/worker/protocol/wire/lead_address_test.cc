// The secret of a lead, as agents find it while it is made anew.
#include "worker/protocol/wire/lead_address.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("lead secret: whoever reads while it is made anew finds a whole one or none, for its owner's eyes alone") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("secret");
  REQUIRE(make_lead_secret(path).ok());
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  std::atomic<bool> over{false};
  int parts = 0;
  std::thread reader([&] {
    while (!over) {
      const auto secret = read_lead_secret(path);
      if (!secret.ok() && secret.error().code != ErrorCode::not_found) parts += 1;
    }
  });
  bool made = true;
  for (int i = 0; i < 3000; ++i) made &= make_lead_secret(path).ok();
  over = true;
  reader.join();
  CHECK(made);
  CHECK(parts == 0);
}

}  // namespace longhaul

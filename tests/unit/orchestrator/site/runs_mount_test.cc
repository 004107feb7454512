#include "orchestrator/site/runs_mount.h"

#include <doctest/doctest.h>

namespace longhaul {

TEST_CASE("runs on NFS: a mount that hides for minutes what other hosts have written is refused, with the remedy") {
  const auto problem = [](const std::string& type, std::vector<std::string> options) {
    return runs_mount_problem({"/runs", type, std::move(options)});
  };
  CHECK(problem("nfs4", {"rw", "nocto"}).find("with nocto") != std::string::npos);
  CHECK(problem("nfs", {"rw", "nocto"}).find("site file") != std::string::npos);
  CHECK(problem("nfs4", {"rw", "acregmin=600", "acregmax=600"}).find("for 600 s") != std::string::npos);
  CHECK(problem("nfs", {"actimeo=120"}).find("actimeo=120") != std::string::npos);
  CHECK(problem("nfs4", {"rw", "acdirmin=3", "acdirmax=30", "vers=4.2"}).empty());
  CHECK(problem("nfs4", {"rw", "noac"}).empty());
  CHECK(problem("lustre", {"rw", "nocto"}).empty());
}

}  // namespace longhaul

#include "worker/lead/placement/host_pool.h"

#include <doctest/doctest.h>

using namespace longhaul;
using Names = std::vector<std::string>;

TEST_CASE("nodes of a job: spares take the places of those that are left, in the job's order") {
  HostPool pool({"n1", "n2", "n3", "n4"}, 2);
  CHECK(pool.working() == Names{"n1", "n2"});
  CHECK(pool.spares() == Names{"n3", "n4"});
  pool.leave("n1");
  CHECK(pool.complete());
  CHECK(pool.working() == Names{"n2", "n3"});
  CHECK(!pool.is_working("n1"));
  pool.leave("n4");  // a spare that died waiting
  CHECK(pool.working() == Names{"n2", "n3"});
  CHECK(pool.spares().empty());
  pool.leave("n3");
  CHECK(!pool.complete());
  CHECK(pool.working() == Names{"n2"});
  CHECK(pool.left() == Names{"n1", "n3", "n4"});
  pool.leave("n9");  // not of this job
  CHECK(pool.working() == Names{"n2"});
}

TEST_CASE("nodes of a job: a training that shrinks leaves the first of them at work and the others as spares") {
  HostPool pool({"n1", "n2", "n3", "n4"}, 4);
  pool.leave("n2");
  CHECK(!pool.complete());
  pool.shrink_to(2);
  CHECK(pool.complete());
  CHECK(pool.working() == Names{"n1", "n3"});
  CHECK(pool.spares() == Names{"n4"});
  pool.shrink_to(3);  // it does not grow
  CHECK(pool.wanted() == 2);
  pool.leave("n3");
  CHECK(pool.working() == Names{"n1", "n4"});
}

TEST_CASE("nodes of a job: fewer than asked for are all at work") {
  const HostPool pool({"here"}, 4);
  CHECK(pool.complete());
  CHECK(pool.working() == Names{"here"});
}

TEST_CASE("nodes of a job: one that was lost comes back once, and one that was left never") {
  HostPool pool({"n1", "n2", "n3", "n4"}, 4);
  pool.lose("n2");
  pool.leave("n3");
  CHECK(pool.left() == Names{"n2", "n3"});
  CHECK(pool.lost() == Names{"n2"});
  pool.shrink_to(2);
  pool.grow_to(3, {"n2", "n3"});
  CHECK(pool.working() == Names{"n1", "n2", "n4"});
  CHECK(pool.complete());
  CHECK(pool.left() == Names{"n3"});
  CHECK(pool.returned() == Names{"n2"});
  pool.lose("n2");
  CHECK(pool.lost().empty());
  CHECK(pool.left() == Names{"n2", "n3"});
  pool.shrink_to(1);
  pool.grow_to(4, {"n2", "n3"});
  CHECK(!pool.complete());  // 4 are wanted, and nobody may come back
  CHECK(pool.working() == Names{"n1", "n4"});

  HostPool kept({"n1", "n2"}, 2);
  kept.leave("n1");  // its ranks do not end
  kept.lose("n1");
  CHECK(kept.lost().empty());
}

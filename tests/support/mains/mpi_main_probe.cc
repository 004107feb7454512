// Test cases that mpi_main_test.py runs one by one, to see that mpi_main.cc reports what happened on other ranks.
#include <doctest/doctest.h>
#include <mpi.h>

namespace {

int own_rank() {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

}  // namespace

TEST_CASE("all is well") {
  int ranks = 0;
  const int one = 1;
  MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(ranks > 1);
}

TEST_CASE("only the last rank fails") {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(own_rank() != ranks - 1);
}

TEST_CASE("one rank leaves, the others wait") {
  REQUIRE(own_rank() == 0);
  MPI_Barrier(MPI_COMM_WORLD);
}

// Attention through cuDNN, over a library that stands in for cuDNN (tests/support/fake_libraries/fake_cudnn.cc) on an
// emulated GPU: the graphs are those of NVIDIA's own frontend (golden/cudnn_attention.txt), and the whole way from an
// operation to its numbers gives the reference's.
#include "engine/ops/cuda/libraries/cudnn_attention.h"

#include <doctest/doctest.h>

#include <sstream>

#include "base/files/files.h"
#include "base/system/shared_library.h"
#include "engine/ops/attention/attention.h"
#include "engine/ops/cuda/libraries/cudnn_attention_graph.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

const std::string fake_path = std::string(LONGHAUL_BINARY_DIR) + "/bin/liblonghaul_fake_cudnn.so";

// What the stand-in reports to tests.
struct Fake {
  SharedLibrary library = SharedLibrary::open(std::span(&fake_path, 1)).value();
  void (*misbehave)(const char*) = nullptr;
  void (*memory)(void (*)(void*), void (*)(void*), bool (*)(void*, const void*), void*) = nullptr;
  const char* (*graph)() = nullptr;
  long (*count)(const char*) = nullptr;
  Fake() {
    REQUIRE(library.find("fake_cudnn_misbehave", misbehave));
    REQUIRE(library.find("fake_cudnn_memory", memory));
    REQUIRE(library.find("fake_cudnn_graph", graph));
    REQUIRE(library.find("fake_cudnn_count", count));
  }
  ~Fake() { misbehave(""), memory(nullptr, nullptr, nullptr, nullptr); }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;
};

// An emulated GPU with the stand-in, whose memory the stand-in alone may open, and what was reported of its attentions.
class CudnnGpu {
 public:
  explicit CudnnGpu(const AttentionSettings& settings = {}, int compute_capability = 90,
                    std::int64_t bytes_max = cuda::cudnn_attention_bytes_max)
      : staged_(gpu_.device(), gpu_.ops()) {
    testing::EmulatedDevice* device = &dynamic_cast<testing::EmulatedDevice&>(gpu_.device());
    fake.memory([](void* d) { static_cast<testing::EmulatedDevice*>(d)->open(); },
                [](void* d) { static_cast<testing::EmulatedDevice*>(d)->close(); },
                [](void* d, const void* at) { return static_cast<testing::EmulatedDevice*>(d)->owns(at); }, device);
    gpu_.set_attention_library([=]() -> Result<std::unique_ptr<cuda::DeviceAttention>> {
      LH_TRY(cuda::Cudnn library, cuda::Cudnn::open(std::span(&fake_path, 1)));
      return cuda::make_cudnn_attention(*device, nullptr, compute_capability, std::move(library), bytes_max);
    });
    used = gpu_.use_attention(settings, [this](const AttentionReport& report) { reported.push_back(report); });
  }
  ComputeContext context() { return ComputeContext(gpu_.device(), staged_); }
  long count(const char* what) const { return fake.count(what); }

  Fake fake;
  Status used;
  std::vector<AttentionReport> reported;

 private:
  testing::EmulatedGpu gpu_;
  testing::StagedOps staged_;
};

struct Sizes {
  Index batch, seq, kv_seq, heads, kv_heads, head_dim;
  bool causal = true;
  Index window = 0;
  std::string text() const {
    return format("b={} s={} kv={} n={} nkv={} d={} {} w={}", batch, seq, kv_seq, heads, kv_heads, head_dim,
                  causal ? "causal" : "all keys", window);
  }
};
// Odd lengths, grouped heads, keys before the queries, several sequences.
const Sizes kSizes[] = {{2, 33, 33, 4, 2, 64},
                        {1, 5, 70, 2, 1, 128},
                        {2, 7, 20, 3, 3, 64, false},
                        {3, 17, 19, 4, 1, 32},
                        {1, 1, 9, 2, 2, 64},
                        {1, 40, 40, 2, 2, 128},
                        {2, 33, 33, 4, 2, 64, true, 7},
                        {1, 5, 70, 2, 1, 128, true, 9},
                        {1, 17, 19, 2, 2, 64, true, 18}};

Vector slice(const Values& qkv, const Sizes& z, Index first, Index columns, Index tokens) {
  const Index row = (z.heads + 2 * z.kv_heads) * z.head_dim;
  Vector out;
  for (Index t = 0; t < z.batch * tokens; ++t) {
    const auto at = qkv.exact.begin() + t * row + first;
    out.insert(out.end(), at, at + columns);
  }
  return out;
}

// Queries and keys lie in matrices of their own, each a slice of rows as wide as a fused qkv's.
struct Problem {
  Sizes z;
  Index row = (z.heads + 2 * z.kv_heads) * z.head_dim, wide = z.heads * z.head_dim, narrow = z.kv_heads * z.head_dim;
  std::uint64_t seed = 71;
  Values q = random_values(DType::bf16, z.batch* z.seq* row, seed, 1.5);
  Values kv = random_values(DType::bf16, z.batch* z.kv_seq* row, seed + 1, 1.5);
  Values dout = random_values(DType::bf16, z.batch* z.seq* wide, seed + 2);
  Tensor out{DType::bf16, {z.batch * z.seq * wide}}, dq{DType::bf16, {z.batch * z.seq * row}};
  Tensor dkv{DType::bf16, {z.batch * z.kv_seq * row}};
  std::vector<float> lse = std::vector<float>(static_cast<std::size_t>(z.batch * z.heads * z.seq));
  AttentionShape shape{.batch = z.batch,
                       .seq = z.seq,
                       .heads = z.heads,
                       .kv_heads = z.kv_heads,
                       .head_dim = z.head_dim,
                       .kv_seq = z.kv_seq,
                       .causal = z.causal,
                       .window = z.window,
                       .q_stride = row,
                       .kv_stride = row};

  template <class V>
  static auto from(V view, Index first) {
    using View = decltype(view);
    const bf16* p = view.template as<bf16>() + first;
    return View(const_cast<bf16*>(p), Shape{view.size() - first});
  }
  ConstView keys() const { return from(ConstView(kv), wide); }
  ConstView values() const { return from(ConstView(kv), wide + narrow); }
  void forward(const ComputeContext& c) { attention_forward(c, shape, ConstView(q), keys(), values(), out, lse); }
  void backward(const ComputeContext& c) {
    attention_backward(c, shape, dout, ConstView(q), keys(), values(), out, lse, dq, from(dkv.view(), wide),
                       from(dkv.view(), wide + narrow));
  }
  reference::AttentionCase reference_case() const {
    reference::AttentionCase c{
        z.batch, z.seq, z.heads, z.kv_heads, z.head_dim, z.kv_seq, 1.0 / std::sqrt(static_cast<double>(z.head_dim)),
        {}};
    c.causal = z.causal, c.window = z.window;
    return c;
  }
  void check(const std::string& text) {
    const Vector rq = slice(q, z, 0, wide, z.seq), rk = slice(kv, z, wide, narrow, z.kv_seq);
    const Vector rv = slice(kv, z, wide + narrow, narrow, z.kv_seq);
    const auto want = reference::attention(reference_case(), rq, rk, rv);
    check_close(text + " out", out, want.out, tolerance(DType::bf16));
    check_close(text + " lse", ConstView(lse), want.lse, 5e-7);
    const auto g = reference::attention_backward(reference_case(), dout.exact, rq, rk, rv);
    const Values got_q{Tensor(), exact_of(dq)}, got_kv{Tensor(), exact_of(dkv)};
    const auto close = [&](const char* name, const Vector& got, const Vector& right) {
      const double error = normalised_error(got, right);
      INFO(text, " ", name, ": error ", error);
      CHECK(error <= 2 * tolerance(DType::bf16));
    };
    close("dq", slice(got_q, z, 0, wide, z.seq), g.dq);
    close("dk", slice(got_kv, z, wide, narrow, z.kv_seq), g.dk);
    close("dv", slice(got_kv, z, wide + narrow, narrow, z.kv_seq), g.dv);
  }
};

}  // namespace

TEST_CASE("the graphs of attention are, descriptor by descriptor, those that cudnn-frontend builds") {
  const Fake fake;
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/cudnn_attention.txt";
  std::istringstream golden(read_file(path).value());
  const cuda::Cudnn cudnn = cuda::Cudnn::open(std::span(&fake_path, 1)).value();
  cudnnHandle_t handle = nullptr;
  REQUIRE(cudnn.create(&handle) == CUDNN_STATUS_SUCCESS);
  int cases = 0;
  for (std::string line; std::getline(golden, line);) {
    if (!line.starts_with("case ")) continue;
    std::istringstream words(line.substr(5));
    std::string pass, mask, sums, lse, want;
    cuda::CudnnAttentionSizes s;
    words >> pass >> s.batch >> s.seq >> s.kv_seq >> s.heads >> s.kv_heads >> s.head_dim >> mask >> sums >> lse >>
        s.window;
    s.q_stride = s.kv_stride = (s.heads + 2 * s.kv_heads) * s.head_dim, s.out_stride = s.heads * s.head_dim;
    s.q_batch_stride = s.seq * s.q_stride, s.kv_batch_stride = s.kv_seq * s.kv_stride;
    s.out_batch_stride = s.seq * s.out_stride, s.causal = mask == "causal";
    for (std::string row; std::getline(golden, row) && !row.empty();) want += row + "\n";
    cuda::CudnnGraph graph(cudnn, handle, line);
    if (pass == "forward")
      add_attention_forward(graph, s, lse == "lse");
    else
      add_attention_backward(graph, s, sums == "deterministic");
    const Result<cuda::CudnnPlan> plan = graph.plan(sums == "deterministic", std::int64_t{1} << 40);
    INFO(line);
    CHECK_MESSAGE(plan.ok(), (plan.ok() ? "" : plan.error().message()));
    CHECK(std::string(fake.graph()) == want);
    ++cases;
  }
  CHECK(cases == 12);
  CHECK(cudnn.destroy(handle) == CUDNN_STATUS_SUCCESS);
}

TEST_CASE("attention through cuDNN follows the reference, both ways, deterministic or not") {
  for (const bool deterministic : {true, false}) {
    CudnnGpu gpu({"auto", deterministic});
    const ComputeContext context = gpu.context();
    for (const Sizes& z : kSizes) {
      Problem problem{z};
      const std::string text = z.text() + (deterministic ? " deterministic" : "") + format(" seed {}", problem.seed);
      const long before = gpu.count("executions");
      problem.forward(context);
      problem.backward(context);
      CHECK_MESSAGE(gpu.count("executions") - before == 2, text);
      problem.check(text);
      for (const AttentionReport& report : gpu.reported) CHECK_MESSAGE(report.choice.way == AttentionWay::cudnn, text);
    }
    CHECK(gpu.reported.size() == 2 * std::size(kSizes));
  }
}

TEST_CASE("a plan is made once for each case, and nothing of it is left behind") {
  const Fake fake;
  const long before = fake.count("descriptors");
  {
    CudnnGpu gpu;
    const ComputeContext context = gpu.context();
    Problem problem{kSizes[0]}, other{kSizes[5]};
    for (int i = 0; i < 3; ++i) problem.forward(context), problem.backward(context);
    const long plans = gpu.count("plans"), alive = gpu.count("descriptors");
    problem.forward(context), problem.backward(context);
    CHECK(gpu.count("plans") == plans);
    CHECK(gpu.count("descriptors") == alive);
    CHECK(gpu.reported.size() == 2);
    other.forward(context);
    CHECK(gpu.count("plans") == plans + 1);
    CHECK(gpu.reported.size() == 3);
  }
  CHECK(fake.count("descriptors") == before);
}

TEST_CASE("plans are not made without end: after so many kinds of attention, others take the own kernels") {
  CudnnGpu gpu;
  const ComputeContext context = gpu.context();
  const long plans = gpu.count("plans"), executions = gpu.count("executions");
  for (Index seq = 2; seq < 70; ++seq) Problem{{1, seq, seq, 1, 1, 8}}.forward(context);
  CHECK(gpu.count("plans") - plans == 64);
  CHECK(gpu.count("executions") - executions == 64);
  REQUIRE(gpu.reported.size() == 65);
  CHECK(gpu.reported.back().choice.reason.find("the last of 64 kinds") != std::string::npos);
  Problem again{{1, 9, 9, 1, 1, 8}}, late{{1, 69, 69, 1, 1, 8}};
  for (Problem* problem : {&again, &late})
    problem->forward(context), problem->backward(context), problem->check("late");
  CHECK(gpu.count("executions") - executions == 65);
}

TEST_CASE("a backward pass that takes more memory than there is for it is cut into calls of one plan") {
  for (const Sizes& z : {Sizes{4, 33, 33, 8, 2, 64}, Sizes{2, 12, 30, 6, 3, 64}}) {
    for (const bool deterministic : {true, false}) {
      const std::int64_t head = 64 * 128 * 2 + 33 * 4 + 2 * 33 * 64 * 4;  // of the first; the second needs less
      for (const std::int64_t heads : {4, 8, 17}) {
        CudnnGpu gpu({"auto", deterministic}, 90, heads * head + 4096);
        Problem problem{z};
        const std::string text = format("{} {} heads at once", z.text(), heads);
        problem.forward(gpu.context());
        const long plans = gpu.count("plans"), executions = gpu.count("executions");
        problem.backward(gpu.context());
        CHECK_MESSAGE(gpu.reported.back().choice.way == AttentionWay::cudnn, text, gpu.reported.back().choice.reason);
        CHECK(gpu.count("plans") == plans + 1);
        if (deterministic)
          CHECK_MESSAGE((gpu.count("executions") - executions > 1) == (heads < z.batch * z.heads), text);
        problem.check(text);
      }
    }
  }
}

TEST_CASE("what cuDNN cannot do is reported with its reason, and the own kernels do it") {
  struct Case {
    const char* misbehaviour;
    const char* reason;
  };
  for (const Case& c : {Case{"no_engine", "names no engine"},
                        {"unsupported", "this shape has no kernel"},
                        {"nondeterministic", "not deterministic"},
                        {"large_workspace", "of workspace, more than"}}) {
    CudnnGpu gpu;
    gpu.fake.misbehave(c.misbehaviour);
    Problem problem{kSizes[0]};
    problem.forward(gpu.context());
    problem.backward(gpu.context());
    problem.check(c.misbehaviour);
    REQUIRE(gpu.reported.size() == 2);
    for (const AttentionReport& report : gpu.reported) {
      INFO(report.choice.reason);
      CHECK(report.choice.way == AttentionWay::tensor_cores);
      CHECK(report.choice.reason.find(c.reason) != std::string::npos);
    }
  }
  CudnnGpu gpu;
  gpu.fake.misbehave("first_unsupported");  // the heuristic's second engine is taken then
  Problem problem{kSizes[0]};
  problem.forward(gpu.context());
  CHECK(gpu.reported.front().choice.way == AttentionWay::cudnn);
}

TEST_CASE("a cuDNN that cannot be used is reported, and refused where it was named") {
  {
    Fake fake;
    fake.misbehave("old");
    const auto opened = cuda::Cudnn::open(std::span(&fake_path, 1));
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().message().find("release 90100") != std::string::npos);
  }
  const std::string nowhere = "/nowhere/libcudnn.so.9";
  CHECK(cuda::Cudnn::open(std::span(&nowhere, 1)).error().code == ErrorCode::unavailable);
  testing::EmulatedGpu without;
  std::vector<AttentionReport> reported;
  const Status named = without.use_attention({"cudnn", true}, {});
  REQUIRE_FALSE(named.ok());
  CHECK(named.error().message().find("this program has no cuDNN") != std::string::npos);
  CHECK(without.use_attention({"auto", true}, [&](const AttentionReport& r) { reported.push_back(r); }).ok());
  const testing::StagedOps staged(without.device(), without.ops());
  Problem problem{kSizes[0]};
  problem.forward(ComputeContext(without.device(), staged));
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].choice.reason == "this program has no cuDNN");
  CudnnGpu own({"own", true});
  problem.forward(own.context());
  CHECK(own.count("plans") == 0);
  CHECK(own.reported.front().choice.way == AttentionWay::tensor_cores);
}

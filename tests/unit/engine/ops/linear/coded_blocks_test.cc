// Codes that stand for a few values: what they give is the product with the block's scale, bit for bit, everywhere.
#include "engine/ops/linear/coded_blocks.h"

#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

TEST_CASE("a code gives its value times its block's scale, rounded once: whole blocks, a last one that is odd") {
  constexpr std::uint64_t coded_seed = 43;
  for (const int bits : {4, 8})
    for (const auto& [elements, on] : with_backends({1, 77, 192, 1000}))
      for (const DType type : kTypes) {
        const OpContext context(2, on);
        const Index values = bits == 4 ? 15 : 255, blocks = (elements + 63) / 64;
        const Values stand_for = random_values(DType::f32, values, coded_seed);
        const Values scales = random_values(DType::f32, blocks, coded_seed + 1);
        const reference::Ids drawn = random_ids(elements, values, coded_seed + 2);
        std::vector<std::uint8_t> codes(static_cast<std::size_t>((elements * bits + 7) / 8));
        for (std::size_t i = 0; i < drawn.size(); ++i) {
          const auto code = static_cast<unsigned>(drawn[i]);
          std::uint8_t& byte = codes[bits == 8 ? i : i / 2];
          byte = static_cast<std::uint8_t>(byte | (bits == 4 && i % 2 == 0 ? code << 4 : code));
        }
        CodedBlocks from;
        from.elements = elements, from.bits = bits, from.codes = codes;
        from.scales = scales.tensor.span<float>(), from.values = stand_for.tensor.span<float>();
        Tensor out(type, {elements});
        decode_blocks(context, from, out);
        const std::vector<double> got = exact_of(out);
        INFO(case_text(format("{} codes of {} bits", elements, bits), type, on, coded_seed));
        for (std::size_t i = 0; i < drawn.size(); ++i) {
          const float wanted = from.values[static_cast<std::size_t>(drawn[i])] * from.scales[i / 64];
          CHECK(got[i] == static_cast<double>(type == DType::f32 ? wanted : static_cast<float>(bf16(wanted))));
        }
      }
}

#include "engine/data/jinja/values/text_case.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/data/tokenizer/utf8.h"

namespace longhaul {
namespace {

constexpr std::uint32_t sigma = 0x3A3, final_sigma = 0x3C2, dotted_i = 0x130, dot_above = 0x307;

// Capitals [first, last], each `step` apart, and the way to their small letters.
struct CapitalRange {
  std::uint32_t first, last, step, way;
};
constexpr CapitalRange capitals[] = {
    {0x41, 0x5A, 1, 32},   {0xC0, 0xD6, 1, 32},   {0xD8, 0xDE, 1, 32},   {0x100, 0x12E, 2, 1},  {0x132, 0x136, 2, 1},
    {0x139, 0x147, 2, 1},  {0x14A, 0x176, 2, 1},  {0x179, 0x17D, 2, 1},  {0x386, 0x386, 1, 38}, {0x388, 0x38A, 1, 37},
    {0x38C, 0x38C, 1, 64}, {0x38E, 0x38F, 1, 63}, {0x391, 0x3A1, 1, 32}, {0x3A3, 0x3AB, 1, 32}, {0x400, 0x40F, 1, 80},
    {0x410, 0x42F, 1, 32}, {0x460, 0x480, 2, 1},  {0x48A, 0x4BE, 2, 1},  {0x4C0, 0x4C0, 1, 15}, {0x4C1, 0x4CD, 2, 1},
    {0x4D0, 0x52E, 2, 1},
};

std::uint32_t lower(std::uint32_t c) {
  if (c == 0x178) return 0xFF;
  for (const CapitalRange& range : capitals)
    if (c >= range.first && c <= range.last && (c - range.first) % range.step == 0) return c + range.way;
  return c;
}

}  // namespace

bool has_case(std::uint32_t c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= 0xC0 && c <= 0x17F && c != 0xD7 && c != 0xF7) ||
         (c >= 0x386 && c <= 0x3CE && c != 0x387) || (c >= 0x400 && c <= 0x52F);
}

bool knows_case(std::uint32_t c) {
  // Latin to Extended-A, Greek, Cyrillic; Hebrew to Myanmar; punctuation and signs; CJK, Hangul, pictures.
  static constexpr std::pair<std::uint32_t, std::uint32_t> ranges[] = {
      {0, 0x17F},       {0x386, 0x3CE},   {0x400, 0x52F},   {0x590, 0x109F},  {0x2000, 0x20FF},
      {0x2190, 0x245F}, {0x2500, 0x2BFF}, {0x3000, 0xA63F}, {0xAC00, 0xD7A3}, {0x1F000, 0x1FAFF}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](const auto& range) { return c >= range.first && c <= range.second; });
}

std::string lower_case(std::string_view text) {
  std::string out;
  bool follows_letter = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = read_utf8(text, at);
    at += c.length;
    const bool ends = at >= text.size() || !has_case(read_utf8(text, at).value);
    if (c.value == sigma && follows_letter && ends) {
      append_utf8(out, final_sigma);
    } else if (c.value == dotted_i) {
      append_utf8(out, 'i');
      append_utf8(out, dot_above);
    } else {
      append_utf8(out, lower(c.value));
    }
    follows_letter = has_case(c.value);
  }
  return out;
}

}  // namespace longhaul

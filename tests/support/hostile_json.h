// JSON texts that have made readers slow or large, of any length.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace longhaul {

struct HostileJson {
  std::string name;
  std::string (*text)(std::size_t bytes);  // about so long
};

namespace hostile {

inline std::string hex_of(std::size_t number) {
  std::string text;
  for (; number > 0; number /= 16) text.insert(text.begin(), "0123456789abcdef"[number % 16]);
  return text;
}

// {"100":0,...,"100":0,...}: each key twice, far from the other.
inline std::string repeated_keys(std::size_t bytes) {
  std::string half;
  for (std::size_t key = 0x10000; half.size() < bytes / 2; ++key) half += '"' + hex_of(key) + "\":0,";
  std::string text = "{" + half + half;
  text.back() = '}';
  return text;
}
inline std::string one_key(std::size_t bytes) {
  std::string text = "{";
  while (text.size() < bytes) text += "\"\":0,";
  text.back() = '}';
  return text;
}
inline std::string zeros(std::size_t bytes) {
  std::string text = "[";
  while (text.size() < bytes) text += "0,";
  text.back() = ']';
  return text;
}
// As deep as is taken, side by side.
inline std::string nested_lists(std::size_t bytes) {
  std::string text = "[";
  while (text.size() < bytes) text += std::string(511, '[') + std::string(511, ']') + ",";
  text.back() = ']';
  return text;
}
inline std::string too_deep(std::size_t bytes) {
  return std::string(bytes, '[');
}
inline std::string nested_tables(std::size_t bytes) {
  std::string text = "[";
  while (text.size() < bytes) {
    for (int i = 0; i < 500; ++i) text += "{\"\":";
    text += "0" + std::string(500, '}') + ",";
  }
  text.back() = ']';
  return text;
}
inline std::string pairs(std::size_t bytes) {
  std::string text = "[";
  while (text.size() < bytes) text += "[0],[0,0,0],{\"a\":[]},\"seventeen letters\",";
  text.back() = ']';
  return text;
}

}  // namespace hostile

inline std::vector<HostileJson> hostile_json() {
  return {{"repeated keys", hostile::repeated_keys},
          {"one key", hostile::one_key},
          {"[0,0,...", hostile::zeros},
          {"nested lists", hostile::nested_lists},
          {"too deep", hostile::too_deep},
          {"nested tables", hostile::nested_tables},
          {"small lists and tables", hostile::pairs}};
}

}  // namespace longhaul

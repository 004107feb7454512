// A text that many places name, such as the file that a hundred thousand values stood in: a copy costs no allocation.
// Never changed; copies may be used by several threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace longhaul {

class SharedText {
 public:
  SharedText() = default;
  // Implicit on purpose, as std::string's are. NOLINTBEGIN(google-explicit-constructor)
  SharedText(const char* text) : SharedText(std::string(text)) {}
  SharedText(std::string text) : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}
  operator const std::string&() const { return str(); }
  // NOLINTEND(google-explicit-constructor)

  const std::string& str() const {
    static const std::string none;
    return text_ ? *text_ : none;
  }
  bool empty() const { return !text_; }
  bool operator==(const SharedText& other) const { return text_ == other.text_ || str() == other.str(); }

 private:
  std::shared_ptr<const std::string> text_;  // null for ""
};

}  // namespace longhaul
